//! The room over copies of kernel files, both versions. The live host has its own tests (`live`).

use std::fs;
use std::path::{Path, PathBuf};

use cgroups_rs::fs::cpuacct::CpuAcctController;
use cgroups_rs::fs::memory::MemController;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::control::message::{HostCpu, HostMemory, InstanceUse, Kills, Pressure, Read, Unread};
use crate::quantity::{Bytes, MilliCpu, Permille};

use super::*;

const FIRST: Instant = Instant::from_nanos(10_000_000_000);
pub(super) const SECOND: Instant = Instant::from_nanos(11_000_000_000);
pub(super) const INSTANCE: InstanceId = InstanceId { run: 7, count: 1 };
pub(super) const OTHER: InstanceId = InstanceId { run: 7, count: 2 };

#[test]
fn the_host_in_exact_numbers() {
    let stage = Stage::new(Version::Two);
    let mut measure = stage.measure();
    let sample = measure.sample(FIRST);
    let total = Bytes::new(24_731_708 << 10);
    assert_eq!(sample.memory, Ok(HostMemory { total, available: Bytes::new(24_216_360 << 10) }));
    assert_eq!(sample.cpu, no("first look: no rate yet"));
    let pressure = Pressure {
        memory_some: Permille::new(19),
        memory_full: Permille::new(7),
        cpu_some: Permille::new(55),
        io_some: Permille::new(120),
    };
    assert_eq!(sample.pressure, Ok(pressure));

    for (line, expected) in [
        // 150 busy and 50 idle ticks, of two cores.
        ("cpu  29562 0 5572 192646 998 0 168 41 0 0", Ok(1500)),
        // What only moves from idle to waiting for the disk is not busy.
        ("cpu  29562 0 5572 192546 1198 0 168 41 0 0", Ok(0)),
        ("cpu  29562 0 5572 192546 1198 0 168 41 0 0", Err("no tick has passed since the last look")),
        // The idle count steps back by one: all of the rest was busy.
        ("cpu  29572 0 5572 192545 1198 0 168 41 0 0", Ok(2000)),
        ("cpu  29500 0 5572 192645 1198 0 168 41 0 0", Err("the counter went backwards")),
    ] {
        stage.edit("proc/stat", |text| text.replace(text.lines().next().unwrap(), line));
        let expected = expected.map(|busy| HostCpu { cores: MilliCpu::cores(2), busy: MilliCpu::new(busy) });
        assert_eq!(measure.sample(SECOND).cpu, expected.map_err(|why| Unread(why.into())), "{line}");
    }
}

#[test]
fn an_instance_in_exact_numbers() {
    for (version, memory, edits) in [
        (Version::One, 32_223_232 + 3_145_728 + 368_640, ("cpuacct.usage", "162408857", "912408857")),
        (
            Version::Two,
            125_833_216 - 52_428_800 - 16_744_448 - 2_621_440,
            ("cpu.stat", "usage_usec 1873204", "usage_usec 2623204"),
        ),
    ] {
        let stage = Stage::new(version);
        let mut measure = stage.measure();
        measure.follow(INSTANCE, version.pid()).unwrap();
        measure.follow(OTHER, version.pid()).unwrap();
        assert_eq!(measure.followed().collect::<Vec<_>>(), [INSTANCE, OTHER]);
        let first = measure.sample(FIRST);
        let memory = Ok(Bytes::new(memory));
        let cpu = no("first look: no rate yet");
        let kills = Ok(Kills::default());
        let expected = InstanceUse { memory: memory.clone(), cpu, kills: kills.clone() };
        assert_eq!(first.instances[&INSTANCE], expected);

        let (name, from, to) = edits;
        stage.edit(&version.file(name), |text| text.replace(from, to));
        measure.forget(OTHER);
        let second = measure.sample(SECOND);
        assert_eq!(second.instances.len(), 1);
        assert_eq!(second.instances[&INSTANCE], InstanceUse { memory, cpu: Ok(MilliCpu::new(750)), kills });

        measure.follow(INSTANCE, version.pid()).unwrap();
        let anew = measure.sample(SECOND);
        assert_eq!(anew.instances[&INSTANCE].cpu, no("first look: no rate yet"), "followed anew");
    }
}

