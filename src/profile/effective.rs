//! A checked profile written down again: each value as a profile would spell it, and where it came from.
//!
//! What is shown to operators and what a reload changes are both made from the same list, so neither can
//! leave out a key: reading what is written here gives the same profile again, and a test holds that.
//!
//! Not here: how it looks (`ctl`), which layers there are (`layers`).

use std::collections::BTreeMap;
use std::fmt;

use toml::Value as Toml;

use crate::profile::check::shape::{spell_size, spell_time};
use crate::profile::tree::{Data, Table};
use crate::profile::{Amount, HostProfile, Pool, Probe, WithoutTelemetry};

/// A profile with the origin of each value that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Effective {
    /// The profile.
    pub profile: HostProfile,
    /// By the dotted path of the key.
    origins: BTreeMap<String, Origin>,
}

/// Where a value is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One value of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The table it belongs to: `host`, `class.NAME`, `provider.NAME`, `tenant.NAME`, `pool.NAME`.
    pub table: String,
    /// Its key in that table, dotted where it is in a table of its own: `warm.min`.
    pub key: String,
    /// The value as TOML; `None` where the image or the machine decides.
    pub value: Option<String>,
}

impl Setting {
    /// The dotted path of its key.
    pub fn path(&self) -> String {
        format!("{}.{}", self.table, self.key)
    }
}

/// A difference between two profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The dotted path of a key, or of a class, pool, provider or tenant that is in only one of them.
    pub key: String,
    /// What it was, as TOML; `None` where there was nothing.
    pub from: Option<String>,
    /// What it is; `None` where there is nothing.
    pub to: Option<String>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.from, &self.to) {
            (None, Some(to)) => write!(f, "{}: not there -> {to}", self.key),
            (Some(from), None) => write!(f, "{}: {from} -> not there", self.key),
            (from, to) => {
                let text = |side: &Option<String>| side.clone().unwrap_or_default();
                write!(f, "{}: {} -> {}", self.key, text(from), text(to))
            }
        }
    }
}

impl Effective {
    /// A profile that was read from this tree.
    pub(super) fn new(profile: HostProfile, root: &Table) -> Effective {
        let mut origins = BTreeMap::new();
        note_origins(root, "", &mut origins);
        Effective { profile, origins }
    }

    /// Where the value of a key is written; `None` where it is a default.
    pub fn origin(&self, path: &str) -> Option<&Origin> {
        self.origins.get(path)
    }

    /// Pools that a layer has written and a later one has disabled, and where.
    pub fn disabled(&self) -> Vec<(String, &Origin)> {
        let named = self.origins.iter().filter_map(|(path, origin)| {
            Some((path.strip_prefix("pool.")?.strip_suffix(".enabled")?.to_owned(), origin))
        });
        named.filter(|(name, _)| !self.profile.pools.contains_key(name.as_str())).collect()
    }
}

/// Walks a tree down to what is no table. An empty table is a value, too.
fn note_origins(table: &Table, path: &str, origins: &mut BTreeMap<String, Origin>) {
    for (key, entry) in &table.0 {
        let path = if path.is_empty() { spell_key(key) } else { format!("{path}.{}", spell_key(key)) };
        match &entry.value.data {
            Data::Table(inner) if !inner.0.is_empty() => note_origins(inner, &path, origins),
            Data::Table(_)
            | Data::Text(_)
            | Data::Whole(_)
            | Data::Number(_)
            | Data::Flag(_)
            | Data::Date
            | Data::List(_)
            | Data::Broken => {
                let (file, line) = (entry.key.source().file.clone(), entry.key.line());
                origins.insert(path, Origin { file, line });
            }
        }
    }
}

/// A key as TOML spells it: in quotes where it is not bare.
pub(super) fn spell_key(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if bare { key.into() } else { text(key) }
}

impl HostProfile {
    /// All of its values, in the order of the reference.
    pub fn settings(&self) -> Vec<Setting> {
        let mut list = List { table: "host".into(), settings: Vec::new() };
        let host = &self.host;
        list.add("name", host.name.as_deref().map(text));
        list.add("reserve.memory", Some(amount(host.reserve_memory)));
        list.add("reserve.cpu", Some(text(&host.reserve_cpu.to_string())));
        list.add("reserve.pids", Some(text(&host.reserve_pids.to_string())));
        list.add("floor", Some(amount(host.floor)));
        list.add("disk_floor", Some(amount(host.disk_floor)));
        list.add("cpu_overcommit", Some(text(&host.cpu_overcommit.to_string())));
        list.add("max_starts", Some(host.max_starts.to_string()));
        for (name, class) in &self.classes {
            list.table = format!("class.{name}");
            list.add("target_wait", Some(text(&spell_time(class.target_wait))));
            list.add("drain_target", Some(text(&spell_time(class.drain_target))));
            list.add("max_wait", Some(text(&spell_time(class.max_wait))));
            list.add("max_queued", Some(class.max_queued.to_string()));
            list.add("refuse_early", Some(class.refuse_early.to_string()));
        }
        for (name, provider) in &self.providers {
            list.table = format!("provider.{name}");
            list.add("rate", Some(text(&provider.rate.to_string())));
            list.add("burst", Some(provider.burst.to_string()));
            list.add("max_waiting", Some(provider.max_waiting.to_string()));
            list.add("max_wait", Some(text(&spell_time(provider.max_wait))));
        }
        for (name, limits) in &self.tenants {
            list.table = format!("tenant.{}", spell_key(name));
            list.add("max_leases", limits.max_leases.map(|most| most.to_string()));
            list.add("max_holds", limits.max_holds.map(|most| most.to_string()));
        }
        for (name, pool) in &self.pools {
            list.table = format!("pool.{name}");
            list.add_pool(pool);
        }
        list.settings
    }
}

