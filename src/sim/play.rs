//! The run of a workload: streams of callers, and what goes wrong at given times, in the world that drawn runs have too.
//!
//! It ends when its time is over, in the middle of things: who waits then is told apart, and nothing is tidied up.

use std::sync::Arc;
use std::time::Duration;

use super::tally::Tally;
use super::workload::{Arrivals, Event, Happens, Workload};
use super::{Broken, Happening, Outcome, World};
use crate::control::message::{Call, Scope};
use crate::profile::HostProfile;
use crate::quantity::{Bytes, Instant, show_duration};

/// What a run of a workload is made of; equal ones have equal outcomes.
#[derive(Debug, Clone)]
pub struct Game {
    /// The host profile.
    pub profile: HostProfile,
    /// Who comes, and what goes wrong.
    pub workload: Workload,
    /// Where all draws come from.
    pub seed: u64,
    /// How long it goes on.
    pub lasts: Duration,
    /// Whether all that must hold is looked at meanwhile; without it a run is faster.
    pub checked: bool,
}

/// What the run of a workload has beside the world.
#[derive(Debug)]
pub(super) struct Play {
    pub(super) workload: Workload,
    pub(super) end: Instant,
    /// What all containers may hold together, as the controller had it set.
    pub(super) ceiling: Option<Bytes>,
    /// Whether external providers throttle every call.
    pub(super) throttled: bool,
    pub(super) tally: Tally,
}

/// Plays a workload from an empty host on.
///
/// # Errors
/// When something was not as it must be: a mistake of ours, not of the workload.
pub fn play(game: &Game) -> Result<Outcome, Box<Broken>> {
    let Game { profile, workload, seed, lasts, checked } = game;
    let machine = workload.machine;
    let profile = Arc::new(profile.clone());
    let classes = profile.classes.keys();
    let play = Play {
        workload: workload.clone(),
        end: Instant::BOOT.after(*lasts),
        ceiling: None,
        throttled: false,
        tally: Tally::new(classes, *lasts),
    };
    let mut world = World {
        faults: workload.faults,
        checked: *checked,
        play: Some(Box::new(play)),
        ..World::new(*seed, vec![profile], (machine.memory, machine.cores))
    };
    match world.catch(World::play_workload) {
        Ok(()) => {
            let bars = world.bars();
            Ok(Outcome::of(&world, *seed, bars))
        }
        Err(what) => {
            let run = format!("seed {seed}, for {}", show_duration(*lasts));
            Err(Box::new(world.broken(what, run, "the same files with the same seed".to_owned())))
        }
    }
}

impl World {
    fn play_workload(&mut self) -> Result<(), String> {
        let play = self.play.as_ref().expect("a workload is played");
        let (end, events) = (play.end, play.workload.events.clone());
        let begins: Vec<Duration> = play.workload.streams.iter().map(|stream| stream.from).collect();
        self.soon(Duration::from_millis(5), Happening::Look);
        self.soon(Duration::from_millis(10), Happening::List);
        for (number, from) in begins.into_iter().enumerate() {
            let first = self.until_next(number, true);
            self.soon(from.saturating_add(first), Happening::Comes(number));
        }
        for event in events {
            self.announce(event);
        }
        self.go_on_until(end, |_| false)?;
        Ok(())
    }

    fn announce(&mut self, Event { at, lasts, what }: Event) {
        let at = Instant::BOOT.after(at);
        let (begins, ends) = match what {
            Happens::Crash => return self.at(at, Happening::Crash),
            Happens::Sleep => return self.at(at, Happening::Sleeps(lasts)),
            Happens::Blind => (Happening::Blind(true), Happening::Blind(false)),
            Happens::EngineAway => (Happening::Away(true), Happening::Away(false)),
            Happens::Throttle => (Happening::Throttles(true), Happening::Throttles(false)),
            Happens::DiskFull => (Happening::Full(true), Happening::Full(false)),
            Happens::Hog(memory) => (Happening::Takes(memory), Happening::Takes(Bytes::ZERO)),
            Happens::Drain(pool, window) => {
                let scope = pool.map_or(Scope::Host, Scope::Pool);
                let drain = Call::Drain(scope.clone(), window);
                (Happening::Asks(drain), Happening::Asks(Call::Undrain(scope)))
            }
        };
        self.at(at, begins);
        self.at(at.after(lasts), ends);
    }

    /// Some of this stream come, and it is said when the next ones do.
    pub(super) fn come(&mut self, number: usize) {
        let play = self.play.as_ref().expect("only a workload has streams");
        let stream = &play.workload.streams[number];
        let closes = Instant::BOOT.after(stream.until);
        if self.now >= closes {
            return;
        }
        let together = match stream.arrivals {
            Arrivals::Poisson(_) => 1,
            Arrivals::Bursts(_, count) => count,
        };
        for _ in 0..together.saturating_mul(stream.at_once) {
            self.visit(number);
        }
        let wait = self.until_next(number, false);
        self.soon(wait, Happening::Comes(number));
    }

    /// Drawn, or by the clock; the first burst comes at once.
    fn until_next(&mut self, number: usize, first: bool) -> Duration {
        let play = self.play.as_ref().expect("only a workload has streams");
        match play.workload.streams[number].arrivals {
            Arrivals::Poisson(rate) => Duration::from_secs_f64(-(1.0 - self.rng.f64()).ln() / rate),
            Arrivals::Bursts(..) if first => Duration::ZERO,
            Arrivals::Bursts(every, _) => every,
        }
    }
}
