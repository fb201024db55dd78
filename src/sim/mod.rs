//! A second daemon around the same controller: virtual time, and a world in which things go wrong.
//!
//! ```text
//!            callers   engine   the host's memory   store    all of it drawn from one seed
//!                \        |         |            /
//!   heap of what happens next: words, late, lost or doubled
//!                           |
//!                       controller  --->  judge: its own books, from outside
//! ```
//!
//! A run has three acts. In the first, callers come and things go wrong. In the second nothing goes wrong any
//! more, and all must become well: nobody waits, every pool has its stock. In the third the host is drained,
//! and nothing must remain. After each word the controller's own check is made, and the judge compares what
//! came out with what went in.
//!
//! A second way to drive the same world is a [`workload`]: streams of callers as a file describes them, on a host
//! whose memory and processors are modelled (`machine`), with what goes wrong at given times. Nothing is judged to be
//! well in its end; what came of it is told ([`Outcome`]).
//!
//! Invariant: no clock, no chance but the seed's; equal seeds give equal reports to the byte.
//!
//! Not here: the daemon's loop and the engine's protocol, which are tested with a real engine.

mod bars;
mod callers;
mod calls;
mod engine;
mod judge;
mod law;
mod machine;
mod options;
mod outcome;
mod play;
pub mod plot;
mod report;
mod space;
mod store;
mod tally;
mod visitors;
mod words;
pub mod workload;

pub use self::bars::Bar;
pub use self::options::{Faults, Options};
pub use self::outcome::Outcome;
pub use self::play::{Game, play};
pub use self::report::Report;
pub use self::tally::{Point, Series};

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use self::callers::{Act, Asked, Caller, Open};
use self::judge::Judge;
use crate::control::Controller;
use crate::control::message::{Call, CallId, Input, InstanceId, Listing, Output, PoolView, Scope, Unread};
use crate::profile::HostProfile;
use crate::quantity::{Bytes, Instant, MilliCpu};

/// The run of the first daemon; each that follows has the next number.
const RUN: u32 = 7;
/// The run of what belongs to nobody.
const STRANGE: u32 = u32::MAX;
/// What the host itself uses.
const OWN: Bytes = Bytes::mib(300);
/// How many steps a failure shows.
const SHOWN: usize = 40;
/// All must be well again after this: the longest waits between tries, one after the other.
const PATIENCE: Duration = Duration::from_secs(1200);

/// Something that must not be, with all that is needed to find out why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// What must not be.
    pub what: String,
    /// What run it was.
    pub run: String,
    /// How to see it again.
    pub again: String,
    /// The last steps: what went in and what came out.
    pub steps: Vec<String>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Broken { what, run, again, steps } = self;
        write!(f, "{run}\n{}\n{what}\n\nagain: {again}", steps.join("\n"))
    }
}

impl std::error::Error for Broken {}

/// One run.
///
/// # Errors
/// When something was not as it must be.
pub fn run(options: &Options) -> Result<Report, Box<Broken>> {
    let mut world = World::of(options);
    match world.catch(|world| world.play_trouble(options)) {
        Ok(()) => Ok(world.report),
        Err(what) => {
            let again = format!("STOKER_SEED={} cargo test --test it sim", options.seed);
            Err(Box::new(world.broken(what, options.to_string(), again)))
        }
    }
}

/// The world around the controller.
#[derive(Debug)]
struct World {
    /// What holds in the end.
    profile: Arc<HostProfile>,
    /// That, and what may hold for a while.
    profiles: Vec<Arc<HostProfile>>,
    /// Which of them is in the files: the one that was last asked to be reloaded, heard or not.
    files: usize,
    faults: Faults,
    memory: Bytes,
    cores: MilliCpu,
    arrivals: u32,
    reclaims: bool,
    rng: Rng,
    now: Instant,
    /// What happens, by its time and then in the order in which it was decided.
    heap: BTreeMap<(Instant, u64), Box<Happening>>,
    decided: u64,
    controller: Controller,
    /// The run of the daemon.
    run: u32,
    /// The daemon was killed, and the next has not begun.
    down: bool,
    store: store::Store,
    engine: engine::Engine,
    /// Those who may act still, by the order in which they came.
    callers: BTreeMap<u32, Caller>,
    last_caller: u32,
    open: BTreeMap<CallId, Open>,
    last_call: u64,
    last_lease: u64,
    /// The host cannot be measured.
    blind: bool,
    /// What somebody else takes of the host's memory.
    hog: Bytes,
    /// Tasks and disks.
    space: space::Space,
    /// Nothing goes wrong any more.
    calm: bool,
    /// Nobody looks at the host any more.
    over: bool,
    seen_pools: Option<Vec<PoolView>>,
    /// Whether all that can be checked is checked after each word.
    checked: bool,
    judge: Judge,
    /// What the run of a workload has beside.
    play: Option<Box<play::Play>>,
    report: Report,
    steps: VecDeque<Step>,
}

