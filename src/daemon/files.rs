//! Open files: each instance needs some, each caller that waits needs one.
//!
//! A process begins with a soft limit that is far below what it may have, for the sake of programs that use
//! `select`; this one does not. Where even the hard limit is below what the profile can come to need, the
//! journal says so at the start and not when the files are gone.

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::profile::HostProfile;

/// Three files of its cgroup, its network namespace, its first process.
const AN_INSTANCE: u64 = 5;
/// The engine's connections, callers, and what runs the rest.
const BESIDE: u64 = 512;

/// Takes as many as may be had.
pub(super) fn take_all(profile: &HostProfile) -> anyhow::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("cannot read the limit of open files")?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("cannot raise the limit of open files")?;
    let instances: u64 = profile.pools.values().map(|pool| u64::from(pool.max_instances)).sum();
    let need = instances * AN_INSTANCE + BESIDE;
    if hard < need {
        tracing::warn!(
            "{instances} instances may need {need} open files and {hard} may be had: raise the hard limit \
             (LimitNOFILE= in a unit), or lower max_instances"
        );
    }
    Ok(())
}