/// Settings as they are being gathered.
struct List {
    table: String,
    settings: Vec<Setting>,
}

impl List {
    fn add(&mut self, key: impl Into<String>, value: Option<String>) {
        self.settings.push(Setting { table: self.table.clone(), key: key.into(), value });
    }

    fn add_pool(&mut self, pool: &Pool) {
        let (template, warm, deadlines) = (&pool.template, &pool.warm, &pool.deadlines);
        self.add("kind", Some(text(pool.kind.as_str())));
        self.add("image", Some(text(&template.image)));
        self.add("default_class", Some(text(pool.default_class.as_str())));
        self.add("command", template.command.as_deref().map(list));
        for (name, value) in &template.env {
            self.add(format!("env.{}", spell_key(name)), Some(text(value)));
        }
        self.add("memory_max", Some(size(template.memory_max)));
        self.add("memory_expect", Some(size(pool.memory_expect)));
        self.add("cpus", Some(text(&template.cpus.to_string())));
        self.add("cpus_expect", Some(text(&pool.cpus_expect.to_string())));
        self.add("pids", Some(template.pids.to_string()));
        self.add("nofile", Some(template.nofile.to_string()));
        self.add("shm", Some(size(template.shm)));
        if template.tmpfs.is_empty() {
            self.add("tmpfs", Some("{}".into()));
        }
        for (path, most) in &template.tmpfs {
            self.add(format!("tmpfs.{}", spell_key(path)), Some(size(*most)));
        }
        self.add("read_only", Some(template.read_only.to_string()));
        self.add("user", template.user.as_deref().map(text));
        self.add("network", Some(text(template.network.as_str())));
        match &template.probe {
            Probe::DevTools { port } => self.add("probe.port", Some(port.to_string())),
            Probe::Command(command) => self.add("probe", Some(list(command))),
        }
        self.add("warm.min", Some(warm.min.to_string()));
        self.add("warm.max", Some(warm.max.to_string()));
        self.add("warm.max_age", Some(text(&spell_time(warm.max_age))));
        self.add("warm.keep", Some(text(&spell_time(warm.keep))));
        self.add("max_instances", Some(pool.max_instances.to_string()));
        let budget = pool.max_instance_hours;
        self.add("max_instance_hours.hours", budget.map(|budget| budget.hours.to_string()));
        self.add("max_instance_hours.per", budget.map(|budget| text(&spell_time(budget.per))));
        self.add("start_timeout", Some(text(&spell_time(deadlines.start_timeout))));
        self.add("first_use_timeout", Some(text(&spell_time(deadlines.first_use_timeout))));
        self.add("idle_timeout", Some(text(&spell_time(deadlines.idle_timeout))));
        self.add("max_runtime", Some(text(&spell_time(deadlines.max_runtime))));
        self.add("expect_runtime", Some(text(&spell_time(pool.expect_runtime))));
        self.add("hold.timeout", Some(text(&spell_time(pool.holds.timeout))));
        self.add("hold.longest", Some(text(&spell_time(pool.holds.longest))));
        self.add("max_holds", Some(pool.holds.most.to_string()));
        self.add("stop_timeout", Some(text(&spell_time(deadlines.stop_timeout))));
        self.add("target_utilization", Some(text(&pool.target_utilization.to_string())));
        self.add("miss_target", Some(text(&pool.miss_target.to_string())));
        self.add("provider", pool.provider.as_ref().map(|name| text(name.as_str())));
        self.add("journal_output", Some(pool.journal_output.to_string()));
        self.add("on_pressure", Some(text(pool.on_pressure.as_str())));
        match &pool.without_telemetry {
            WithoutTelemetry::Stop => self.add("without_telemetry", Some(text("stop"))),
            WithoutTelemetry::Slots(most) => self.add("without_telemetry.slots", Some(most.to_string())),
            WithoutTelemetry::Use(other) => {
                self.add("without_telemetry.use", Some(text(other.as_str())));
            }
        }
        for (name, its) in &pool.classes {
            if let Some(share) = its.share {
                self.add(format!("class.{name}.share"), Some(text(&share.to_string())));
            }
            if its.hold_back > 0 {
                self.add(format!("class.{name}.hold_back"), Some(its.hold_back.to_string()));
            }
        }
    }
}

