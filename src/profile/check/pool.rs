//! One pool: `[pool.NAME]`.
//!
//! Every key with its range and its default. What depends on the kind of the image is in two tables of
//! defaults, [`BROWSER`] and [`SANDBOX`]. A default is lowered to a bound that another key sets; it is never
//! raised, so nobody gets more than the reference says without having written it.
//!
//! Memory is one sum: `/dev/shm` and the writable folders are pages of the instance's own cgroup, so
//! they and the process must fit into `memory_max` together.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::profile::check::fields::{Fields, Given, nearest};
use crate::profile::check::shape::{self, spell_size, spell_time};
use crate::profile::check::{DAY, MOST_CORES, MOST_MEMORY, Names, shares, telemetry};
use crate::profile::mistake::Wrong;
use crate::profile::tree::{Data, Value, quote};
use crate::profile::{
    ClassName, Deadlines, Holds, InstanceHours, Kind, Network, OnPressure, Pool, Probe, ProviderName,
    Template, Warm,
};
use crate::quantity::{Bytes, MilliCpu, Permille};

/// What the process itself needs beside the files it keeps in memory. An interpreter starts in less.
pub(in crate::profile) const PROCESS_FLOOR: Bytes = Bytes::mib(16);

/// The smallest size of a folder in memory: one page. Zero would mean "no limit" to the kernel.
pub(in crate::profile) const SMALLEST_FOLDER: Bytes = Bytes::new(4096);

/// Most instances of a pool; Docker's bridge has room for 1023, pools without network for some more.
pub(in crate::profile) const MOST_INSTANCES: u32 = 4096;

/// More hours than the most instances have in the longest time.
pub(in crate::profile) const MOST_HOURS: u32 = 4_000_000;

/// The shortest and the longest time that hours are added up over.
pub(in crate::profile) const HOUR: Duration = Duration::from_secs(3600);
pub(in crate::profile) const MONTH: Duration = Duration::from_secs(31 * 24 * 3600);

/// The shortest time that is a deadline at all.
pub(in crate::profile) const SHORTEST: Duration = Duration::from_millis(1);

/// What the keys of a pool are that are not written, by kind.
struct Defaults {
    memory_max: Bytes,
    pids: u32,
    shm: Bytes,
    tmp: Bytes,
}

const BROWSER: Defaults = Defaults {
    // One page of the open web peaks near 400 MiB; browserless, Selenoid and browsertrix all say 1 GiB.
    memory_max: Bytes::mib(1024),
    // A browser has a hundred threads and more for each process it isolates a site in.
    pids: 1024,
    // Selenoid's size. The engine's own 64 MiB makes tabs crash.
    shm: Bytes::mib(256),
    // A fresh browser profile takes 32 to 46 MiB; the rest is for downloads.
    tmp: Bytes::mib(128),
};

const SANDBOX: Defaults = Defaults {
    // A script with its interpreter and some data.
    memory_max: Bytes::mib(512),
    // Enough for a build or a process pool, too few for a fork bomb to be felt.
    pids: 256,
    // The engine's own default.
    shm: Bytes::mib(64),
    // Scratch files of a script.
    tmp: Bytes::mib(64),
};

/// What a pool's table comes to.
pub(super) enum Written {
    /// A pool.
    Pool(Box<Pool>),
    /// `enabled = false`: what an earlier layer wrote of it does not hold.
    Disabled,
    /// A key is missing that has no default, which has been noted.
    Incomplete,
}

/// Reads a pool. Of one that is not enabled only what is written must be right.
pub(super) fn pool(mut fields: Fields<'_>, names: &Names) -> Written {
    let enabled = fields.read("enabled", shape::flag).or(true).value;
    if !enabled {
        fields.may_be_partial();
    }
    match whole_pool(fields, names) {
        _ if !enabled => Written::Disabled,
        Some(pool) => Written::Pool(Box::new(pool)),
        None => Written::Incomplete,
    }
}

