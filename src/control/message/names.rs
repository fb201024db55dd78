//! Names of what is spoken of: tenants, leases, instances and calls.

use std::fmt;
use std::sync::Arc;

/// Who is asking; limits and fairness are per tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tenant(pub Arc<str>);

/// A lease's name: host, boot and a draw that cannot be guessed. Drawn outside, opaque here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseId(pub Arc<str>);

/// What a caller calls its own: a request that is made again bears the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId(pub Arc<str>);

/// An instance's name: the daemon's run in the upper half, a count within that run in the lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstanceId {
    /// The run of the daemon that ordered it; drawn outside.
    pub run: u32,
    /// The how-manieth order of that run.
    pub count: u32,
}

/// One question of one caller, for as long as it is unanswered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(pub u64);

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:08x}-{}", self.run, self.count))
    }
}

impl std::str::FromStr for InstanceId {
    type Err = ();

    fn from_str(text: &str) -> Result<InstanceId, ()> {
        let (run, count) = text.split_once('-').ok_or(())?;
        if run.len() != 8 {
            return Err(());
        }
        let run = u32::from_str_radix(run, 16).map_err(|_| ())?;
        Ok(InstanceId { run, count: count.parse().map_err(|_| ())? })
    }
}
