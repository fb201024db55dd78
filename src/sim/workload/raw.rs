//! A workload's file as it is written, and what must hold between its parts.
//!
//! serde reads the form and stops at the first thing that has it not; the rules between the parts are looked at all
//! together. Either way a mistake is told as those of a profile are, with its line.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::values::{Cores, Flow, Rate, Share, Size, Time, in_float};
use super::{Arrivals, Behaviour, Event, Happens, Machine, Stream, Workload};
use crate::control::message::Tenant;
use crate::profile::{ClassName, HostProfile, Mistake, Mistakes, PoolName};
use crate::quantity::{Bytes, MilliCpu, Permille};
use crate::sim::law::{Form, Law};
use crate::sim::options::Faults;

/// What a container costs outside its own limit where the file does not say: as measured on Docker 20.10.
const OVERHEAD: Bytes = Bytes::mib(10);
/// The longest that a workload may go on: what more there is to see, another seed shows.
const LONGEST: Duration = Duration::from_secs(31 * 24 * 3600);
/// The largest memory that anything of it has: more than any host.
const LARGEST: Bytes = Bytes::mib(16 << 20);
/// The most that come at once: more only wait in each other's way.
const CROWD: u32 = 1_000_000;
/// A caller is not more impatient than this: its request has to be on its way.
const SHORTEST_PATIENCE: Duration = Duration::from_millis(100);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    lasts: Spanned<Time>,
    machine: RawMachine,
    #[serde(default)]
    instance: BTreeMap<Spanned<String>, RawInstance>,
    #[serde(default)]
    stream: BTreeMap<Spanned<String>, RawStream>,
    #[serde(default)]
    faults: RawFaults,
    #[serde(default)]
    event: Vec<Spanned<RawEvent>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMachine {
    memory: Size,
    cores: Spanned<Cores>,
    own: Size,
    overhead: Option<Size>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawInstance {
    start: Spanned<RawLaw<Time>>,
    contention: Option<Share>,
    stop: Time,
    idle: Size,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStream {
    pool: Spanned<String>,
    class: Option<Spanned<String>>,
    tenants: Option<Spanned<Vec<String>>>,
    rate: Option<Spanned<Rate>>,
    burst: Option<Spanned<RawBurst>>,
    at_once: Option<Spanned<u32>>,
    from: Option<Time>,
    until: Option<Time>,
    runs: Spanned<RawLaw<Time>>,
    memory: Spanned<RawLaw<Size>>,
    grows_in: Option<Time>,
    leak: Option<Flow>,
    cpu: Option<Cores>,
    calls_every: Option<Spanned<Time>>,
    wait: Option<Time>,
    gives_up: Option<Spanned<Time>>,
    retries: Option<u32>,
    retry_after: Option<Time>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBurst {
    every: Time,
    count: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLaw<T> {
    law: RawForm,
    mean: T,
    sigma: Option<f64>,
    alpha: Option<f64>,
    most: Option<T>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawForm {
    Fixed,
    Exponential,
    Lognormal,
    Pareto,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawFaults {
    lost: Option<Share>,
    doubled: Option<Share>,
    late: Option<Share>,
    fails: Option<Share>,
    hangs: Option<Share>,
    dies: Option<Share>,
    vanishes: Option<Share>,
    mute: Option<Share>,
    stubborn: Option<Share>,
    unread: Option<Share>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEvent {
    what: RawHappens,
    at: Time,
    lasts: Option<Time>,
    pool: Option<Spanned<String>>,
    window: Option<Time>,
    memory: Option<Size>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawHappens {
    Blind,
    EngineAway,
    DiskFull,
    Crash,
    Sleep,
    Throttle,
    Hog,
    Drain,
}

/// The rules between the parts, and what was found against them.
struct Rules<'a> {
    file: &'a str,
    text: &'a str,
    profile: &'a HostProfile,
    mistakes: Vec<Mistake>,
}

pub(super) fn read(file: &str, text: &str, profile: &HostProfile) -> Result<Workload, Mistakes> {
    let mut rules = Rules { file, text, profile, mistakes: Vec::new() };
    let raw: Raw = match toml::from_str(text) {
        Ok(raw) => raw,
        Err(error) => {
            rules.note(error.span().unwrap_or(0..0), "", error.message());
            return Err(Mistakes::from(rules.mistakes).expect("one was noted"));
        }
    };
    let workload = rules.workload(raw);
    match Mistakes::from(rules.mistakes) {
        Some(mistakes) => Err(mistakes),
        None => Ok(workload),
    }
}

impl Rules<'_> {
    fn note(&mut self, at: Range<usize>, key: &str, problem: &str) {
        self.mistakes.push(Mistake::at(self.file, self.text, at, (key, problem)));
    }

    fn hold(&mut self, right: bool, at: &Range<usize>, key: &str, problem: &str) {
        if !right {
            self.note(at.clone(), key, problem);
        }
    }

    fn workload(&mut self, raw: Raw) -> Workload {
        let (at, Time(lasts)) = (raw.lasts.span(), raw.lasts.into_inner());
        let fits = lasts >= Duration::from_secs(1) && lasts <= LONGEST;
        self.hold(fits, &at, "lasts", "expected at least one second and at most 31 days");
        let RawMachine { memory, cores, own, overhead } = raw.machine;
        let right = *cores.get_ref() > Cores(MilliCpu::new(0));
        self.hold(right, &cores.span(), "machine.cores", "expected some");
        let cores = cores.into_inner();
        let overhead = overhead.map_or(OVERHEAD, |overhead| overhead.0);
        let machine = Machine { memory: memory.0, cores: cores.0, own: own.0, overhead };
        let instances = self.instances(raw.instance);
        let streams = raw.stream.into_iter().filter_map(|(name, raw)| self.stream(name, raw)).collect();
        let events = raw.event.into_iter().filter_map(|raw| self.event(raw, machine.memory)).collect();
        Workload { lasts, machine, instances, streams, faults: raw.faults.resolved(), events }
    }

    fn instances(&mut self, raw: BTreeMap<Spanned<String>, RawInstance>) -> BTreeMap<PoolName, Behaviour> {
        let mut instances = BTreeMap::new();
        for (name, raw) in raw {
            let key = format!("instance.{}", name.get_ref());
            let Some(pool) = self.pool(&name, &key) else { continue };
            let start =
                self.law(&raw.start, (&format!("{key}.start"), "31 days"), time_of, LONGEST.as_secs_f64());
            let contention = raw.contention.map_or(Permille::new(0), |share| share.0);
            let behaviour = Behaviour { start, contention, stop: raw.stop.0, idle: raw.idle.0 };
            instances.insert(pool, behaviour);
        }
        for pool in self
            .profile
            .pools
            .keys()
            .filter(|pool| !instances.contains_key(*pool))
            .cloned()
            .collect::<Vec<_>>()
        {
            let problem = "the profile has this pool, and nothing says how its instances behave";
            self.note(0..0, &format!("instance.{pool}"), problem);
        }
        instances
    }

    fn stream(&mut self, name: Spanned<String>, raw: RawStream) -> Option<Stream> {
        let key = format!("stream.{}", name.get_ref());
        let pool = self.pool(&raw.pool, &format!("{key}.pool"));
        let class = raw.class.as_ref().and_then(|class| self.class(class, &format!("{key}.class")));
        let arrivals = self.arrivals(&name.span(), &raw, &key);
        if let Some(at_once) = &raw.at_once {
            let right = (1..=CROWD).contains(at_once.get_ref());
            self.hold(right, &at_once.span(), &format!("{key}.at_once"), "expected 1 to a million");
        }
        if let Some(patience) = &raw.gives_up {
            let right = patience.get_ref().0 >= SHORTEST_PATIENCE;
            self.hold(right, &patience.span(), &format!("{key}.gives_up"), "expected at least 100ms");
        }
        let tenants = match &raw.tenants {
            Some(all) => {
                let right = !all.get_ref().is_empty();
                self.hold(right, &all.span(), &format!("{key}.tenants"), "expected at least one name");
                all.get_ref().clone()
            }
            None => vec![name.get_ref().clone()],
        };
        let runs = self.law(&raw.runs, (&format!("{key}.runs"), "31 days"), time_of, LONGEST.as_secs_f64());
        let size_of = |size: Size| in_float(size.0.get());
        let most = in_float(LARGEST.get());
        let memory = self.law(&raw.memory, (&format!("{key}.memory"), "16 TiB"), size_of, most);
        let (pool, arrivals) = (pool?, arrivals?);
        if let Some(every) = &raw.calls_every {
            let key = format!("{key}.calls_every");
            let right = every.get_ref().0 >= SHORTEST_PATIENCE;
            self.hold(right, &every.span(), &key, "expected at least 100ms");
            let right = self.profile.pools[&pool].provider.is_some();
            self.hold(right, &every.span(), &key, "its pool has no provider in the host profile");
        }
        let class = class.unwrap_or_else(|| self.profile.pools[&pool].default_class.clone());
        Some(Stream {
            name: name.into_inner(),
            pool,
            class,
            tenants: tenants.into_iter().map(|tenant| Tenant(tenant.into())).collect(),
            arrivals,
            at_once: raw.at_once.map_or(1, Spanned::into_inner),
            from: raw.from.map_or(Duration::ZERO, |from| from.0),
            until: raw.until.map_or(Duration::MAX, |until| until.0),
            runs,
            memory,
            grows_in: raw.grows_in.map_or(Duration::ZERO, |time| time.0),
            leak: raw.leak.map_or(0.0, |flow| flow.0),
            cpu: raw.cpu.map_or(MilliCpu::new(0), |cpu| cpu.0),
            calls_every: raw.calls_every.map(|every| every.into_inner().0),
            wait: raw.wait.map(|wait| wait.0),
            gives_up: raw.gives_up.map(|patience| patience.into_inner().0),
            retries: raw.retries.unwrap_or(0),
            retry_after: raw.retry_after.map(|wait| wait.0),
        })
    }

    fn arrivals(&mut self, at: &Range<usize>, raw: &RawStream, key: &str) -> Option<Arrivals> {
        match (&raw.rate, &raw.burst) {
            (Some(rate), None) => Some(Arrivals::Poisson(rate.get_ref().0)),
            (None, Some(burst)) => {
                let RawBurst { every, count } = *burst.get_ref();
                let right = every.0 >= Duration::from_secs(1) && (1..=CROWD).contains(&count);
                let problem = "expected `every` to be at least one second and `count` to be 1 to a million";
                self.hold(right, &burst.span(), &format!("{key}.burst"), problem);
                Some(Arrivals::Bursts(every.0, count))
            }
            (Some(_), Some(burst)) => {
                let problem = "expected either this or `rate`; two streams may have both";
                self.note(burst.span(), &format!("{key}.burst"), problem);
                None
            }
            (None, None) => {
                let problem = "expected `rate = \"2/s\"` or `burst = { every = \"10m\", count = 20 }`";
                self.note(at.clone(), key, problem);
                None
            }
        }
    }

    fn event(&mut self, raw: Spanned<RawEvent>, memory: Bytes) -> Option<Event> {
        let at = raw.span();
        let raw = raw.into_inner();
        let pool = raw.pool.as_ref().map(|pool| self.pool(pool, "event.pool"));
        let RawEvent { what, .. } = raw;
        let once = what == RawHappens::Crash;
        self.hold(
            once == raw.lasts.is_none(),
            &at,
            "event.lasts",
            if once {
                "a crash has no length: the next daemon begins some seconds later"
            } else {
                "expected how long it lasts"
            },
        );
        let drain = what == RawHappens::Drain;
        self.hold(drain || pool.is_none(), &at, "event.pool", "only a drain is of one pool");
        self.hold(
            drain == raw.window.is_some(),
            &at,
            "event.window",
            "a drain has a window, and nothing else has",
        );
        let hog = what == RawHappens::Hog;
        self.hold(
            hog == raw.memory.is_some(),
            &at,
            "event.memory",
            "a hog takes memory, and nothing else does",
        );
        self.hold(
            raw.memory.is_none_or(|taken| taken.0 <= memory),
            &at,
            "event.memory",
            "it is more than the machine has",
        );
        let what = match what {
            RawHappens::Blind => Happens::Blind,
            RawHappens::EngineAway => Happens::EngineAway,
            RawHappens::DiskFull => Happens::DiskFull,
            RawHappens::Crash => Happens::Crash,
            RawHappens::Sleep => Happens::Sleep,
            RawHappens::Throttle => Happens::Throttle,
            RawHappens::Hog => Happens::Hog(raw.memory?.0),
            RawHappens::Drain => Happens::Drain(pool.flatten(), raw.window?.0),
        };
        Some(Event { at: raw.at.0, lasts: raw.lasts.map_or(Duration::ZERO, |lasts| lasts.0), what })
    }

    fn pool(&mut self, name: &Spanned<String>, key: &str) -> Option<PoolName> {
        let pool = PoolName::new(name.get_ref().as_str());
        if self.profile.pools.contains_key(&pool) {
            return Some(pool);
        }
        let there: Vec<&str> = self.profile.pools.keys().map(PoolName::as_str).collect();
        let problem = format!("the host profile has no pool `{pool}`; it has {}", there.join(", "));
        self.note(name.span(), key, &problem);
        None
    }

    fn class(&mut self, name: &Spanned<String>, key: &str) -> Option<ClassName> {
        let class = ClassName::new(name.get_ref().as_str());
        if self.profile.classes.contains_key(&class) {
            return Some(class);
        }
        let there: Vec<&str> = self.profile.classes.keys().map(ClassName::as_str).collect();
        let problem = format!("the host profile has no class `{class}`; it has {}", there.join(", "));
        self.note(name.span(), key, &problem);
        None
    }

    /// A law of amounts up to a largest one, which is called that in words.
    fn law<T: Copy>(
        &mut self,
        raw: &Spanned<RawLaw<T>>,
        (key, in_words): (&str, &str),
        amount: impl Fn(T) -> f64,
        largest: f64,
    ) -> Law {
        let RawLaw { law, mean, sigma, alpha, most } = raw.get_ref();
        let at = raw.span();
        let lognormal = *law == RawForm::Lognormal;
        self.hold(lognormal == sigma.is_some(), &at, key, "a lognormal law has a `sigma`, and no other has");
        let pareto = *law == RawForm::Pareto;
        self.hold(pareto == alpha.is_some(), &at, key, "a pareto law has an `alpha`, and no other has");
        let (sigma, alpha) = (sigma.unwrap_or(1.0), alpha.unwrap_or(2.0));
        self.hold((0.0..=5.0).contains(&sigma), &at, key, "expected a `sigma` of 0 to 5");
        let right = alpha > 1.0 && alpha <= 100.0;
        self.hold(right, &at, key, "expected an `alpha` above 1, where there is a mean, and at most 100");
        let mean = amount(*mean);
        self.hold(mean > 0.0, &at, key, "expected a `mean` above zero");
        // A thousand times the mean is as good as no cap.
        let most = most.map_or((mean * 1000.0).min(largest), amount);
        self.hold(most >= mean, &at, key, "expected `most` to be at least the `mean`");
        self.hold(mean.max(most) <= largest, &at, key, &format!("expected at most {in_words}"));
        let form = match law {
            RawForm::Fixed => Form::Fixed,
            RawForm::Exponential => Form::Exponential,
            RawForm::Lognormal => Form::Lognormal(sigma),
            RawForm::Pareto => Form::Pareto(alpha),
        };
        Law { form, mean, most }
    }
}

fn time_of(time: Time) -> f64 {
    time.0.as_secs_f64()
}

impl RawFaults {
    fn resolved(self) -> Faults {
        let often = |share: Option<Share>| share.map_or(0, |share| share.0.get());
        Faults {
            lost: often(self.lost),
            doubled: often(self.doubled),
            late: often(self.late),
            fails: often(self.fails),
            hangs: often(self.hangs),
            dies: often(self.dies),
            vanishes: often(self.vanishes),
            mute: often(self.mute),
            stubborn: often(self.stubborn),
            unread: often(self.unread),
            ..Faults::default()
        }
    }
}
