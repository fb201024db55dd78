//! Stoker supervises one bare-metal Linux host that runs browsers and code sandboxes for AI workers.
//!
//! It measures what the host really has, keeps containers warm, lends them out as leases, refuses in time
//! what does not fit, and drains before it reclaims. `stokerd` is the daemon, `stokerctl` the tool. This page
//! is the map of the house; each room's own page says the rest.
//!
//! # Promises
//!
//! What the product is, in eight sentences; the README names the test that holds each.
//!
//! 1. *The host comes first.* No start is allowed that could take what is reserved for it, the kernel holds all
//!    containers together below it, and missing data is never free capacity.
//! 2. *One instance, one lease.* What is used is destroyed.
//! 3. *Every request gets an honest end*, and every state has a deadline.
//! 4. *Nothing is left behind*: containers, leases, cgroups, files.
//! 5. *Nothing is lost*: in this version leases live as long as the daemon does.
//! 6. *Every decision explains itself*, with units.
//! 7. *Every class gets its turn*: the queue serves the earliest promised instant.
//! 8. *Fast where it matters*: lending a warm instance is a change of state and no call to the engine.
//!
//! # Rooms, in reading order
//!
//! | room | what it is |
//! |---|---|
//! | [`quantity`] | bytes, cores, shares and points in time, with their units in the type |
//! | [`profile`] | the host profile: TOML text to checked values, every mistake with its file and line |
//! | [`control`] | the brain: pure, decides, never acts; [`control::message`] has every word of it |
//! | [`measure`] | `/proc`, cgroup v1 and v2, pressure: one sample a look |
//! | [`docker`] | instances as containers |
//! | [`netns`] | sockets inside a container's network namespace |
//! | [`systemd`] | the journal, the limits of a slice |
//! | [`auth`] | who asks |
//! | [`gateway`] | bytes between a caller and its instance |
//! | [`api`] | HTTP and JSON on a Unix socket, and the client of it |
//! | [`daemon`] | the only room that knows all the others: the loop, the clock, a keeper for each instance |
//! | [`sim`] | a second daemon around the same controller: virtual time, drawn faults |
//! | [`ctl`] | verbs, and how answers look |
//!
//! Rooms look down only: which one may name which is a table in `tests/it/tidy.rs`, and a test holds it.
//!
//! # Invariants of the whole
//!
//! - The controller has no clock, no chance, no IO and no async; the daemon reads the clock once a turn.
//! - Adapters report whole observations, not differences: a word that is lost is healed by the next listing.
//! - The engine unreachable means unknown, never dead. A figure that could not be read is unknown, never zero.
//! - One task makes and ends one container, so its start and its removal never overlap.
//! - Every call to the outside has a deadline, every queue a bound, every state an end.
//! - No container is privileged, has a path of the host mounted, or sees the engine's socket.
//!
//! # One acquire
//!
//! `api` reads the request and asks at its desk. The daemon's loop gathers all that is ready, facts before
//! requests, reads the clock once and hands each word to [`control::Controller::handle`]. Admission answers;
//! placement picks the instance that has been warm longest; the lease and its deadlines are written down. Out
//! come a reply, and a start that refills the pool. Where nothing is warm the request waits in its pool's
//! queue, and the same lines grant it when a start becomes ready. A caller that hangs up leaves the queue; a
//! grant that cannot be delivered is taken back.
//!
//! # One pressure event
//!
//! Tasks stand still for memory, and the kernel says so; the measuring thread looks at once and hands in a whole
//! sample. `control::pressure` moves its level, soon up and late down; while it is not calm admission starts nothing, and
//! `control::relief` picks who goes: refill and what is warm first, one each settle time. What was ended frees the budget when its
//! container is gone. When the level is calm again, stock returns one start at a time at first. A host that cannot be
//! seen moves no level and ends nobody.
//!
//! # One lost word
//!
//! A container dies and the event is lost. Its keeper's pidfd says so at once; were that lost too, the next
//! listing, at most fifteen seconds later, would show the container stopped or gone. The lease ends `failed`, the slot
//! is free when the container is removed, and the pool refills. Late and doubled words find a state that they
//! no longer fit, and change nothing.
//!
//! # Where this differs from the design it was built from
//!
//! - There is no store yet: a start of the daemon removes the containers it finds of an earlier run, and
//!   leases end with the daemon. Ids already carry host, boot and run for the day they outlive it.
//! - Relief interrupts a lease at once, with two seconds for its processes to end by themselves; it gives no window as a
//!   drain does, because memory that is short is short now.
//! - The values of cgroups are read by parsers of our own on files that stay open. `cgroups-rs` says which
//!   hierarchy there is and where; its values are zero where a file is missing, and zero is not unknown.
//! - The envelope of an instance is what the profile declares; one that has outgrown it counts with its limit.
//! - Streams to an instance are plain tunnels to a port of its loopback (`stokerctl forward`), from which any
//!   protocol's proxy can be made. Chromium's DevTools stays on its own loopback and nothing is published.
//! - A command that runs past its limit ends its sandbox: what it left running cannot be told apart from
//!   what should run, so the honest end is the whole.

pub mod api;
pub mod auth;
pub mod control;
pub mod ctl;
pub mod daemon;
pub mod docker;
pub mod gateway;
pub mod measure;
pub mod netns;
pub mod profile;
pub mod quantity;
pub mod sim;
pub mod systemd;
