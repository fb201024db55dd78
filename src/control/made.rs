//! What an instance was made from, written down and built up again.
//!
//! A daemon that takes up an instance of another template, or of a pool that the profile has no more, knows it by its
//! record alone: what it is counted with, how it is found to answer, and how it is stopped. What only matters to a
//! start is not written down, and is empty in what is built up: nothing is started from it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::message::Made;
use crate::profile::{ClassName, Deadlines, Holds, Network, Pool, Probe, Template, Warm, WithoutTelemetry};
use crate::quantity::{Bytes, Permille};

impl Made {
    /// What counts of this.
    pub(super) fn of(pool: &Pool) -> Made {
        let template = &pool.template;
        Made {
            kind: pool.kind,
            image: template.image.clone(),
            memory_max: template.memory_max,
            memory_expect: pool.memory_expect,
            cpus: template.cpus,
            pids: template.pids,
            devtools: match template.probe {
                Probe::DevTools { port } => Some(port),
                Probe::Command(_) => None,
            },
            stop_timeout: pool.deadlines.stop_timeout,
            journal_output: pool.journal_output,
            on_pressure: pool.on_pressure,
        }
    }

    /// A pool that says so much, and starts nothing.
    pub(super) fn pool(self) -> Pool {
        let probe = self.devtools.map_or(Probe::Command(Vec::new()), |port| Probe::DevTools { port });
        Pool {
            kind: self.kind,
            default_class: ClassName::new("interactive"),
            template: Template {
                image: self.image,
                command: None,
                env: BTreeMap::new(),
                memory_max: self.memory_max,
                cpus: self.cpus,
                pids: self.pids,
                nofile: 0,
                shm: Bytes::ZERO,
                tmpfs: BTreeMap::new(),
                read_only: true,
                user: None,
                network: Network::None,
                probe,
            },
            memory_expect: self.memory_expect,
            // No figure of it is written down, so it counts with the most.
            cpus_expect: self.cpus,
            expect_runtime: Duration::ZERO,
            target_utilization: Permille::new(1000),
            miss_target: Permille::new(1000),
            warm: Warm { min: 0, max: 0, max_age: Duration::ZERO, keep: Duration::ZERO },
            max_instances: 0,
            max_instance_hours: None,
            deadlines: Deadlines {
                start_timeout: Duration::ZERO,
                first_use_timeout: Duration::ZERO,
                idle_timeout: Duration::ZERO,
                max_runtime: Duration::ZERO,
                stop_timeout: self.stop_timeout,
            },
            journal_output: self.journal_output,
            on_pressure: self.on_pressure,
            without_telemetry: WithoutTelemetry::Stop,
            classes: BTreeMap::new(),
            provider: None,
            holds: Holds::of_slots(u32::MAX),
        }
    }
}
