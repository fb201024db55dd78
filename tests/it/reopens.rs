//! No signal holds admission shut for ever: callers who are refused and come back are served again once the cause is
//! over.
//!
//! A closed loop under virtual time: sixteen callers for two slots, each of which asks, works, gives back and asks
//! again, and who is refused comes back when it was told to. Their class refuses early, so that the pace of the ends
//! is a signal as well. For a minute and a half something is wrong; after it every caller must be served.

use std::collections::BTreeMap;
use std::time::Duration;

use stoker::control::Controller;
use stoker::control::message::{
    Acquire, Call, CallId, Disk, Engine, HostCpu, HostMemory, HostPids, Input, InstanceId, InstanceUse,
    LeaseId, News, Output, Pressure, Process, Refusal, Reply, Sample, Scope, SliceMemory, StartFailure,
    Tenant, Unread,
};
use stoker::profile::PoolName;
use stoker::quantity::{Bytes, Instant, MilliCpu, Permille};

const PROFILE: &str = r#"
[host]
reserve = { memory = "1GiB", cpu = "1" }
floor = "1GiB"
max_starts = 2
[class.interactive]
max_wait = "10s"
refuse_early = true
[pool.python]
kind = "sandbox"
image = "i"
memory_max = "512MiB"
warm = { min = 1, max = 2 }
max_instances = 2
"#;

const CALLERS: usize = 16;
const WORKS: Duration = Duration::from_secs(5);
const BEGINS: Duration = Duration::from_secs(90);
const ENDS: Duration = Duration::from_secs(180);
/// Sixteen callers for two slots are served once a minute; who is refused is told to come back within seventy-five
/// seconds, and may come at a bad time some times over. The longest wait of a breaker is minutes.
const SERVED_BY: Duration = Duration::from_secs(180 + 1800);

/// What is wrong for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Nothing,
    NoMemory,
    Blind,
    EngineAway,
    StartsFail,
    BusyCpu,
    DiskFull,
    Drained,
}

const CAUSES: [Cause; 8] = [
    Cause::Nothing,
    Cause::NoMemory,
    Cause::Blind,
    Cause::EngineAway,
    Cause::StartsFail,
    Cause::BusyCpu,
    Cause::DiskFull,
    Cause::Drained,
];

#[derive(Debug)]
enum Next {
    Look,
    Ask(usize),
    Says(InstanceId, News),
    Release(LeaseId),
    Begins,
    Ends,
}

#[derive(Debug)]
struct Loop {
    controller: Controller,
    now: Instant,
    queue: BTreeMap<(Instant, u64), Next>,
    count: u64,
    cause: Cause,
    wrong: bool,
    last: u64,
    /// Who asked by which call.
    asked: BTreeMap<CallId, usize>,
    /// When each was served last.
    served: Vec<Option<Instant>>,
    /// Refusals by limit, before, while and after something is wrong.
    refused: [BTreeMap<String, u32>; 3],
}

impl Loop {
    fn new(cause: Cause) -> Loop {
        let profile = stoker::profile::check("host.toml", PROFILE).unwrap();
        let mut it = Loop {
            controller: Controller::new(profile, "host".into(), 1, Instant::BOOT),
            now: Instant::BOOT,
            queue: BTreeMap::new(),
            count: 0,
            cause,
            wrong: false,
            last: 0,
            asked: BTreeMap::new(),
            served: vec![None; CALLERS],
            refused: Default::default(),
        };
        it.hear(Input::Engine(Engine::Reachable));
        it.soon(Duration::ZERO, Next::Look);
        for caller in 0..CALLERS {
            it.soon(Duration::from_millis(100 * caller as u64 + 50), Next::Ask(caller));
        }
        it.soon(BEGINS, Next::Begins);
        it.soon(ENDS, Next::Ends);
        it
    }

    fn soon(&mut self, wait: Duration, next: Next) {
        self.count += 1;
        self.queue.insert((self.now.after(wait), self.count), next);
    }

