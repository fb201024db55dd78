//! The words of a script.
//!
//! ```text
//! engine up | engine down WHY
//! sample [memory=TOTAL/AVAILABLE] [cores=N] [i1=HELD]… [residual=SIZE|?] [stalled=SHARE|?] [busy=SHARE]
//!        [used=CORES]                                      by each instance
//!        [pids=MOST/THERE] [disk=FREE] [inodes=FREE] [state=FREE]      of 100 GiB each, and 1000 inodes
//!        [reclaims=yes|no]                                 `?` for what cannot be read
//! no samples | show events | show records | pass
//! no writes | writes again | unwritten WHY                 records are written at once, unless
//! restart                                                 the next daemon, whose instances are `j1`, …
//! listed [i1 | i1! | x1]… [asked=TIME]                     `!` does not run, `x` is nobody's
//! created | started | ready | gone i1      exited i1 CODE   probed i1 yes|no   unstoppable i1 WHY
//! ceilings refused WHY
//! failed i1 image | died CODE | engine WHY
//! acquire r1 POOL [class=] [tenant=] [wait=] [runtime=] [idle=] [async]     acquire r1..r9 POOL: several
//! get r1 [executing|ended WAIT] [as w1]    hangup r1|w1     active r1 [at=TIME]
//! use | release | cancel | undelivered | overran r1         renew r1 TIME
//! explain POOL | explain lease r1 | leases | pools | host | drain SCOPE WINDOW | undrain SCOPE | reload PROFILE
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use stoker::control::message::{
    Acquire, Call, Engine, Exit, HoldFor, HostMemory, Input, InstanceId, LeaseId, Listing, News, OomLevel,
    Process, Scope, StartFailure, TaskId, Tenant, WaitFor,
};
use stoker::profile::{ClassName, PoolName, ProviderName};
use stoker::quantity::{Bytes, Instant, MilliCpu, parse_duration};

/// One line of a script.
#[derive(Debug)]
pub(super) enum Said {
    Events,
    Records,
    /// Whether records are written.
    Writes(bool),
    /// What was given out cannot be written.
    Unwritten(String),
    Restart,
    Samples(bool),
    Pass,
    Sample {
        memory: Option<Result<HostMemory, String>>,
        cores: Option<Result<MilliCpu, String>>,
        held: BTreeMap<InstanceId, Option<Bytes>>,
        /// Those of which the kernel killed a process since the last look.
        killed: BTreeMap<InstanceId, OomLevel>,
        rest: BTreeMap<String, String>,
    },
    Input(Input),
    Call {
        name: String,
        call: Call,
    },
    Acquires {
        from: u32,
        to: u32,
        acquire: Acquire,
    },
    HungUp(String),
    /// By the profile of this name.
    Reload(String),
}

type Wrong = String;

pub(super) fn lease(name: &str) -> LeaseId {
    LeaseId(name.into())
}

/// Reads one line of a script: its time and what is said.
pub(super) fn read(line: &str) -> Result<(Instant, Said), Wrong> {
    let (time, rest) = line.split_once(' ').ok_or("a line is a time and what is said")?;
    let at = Instant::BOOT.after(duration(time)?);
    let words: Vec<&str> = rest.split_whitespace().collect();
    let said = match words[..] {
        ["show", "events"] => Said::Events,
        ["no", "samples"] => Said::Samples(false),
        ["samples", "again"] => Said::Samples(true),
        ["show", "records"] => Said::Records,
        ["no", "writes"] => Said::Writes(false),
        ["writes", "again"] => Said::Writes(true),
        ["unwritten", ref why @ ..] => Said::Unwritten(why.join(" ")),
        ["restart"] => Said::Restart,
        ["pass"] => Said::Pass,
        ["sample", ref figures @ ..] => sample(figures)?,
        ["hangup", name] => Said::HungUp(name.into()),
        ["reload", name] => Said::Reload(name.into()),
        ["acquire", name, pool, ref options @ ..] => acquire(name, pool, options)?,
        _ => match input(at, &words)? {
            Some(input) => Said::Input(input),
            None => call(&words)?,
        },
    };
    Ok((at, said))
}

fn duration(text: &str) -> Result<Duration, Wrong> {
    // A script counts in seconds with decimals, which the profile's spelling has not.
    match text.strip_suffix('s').map(str::parse::<f64>) {
        Some(Ok(seconds)) => Ok(Duration::from_secs_f64(seconds)),
        _ => parse_duration(text).map_err(|wrong| wrong.to_string()),
    }
}

