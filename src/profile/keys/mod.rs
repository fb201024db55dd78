//! Every key of a profile, as people are told of it: the one table that the packaged `host.toml` and the manual
//! page stoker.host(5) are written from.
//!
//! The parser (`check`) has its own eyes for a file. A test holds the two together: every key here is accepted with
//! its default and to the ends of its range, is refused one step beyond, and every key that the parser knows is
//! here.

mod admission;
mod hold;
mod provider;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use crate::profile::check::shape::{spell_size, spell_time};
use crate::profile::check::{
    DAY, HOUR, MONTH, MOST_CORES, MOST_HOURS, MOST_INSTANCES, MOST_MEMORY, PROCESS_FLOOR, SHORTEST,
    SMALLEST_FOLDER,
};
use crate::quantity::{Bytes, MilliCpu, Permille};

/// A key of the profile.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The table it belongs to: `host`, `class.NAME`, `provider.NAME`, `tenant.NAME` or `pool.NAME`.
    pub table: &'static str,
    /// Its name there, dotted where it is in a table of its own.
    pub name: &'static str,
    /// What may be written.
    pub range: Range,
    /// What holds where nothing is written.
    pub usual: Usual,
    /// What it is, in one line.
    pub meaning: &'static str,
    /// Why the default is what it is, or the range.
    pub reason: &'static str,
}

