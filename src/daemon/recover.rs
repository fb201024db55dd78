//! What an earlier daemon wrote down, matched with this boot and this profile.
//!
//! An instance of this boot and of its pool's present template may be taken over. One of an earlier boot does not run any
//! more, and one of another template is not what is wanted now: these are ended, unless they are
//! lent. An executing lease of an earlier boot has ended with its host; a drain has done so as well.

use crate::control::message::{LeaseRecordState, Recovered};
use crate::docker::template_hash;
use crate::profile::HostProfile;
use crate::store::clock::Moment;
use crate::store::{Found, Kept};

/// The controller's first word.
pub(super) fn recovered(found: Found, profile: &HostProfile, now: &Moment) -> Recovered {
    let mut recovered = Recovered { last: found.last, ..Recovered::default() };
    for Kept { record, written } in found.leases {
        let executing = matches!(record.state, LeaseRecordState::Executing { .. });
        let lost = executing && written.boot != now.boot;
        if lost { &mut recovered.lost } else { &mut recovered.leases }.push(record);
    }
    for Kept { record: kept, written } in found.instances {
        let pool = profile.pools.get(&kept.record.pool);
        let same = pool.is_some_and(|pool| {
            let kind = kept.record.made.as_ref().is_none_or(|made| made.kind == pool.kind);
            kind && template_hash(&pool.template) == kept.template
        });
        let fits = same && written.boot == now.boot;
        if fits { &mut recovered.instances } else { &mut recovered.outdated }.push(kept.record);
    }
    let learned = found.envelopes.into_iter().map(|(record, template)| {
        let pool = profile.pools.get(&record.pool);
        let fits = pool.is_some_and(|pool| template_hash(&pool.template) == template);
        (record, fits)
    });
    recovered.envelopes = learned.collect();
    let drains = found.drains.into_iter().filter(|drain| drain.written.boot == now.boot);
    recovered.drains = drains.map(|drain| drain.record).collect();
    recovered
}