fn instance(name: &str) -> Result<InstanceId, Wrong> {
    let (letter, count) = name.split_at(1);
    let count = count.parse().map_err(|_| format!("no instance is named {name}"))?;
    match letter {
        "i" => Ok(InstanceId { run: super::RUN, count }),
        "j" => Ok(InstanceId { run: super::RUN + 1, count }),
        "x" => Ok(InstanceId { run: super::RUN + 9, count }),
        _ => Err(format!("no instance is named {name}")),
    }
}

fn bytes(text: &str) -> Result<Bytes, Wrong> {
    Bytes::parse(text).map_err(|wrong| wrong.to_string())
}

fn sample(figures: &[&str]) -> Result<Said, Wrong> {
    let unread = || "cannot be read".to_owned();
    let (mut memory, mut cores, mut held, mut rest) = (None, None, BTreeMap::new(), BTreeMap::new());
    let mut killed = BTreeMap::new();
    for figure in figures {
        match figure.split_once('=').ok_or("a figure is NAME=VALUE")? {
            ("memory", "?") => memory = Some(Err(unread())),
            ("memory", both) => {
                let (total, available) = both.split_once('/').ok_or("memory is TOTAL/AVAILABLE")?;
                memory = Some(Ok(HostMemory { total: bytes(total)?, available: bytes(available)? }));
            }
            ("cores", "?") => cores = Some(Err(unread())),
            ("cores", count) => {
                cores = Some(Ok(MilliCpu::parse(count).map_err(|wrong| wrong.to_string())?));
            }
            (
                name @ ("residual" | "stalled" | "busy" | "reclaims" | "used" | "pids" | "disk" | "inodes"
                | "state"),
                value,
            ) => {
                rest.insert(name.to_owned(), value.to_owned());
            }
            ("killed", name) => drop(killed.insert(instance(name)?, OomLevel::Own)),
            ("killed-above", name) => drop(killed.insert(instance(name)?, OomLevel::Above)),
            (name, "?") => drop(held.insert(instance(name)?, None)),
            (name, size) => drop(held.insert(instance(name)?, Some(bytes(size)?))),
        }
    }
    Ok(Said::Sample { memory, cores, held, killed, rest })
}

fn exit(code: &str) -> Result<Exit, Wrong> {
    match code {
        "?" => Ok(Exit { code: None }),
        code => Ok(Exit { code: Some(code.parse().map_err(|_| "an exit code is a number or ?")?) }),
    }
}

fn input(at: Instant, words: &[&str]) -> Result<Option<Input>, Wrong> {
    let news = |name: &str, news: News| Ok(Some(Input::Instance(instance(name)?, news)));
    match words[..] {
        ["engine", "up"] => Ok(Some(Input::Engine(Engine::Reachable))),
        ["engine", "down", ref why @ ..] => Ok(Some(Input::Engine(Engine::Unreachable(why.join(" "))))),
        ["listed", ref names @ ..] => Ok(Some(Input::Listed(listing(at, names)?))),
        ["active", name] => Ok(Some(Input::Active(lease(name), at))),
        ["active", name, when] => {
            let when = duration(when.strip_prefix("at=").ok_or("active r1 at=TIME")?)?;
            Ok(Some(Input::Active(lease(name), Instant::BOOT.after(when))))
        }
        ["created", name] => news(name, News::Created),
        ["started", name] => {
            let id = instance(name)?;
            news(name, News::Started(Process { pid: id.count, began: 1 }))
        }
        ["ready", name] => news(name, News::Ready),
        ["gone", name] => news(name, News::Gone),
        ["exited", name, code] => news(name, News::Exited(exit(code)?)),
        ["probed", name, "yes"] => news(name, News::Probed(true)),
        ["probed", name, "no"] => news(name, News::Probed(false)),
        ["ceilings", "refused", ref why @ ..] => Ok(Some(Input::Ceilings(Err(why.join(" "))))),
        ["unstoppable", name, ref why @ ..] => news(name, News::StopFailed(why.join(" "))),
        ["failed", name, "image"] => {
            news(name, News::StartFailed(StartFailure::ImageMissing("chromium:1".into())))
        }
        ["failed", name, "died", code] => news(name, News::StartFailed(StartFailure::Died(exit(code)?))),
        ["failed", name, "engine", ref why @ ..] => {
            news(name, News::StartFailed(StartFailure::Engine(why.join(" "))))
        }
        _ => Ok(None),
    }
}

