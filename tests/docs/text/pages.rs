//! stokerd(8) and stokerctl(1). One page has all verbs, as systemctl(1) has: whoever looks for one searches a page,
//! and what they share (a lease, a time, exit codes) is said once.

use clap::{Arg, Command};
use clap_mangen::Man;
use roff::{Roff, bold, italic, roman};
use stoker::ctl::exit;

use super::{daemon, tool};

/// The page of the daemon.
pub(super) fn stokerd() -> String {
    let man = Man::new(daemon()).section("8").title("stokerd").date("");
    let mut page = head(&man);
    section(&mut page, "SERVICE", SERVICE);
    section(&mut page, "SIGNALS", SIGNALS);
    section(&mut page, "FILES", FILES);
    section(&mut page, "ENVIRONMENT", ENVIRONMENT);
    exit_codes(&mut page, exit::DAEMON_HELP);
    see_also(&mut page, &[("stokerctl", "1"), ("stoker.host", "5"), ("journalctl", "1")]);
    page
}

/// The page of the tool.
pub(super) fn stokerctl() -> String {
    let command = tool();
    let man = Man::new(command.clone()).section("1").title("stokerctl").date("");
    let mut page = head(&man);
    let mut verbs = Roff::new();
    verbs.control("SH", ["COMMANDS"]);
    for verb in command.get_subcommands() {
        add_verb(&mut verbs, "stokerctl", verb);
    }
    page.push_str(&verbs.to_roff());
    section(&mut page, "TIMES", TIMES);
    section(&mut page, "ENVIRONMENT", TOOL_ENVIRONMENT);
    exit_codes(&mut page, exit::HELP);
    section(&mut page, "EXAMPLES", EXAMPLES);
    see_also(&mut page, &[("stokerd", "8"), ("stoker.host", "5")]);
    page
}

/// A line of a section: what it is about, and what is said of it.
type Item = (&'static str, &'static str);

const SERVICE: &[Item] = &[
    (
        "stokerd.service",
        "The daemon. `systemctl enable --now stokerd.service` brings the other units with it. It is started again \
         whenever it ends by a fault, and ended and started when its loop hangs (WatchdogSec=); what is lent lives on. It \
         does not wait for the engine. A profile with mistakes, exit status 78, is not tried again. `systemctl reload` \
         applies a changed profile or refuses it.",
    ),
    (
        "stokerd.socket",
        "The API's socket. It stays while the daemon is restarted or upgraded: callers wait there and are answered \
         afterwards. A caller also starts a daemon that is stopped, so whoever wants it down stops the socket too. After \
         five such starts within an hour the socket fails and callers are refused; `systemctl start stokerd.service` \
         brings both back.",
    ),
    (
        "stoker.slice, stoker-browser.slice, stoker-sandbox.slice",
        "Where containers are, if the engine uses the systemd cgroup driver. The daemon keeps the ceilings over all of \
         them at stoker.slice.",
    ),
    (
        "stoker-drain.service",
        "Its stop, when the host goes down, drains while the daemon and the engine still live: leases have \
         STOKER_DRAIN_WINDOW, 120 s. `systemctl edit stoker-drain.service` sets another Environment=STOKER_DRAIN_WINDOW= \
         and, a minute longer, TimeoutStopSec=. A restart of the daemon or of the engine drains nothing.",
    ),
    (
        "logind",
        "Tells the daemon of a shutdown before units are stopped, and waits for its drain, for InhibitDelayMaxSec= of \
         logind.conf(5) at most, 5 s by default. The window begins then, and stoker-drain.service goes on with what is left \
         of it. Without that unit leases have logind's time and no more.",
    ),
    (
        "stoker-reap.timer, stoker-reap.service",
        "Every minute while the daemon is down: `stokerctl reap` ends what is past its deadline. A daemon that starts \
         waits for a reap that has begun.",
    ),
];

const SIGNALS: &[Item] = &[
    ("SIGTERM, SIGINT", "End at once. Instances are left as they are; nothing is drained."),
    (
        "SIGHUP",
        "Read the profile anew and go by it. One with mistakes changes nothing, and the journal says which. \
         `stokerctl reload` does the same, waits for it and shows the difference.",
    ),
];

const FILES: &[Item] = &[
    ("/usr/lib/stoker/host.toml, /usr/lib/stoker/host.toml.d/*.toml", "The package's layers of the profile."),
    (
        "/etc/stoker/host.toml, /etc/stoker/host.toml.d/*.toml",
        "The operator's. See stoker.host(5) for their order.",
    ),
    ("/run/stoker.sock", "The API: HTTP and JSON, for root and the group that owns it."),
    (
        "/var/lib/stoker/stoker.db",
        "What must outlive the daemon: leases, instances and drains, with a history of ended leases.",
    ),
];

const ENVIRONMENT: &[Item] = &[
    ("STOKER_SOCKET", "Where the API is served, where --socket does not say."),
    ("DOCKER_HOST", "The container engine, where --engine does not say. A path or a unix:// address."),
    (
        "CONFIGURATION_DIRECTORY",
        "The operator's folder instead of /etc/stoker, as systemd sets it for ConfigurationDirectory=.",
    ),
    (
        "JOURNAL_STREAM",
        "Set by systemd where standard error is the journal: entries then go there with their fields.",
    ),
    ("STATE_DIRECTORY", "The folder of the records, where --state does not say, as StateDirectory= sets it."),
    (
        "NOTIFY_SOCKET, WATCHDOG_USEC, LISTEN_FDS",
        "As systemd sets them for Type=notify, WatchdogSec= and a socket unit.",
    ),
];

