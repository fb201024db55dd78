//! Who asks.
//!
//! On the Unix socket the kernel says which user connected, and that user's name is the tenant. Who may open
//! the socket may use the whole API: the socket's mode is the lock, and operators set its group.
//!
//! Deliberately absent: tokens and roles, since nothing listens on TCP in this version.

use nix::unistd::{Uid, User};

/// The tenant that a user of this machine is: its name, or `uid-N` where it has none.
///
/// Looking a name up may read files or ask a directory service: call it once a connection, off the loop.
pub fn tenant_of(uid: u32) -> String {
    let name = User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name);
    name.unwrap_or_else(|| format!("uid-{uid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_tenants_by_name_and_strangers_by_number() {
        assert_eq!(tenant_of(0), "root");
        assert_eq!(tenant_of(3_999_999_999), "uid-3999999999");
    }
}