#[test]
fn files_later_than_memory_current_never_wrap() {
    let stage = Stage::new(Version::Two);
    stage.write(&Version::Two.file("memory.current"), "4096\n");
    let mut measure = stage.measure();
    measure.follow(INSTANCE, Version::Two.pid()).unwrap();
    assert_eq!(measure.sample(FIRST).instances[&INSTANCE].memory, Ok(Bytes::ZERO));
}

#[test]
fn a_kernel_that_does_not_account_for_its_own_memory() {
    let stage = Stage::new(Version::One);
    fs::remove_file(stage.path(&Version::One.file("memory.kmem.usage_in_bytes"))).unwrap();
    let mut measure = stage.measure();
    measure.follow(INSTANCE, Version::One.pid()).unwrap();
    let memory = measure.sample(FIRST).instances[&INSTANCE].memory.clone();
    assert_eq!(memory, Ok(Bytes::new(32_223_232 + 3_145_728)));
}

/// What is odd about a file costs the figure that needs it, and no other.
#[test]
fn odd_instance_files() {
    use Figure::{Cpu, Memory};
    use Version::{One, Two};
    for (version, figure, name, text, why) in [
        (Two, Memory, "memory.current", "max\n", "cannot read `memory.current`: it is no number"),
        (Two, Memory, "memory.current", "-1\n", "cannot read `memory.current`: it is no number"),
        (Two, Memory, "memory.current", "+1\n", "cannot read `memory.current`: it is no number"),
        (Two, Memory, "memory.current", "\n", "cannot read `memory.current`: it is no number"),
        (Two, Memory, "memory.current", "", "cannot read `memory.current`: it is empty or cut short"),
        (Two, Memory, "memory.current", "1258", "cannot read `memory.current`: it is empty or cut short"),
        (
            Two,
            Memory,
            "memory.current",
            "99999999999999999999\n",
            "cannot read `memory.current`: it is no number",
        ),
        (Two, Memory, "memory.stat", "anon 1\n", "cannot read `memory.stat`: it has no `inactive_file`"),
        (
            Two,
            Memory,
            "memory.stat",
            "inactive_file 1\nactive_file x\n",
            "cannot read `memory.stat`: `active_file` has no number",
        ),
        (
            Two,
            Memory,
            "memory.stat",
            "inactive_file 1\ninactive_file 1\n",
            "cannot read `memory.stat`: `inactive_file` is there twice",
        ),
        (Two, Cpu, "cpu.stat", "user_usec 5\n", "cannot read `cpu.stat`: it has no `usage_usec`"),
        (
            Two,
            Cpu,
            "cpu.stat",
            "usage_usec 18446744073709551615\n",
            "cannot read `cpu.stat`: the number is too large",
        ),
        (
            One,
            Memory,
            "memory.stat",
            "rss 1\ntotal_rss 1\n",
            "cannot read `memory.stat`: it has no `total_shmem`",
        ),
        (
            One,
            Memory,
            "memory.kmem.usage_in_bytes",
            "max\n",
            "cannot read `memory.kmem.usage_in_bytes`: it is no number",
        ),
        (One, Cpu, "cpuacct.usage", "1 2\n", "cannot read `cpuacct.usage`: it is no number"),
    ] {
        let stage = Stage::new(version);
        stage.write(&version.file(name), text);
        stage.check_instance(version, figure, why);
    }
}