const TOOL_ENVIRONMENT: &[Item] = &[
    ("STOKER_SOCKET", "Where stokerd serves, where --socket does not say."),
    ("STATE_DIRECTORY", "The folder of stokerd's records for reap, where --state does not say."),
    ("DOCKER_HOST", "The container engine for reap, where --engine does not say."),
    (
        "CONFIGURATION_DIRECTORY",
        "The folder of the operator's layers for the profile commands, instead of /etc/stoker.",
    ),
    ("NO_COLOR", "No colours, whatever it holds. Colour never says more than the words beside it."),
];

const TIMES: &[Item] = &[("TIME", "A number with a unit, or several: 500ms, 30s, 5m, 1h 30m, 2d.")];

const EXAMPLES: &[Item] = &[
    (
        "SANDBOX=$(stokerctl acquire python --wait 10s)",
        "Lend a sandbox; the lease's name is all that is printed.",
    ),
    (
        "stokerctl exec $SANDBOX -- python3 -c 'print(6 * 7)'",
        "Run something in it, and end with its exit code.",
    ),
    ("stokerctl release $SANDBOX", "Give it back. It is destroyed, never lent again."),
    ("stokerctl profile show --all", "Every value that holds here, and the file and line it comes from."),
    ("stokerctl drain --wait --window 10m", "Empty the host: leases have ten minutes to end."),
];

/// The sections that clap's table fills.
fn head(man: &Man) -> String {
    let mut bytes = Vec::new();
    let written = man
        .render_title(&mut bytes)
        .and_then(|()| man.render_name_section(&mut bytes))
        .and_then(|()| man.render_synopsis_section(&mut bytes))
        .and_then(|()| man.render_description_section(&mut bytes))
        .and_then(|()| man.render_options_section(&mut bytes));
    written.expect("memory can be written to");
    String::from_utf8(bytes).expect("a page is text")
}

/// A verb with its arguments, and the verbs below it.
fn add_verb(page: &mut Roff, before: &str, verb: &Command) {
    if verb.get_name() == "help" {
        return;
    }
    let name = format!("{before} {}", verb.get_name());
    if verb.has_subcommands() {
        return verb.get_subcommands().for_each(|below| add_verb(page, &name, below));
    }
    let usage = verb.clone().bin_name(name.clone()).render_usage().to_string();
    let usage = usage.trim().strip_prefix("Usage: ").unwrap_or(usage.trim()).to_owned();
    page.control("SS", [usage.as_str()]);
    let about = verb.get_long_about().or(verb.get_about()).map(ToString::to_string).unwrap_or_default();
    page.text([roman(format!("{}.", about.trim_end_matches('.')))]);
    for argument in
        verb.get_arguments().filter(|argument| !matches!(argument.get_id().as_str(), "help" | "version"))
    {
        page.control("TP", []);
        page.text(spelled(argument));
        let help =
            argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
        let defaults: Vec<_> =
            argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let default =
            if defaults.is_empty() { String::new() } else { format!(" Default: {}.", defaults.join(" ")) };
        page.text([roman(format!("{}.{default}", help.trim_end_matches('.')))]);
    }
    if verb.get_name() == "exec" {
        page.control("PP", []);
        page.text([roman("Exit codes of its own:")]);
        let lines = exit::EXEC_HELP.lines().skip(1).map(str::trim_end);
        preformatted(page, lines);
    }
}

/// An argument as it is typed.
fn spelled(argument: &Arg) -> Vec<roff::Inline> {
    let mut words = Vec::new();
    if let Some(short) = argument.get_short() {
        words.push(bold(format!("-{short}")));
        words.push(roman(", "));
    }
    if let Some(long) = argument.get_long() {
        words.push(bold(format!("--{long}")));
    }
    let takes = argument.get_action().takes_values();
    let names = argument.get_value_names().filter(|_| takes).unwrap_or_default();
    for name in names {
        if !words.is_empty() {
            words.push(roman(" "));
        }
        words.push(italic(name.as_str()));
    }
    words
}

/// A section of items.
fn section(page: &mut String, name: &str, items: &[Item]) {
    let mut roff = Roff::new();
    roff.control("SH", [name]);
    for (what, said) in items {
        roff.control("TP", []);
        roff.text([bold(*what)]);
        roff.text([roman(*said)]);
    }
    page.push_str(&roff.to_roff());
}

fn exit_codes(page: &mut String, help: &str) {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    preformatted(&mut roff, help.lines().skip(1));
    page.push_str(&roff.to_roff());
}

/// Lines as they are.
pub(super) fn preformatted<'l>(page: &mut Roff, lines: impl Iterator<Item = &'l str>) {
    page.control("nf", []);
    for line in lines {
        page.text([roman(line)]);
    }
    page.control("fi", []);
}

pub(super) fn see_also(page: &mut String, pages: &[(&str, &str)]) {
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    let mut words = Vec::new();
    for (name, section) in pages {
        if !words.is_empty() {
            words.push(roman(", "));
        }
        words.push(bold(*name));
        words.push(roman(format!("({section})")));
    }
    roff.text(words);
    page.push_str(&roff.to_roff());
}
