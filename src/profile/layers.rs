//! Which files make up a host's profile, in which order.
//!
//! ```text
//! /usr/lib/stoker/host.toml            the package's
//! /etc/stoker/host.toml                the operator's
//! /usr/lib/stoker/host.toml.d/*.toml   drop-ins, those of both folders sorted together by file name
//! /etc/stoker/host.toml.d/*.toml
//! ```
//!
//! A later one wins, key by key. Of two drop-ins of one name the one in `/etc` counts and masks the other, as
//! systemd has it; so an empty one, or a link to `/dev/null`, takes the package's away. Any of them may be missing,
//! but not all.
//!
//! Not here: what is in them (`check`).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::profile::check::{LARGEST_FILE, Layer, layered};
use crate::profile::{Effective, HostProfile, Reported};

/// Where the package has its layers.
pub const VENDOR: &str = "/usr/lib/stoker";
/// Where the operator has theirs.
pub const LOCAL: &str = "/etc/stoker";

const MAIN: &str = "host.toml";
const DROP_INS: &str = "host.toml.d";

/// Most drop-ins of a folder: one for each pool that a host may have, and as many again. More are a mishap.
const MOST_DROP_INS: usize = 128;

/// Where a profile is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layers {
    /// These files alone, a later over an earlier. There is at least one.
    Files(Vec<PathBuf>),
    /// Those of a host.
    Host {
        /// The package's folder.
        vendor: PathBuf,
        /// The operator's folder.
        local: PathBuf,
    },
}

impl Layers {
    /// These files, or where there are none, the layers of this host; systemd may have said where the operator's are.
    pub fn of(files: Vec<PathBuf>) -> Layers {
        if !files.is_empty() {
            return Layers::Files(files);
        }
        // systemd separates several by colons; the first is ours.
        let said =
            std::env::var_os("CONFIGURATION_DIRECTORY").and_then(|all| std::env::split_paths(&all).next());
        let local = said.filter(|path| path.is_absolute()).unwrap_or_else(|| LOCAL.into());
        Layers::Host { vendor: VENDOR.into(), local }
    }

    /// The files that count, in their order.
    ///
    /// # Errors
    /// When a folder cannot be read, or nothing is there.
    pub fn files(&self) -> Result<Vec<PathBuf>, Reported> {
        let (vendor, local) = match self {
            Layers::Files(files) => return Ok(files.clone()),
            Layers::Host { vendor, local } => (vendor, local),
        };
        let mains = [vendor.join(MAIN), local.join(MAIN)];
        let mut files: Vec<PathBuf> = mains.iter().filter(|path| is_written(path)).cloned().collect();
        let folders = [vendor.join(DROP_INS), local.join(DROP_INS)];
        let mut drop_ins = BTreeMap::new();
        for folder in &folders {
            // The operator's comes second and takes the name.
            let found = drop_ins_of(folder);
            drop_ins.extend(found.map_err(|source| Reported::Unreadable { path: folder.clone(), source })?);
        }
        files.extend(drop_ins.into_values());
        if files.is_empty() {
            let looked = mains.iter().map(|path| format!("`{}`", path.display()));
            let folders = folders.iter().map(|folder| format!("`{}/*.toml`", folder.display()));
            return Err(Reported::Missing { looked: looked.chain(folders).collect() });
        }
        Ok(files)
    }

    /// The profile that they describe, with the origin of each value.
    ///
    /// # Errors
    /// When nothing is there, a file cannot be read, or anything in any of them is wrong.
    pub fn read(&self) -> Result<Effective, Reported> {
        let layer = |path: PathBuf| match read_file(&path) {
            Ok(bytes) => Ok(Layer { file: path.display().to_string(), bytes }),
            Err(source) => Err(Reported::Unreadable { path, source }),
        };
        let layers = self.files()?.into_iter().map(layer).collect::<Result<Vec<_>, _>>()?;
        Ok(layered(layers)?)
    }
}

