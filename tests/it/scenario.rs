//! Scenarios: what callers and the world say, line by line, and beneath each line what the controller does.
//!
//! Each file in `scenarios/` is a script for the real controller under virtual time, with what came out
//! written beneath it. A line of a script begins with its time; what is indented is output. Time passes
//! between two lines: what falls due meanwhile is written, with its time, where it happened. Unless a script
//! says `no samples`, the host is looked at every second and is as the last `sample` line said. Profiles for a
//! `reload` have a name and stand behind the first.
//!
//! `UPDATE_SCENARIOS=1` writes the files anew; `git diff` then shows what has changed. The words of a script
//! are in `scenario/words.rs`, and how outputs read in `scenario/show.rs`.

mod show;
mod words;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use similar::TextDiff;
use stoker::control::Controller;
use stoker::control::message::{
    Call, CallId, Disk, HostCpu, HostMemory, HostPids, Inodes, Input, InstanceId, InstanceUse, Kills, News,
    OomLevel, Output, Pressure, Record, Recovered, Sample, SliceMemory, Subject,
};
use stoker::profile::{HostProfile, Template};
use stoker::quantity::{Bytes, Instant, MilliCpu, Permille};

use self::words::Said;

/// The run of the daemon that the instances `i1`, `i2`, … belong to.
const RUN: u32 = 1;
/// The host is looked at so often, where nothing else is said.
const LOOK: Duration = Duration::from_secs(1);
/// What an instance holds, where nothing else is said.
const HELD: Bytes = Bytes::mib(100);
const INDENT: &str = "          ";

#[test]
fn scenarios_go_as_they_are_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/scenarios");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 20, "the scenarios are missing");
    let update = std::env::var_os("UPDATE_SCENARIOS").is_some();
    let mut different = String::new();
    for path in files {
        let written = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let played = play(&name, &written);
        if update {
            fs::write(&path, &played).unwrap();
        } else if played != written {
            let diff = TextDiff::from_lines(&written, &played);
            different += &diff.unified_diff().header(&name, "what came out").to_string();
        }
    }
    assert!(different.is_empty(), "{different}\nUPDATE_SCENARIOS=1 writes down what came out");
}

/// The script with what came out, everything else as it was.
fn play(name: &str, written: &str) -> String {
    let mut lines = written.lines().enumerate().peekable();
    let mut played = String::new();
    let (_, profile) = read_profile(name, &mut lines, &mut played);
    let mut stage = Stage::new(profile);
    while lines.peek().is_some_and(|(_, line)| line.starts_with("profile ")) {
        let (name, profile) = read_profile(name, &mut lines, &mut played);
        stage.profiles.insert(name, profile);
    }
    for (number, line) in lines {
        if line.starts_with(' ') {
            continue; // What came out when it was written.
        }
        let said = match line.trim() {
            "" => None,
            comment if comment.starts_with('#') => None,
            script => {
                Some(words::read(script).unwrap_or_else(|wrong| panic!("{name}:{}: {wrong}", number + 1)))
            }
        };
        if let Some((at, _)) = &said {
            stage.pass_until(*at);
            played += &std::mem::take(&mut stage.shown);
        }
        played += &format!("{line}\n");
        if let Some((at, said)) = said {
            stage.say(at, said);
            played += &std::mem::take(&mut stage.shown);
        }
    }
    played
}

/// The profile from here to its `end`, and its name; the lines are written down as they were.
fn read_profile<'s>(
    file: &str,
    lines: &mut impl Iterator<Item = (usize, &'s str)>,
    played: &mut String,
) -> (String, HostProfile) {
    let (mut name, mut text) = (String::new(), String::new());
    for (_, line) in lines.take_while(|(_, line)| line.trim_end() != "end") {
        *played += &format!("{line}\n");
        match line.strip_prefix("profile") {
            Some(its) => name = its.trim().into(),
            None if line.starts_with('#') => {}
            None => text += &format!("{}\n", line.trim_start()),
        }
    }
    *played += "end\n";
    (name, stoker::profile::check(file, &text).unwrap_or_else(|wrong| panic!("{wrong}")))
}

