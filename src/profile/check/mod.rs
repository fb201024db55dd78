//! From a profile's text, in one layer or several, to the checked profile, or to all of its mistakes at once.
//!
//! Every key is declared once: how it looks, what range it may have, and beside it its default with the
//! reason. Keys are read first, each by itself; then come the rules between them, which look only at
//! values that were right by themselves. A rule that is broken is reported at the key that breaks it.
//!
//! Invariant: a [`HostProfile`] comes out exactly if no mistake was noted. Not here: anything that
//! needs the machine (its memory, its engine, whether an image exists).

mod fields;
mod pool;
pub(super) mod shape;
mod shares;
mod telemetry;
#[cfg(test)]
pub(super) mod tests;

pub(super) use pool::{HOUR, MONTH, MOST_HOURS, MOST_INSTANCES, PROCESS_FLOOR, SHORTEST, SMALLEST_FOLDER};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::profile::check::fields::{Fields, Notes};
use crate::profile::check::pool::Written;
use crate::profile::effective::Effective;
use crate::profile::mistake::{Mistake, Place, Source, Wrong};
use crate::profile::tree::{Tree, quote};
use crate::profile::{
    Amount, Class, ClassName, Host, HostProfile, Mistakes, PoolName, Provider, ProviderName, TenantLimits,
};
use crate::quantity::{Bytes, MilliCpu, Permille};

/// The largest file that is read as a profile. As many pools as allowed, with every key and its
/// comment, are about a fifth of it; more is some other file.
pub(super) const LARGEST_FILE: usize = 1 << 20;

/// Most pools of a host. Each has its own stock, queue and metrics, all listed by every status answer.
const MOST_POOLS: usize = 64;

/// Most classes of a host. Each is another queue in each pool.
const MOST_CLASSES: usize = 32;

/// Most providers of a host. Each is listed by every scrape.
const MOST_PROVIDERS: usize = 64;

/// Most tenants with limits of their own.
const MOST_TENANTS: usize = 1024;

/// The largest amount of memory any key takes: more than any host has, and far from overflowing a sum.
pub(super) const MOST_MEMORY: Bytes = Bytes::mib(16 << 20);

/// The most cores any key takes: more than any host has.
pub(super) const MOST_CORES: MilliCpu = MilliCpu::cores(1024);

/// The classes that every host has, whether its profile names them or not.
const OWN_CLASSES: [&str; 2] = ["interactive", "batch"];

pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);

/// The profile that a text describes; `file` is what its mistakes call it.
///
/// # Errors
/// All mistakes in it.
pub fn check(file: &str, text: &str) -> Result<HostProfile, Mistakes> {
    let layer = Layer { file: file.into(), bytes: text.into() };
    layered(vec![layer]).map(|effective| effective.profile)
}

/// One layer as it was read: what its mistakes call it, and what is in it.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) file: String,
    pub(super) bytes: Vec<u8>,
}

/// The profile that these layers describe together, the later over the earlier. There is at least one.
///
/// # Errors
/// All mistakes in all of them.
pub(super) fn layered(layers: Vec<Layer>) -> Result<Effective, Mistakes> {
    let mut whole: Option<Tree> = None;
    let mut unread = Vec::new();
    for (number, layer) in layers.into_iter().enumerate() {
        match parse(number, layer) {
            Ok(tree) => match &mut whole {
                Some(below) => below.overlay(tree),
                None => whole = Some(tree),
            },
            Err(mistake) => unread.push(mistake),
        }
    }
    if !unread.is_empty() {
        // What the others lack may be in these, so only what is no TOML is told beside it.
        unread.extend(whole.into_iter().flat_map(|tree| tree.mistakes));
        return Err(Mistakes::from(unread).expect("there is one"));
    }
    let mut tree = whole.expect("there is a layer");
    let notes = Notes::new(&mut tree);
    let profile = profile(&tree, &notes);
    match (notes.into_mistakes(), profile) {
        (Some(mistakes), _) => Err(mistakes),
        (None, Some(profile)) => Ok(Effective::new(profile, &tree.root)),
        (None, None) => unreachable!("a key has no value and nobody noted why"),
    }
}

