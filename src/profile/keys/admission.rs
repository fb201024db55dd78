//! The keys of what keeps new work back: room for processes and on disks, a wait too long, and what nobody sees.

use super::{CLASS, HOST, Key, MOST_SHARE, POOL, Range, Usual, both};
use crate::profile::check::{MOST_INSTANCES, MOST_MEMORY};
use crate::quantity::Permille;

pub(super) const RESERVE_PIDS: Key = Key {
    table: HOST,
    name: "reserve.pids",
    range: Range::Share(Permille::new(0), MOST_SHARE),
    usual: both("\"25%\""),
    meaning: "The share of the processes and threads the kernel can have (the lesser of its pid_max and threads-max) that \
              never belongs to containers.",
    reason: "Each instance counts with its whole pids, as a fork bomb would take it: the rest keeps the host alive.",
};
pub(super) const DISK_FLOOR: Key = Key {
    table: HOST,
    name: "disk_floor",
    range: Range::Amount(MOST_MEMORY, MOST_SHARE, "the disk"),
    usual: both("\"5%\""),
    meaning: "What must be free on the disk of the engine's files and on that of stokerd's state, and with it 2 % of the \
              inodes; below it nothing is started. \"0%\" looks at no disk.",
    reason: "An engine whose disk is full starts nothing and removes little; what runs may write on until then.",
};
pub(super) const REFUSE_EARLY: Key = Key {
    table: CLASS,
    name: "refuse_early",
    range: Range::Flag,
    usual: both("false"),
    meaning: "Whether a request that would wait for longer than it may, by its place and the pace at which leases of \
              the pool ended lately, is refused at once, with that estimate and when to come back.",
    reason: "Whoever can go elsewhere should not wait in vain; but an estimate may be wrong. Without one, with too few \
             ends in the last five minutes or where something else than leases is in the way, nobody is refused for it.",
};
pub(super) const WITHOUT_TELEMETRY: Key = Key {
    table: POOL,
    name: "without_telemetry",
    range: Range::Text("\"stop\"; or a table with one of the two keys below"),
    usual: both("\"stop\""),
    meaning: "What becomes of new work while the host's memory, processors or what all containers hold are unknown: \
              nothing is started. What is warm is lent all the same.",
    reason: "What nobody can see is not to be filled. A figure is unknown ten seconds after it was last read.",
};
pub(super) const WITHOUT_TELEMETRY_SLOTS: Key = Key {
    table: POOL,
    name: "without_telemetry.slots",
    range: Range::Count(1, MOST_INSTANCES),
    usual: Usual::Open("none are started", "4"),
    meaning: "Starts go on meanwhile while this pool has fewer instances than this in any state, and while the host \
              would have room if every instance of every pool grew to its memory_max.",
    reason: "That room is counted by the total memory and the cores that were last seen, which do not change; what \
             outlived its container is not known then. Where the total was never seen this number alone bounds the \
             pool: it should fit an empty host.",
};
pub(super) const WITHOUT_TELEMETRY_USE: Key = Key {
    table: POOL,
    name: "without_telemetry.use",
    range: Range::Text("another pool's name, of the same kind"),
    usual: Usual::Open("no other pool", "\"q\""),
    meaning: "Requests that would need a start go to this pool meanwhile, be they new or waiting, and their leases \
              say so. They stay there.",
    reason: "A cheaper pool may have more that is warm, or slots without telemetry. A way through several pools \
             must end.",
};
