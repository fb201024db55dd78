//! `make docs`: writes the manual pages, the completions, the journal's catalog and the packaged `host.toml` from the
//! tables in the code, and the notices of the crates that are built in.
//!
//! `docs FOLDER` writes all but the profile into the folder; `docs --host-toml FILE` writes the packaged profile. It
//! is a program of its own so that neither the daemon nor the tool carries what only a package needs.

mod notices;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["--host-toml", file] => write(Path::new(file), text::host_toml().as_bytes()),
        [folder] if !folder.starts_with('-') => write_all(Path::new(folder)),
        _ => Err(anyhow::anyhow!("expected a folder, or --host-toml and a file")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write;
            // Nobody may be there to read it.
            let _ = writeln!(std::io::stderr(), "docs: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn write_all(folder: &Path) -> anyhow::Result<()> {
    text::all().into_iter().try_for_each(|(name, text)| write(&folder.join(name), &text))?;
    write(&folder.join("notices"), notices::notices()?.as_bytes())
}

fn write(file: &Path, text: &[u8]) -> anyhow::Result<()> {
    let folder = file.parent().map_or_else(PathBuf::new, PathBuf::from);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    std::fs::write(file, text).with_context(|| format!("cannot write `{}`", file.display()))
}
