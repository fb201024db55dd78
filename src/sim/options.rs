//! What one run is like: drawn from its seed, so that a seed is all one needs to repeat it.
//!
//! Each kind of trouble is absent from about half of the runs. So some runs have one alone, and a fault that
//! hides behind another is found as well.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;

use crate::quantity::{Bytes, MilliCpu};

/// One run, as drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where all further draws come from.
    pub seed: u64,
    /// The host profile, as an operator would write it.
    pub profile: String,
    /// What it is replaced by for a while.
    pub others: Vec<String>,
    /// Memory of the host.
    pub memory: Bytes,
    /// Processors of the host.
    pub cores: MilliCpu,
    /// Processes and threads that its containers can have.
    pub pids: u64,
    /// How long callers come and things go wrong; after it all is well.
    pub trouble: Duration,
    /// Callers in ten seconds, on average.
    pub arrivals: u32,
    /// Whether the kernel takes memory back when asked.
    pub reclaims: bool,
    /// How much goes wrong.
    pub faults: Faults,
    /// Whether all that can be checked is checked after each word; without it, a run shows how fast it is.
    pub checked: bool,
}

/// How often things go wrong: in thousandths, or whether at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// Words and orders that are lost.
    pub lost: u32,
    /// Words that come twice.
    pub doubled: u32,
    /// Words that come seconds late.
    pub late: u32,
    /// Starts that fail.
    pub fails: u32,
    /// Starts that never become ready.
    pub hangs: u32,
    /// Instances that die, some of them soon.
    pub dies: u32,
    /// The kernel kills a process of it for want of memory.
    pub killed: u32,
    /// Instances whose container is removed by somebody else.
    pub vanishes: u32,
    /// Browsers that stop answering.
    pub mute: u32,
    /// Instances that will not go for a while.
    pub stubborn: u32,
    /// Instances whose memory cannot be read.
    pub unread: u32,
    /// Callers that hang up.
    pub hang_up: u32,
    /// Callers that never release.
    pub crash: u32,
    /// The engine does not answer for a while.
    pub outages: bool,
    /// The host cannot be measured for a while.
    pub blind: bool,
    /// Somebody else takes the host's memory for a while.
    pub hog: bool,
    /// Pools and the host are drained for a while.
    pub drains: bool,
    /// Containers turn up that belong to nobody.
    pub strangers: bool,
    /// Another profile holds for a while.
    pub reloads: bool,
    /// The disk of the store is full for a while.
    pub full: bool,
    /// The daemon is killed, and another begins a little later.
    pub restarts: bool,
    /// Calls of a provider that it throttles.
    pub throttles: u32,
    /// Instances that grow to their limit.
    pub leaks: u32,
    /// Somebody else makes very many processes for a while.
    pub crowds: bool,
    /// A disk is nearly full for a while.
    pub fills: bool,
    /// Tasks stand still for memory and processors while somebody else takes them.
    pub stalls: bool,
}

impl Options {
    /// The options of this seed.
    pub fn drawn(seed: u64) -> Options {
        let mut rng = Rng::with_seed(seed);
        let mut often = |most: u32| if rng.bool() { 0 } else { rng.u32(1..=most) };
        let faults = Faults {
            lost: often(60),
            doubled: often(200),
            late: often(80),
            fails: often(300),
            hangs: often(150),
            dies: often(300),
            killed: often(300),
            vanishes: often(150),
            mute: often(700),
            stubborn: often(200),
            unread: often(100),
            hang_up: often(300),
            crash: often(300),
            outages: often(1) == 1,
            blind: often(1) == 1,
            hog: often(1) == 1,
            drains: often(1) == 1,
            strangers: often(1) == 1,
            reloads: often(1) == 1,
            full: often(1) == 1,
            restarts: often(2) > 0,
            throttles: often(300),
            leaks: often(300),
            stalls: often(1) == 1,
            crowds: false,
            fills: false,
        };
        let (profile, memory, cores) = host(&mut rng, true);
        let others = (0..3).map(|_| host(&mut rng, false).0).collect();
        let mut options = Options {
            seed,
            profile,
            others,
            memory,
            cores,
            pids: 0,
            trouble: Duration::from_secs(rng.u64(40..=180)),
            // On a host where few come something is warm when memory runs short.
            arrivals: if rng.u32(0..3) == 0 { rng.u32(1..=3) } else { rng.u32(1..=25) },
            reclaims: rng.bool(),
            faults,
            checked: true,
        };
        options.pids = pids(&options.profile) + rng.u64(0..=4000);
        (options.faults.crowds, options.faults.fills) = (rng.bool(), rng.bool());
        options
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { seed, profile, others, memory, cores, trouble, arrivals, faults, .. } = self;
        writeln!(
            f,
            "seed {seed}: {memory}, {cores} cores, {trouble:?} of trouble, {arrivals} callers in 10 s"
        )?;
        writeln!(f, "{faults:?}")?;
        f.write_str(profile)?;
        let shown = if faults.reloads { others.as_slice() } else { &[] };
        shown.iter().try_for_each(|other| write!(f, "\nfor a while:\n{other}"))
    }
}

/// What all stock may make of them, and one more: no pool says other than the usual.
fn pids(profile: &str) -> u64 {
    let profile = crate::profile::check("drawn", profile).expect("drawn profiles are right");
    let pids = |pool: &crate::profile::Pool| u64::from(pool.template.pids);
    let stock = profile.pools.values().map(|pool| u64::from(pool.warm.min) * pids(pool));
    stock.sum::<u64>() + profile.pools.values().map(pids).max().unwrap_or(0)
}