/// One layer's text as a tree, or why it is none.
fn parse(number: usize, layer: Layer) -> Result<Tree, Mistake> {
    let Layer { file, bytes } = layer;
    let single = |file, text, at, wrong| {
        let place = Place::new(&Arc::new(Source { file, text, layer: number }), at..at);
        Mistake::new(&place, "", wrong)
    };
    if bytes.len() > LARGEST_FILE {
        let wrong = Wrong::new("a profile has at most 1 MiB, and this file is larger");
        return Err(single(file, String::new(), 0, wrong));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Tree::parse(&Arc::new(Source { file, text, layer: number }))),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            Err(single(file, text, at, Wrong::new("expected text in UTF-8, found other bytes")))
        }
    }
}

fn profile(tree: &Tree, notes: &Notes) -> Option<HostProfile> {
    let mut root = Fields::root(tree, notes);
    let host = host(root.section("host", "[host]"));
    let class_tables = root.section("class", "[class.interactive]");
    let class_names = class_names(class_tables.as_ref());
    let classes = classes(class_tables);
    let provider_tables = root.section("provider", "[provider.models]");
    let names = Names { classes: class_names, providers: names_of(provider_tables.as_ref()) };
    let providers = providers(provider_tables);
    let tenants = tenants(root.section("tenant", "[tenant.alice]"));
    let pool_tables = root.section("pool", "[pool.chromium]");
    // A pool section that is no table at all was noted as such.
    if pool_tables.as_ref().map_or(!root.has("pool"), |pools| pools.len() == 0) {
        let hint = "add a table such as: [pool.chromium]".to_owned();
        let place = pool_tables.as_ref().map_or(root.place(), Fields::place);
        root.clash(place, "pool", Wrong::new("at least one pool is required").hint(hint));
    }
    root.finish();
    let mut pools = BTreeMap::new();
    let (mut complete, mut disabled) = (true, 0);
    if let Some(tables) = pool_tables {
        limit_count(&tables, MOST_POOLS, "pools");
        for (name, fields) in tables.sections("[pool.chromium]") {
            tables.name_is_right(name, table_name);
            match pool::pool(fields, &names) {
                Written::Pool(pool) => drop(pools.insert(PoolName::new(name), *pool)),
                Written::Disabled => disabled += 1,
                Written::Incomplete => complete = false,
            }
        }
        telemetry::hold_together(&tables, &pools, complete);
        if complete && pools.is_empty() && disabled > 0 {
            let wrong = "at least one pool is required, and all that are written are `enabled = false`";
            tables.note(Wrong::new(wrong));
        }
    }
    let providers = providers.filter(|_| complete)?;
    Some(HostProfile { host, classes, pools, providers, tenants })
}