fn whole_pool(mut fields: Fields<'_>, names: &Names) -> Option<Pool> {
    let classes = &names.classes;
    let kinds = [Kind::Browser, Kind::Sandbox].map(|kind| (kind.as_str(), kind));
    let kind = fields.require("kind", "kind = \"browser\"", shape::word(&kinds));
    let default_class = default_class(&mut fields, classes);
    let memory = memory(&mut fields, kind);
    let template = template(&mut fields, kind, memory.max, memory.shm, memory.tmpfs);
    let cpus_expect = cpus_expect(&mut fields, template.as_ref());
    let (warm, max_instances) = stock(&mut fields);
    let max_instance_hours = instance_hours(&mut fields);
    let shares = shares::of(&mut fields, classes, max_instances);
    let (deadlines, expect_runtime) = deadlines(&mut fields);
    let holds = holds(&mut fields, max_instances);
    let (target_utilization, miss_target) = targets(&mut fields);
    // It is the callers' words and the journal is the operator's: nothing goes there unasked.
    let journal_output = fields.read("journal_output", shape::flag).or(false).value;
    // Work that is under way is what the host is there for: it is interrupted where the operator said so.
    let words = [OnPressure::Keep, OnPressure::Interrupt].map(|word| (word.as_str(), word));
    let on_pressure = fields.read("on_pressure", shape::word(&words)).or(OnPressure::Keep).value;
    let without_telemetry = telemetry::of(&mut fields);
    let provider = provider(&mut fields, &names.providers);
    fields.finish();
    let (kind, template) = (kind?, template?);
    let memory_expect = memory.expect;
    Some(Pool {
        kind,
        default_class,
        template,
        memory_expect,
        cpus_expect,
        warm,
        max_instances,
        max_instance_hours,
        deadlines,
        journal_output,
        on_pressure,
        without_telemetry,
        classes: shares,
        holds,
        provider,
        expect_runtime,
        target_utilization,
        miss_target,
    })
}

fn instance_hours(fields: &mut Fields<'_>) -> Option<InstanceHours> {
    let mut budget = fields.section("max_instance_hours", "{ hours = 200, per = \"1d\" }")?;
    let hours = budget.read("hours", shape::count(1..=MOST_HOURS)).map(Some).or(None).value;
    // A day is what is paid and planned by.
    let per = budget.read("per", shape::time(HOUR..=MONTH)).or(DAY).value;
    budget.finish();
    hours.map(|hours| InstanceHours { hours, per })
}

/// Without one all that it may use: until its use was measured, the worst case is the only safe expectation.
fn cpus_expect(fields: &mut Fields<'_>, template: Option<&Template>) -> MilliCpu {
    let expect = fields.read("cpus_expect", shape::cores(MilliCpu::new(10)..=MOST_CORES));
    let Some(most) = template.map(|template| template.cpus) else { return MilliCpu::new(0) };
    let expect = expect.or(most);
    if expect.sound && expect.value > most {
        let wrong = format!("expected at most `cpus`, which is {most}, found {}", expect.value);
        fields.clash(&expect.place, "cpus_expect", Wrong::new(wrong));
    }
    expect.value
}

fn default_class(fields: &mut Fields<'_>, classes: &BTreeSet<String>) -> ClassName {
    let class = |value: &Value| {
        let Data::Text(name) = &value.data else { return Err(shape::unexpected(value, "a class's name")) };
        is_class(name, classes).map(|()| ClassName::new(name.as_str()))
    };
    // Whoever does not say is taken for a person who waits: the strictest expectation.
    fields.read("default_class", class).or(ClassName::new("interactive")).value
}

/// Whether the host has a class of this name.
pub(super) fn is_class(name: &str, classes: &BTreeSet<String>) -> Result<(), Wrong> {
    if classes.contains(name) {
        return Ok(());
    }
    let hint = match nearest(name, classes.iter().map(String::as_str)) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("there are {}", classes.iter().map(|c| quote(c)).collect::<Vec<_>>().join(", ")),
    };
    Err(Wrong::new(format!("there is no class {}", quote(name))).hint(hint))
}

/// All that is memory in a pool.
struct Memory {
    max: Bytes,
    expect: Bytes,
    shm: Bytes,
    tmpfs: BTreeMap<String, Bytes>,
}

fn memory(fields: &mut Fields<'_>, kind: Option<Kind>) -> Memory {
    let defaults = defaults(kind);
    let max = fields.read("memory_max", shape::size(PROCESS_FLOOR..=MOST_MEMORY)).or(defaults.memory_max);
    // A quarter each for the folders that nobody sized, so that half remains for the process.
    let quarter = Bytes::new(max.value.get() / 4);

    let expect = fields.read("memory_expect", shape::size(Bytes::mib(1)..=MOST_MEMORY));
    // Until lives were measured, the worst case is the only safe expectation.
    let expect = expect.or(max.value);
    // Without a kind the default of `memory_max` is not known.
    let max_known = max.sound && (kind.is_some() || fields.has("memory_max"));
    if max_known && expect.sound && expect.value > max.value {
        let [m, e] = [max.value, expect.value].map(spell_size);
        let wrong = Wrong::new(format!("expected at most `memory_max`, which is {m}, found {e}"));
        fields.clash(&expect.place, "memory_expect", wrong);
    }

    let shm = fields.read("shm", shape::size(SMALLEST_FOLDER..=MOST_MEMORY)).or(defaults.shm.min(quarter));
    let folders = match fields.section("tmpfs", "{ \"/tmp\" = \"64MiB\" }") {
        Some(table) => table.entries(folder_name, shape::size(SMALLEST_FOLDER..=MOST_MEMORY)),
        None => BTreeMap::from([("/tmp".into(), defaults.tmp.min(quarter))]),
    };
    let memory = Memory { max: max.value, expect: expect.value, shm: shm.value, tmpfs: folders };
    if kind.is_some() && max.sound && shm.sound {
        memory_fits(fields, &max, &memory);
    }
    memory
}

