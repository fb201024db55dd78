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
//! 5. *Nothing is lost*: a lease that was granted survives the daemon.
//! 6. *Every decision explains itself*, with units.
//! 7. *Every class and tenant gets its share*, with a bound on the wait that is written down (`control`'s `shares`).
//! 8. *Fast where it matters*: lending a warm instance is a change of state and a record, and no call to the engine.
//!
//! # Rooms, in reading order
//!
//! | room | what it is |
//! |---|---|
//! | [`quantity`] | bytes, cores, shares and points in time, with their units in the type |
//! | [`profile`] | the host profile: layers of TOML to checked values, every mistake and every value with its file and line |
//! | [`control`] | the brain: pure, decides, never acts; [`control::message`] has every word of it |
//! | [`measure`] | `/proc`, cgroup v1 and v2, pressure: one sample a look |
//! | [`docker`] | instances as containers |
//! | [`netns`] | sockets inside a container's network namespace |
//! | [`store`] | records on disk, the clocks they are counted by, and the daemon's lock |
//! | [`systemd`] | the journal, the service manager, the passed socket, logind, and the limits of a slice |
//! | [`auth`] | who asks |
//! | [`gateway`] | bytes between a caller and its instance |
//! | [`api`] | HTTP and JSON on a Unix socket, and the client of it |
//! | [`daemon`] | the only room that knows all the others: the loop, the clock, a keeper for each instance |
//! | [`sim`] | a second daemon around the same controller: virtual time, drawn faults; or a workload on a modelled host |
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
//! come a record of the lease, and behind it its reply, and a start that refills the pool; both leave once the
//! record is written. Where nothing is warm the request waits in its pool's
//! queue, and the same lines grant it when a start becomes ready. A caller that hangs up leaves the queue; a
//! grant that cannot be delivered is taken back.
//!
//! # One hold
//!
//! A browser meets a log-in that only a person can make. Its caller asks that the lease wait, with a reason and a time;
//! `control`'s `hold` lets it if its pool and tenant have not too many that do already. From then on it is not idle, relief
//! takes it last, and its record says until when: a daemon that dies meanwhile changes nothing. The person uses the lease as
//! its caller would, `resume` lets it go on, and where nobody comes it ends by the hold's own deadline.
//!
//! # One throttled call
//!
//! A lease asks for a permit before it calls a model's API. `control`'s `governor` has what the provider's rate leaves, and
//! `permits` who waits: by promised instants, tenants in turns, no longer than a deadline, and not as idle. The provider
//! throttles all the same, and a caller says so: half of the rate is used from then on, and nothing until the instant that it
//! asked for. Meanwhile pools that need it lend and start nothing, as each further lease would hold up memory and wait;
//! what is left alone comes back step by step.
//!
//! # One explanation
//!
//! `stokerctl explain` asks for a pool. The lines of [`control`]'s `scaling` are told with the numbers that the stock was decided
//! with, and each limit of `admission` is asked for a start that nobody has wished for: the functions are those that
//! decide, so what is shown cannot differ.
//!
//! With `--lease` it asks for a lease. Who waits is told its place, the rule by which each class comes to the next slot, what is
//! in the way, the bound of its share, and how long it takes at the pace of the last ends; early refusals take the same
//! estimate (`estimate`).
//!
//! # One pressure event
//!
//! Tasks stand still for memory, and the kernel says so; the measuring thread looks at once and hands in a whole
//! sample. `control::pressure` moves its level, soon up and late down; while it is not calm admission starts nothing, and
//! `control::relief` picks who goes: refill and what is warm first, one each settle time. What was ended frees the budget when its
//! container is gone. When the level is calm again, stock returns one start at a time at first. A host that cannot be
//! seen moves no level and ends nobody.
//!
//! # One kill -9
//!
//! The daemon dies between two words. Containers run on, callers lose their connections. The next daemon takes the
//! lock, reads the newest record of each lease, instance and drain, and says them to its controller as the first
//! word: leases go on with their absolute deadlines, requests that were accepted wait in their order. Then it
//! answers callers, who waited in the socket's backlog. When the engine answers, a keeper finds each container by
//! its label, holds its first process, which must be the one that was recorded, opens its door and hears it
//! answer. What is found otherwise ends as it would have ended before; what nobody recorded is a stranger and
//! goes at its second sighting.
//!
//! # One lost word
//!
//! A container dies and the event is lost. Its keeper's pidfd says so at once; were that lost too, the next
//! listing, at most fifteen seconds later, would show the container stopped or gone. The lease ends `failed`, the slot
//! is free when the container is removed, and the pool refills. Late and doubled words find a state that they
//! no longer fit, and change nothing.
//!
//! # One reload
//!
//! `daemon` reads all layers beside the loop; one with a mistake goes no further. A right one is a call like any other,
//! and [`control`] decides what follows: it tells the difference, lets new pools begin and old ones run out, and
//! exchanges what is warm of an older template one at a time. Each instance keeps the pool as it was made from: what
//! it is counted, probed and stopped as never changes under it.
//!
//! # One shutdown of the host
//!
//! logind says that it begins, and waits a little for the lock that `daemon` holds there; the drain begins. The
//! units take it on: the slices of the containers do not go with the first wave, and `stoker-drain.service` is
//! stopped before all that it needs, which is the daemon, its socket and the engine, and lasts until nothing is
//! left or the window is over. A stop or restart of the daemon alone is none of this and drains nothing.
//!
//! # Where this differs from the design it was built from
//!
//! - A drain ends with its boot: it was to empty the host, and a reboot has. Were it to last, a host that drains when
//!   it shuts down would come up closed.
//! - Idle time is not recorded with each byte; it begins anew when a daemon takes over. Nothing else begins anew.
//! - Instances that were being started when the daemon ended are ended, not taken over: how far they had come is
//!   known to nobody, and a start costs less than being sure.
//! - A lost store is not rebuilt from labels: they cannot say whether a container was ever lent, so all are ended.
//! - Relief interrupts a lease at once, with two seconds for its processes to end by themselves; it gives no window as a
//!   drain does, because memory that is short is short now.
//! - The values of cgroups are read by parsers of our own on files that stay open. `cgroups-rs` says which
//!   hierarchy there is and where; its values are zero where a file is missing, and zero is not unknown.
//! - Only warm ones are stopped as too many, and those that are being started count for none of it: one that is warm is worth
//!   more than one that may fail. A single request is no burst.
//! - What is measured of the processors is held against `cpus_expect` and not `cpus`, which is the kernel's limit: nobody can
//!   use more than that, so that the larger of the two would always be what is declared.
//! - Each instance counts with its whole `pids`, as nobody can say beforehand which one forks. Of a disk nothing is promised, as
//!   nothing is declared of what an instance writes: it must only have room left.
//! - The unloaded time of a start is the mean of those that were alone, and what is held against it the mean of the last few:
//!   start times differ by themselves, and the lowest of them would make each usual one look slow.
//! - `hold_back` is counted in slots of `max_instances` and not in what memory would allow: what a start finds changes with each
//!   sample, and what is kept free must not flap with it.
//! - What a tenant may have waiting (`max_queued`) is bounded for each by itself: a bound that all share would need a second
//!   one to keep one tenant from filling it.
//! - Stock competes by the chance that more are needed than there are, and not that just so many are: a pool with nothing is
//!   never worth less than one with something. Only room is taken by it; refill itself goes to the emptiest, as otherwise
//!   a pool that is seldom asked for would lose what little it has.
//! - Slack is kept for what instances may outgrow that they are counted with: one that counts with its limit leaves none.
//! - That a tenant's weight in the envelope is capped keeps small lives from hiding large ones; it cannot keep large ones
//!   out, of which 2 % are enough, and it should not: they are needed.
//! - The unit runs no check of the profile before the daemon (`ExecStartPre=`): systemd would try a check that
//!   failed again and again, as it heeds `RestartPreventExitStatus=` for the main process alone, and that one
//!   checks first.
//! - A shutdown's drain has its full window though logind grants less, where `stoker-drain.service` is active to
//!   take it on; only without that unit it is cut to what logind grants.
//! - Streams to an instance are plain tunnels to a port of its loopback (`stokerctl forward`), from which any
//!   protocol's proxy can be made. Chromium's DevTools stays on its own loopback and nothing is published.
//! - What a provider throttled is not recorded: the next daemon begins with an empty bucket and the whole rate, and learns it
//!   from the next report. A permit is not tied to a call: a caller that does not ask is not held up.
//! - `max_runtime` goes on while a lease waits for a person, so that the bound on the wait of others holds; a renewal moves it.
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
pub mod store;
pub mod systemd;