/// Something that happens at its time.
#[derive(Debug)]
enum Happening {
    Word(Input),
    Engine(InstanceId, engine::Step),
    Act(u32, Act),
    Arrives,
    Peek,
    Look,
    List,
    Listed(Listing),
    Away(bool),
    Blind(bool),
    Hog(bool),
    Crowd(bool),
    Fills(bool),
    Drain(Scope),
    Undrain(Scope),
    /// The profile of this number holds from now on; the first is the run's own.
    Reload(usize),
    Stranger,
    /// The store comes to write.
    Store,
    Full(bool),
    /// External providers throttle every call of a workload from now on, or no more.
    Throttles(bool),
    Crash,
    Begins,
    /// Somebody of this stream of a workload comes.
    Comes(usize),
    /// The operator asks.
    Asks(Call),
    /// Somebody else holds so much of the host's memory.
    Takes(Bytes),
    /// The host stands still for so long, and its clock goes on.
    Sleeps(Duration),
}

/// One word and what came out.
#[derive(Debug)]
struct Step(Instant, Input, Vec<Output>);

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step(now, input, outputs) = self;
        // What each instance holds is too much to read.
        if let Input::Sample(sample) = input {
            write!(f, "{now} Sample {:?}", sample.memory)?;
        } else {
            write!(f, "{now} {input:?}")?;
        }
        outputs.iter().try_for_each(|output| write!(f, "\n      -> {output:?}"))
    }
}

impl World {
    /// The world of a drawn run.
    fn of(options: &Options) -> World {
        let read = |text: &String| {
            Arc::new(crate::profile::check("simulated", text).expect("drawn profiles are right"))
        };
        let profiles = std::iter::once(&options.profile).chain(&options.others).map(read).collect();
        let Options { faults, memory, cores, arrivals, reclaims, checked, .. } = *options;
        let space = space::Space::just_for(options.seed, options.pids);
        let world = World::new(options.seed, profiles, (memory, cores));
        World { faults, arrivals, reclaims, checked, space, ..world }
    }

    /// A world in which nothing goes wrong and nobody comes. The first profile holds.
    fn new(seed: u64, profiles: Vec<Arc<HostProfile>>, (memory, cores): (Bytes, MilliCpu)) -> World {
        let profile = profiles[0].clone();
        let name = String::from("simulated");
        World {
            faults: Faults::default(),
            memory,
            cores,
            arrivals: 0,
            reclaims: false,
            rng: Rng::with_seed(seed ^ 0x5eed),
            now: Instant::BOOT,
            heap: BTreeMap::new(),
            decided: 0,
            controller: Controller::new((*profile).clone(), name, RUN, Instant::BOOT),
            run: RUN,
            down: false,
            store: store::Store::default(),
            engine: engine::Engine::default(),
            callers: BTreeMap::new(),
            last_caller: 0,
            open: BTreeMap::new(),
            last_call: 0,
            last_lease: 0,
            blind: false,
            hog: Bytes::ZERO,
            space: space::Space::plenty(seed),
            calm: false,
            over: false,
            seen_pools: None,
            checked: true,
            files: 0,
            profiles,
            judge: Judge::new(profile.clone()),
            play: None,
            report: Report::default(),
            steps: VecDeque::new(),
            profile,
        }
    }

    /// Lives through this; what must not be, or a panic, is what comes back.
    fn catch(&mut self, played: impl FnOnce(&mut World) -> Result<(), String>) -> Result<(), String> {
        match catch_unwind(AssertUnwindSafe(|| played(self))) {
            Ok(done) => done,
            Err(panic) => Err(match panic.downcast::<String>() {
                Ok(text) => format!("panicked: {text}"),
                Err(_) => "panicked".to_owned(),
            }),
        }
    }

    fn broken(&self, what: String, run: String, again: String) -> Broken {
        Broken { what, run, again, steps: self.steps.iter().map(Step::to_string).collect() }
    }

    // ------------------------------------------------------------ acts

