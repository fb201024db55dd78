//! How what the controller does and says reads in a scenario.

use std::time::Duration;

use stoker::control::message::{
    DrainView, Engine, ExplainView, Hold, HoldsView, HostView, InstanceId, InstanceRecordState,
    LeaseExplainView, LeaseId, LeaseRecordState, LeaseState, LeaseView, Output, PoolView, ProviderView,
    Record, Refusal, Reply, Scope, Why,
};
use stoker::quantity::{Instant, show_duration};

/// A point in time as scripts write it: `1.5s`.
pub(super) fn at(at: Instant) -> String {
    span(at.since(Instant::BOOT))
}

fn span(span: Duration) -> String {
    let text = format!("{}.{:03}", span.as_secs(), span.subsec_millis());
    format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
}

fn instance(id: InstanceId) -> String {
    let letter = match id.run {
        super::RUN => 'i',
        run if run == super::RUN + 1 => 'j',
        _ => 'x',
    };
    format!("{letter}{}", id.count)
}

/// An order or an event.
pub(super) fn output(output: &Output) -> Vec<String> {
    vec![match output {
        Output::Start { instance: id, pool, deadline, .. } => {
            format!("start {} {pool} until {}", instance(*id), at(*deadline))
        }
        Output::Stop { instance: id, grace: Duration::ZERO } => format!("stop {}", instance(*id)),
        Output::Stop { instance: id, grace } => format!("stop {} grace={}", instance(*id), span(*grace)),
        Output::Reclaim(id) => format!("reclaim {}", instance(*id)),
        Output::Ceilings(all) => format!("ceilings memory={} cpu_weight={}", all.memory, all.cpu_weight),
        Output::Probe { instance: id, .. } => format!("probe {}", instance(*id)),
        Output::Adopt { instance: id, pool, .. } => format!("adopt {} of {pool}", instance(*id)),
        Output::Record(_, record) => format!("record {}", self::record(record)),
        Output::Reply(_, reply) => return self::reply("", reply),
        Output::Tell(event) => {
            let names = [
                event.pool.as_ref().map(ToString::to_string),
                event.instance.map(instance),
                event.lease.as_ref().map(|LeaseId(name)| name.to_string()),
            ];
            let names: Vec<String> = names.into_iter().flatten().collect();
            format!("~ {}: {}", names.join(" "), event.what).replace("~ : ", "~ ")
        }
    }]
}

fn record(record: &Record) -> String {
    match record {
        Record::Lease(lease) => {
            let state = match &lease.state {
                LeaseRecordState::Queued { deadline, .. } => format!("queued until {}", at(*deadline)),
                LeaseRecordState::Executing { instance: id, used, deadline, hold, .. } => {
                    let used = if *used { " used" } else { "" };
                    let hold = hold.as_ref().map_or(String::new(), self::hold);
                    format!("executing on {} until {}{used}{hold}", instance(*id), at(*deadline))
                }
                LeaseRecordState::Ended { end, .. } => format!("{}: {end}", end.code()),
            };
            let sent_on = lease.degraded_from.as_ref();
            let sent_on = sent_on.map_or(String::new(), |asked| format!(" ({} for {asked})", lease.pool));
            format!("{} {state}{sent_on}", lease.id)
        }
        Record::Instance(it) => {
            let state = match it.state {
                InstanceRecordState::Starting => "starting",
                InstanceRecordState::Warm { .. } => "warm",
                InstanceRecordState::Stopping => "stopping",
            };
            format!("{} {state}", instance(it.id))
        }
        Record::Gone(id) => format!("{} gone", instance(*id)),
        Record::Drain(scope, drain) => {
            format!("drain of {} until {}", self::scope(scope), at(drain.deadline))
        }
        Record::Undrained(scope) => format!("no drain of {}", self::scope(scope)),
        Record::Envelope(it) => format!("envelope of {}: {} after {} lives", it.pool, it.usual, it.lives),
    }
}

fn scope(scope: &Scope) -> String {
    match scope {
        Scope::Host => "the host".into(),
        Scope::Pool(name) => name.to_string(),
    }
}