#[test]
fn missing_and_unreadable_instance_files() {
    use Figure::{Cpu, Kills, Memory};
    use Version::{One, Two};
    for (version, figure, name) in [
        (Two, Memory, "memory.current"),
        (Two, Memory, "memory.stat"),
        (Two, Cpu, "cpu.stat"),
        (One, Memory, "memory.stat"),
        (One, Cpu, "cpuacct.usage"),
        (Two, Kills, "memory.events"),
        (One, Kills, "memory.oom_control"),
    ] {
        let stage = Stage::new(version);
        let path = stage.path(&version.file(name));
        fs::remove_file(&path).unwrap();
        let why = format!("cannot read `{name}`: No such file or directory (os error 2)");
        stage.check_instance(version, figure, &why);
        // Stands for any file that opens and cannot be read.
        fs::create_dir(&path).unwrap();
        stage.check_instance(version, figure, &format!("cannot read `{name}`: Is a directory (os error 21)"));
    }
}

#[test]
fn odd_host_files() {
    let meminfo = "cannot read `meminfo`: ";
    let stat = "cannot read `stat`: ";
    let memory = "cannot read `pressure/memory`: ";
    for (name, from, to, why) in [
        ("meminfo", "MemAvailable:   24216360 kB\n", "", format!("{meminfo}it has no MemAvailable")),
        ("meminfo", "MemTotal:       24731708 kB\n", "", format!("{meminfo}a line is missing or mangled")),
        ("meminfo", "24216360", "24731709", format!("{meminfo}more is available than there is")),
        ("meminfo", "24216360", "18446744073709551615", format!("{meminfo}a line is mangled")),
        ("meminfo", "24216360", "max", format!("{meminfo}a line is mangled")),
        ("meminfo", "24216360 kB", "24216360 GB", format!("{meminfo}a line is mangled")),
        ("meminfo", "MemFree:", "MemFreé", format!("{meminfo}a line is mangled")),
        ("stat", "cpu  29442", "cpu  x", format!("{stat}a line is missing or mangled")),
        ("stat", "cpu  29442", "cpu  18446744073709551615", format!("{stat}its numbers are too large")),
        ("stat", "btime", "stime", format!("{stat}a line is missing or mangled")),
        ("pressure/memory", "full", "rest", format!("{memory}a line is missing")),
        ("pressure/memory", "avg10=1.87 ", "", format!("{memory}a line is mangled")),
        ("pressure/memory", "avg10=1.87", "avg10=NaN", format!("{memory}a share is beyond 100 %")),
        ("pressure/memory", "avg10=1.87", "avg10=100.01", format!("{memory}a share is beyond 100 %")),
        ("pressure/memory", "avg10=1.87", "avg10=-0.01", format!("{memory}a share is beyond 100 %")),
    ] {
        let stage = Stage::new(Version::Two);
        stage.edit(&format!("proc/{name}"), |text| text.replacen(from, to, 1));
        stage.check_host(name, &why);
    }
}

#[test]
fn a_host_without_pressure_says_so_and_is_asked_again() {
    let stage = Stage::new(Version::Two);
    let path = stage.path("proc/pressure/memory");
    let text = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let mut measure = stage.measure();
    let why = "cannot read `pressure/memory`: No such file or directory (os error 2)";
    assert_eq!(measure.sample(FIRST).pressure, no(why));
    fs::write(&path, text).unwrap();
    assert!(measure.sample(SECOND).pressure.is_ok());
}

#[test]
fn an_old_kernel_has_no_full_line_for_processors() {
    let stage = Stage::new(Version::Two);
    stage.edit("proc/pressure/cpu", |text| text.lines().take(1).map(|line| format!("{line}\n")).collect());
    assert_eq!(stage.measure().sample(FIRST).pressure.map(|p| p.cpu_some), Ok(Permille::new(55)));
}