    fn play_trouble(&mut self, options: &Options) -> Result<(), String> {
        self.prepare(options);
        let end = Instant::BOOT.after(options.trouble);
        self.go_on_until(end, |_| false)?;

        self.calm = true;
        (self.engine.away, self.blind, self.hog, self.store.full) = (false, false, Bytes::ZERO, false);
        self.space.calm();
        if self.down {
            self.go_on_until(self.now.after(PATIENCE), |world| !world.down)?;
        }
        // All of it is heard in this order, or a pool that comes back would still be drained.
        self.reload(0);
        self.go_on_until(self.now.after(Duration::from_secs(1)), |_| false)?;
        for scope in self.scopes() {
            self.ask(Call::Undrain(scope), Asked::Other);
        }
        self.seen_pools = None;
        self.become_well()?;

        self.ask(Call::Drain(Scope::Host, Duration::from_secs(20)), Asked::Other);
        let empty = |world: &World| {
            !world.engine.keeps.values().any(engine::Keep::counts) && world.controller.check_at_rest().is_ok()
        };
        if !self.go_on_until(self.now.after(PATIENCE), empty)? {
            let rest = self.controller.check_at_rest();
            return Err(format!(
                "a drain left something: {rest:?}, {:?}, {}",
                self.engine,
                self.judge.unrest()
            ));
        }
        // What is remembered of leases is forgotten, and then there is nothing to wake up for.
        self.over = true;
        self.go_on_until(self.now.after(Duration::from_secs(700)), |_| false)?;
        self.report.passed = self.now.since(Instant::BOOT);
        match self.controller.wake() {
            None => Ok(()),
            Some((at, what)) => Err(format!("everything is over, and {what} is due at {at}")),
        }
    }

    /// Draws when things go wrong, and sets going what goes on.
    fn prepare(&mut self, options: &Options) {
        self.soon(Duration::from_millis(5), Happening::Look);
        self.soon(Duration::from_millis(10), Happening::List);
        self.soon(Duration::from_millis(100), Happening::Arrives);
        self.soon(Duration::from_millis(500), Happening::Peek);
        let seconds = options.trouble.as_secs();
        let scopes = self.scopes();
        let Faults { outages, blind, hog, drains, strangers, reloads, full, restarts, .. } = self.faults;
        if hog {
            self.prepare_hogs(seconds);
        }
        self.prepare_space(seconds);
        for _ in 0..seconds / 17 {
            let from = Instant::BOOT.after(Duration::from_secs(self.rng.u64(2..seconds)));
            let until = from.after(Duration::from_secs(self.rng.u64(1..25)));
            let scope = scopes[self.rng.usize(0..scopes.len())].clone();
            let wrong = match self.rng.u32(0..7) {
                0 if outages => Some((Happening::Away(true), Happening::Away(false))),
                1 if blind => Some((Happening::Blind(true), Happening::Blind(false))),
                2 if drains => Some((Happening::Drain(scope.clone()), Happening::Undrain(scope))),
                3 if strangers => Some((Happening::Stranger, Happening::Stranger)),
                4 if reloads => {
                    let [one, other] = [(); 2].map(|()| self.rng.usize(0..self.profiles.len()));
                    Some((Happening::Reload(one), Happening::Reload(other)))
                }
                5 if full => Some((Happening::Full(true), Happening::Full(false))),
                6 if restarts => Some((Happening::Crash, Happening::Crash)),
                _ => None,
            };
            if let Some((begins, ends)) = wrong {
                self.at(from, begins);
                self.at(until, ends);
            }
        }
    }

    /// Somebody outside takes memory and gives it back, again and again, sometimes within a second.
    fn prepare_hogs(&mut self, seconds: u64) {
        for _ in 0..seconds / 15 {
            let from = Instant::BOOT.after(Duration::from_secs(self.rng.u64(2..seconds)));
            let lasting = if self.rng.bool() { self.rng.u64(500..4000) } else { self.rng.u64(4000..40_000) };
            self.at(from, Happening::Hog(true));
            self.at(from.after(Duration::from_millis(lasting)), Happening::Hog(false));
        }
    }

    /// Some of the memory, or all but about as much as must remain.
    fn draw_hog(&mut self) -> Bytes {
        if self.rng.bool() {
            return Bytes::new(self.rng.u64(self.memory.get() / 4..self.memory.get()));
        }
        let held: Bytes = self.engine.keeps.values().map(engine::Keep::held).sum();
        let left = Bytes::mib(self.rng.u64(100..300));
        self.memory.saturating_sub(OWN).saturating_sub(held).saturating_sub(left)
    }

    fn scopes(&self) -> Vec<Scope> {
        self.profile.pools.keys().cloned().map(Scope::Pool).chain([Scope::Host]).collect()
    }

    /// Work conservation: with nothing wrong any more, nobody waits and every pool has its stock.
    fn become_well(&mut self) -> Result<(), String> {
        let until = self.now.after(PATIENCE);
        while self.now < until {
            self.ask(Call::Pools, Asked::Other);
            self.go_on_until(self.now.after(Duration::from_secs(3)), |_| false)?;
            if self.judge.is_quiet() && self.seen_pools.as_ref().is_some_and(|all| all.iter().all(is_well)) {
                return Ok(());
            }
        }
        Err(format!("all should be well again: {:?}, {}", self.seen_pools, self.judge.unrest()))
    }

