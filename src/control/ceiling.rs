//! The hard limits on all containers together: what they should be, and whether they stand.
//!
//! ```text
//! memory      total - reserve - max_instances * overhead           never below what the slice holds already
//! cpu weight  100 * (cores - reserve) / reserve                    the host's other services have 100
//! pids        what the kernel can have - reserve
//! ```
//!
//! The kernel holds them, whatever becomes of the sums here or of this daemon. A ceiling that is lowered below what is
//! held would kill at once; so it is lowered as far as can be, and follows what is given back.
//!
//! Not here: setting them (`daemon`).

use super::Controller;
use super::budget;
use super::message::{Ceilings, CeilingsView, Output, What};
use crate::quantity::{Bytes, MilliCpu};

/// What the host's other services together have by systemd's and the kernel's default.
const EQUAL: u64 = 100;
/// The kernel's largest weight.
const WEIGHT_MAX: u64 = 10_000;
/// Above what is held, in steps of this: else each page that comes or goes would move it.
const STEP: u64 = 64 << 20;

/// What is wanted, and what was heard of it.
#[derive(Debug)]
pub(super) struct Ceiling {
    wanted: Option<Ceilings>,
    pub(super) view: CeilingsView,
}

impl Ceiling {
    pub(super) fn new() -> Ceiling {
        Ceiling { wanted: None, view: CeilingsView::Unset }
    }
}

impl Controller {
    /// Orders the ceilings anew where they should be others; nothing while that is not known.
    pub(super) fn watch_ceilings(&mut self) {
        let now = self.now;
        let (memory, cpu) = (self.belief.memory.reading(now), self.belief.cpu.reading(now));
        let slice = self.belief.slice.reading(now);
        let (Ok(memory), Ok(cpu), Ok(slice)) = (memory.known(), cpu.known(), slice.known()) else { return };
        let limit = budget::memory_limit(&self.profile, memory);
        let wanted = Ceilings {
            memory: if slice.hard > limit { step_above(slice.hard) } else { limit },
            cpu_weight: cpu_weight(cpu.cores, self.profile.host.reserve_cpu),
            pids: self
                .belief
                .pids
                .reading(now)
                .known()
                .ok()
                .map(|pids| budget::pids_limit(&self.profile.host, pids)),
        };
        if self.ceiling.wanted != Some(wanted) {
            self.ceiling.wanted = Some(wanted);
            self.out.push_back(Output::Ceilings(wanted));
        }
    }

    /// Takes in whether they stand; said in the journal where that is news.
    pub(super) fn take_ceilings(&mut self, heard: Result<Ceilings, String>) {
        let view = match heard {
            Ok(stand) => CeilingsView::Stand(stand),
            Err(why) => CeilingsView::Refused(why),
        };
        if view == self.ceiling.view {
            return;
        }
        self.ceiling.view = view.clone();
        match view {
            CeilingsView::Unset => {}
            CeilingsView::Stand(stand) => self.tell(What::CeilingsStand(stand), None, None),
            CeilingsView::Refused(why) => self.tell(What::CeilingsRefused(why), None, None),
        }
    }
}

fn step_above(hard: Bytes) -> Bytes {
    Bytes::new((hard.get() / STEP + 1).saturating_mul(STEP))
}

/// So large that the reserved cores are what the rest of the host gets when all are busy; with no reserve, an equal part.
fn cpu_weight(cores: MilliCpu, reserve: MilliCpu) -> u32 {
    let ours = EQUAL.saturating_mul(cores.saturating_sub(reserve).get());
    let weight = ours.checked_div(reserve.get()).unwrap_or(EQUAL).clamp(1, WEIGHT_MAX);
    u32::try_from(weight).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weight_leaves_the_host_its_reserve() {
        for (cores, reserve, weight) in
            [(8000, 2000, 300), (64_000, 2000, 3100), (2000, 0, 100), (2000, 2000, 1), (64_000, 100, 10_000)]
        {
            assert_eq!(
                cpu_weight(MilliCpu::new(cores), MilliCpu::new(reserve)),
                weight,
                "{reserve} of {cores}"
            );
        }
    }
}