/// What is different in `new`. A pool, class, provider or tenant that is in only one of them is one change; the environment of
/// instances may hold secrets, so of it only the names are told.
pub fn changes(old: &HostProfile, new: &HostProfile) -> Vec<Change> {
    let (before, after) = (by_path(old), by_path(new));
    let mut paths: Vec<&(String, String)> = before.keys().chain(after.keys()).collect();
    paths.sort();
    paths.dedup();
    let mut changes: Vec<Change> = Vec::new();
    for path in paths {
        let (table, key) = path;
        let (was, is) = (has(old, table), has(new, table));
        if was != is {
            // Its first key stands for all.
            if changes.last().is_none_or(|last| last.key != *table) {
                let of = |there: bool, profile: &HostProfile| there.then(|| summary(profile, table));
                changes.push(Change { key: table.clone(), from: of(was, old), to: of(is, new) });
            }
            continue;
        }
        let (from, to) = (before.get(path).cloned().flatten(), after.get(path).cloned().flatten());
        if from != to {
            let shown = |value: Option<String>| {
                if key.starts_with("env.") { value.map(|_| "(not shown)".into()) } else { value }
            };
            changes.push(Change { key: format!("{table}.{key}"), from: shown(from), to: shown(to) });
        }
    }
    changes
}

fn by_path(profile: &HostProfile) -> BTreeMap<(String, String), Option<String>> {
    profile.settings().into_iter().map(|it| ((it.table, it.key), it.value)).collect()
}

/// Whether the profile has this table.
fn has(profile: &HostProfile, table: &str) -> bool {
    match table.split_once('.') {
        Some(("pool", name)) => profile.pools.contains_key(name),
        Some(("class", name)) => profile.classes.contains_key(name),
        Some(("provider", name)) => profile.providers.contains_key(name),
        Some(("tenant", name)) => profile.tenants.keys().any(|its| spell_key(its) == name),
        Some(_) | None => true,
    }
}

/// A pool, class, provider or tenant in a few words.
fn summary(profile: &HostProfile, table: &str) -> String {
    match table.split_once('.') {
        Some(("pool", name)) => {
            let pool = &profile.pools[name];
            format!("{} {}", pool.kind, pool.template.image)
        }
        Some(("provider", name)) => format!("rate {}", profile.providers[name].rate),
        Some(("class", name)) => format!("max_wait {}", spell_time(profile.classes[name].max_wait)),
        Some(_) => "limits".into(),
        None => unreachable!("only tables with a name of their own come and go"),
    }
}

fn text(text: &str) -> String {
    Toml::from(text).to_string()
}

fn list(texts: &[String]) -> String {
    Toml::from(texts.to_vec()).to_string()
}

fn size(size: crate::quantity::Bytes) -> String {
    text(&spell_size(size))
}

fn amount(amount: Amount) -> String {
    match amount {
        Amount::Bytes(bytes) => size(bytes),
        Amount::Share(share) => text(&share.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::check;
    use crate::profile::check::tests::FULL;

    fn spelled(profile: &HostProfile) -> String {
        let line = |it: Setting| it.value.map(|value| format!("{}.{} = {value}\n", it.table, it.key));
        profile.settings().into_iter().filter_map(line).collect()
    }

    #[test]
    fn what_is_written_down_reads_as_the_same_profile() {
        let plain = "[pool.p]\nkind = 'sandbox'\nimage = 'i'\n";
        let odd = "tmpfs = {}\ncommand = ['a\"b', '\\\\', \"new\\nline\", 'ü']\nenv = { A = \"'''\" }\n\
                   cpus = '0.125'\nmemory_max = '536870913B'\nmax_runtime = '1d 1ms'\nidle_timeout = '61s'\n";
        for text in [FULL, plain, &format!("{plain}{odd}")] {
            let profile = check("host.toml", text).unwrap();
            let again = check("again", &spelled(&profile)).unwrap_or_else(|wrong| panic!("{wrong}"));
            assert_eq!(again, profile);
            assert_eq!(changes(&profile, &again), []);
        }
    }

    #[test]
    fn changes_name_each_key_and_never_a_secret() {
        let old = "[pool.p]\nkind = 'sandbox'\nimage = 'i'\nenv = { TOKEN = 'hidden', B = '1' }\nuser = '1000'\n\
                   [pool.q]\nkind = 'browser'\nimage = 'j'\n";
        let new = "[host]\nmax_starts = 5\n[class.late]\n\
                   [pool.p]\nkind = 'sandbox'\nimage = 'i2'\nenv = { TOKEN = 'secret' }\nwarm = { min = 2 }\n\
                   [pool.r]\nkind = 'browser'\nimage = 'k'\n";
        let profile = |text| check("host.toml", text).unwrap();
        let told: Vec<String> =
            changes(&profile(old), &profile(new)).iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(told.join("\n"), @r#"
        class.late: not there -> max_wait 5m
        host.max_starts: 3 -> 5
        pool.p.env.B: (not shown) -> not there
        pool.p.env.TOKEN: (not shown) -> (not shown)
        pool.p.image: "i" -> "i2"
        pool.p.user: "1000" -> not there
        pool.p.warm.max: 1 -> 2
        pool.p.warm.min: 1 -> 2
        pool.q: browser j -> not there
        pool.r: not there -> browser k
        "#);
    }
}