/// The equations of a pool, then the limits that have numbers, and those that keep a start back.
fn explain(name: &str, it: &ExplainView) -> Vec<String> {
    let slots = |milli: u64| format!("{}.{:03}", milli / 1000, milli % 1000);
    let (incoming, backlog) = (slots(it.incoming_milli), slots(it.backlog_milli));
    let mut lines = vec![
        format!(
            "{name} <- {}: {incoming} + {backlog} slots, {} estimated, cover {}",
            it.pool, it.estimated, it.cover
        ),
        format!("  stock {}, held {}, start {}, stop {}", it.stock, it.held, it.start, it.stop),
    ];
    if it.holds.leases > 0 {
        lines.push(format!("  {}", holds(&it.holds)));
    }
    for class in it.classes.iter().filter(|class| class.per_hour > 0) {
        let service = show_duration(class.service);
        let (waiting, leased, guaranteed) = (class.waiting, class.leased, class.guaranteed);
        lines.push(format!(
            "  {}: {} an hour of {service}, {waiting} wait, {leased} of {guaranteed} leased",
            class.class, class.per_hour
        ));
    }
    for limit in &it.limits {
        let figures = limit.figures.map(|its| format!(" {} of {} {}", its.need, its.have, its.unit));
        let mark = if limit.binding { ", it binds" } else { "" };
        let says = limit.objection.as_ref().map(|why| format!("{mark}: {why}"));
        if figures.is_some() || says.is_some() {
            lines.push(format!(
                "  {}{}{}",
                limit.name,
                figures.unwrap_or_default(),
                says.unwrap_or_default()
            ));
        }
    }
    lines
}

/// Where a lease stands, then the classes that wait.
fn explain_lease(name: &str, it: &LeaseExplainView) -> Vec<String> {
    let mut lines = vec![format!("{name} <- {}", state(&it.lease))];
    if let LeaseState::Queued { estimate: Some(estimate), .. } = &it.lease.state {
        lines.push(format!("  about {}: {estimate}", show_duration(estimate.wait)));
    }
    let Some(waits) = &it.waits else { return lines };
    let next = if waits.next { ", next" } else { "" };
    lines.push(format!(
        "  {} of its {}, {} tenants, {} wait, promised for {}{next}",
        waits.of_tenant,
        waits.own,
        waits.tenants,
        waits.queued,
        at(waits.promised)
    ));
    if let Some(bound) = &waits.bound {
        let (wait, occupancy) = (show_duration(bound.wait), show_duration(bound.occupancy));
        lines.push(format!("  at most {wait}, by {occupancy} a slot and {} guaranteed", bound.guaranteed));
    }
    lines.extend(waits.classes.iter().map(|class| {
        let (waiting, leased, guaranteed) = (class.waiting, class.leased, class.guaranteed);
        format!("  {}: {waiting} wait, {leased} of {guaranteed} leased, {:?}", class.class, class.turn)
    }));
    lines
}

/// An answer to the call of this name.
pub(super) fn reply(name: &str, reply: &Reply) -> Vec<String> {
    let one = |text: String| vec![format!("{name} <- {text}")];
    match reply {
        Reply::Lease(view) => one(state(view)),
        Reply::Leases(all) => {
            let mut lines = one(format!("{} leases", all.len()));
            lines.extend(all.iter().map(|view| format!("  {}: {}", view.id, state(view))));
            lines
        }
        Reply::Use { instance: id, pool } => one(format!("use {} of {pool}", instance(*id))),
        Reply::Pools(pools) => pools.iter().map(|pool| format!("{name} <- {}", self::pool(pool))).collect(),
        Reply::Permit(permit) => one(format!("permit for {} after {}", permit.provider, span(permit.waited))),
        Reply::Providers(all) => all.iter().map(|it| format!("{name} <- {}", provider(it))).collect(),
        Reply::Explain(view) => explain(name, view),
        Reply::ExplainLease(view) => explain_lease(name, view),
        Reply::Host(host) => one(self::host(host)),
        Reply::Reloaded(changes) => {
            let mut lines = one(format!("{} changes", changes.len()));
            lines.extend(changes.iter().map(|change| format!("  {change}")));
            lines
        }
        Reply::Refused(refusal) => one(self::refusal(refusal)),
    }
}