/// The controller with the world that a script plays around it.
#[derive(Debug)]
struct Stage {
    /// What the files hold.
    profile: HostProfile,
    controller: Controller,
    now: Instant,
    shown: String,
    /// What a reload may bring, by name.
    profiles: BTreeMap<String, HostProfile>,
    /// Names of calls that have one.
    calls: BTreeMap<CallId, String>,
    last_call: u64,
    events: bool,
    /// Whether records are shown.
    records: bool,
    /// Whether records are written at once.
    writes: bool,
    /// The last record that was given out, and the newest of each subject.
    last: u64,
    disk: BTreeMap<Subject, Record>,
    /// What each instance was made from.
    made: BTreeMap<InstanceId, Template>,
    run: u32,
    samples: bool,
    looked: Option<Instant>,
    memory: Result<HostMemory, String>,
    cpu: Result<HostCpu, String>,
    /// What each instance holds; `None` where it cannot be read.
    held: BTreeMap<InstanceId, Option<Bytes>>,
    kills: BTreeMap<InstanceId, Kills>,
    /// What else a look sees, as the script said last.
    rest: BTreeMap<String, String>,
}

impl Stage {
    fn new(profile: HostProfile) -> Stage {
        Stage {
            controller: Controller::new(profile.clone(), "host".into(), RUN, Instant::BOOT),
            profile,
            now: Instant::BOOT,
            shown: String::new(),
            profiles: BTreeMap::new(),
            calls: BTreeMap::new(),
            last_call: 0,
            events: false,
            records: false,
            writes: true,
            last: 0,
            disk: BTreeMap::new(),
            made: BTreeMap::new(),
            run: RUN,
            samples: true,
            looked: None,
            memory: Ok(HostMemory { total: Bytes::mib(16 << 10), available: Bytes::mib(15 << 10) }),
            cpu: Ok(HostCpu { cores: MilliCpu::cores(8), busy: MilliCpu::new(0) }),
            held: BTreeMap::new(),
            kills: BTreeMap::new(),
            rest: BTreeMap::new(),
        }
    }

    /// Lets pass what falls due before `at`.
    fn pass_until(&mut self, at: Instant) {
        assert!(at >= self.now, "a script's times go forward");
        while let Some((due, _)) = self.controller.wake()
            && due < at
        {
            self.now = due.max(self.now);
            self.look_around(Some(self.now));
            self.handle(Input::Tick, Some(self.now));
        }
        self.now = at;
    }

    fn kill(&mut self, id: InstanceId, level: OomLevel) {
        let kills = self.kills.entry(id).or_default();
        kills.processes += 1;
        kills.own_limit += u64::from(level == OomLevel::Own);
    }

