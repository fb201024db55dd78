//! The slice of all containers over copies of kernel files, both versions, and what else speaks of pressure.

use std::cell::Cell;
use std::fs;
use std::path::Path;

use crate::control::message::{Read, SliceMemory, Unread};
use crate::quantity::{Bytes, Instant, Permille};

use super::*;

const NOW: Instant = Instant::from_nanos(1_000_000_000);
const STALLS: &str =
    "some avg10=30.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=12.34 avg60=0.00 avg300=0.00 total=1\n";

/// A host with nothing but the trees.
struct Stage(tempfile::TempDir);

impl Stage {
    fn new() -> Stage {
        Stage(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn unified(&self) -> Root {
        Root::unified(self.path().join("proc"), self.path())
    }

    fn legacy(&self) -> Root {
        Root::legacy(self.path().join("proc"), self.path())
    }
}

fn hard(measure: &mut Measure) -> Read<Bytes> {
    measure.sample(NOW).slice.map(|SliceMemory { hard }| hard)
}

#[test]
fn a_slice_that_is_not_there_holds_nothing_and_one_that_comes_is_found() {
    let stage = Stage::new();
    let mut measure = Measure::new(stage.unified());
    assert_eq!(hard(&mut measure), Ok(Bytes::ZERO));
    stage.write("stoker.slice/memory.current", "1000\n");
    stage.write("stoker.slice/memory.stat", "inactive_file 100\nactive_file 20\nslab_reclaimable 3\n");
    assert_eq!(hard(&mut measure), Ok(Bytes::new(877)));
}

#[test]
fn both_versions_count_what_the_kernel_cannot_take_back() {
    let stage = Stage::new();
    stage.write("memory/stoker.slice/memory.stat", "rss 1\ntotal_rss 500\ntotal_shmem 40\n");
    stage.write("memory/stoker.slice/memory.kmem.usage_in_bytes", "6\n");
    stage.write("unified/stoker.slice/memory.pressure", STALLS);
    let mut measure = Measure::new(stage.legacy());
    assert_eq!(hard(&mut measure), Ok(Bytes::new(546)));
    let sample = measure.sample(NOW);
    assert_eq!(sample.slice_stalled, Ok(Permille::new(123)));
    assert!(!sample.reclaims, "v1 has no such file");
    stage.write("memory/stoker.slice/memory.stat", "total_rss many\ntotal_shmem 40\n");
    assert_eq!(
        hard(&mut measure),
        Err(Unread("cannot read `memory.stat`: `total_rss` has no number".into()))
    );
}

#[test]
fn what_is_mangled_is_unknown_and_takes_nothing_else_with_it() {
    let stage = Stage::new();
    stage.write("stoker.slice/memory.current", "max\n");
    stage.write("stoker.slice/memory.stat", "inactive_file 100\nactive_file 20\nslab_reclaimable 3\n");
    stage.write("stoker.slice/memory.pressure", STALLS);
    stage.write("stoker.slice/memory.reclaim", "");
    let mut measure = Measure::new(stage.unified());
    let sample = measure.sample(NOW);
    assert_eq!(sample.slice, Err(Unread("cannot read `memory.current`: it is no number".into())));
    assert_eq!(sample.slice_stalled, Ok(Permille::new(123)));
    stage.write("stoker.slice/memory.current", "1000\n");
    stage.write("stoker.slice/memory.pressure", "garbage");
    let sample = measure.sample(NOW);
    assert_eq!(sample.slice, Ok(SliceMemory { hard: Bytes::new(877) }));
    assert!(sample.slice_stalled.is_err() && sample.reclaims);
}

#[test]
fn the_limits_of_the_slice_have_a_file_each() {
    let stage = Stage::new();
    let limits = stage.legacy().slice_limits().unwrap();
    let at = |name: &str| Ok(stage.path().join(name));
    assert_eq!(limits.memory, at("memory/stoker.slice/memory.limit_in_bytes"));
    assert_eq!(limits.cpu, at("cpu/stoker.slice/cpu.shares"));
    assert_eq!((limits.pids, limits.unified), (at("pids/stoker.slice/pids.max"), false));
    let limits = stage.unified().slice_limits().unwrap();
    assert_eq!(limits.memory, at("stoker.slice/memory.max"));
    assert_eq!((limits.cpu, limits.unified), (at("stoker.slice/cpu.weight"), true));
}

#[test]
fn memory_is_asked_for_until_who_asks_has_enough() {
    let stage = Stage::new();
    let file = fs::File::create(stage.path().join("memory.reclaim")).unwrap();
    let asked = Cell::new(0);
    let given = Reclaim::new(file).run(|| asked.replace(asked.get() + 1) < 3);
    assert_eq!(given, Bytes::mib(12));
    assert_eq!(fs::read_to_string(stage.path().join("memory.reclaim")).unwrap(), "4194304".repeat(3));
}

/// Whether it may have one is the kernel's to say; where there are no stalls to be told of, there is no trigger.
#[test]
fn a_trigger_is_had_or_refused() {
    let stage = Stage::new();
    assert_eq!(Trigger::on_memory(&stage.unified()).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    if let Ok(trigger) = Trigger::on_memory(&Root::host()) {
        trigger.wait(std::time::Duration::from_millis(1)).unwrap();
    }
}