    /// Goes on until that time, or until this holds; whether it did.
    fn go_on(&mut self, until: Duration, done: impl Fn(&Loop) -> bool) -> bool {
        let until = Instant::BOOT.after(until);
        while !done(self) {
            let next = self.queue.first_key_value().map(|((at, _), _)| *at);
            let wake = self.controller.wake().map(|(at, _)| at.max(self.now));
            let due = next.into_iter().chain(wake).min().expect("somebody looks each second");
            if due > until {
                return false;
            }
            self.now = due;
            if next == Some(due) {
                let (_, next) = self.queue.pop_first().unwrap();
                self.happen(next);
            } else {
                self.hear(Input::Tick);
            }
        }
        true
    }

    fn happen(&mut self, next: Next) {
        match next {
            Next::Look => {
                self.look();
                self.soon(Duration::from_secs(1), Next::Look);
            }
            Next::Ask(caller) => self.ask(caller),
            Next::Says(id, news) => self.hear(Input::Instance(id, news)),
            Next::Release(lease) => self.call(Call::Release(lease)),
            Next::Begins => self.turn(true),
            Next::Ends => self.turn(false),
        }
    }

    fn turn(&mut self, wrong: bool) {
        self.wrong = wrong;
        match (self.cause, wrong) {
            (Cause::EngineAway, true) => self.hear(Input::Engine(Engine::Unreachable("away".into()))),
            (Cause::EngineAway, false) => self.hear(Input::Engine(Engine::Reachable)),
            (Cause::Drained, true) => self.call(Call::Drain(Scope::Host, Duration::from_secs(5))),
            (Cause::Drained, false) => self.call(Call::Undrain(Scope::Host)),
            (Cause::DiskFull, true) => self.hear(Input::RecordFailed(self.last, "disk is full".into())),
            (Cause::DiskFull, false) => self.hear(Input::Recorded(self.last)),
            (Cause::Nothing | Cause::NoMemory | Cause::Blind | Cause::StartsFail | Cause::BusyCpu, _) => {}
        }
    }

    fn is(&self, cause: Cause) -> bool {
        self.wrong && self.cause == cause
    }

    fn look(&mut self) {
        let (blind, still) = (self.is(Cause::Blind), Permille::new(0));
        fn seen<T>(blind: bool, figure: T) -> Result<T, Unread> {
            if blind { Err(Unread("cannot be read".into())) } else { Ok(figure) }
        }
        let available = if self.is(Cause::NoMemory) { Bytes::mib(200) } else { Bytes::mib(7000) };
        let busy = if self.is(Cause::BusyCpu) { Permille::new(1000) } else { still };
        let disk = Disk { total: Bytes::mib(1 << 20), free: Bytes::mib(1 << 19), inodes: None };
        let sample = Sample {
            memory: seen(blind, HostMemory { total: Bytes::mib(8192), available }),
            cpu: seen(blind, HostCpu { cores: MilliCpu::cores(8), busy: MilliCpu::new(0) }),
            pressure: Ok(Pressure { memory_some: still, memory_full: still, cpu_some: busy, io_some: still }),
            slice: seen(blind, SliceMemory { hard: Bytes::ZERO }),
            slice_stalled: Ok(still),
            pids: seen(blind, HostPids { most: 1 << 20, there: 300, ours: 0 }),
            engine_disk: seen(blind, disk),
            state_disk: seen(blind, disk),
            reclaims: false,
            instances: BTreeMap::<InstanceId, InstanceUse>::new(),
        };
        self.hear(Input::Sample(Box::new(sample)));
    }