/// What may be written.
#[derive(Debug, Clone, Copy)]
pub enum Range {
    /// A size with its unit, from here to there.
    Size(Bytes, Bytes),
    /// A time with its unit.
    Time(Duration, Duration),
    /// Cores as text.
    Cores(MilliCpu, MilliCpu),
    /// A share.
    Share(Permille, Permille),
    /// A size up to the first, or a share up to the second, of this.
    Amount(Bytes, Permille, &'static str),
    /// A whole number.
    Count(u32, u32),
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A text of this form.
    Text(&'static str),
    /// A list of texts: a command.
    Command,
    /// A table of texts by these names.
    Texts(&'static str),
    /// A table of sizes by these names.
    Sizes(&'static str, Bytes, Bytes),
}

/// What holds where nothing is written, as TOML.
#[derive(Debug, Clone, Copy)]
pub enum Usual {
    /// This.
    Is(&'static str),
    /// Nothing: what then decides, and what may be written.
    Open(&'static str, &'static str),
    /// There is none; an example.
    Required(&'static str),
    /// By the pool's kind; none where the kind has no such key.
    ByKind {
        /// Of a browser.
        browser: Option<&'static str>,
        /// Of a sandbox.
        sandbox: Option<&'static str>,
    },
    /// By the class's name.
    ByClass {
        /// Of `interactive`.
        interactive: &'static str,
        /// Of `batch`.
        batch: &'static str,
        /// Of any other.
        other: &'static str,
    },
}

impl fmt::Display for Range {
    /// The form, the unit and the range in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Range::Size(from, to) => {
                write!(f, "size with a unit (KiB, MiB, GiB), {} to {}", spell_size(*from), spell_size(*to))
            }
            Range::Time(from, to) => {
                write!(f, "time with a unit (ms, s, m, h, d), {} to {}", spell_time(*from), spell_time(*to))
            }
            Range::Cores(from, to) => write!(f, "cores as text, \"{from}\" to \"{to}\""),
            Range::Share(from, to) => write!(f, "share, {from} to {to}"),
            Range::Amount(most, share, whole) => {
                write!(f, "share of {whole} up to {share}, or size with a unit up to {}", spell_size(*most))
            }
            Range::Count(from, to) => write!(f, "whole number, {from} to {to}"),
            Range::Flag => write!(f, "true or false"),
            Range::Word(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
                write!(f, "{}", quoted.join(" or "))
            }
            Range::Text(form) => write!(f, "text, {form}"),
            Range::Command => write!(f, "list of texts, the program first"),
            Range::Texts(names) => write!(f, "table of texts by {names}"),
            Range::Sizes(names, from, to) => {
                write!(f, "table of sizes by {names}, {} to {} each", spell_size(*from), spell_size(*to))
            }
        }
    }
}

impl fmt::Display for Usual {
    /// As a line of the reference has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Usual::Is(value) => write!(f, "{value}"),
            Usual::Open(what, _) => write!(f, "{what}"),
            Usual::Required(_) => write!(f, "none, it is required"),
            Usual::ByKind { browser, sandbox } => {
                let sides = [(browser, "browsers"), (sandbox, "sandboxes")];
                let said = sides.iter().filter_map(|(value, who)| Some(format!("{} for {who}", (**value)?)));
                write!(f, "{}", said.collect::<Vec<_>>().join(", "))
            }
            Usual::ByClass { interactive, batch, other } => {
                write!(f, "{interactive} for interactive, {batch} for batch, {other} for others")
            }
        }
    }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn both(value: &'static str) -> Usual {
    Usual::Is(value)
}

const WEEK: Duration = seconds(7 * 24 * 3600);
const MOST_SHARE: Permille = Permille::new(950);

const HOST: &str = "host";
const CLASS: &str = "class.NAME";
const PROVIDER: &str = "provider.NAME";
const TENANT: &str = "tenant.NAME";
const POOL: &str = "pool.NAME";

/// All of them, in the order in which they are read.
pub const KEYS: &[Key] = &[
    Key {
        table: HOST,
        name: "name",
        range: Range::Text("1 to 63 letters, digits, `-` and `.`"),
        usual: Usual::Open("the machine's own host name", "\"b07\""),
        meaning: "The name in labels of containers, in lease ids and in the journal.",
        reason: "Two daemons on one machine need two names. A reload cannot change it: containers bear it.",
    },
    Key {
        table: HOST,
        name: "reserve.memory",
        range: Range::Amount(MOST_MEMORY, MOST_SHARE, "the host's memory"),
        usual: both("\"10%\""),
        meaning: "Memory of the host's total that never belongs to containers.",
        reason: "400 MiB of 4 GiB, for the engine, the logs and this daemon. Large hosts should say less.",
    },
    Key {
        table: HOST,
        name: "reserve.cpu",
        range: Range::Cores(MilliCpu::new(0), MOST_CORES),
        usual: both("\"0.5\""),
        meaning: "Cores that never belong to containers.",
        reason: "The engine's and the daemon's own work at a few starts a second.",
    },
    admission::RESERVE_PIDS,
    Key {
        table: HOST,
        name: "floor",
        range: Range::Amount(MOST_MEMORY, MOST_SHARE, "the host's memory"),
        usual: both("\"5%\""),
        meaning: "MemAvailable that must remain whatever was promised; below it nothing is started.",
        reason: "Room for the files of the images, which would otherwise be read from disk again and again.",
    },
    admission::DISK_FLOOR,
    Key {
        table: HOST,
        name: "cpu_overcommit",
        range: Range::Share(Permille::new(1000), Permille::new(10_000)),
        usual: both("\"200%\""),
        meaning: "How far the sum of what instances are expected to use (cpus_expect) may exceed the cores that are not reserved.",
        reason: "Browsers and sandboxes mostly wait, for the network or for their caller.",
    },
    Key {
        table: HOST,
        name: "max_starts",
        range: Range::Count(1, 64),
        usual: both("3"),
        meaning: "Cold starts that may be under way at once, over all pools.",
        reason: "More at once only makes each of them slower.",
    },
    Key {
        table: CLASS,
        name: "target_wait",
        range: Range::Time(Duration::ZERO, DAY),
        usual: Usual::ByClass { interactive: "\"1s\"", batch: "\"5m\"", other: "\"10s\"" },
        meaning: "The wait that a request expects; the queue serves the earliest arrival + target_wait.",
        reason: "At most max_wait, and lowered to it. Somebody watches an interactive request; nobody a batch.",
    },
    Key {
        table: CLASS,
        name: "drain_target",
        range: Range::Time(seconds(1), DAY),
        usual: Usual::ByClass { interactive: "\"1m\"", batch: "\"5m\"", other: "\"1m\"" },
        meaning: "The time in which what waits is to be worked off, where slots allow.",
        reason: "Each one that waits stands for the part of a slot that it needs in this time: shorter asks for more slots.",
    },
    Key {
        table: CLASS,
        name: "max_wait",
        range: Range::Time(SHORTEST, DAY),
        usual: Usual::ByClass { interactive: "\"30s\"", batch: "\"1h\"", other: "\"5m\"" },
        meaning: "The longest wait that a caller may ask for, and the wait of one that does not say.",
        reason: "Half a minute is given up on by people, some minutes by most programs.",
    },
    Key {
        table: CLASS,
        name: "max_queued",
        range: Range::Count(1, 100_000),
        usual: Usual::ByClass { interactive: "200", batch: "5000", other: "1000" },
        meaning: "How many each tenant may have waiting in one pool, beside those for whom an instance is there or can be \
                  started.",
        reason: "More would not be served within max_wait. Each costs a few KiB of the daemon's memory.",
    },
    provider::RATE,
    provider::BURST,
    provider::MAX_WAITING,
    provider::MAX_WAIT,
    admission::REFUSE_EARLY,
    Key {
        table: TENANT,
        name: "max_leases",
        range: Range::Count(1, 100_000),
        usual: Usual::Open("as many as it likes", "50"),
        meaning: "Leases that this tenant may have at once over all pools, waiting ones included.",
        reason: "Tenants take turns, so that a limit is needed only where one must not hold what others will want.",
    },
    hold::TENANT_MAX_HOLDS,
    Key {
        table: POOL,
        name: "enabled",
        range: Range::Flag,
        usual: both("true"),
        meaning: "Whether there is such a pool: false takes away one that an earlier layer describes.",
        reason: "Of a pool that is not enabled nothing is required.",
    },
    Key {
        table: POOL,
        name: "kind",
        range: Range::Word(&["browser", "sandbox"]),
        usual: Usual::Required("\"sandbox\""),
        meaning: "What the image is: a browser answers DevTools on its own loopback, a sandbox runs commands.",
        reason: "Readiness, slice and some defaults depend on it.",
    },
    Key {
        table: POOL,
        name: "image",
        range: Range::Text("an image's name without spaces"),
        usual: Usual::Required("\"stoker/python:latest\""),
        meaning: "Image name, tag or digest, as the engine knows it.",
        reason: "It must be there before: nothing is pulled on the way of a lease.",
    },
    Key {
        table: POOL,
        name: "default_class",
        range: Range::Text("a class's name"),
        usual: both("\"interactive\""),
        meaning: "The class of a request that names none.",
        reason: "Whoever does not say is taken for a person who waits.",
    },
    Key {
        table: POOL,
        name: "command",
        range: Range::Command,
        usual: Usual::Open("the image's own", "[\"sleep\", \"infinity\"]"),
        meaning: "The command that is run instead of the image's own.",
        reason: "No shell unless it names one.",
    },
    Key {
        table: POOL,
        name: "env",
        range: Range::Texts("variable"),
        usual: Usual::Open("the image's own", "{ LANG = \"C.UTF-8\" }"),
        meaning: "Environment given to the container on top of the image's.",
        reason: "No place for secrets: every user of the host may read a profile, and what runs inside and whoever \
                 may ask the engine reads this.",
    },
    Key {
        table: POOL,
        name: "memory_max",
        range: Range::Size(PROCESS_FLOOR, MOST_MEMORY),
        usual: Usual::ByKind { browser: Some("\"1GiB\""), sandbox: Some("\"512MiB\"") },
        meaning: "The kernel's limit for one instance; there is no swap beside it.",
        reason: "One page of the open web peaks near 400 MiB. shm, tmpfs and 16 MiB for the process must fit in.",
    },
    Key {
        table: POOL,
        name: "memory_expect",
        range: Range::Size(Bytes::mib(1), MOST_MEMORY),
        usual: Usual::ByKind { browser: Some("\"1GiB\""), sandbox: Some("\"512MiB\"") },
        meaning: "What one instance is expected to need at its peak, until 10 lives that worked have shown it; at most memory_max.",
        reason: "The default is memory_max: without a figure the worst case is the only safe one.",
    },
    Key {
        table: POOL,
        name: "cpus",
        range: Range::Cores(MilliCpu::new(10), MOST_CORES),
        usual: both("\"1\""),
        meaning: "Processor time per time that one instance may use.",
        reason: "The common figure for one browser session, and for a script that does not ask for more.",
    },
    Key {
        table: POOL,
        name: "cpus_expect",
        range: Range::Cores(MilliCpu::new(10), MOST_CORES),
        usual: both("\"1\""),
        meaning: "Processor time per time that one instance is expected to use, at most cpus; where those that work use more in \
                  one of twenty looks, that counts instead.",
        reason: "The default is cpus: less lets more of them be, and what is measured corrects one that is too small.",
    },
    Key {
        table: POOL,
        name: "pids",
        range: Range::Count(16, 32_768),
        usual: Usual::ByKind { browser: Some("1024"), sandbox: Some("256") },
        meaning: "Processes and threads that one instance may have.",
        reason: "A browser has a hundred and more for each isolated site; 256 are too few for a fork bomb to be felt.",
    },
    Key {
        table: POOL,
        name: "nofile",
        range: Range::Count(256, 1_048_576),
        usual: both("16384"),
        meaning: "Open files that each process may have; not above what the engine itself may have.",
        reason: "Browsers need some thousands; without a limit, programs that close every possible file stall.",
    },
    Key {
        table: POOL,
        name: "shm",
        range: Range::Size(SMALLEST_FOLDER, MOST_MEMORY),
        usual: Usual::ByKind { browser: Some("\"256MiB\""), sandbox: Some("\"64MiB\"") },
        meaning: "Size of /dev/shm; counts towards memory_max.",
        reason: "The engine's own 64 MiB makes tabs crash. The default is at most a quarter of memory_max.",
    },
    Key {
        table: POOL,
        name: "tmpfs",
        range: Range::Sizes("full path of a folder", SMALLEST_FOLDER, MOST_MEMORY),
        usual: Usual::ByKind {
            browser: Some("{ \"/tmp\" = \"128MiB\" }"),
            sandbox: Some("{ \"/tmp\" = \"64MiB\" }"),
        },
        meaning: "Writable folders in memory with their sizes, all counted towards memory_max.",
        reason: "A fresh browser profile takes 32 to 46 MiB. The default is at most a quarter of memory_max.",
    },
    Key {
        table: POOL,
        name: "read_only",
        range: Range::Flag,
        usual: both("true"),
        meaning: "Whether the image's own files are read-only.",
        reason: "What an instance changes in its image would be disk that nobody counts.",
    },
    Key {
        table: POOL,
        name: "user",
        range: Range::Text("a user's name or number, such as \"1000\" or \"1000:1000\"; never root"),
        usual: Usual::Open("the image's own", "\"1000\""),
        meaning: "The user inside.",
        reason: "Whether the image's own is root only the engine knows.",
    },
    Key {
        table: POOL,
        name: "network",
        range: Range::Word(&["none", "bridge"]),
        usual: both("\"none\""),
        meaning: "What an instance reaches: nothing but itself, or whatever this host reaches, unfiltered.",
        reason: "Nothing is reachable unless somebody decided so.",
    },
    Key {
        table: POOL,
        name: "probe.port",
        range: Range::Count(1, 65_535),
        usual: Usual::ByKind { browser: Some("9222"), sandbox: None },
        meaning: "A browser is ready when this port of its own loopback answers GET /json/version.",
        reason: "Chromium's customary DevTools port.",
    },
    Key {
        table: POOL,
        name: "probe",
        range: Range::Command,
        usual: Usual::ByKind { browser: None, sandbox: Some("[\"true\"]") },
        meaning: "A sandbox is ready when this command ends with exit code 0 inside it.",
        reason: "A command that can be run at all is what a sandbox is for.",
    },
    Key {
        table: POOL,
        name: "warm.min",
        range: Range::Count(0, MOST_INSTANCES),
        usual: both("1"),
        meaning: "The stock of warm instances that is kept when nobody asks.",
        reason: "The first caller after a quiet time does not wait for a start. Lowered to a smaller warm.max.",
    },
    Key {
        table: POOL,
        name: "warm.max",
        range: Range::Count(0, MOST_INSTANCES),
        usual: both("1"),
        meaning: "The largest stock; as many as came in the last minute are kept, up to this.",
        reason: "The default is warm.min. At most max_instances.",
    },
    Key {
        table: POOL,
        name: "warm.max_age",
        range: Range::Time(seconds(10), WEEK),
        usual: both("\"1h\""),
        meaning: "A warm instance older than this is replaced.",
        reason: "Pages of a browser that idles for hours are cold.",
    },
    Key {
        table: POOL,
        name: "warm.keep",
        range: Range::Time(seconds(10), WEEK),
        usual: both("\"10m\""),
        meaning: "Where fewer than one request in this time comes, no more than warm.min is kept for the next one.",
        reason: "Whoever comes that seldom waits for a start; the memory serves others better.",
    },
    Key {
        table: POOL,
        name: "max_instances",
        range: Range::Count(1, MOST_INSTANCES),
        usual: both("16"),
        meaning: "The ceiling on instances in any state, those being stopped included.",
        reason: "The default is warm.max where that is more. Docker's bridge has room for 1023.",
    },
    Key {
        table: POOL,
        name: "max_instance_hours.hours",
        range: Range::Count(1, MOST_HOURS),
        usual: Usual::Open("as many as there come", "200"),
        meaning: "Hours that all instances together may be there, whatever they do, within `per`; beyond it none is started.",
        reason: "A ceiling on what a pool may cost. What runs goes on, and what was used is remembered over a restart.",
    },
    Key {
        table: POOL,
        name: "max_instance_hours.per",
        range: Range::Time(HOUR, MONTH),
        usual: both("\"1d\""),
        meaning: "The time that these hours are added up over: always the last of it, and up to a 48th more.",
        reason: "A day is what is planned by.",
    },
    Key {
        table: POOL,
        name: "start_timeout",
        range: Range::Time(SHORTEST, seconds(600)),
        usual: both("\"1m\""),
        meaning: "From the order to start until the probe has answered.",
        reason: "A cold start takes seconds; a minute is a host in trouble.",
    },
    Key {
        table: POOL,
        name: "first_use_timeout",
        range: Range::Time(SHORTEST, seconds(600)),
        usual: both("\"1m\""),
        meaning: "From the grant until the caller first uses the lease.",
        reason: "Whoever asked connects at once, or is gone.",
    },
    Key {
        table: POOL,
        name: "idle_timeout",
        range: Range::Time(SHORTEST, DAY),
        usual: both("\"5m\""),
        meaning: "A lease ends after this long without a byte, a command or a renewal.",
        reason: "Longer than a model thinks between two steps. At most max_runtime, and lowered to it.",
    },
    Key {
        table: POOL,
        name: "max_runtime",
        range: Range::Time(SHORTEST, WEEK),
        usual: both("\"1h\""),
        meaning: "A lease ends this long after its grant, whatever happens.",
        reason: "It bounds what a caller that never lets go can hold.",
    },
    Key {
        table: POOL,
        name: "expect_runtime",
        range: Range::Time(SHORTEST, WEEK),
        usual: both("\"1m\""),
        meaning: "How long a lease is expected to run, until some have ended and it is known; at most max_runtime.",
        reason: "A task of some steps. A wrong figure costs some stock too many or too few until the first end.",
    },
    hold::TIMEOUT,
    hold::LONGEST,
    hold::MAX_HOLDS,
    Key {
        table: POOL,
        name: "stop_timeout",
        range: Range::Time(SHORTEST, seconds(300)),
        usual: both("\"5s\""),
        meaning: "From the polite signal to the kill.",
        reason: "A browser ends within a quarter of a second; five are for one that swaps or hangs.",
    },
    Key {
        table: POOL,
        name: "target_utilization",
        range: Range::Share(Permille::new(100), Permille::new(1000)),
        usual: both("\"70%\""),
        meaning: "How busy the pool's slots may be on average; more stock is kept, up to warm.max, where they would be busier.",
        reason: "Beyond it waits grow faster than what is saved.",
    },
    Key {
        table: POOL,
        name: "miss_target",
        range: Range::Share(Permille::new(1), Permille::new(500)),
        usual: both("\"5%\""),
        meaning: "The chance that a request may find nothing warm; stock up to warm.max covers what comes during a start.",
        reason: "One in twenty waits for a start. A tenth of it costs one or two warm instances more.",
    },
    Key {
        table: POOL,
        name: "provider",
        range: Range::Text("a provider's name"),
        usual: Usual::Open("none", "\"models\""),
        meaning: "The provider that its leases need: while as many as may wait for it, or it is throttled, the pool lends and starts nothing.",
        reason: "What is lent then would only wait with its memory.",
    },
    Key {
        table: POOL,
        name: "journal_output",
        range: Range::Flag,
        usual: both("false"),
        meaning: "Whether what its instances write goes to the journal, too, as entries with pool, instance and lease.",
        reason: "It is the callers' words and the journal is the operator's: nothing goes there unasked.",
    },
    Key {
        table: POOL,
        name: "on_pressure",
        range: Range::Word(&["keep", "interrupt"]),
        usual: both("\"keep\""),
        meaning: "What becomes of its leases when the host is short of memory: they go on, or may be interrupted after all that is warm.",
        reason: "Work that is under way is what the host is there for. At the critical level one that holds more than its envelope may go all the same.",
    },
    admission::WITHOUT_TELEMETRY,
    admission::WITHOUT_TELEMETRY_SLOTS,
    admission::WITHOUT_TELEMETRY_USE,
    Key {
        table: POOL,
        name: "class.interactive.share",
        range: Range::Share(Permille::new(1), Permille::new(1000)),
        usual: Usual::Open("one slot, and what others leave", "\"60%\""),
        meaning: "The share of max_instances that this class, or another one of the host's, is guaranteed: while it waits, \
                  none gets more than its own share before it has this.",
        reason: "What nobody waits for is lent to any class. Every class has one slot at least, so that none is starved; \
                 with fewer slots than classes they take turns, by their shares.",
    },
    Key {
        table: POOL,
        name: "class.interactive.hold_back",
        range: Range::Count(0, MOST_INSTANCES),
        usual: both("0"),
        meaning: "Slots of max_instances that are lent to no other class, even while nobody of this one waits.",
        reason: "A guarantee is met when the next lease ends; where that is too late, slots are kept free.",
    },
];