fn listing(at: Instant, names: &[&str]) -> Result<Listing, Wrong> {
    let mut listing = Listing { asked_at: at, running: BTreeMap::new() };
    for name in names {
        if let Some(asked) = name.strip_prefix("asked=") {
            listing.asked_at = Instant::BOOT.after(duration(asked)?);
        } else {
            let running = !name.ends_with('!');
            listing.running.insert(instance(name.trim_end_matches('!'))?, running);
        }
    }
    Ok(listing)
}

fn acquire(name: &str, pool: &str, options: &[&str]) -> Result<Said, Wrong> {
    let mut acquire = Acquire {
        lease: lease(name),
        pool: PoolName::new(pool),
        class: None,
        tenant: Tenant("local".into()),
        task: None,
        wait: None,
        asynchronous: false,
        max_runtime: None,
        idle_timeout: None,
    };
    for option in options {
        match option.split_once('=').unwrap_or((option, "")) {
            ("class", class) => acquire.class = Some(ClassName::new(class)),
            ("tenant", tenant) => acquire.tenant = Tenant(tenant.into()),
            ("task", task) => acquire.task = Some(TaskId(task.into())),
            ("wait", wait) => acquire.wait = Some(duration(wait)?),
            ("runtime", time) => acquire.max_runtime = Some(duration(time)?),
            ("idle", time) => acquire.idle_timeout = Some(duration(time)?),
            ("async", "") => acquire.asynchronous = true,
            _ => return Err(format!("an acquire has no {option}")),
        }
    }
    if let Some((from, to)) = name.split_once("..") {
        let count = |text: &str| text.trim_start_matches('r').parse().map_err(|_| "r1..r9".to_owned());
        return Ok(Said::Acquires { from: count(from)?, to: count(to)?, acquire });
    }
    Ok(Said::Call { name: name.into(), call: Call::Acquire(acquire) })
}

fn scope(name: &str) -> Scope {
    if name == "host" { Scope::Host } else { Scope::Pool(PoolName::new(name)) }
}

fn call(words: &[&str]) -> Result<Said, Wrong> {
    let (words, name) = match words {
        [words @ .., "as", name] => (words, (*name).to_owned()),
        _ => (words, String::new()),
    };
    let call = match words[..] {
        ["get", name] => Call::Get { lease: lease(name), until: None },
        ["get", name, "executing", wait] => {
            Call::Get { lease: lease(name), until: Some((WaitFor::Executing, duration(wait)?)) }
        }
        ["get", name, "ended", wait] => {
            Call::Get { lease: lease(name), until: Some((WaitFor::Ended, duration(wait)?)) }
        }
        ["leases"] => Call::Leases,
        ["use", name] => Call::Use(lease(name)),
        ["renew", name, by] => Call::Renew(lease(name), duration(by)?),
        ["hold", name, lasting, ref why @ ..] => {
            let lasting = if lasting == "default" { None } else { Some(duration(lasting)?) };
            Call::Hold(lease(name), HoldFor { reason: why.join(" ").into(), lasting })
        }
        ["resume", name] => Call::Resume(lease(name)),
        ["permit", name, provider] => Call::Permit(lease(name), ProviderName::new(provider), None),
        ["permit", name, provider, wait] => {
            Call::Permit(lease(name), ProviderName::new(provider), Some(duration(wait)?))
        }
        ["providers"] => Call::Providers,
        ["throttled", provider] => Call::Throttled(ProviderName::new(provider), None),
        ["throttled", provider, pause] => {
            Call::Throttled(ProviderName::new(provider), Some(duration(pause)?))
        }
        ["release", name] => Call::Release(lease(name)),
        ["cancel", name] => Call::Cancel(lease(name)),
        ["undelivered", name] => Call::Undelivered(lease(name)),
        ["overran", name] => Call::Overran(lease(name)),
        ["pools"] => Call::Pools,
        ["explain", "lease", name] => Call::ExplainLease(lease(name)),
        ["explain", name] => Call::Explain(PoolName::new(name)),
        ["host"] => Call::Host,
        ["drain", name, window, "for-now"] => Call::DrainForNow(scope(name), duration(window)?),
        ["drain", name, window] => Call::Drain(scope(name), duration(window)?),
        ["undrain", name] => Call::Undrain(scope(name)),
        _ => return Err(format!("nobody says `{}`", words.join(" "))),
    };
    Ok(Said::Call { name, call })
}