    fn reload(&mut self, number: usize) {
        self.files = number;
        let profile = Box::new((*self.profiles[number]).clone());
        self.ask(Call::Reload(profile), Asked::Other);
    }

    // ------------------------------------------------------------ time

    fn at(&mut self, at: Instant, happening: Happening) {
        self.decided += 1;
        self.heap.insert((at, self.decided), Box::new(happening));
    }

    fn soon(&mut self, wait: Duration, happening: Happening) {
        self.at(self.now.after(wait), happening);
    }

    /// Goes on until then, or until it is done; whether it was.
    fn go_on_until(&mut self, end: Instant, done: impl Fn(&World) -> bool) -> Result<bool, String> {
        loop {
            if done(self) {
                return Ok(true);
            }
            // The loop wakes a little late.
            let lag = Duration::from_micros(self.rng.u64(0..3000));
            let wake = self.controller.wake().filter(|_| !self.down);
            let wake = wake.map(|(at, _)| at.after(lag).max(self.now));
            let next = self.heap.first_key_value().map(|((at, _), _)| *at);
            let due = [wake, next].into_iter().flatten().min();
            let Some(due) = due.filter(|due| *due <= end) else {
                self.now = end;
                return Ok(false);
            };
            self.now = due;
            if next == Some(due) {
                let (_, happening) = self.heap.pop_first().expect("it was seen just now");
                self.happen(*happening)?;
            } else {
                self.hear(Input::Tick)?;
            }
        }
    }

    fn happen(&mut self, happening: Happening) -> Result<(), String> {
        let trouble = !self.calm;
        match happening {
            Happening::Word(input) => self.hear(input)?,
            Happening::Engine(id, step) => self.engine_step(id, step),
            Happening::Act(number, act) => self.act(number, act),
            Happening::Store => self.write()?,
            Happening::Full(full) if trouble => self.store.full = full,
            Happening::Crash if trouble => self.crash()?,
            Happening::Begins => self.begin()?,
            Happening::Arrives if trouble => {
                self.arrive();
                let mean = 20_000 / u64::from(self.arrivals);
                let wait = Duration::from_millis(self.rng.u64(0..=mean));
                self.soon(wait, Happening::Arrives);
            }
            Happening::Peek if trouble => {
                self.peek();
                let wait = Duration::from_millis(self.rng.u64(500..6000));
                self.soon(wait, Happening::Peek);
            }
            Happening::Look => self.look(),
            Happening::List => self.list(),
            Happening::Listed(listing) => self.word(Input::Listed(listing)),
            Happening::Away(away) if trouble => self.engine.away = away,
            Happening::Blind(blind) if trouble => self.blind = blind,
            Happening::Hog(hog) if trouble => {
                self.hog = if hog { self.draw_hog() } else { Bytes::ZERO };
            }
            Happening::Crowd(comes) if trouble => self.space.crowd(comes),
            Happening::Fills(full) if trouble => self.space.fill(full),
            Happening::Drain(scope) if trouble => {
                let window = Duration::from_secs(self.rng.u64(0..20));
                self.ask(Call::Drain(scope, window), Asked::Other);
            }
            Happening::Comes(stream) => self.come(stream),
            Happening::Asks(call) => drop(self.ask(call, Asked::Other)),
            Happening::Throttles(every) => {
                self.play.as_mut().expect("only a workload has providers that throttle").throttled = every;
            }
            Happening::Takes(memory) => self.hog = memory,
            Happening::Sleeps(lasting) => self.sleep(lasting),
            Happening::Undrain(scope) if trouble => drop(self.ask(Call::Undrain(scope), Asked::Other)),
            Happening::Reload(number) if trouble => self.reload(number),
            Happening::Stranger if trouble => {
                let id = InstanceId { run: STRANGE, count: self.rng.u32(1..100) };
                self.engine.keeps.insert(id, engine::Keep::stranger());
                self.report.count("strangers");
            }
            Happening::Arrives
            | Happening::Peek
            | Happening::Away(_)
            | Happening::Blind(_)
            | Happening::Hog(_)
            | Happening::Crowd(_)
            | Happening::Fills(_)
            | Happening::Drain(_)
            | Happening::Undrain(_)
            | Happening::Reload(_)
            | Happening::Stranger
            | Happening::Full(_)
            | Happening::Crash => {}
        }
        Ok(())
    }
}

/// Nobody waits, nothing is on its way, and the stock is there.
fn is_well(pool: &PoolView) -> bool {
    let PoolView { starting, warm, stock, leased, stopping, queued, outdated, blocked_by, .. } = pool;
    (*starting, *leased, *stopping, *queued, *outdated) == (0, 0, 0, 0, 0)
        && warm == stock
        && blocked_by.is_none()
}

fn unread() -> Unread {
    Unread("cannot be read".into())
}
