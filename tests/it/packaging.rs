//! What goes with the package: the archive that is made of it, and the script that installs from there. Both with a few
//! small files instead of programs, below a folder of the test's own; the host test has the real package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::engine::skip;

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging").join(name)
}

fn put(folder: &Path, name: &str, text: &str) {
    let file = folder.join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

/// The files below a folder, sorted.
fn files(folder: &Path) -> Vec<String> {
    let (mut found, mut ahead) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = ahead.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => ahead.push(path),
                false => found.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned()),
            }
        }
    }
    found.sort();
    found
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].concat().into_iter().map(char::from).collect()
}

/// An unpacked archive with these files, and a root to install to.
struct Archive {
    folder: TempDir,
}

impl Archive {
    fn of(tree: &[(&str, &str)]) -> Archive {
        let folder = tempfile::tempdir().unwrap();
        fs::copy(packaging("install.sh"), folder.path().join("install.sh")).unwrap();
        tree.iter().for_each(|(name, text)| put(&folder.path().join("tree"), name, text));
        Archive { folder }
    }

    /// Runs its script as a relative path, as people do; it goes on in its own folder.
    fn run(&self, arguments: &[&str]) -> Output {
        let name = self.folder.path().file_name().unwrap();
        let script = Path::new(name).join("install.sh");
        let mut bash = Command::new("bash");
        bash.arg(script).args(arguments).current_dir(self.folder.path().parent().unwrap());
        bash.output().unwrap()
    }

    fn install(&self, root: &Path, more: &[&str]) -> String {
        let output = self.run(&[&["--root", root.to_str().unwrap()], more].concat());
        assert!(output.status.success(), "{}", said(&output));
        said(&output)
    }
}