fn state(view: &LeaseView) -> String {
    let sent_on = match &view.degraded_from {
        Some(asked) => format!(" ({} for {asked})", view.pool),
        None => String::new(),
    };
    let state = match &view.state {
        LeaseState::Queued { place, starting, blocked_by, deadline, .. } => {
            let start = if *starting { ", a start is under way" } else { "" };
            let blocked = blocked_by.as_ref().map_or(String::new(), |why| format!(", {}", self::why(why)));
            format!("queued at place {place} until {}{start}{blocked}", at(*deadline))
        }
        LeaseState::Executing {
            instance: id,
            used,
            idle_deadline,
            deadline,
            draining,
            hold,
            permits,
            ..
        } => {
            let idle = if *used { "idle" } else { "first use" };
            let drain = draining.map_or(String::new(), |until| format!(", drained at {}", at(until)));
            let idle = idle_deadline.map_or(String::new(), |until| format!(", {idle} until {}", at(until)));
            let hold = hold.as_ref().map_or(String::new(), self::hold);
            let (id, end) = (instance(*id), at(*deadline));
            let waits =
                permits.iter().map(|(name, since)| format!(", waits for {name} since {}", at(*since)));
            let waits: String = waits.collect();
            format!("executing on {id}{idle}{hold}{waits}, at most until {end}{drain}")
        }
        LeaseState::Ended { end, at: ended, .. } => {
            format!("{} ({}) at {}: {end}", end.code(), end.reason(), at(*ended))
        }
    };
    state + &sent_on
}

fn hold(hold: &Hold) -> String {
    format!(", held from {} until {}: {}", at(hold.since), at(hold.until), hold.reason)
}

fn refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Limit { why, retry_after, .. } => {
            let again = retry_after.map_or("never".into(), |wait| format!("after {}", span(wait)));
            format!("refused, {}; again {again}", self::why(why))
        }
        Refusal::NoSuchPool(name, there) => format!("no pool {name}, there are {there:?}"),
        Refusal::NoSuchClass(name, there) => format!("no class {name}, there are {there:?}"),
        Refusal::NoSuchProvider(name, there) => format!("no provider {name}, there are {there:?}"),
        Refusal::NoSuchLease(id) => format!("no lease {id}"),
        Refusal::OtherTask(task, lease) => {
            format!("task {task} is another one, its lease is {}", lease.as_ref().map_or("none", |id| &id.0))
        }
        Refusal::CannotChange(change) => format!("cannot change {change}"),
        Refusal::NotExecuting(view) => format!("not executing but {}", state(view)),
    }
}

fn why(why: &Why) -> String {
    let mut until = String::new();
    if let Why::Backoff { until: next, .. } = why {
        until = format!(", next try at {}", at(*next));
    }
    if let Why::ProviderWaits { until: opens, .. } | Why::ProviderSpent { until: opens, .. } = why {
        until = format!(", until {}", at(*opens));
    }
    format!("{}: {why}{until}", why.code())
}

fn pool(view: &PoolView) -> String {
    let PoolView { name, starting, warm, stock, leased, stopping, stuck, queued, promised, .. } = view;
    let outdated = if view.outdated > 0 { format!(", {} outdated", view.outdated) } else { String::new() };
    let removed = if view.removed { ", removed" } else { "" };
    let held = if view.holds.leases > 0 { format!(", {}", holds(&view.holds)) } else { String::new() };
    let drain = view.drain.as_ref().map_or(String::new(), self::drain);
    let blocked = view.blocked_by.as_ref().map_or(String::new(), |why| format!(", {}", self::why(why)));
    format!(
        "{name}: {warm} warm of {stock}, {starting} starting, {leased} leased, {stopping} stopping ({stuck} stuck), \
         {queued} queued, {promised} promised{held}{outdated}{removed}{drain}{blocked}"
    )
}

fn holds(view: &HoldsView) -> String {
    format!("{} of {} held with {}", view.leases, view.limit, view.promised)
}

fn provider(view: &ProviderView) -> String {
    let paused = view.paused_until.map_or(String::new(), |until| format!(", paused until {}", at(until)));
    format!(
        "{}: {} of {} used, {} permits, next at {}, {} of {} wait{paused}",
        view.name,
        view.part,
        view.rate,
        view.permits,
        at(view.next),
        view.waiting,
        view.max_waiting
    )
}

fn host(view: &HostView) -> String {
    let limit = view.memory_limit.map_or("?".into(), |limit| limit.to_string());
    let engine = match &view.engine {
        Engine::Reachable => "engine up".to_owned(),
        Engine::Unreachable(why) => format!("engine down: {why}"),
    };
    let ready = if view.ready { "ready" } else { "not ready" };
    let drain = view.drain.as_ref().map_or(String::new(), self::drain);
    let (promised, (starts, most)) = (view.memory_promised, view.starts);
    let level = view.shortage.level.code();
    format!("{ready}, {level}, {promised} promised of {limit}, {starts} of {most} starts, {engine}{drain}")
}

fn drain(view: &DrainView) -> String {
    let DrainView { deadline, leases, instances, .. } = view;
    format!(", drained until {} ({leases} leases, {instances} instances left)", at(*deadline))
}
