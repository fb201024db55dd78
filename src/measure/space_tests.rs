//! Tasks over copies of kernel files, and the disks of the host that runs the tests.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use crate::control::message::{HostPids, Read, Unread};
use crate::quantity::{Bytes, Instant};

use super::*;

const NOW: Instant = Instant::from_nanos(1_000_000_000);

/// Copies of `/proc` and of both trees, with a slice of some tasks.
struct Stage(tempfile::TempDir);

impl Stage {
    fn new() -> Stage {
        let stage = Stage(tempfile::tempdir().unwrap());
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/proc");
        for name in ["loadavg", "sys/kernel/pid_max", "sys/kernel/threads-max"] {
            stage.write(&format!("proc/{name}"), &fs::read_to_string(fixtures.join(name)).unwrap());
        }
        stage
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn unified(&self) -> Measure {
        Measure::new(Root::unified(self.0.path().join("proc"), self.0.path()))
    }

    fn legacy(&self) -> Measure {
        Measure::new(Root::legacy(self.0.path().join("proc"), self.0.path()))
    }
}

fn pids(measure: &mut Measure) -> Read<HostPids> {
    measure.sample(NOW).pids
}

#[test]
fn tasks_in_exact_numbers() {
    let stage = Stage::new();
    let (mut unified, mut legacy) = (stage.unified(), stage.legacy());
    let all = HostPids { most: 192_729, there: 1289, ours: 0 };
    assert_eq!(pids(&mut unified), Ok(all), "there is no slice");
    stage.write("stoker.slice/pids.current", "61\n");
    stage.write("pids/stoker.slice/pids.current", "62\n");
    assert_eq!(pids(&mut unified), Ok(HostPids { ours: 61, ..all }));
    assert_eq!(pids(&mut legacy), Ok(HostPids { ours: 62, ..all }));
    // What cannot be told of ours counts as others', which promises less.
    stage.write("stoker.slice/pids.current", "max\n");
    assert_eq!(pids(&mut unified), Ok(all));
    stage.write("proc/sys/kernel/pid_max", "32768\n");
    assert_eq!(pids(&mut unified), Ok(HostPids { most: 32_768, ..all }));
}

#[test]
fn one_number_that_is_missing_costs_the_figure_and_no_other() {
    for (name, text, why) in [
        ("loadavg", "0.31 0.42 0.27\n", "cannot read `loadavg`: a number is missing or mangled"),
        ("loadavg", "0.31 0.42 0.27 3/x 7\n", "cannot read `loadavg`: a number is missing or mangled"),
        ("loadavg", "0.31 0.42 0.27 3/1289 70211", "cannot read `loadavg`: it is empty or cut short"),
        ("sys/kernel/pid_max", "max\n", "cannot read `sys/kernel/pid_max`: it is no number"),
        ("sys/kernel/threads-max", "-1\n", "cannot read `sys/kernel/threads-max`: it is no number"),
    ] {
        let stage = Stage::new();
        let mut measure = stage.unified();
        stage.write(&format!("proc/{name}"), text);
        let sample = measure.sample(NOW);
        assert_eq!(sample.pids, Err(Unread(why.into())));
        assert!(sample.slice.is_ok());
        fs::remove_file(stage.0.path().join("proc").join(name)).unwrap();
        assert!(pids(&mut measure).is_err(), "{name} is gone");
    }
}

/// What the kernel says here, against a count of our own.
#[test]
fn this_hosts_tasks_and_disks() {
    let folder = tempfile::tempdir().unwrap();
    let mut measure = Measure::new(Root::host());
    let sample = measure.sample(NOW);
    assert_eq!(sample.engine_disk, Err(Unread("nobody has said where it is".into())));
    let pids = sample.pids.unwrap();
    assert!(pids.there > 0 && pids.ours <= pids.there && pids.there < pids.most, "{pids:?}");

    measure.engine_is_at(folder.path().to_owned());
    measure.state_is_at(folder.path().join("gone"));
    let sample = measure.sample(NOW);
    let disk = sample.engine_disk.unwrap();
    assert!(disk.free > Bytes::ZERO && disk.free < disk.total, "{disk:?}");
    let (free, total) = by_df(folder.path());
    assert_eq!(disk.total, total);
    let apart = disk.free.get().abs_diff(free.get());
    assert!(apart < 1 << 30, "df says {free}, we saw {}", disk.free);
    let why = sample.state_disk.unwrap_err().0;
    assert!(why.contains("gone") && why.contains("No such file"), "{why}");
}

/// What `df` says is available, and all of it.
fn by_df(folder: &Path) -> (Bytes, Bytes) {
    let said = std::process::Command::new("df").args(["-B1", "--output=avail,size"]).arg(folder).output();
    let said = String::from_utf8(said.unwrap().stdout).unwrap();
    let numbers = said.lines().nth(1).unwrap().split_whitespace().map(|n| Bytes::new(n.parse().unwrap()));
    let numbers: Vec<Bytes> = numbers.collect();
    (numbers[0], numbers[1])
}

proptest! {
    /// Whatever the files say, there is a figure or a reason, and no more is there than may be.
    #[test]
    fn mangled_files_are_read_or_refused(texts in prop::collection::vec("[0-9./ \n-]{0,40}", 3)) {
        let stage = Stage::new();
        for (name, text) in ["loadavg", "sys/kernel/pid_max", "sys/kernel/threads-max"].iter().zip(&texts) {
            stage.write(&format!("proc/{name}"), text);
        }
        if let Err(Unread(why)) = pids(&mut stage.unified()) {
            prop_assert!(!why.is_empty() && !why.contains('\n'));
        }
    }
}
