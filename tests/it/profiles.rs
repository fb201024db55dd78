//! The shipped profiles: that what their comments claim of a host is what the controller does on one.
//!
//! A host of the size that the profile names is filled with requests for its pools, under virtual time, until
//! nothing more is started. How many there are then, and which limit it was, must be what the comments say.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use stoker::control::Controller;
use stoker::control::message::{
    Acquire, Call, CallId, Disk, Engine, HostCpu, HostMemory, HostPids, Input, LeaseId, News, Output,
    PoolView, Pressure, Reply, Sample, SliceMemory, Tenant,
};
use stoker::profile::{self, HostProfile, PoolName};
use stoker::quantity::{Bytes, Instant, MilliCpu, Permille};

/// What a host without any instance uses itself.
const OWN: Bytes = Bytes::mib(400);
/// More cores than any pool asks for.
const MANY: u64 = 1024;

/// A shipped profile with the host it is written for.
struct Shipped {
    text: String,
    memory: Bytes,
    cores: u64,
}

impl Shipped {
    fn read(name: &str) -> Shipped {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles").join(name);
        let text = fs::read_to_string(file).unwrap();
        // `# A host for browsers only: 64 GiB, 32 cores.`
        let size = text.lines().next().unwrap().split_once(": ").unwrap().1;
        let numbers: Vec<u64> = size.split(' ').filter_map(|word| word.parse().ok()).collect();
        Shipped { memory: Bytes::mib(numbers[0] << 10), cores: numbers[1], text }
    }

    /// The comments before the first table, as one line.
    fn claims(&self) -> String {
        let head = self.text.lines().take_while(|line| line.starts_with('#') || line.is_empty());
        head.flat_map(|line| line.trim_start_matches('#').split_whitespace()).collect::<Vec<_>>().join(" ")
    }

    fn profile(&self) -> HostProfile {
        profile::check("profile", &self.text).unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    /// The same with other values: each line that sets this key sets it to that.
    fn with(&self, key: &str, value: &str) -> Shipped {
        let line = |line: &str| match line.strip_prefix(&format!("{key} =")) {
            Some(_) => format!("{key} = {value}\n"),
            None => format!("{line}\n"),
        };
        Shipped { text: self.text.lines().map(line).collect(), ..*self }
    }

    /// How many of each pool there are when so many have been asked for and no more is started, and the limit.
    fn filled(&self, asked: u32) -> BTreeMap<String, (u32, String)> {
        let profile = self.profile();
        let mut host = Filling::new(self, &profile);
        for pool in profile.pools.keys() {
            (0..asked).for_each(|_| host.acquire(pool));
        }
        host.hear(Input::Engine(Engine::Reachable));
        host.views()
            .into_iter()
            .map(|view| {
                let limit = view.blocked_by.map_or("none", |why| why.code());
                (view.name.to_string(), (view.leased, limit.to_owned()))
            })
            .collect()
    }
}

/// A controller with a host that makes whatever it orders at once.
struct Filling {
    controller: Controller,
    now: Instant,
    calls: u64,
    views: Vec<PoolView>,
}

impl Filling {
    fn new(shipped: &Shipped, profile: &HostProfile) -> Filling {
        let now = Instant::BOOT.after(Duration::from_secs(1));
        let controller = Controller::new(profile.clone(), "host".into(), 1, now);
        let mut filling = Filling { controller, now, calls: 0, views: Vec::new() };
        let none = Permille::new(0);
        let memory = HostMemory { total: shipped.memory, available: shipped.memory.saturating_sub(OWN) };
        // One for each 128 KiB of memory is the kernel's own choice for `threads-max`.
        let pids = HostPids { most: shipped.memory.get() >> 17, there: 300, ours: 0 };
        let disk = Disk { total: Bytes::mib(1 << 20), free: Bytes::mib(1 << 19), inodes: None };
        filling.hear(Input::Sample(Box::new(Sample {
            memory: Ok(memory),
            cpu: Ok(HostCpu { cores: MilliCpu::cores(shipped.cores), busy: MilliCpu::new(0) }),
            pressure: Ok(Pressure { memory_some: none, memory_full: none, cpu_some: none, io_some: none }),
            slice: Ok(SliceMemory { hard: Bytes::ZERO }),
            slice_stalled: Ok(none),
            pids: Ok(pids),
            engine_disk: Ok(disk),
            state_disk: Ok(disk),
            reclaims: false,
            instances: BTreeMap::new(),
        })));
        filling
    }

    fn ask(&mut self, call: Call) {
        self.calls += 1;
        self.hear(Input::Call(CallId(self.calls), call));
    }

    fn acquire(&mut self, pool: &PoolName) {
        let lease = LeaseId(format!("L{}", self.calls).into());
        self.ask(Call::Acquire(Acquire {
            lease,
            pool: pool.clone(),
            class: None,
            tenant: Tenant("local".into()),
            task: None,
            wait: None,
            asynchronous: true,
            max_runtime: None,
            idle_timeout: None,
        }));
    }

    fn views(&mut self) -> Vec<PoolView> {
        self.ask(Call::Pools);
        std::mem::take(&mut self.views)
    }

