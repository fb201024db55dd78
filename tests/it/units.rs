//! The units, as systemd reads them: without a warning, and with little that the daemon could do beside its work.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::engine::skip;

/// Directives that systemd 252 does not know, by their first version: it would warn, on hosts that tests do not see.
const TOO_NEW: &[&str] =
    &["notify-reload", "FileDescriptorStorePreserve", "MemoryPressureWatch", "RestartSteps"];

/// A folder with the units, whose programs are those that were built; `None`, aloud, without `systemd-analyze`.
fn units() -> Option<(TempDir, Vec<PathBuf>)> {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        skip("there is no systemd-analyze (Debian's package systemd)");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/units")).unwrap() {
        let entry = entry.unwrap();
        if entry.path().extension().is_some_and(|end| end == "md") {
            continue;
        }
        let text = fs::read_to_string(entry.path()).unwrap();
        let text = text
            .replace("/usr/bin/stokerd", env!("CARGO_BIN_EXE_stokerd"))
            .replace("/usr/bin/stokerctl", env!("CARGO_BIN_EXE_stokerctl"));
        for word in TOO_NEW {
            let used = text.lines().any(|line| !line.starts_with('#') && line.contains(word));
            assert!(!used, "{}: systemd 252 does not know `{word}`", entry.path().display());
        }
        let place = folder.path().join(entry.file_name());
        fs::write(&place, text).unwrap();
        all.push(place);
    }
    assert!(all.len() >= 8, "{all:?}");
    Some((folder, all))
}

#[test]
fn systemd_reads_all_units_without_a_warning() {
    let Some((_folder, units)) = units() else { return };
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&units).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    // The pages come with the package. It reads the host's own units as well, and has words for some of those.
    let said = String::from_utf8(said).unwrap();
    let ours: Vec<_> = said.lines().filter(|line| line.contains("stoker")).collect();
    assert!(ours.is_empty(), "{ours:#?}");
    assert!(output.status.success(), "{said}");
}

#[test]
fn the_daemons_unit_is_exposed_by_less_than_three_and_a_half() {
    let Some((folder, _)) = units() else { return };
    let output = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--threshold=34", "--no-pager"])
        .arg(folder.path().join("stokerd.service"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("Overall exposure level"), "{said}");
}