    fn ask(&mut self, caller: usize) {
        self.count += 1;
        self.asked.insert(CallId(self.count), caller);
        let request = Acquire {
            lease: LeaseId(format!("l{}", self.count).into()),
            pool: PoolName::new("python"),
            class: None,
            tenant: Tenant(format!("t{}", caller % 3).into()),
            task: None,
            wait: None,
            asynchronous: false,
            max_runtime: None,
            idle_timeout: None,
        };
        self.hear(Input::Call(CallId(self.count), Call::Acquire(request)));
    }

    fn call(&mut self, call: Call) {
        self.count += 1;
        self.hear(Input::Call(CallId(self.count), call));
    }

    fn hear(&mut self, input: Input) {
        self.controller.handle(self.now, input);
        let before = self.last;
        while let Some(output) = self.controller.poll_output() {
            self.see(output);
        }
        if self.last > before {
            let full = self.is(Cause::DiskFull);
            let why = || "disk is full".to_owned();
            self.hear(if full { Input::RecordFailed(self.last, why()) } else { Input::Recorded(self.last) });
        }
    }

    fn see(&mut self, output: Output) {
        let millis = Duration::from_millis;
        match output {
            Output::Record(number, _) => self.last = number,
            Output::Start { instance, .. } if self.is(Cause::StartsFail) => {
                let failed = News::StartFailed(StartFailure::Engine("no space".into()));
                self.soon(millis(500), Next::Says(instance, failed));
            }
            Output::Start { instance, .. } => {
                let process = Process { pid: instance.count, began: 1 };
                self.soon(millis(300), Next::Says(instance, News::Created));
                self.soon(millis(400), Next::Says(instance, News::Started(process)));
                self.soon(millis(1000), Next::Says(instance, News::Ready));
            }
            Output::Stop { instance, .. } => self.soon(millis(300), Next::Says(instance, News::Gone)),
            Output::Reply(call, reply) => self.answer(call, &reply),
            Output::Probe { .. }
            | Output::Adopt { .. }
            | Output::Reclaim(_)
            | Output::Ceilings(_)
            | Output::Tell(_) => {}
        }
    }

    fn answer(&mut self, call: CallId, reply: &Reply) {
        let Some(caller) = self.asked.remove(&call) else { return };
        match reply {
            Reply::Lease(view) => {
                self.served[caller] = Some(self.now);
                self.soon(WORKS, Next::Release(view.id.clone()));
                self.soon(WORKS + Duration::from_secs(1), Next::Ask(caller));
            }
            Reply::Refused(refusal) => {
                let Refusal::Limit { why, retry_after, .. } = &**refusal else { panic!("{refusal:?}") };
                let phase = usize::from(self.now >= Instant::BOOT.after(BEGINS))
                    + usize::from(self.now >= Instant::BOOT.after(ENDS));
                *self.refused[phase].entry(why.code().to_owned()).or_default() += 1;
                self.soon(retry_after.expect("time mends it"), Next::Ask(caller));
            }
            Reply::Leases(_)
            | Reply::Use { .. }
            | Reply::Pools(_)
            | Reply::Explain(_)
            | Reply::ExplainLease(_)
            | Reply::Host(_)
            | Reply::Permit(_)
            | Reply::Providers(_)
            | Reply::Reloaded(_) => panic!("an acquire is answered with {reply:?}"),
        }
    }
}

#[test]
fn once_a_cause_is_over_everybody_is_served_again() {
    std::thread::scope(|scope| {
        for cause in CAUSES {
            scope.spawn(move || everybody_is_served_after(cause));
        }
    });
}

fn everybody_is_served_after(cause: Cause) {
    let mut it = Loop::new(cause);
    it.go_on(ENDS, |_| false);
    assert!(it.refused[0].contains_key("queue_too_long"), "nobody was refused early: {:?}", it.refused);
    let since = Instant::BOOT.after(ENDS);
    let all = |it: &Loop| it.served.iter().all(|at| at.is_some_and(|at| at > since));
    let open = it.go_on(SERVED_BY, all);
    assert!(open, "after {cause:?} some were never served: {:?}, {:?}", it.served, it.refused);
}