fn host(fields: Option<Fields<'_>>) -> Host {
    // 10 %: 400 MiB of 4 GiB, for the engine, the logs and this daemon. Large hosts should say less.
    let mut reserve_memory = Amount::Share(Permille::new(100));
    // Half a core: the engine's and the daemon's own work at a few starts per second.
    let mut reserve_cpu = MilliCpu::new(500);
    // A quarter: what the host runs beside containers, each of which may have all that its limit allows.
    let mut reserve_pids = Permille::new(250);
    // 5 %: room for the files of the images, which would otherwise be read from disk again and again.
    let mut floor = Amount::Share(Permille::new(50));
    // 5 %: an engine with a full disk starts nothing, and logs, records and this host's own work go on until then.
    let mut disk_floor = Amount::Share(Permille::new(50));
    // Twice: browsers and sandboxes mostly wait, for the network or for their caller.
    let mut cpu_overcommit = Permille::new(2000);
    // Three, as E2B starts per node: more at once only makes each of them slower.
    let mut max_starts = 3;
    let mut name = None;

    if let Some(mut host) = fields {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        let expected = "1 to 63 letters, digits, `-` and `.`";
        let name_shape = shape::text(expected, |s| (1..=63).contains(&s.len()) && s.chars().all(is_name));
        // Without one it is the machine's own host name, which only the daemon knows.
        name = host.read("name", name_shape).map(Some).or(None).value;
        // A reserve or floor of everything would leave nothing to lend.
        let shares = Permille::new(0)..=Permille::new(950);
        if let Some(mut reserve) = host.section("reserve", "{ memory = \"6%\", cpu = \"1\" }") {
            let memory = shape::amount(MOST_MEMORY, shares.clone());
            reserve_memory = reserve.read("memory", memory).or(reserve_memory).value;
            let cpu = shape::cores(MilliCpu::new(0)..=MOST_CORES);
            reserve_cpu = reserve.read("cpu", cpu).or(reserve_cpu).value;
            reserve_pids = reserve.read("pids", shape::share(shares.clone())).or(reserve_pids).value;
            reserve.finish();
        }
        floor = host.read("floor", shape::amount(MOST_MEMORY, shares.clone())).or(floor).value;
        disk_floor = host.read("disk_floor", shape::amount(MOST_MEMORY, shares)).or(disk_floor).value;
        // Below 100 % cores would lie idle by decree; ten times is where nothing finishes any more.
        let overcommit = shape::share(Permille::new(1000)..=Permille::new(10_000));
        cpu_overcommit = host.read("cpu_overcommit", overcommit).or(cpu_overcommit).value;
        max_starts = host.read("max_starts", shape::count(1..=64)).or(max_starts).value;
        host.finish();
    }
    Host { name, reserve_memory, reserve_cpu, reserve_pids, floor, disk_floor, cpu_overcommit, max_starts }
}

/// What a pool may name, right or wrong itself: what is wrong there is reported once.
pub(super) struct Names {
    pub(super) classes: BTreeSet<String>,
    pub(super) providers: BTreeSet<String>,
}