/// Files in memory and the process must fit together, else a full folder kills the instance.
fn memory_fits(fields: &Fields<'_>, max: &Given<Bytes>, memory: &Memory) {
    let tmpfs: Bytes = memory.tmpfs.values().copied().sum();
    let need = memory.shm.saturating_add(tmpfs).saturating_add(PROCESS_FLOOR);
    if need > memory.max {
        let [shm, tmpfs, floor, need, max_size] =
            [memory.shm, tmpfs, PROCESS_FLOOR, need, memory.max].map(spell_size);
        let sum = format!("shm {shm} + tmpfs {tmpfs} + {floor} for the process = {need}");
        let default = if fields.has("memory_max") { "" } else { ", the default" };
        let wrong = Wrong::new(format!("expected at least {sum}, found {max_size}{default}"));
        let hint = "raise `memory_max`, or make `shm` or `tmpfs` smaller".to_owned();
        fields.clash(&max.place, "memory_max", wrong.hint(hint));
    }
}

/// The rule for paths of writable folders.
fn folder_name(path: &str) -> Result<(), Wrong> {
    let normal = path.strip_prefix('/').is_some_and(|rest| {
        rest.split('/').all(|part| !matches!(part, "" | "." | "..")) && !path.contains(char::is_control)
    });
    let wrong = |expected: &str| Wrong::new(format!("expected {expected}, found {}", quote(path)));
    if !normal {
        return Err(wrong(
            "the full path of a folder below /, such as \"/tmp\", without `..` and without `/` at its end",
        ));
    }
    let kernels = ["/proc", "/sys", "/dev"];
    if kernels.iter().any(|top| path.strip_prefix(top).is_some_and(|r| r.is_empty() || r.starts_with('/'))) {
        let hint = (path == "/dev/shm").then(|| "the size of /dev/shm is the key `shm`".to_owned());
        return Err(wrong("a folder that is not the kernel's").hint(hint));
    }
    Ok(())
}

fn template(
    fields: &mut Fields<'_>,
    kind: Option<Kind>,
    memory_max: Bytes,
    shm: Bytes,
    tmpfs: BTreeMap<String, Bytes>,
) -> Option<Template> {
    let is_image = |s: &str| !s.is_empty() && !s.contains(|c: char| c.is_whitespace() || c.is_control());
    let image = shape::text("an image's name without spaces", is_image);
    let example = match kind {
        Some(Kind::Browser) | None => "image = \"stoker/chromium:latest\"",
        Some(Kind::Sandbox) => "image = \"stoker/python:latest\"",
    };
    let image = fields.require("image", example, image);
    let command = shape::command("a command as a list of texts, such as [\"sleep\", \"infinity\"]");
    // Without one the image's own command runs.
    let command = fields.read("command", command).map(Some).or(None).value;
    let env = environment(fields);
    // One core: what Selenoid and Moon give a browser, and a script that does not ask for more.
    let cpus = fields.read("cpus", shape::cores(MilliCpu::new(10)..=MOST_CORES)).or(MilliCpu::cores(1)).value;
    // Below 16 hardly an interpreter starts; 32768 is the kernel's own limit for a whole small host.
    let pids = fields.read("pids", shape::count(16..=32_768)).or(defaults(kind).pids).value;
    // Browsers need tens of thousands; without a limit, programs that close every possible file stall.
    let nofile = fields.read("nofile", shape::count(256..=1_048_576)).or(16_384).value;
    // What an instance changes in its image would be disk that nobody counts.
    let read_only = fields.read("read_only", shape::flag).or(true).value;
    // Without one the image's own user; whether that is root only the engine knows.
    let user = fields.read("user", user).map(Some).or(None).value;
    let networks = [Network::None, Network::Bridge].map(|network| (network.as_str(), network));
    // Nothing is reachable unless somebody decided so.
    let network = fields.read("network", shape::word(&networks)).or(Network::None).value;
    let probe = probe(fields, kind);
    let image = image?;
    Some(Template {
        image,
        command,
        env,
        memory_max,
        cpus,
        pids,
        nofile,
        shm,
        tmpfs,
        read_only,
        user,
        network,
        probe: probe?,
    })
}