#[test]
fn texts_are_bounded() {
    for (name, kib, why) in [
        ("meminfo", 65, Some("cannot read `meminfo`: it is larger than 64 KiB")),
        // As many interrupt lines as a large host has.
        ("stat", 300, None),
        ("stat", 1100, Some("cannot read `stat`: it is larger than 1024 KiB")),
    ] {
        let stage = Stage::new(Version::Two);
        let long = format!("intr {}\n", "0 ".repeat(kib * 512));
        stage.edit(&format!("proc/{name}"), |text| format!("{text}{long}"));
        match why {
            Some(why) => stage.check_host(name, why),
            None => {
                let mut measure = stage.measure();
                assert_eq!(measure.sample(FIRST).cpu, no("first look: no rate yet"));
            }
        }
    }
    // A page that grew for one file does not raise the bound of another.
    let stage = Stage::new(Version::Two);
    stage.edit("proc/stat", |text| format!("{text}intr {}\n", "0 ".repeat(200 << 10)));
    stage.edit("proc/meminfo", |text| format!("{text}intr {}\n", "0 ".repeat(40 << 10)));
    let memory = stage.measure().sample(FIRST).memory;
    assert_eq!(memory, no("cannot read `meminfo`: it is larger than 64 KiB"));
}

#[test]
fn who_cannot_be_followed() {
    for (version, list, why) in [
        (Version::Two, "0::/\n", "process `4343` is in the cgroup `/`, which is not its own"),
        (
            Version::Two,
            "0::/../other\n",
            "cannot tell the cgroup of process `4343`: its cgroup is outside our namespace",
        ),
        (Version::Two, "0::relative\n", "cannot tell the cgroup of process `4343`: it is in no such tree"),
        (
            Version::Two,
            "4:memory:/docker/a\n",
            "cannot tell the cgroup of process `4343`: it is in no such tree",
        ),
        (
            Version::Two,
            "zero::/a\n",
            "cannot tell the cgroup of process `4343`: the list does not read as one",
        ),
        (
            Version::Two,
            "",
            "cannot tell the cgroup of process `4343`: cannot read `cgroup`: it is empty or cut short",
        ),
        (Version::One, "0::/docker/a\n", "cannot tell the cgroup of process `4242`: it is in no such tree"),
        (
            Version::One,
            "4:memory:/docker/a\n2:cpuacct:/\n",
            "process `4242` is in the cgroup `/`, which is not its own",
        ),
    ] {
        let stage = Stage::new(version);
        stage.write(&format!("proc/{}/cgroup", version.pid()), list);
        let mut measure = stage.measure();
        let error = measure.follow(INSTANCE, version.pid()).unwrap_err();
        assert_eq!(error.to_string(), why, "{list:?}");
        assert_eq!(measure.followed().count(), 0);
    }
    let stage = Stage::new(Version::Two);
    let mut measure = stage.measure();
    assert!(matches!(measure.follow(INSTANCE, 1), Err(MeasureError::Process { pid: 1, .. })));
    stage.write("proc/4343/cgroup", "0::/stoker.slice/docker-0.scope (deleted)\n");
    assert!(matches!(measure.follow(INSTANCE, 4343), Err(MeasureError::Open { .. })));
}

#[test]
fn controllers_of_one_tree_share_a_line() {
    let stage = Stage::new(Version::One);
    stage.edit("proc/4242/cgroup", |text| {
        text.replace(":cpuacct:", ":cpu,cpuacct:").replace("1:cpu:", "1:misc:")
    });
    let mut measure = stage.measure();
    measure.follow(INSTANCE, 4242).unwrap();
    assert!(measure.sample(FIRST).instances[&INSTANCE].memory.is_ok());
}