    fn say(&mut self, at: Instant, said: Said) {
        self.now = at;
        let explicit = matches!(
            said,
            Said::Sample { .. } | Said::Samples(_) | Said::Events | Said::Records | Said::Restart
        );
        if !explicit {
            self.look_around(None);
        }
        match said {
            Said::Events => self.events = true,
            Said::Records => self.records = true,
            Said::Writes(on) => {
                self.writes = on;
                if on {
                    self.handle(Input::Recorded(self.last), None);
                }
            }
            Said::Unwritten(why) => self.handle(Input::RecordFailed(self.last, why), None),
            Said::Restart => self.restart(),
            Said::Samples(on) => self.samples = on,
            Said::Pass => self.handle(Input::Tick, None),
            Said::Sample { memory, cores, held, killed, rest } => {
                self.rest.extend(rest);
                self.memory = memory.unwrap_or(self.memory.clone());
                self.cpu = cores
                    .map(|cores| cores.map(|cores| HostCpu { cores, busy: MilliCpu::new(0) }))
                    .unwrap_or(self.cpu.clone());
                killed.into_iter().for_each(|(id, level)| self.kill(id, level));
                self.held.extend(held);
                self.look(None);
            }
            Said::Input(input) => {
                if let Input::Instance(id, News::Created | News::Started(_) | News::Ready) = &input
                    && self.samples
                {
                    self.held.entry(*id).or_insert(Some(HELD));
                }
                if let Input::Instance(id, News::Gone) = &input {
                    self.held.remove(id);
                }
                self.handle(input, None);
            }
            Said::Call { name, call } => {
                let id = self.next_call(name);
                self.handle(Input::Call(id, call), None);
            }
            Said::Reload(name) => {
                let profile =
                    self.profiles.get(&name).unwrap_or_else(|| panic!("no profile is named {name}"));
                let call = Call::Reload(Box::new(profile.clone()));
                self.profile = profile.clone();
                let id = self.next_call(String::new());
                self.handle(Input::Call(id, call), None);
            }
            Said::HungUp(name) => {
                let call = self.calls.iter().find(|(_, known)| **known == name).map(|(call, _)| *call);
                let call = call.unwrap_or_else(|| panic!("no call is named {name}"));
                self.handle(Input::HungUp(call), None);
            }
            Said::Acquires { from, to, acquire } => {
                for count in from..=to {
                    let mut acquire = acquire.clone();
                    let name = format!("r{count}");
                    acquire.lease = words::lease(&name);
                    let id = self.next_call(name);
                    self.handle(Input::Call(id, Call::Acquire(acquire)), None);
                }
            }
        }
    }

    /// Another daemon begins with what this one has recorded.
    fn restart(&mut self) {
        let mut recovered = Recovered { last: self.last, ..Recovered::default() };
        for record in self.disk.values().cloned() {
            match record {
                Record::Lease(lease) => recovered.leases.push(*lease),
                Record::Instance(instance) => {
                    let pool = self.profile.pools.get(&instance.pool);
                    let fits = pool.is_some_and(|pool| self.made.get(&instance.id) == Some(&pool.template));
                    if fits { &mut recovered.instances } else { &mut recovered.outdated }.push(instance);
                }
                Record::Drain(scope, drain) => recovered.drains.push((scope, drain)),
                // A scenario that changes a template and restarts has taught nothing before.
                Record::Envelope(envelope) => recovered.envelopes.push((envelope, true)),
                Record::Gone(_) | Record::Undrained(_) => {}
            }
        }
        self.run += 1;
        self.controller = Controller::new(self.profile.clone(), "host".into(), self.run, self.now);
        self.handle(Input::Recovered(Box::new(recovered)), None);
    }

    fn next_call(&mut self, name: String) -> CallId {
        self.last_call += 1;
        let id = CallId(self.last_call);
        self.calls.insert(id, name);
        id
    }

    /// Looks at the host where it is time to.
    fn look_around(&mut self, stamp: Option<Instant>) {
        let due = self.looked.is_none_or(|at| self.now.since(at) >= LOOK);
        if self.samples && due {
            self.look(stamp);
        }
    }

    /// As the script said last; plenty where it has not, `None` where it cannot be read.
    fn pids(&self) -> Option<HostPids> {
        let said = self.rest.get("pids").map_or("4194304/300", String::as_str);
        let (most, there) = said.split_once('/')?;
        let number = |text: &str| text.parse().expect("pids are MOST/THERE");
        Some(HostPids { most: number(most), there: number(there), ours: 0 })
    }

    fn disk(&self, name: &str) -> Option<Disk> {
        let said = |name| self.rest.get(name).map(String::as_str);
        let free = said(name).unwrap_or("50GiB");
        let inodes = said("inodes").filter(|_| name == "disk").unwrap_or("500");
        let free = (free != "?").then(|| Bytes::parse(free).expect("a size"))?;
        let inodes = Inodes { total: 1000, free: inodes.parse().expect("a number") };
        Some(Disk { total: Bytes::mib(100 << 10), free, inodes: Some(inodes) })
    }