fn environment(fields: &mut Fields<'_>) -> BTreeMap<String, String> {
    let Some(env) = fields.section("env", "{ LANG = \"C.UTF-8\" }") else { return BTreeMap::new() };
    let name = |name: &str| {
        let body = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.chars().all(body) && name.starts_with(|c: char| body(c) && !c.is_ascii_digit()) {
            return Ok(());
        }
        let expected = "a variable's name of letters, digits and `_`, not beginning with a digit";
        Err(Wrong::new(format!("expected {expected}, found {}", quote(name))))
    };
    env.entries(name, shape::text("a text", |s| !shape::has_nul(s)))
}

/// A user inside the image, who is never root however it is spelled.
fn user(value: &Value) -> Result<String, Wrong> {
    let word = |s: &str| {
        let body = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        s.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && s.chars().all(body)
    };
    let is_user = |s: &str| s.split_once(':').map_or(word(s), |(user, group)| word(user) && word(group));
    let user = shape::text("a user's name or number, such as \"1000\" or \"1000:1000\"", is_user)(value)?;
    let who = user.split(':').next().unwrap_or_default();
    // `00` is root, too.
    if who == "root" || who.bytes().all(|b| b == b'0') {
        let wrong = format!("expected a user other than root, found {}", quote(&user));
        return Err(Wrong::new(wrong).hint("left out, it is the image's own user".to_owned()));
    }
    Ok(user)
}

fn probe(fields: &mut Fields<'_>, kind: Option<Kind>) -> Option<Probe> {
    match kind {
        Some(Kind::Browser) => {
            // Chromium's customary DevTools port.
            let mut port = 9222;
            let example = "{ port = 9222 }, because the pool's kind is \"browser\"";
            if let Some(mut probe) = fields.section("probe", example) {
                port = probe.read("port", shape::count(1..=u32::from(u16::MAX))).or(port).value;
                probe.finish();
            }
            Some(Probe::DevTools { port: u16::try_from(port).ok()? })
        }
        Some(Kind::Sandbox) => {
            let expected =
                "a command as a list of texts, such as [\"true\"], because the pool's kind is \"sandbox\"";
            // A command that can be run at all is what a sandbox is for.
            let command = fields.read("probe", shape::command(expected)).or(vec!["true".into()]);
            Some(Probe::Command(command.value))
        }
        None => {
            // What it should look like depends on the kind, which has been noted as wrong.
            let _ = fields.read("probe", |_| Ok(()));
            None
        }
    }
}

fn stock(fields: &mut Fields<'_>) -> (Warm, u32) {
    let instances = fields.read("max_instances", shape::count(1..=MOST_INSTANCES));
    // Pages of a browser that idles for hours are cold, and its image may have been replaced.
    let mut max_age = Duration::from_secs(3600);
    // Who comes less often than that is content with `min`.
    let mut keep = Duration::from_secs(600);
    // One: the first caller after a quiet time does not wait for a start.
    let (mut min, mut max) = (1, 1);
    if let Some(mut warm) = fields.section("warm", "{ min = 1, max = 4 }") {
        let low = warm.read("min", shape::count(0..=MOST_INSTANCES));
        let high = warm.read("max", shape::count(0..=MOST_INSTANCES));
        let low_default = high.written().map_or(min, |high| min.min(*high));
        let low = low.or(low_default);
        // No more than what is always wanted, unless somebody allows more.
        let high = high.or(low.value);
        (min, max) = (low.value, high.value);
        if low.sound && high.sound && min > max {
            let wrong = Wrong::new(format!("expected at least `min`, which is {min}, found {max}"));
            warm.clash(&high.place, "max", wrong);
        }
        if let Some(most) = instances.written().filter(|most| max > **most && high.sound && low.sound) {
            let wrong = Wrong::new(format!("expected at most `max_instances`, which is {most}, found {max}"));
            warm.clash(&high.place, "max", wrong);
        }
        // Younger, and the pool would do nothing but replace; a week is as good as for ever.
        let ages = Duration::from_secs(10)..=7 * DAY;
        max_age = warm.read("max_age", shape::time(ages.clone())).or(max_age).value;
        keep = warm.read("keep", shape::time(ages)).or(keep).value;
        warm.finish();
    }
    // Sixteen browsers fill a small host; what memory allows is decided anew at every start anyway.
    let max_instances = instances.or(max.max(16)).value;
    (Warm { min, max, max_age, keep }, max_instances)
}

