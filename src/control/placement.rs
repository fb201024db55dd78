//! Which instance serves whom, and which pool may start the next one.
//!
//! A request gets the warm instance that has been warm longest: it will be the next to age anyway. One of an older
//! template is lent only where there is none of the newest. Start slots are scarce, so they go first to the pool
//! whose waiting request has the earliest promise, then to refill, to the pool that lacks the largest part of its stock, and last to
//! the exchange of what was made from an older template. Where memory or processors are short, what is warm
//! beyond its stock is given up for who waits, and who is late reserves what it needs (`settle`).
//!
//! Where they are short and nobody waits, stock competes: the pool whose next warm one is worth more than [`MARGIN`] times
//! what the last of another is worth takes that one's room, one at a time, and what is worth so much less is not refilled in
//! front of it. The margin, and that only one is taken that has been warm for [`SETTLED`], pay for the start; and a swap is
//! never turned back, since the one that was given up is worth no more than before.
//!
//! Not here: whether a start is allowed (`admission`).

use std::time::Duration;

use super::pool::Pool;
use super::scaling;
use crate::quantity::Instant;

/// Stock is exchanged for other stock that is worth more than so many times as much.
pub(super) const MARGIN: u32 = 2;
/// And not before it was warm for so long: an exchange costs a start, and another one when it is regretted.
pub(super) const SETTLED: Duration = Duration::from_secs(60);

/// Whether stock that is worth so much may take the room of other stock.
pub(super) fn outbids(worth: u32, other: u32) -> bool {
    worth > other.saturating_mul(MARGIN)
}

/// How much a pool wants its next start; less is more urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// A request waits for it, with this promise.
    Waiting(Instant),
    /// It has this many thousandths of its stock.
    Refill(u32),
    /// It has its stock, and some of it is of an older template.
    Exchange,
}