/// A host of one to four pools, and just so large that all stock fits and not all that may be asked for.
/// Where it need not be whole, it may lack a pool.
fn host(rng: &mut Rng, whole: bool) -> (String, Bytes, MilliCpu) {
    let provider = whole || rng.bool();
    let mut pools = if provider { self::provider(rng) } else { String::new() };
    let (mut memory, mut cpus) = (0, 0);
    let heavy = rng.u32(0..3) == 0;
    for (name, kind) in [("chrome", "browser"), ("python", "sandbox"), ("heavy", "sandbox")] {
        if name == "heavy" && !heavy {
            continue;
        }
        if !whole && name == "chrome" && rng.bool() {
            continue;
        }
        let (min, more) = (rng.u64(0..=3), rng.u64(0..=3));
        // Few enough that two draws are equal now and then, and only something else changes.
        let (expect, cpu) = (64 * rng.u64(2..=4), [250, 500][rng.usize(0..2)]);
        let image = ["i", "i", "i", "j"][rng.usize(0..4)];
        memory += min * (2 * expect + 10);
        cpus += min * cpu;
        let seconds = [
            ("start_timeout", rng.u64(3..=20)),
            ("first_use_timeout", rng.u64(3..=10)),
            ("idle_timeout", rng.u64(5..=20)),
            ("max_runtime", rng.u64(20..=60)),
            ("stop_timeout", rng.u64(1..=5)),
            ("hold.timeout", rng.u64(5..=20)),
            ("hold.longest", rng.u64(20..=60)),
        ];
        let deadlines: String =
            seconds.iter().map(|(key, value)| format!("{key} = \"{value}s\"\n")).collect();
        let most = min + more + rng.u64(1..=3);
        let expected = if min == more { cpu / 2 } else { cpu };
        let holds = if rng.bool() { String::new() } else { format!("max_holds = {}\n", rng.u64(0..=2)) };
        let needs = if provider && rng.bool() { "provider = \"models\"\n" } else { "" };
        let shares = shares(rng, most) + &holds + needs;
        let unseen = unseen(rng, name);
        pools += &format!(
            "[pool.{name}]\nkind = \"{kind}\"\nimage = \"{image}\"\nmemory_expect = \"{expect}MiB\"\n\
             memory_max = \"{}MiB\"\ncpus = \"{}\"\ncpus_expect = \"{}\"\nmax_instances = {}\n\
             warm = {{ min = {min}, max = {}, max_age = \"{}s\" }}\non_pressure = \"{}\"\n{unseen}{deadlines}{shares}",
            2 * expect,
            MilliCpu::new(cpu),
            MilliCpu::new(expected),
            most,
            min + more,
            rng.u64(20..=120),
            ["keep", "keep", "interrupt"][rng.usize(0..3)],
        );
    }
    if rng.u32(0..3) == 0 {
        pools += &format!("[tenant.c]\nmax_leases = {}\nmax_holds = {}\n", rng.u64(1..=6), rng.u64(0..=1));
    }
    if rng.u32(0..4) == 0 {
        pools += "[pool.giant]\nkind = \"sandbox\"\nimage = \"i\"\nmemory_max = \"64GiB\"\n\
                  warm = { min = 0, max = 0 }\n";
    }
    // A tenth is reserved; 300 MiB are the host's own; a start needs room for one more.
    let total = memory * 5 / 4 + 1600 + rng.u64(0..=2000);
    let cores = cpus + 1500 + rng.u64(0..=3000);
    let classes = classes(rng);
    let host = format!(
        "[host]\nreserve = {{ memory = \"10%\", cpu = \"0.5\" }}\nfloor = \"256MiB\"\nmax_starts = {}\n\
         cpu_overcommit = \"{}%\"\n",
        rng.u64(1..=4),
        [100, 100, 200][rng.usize(0..3)],
    );
    (host + &classes + &pools, Bytes::mib(total), MilliCpu::new(cores))
}

/// Its classes, of which one may refuse early.
fn classes(rng: &mut Rng) -> String {
    format!(
        "[class.interactive]\ntarget_wait = \"1s\"\nmax_wait = \"{}s\"\nmax_queued = {}\nrefuse_early = {}\n\
         [class.batch]\ntarget_wait = \"15s\"\nmax_wait = \"{}s\"\nmax_queued = {}\n",
        rng.u64(3..=20),
        rng.u64(1..=6),
        rng.bool(),
        rng.u64(20..=90),
        rng.u64(2..=20),
    )
}

/// What becomes of new work without telemetry: nothing, a few instances, or of one pool the other one's.
fn unseen(rng: &mut Rng, name: &str) -> String {
    match rng.u32(0..3) {
        0 => String::new(),
        _ if name == "heavy" => "without_telemetry = { use = \"python\" }\n".into(),
        1 => "without_telemetry = \"stop\"\n".into(),
        _ => format!("without_telemetry = {{ slots = {} }}\n", rng.u64(1..=4)),
    }
}

/// A provider so slow that some wait for it.
fn provider(rng: &mut Rng) -> String {
    format!(
        "[provider.models]\nrate = \"{}/min\"\nburst = {}\nmax_waiting = {}\nmax_wait = \"{}s\"\n",
        rng.u64(5..=120),
        rng.u64(1..=3),
        rng.u64(1..=3),
        rng.u64(1..=20),
    )
}

/// What one class has of a pool's slots, in some pools; what is held back is no more than it is guaranteed.
fn shares(rng: &mut Rng, slots: u64) -> String {
    if slots < 2 || rng.bool() {
        return String::new();
    }
    let share = rng.u64(1..=9);
    let guaranteed = (slots * share / 10).clamp(1, slots - 1);
    let class = ["interactive", "batch"][rng.usize(0..2)];
    let held = if rng.bool() { 0 } else { rng.u64(1..=guaranteed) };
    format!("class.{class} = {{ share = \"{share}0%\", hold_back = {held} }}\n")
}
