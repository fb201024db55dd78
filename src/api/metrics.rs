//! `GET /metrics`: the views as OpenMetrics, for whoever scrapes.
//!
//! All of it is made anew from the controller's views at each scrape, so a pool or class that is gone has no series, and
//! a figure that is not known is not there instead of being zero. Labels are names of the profile and words of ours: never a
//! tenant, a lease or anything that a caller chooses.

use std::fmt;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::problem::Problem;
use super::{Api, unexpected};
use crate::control::message::{
    BUCKETS, Call, ClassView, DiskView, Engine, Histogram, HostView, Level, PoolView, ProviderView, Reading,
    Reply,
};
use crate::quantity::Bytes;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;

pub(super) async fn metrics(State(api): State<Api>) -> Result<Response, Problem> {
    let Reply::Host(host) = api.ask(Call::Host).await? else { unexpected() };
    let Reply::Pools(pools) = api.ask(Call::Pools).await? else { unexpected() };
    let Reply::Providers(providers) = api.ask(Call::Providers).await? else { unexpected() };
    let text = write(Scrape { host: *host, pools, providers });
    Ok(([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}

/// The whole text.
fn write(scrape: Scrape) -> String {
    let mut registry = Registry::with_prefix("stoker");
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    text::encode(&mut text, &registry).expect("a string takes all that is written to it");
    text
}

/// What is written at one scrape.
#[derive(Debug)]
struct Scrape {
    host: HostView,
    pools: Vec<PoolView>,
    providers: Vec<ProviderView>,
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        self.host(&mut page)?;
        self.instances(&mut page)?;
        self.requests(&mut page)?;
        self.starts(&mut page)?;
        self.providers(&mut page)
    }
}

impl Scrape {
    fn host(&self, page: &mut Page<'_>) -> fmt::Result {
        let host = &self.host;
        let memory = host.memory.known().ok();
        let bytes = Some(&Unit::Bytes);
        let one = |value: Option<Bytes>| {
            value.map(|bytes| (Labels::new(), float(bytes.get()))).into_iter().collect()
        };
        let flag = |yes: bool| vec![(Labels::new(), f64::from(u8::from(yes)))];
        page.gauge("ready", "Whether every pool has its smallest stock", None, flag(host.ready))?;
        page.gauge("engine_up", "Whether the engine answers", None, flag(host.engine == Engine::Reachable))?;
        page.gauge("draining", "Whether the host is under a drain", None, flag(host.drain.is_some()))?;
        let level = match host.shortage.level {
            Level::Calm => 0.0,
            Level::Tight => 1.0,
            Level::Critical => 2.0,
        };
        page.gauge("pressure_level", "0 calm, 1 tight, 2 critical", None, vec![(Labels::new(), level)])?;
        page.gauge("host_memory", "Memory of the host", bytes, one(memory.map(|it| it.total)))?;
        page.gauge("host_memory_available", "Of it available", bytes, one(memory.map(|it| it.available)))?;
        page.gauge("memory_floor", "What must remain available", bytes, one(host.floor))?;
        page.gauge("memory_limit", "What the host has for containers", bytes, one(host.memory_limit))?;
        page.gauge("memory_promised", "Of it promised", bytes, one(Some(host.memory_promised)))?;
        let held = host.slice.known().ok().map(|slice| slice.hard);
        page.gauge("memory_held", "What all containers hold", bytes, one(held))?;
        let stalls = host.pressure.known().ok().into_iter().flat_map(|stalls| {
            let of = [("memory", stalls.memory_some), ("cpu", stalls.cpu_some), ("io", stalls.io_some)];
            of.map(|(what, share)| (vec![("resource", what.to_owned())], f64::from(share.get()) / 1000.0))
        });
        let help = "Share of the last 10 s in which some task of the host stood still for it";
        page.gauge("pressure_stalled", help, Some(&Unit::Other("ratio".into())), stalls.collect())?;
        self.space(page)?;
        let (starting, most) = host.starts;
        page.gauge("starting", "Starts under way", None, vec![(Labels::new(), f64::from(starting))])?;
        page.gauge("starting_limit", "Starts that may be now", None, vec![(Labels::new(), f64::from(most))])
    }

    /// Tasks and disks.
    fn space(&self, page: &mut Page<'_>) -> fmt::Result {
        let host = &self.host;
        let pids = host.pids.known().ok();
        let one = |value: Option<u64>| {
            value.map(|count| (Labels::new(), float(count))).into_iter().collect::<Vec<_>>()
        };
        page.gauge("host_pids", "Processes and threads of the host", None, one(pids.map(|it| it.of.there)))?;
        let help = "Processes and threads that the kernel can have";
        page.gauge("host_pids_most", help, None, one(pids.map(|it| it.of.most)))?;
        let help = "Those that containers may have together";
        page.gauge("pids_limit", help, None, one(pids.map(|it| it.limit)))?;
        page.gauge("pids_promised", "Of them promised", None, one(pids.map(|it| it.promised)))?;
        let disks = [("engine", &host.engine_disk), ("state", &host.state_disk)];
        let each = |value: fn(&DiskView) -> Option<u64>| {
            let of = |(whose, disk): &(&str, &Reading<DiskView>)| {
                let value = disk.known().ok().and_then(value)?;
                Some((vec![("disk", (*whose).to_owned())], float(value)))
            };
            disks.iter().filter_map(of).collect::<Vec<_>>()
        };
        let bytes = Some(&Unit::Bytes);
        page.gauge("disk", "Size of the disk", bytes, each(|disk| Some(disk.of.total.get())))?;
        page.gauge("disk_free", "Of it free", bytes, each(|disk| Some(disk.of.free.get())))?;
        page.gauge("disk_floor", "What must be free", bytes, each(|disk| Some(disk.floor.get())))?;
        let help = "Inodes that are free";
        page.gauge("disk_inodes_free", help, None, each(|disk| Some(disk.of.inodes?.free)))
    }

    fn instances(&self, page: &mut Page<'_>) -> fmt::Result {
        let states = |pool: &PoolView| {
            let PoolView { starting, warm, leased, stopping, .. } = *pool;
            [("starting", starting), ("warm", warm), ("leased", leased), ("stopping", stopping)]
                .map(|(state, count)| (with(of(pool), "state", state), f64::from(count)))
        };
        page.gauge("instances", "Instances by state", None, self.pools.iter().flat_map(states).collect())?;
        let each =
            |value: fn(&PoolView) -> f64| self.pools.iter().map(|pool| (of(pool), value(pool))).collect();
        page.gauge("instances_limit", "max_instances", None, each(|pool| f64::from(pool.max_instances)))?;
        page.gauge("stock", "Warm instances that are wanted", None, each(|pool| f64::from(pool.stock)))?;
        let bytes = Some(&Unit::Bytes);
        let help = "What the pool's instances hold, as far as measured";
        page.gauge("instances_memory", help, bytes, each(|pool| float(pool.memory.get())))?;
        let help = "Instances whose memory is not known";
        page.gauge("instances_unmeasured", help, None, each(|pool| f64::from(pool.unmeasured)))?;
        let help = "What the pool's instances are counted with";
        page.gauge("instances_promised", help, bytes, each(|pool| float(pool.promised.get())))?;
        let rows = self.classes().map(|(labels, class)| (labels, f64::from(class.holds)));
        page.gauge("holds", "Leases that wait for a person", None, rows.collect())?;
        page.gauge("holds_limit", "max_holds", None, each(|pool| f64::from(pool.holds.limit)))?;
        let help = "What the instances of leases that wait for a person are counted with";
        page.gauge("holds_promised", help, bytes, each(|pool| float(pool.holds.promised.get())))?;
        let blocked =
            |pool: &PoolView| Some((with(of(pool), "limit", pool.blocked_by.as_ref()?.code()), 1.0));
        let help = "1 for the limit that keeps a wanted start back";
        page.gauge("start_blocked", help, None, self.pools.iter().filter_map(blocked).collect())
    }

    fn requests(&self, page: &mut Page<'_>) -> fmt::Result {
        let each = |value: fn(&ClassView) -> u64| {
            self.classes().map(|(labels, class)| (labels, float(value(class)))).collect::<Vec<_>>()
        };
        page.gauge("requests_waiting", "Requests that wait", None, each(|class| u64::from(class.waiting)))?;
        let oldest =
            self.pools.iter().map(|pool| (of(pool), pool.oldest_wait.unwrap_or_default().as_secs_f64()));
        let help = "How long the oldest request has waited";
        page.gauge("oldest_wait", help, Some(&Unit::Seconds), oldest.collect())?;
        page.gauge("slots_guaranteed", "Guaranteed slots", None, each(|class| u64::from(class.guaranteed)))?;
        page.counter(
            "requests",
            "Requests since the daemon began",
            self.classes().map(|(labels, class)| (labels, class.tally.asked)),
        )?;
        page.counter(
            "requests_retried",
            "Requests that were a further attempt of a task",
            self.classes().map(|(labels, class)| (labels, class.tally.retried)),
        )?;
        page.counter(
            "grants",
            "Requests granted, at once or after a wait",
            self.classes().flat_map(|(labels, class)| {
                let (all, waited) = (class.tally.granted, class.tally.waited);
                let at_once = with(labels.clone(), "after", "nothing");
                [(at_once, all.saturating_sub(waited)), (with(labels, "after", "wait"), waited)]
            }),
        )?;
        page.counter(
            "refusals",
            "Requests refused, by the limit",
            self.classes().flat_map(|(labels, class)| {
                let refused = class.tally.refused.iter();
                refused.map(move |(limit, count)| (with(labels.clone(), "limit", limit), *count))
            }),
        )?;
        page.counter(
            "requests_left",
            "Requests taken back while they waited",
            self.classes().map(|(labels, class)| (labels, class.tally.left)),
        )?;
        page.counter(
            "requests_degraded",
            "Requests sent on to another pool while the host's state was not known",
            self.classes().map(|(labels, class)| (labels, class.tally.degraded)),
        )?;
        page.counter(
            "leases_ended",
            "Leases that ended, by their state",
            self.classes().flat_map(|(labels, class)| {
                let ended = class.tally.ended.iter();
                ended.map(move |(state, count)| (with(labels.clone(), "state", state), *count))
            }),
        )?;
        let help = "How long those waited that were granted";
        page.histogram("wait", help, self.classes().map(|(labels, class)| (labels, &class.tally.waits)))
    }

    fn starts(&self, page: &mut Page<'_>) -> fmt::Result {
        let pools = || self.pools.iter();
        page.counter("starts", "Starts ordered", pools().map(|pool| (of(pool), pool.starts.0)))?;
        page.counter("starts_failed", "Starts that failed", pools().map(|pool| (of(pool), pool.starts.1)))?;
        let help = "How long starts took, from the order until ready";
        page.histogram("start", help, pools().map(|pool| (of(pool), &pool.took)))
    }

    fn providers(&self, page: &mut Page<'_>) -> fmt::Result {
        if self.providers.is_empty() {
            return Ok(()); // A family without a sample says nothing.
        }
        let all = || self.providers.iter().map(|it| (vec![("provider", it.name.to_string())], it));
        let each = |value: fn(&ProviderView) -> f64| all().map(|(labels, it)| (labels, value(it))).collect();
        page.gauge(
            "provider_waiting",
            "Permits that are waited for",
            None,
            each(|it| f64::from(it.waiting)),
        )?;
        page.gauge("provider_waiting_limit", "max_waiting", None, each(|it| f64::from(it.max_waiting)))?;
        let help = "What of the provider's rate is used: less while it throttles";
        let unit = Unit::Other("ratio".into());
        page.gauge("provider_rate_used", help, Some(&unit), each(|it| f64::from(it.part.get()) / 1000.0))?;
        let throttled = all().map(|(labels, it)| (labels, it.tally.throttled));
        page.counter("provider_throttled", "Reports that it throttled", throttled)?;
        let refused = all().map(|(labels, it)| (labels, it.tally.refused));
        page.counter("provider_refusals", "Permits refused, at once or after a wait", refused)?;
        let help = "How long permits were waited for that were given";
        page.histogram("provider_wait", help, all().map(|(labels, it)| (labels, &it.tally.waits)))
    }

    fn classes(&self) -> impl Iterator<Item = (Labels, &ClassView)> {
        self.pools.iter().flat_map(|pool| {
            let labels = of(pool);
            pool.classes.iter().map(move |class| (with(labels.clone(), "class", class.class.as_str()), class))
        })
    }
}

fn of(pool: &PoolView) -> Labels {
    vec![("pool", pool.name.to_string())]
}

fn with(mut labels: Labels, name: &'static str, value: &str) -> Labels {
    labels.push((name, value.to_owned()));
    labels
}

/// A count as the format has numbers: exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "no count and no memory of a host comes near")]
fn float(number: u64) -> f64 {
    number as f64
}

/// The text as it is written, family by family.
struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    fn gauge(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        rows: Vec<(Labels, f64)>,
    ) -> fmt::Result {
        if rows.is_empty() {
            return Ok(()); // What is not known is not there.
        }
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (labels, value) in rows {
            if labels.is_empty() {
                family.encode_gauge(&value)?;
            } else {
                family.encode_family(&labels)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    fn counter(&mut self, name: &str, help: &str, rows: impl Iterator<Item = (Labels, u64)>) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in rows {
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    fn histogram<'h>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl Iterator<Item = (Labels, &'h Histogram)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (labels, times) in rows {
            let ends = BUCKETS.iter().map(Duration::as_secs_f64).chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = ends.zip(times.buckets().map(|(_, count)| count)).collect();
            let mut row = family.encode_family(&labels)?;
            row.encode_histogram::<NoLabelSet>(times.sum().as_secs_f64(), times.count(), &buckets, None)?;
        }
        Ok(())
    }
}
