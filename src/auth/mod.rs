//! Who asks.
//!
//! On the Unix socket the kernel says which user connected, and that user's name is the tenant. Who may open
//! the socket may use the whole API: the socket's mode is the lock, and operators set its group.
//!
//! Looking a name up may read files or ask a directory service, so it happens on a thread of its own with a
//! deadline, and what was found is kept for a while: callers connect for each question, and the way to a thread
//! and back would be a good part of what a warm lease costs.
//!
//! Deliberately absent: tokens and roles, since nothing listens on TCP in this version.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::unistd::{Uid, User};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

/// A directory service that has not said by then how a user is called may not say it for minutes.
const NAME_DEADLINE: Duration = Duration::from_secs(2);
/// How long a name counts: renaming a user is rare, and a caller of the new name may wait for so long.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// Names kept at once, more than a host has users that lend; beyond it all are looked up anew.
const KEPT: usize = 1024;

/// The tenants that users of this machine are; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Tenants(Arc<Mutex<BTreeMap<u32, Known>>>);

#[derive(Debug)]
struct Known {
    name: Arc<str>,
    until: Instant,
}

impl Tenants {
    /// The tenant that a user is: its name, or `uid-N` where it has none or nobody said it in time.
    pub async fn of(&self, uid: u32) -> Arc<str> {
        if let Some(name) = self.known(uid, Instant::now()) {
            return name;
        }
        match timeout(NAME_DEADLINE, spawn_blocking(move || name_of(uid))).await {
            Ok(Ok(name)) => self.keep(uid, name.into(), Instant::now()),
            // Not kept: the next connection asks again.
            Ok(Err(_)) | Err(_) => number(uid).into(),
        }
    }

    fn known(&self, uid: u32, now: Instant) -> Option<Arc<str>> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(&uid).filter(|known| now < known.until).map(|known| known.name.clone())
    }

    fn keep(&self, uid: u32, name: Arc<str>, now: Instant) -> Arc<str> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= KEPT {
            names.clear();
        }
        names.insert(uid, Known { name: name.clone(), until: now + KEPT_FOR });
        name
    }
}

fn name_of(uid: u32) -> String {
    let name = User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name);
    name.unwrap_or_else(|| number(uid))
}

fn number(uid: u32) -> String {
    format!("uid-{uid}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn users_are_tenants_by_name_and_strangers_by_number() {
        let tenants = Tenants::default();
        assert_eq!(&*tenants.of(0).await, "root");
        assert_eq!(&*tenants.of(3_999_999_999).await, "uid-3999999999");
    }

    #[test]
    fn a_name_is_kept_for_a_while_and_never_more_than_so_many() {
        let (tenants, now) = (Tenants::default(), Instant::now());
        tenants.keep(0, "of-before".into(), now);
        assert_eq!(tenants.known(0, now).as_deref(), Some("of-before"));
        assert_eq!(tenants.known(0, now + KEPT_FOR), None);
        for uid in 0..3000 {
            tenants.keep(uid, "x".into(), now);
        }
        assert!(tenants.0.lock().unwrap().len() <= KEPT);
    }
}