    fn hear(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            self.controller.handle(self.now, input);
            while let Some(output) = self.controller.poll_output() {
                match output {
                    Output::Start { instance, .. } => inputs.push(Input::Instance(instance, News::Ready)),
                    Output::Reply(_, Reply::Pools(views)) => self.views = views,
                    Output::Record(number, _) => inputs.push(Input::Recorded(number)),
                    Output::Stop { .. }
                    | Output::Probe { .. }
                    | Output::Adopt { .. }
                    | Output::Reclaim(_)
                    | Output::Ceilings(_)
                    | Output::Reply(..)
                    | Output::Tell(_) => {}
                }
            }
        }
    }
}

/// Fills the host, and holds how many there are, and why no more, against what the comments say.
fn holds(shipped: &Shipped, asked: u32, claim: &str, limits: &[(&str, &str)]) {
    let filled = shipped.filled(asked);
    let mut claim = claim.to_owned();
    for (pool, limit) in limits {
        let (many, why) = &filled[*pool];
        claim = claim.replace(&format!("{{{pool}}}"), &many.to_string());
        assert_eq!(why, limit, "{pool} of {filled:?}");
    }
    assert!(
        shipped.claims().contains(&claim),
        "`{claim}` is not what the comments say:\n{}",
        shipped.claims()
    );
}

/// Whether so many of a pool fit if each is expected to need this.
fn bears(shipped: &Shipped, pool: &str, many: u32, mebibytes: u64) -> bool {
    shipped.with("memory_expect", &format!("\"{mebibytes}MiB\"")).filled(many)[pool].0 == many
}

#[test]
fn a_host_for_one_kind_holds_what_is_claimed() {
    for (name, pool, what) in
        [("browser-64g.toml", "chromium", "browsers"), ("sandbox-64g.toml", "python", "sandboxes")]
    {
        let shipped = Shipped::read(name);
        let many = shipped.profile().pools[pool].max_instances;
        let claim = |words: &str| words.replace("{}", &format!("{{{pool}}} {what}"));
        holds(&shipped, many + 10, &claim("So {}."), &[(pool, "max_instances")]);
        // One more than memory bears, as each that may be costs the engine's own.
        let claims = shipped.claims();
        let (before, _) = claims.split_once(&format!(" {what} as expected.")).expect("it is claimed");
        let borne: u32 = before.rsplit(' ').next().unwrap().parse().unwrap();
        let open = shipped.with("max_instances", &(borne + 1).to_string());
        holds(&open, many + 10, &claim("= {}. CPU is the limit"), &[(pool, "cpu")]);
        let roomy = Shipped { cores: MANY, ..open };
        holds(&roomy, borne + 1, &claim("= {} as expected."), &[(pool, "memory_promised")]);
        let (_, rest) = claims.split_once("Memory would bear an expected ").expect("it is claimed");
        let most: u64 = rest.split(' ').next().unwrap().parse().unwrap();
        let roomy = Shipped { cores: MANY, ..shipped };
        assert!(bears(&roomy, pool, many, most), "{name}: {most} MiB are too much");
        assert!(!bears(&roomy, pool, many, most + 1), "{name}: {most} MiB are not all");
    }
}

#[test]
fn a_host_for_both_kinds_holds_what_is_claimed() {
    let mixed = Shipped::read("mixed-256g.toml");
    let full = [("chromium", "max_instances"), ("python", "max_instances")];
    holds(&mixed, 480, "So {chromium} browsers and {python} sandboxes.", &full);
    let open = mixed.with("max_instances", "4096").with("cpu_overcommit", "\"299%\"");
    assert!(open.filled(120).values().any(|(_, limit)| limit == "cpu"), "CPU is the limit");

    let dev = Shipped::read("dev.toml");
    let full = [("chromium", "max_instances"), ("python", "cpu")];
    holds(&dev, 10, "So {chromium} browsers and {python} sandboxes together", &full);
    let roomy = Shipped { cores: MANY, ..dev };
    let full = [("chromium", "max_instances"), ("python", "max_instances")];
    holds(&roomy, 10, "memory bears {chromium} browsers and {python} sandboxes as expected", &full);
}

#[test]
fn the_sums_of_memory_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let shipped = Shipped::read(&name);
        let mib = |bytes: Bytes| bytes.get().div_ceil(1 << 20);
        let (profile, total) = (shipped.profile(), shipped.memory);
        let reserve = profile.host.reserve_memory.of(total);
        let [all, kept] = [total, reserve].map(mib);
        let claim = format!("{all} MiB - {kept} reserve = {} MiB to promise", all - kept);
        assert!(shipped.claims().contains(&claim), "{name}: {claim}");
        let slack = |pool: &profile::Pool| {
            (pool.template.memory_max.saturating_sub(pool.memory_expect), pool.clone())
        };
        let (most, pool) = profile.pools.values().map(slack).max_by_key(|(slack, _)| *slack).unwrap();
        let [max, expect, most] = [pool.template.memory_max, pool.memory_expect, most].map(mib);
        let claim = format!(
            "Of these {max} - {expect} = {most} stay free, so that one {} may grow to its limit.",
            pool.kind
        );
        assert!(shipped.claims().contains(&claim), "{name}: {claim}");
        for pool in profile.pools.values() {
            let template = &pool.template;
            let folders = mib(template.tmpfs.values().copied().sum());
            let (shm, max) = (mib(template.shm), mib(template.memory_max));
            let sum = shm + folders + 16;
            let claim = format!("# shm {shm} + tmpfs {folders} + 16 for the process = {sum} of {max} MiB.");
            assert!(shipped.text.contains(&claim), "{name}: {claim}");
        }
    }
}