/// `cgroups-rs` reads the same numbers from the same directories.
#[test]
fn the_crate_agrees_about_both_versions() {
    let stage = Stage::new(Version::One);
    let directory = |tree: &str| stage.path(&Version::One.file(tree)).parent().unwrap().to_owned();
    let memory = MemController::new(directory("memory.stat"), PathBuf::new(), false);
    let stat = memory.memory_stat().stat;
    let held = stat.total_rss + stat.total_shmem + memory.kmem_stat().usage_in_bytes;
    let mut measure = stage.measure();
    measure.follow(INSTANCE, Version::One.pid()).unwrap();
    assert_eq!(measure.sample(FIRST).instances[&INSTANCE].memory, Ok(Bytes::new(held)));
    let cpu = CpuAcctController::new(directory("cpuacct.usage"), PathBuf::new());
    assert_eq!(cpu.cpuacct().usage, 162_408_857);

    let stage = Stage::new(Version::Two);
    let directory = stage.path(&Version::Two.file("memory.stat")).parent().unwrap().to_owned();
    let seen = MemController::new(directory, PathBuf::new(), true).memory_stat();
    let back: u64 =
        ["inactive_file", "active_file", "slab_reclaimable"].iter().map(|key| seen.stat.raw[*key]).sum();
    let mut measure = stage.measure();
    measure.follow(INSTANCE, Version::Two.pid()).unwrap();
    let held = Ok(Bytes::new(seen.usage_in_bytes - back));
    assert_eq!(measure.sample(FIRST).instances[&INSTANCE].memory, held);
}

/// Whatever bytes a file has: a figure or a reason of one line, and never a panic.
#[test]
fn mangled_bytes_never_panic() {
    for version in [Version::One, Version::Two] {
        let stage = Stage::new(version);
        let mut names: Vec<String> = ["meminfo", "stat", "pressure/memory", "pressure/cpu", "pressure/io"]
            .iter()
            .map(|name| format!("proc/{name}"))
            .collect();
        names.push(format!("proc/{}/cgroup", version.pid()));
        names.extend(version.names().iter().map(|name| version.file(name)));
        let originals: Vec<Vec<u8>> = names.iter().map(|name| fs::read(stage.path(name)).unwrap()).collect();
        let piece = prop_oneof![
            any::<Vec<u8>>(),
            proptest::collection::vec(any::<u8>(), 0..4),
            "[0-9a-zA-Z :\n.=éß-]{0,24}".prop_map(String::into_bytes),
            Just(b"18446744073709551615".to_vec()),
            Just("\nsome\nfull\nsomé\n".into()),
        ];
        let edits = (0..names.len(), any::<prop::sample::Index>(), 0..40_usize, piece);
        let mut runner =
            TestRunner::new(Config { cases: 1500, failure_persistence: None, ..Config::default() });
        runner
            .run(&edits, |(which, at, cut, piece)| {
                let mut bytes = originals[which].clone();
                let start = at.index(bytes.len());
                let end = (start + cut).min(bytes.len());
                bytes.splice(start..end, piece);
                fs::write(stage.path(&names[which]), bytes).unwrap();
                let mut measure = stage.measure();
                let followed = measure.follow(INSTANCE, version.pid());
                for now in [FIRST, SECOND] {
                    let sample = measure.sample(now);
                    prop_assert_eq!(sample.instances.len(), usize::from(followed.is_ok()));
                    prop_assert!(reasons(&sample).iter().all(|why| !why.is_empty() && !why.contains('\n')));
                }
                fs::write(stage.path(&names[which]), &originals[which]).unwrap();
                Ok(())
            })
            .unwrap();
    }
}

fn reasons(sample: &Sample) -> Vec<String> {
    fn of<T>(read: &Read<T>) -> Option<String> {
        read.as_ref().err().map(|Unread(why)| why.clone())
    }
    let host = [of(&sample.memory), of(&sample.cpu), of(&sample.pressure)];
    let instances = sample
        .instances
        .values()
        .flat_map(|instance| [of(&instance.memory), of(&instance.cpu), of(&instance.kills)]);
    host.into_iter().chain(instances).flatten().collect()
}

fn no<T>(why: &str) -> Read<T> {
    Err(Unread(why.into()))
}