fn names_of(tables: Option<&Fields<'_>>) -> BTreeSet<String> {
    let written = tables.map(|tables| tables.sections("[provider.models]")).unwrap_or_default();
    written.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// All providers; none at all where one of them has no rate, which has been noted.
fn providers(tables: Option<Fields<'_>>) -> Option<BTreeMap<ProviderName, Provider>> {
    let Some(tables) = tables else { return Some(BTreeMap::new()) };
    limit_count(&tables, MOST_PROVIDERS, "providers");
    let mut providers = BTreeMap::new();
    let mut complete = true;
    for (name, mut fields) in tables.sections("[provider.models]") {
        tables.name_is_right(name, table_name);
        let rate = fields.require("rate", "rate = \"60/min\"", shape::rate);
        // One: what a pause has left over, some services count as a crowd.
        let burst = fields.read("burst", shape::count(1..=10_000)).or(1).value;
        // Each that waits holds up an instance with all its memory.
        let max_waiting = fields.read("max_waiting", shape::count(1..=10_000)).or(10).value;
        // As long as most clients wait for an answer.
        let wait = Duration::from_secs(30);
        let max_wait = fields.read("max_wait", shape::time(SHORTEST..=DAY)).or(wait).value;
        fields.finish();
        match rate {
            Some(rate) => {
                let provider = Provider { rate, burst, max_waiting, max_wait };
                providers.insert(ProviderName::new(name), provider);
            }
            None => complete = false,
        }
    }
    complete.then_some(providers)
}

/// What a pool may name as its class: also one with mistakes in it, so that these are reported once.
fn class_names(tables: Option<&Fields<'_>>) -> BTreeSet<String> {
    let written = tables.map(|tables| tables.sections("[class.interactive]")).unwrap_or_default();
    OWN_CLASSES.into_iter().chain(written.iter().map(|(name, _)| *name)).map(String::from).collect()
}

fn classes(tables: Option<Fields<'_>>) -> BTreeMap<ClassName, Class> {
    let mut classes: BTreeMap<ClassName, Class> =
        OWN_CLASSES.into_iter().map(|name| (ClassName::new(name), default_class(name))).collect();
    if let Some(tables) = tables {
        limit_count(&tables, MOST_CLASSES, "classes");
        for (name, fields) in tables.sections("[class.interactive]") {
            tables.name_is_right(name, table_name);
            classes.insert(ClassName::new(name), class(fields, default_class(name)));
        }
    }
    classes
}

/// What a class expects that says nothing itself.
fn default_class(name: &str) -> Class {
    let (target, drain, max, queued) = match name {
        // Somebody watches: a second is felt, half a minute is given up on. More than 200 waiting would
        // not be served within that.
        "interactive" => (1, 60, 30, 200),
        // Nobody watches: jobs come by the thousand and are content with the hour.
        "batch" => (5 * 60, 5 * 60, 3600, 5000),
        // Another program waits; most clients' own limits are minutes.
        _ => (10, 60, 5 * 60, 1000),
    };
    let [target_wait, drain_target, max_wait] = [target, drain, max].map(Duration::from_secs);
    // An estimate may be wrong, and whoever waits may be lucky.
    Class { target_wait, drain_target, max_wait, max_queued: queued, refuse_early: false }
}

fn class(mut fields: Fields<'_>, default: Class) -> Class {
    // Callers hold a connection or a ticket that long; a day is longer than either lives.
    let target = fields.read("target_wait", shape::time(Duration::ZERO..=DAY));
    let max = fields.read("max_wait", shape::time(Duration::from_millis(1)..=DAY)).or(default.max_wait);
    let target = target.or(default.target_wait.min(max.value));
    if target.sound && max.sound && target.value > max.value {
        let [t, m] = [target.value, max.value].map(shape::spell_time);
        let wrong = Wrong::new(format!("expected at most `max_wait`, which is {m}, found {t}"));
        fields.clash(&target.place, "target_wait", wrong);
    }
    // Shorter than a start, and every one that waits would stand for a whole slot; a day is a batch for the night.
    let drains = shape::time(Duration::from_secs(1)..=DAY);
    let drain_target = fields.read("drain_target", drains).or(default.drain_target).value;
    // Each waiting request costs a few KiB of the daemon's memory.
    let max_queued = fields.read("max_queued", shape::count(1..=100_000)).or(default.max_queued).value;
    let refuse_early = fields.read("refuse_early", shape::flag).or(default.refuse_early).value;
    fields.finish();
    Class { target_wait: target.value, drain_target, max_wait: max.value, max_queued, refuse_early }
}

fn tenants(tables: Option<Fields<'_>>) -> BTreeMap<String, TenantLimits> {
    let Some(tables) = tables else { return BTreeMap::new() };
    limit_count(&tables, MOST_TENANTS, "tenants");
    let mut tenants = BTreeMap::new();
    for (name, mut fields) in tables.sections("[tenant.alice]") {
        tables.name_is_right(name, tenant_name);
        let max_leases = fields.read("max_leases", shape::count(1..=100_000)).map(Some).or(None).value;
        let max_holds = fields.read("max_holds", shape::count(0..=100_000)).map(Some).or(None).value;
        fields.finish();
        if max_leases.is_some() || max_holds.is_some() {
            tenants.insert(name.to_owned(), TenantLimits { max_leases, max_holds });
        }
    }
    tenants
}

/// The rule for names of tenants, which are users of this machine.
fn tenant_name(name: &str) -> Result<(), Wrong> {
    let body = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '@' | '$');
    if name == "*" || (!name.is_empty() && name.len() <= 256 && name.chars().all(body)) {
        return Ok(());
    }
    let expected = "the name of a user of this machine, or \"*\" for all others";
    Err(Wrong::new(format!("expected {expected}, found {}", quote(name))))
}

/// The rule for names of pools and classes, which stand in labels, container names and metrics.
fn table_name(name: &str) -> Result<(), Wrong> {
    let body = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(body);
    if good && name.len() <= 32 {
        return Ok(());
    }
    let expected = "a name of 1 to 32 characters of `a-z 0-9 -`, beginning with a letter";
    Err(Wrong::new(format!("expected {expected}, found {}", quote(name))))
}

fn limit_count(tables: &Fields<'_>, most: usize, what: &str) {
    if tables.len() > most {
        let found = tables.len();
        let wrong = Wrong::new(format!("expected at most {most} {what}, found {found}"));
        tables.note(wrong);
    }
}