/// How much this pool wants another start now, if at all; a closed one wants none.
pub(super) fn urgency(pool: &Pool) -> Option<Urgency> {
    if pool.is_closed() {
        return None;
    }
    let stock = pool.stock();
    let (warm, starting) = (pool.counts.warm, pool.counts.starting);
    let askers = pool.askers();
    if scaling::starts_wanted(askers, stock, warm, starting) == 0 {
        return pool.may_exchange().then_some(Urgency::Exchange);
    }
    // Those under way serve the first of the queue: it is the next one behind them that wants a start.
    match pool.queue.promise_behind(starting).filter(|_| askers > starting) {
        Some(promised) => Some(Urgency::Waiting(promised)),
        None => Some(Urgency::Refill((warm + starting).saturating_mul(1000) / stock.max(1))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::control::Controller;
    use crate::control::message::{
        Disk, Engine, HostCpu, HostMemory, HostPids, Input, InstanceId, News, Output, Pressure, Sample,
        SliceMemory, StopReason, What,
    };
    use crate::profile::{ClassName, PoolName};
    use crate::quantity::{Bytes, MilliCpu, Permille};

    #[test]
    fn waiting_comes_before_refill_the_emptiest_stock_first_and_exchange_last() {
        let at = Instant::from_nanos;
        let mut wishes = [
            Urgency::Exchange,
            Urgency::Refill(900),
            Urgency::Waiting(at(9)),
            Urgency::Refill(0),
            Urgency::Waiting(at(3)),
        ];
        wishes.sort();
        assert_eq!(
            wishes,
            [
                Urgency::Waiting(at(3)),
                Urgency::Waiting(at(9)),
                Urgency::Refill(0),
                Urgency::Refill(900),
                Urgency::Exchange
            ]
        );
    }

    const HOST: &str = "
        [host]
        reserve = { memory = '1GiB', cpu = '0' }
        floor = '64MiB'
        [pool.busy]
        kind = 'sandbox'
        image = 'i'
        memory_max = '1GiB'
        memory_expect = '1GiB'
        cpus = '0.1'
        max_instances = 4
        warm = { min = 0, max = 3 }
        [pool.quiet]
        kind = 'sandbox'
        image = 'i'
        memory_max = '1GiB'
        memory_expect = '1GiB'
        cpus = '0.1'
        max_instances = 4
        warm = { min = 0, max = 3 }
    ";

    /// A host with room for three, on which every start takes three seconds and a stop no time.
    struct Small {
        controller: Controller,
        now: Instant,
        starting: Vec<(Instant, InstanceId)>,
        outbid: u32,
    }

    impl Small {
        fn new() -> Small {
            let profile = crate::profile::check("host.toml", HOST).unwrap();
            let controller = Controller::new(profile, "host".into(), 1, Instant::BOOT);
            let mut small = Small { controller, now: Instant::BOOT, starting: Vec::new(), outbid: 0 };
            small.hear(Input::Engine(Engine::Reachable));
            small
        }

        fn hear(&mut self, input: Input) {
            self.controller.handle(self.now, input);
            while let Some(output) = self.controller.poll_output() {
                match output {
                    Output::Record(number, _) => self.hear(Input::Recorded(number)),
                    Output::Start { instance, .. } => {
                        self.starting.push((self.now.after(Duration::from_secs(3)), instance));
                    }
                    Output::Stop { instance, .. } => self.hear(Input::Instance(instance, News::Gone)),
                    Output::Tell(event) if event.what == What::InstanceStopping(StopReason::Outbid) => {
                        self.outbid += 1;
                    }
                    Output::Probe { .. }
                    | Output::Adopt { .. }
                    | Output::Reclaim(_)
                    | Output::Ceilings(_)
                    | Output::Reply(..)
                    | Output::Tell(_) => {}
                }
            }
        }

        /// So many seconds go by, with so many arrivals in each for these pools.
        fn pass(&mut self, seconds: u32, arrivals: &[(&str, u32)]) {
            let (total, none) = (Bytes::mib(4300), Permille::new(0));
            let disk = Disk { total: Bytes::mib(1 << 20), free: Bytes::mib(1 << 19), inodes: None };
            for _ in 0..seconds {
                self.now = self.now.after(Duration::from_secs(1));
                let (ready, starting) = self.starting.drain(..).partition(|(at, _)| *at <= self.now);
                self.starting = starting;
                let ready: Vec<(Instant, InstanceId)> = ready;
                ready.into_iter().for_each(|(_, id)| self.hear(Input::Instance(id, News::Ready)));
                for (pool, many) in arrivals {
                    let pool = self.controller.pool(&PoolName::new(*pool));
                    let runtime = scaling::runtime(&pool.spec);
                    (0..*many).for_each(|_| {
                        pool.demand.arrived(self.now, &ClassName::new("interactive"), runtime);
                    });
                    pool.plan.touch();
                }
                self.hear(Input::Sample(Box::new(Sample {
                    memory: Ok(HostMemory { total, available: total }),
                    cpu: Ok(HostCpu { cores: MilliCpu::cores(8), busy: MilliCpu::new(0) }),
                    pressure: Ok(Pressure {
                        memory_some: none,
                        memory_full: none,
                        cpu_some: none,
                        io_some: none,
                    }),
                    slice: Ok(SliceMemory { hard: Bytes::ZERO }),
                    slice_stalled: Ok(none),
                    pids: Ok(HostPids { most: 1 << 20, there: 300, ours: 0 }),
                    engine_disk: Ok(disk),
                    state_disk: Ok(disk),
                    reclaims: false,
                    instances: BTreeMap::new(),
                })));
            }
        }

        fn warm(&self, pool: &str) -> u32 {
            self.controller.pools[&PoolName::new(pool)].counts.warm
        }
    }

    #[test]
    fn stock_that_is_worth_much_more_takes_the_room_of_other_stock_and_keeps_it() {
        let mut small = Small::new();
        small.pass(60, &[("quiet", 1)]);
        assert_eq!((small.warm("busy"), small.warm("quiet")), (0, 3));
        // Both are asked for, and neither by so much more than the other.
        small.pass(120, &[("quiet", 1), ("busy", 1)]);
        let shared = (small.warm("busy"), small.warm("quiet"));
        assert_eq!(shared.0 + shared.1, 3, "{shared:?}");
        small.pass(300, &[("busy", 20)]);
        assert_eq!((small.warm("busy"), small.warm("quiet")), (3, 0));
        let outbid = small.outbid;
        assert!((1..=4).contains(&outbid), "{outbid}");
        small.pass(300, &[("busy", 20)]);
        assert_eq!((small.warm("busy"), small.outbid), (3, outbid), "it is over");
    }
}