    fn look(&mut self, stamp: Option<Instant>) {
        let unread = stoker::control::message::Unread;
        let used =
            self.rest.get("used").map_or(MilliCpu::new(0), |text| MilliCpu::parse(text).expect("cores"));
        let instances = self.held.iter().map(|(id, held)| {
            let memory = held.ok_or_else(|| unread("cannot be read".into()));
            let kills = Ok(self.kills.get(id).copied().unwrap_or_default());
            (*id, InstanceUse { memory, cpu: Ok(used), kills })
        });
        let still = Permille::new(0);
        let share = |name| self.rest.get(name).map_or(still, |text| Permille::parse(text).expect("a share"));
        let unknown = |name| self.rest.get(name).is_some_and(|text| text == "?");
        let residual = match self.rest.get("residual") {
            Some(text) if text != "?" => Bytes::parse(text).expect("a size"),
            Some(_) | None => Bytes::ZERO,
        };
        let hard = self.held.values().flatten().copied().sum::<Bytes>().saturating_add(residual);
        let sample = Sample {
            memory: self.memory.clone().map_err(unread),
            cpu: self.cpu.clone().map_err(unread),
            pressure: Ok(Pressure {
                memory_some: still,
                memory_full: still,
                cpu_some: share("busy"),
                io_some: still,
            }),
            slice: if unknown("residual") {
                Err(unread("cannot be read".into()))
            } else {
                Ok(SliceMemory { hard })
            },
            slice_stalled: if unknown("stalled") {
                Err(unread("cannot be read".into()))
            } else {
                Ok(share("stalled"))
            },
            pids: self.pids().ok_or_else(|| unread("cannot be read".into())),
            engine_disk: self.disk("disk").ok_or_else(|| unread("cannot be read".into())),
            state_disk: self.disk("state").ok_or_else(|| unread("cannot be read".into())),
            reclaims: self.rest.get("reclaims").is_some_and(|word| word == "yes"),
            instances: instances.collect(),
        };
        self.looked = Some(self.now);
        self.handle(Input::Sample(Box::new(sample)), stamp);
    }

    /// Hands in one word and shows what comes out, with its time where that is not the line's.
    fn handle(&mut self, input: Input, stamp: Option<Instant>) {
        self.controller.handle(self.now, input);
        let mut given = None;
        while let Some(output) = self.controller.poll_output() {
            let lines = match &output {
                Output::Tell(_) | Output::Ceilings(_) if !self.events => continue,
                Output::Record(number, record) => {
                    given = Some(*number);
                    if let Record::Instance(instance) = record
                        && let Some(made) = self.controller.made_of(instance.id)
                    {
                        self.made.entry(instance.id).or_insert_with(|| made.template.clone());
                    }
                    self.disk.insert(record.subject(), record.clone());
                    if !self.records {
                        continue;
                    }
                    show::output(&output)
                }
                Output::Reply(call, reply) => {
                    let name = self.calls.get(call).map_or("", String::as_str);
                    show::reply(name, reply)
                }
                Output::Start { .. }
                | Output::Stop { .. }
                | Output::Probe { .. }
                | Output::Reclaim(_)
                | Output::Ceilings(_)
                | Output::Adopt { .. }
                | Output::Tell(_) => show::output(&output),
            };
            for line in lines {
                let time = stamp.map_or(String::new(), |at| format!("{:<7} ", show::at(at)));
                self.shown += &format!("{INDENT}{time}{line}\n");
            }
        }
        self.last = given.unwrap_or(self.last);
        if self.writes && given.is_some() {
            self.handle(Input::Recorded(self.last), stamp);
        }
    }
}
