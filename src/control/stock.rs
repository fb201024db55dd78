//! How much stock one pool wants, has too much of, and what one more is worth.
//!
//! The equations are those of `scaling`; here they meet what the pool has. A closed pool wants none.
//!
//! Not here: who gives way where not all stock fits (`placement`), and stopping anything (`settle`).

use super::pool::{Counts, Pool};
use super::scaling::{self, Terms};

impl Pool {
    /// What the equations of its stock come to now.
    pub(super) fn terms(&self) -> Terms {
        self.plan.terms(&self.spec, &self.queue, self.counts.leased)
    }

    /// The stock that is wanted now: none while the pool is closed.
    pub(super) fn stock(&self) -> u32 {
        if self.is_closed() { 0 } else { self.terms().stock }
    }

    /// The largest stock that was wanted lately: none while the pool is closed.
    pub(super) fn wanted_lately(&self) -> u32 {
        if self.is_closed() { 0 } else { self.held.largest() }
    }

    /// How many of the warm ones are too many: beyond those that somebody waits for and the stock that was wanted lately, or
    /// beyond a ceiling that a reload has lowered.
    pub(super) fn too_many(&self) -> u32 {
        let Counts { starting, warm, leased, stopping: _ } = self.counts;
        if self.is_closed() {
            return warm;
        }
        let above = (starting + warm + leased).saturating_sub(self.spec.max_instances).min(warm);
        scaling::surplus(self.askers(), self.wanted_lately(), warm).max(above)
    }

    /// What one more warm one is worth, beside those there are or will be; all of it below what the operator wants at least.
    pub(super) fn worth_of_next(&self) -> u32 {
        let have = (self.counts.warm + self.counts.starting).saturating_sub(self.askers());
        self.worth(have)
    }

    /// What the last of the warm ones is worth, those that are spoken for not counted.
    pub(super) fn worth_of_last(&self) -> u32 {
        self.worth(self.counts.warm.saturating_sub(self.askers().saturating_add(1)))
    }

    fn worth(&self, have: u32) -> u32 {
        let wanted = have < self.spec.warm.min;
        if wanted { u32::MAX } else { self.plan.worth(have, self.expected.usual) }
    }

    /// How many of the warm ones nobody waits for, and stock does not want now.
    pub(super) fn to_spare(&self) -> u32 {
        scaling::surplus(self.askers(), self.stock(), self.counts.warm)
    }
}