#[derive(Clone, Copy)]
pub(super) enum Version {
    One,
    Two,
}

#[derive(Clone, Copy)]
pub(super) enum Figure {
    Memory,
    Cpu,
    Kills,
}

impl Version {
    pub(super) fn pid(self) -> u32 {
        match self {
            Version::One => 4242,
            Version::Two => 4343,
        }
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            Version::One => &[
                "memory.stat",
                "memory.kmem.usage_in_bytes",
                "memory.oom_control",
                "memory.max_usage_in_bytes",
                "memory.limit_in_bytes",
                "cpuacct.usage",
            ],
            Version::Two => &["memory.stat", "memory.current", "memory.events", "cpu.stat"],
        }
    }

    /// Where the container of the copies has this file.
    pub(super) fn file(self, name: &str) -> String {
        const ID: &str = "4b0f0a3f7c1d5e8a9b2c6d4e1f3a5b7c9d0e2f4a6b8c1d3e5f7a9b0c2d4e6f81";
        match self {
            Version::One => format!("cgroup-v1/{}/docker/{ID}/{name}", name.split('.').next().unwrap()),
            Version::Two => format!("cgroup-v2/stoker.slice/docker-{ID}.scope/{name}"),
        }
    }
}

/// A copy of the kernel files that a test may spoil.
pub(super) struct Stage {
    version: Version,
    dir: tempfile::TempDir,
}

impl Stage {
    pub(super) fn new(version: Version) -> Stage {
        let stage = Stage { version, dir: tempfile::tempdir().unwrap() };
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"), stage.dir.path());
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn measure(&self) -> Measure {
        let proc = self.path("proc");
        Measure::new(match self.version {
            Version::One => Root::legacy(proc, &self.path("cgroup-v1")),
            Version::Two => Root::unified(proc, self.path("cgroup-v2")),
        })
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn edit(&self, name: &str, change: impl FnOnce(&str) -> String) {
        let text = fs::read_to_string(self.path(name)).unwrap();
        let changed = change(&text);
        assert_ne!(changed, "", "the edit of {name}");
        self.write(name, &changed);
    }

    /// This figure of the instance is unread for this reason, and all the others are read.
    pub(super) fn check_instance(&self, version: Version, figure: Figure, why: &str) {
        let mut measure = self.measure();
        measure.follow(INSTANCE, version.pid()).unwrap();
        let first = measure.sample(FIRST);
        let second = measure.sample(SECOND);
        assert!(first.memory.is_ok() && first.pressure.is_ok(), "{why}: the host");
        let InstanceUse { memory, cpu, kills } = second.instances[&INSTANCE].clone();
        let others = match figure {
            Figure::Memory => {
                assert_eq!(memory, no(why));
                [cpu.is_ok(), kills.is_ok()]
            }
            Figure::Cpu => {
                assert_eq!(cpu, no(why));
                [memory.is_ok(), kills.is_ok()]
            }
            Figure::Kills => {
                assert_eq!(kills, no(why));
                [memory.is_ok(), cpu.is_ok()]
            }
        };
        assert_eq!(others, [true; 2], "{why}: the other figures");
    }

    /// The host's figure from this file is unread for this reason, and all the others are read.
    fn check_host(&self, name: &str, why: &str) {
        let mut measure = self.measure();
        measure.follow(INSTANCE, self.version.pid()).unwrap();
        measure.sample(FIRST);
        let sample = measure.sample(SECOND);
        assert!(sample.instances[&INSTANCE].memory.is_ok() && sample.instances[&INSTANCE].cpu.is_ok());
        let no_tick = "no tick has passed since the last look".to_owned();
        let reasons: Vec<String> = reasons(&sample).into_iter().filter(|why| *why != no_tick).collect();
        assert_eq!(reasons, [why], "{name}");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => fs::write(target, fs::read(entry.path()).unwrap()).unwrap(),
        }
    }
}