/// How busy slots may be, and how often nothing warm may be found.
fn targets(fields: &mut Fields<'_>) -> (Permille, Permille) {
    // The usual bound of queueing: beyond it waits grow faster than what is saved.
    let utilization =
        fields.read("target_utilization", shape::share(Permille::new(100)..=Permille::new(1000)));
    // One in twenty waits for a start. Each further nine costs about one more warm instance.
    let miss = fields.read("miss_target", shape::share(Permille::new(1)..=Permille::new(500)));
    (utilization.or(Permille::new(700)).value, miss.or(Permille::new(50)).value)
}

/// All deadlines, and how long a lease is expected to run.
fn deadlines(fields: &mut Fields<'_>) -> (Deadlines, Duration) {
    let seconds = Duration::from_secs;
    let read = |fields: &mut Fields<'_>, key, most: Duration| fields.read(key, shape::time(SHORTEST..=most));
    // A cold start takes seconds; a minute is a host in trouble, ten are a start that will not come.
    let start_timeout = read(fields, "start_timeout", seconds(600)).or(seconds(60)).value;
    // Whoever asked connects at once, or is gone.
    let first_use_timeout = read(fields, "first_use_timeout", seconds(600)).or(seconds(60)).value;
    let idle = read(fields, "idle_timeout", DAY);
    // One hour bounds what a caller that never lets go can hold.
    let runtime = read(fields, "max_runtime", 7 * DAY).or(seconds(3600));
    // Five minutes: longer than a model thinks between two steps.
    let idle = idle.or(seconds(300).min(runtime.value));
    let expect = fields.read("expect_runtime", shape::time(SHORTEST..=7 * DAY));
    // A task of some steps; what is measured takes over with the first end.
    let expect = expect.or(seconds(60).min(runtime.value));
    // A browser ends within a quarter of a second when asked; five are for one that swaps or hangs.
    let stop_timeout = read(fields, "stop_timeout", seconds(300)).or(seconds(5)).value;
    for (key, given) in [("idle_timeout", &idle), ("expect_runtime", &expect)] {
        if given.sound && runtime.sound && given.value > runtime.value {
            let [found, most] = [given.value, runtime.value].map(spell_time);
            let wrong = Wrong::new(format!("expected at most `max_runtime`, which is {most}, found {found}"));
            fields.clash(&given.place, key, wrong);
        }
    }
    let deadlines = Deadlines {
        start_timeout,
        first_use_timeout,
        idle_timeout: idle.value,
        max_runtime: runtime.value,
        stop_timeout,
    };
    (deadlines, expect.value)
}

/// The provider that its leases need; most need none.
fn provider(fields: &mut Fields<'_>, providers: &BTreeSet<String>) -> Option<ProviderName> {
    let provider = |value: &Value| {
        let Data::Text(name) = &value.data else { return Err(shape::unexpected(value, "a provider's name")) };
        if providers.contains(name) {
            return Ok(ProviderName::new(name.as_str()));
        }
        let hint = match nearest(name, providers.iter().map(String::as_str)) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("add a table such as: [provider.{name}]"),
        };
        Err(Wrong::new(format!("there is no provider {}", quote(name))).hint(hint))
    };
    fields.read("provider", provider).map(Some).or(None).value
}

/// How its leases may wait for a person.
fn holds(fields: &mut Fields<'_>, slots: u32) -> Holds {
    let mut holds = Holds::of_slots(slots);
    if let Some(mut hold) = fields.section("hold", "{ timeout = \"10m\", longest = \"1h\" }") {
        let times = || shape::time(SHORTEST..=7 * DAY);
        let timeout = hold.read("timeout", times());
        let longest = hold.read("longest", times()).or(holds.longest);
        let timeout = timeout.or(holds.timeout.min(longest.value));
        if timeout.sound && longest.sound && timeout.value > longest.value {
            let [found, most] = [timeout.value, longest.value].map(spell_time);
            let wrong = Wrong::new(format!("expected at most `longest`, which is {most}, found {found}"));
            hold.clash(&timeout.place, "timeout", wrong);
        }
        (holds.timeout, holds.longest) = (timeout.value, longest.value);
        hold.finish();
    }
    // None: a pool whose leases have nobody to wait for.
    holds.most = fields.read("max_holds", shape::count(0..=MOST_INSTANCES)).or(holds.most).value;
    holds
}

/// Without a kind some defaults are as good as others: the profile is not going to be used.
fn defaults(kind: Option<Kind>) -> &'static Defaults {
    match kind {
        Some(Kind::Browser) => &BROWSER,
        Some(Kind::Sandbox) | None => &SANDBOX,
    }
}