#[test]
fn the_installer_says_all_of_its_help_and_what_is_wrong() {
    let archive = Archive::of(&[]);
    let help = archive.run(&["--help"]);
    assert!(help.status.success(), "{}", said(&help));
    insta::assert_snapshot!(said(&help), @"
    Installs Stoker from the folder that its archive unpacks to, on distributions without its .deb.

      ./install.sh [--root DIR]            install, or upgrade what is there; /etc/stoker is never overwritten
      ./install.sh --uninstall             drain, stop and remove; configuration and records stay
      ./install.sh --uninstall --purge     these too

    With --root, files are put below DIR and nothing is run (for images). Exit codes: 64 usage, 69 not this host, 77 not root,
    78 installed, but the profile is refused and the old stokerd goes on.
    ");
    for (arguments, wrong) in [
        (&["--purge"][..], "--purge goes with --uninstall"),
        (&["--root", "/no/such/folder"], "--root needs a folder that is there"),
        (&["--now"], "unknown argument `--now'"),
    ] {
        let output = archive.run(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        assert!(said(&output).contains(wrong), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn what_is_installed_is_upgraded_and_removed_and_what_was_edited_stays() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let old = [("usr/bin/stokerd", "1"), ("usr/share/stoker/old", "1"), ("etc/stoker/host.toml", "1")];
    let new = [("usr/bin/stokerd", "2"), ("usr/share/stoker/new", "2"), ("etc/stoker/host.toml", "2")];
    let text = |name: &str| fs::read_to_string(root.join(name)).unwrap();

    Archive::of(&old).install(root, &[]);
    assert_eq!(
        files(root),
        ["etc/stoker/host.toml", "usr/bin/stokerd", "usr/lib/stoker/files", "usr/share/stoker/old"]
    );

    put(root, "etc/stoker/host.toml", "mine");
    put(root, "var/lib/stoker/stoker.db", "records");
    let upgraded = Archive::of(&new).install(root, &[]);
    assert!(upgraded.contains("kept /etc/stoker/host.toml"), "{upgraded}");
    assert_eq!([text("etc/stoker/host.toml"), text("etc/stoker/host.toml.new")], ["mine", "2"]);
    assert_eq!(text("usr/bin/stokerd"), "2");
    let kept = ["etc/stoker/host.toml", "etc/stoker/host.toml.new"];
    let there =
        ["usr/bin/stokerd", "usr/lib/stoker/files", "usr/share/stoker/new", "var/lib/stoker/stoker.db"];
    assert_eq!(files(root), [&kept[..], &there].concat());

    Archive::of(&new).install(root, &["--uninstall"]);
    assert_eq!(files(root), [&kept[..], &["var/lib/stoker/stoker.db"]].concat());
    assert!(!root.join("usr/share/stoker").exists(), "an empty folder is left");

    let again = Archive::of(&new);
    let nothing = again.run(&["--root", root.to_str().unwrap(), "--uninstall"]);
    assert_eq!(nothing.status.code(), Some(69), "{}", said(&nothing));
    again.install(root, &[]);
    again.install(root, &["--uninstall", "--purge"]);
    assert_eq!(files(root), [""; 0]);
}

#[test]
fn the_archive_has_the_packages_files_with_static_programs_and_zsh_looks_where_others_look() {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        return skip("there is no dpkg-deb (Debian's package dpkg)");
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let tree = folder.join("tree");
    put(
        &tree,
        "DEBIAN/control",
        "Package: stoker\nVersion: 1.2.3\nArchitecture: all\nMaintainer: Nobody <nobody@stoker.invalid>\nDescription: a few files\n",
    );
    for name in [
        "usr/bin/stokerd",
        "usr/share/zsh/vendor-completions/_stokerd",
        "usr/share/doc/stoker/changelog.Debian.gz",
    ] {
        put(&tree, name, name);
    }
    let done = |command: &mut Command| {
        let output = command.current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", said(&output));
        said(&output)
    };
    done(Command::new("dpkg-deb").args(["--root-owner-group", "--build", "tree", "stoker.deb"]));
    // A program that asks for a loader, and the least that is one and does not: the header of an ELF file.
    let programs = folder.join("programs");
    let linked = |statically: bool| {
        let program = fs::read(std::env::current_exe().unwrap()).unwrap();
        put(&programs, "stokerd", "");
        fs::write(programs.join("stokerd"), if statically { static_program() } else { program }).unwrap();
    };
    linked(false);
    let refused = Command::new("bash")
        .arg(packaging("tarball.sh"))
        .args(["stoker.deb", "programs", "refused"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        !refused.status.success() && said(&refused).contains("stokerd is not linked statically"),
        "{}",
        said(&refused)
    );
    linked(true);
    let pack = |to: &str| {
        let made =
            done(Command::new("bash").arg(packaging("tarball.sh")).args(["stoker.deb", "programs", to]));
        assert_eq!(made.trim(), format!("{to}/stoker-1.2.3-linux-all.tar.gz"));
        folder.join(made.trim())
    };
    let (archive, again) = (pack("one"), pack("other"));
    assert!(fs::read(&archive).unwrap() == fs::read(again).unwrap(), "one package gives two archives");
    done(Command::new("tar").arg("-xzf").arg(&archive));
    assert_eq!(
        files(&folder.join("stoker-1.2.3-linux-all")),
        [
            "LICENSE-APACHE",
            "LICENSE-MIT",
            "README.md",
            "install.sh",
            "tree/usr/bin/stokerd",
            "tree/usr/share/zsh/site-functions/_stokerd"
        ]
    );
}

/// A header alone: 64 bits, little endian, for x86_64, without segments and sections (elf(5)).
fn static_program() -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    for (at, value) in [(16, 2), (18, 62), (20, 1), (52, 64)] {
        header[at] = value;
    }
    header
}

/// shellcheck finds what a shell says only when it comes to the line.
#[test]
fn scripts_have_no_faults() {
    if Command::new("shellcheck").arg("--version").output().is_err() {
        return skip("there is no shellcheck (Debian's package shellcheck)");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let scripts: Vec<_> = ["packaging", "tests/host"]
        .into_iter()
        .flat_map(|folder| files(&root.join(folder)).into_iter().map(move |file| format!("{folder}/{file}")))
        .filter(|file| file.ends_with(".sh") || file.starts_with("packaging/deb/"))
        .collect();
    assert!(scripts.len() > 20, "{scripts:?}");
    let output = Command::new("shellcheck")
        .args(["--severity=warning", "--external-sources"])
        .args(&scripts)
        .current_dir(root)
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", said(&output));
}