/// The profile in one file.
///
/// # Errors
/// When the file cannot be read, and when anything in it is wrong.
pub fn read(path: &Path) -> Result<HostProfile, Reported> {
    Layers::Files(vec![path.into()]).read().map(|effective| effective.profile)
}

/// Whether there is something to read, be it only a link that leads nowhere, which is worth an error.
fn is_written(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// The drop-ins of a folder by their file names; one that is not there has none.
fn drop_ins_of(folder: &Path) -> io::Result<Vec<(std::ffi::OsString, PathBuf)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if found.len() == MOST_DROP_INS {
            return Err(io::Error::other(format!("it has more than {MOST_DROP_INS} drop-ins")));
        }
        let path = entry.path();
        // Editors leave files behind that begin with a dot.
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !hidden && path.extension().is_some_and(|end| end == "toml") {
            found.push((entry.file_name(), path));
        }
    }
    Ok(found)
}

/// A file's bytes, as many as are looked at. What is no file could keep its reader waiting for ever.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_char_device() && fs::canonicalize(path)? == Path::new("/dev/null") {
        return Ok(Vec::new());
    }
    if !kind.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to see that the file is too large.
    File::open(path)?.take(LARGEST_FILE as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: &str = "[pool.p]\nkind = 'sandbox'\nimage = 'i'\n";

    /// A host with these files: path below the folder of both, and text; `None` is a link to /dev/null.
    fn host(files: &[(&str, Option<&str>)]) -> (tempfile::TempDir, Layers) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match text {
                Some(text) => fs::write(path, text).unwrap(),
                None => std::os::unix::fs::symlink("/dev/null", path).unwrap(),
            }
        }
        let layers = Layers::Host { vendor: folder.path().join("usr"), local: folder.path().join("etc") };
        (folder, layers)
    }

    fn names(folder: &tempfile::TempDir, layers: &Layers) -> Vec<String> {
        let files = layers.files().unwrap();
        files.iter().map(|path| path.strip_prefix(folder.path()).unwrap().display().to_string()).collect()
    }

    #[test]
    fn drop_ins_of_both_folders_are_sorted_together_and_the_operators_mask() {
        let (folder, layers) = host(&[
            ("etc/host.toml", Some("[host]\nmax_starts = 2\n")),
            ("usr/host.toml", Some(POOL)),
            ("usr/host.toml.d/20-b.toml", Some("[host]\nmax_starts = 20\nfloor = '1GiB'\n")),
            ("etc/host.toml.d/30-c.toml", Some("[host]\nmax_starts = 30\n")),
            ("etc/host.toml.d/10-a.toml", Some("[pool.p]\npids = 16\n")),
            ("usr/host.toml.d/40-d.toml", Some("[host]\nmax_starts = 40\n")),
            ("etc/host.toml.d/40-d.toml", None),
            ("etc/host.toml.d/.50-e.toml", Some("no TOML")),
            ("etc/host.toml.d/README", Some("no TOML")),
        ]);
        insta::assert_snapshot!(names(&folder, &layers).join("\n"), @r#"
        usr/host.toml
        etc/host.toml
        etc/host.toml.d/10-a.toml
        usr/host.toml.d/20-b.toml
        etc/host.toml.d/30-c.toml
        etc/host.toml.d/40-d.toml
        "#);
        let effective = layers.read().unwrap();
        assert_eq!(effective.profile.host.max_starts, 30);
        assert_eq!(effective.profile.pools["p"].template.pids, 16);
        let told: Vec<_> = ["host.max_starts", "host.floor", "pool.p.pids", "pool.p.image"]
            .map(|key| {
                effective.origin(key).unwrap().to_string().replace(&folder.path().display().to_string(), "")
            })
            .into();
        insta::assert_snapshot!(told.join("\n"), @r#"
        /etc/host.toml.d/30-c.toml:2
        /usr/host.toml.d/20-b.toml:3
        /etc/host.toml.d/10-a.toml:2
        /usr/host.toml:3
        "#);
        assert_eq!(effective.origin("pool.p.shm"), None);
    }

    #[test]
    fn all_mistakes_of_all_layers_come_at_once_and_in_their_order() {
        let (folder, layers) = host(&[
            ("usr/host.toml", Some("[pool.p]\nkind = 'sandbox'\nmemory_max = '512MiB'\npidz = 1\n")),
            ("etc/host.toml", Some("[host]\nfloor = 5\n[pool.p]\nmemory_expect = '1GiB'\n")),
            ("etc/host.toml.d/a.toml", Some("[host]\nfloor = '5%'\nmax_starts = 99\n")),
        ]);
        let told =
            layers.read().unwrap_err().to_string().replace(&format!("{}/", folder.path().display()), "");
        insta::assert_snapshot!(told, @r#"
        usr/host.toml:4:1: pool.p.pidz: there is no such key
          4 | pidz = 1
            | ^^^^
          hint: did you mean `pids`?

        etc/host.toml:2:9: host.floor: expected a share or a size with a unit, such as "6%" or "4GiB", found the number 5
          2 | floor = 5
            |         ^
          hint: write it as text: "5%"

        etc/host.toml:3:1: pool.p.image: this key is required and missing
          3 | [pool.p]
            | ^^^^^^^^
          hint: add a line such as: image = "stoker/python:latest"

        etc/host.toml:4:17: pool.p.memory_expect: expected at most `memory_max`, which is 512MiB, found 1GiB
          4 | memory_expect = '1GiB'
            |                 ^^^^^^

        etc/host.toml.d/a.toml:3:14: host.max_starts: expected at most 64, found 99
          3 | max_starts = 99
            |              ^^
        "#);
    }

    #[test]
    fn layers_join_tables_and_replace_the_rest() {
        let files = |later: &str| {
            let (_folder, layers) = host(&[
                (
                    "usr/host.toml",
                    Some(
                        "[pool.p]\nkind = 'sandbox'\nimage = 'i'\nprobe = ['a', 'b']\nwarm = { min = 2, max = 5 }\nenv = { A = '1', B = '2' }\n",
                    ),
                ),
                ("etc/host.toml", Some(later)),
            ]);
            layers.read().map(|effective| effective.profile.pools).map_err(|wrong| wrong.to_string())
        };
        let pools = files("[pool.p]\nprobe = ['c']\nwarm.max = 3\nenv.B = '3'\n").unwrap();
        let pool = &pools["p"];
        assert_eq!(pool.template.probe, crate::profile::Probe::Command(vec!["c".into()]));
        assert_eq!((pool.warm.min, pool.warm.max), (2, 3));
        assert_eq!(pool.template.env.values().collect::<Vec<_>>(), ["1", "3"]);
        let other = "[pool.q]\nkind = 'sandbox'\nimage = 'i'\n";
        let pools = files(&format!("[pool.p]\nenabled = false\n{other}")).unwrap();
        assert_eq!(pools.keys().map(ToString::to_string).collect::<Vec<_>>(), ["q"]);
        assert!(
            files("[pool.p]\nenabled = false")
                .unwrap_err()
                .contains("all that are written are `enabled = false`")
        );
        assert!(
            files(&format!("{other}[pool.gone]\nenabled = false")).is_ok(),
            "what is not there can be disabled"
        );
        assert!(
            files(&format!("{other}[pool.gone]\nenabled = false\npids = 1"))
                .unwrap_err()
                .contains("at least 16")
        );
    }

    #[test]
    fn a_host_without_any_says_where_it_looked() {
        let (folder, layers) = host(&[]);
        let told = layers.read().unwrap_err().to_string().replace(&folder.path().display().to_string(), "");
        insta::assert_snapshot!(told, @"there is no host profile: none of `/usr/host.toml`, `/etc/host.toml`, `/usr/host.toml.d/*.toml`, `/etc/host.toml.d/*.toml` is there");
        let fifo = Layers::Files(vec!["/dev/zero".into()]);
        assert!(matches!(fifo.read(), Err(Reported::Unreadable { .. })));
    }
}
