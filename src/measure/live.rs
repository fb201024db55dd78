//! The room on the host that runs the tests: a cgroup of our own, a child in it, and the crate's opinion.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use cgroups_rs::fs::Controllers;
use cgroups_rs::fs::cgroup::get_cgroups_relative_paths_by_pid;
use cgroups_rs::fs::cpuacct::CpuAcctController;
use cgroups_rs::fs::hierarchies::{self, UNIFIED_MOUNTPOINT, V1};
use cgroups_rs::fs::memory::MemController;

use crate::control::message::Unread;

use super::*;

const INSTANCE: InstanceId = InstanceId { run: 9, count: 1 };

/// Waits to be moved, then takes 4 MB; then again, and burns some processor time; then once more, and ends.
const SCRIPT: &str = "read go; held=$(head -c 4000000 /dev/zero | tr '\\0' x); echo ready
read go; n=0; while [ $n -lt 200000 ]; do n=$((n+1)); done; echo ready
read go";

#[test]
fn this_hosts_own_figures() {
    let mut measure = Measure::new(Root::host());
    let sample = measure.sample(Instant::from_nanos(1));
    let memory = sample.memory.unwrap();
    assert!(memory.available < memory.total && memory.available.get() > 0);
    assert_eq!(sample.cpu, Err(Unread("first look: no rate yet".into())));
    if PathBuf::from("/proc/pressure/memory").exists() {
        sample.pressure.unwrap();
    }
}

#[test]
fn a_cgroup_of_our_own() {
    let own = match Own::new() {
        Ok(own) => own,
        Err(why) => {
            let required =
                ["CI", "STOKER_REQUIRE_DOCKER"].iter().any(|name| std::env::var_os(name).is_some());
            assert!(!required, "{why}");
            println!("SKIPPED: {why}");
            return;
        }
    };
    let mut child = Talker::start();
    own.take(child.process.id());
    child.step();

    let mut measure = Measure::new(Root::host());
    measure.follow(INSTANCE, child.process.id()).unwrap();
    // The child waits for us at each look, so that both readers see the same numbers.
    let before = own.nanos_by_the_crate();
    let first = measure.sample(Instant::from_nanos(1_000_000_000));
    let hard = first.instances[&INSTANCE].memory.clone().unwrap().get();
    assert!(hard > 3 << 20, "the child holds 4 MB, we saw {hard}");
    // Counters for each processor are folded in batches, so the two looks may differ by some pages.
    assert!(hard.abs_diff(own.hard_by_the_crate()) < 1 << 20, "{hard} and {}", own.hard_by_the_crate());

    child.step();
    let used = own.nanos_by_the_crate() - before;
    let second = measure.sample(Instant::from_nanos(2_000_000_000));
    let rate = second.instances[&INSTANCE].cpu.clone().unwrap().get();
    // From its word to its waiting the child runs on for a moment, which falls before a look or behind it.
    assert!(rate > 0 && rate.abs_diff(used / 1_000_000) <= 2 + rate / 100, "{rate} and {used} ns");
    assert!(second.cpu.is_ok(), "{:?}", second.cpu);
    own.check_paths(child.process.id());

    child.end();
    drop(own);
    let last = measure.sample(Instant::from_nanos(3_000_000_000));
    let gone = last.instances[&INSTANCE].clone();
    assert!(gone.memory.clone().unwrap_err().0.starts_with("gone: "), "{gone:?}");
    assert!(gone.cpu.clone().unwrap_err().0.starts_with("gone: "), "{gone:?}");
}

/// Our cgroup: one directory, or one for each v1 controller. Removed at the end, whatever happens.
struct Own {
    unified: bool,
    memory: PathBuf,
    cpu: PathBuf,
}

impl Own {
    fn new() -> Result<Own, String> {
        let name = format!("stoker-measure-test-{}", std::process::id());
        let unified = hierarchies::is_cgroup2_unified_mode();
        let tree = |controller: Controllers| match unified {
            true => Ok(PathBuf::from(UNIFIED_MOUNTPOINT)),
            false => {
                V1::new().get_mount_point(controller).map(|(point, _)| point).ok_or("no such controller")
            }
        };
        let own = Own {
            unified,
            memory: tree(Controllers::Mem)?.join(&name),
            cpu: tree(Controllers::CpuAcct)?.join(&name),
        };
        for dir in [&own.memory, &own.cpu] {
            if let Err(error) = fs::create_dir(dir)
                && !dir.exists()
            {
                return Err(format!("cannot make `{}`: {error}", dir.display()));
            }
        }
        match own.memory.join("memory.stat").exists() {
            true => Ok(own),
            false => Err("the memory controller is not enabled for a cgroup of ours".into()),
        }
    }

    fn take(&self, pid: u32) {
        for dir in [&self.memory, &self.cpu] {
            fs::write(dir.join("cgroup.procs"), pid.to_string()).unwrap();
        }
    }

    fn hard_by_the_crate(&self) -> u64 {
        let controller = MemController::new(self.memory.clone(), PathBuf::new(), self.unified);
        let seen = controller.memory_stat();
        match self.unified {
            true => ["inactive_file", "active_file", "slab_reclaimable"]
                .iter()
                .fold(seen.usage_in_bytes, |rest, key| rest.saturating_sub(seen.stat.raw[*key])),
            false => seen.stat.total_rss + seen.stat.total_shmem + controller.kmem_stat().usage_in_bytes,
        }
    }

    fn nanos_by_the_crate(&self) -> u64 {
        if self.unified {
            // The crate hands `cpu.stat` on as text.
            let text = fs::read_to_string(self.cpu.join("cpu.stat")).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("usage_usec ")).unwrap();
            return line.parse::<u64>().unwrap() * 1000;
        }
        CpuAcctController::new(self.cpu.clone(), PathBuf::new()).cpuacct().usage
    }

    /// The crate finds the same cgroup by the same pid.
    fn check_paths(&self, pid: u32) {
        let paths = get_cgroups_relative_paths_by_pid(pid).unwrap();
        let path = &paths[if self.unified { "" } else { "memory" }];
        let place = Root::host().place_of(pid, &mut Page::new()).unwrap();
        assert!(self.memory.ends_with(path.trim_start_matches('/')), "{path}");
        assert_eq!(
            place,
            match self.unified {
                true => root::Place::Unified(self.memory.clone()),
                false =>
                    root::Place::Legacy { memory: Some(self.memory.clone()), cpuacct: Some(self.cpu.clone()) },
            }
        );
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        for dir in [&self.memory, &self.cpu] {
            // One directory serves both on v2, and is gone the second time.
            let _ = fs::remove_dir(dir);
        }
    }
}

/// A child that goes on when told, and says when it is done.
struct Talker {
    process: Child,
    tell: ChildStdin,
    hear: BufReader<ChildStdout>,
}

impl Talker {
    fn start() -> Talker {
        let mut process = Command::new("sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, hear) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        Talker { process, tell, hear }
    }

    fn step(&mut self) {
        self.tell.write_all(b"go\n").unwrap();
        let mut line = String::new();
        self.hear.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }

    fn end(mut self) {
        self.tell.write_all(b"go\n").unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        // A cgroup with a process in it cannot be removed; one that has ended already is no harm.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
