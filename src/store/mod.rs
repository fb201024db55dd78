//! Records on disk: what must be known again when the daemon, or the host, comes back.
//!
//! One SQLite file (`stoker.db`), written by a thread of its own, so that a slow disk slows nobody who does not
//! wait for a record. A record is the whole state of its subject; the file holds the newest of each, one
//! transaction a batch, and ended leases for a while as history.
//!
//! ```text
//! loop --- batch (bounded, never waited for) ---> writer thread ---> stoker.db-wal ---> stoker.db
//!      <-- written up to n, or not and why ------/
//! ```
//!
//! **What is synced.** With `journal_mode = WAL` a commit is a write into the log file: it is safe from the daemon's end
//! as soon as the kernel has it, which takes some 20 µs. `synchronous = NORMAL` leaves it there: a host that loses its
//! power loses the last of these commits, and with them nothing, since the containers they speak of are gone as well.
//! A batch with an accepted request or a lease's end in it ([`survives_host`]) is committed under `synchronous = FULL`,
//! which waits for the platter; everything that was committed before it is then there too, and a grant in the same
//! batch waits with it. The file is never damaged by a loss of power in either mode. The log is moved into the file
//! when nobody waits, so that no grant does.
//!
//! **What goes wrong.** A row that does not read is moved to the table `aside` and reported; the rest counts. A file that
//! is no database any more is renamed aside, and an empty one begun: then nothing says whether a container was
//! ever lent, and each is ended as nobody's. Damage that shows only while the file is written ends the daemon, and the next
//! one finds it. A disk that is full or broken fails the batch; the thread keeps the newest record of each subject (as many
//! as there are leases and instances) and tries again each second. The log and the index beside the file stay when
//! the daemon ends, so that one that starts on a full disk can serve.
//!
//! [`survives_host`]: crate::control::message::Record::survives_host
//!
//! Not here: what is recorded and what waits for it (`control`), what a container found means (`daemon`).

pub mod clock;
mod end;
mod file;
pub mod lock;
mod read;
mod row;
#[cfg(test)]
mod tests;
mod writer;

pub use file::{Store, StoreError};
pub use read::Found;
pub use row::{Kept, KeptInstance};
pub use writer::{Batch, Entry, LastWrite, Outcome, Writer};
