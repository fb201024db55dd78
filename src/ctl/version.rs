//! Which version this is, and which build of it.

use std::sync::LazyLock;

/// The package's version and, where the build says so, what it was built from: `0.1.0 (1bec3ff)`.
///
/// Packages are built with `STOKER_BUILD`, the commit (see the Makefile); a build by hand has none.
pub fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let version = env!("CARGO_PKG_VERSION");
        option_env!("STOKER_BUILD").map_or(version.to_owned(), |build| format!("{version} ({build})"))
    });
    &VERSION
}
