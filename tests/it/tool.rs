//! How `stokerctl` looks: the words and columns that people and their scripts get used to.

use stoker::api::wire::ExplainBody;

use crate::host::{BROWSER, Host, SANDBOX, Said, stokerctl};

/// Leaves what every run has in common: names, times and sizes are of this host and this moment.
fn settings(host: &Host) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    let hex = "[0-9a-f]";
    settings.add_filter(&format!(r"{}-{hex}{{8}}-{hex}{{24}}", host.name), "<lease>");
    settings.add_filter(&format!(r"{hex}{{8}}-\d+\b"), "<instance>");
    settings.add_filter(&host.name, "<host>");
    settings.add_filter(r"\d+(\.\d+)? ?[KMGT]?i?B\b", "<size>");
    // A time of one word or of several, as `59m 59s 123ms`.
    settings.add_filter(r"\d+(ns|us|ms|s|m|h|days?)( \d+(ns|us|ms|s|m|h))*\b", "<time>");
    settings.add_filter(r"\d+(\.\d+)? of \d+(\.\d+)? cores", "<n> of <n> cores");
    let pids = "pids: <n> of <n>, <n> in containers; <n> of <n> promised";
    settings.add_filter(r"pids: \d+ of \d+, \d+ in containers; \d+ of \d+ promised", pids);
    settings.add_filter(r"\d+(\.\d+)?%", "<share>");
    // A kernel without pressure figures says so.
    let stalls = "stalls: memory <share> (all tasks <share>), cpu <share>, disk <share> of the last <time>";
    settings.add_filter(r"stalls: unknown: .*", stalls);
    settings.add_filter(r"  +", "  ");
    settings
}

/// A host with a browser that is warm, a sandbox that is lent, and a caller that waits for another; and the two
/// leases.
async fn busy() -> Option<(Host, String, Said)> {
    let host = Host::with(&format!("{SANDBOX}max_instances = 1{BROWSER}")).await?;
    host.until_warm("browser", 1).await;
    host.until_warm("sandbox", 1).await;
    let lease = host.acquire("sandbox").await.id;
    let queued = host.ctl(&["acquire", "sandbox", "--async"]).await;
    host.until_pool("sandbox", |pool| pool.blocked_by.is_some() && pool.unmeasured == 0).await;
    host.until_pool("browser", |pool| pool.unmeasured == 0).await;
    Some((host, lease, queued))
}

#[tokio::test]
async fn how_a_host_and_its_leases_look() {
    let Some((host, _, queued)) = busy().await else { return };
    let (status, leases) = (host.ctl(&["status"]).await, host.ctl(&["leases"]).await);
    settings(&host).bind(|| {
        insta::assert_snapshot!(queued.whole(), @r#"
        <lease>
        --- stderr
        queued; `stokerctl show <lease>` tells how it goes
        "#);
        insta::assert_snapshot!(status.whole(), @r#"
        ● <host> is ready, up <time>
          version: 0.1.0
          engine: answers
          memory: <size> of <size> available
          promised: <size> of <size> for containers, floor <size>
          cpu: <n> of <n> cores busy
          stalls: memory <share> (all tasks <share>), cpu <share>, disk <share> of the last <time>
          pressure: calm for <time>
          ceiling: containers hold <size> of at most <size>
          pids: <n> of <n>, <n> in containers; <n> of <n> promised
          disk: <size> of <size> free (floor <size>) for the engine, <size> of <size> free (floor <size>) for our state
          starts: 0 of 4 under way

        POOL  KIND  WARM  STARTING  LEASED  STOPPING  QUEUED  MAX  HOLDS  PROMISED
        browser  browser  1/1  0  0  0  0  16  <size>  <size>
        sandbox  sandbox  0/1  0  1  0  1  1  <size>  <size>
        ! sandbox: starts nothing: max_instances is reached: 1 of 1, those being stopped included
        ! sandbox: the oldest request has waited <time>

        LEASE  POOL  CLASS  TENANT  STATE  WAITED  RUNNING  ENDS IN  IDLE ENDS IN
        <lease>  sandbox  interactive  root  queued  <time>  -  <time>  -
        <lease>  sandbox  interactive  root  executing  <time>  <time>  <time>  <time>
        ! <lease>: place 1, max_instances is reached: 1 of 1, those being stopped included
        "#);
        insta::assert_snapshot!(leases.whole(), @r#"
        LEASE  POOL  CLASS  TENANT  STATE  WAITED  RUNNING  ENDS IN  IDLE ENDS IN
        <lease>  sandbox  interactive  root  queued  <time>  -  <time>  -
        <lease>  sandbox  interactive  root  executing  <time>  <time>  <time>  <time>
        ! <lease>: place 1, max_instances is reached: 1 of 1, those being stopped included
        "#);
    });
}

#[tokio::test]
async fn how_one_thing_looks() {
    let Some((host, lease, _)) = busy().await else { return };
    let (pools, pool) = (host.ctl(&["pools"]).await, host.ctl(&["show", "sandbox"]).await);
    let lease = host.ctl(&["show", &lease]).await;
    settings(&host).bind(|| {
        insta::assert_snapshot!(pools.whole(), @r#"
        POOL  KIND  WARM  STARTING  LEASED  STOPPING  QUEUED  MAX  HOLDS  PROMISED
        browser  browser  1/1  0  0  0  0  16  <size>  <size>
        sandbox  sandbox  0/1  0  1  0  1  1  <size>  <size>
        ! sandbox: starts nothing: max_instances is reached: 1 of 1, those being stopped included
        ! sandbox: the oldest request has waited <time>
        "#);
        insta::assert_snapshot!(pool.whole(), @r#"
          name: sandbox
          kind: sandbox
          image: stoker/tiny:latest
          starting: 0
          warm: 0
          stock: 1
          leased: 1
          stopping: 0
          stuck: 0
          queued: 1
          oldest_wait: <time>
          outdated: 0
         max_instances: 1
          holds: 0
          max_holds: 1
        holds_promised: <size>
          memory: <size>
          unmeasured: 0
          envelope: <size>
        envelope_lives: 0
         memory_expect: <size>
          cpus_millis: 100
          promised: <size>
          blocked_by: max_instances is reached: 1 of 1, those being stopped included

        CLASS  WAITING  LEASED  GUARANTEED  HOLD BACK  HOLDS  ASKED  RETRIED  GRANTED  WAITED  REFUSED  LEFT  DEGRADED  ENDED  WAIT P50  WAIT P95
        batch  0  0  0  0  0  0  0  0  0  0  0
        interactive  1  1  0  0  0  2  0  1  0  0  0  <time>  <time>
        "#);
        insta::assert_snapshot!(lease.whole(), @r#"
          id: <lease>
          pool: sandbox
          kind: sandbox
          class: interactive
          tenant: root
          state: executing
          waited: <time>
          running: <time>
          instance: <instance>
          ends_in: <time>
        idle_ends_in: <time>
        "#);
    });
}

#[tokio::test]
async fn how_an_explanation_looks() {
    let Some(host) = Host::with(&format!("{SANDBOX}max_instances = 1")).await else { return };
    host.acquire("sandbox").await;
    let told = host.ctl(&["explain", "sandbox"]).await;
    assert_eq!(told.code, 0, "{}", told.whole());
    let line = |begin: &str| {
        let line = told.stdout.lines().find(|line| line.trim_start().starts_with(begin)).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        line("sandbox:"),
        "sandbox: the next start is kept back: one of the 1 has to end, or max_instances to be raised"
    );
    assert_eq!(line("start "), "start 1 instances queued 0 + stock 1 - warm 0 - starting 0");
    assert_eq!(
        line("max_instances"),
        "max_instances 2 1 -1 yes, it binds: max_instances is reached: 1 of 1, those being stopped included"
    );
    let body: ExplainBody =
        serde_json::from_str(&host.ctl(&["explain", "sandbox", "--json"]).await.stdout).unwrap();
    let binding: Vec<&str> = body.limits.iter().filter(|it| it.binding).map(|it| &*it.limit).collect();
    assert_eq!((binding, body.start, body.leased), (vec!["max_instances"], 1, 1));
    assert_eq!(
        host.pool("sandbox").await.blocked_by.unwrap().limit,
        "max_instances",
        "the pool says the same"
    );
    let unknown = host.ctl(&["explain", "sandbax"]).await;
    assert_eq!((unknown.code, unknown.stdout.as_str()), (4, ""), "{}", unknown.stderr);
}

#[tokio::test]
async fn how_a_leases_explanation_looks() {
    let Some(host) = Host::with(&format!("{SANDBOX}max_instances = 1")).await else { return };
    let first = host.acquire("sandbox").await;
    let waits = host.ctl(&["acquire", "sandbox", "--async"]).await.stdout.trim().to_owned();
    let told = host.ctl(&["explain", "--lease", &waits]).await;
    let line = |begin: &str| {
        let line = told.stdout.lines().find(|line| line.trim_start().starts_with(begin)).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("place:"), "place: 1 of 1 that wait for the pool, and the next slot is its own");
    assert_eq!(line("turn:"), "turn: number 1 of its tenant's 1 in its class, of which 1 tenant takes turns");
    assert_eq!(
        line("in its way:"),
        "in its way: max_instances (needs 2, has 1 instances): max_instances is reached: 1 of 1, those being stopped \
         included"
    );
    assert!(line("interactive").starts_with("interactive 1 1 "), "{}", told.stdout);
    assert_eq!(host.ctl(&["cancel", &waits]).await.code, 0);
    let ended = host.ctl(&["explain", "--lease", &waits]).await;
    assert!(
        ended.stdout.starts_with(&format!("{waits}: it is cancelled: its caller took it back\n")),
        "{}",
        ended.stdout
    );
    assert!(host.ctl(&["explain", "--lease", &first.id]).await.stdout.contains("it has its instance"));
    let unknown = host.ctl(&["explain", "--lease", "nobody"]).await;
    assert_eq!((unknown.code, unknown.stdout.as_str()), (4, ""), "{}", unknown.stderr);
}

#[tokio::test]
async fn how_a_refusal_looks() {
    let Some((host, _, _)) = busy().await else { return };
    let refused = host.ctl(&["acquire", "sandbox", "--wait", "1ms"]).await;
    let nothing = host.ctl(&["acquire", "sandbx"]).await;
    settings(&host).bind(|| {
        insta::assert_snapshot!(refused.whole(), @r#"
        --- stderr
        stokerctl: waited <time>, and could not start because max_instances is reached: 1 of 1, those being stopped included

        hint: wait_expired: try again in <time>
        --- exit code 75
        "#);
        insta::assert_snapshot!(nothing.whole(), @r#"
        --- stderr
        stokerctl: there is no pool `sandbx`; did you mean `sandbox`?
        --- exit code 4
        "#);
    });
}

#[test]
fn how_the_mistakes_of_a_profile_look() {
    let folder = tempfile::tempdir().unwrap();
    let bad = "[pool.sandbox]\nkind = \"sandbox\"\nimage = \"stoker/tiny:latest\"\nmemroy_max = \"1GiB\"\nuser = \"root\"\n";
    std::fs::write(folder.path().join("bad.toml"), bad).unwrap();
    std::fs::write(folder.path().join("good.toml"), SANDBOX).unwrap();
    let bad = stokerctl(folder.path(), &["profile", "check", "bad.toml"]);
    let good = stokerctl(folder.path(), &["profile", "check", "good.toml"]);
    insta::assert_snapshot!(bad.whole(), @r#"
    bad.toml:4:1: pool.sandbox.memroy_max: there is no such key
      4 | memroy_max = "1GiB"
        | ^^^^^^^^^^
      hint: did you mean `memory_max`?

    bad.toml:5:8: pool.sandbox.user: expected a user other than root, found "root"
      5 | user = "root"
        |        ^^^^^^
      hint: left out, it is the image's own user

    bad.toml: 2 mistakes
    --- exit code 78
    "#);
    insta::assert_snapshot!(good.whole(), @r#"
    note: pool sandbox: where leases take until their deadlines, a request may wait for 2h 2m 10s until its class has a slot, and gives up before: batch (max_wait 1h), interactive (max_wait 30s); a lease may hold its slot for 1h 1m 5s (start_timeout, max_runtime and stop_timeout)
    good.toml: no mistakes; pools: 1, classes: 2
    "#);
}

#[test]
fn how_what_holds_looks() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let package = "[pool.sandbox]\nkind = \"sandbox\"\nimage = \"stoker/tiny:latest\"\nwarm = { min = 2, max = 4 }\n\
                   [pool.other]\nkind = \"sandbox\"\nimage = \"i\"\n";
    write("package.toml", package);
    write(
        "local.toml",
        "[host]\nfloor = \"1GiB\"\n[pool.sandbox]\nwarm.min = 1\n[pool.other]\nenabled = false\n",
    );
    let layers = ["package.toml", "local.toml"];
    let show = |more: &[&str]| stokerctl(folder.path(), &[&["profile", "show"], &layers[..], more].concat());
    let written = show(&[]);
    insta::assert_snapshot!(written.whole(), @r#"
    [host]
    floor = "1GiB"  # local.toml:2

    [pool.sandbox]
    kind = "sandbox"              # package.toml:2
    image = "stoker/tiny:latest"  # package.toml:3
    warm.min = 1                  # local.toml:4
    warm.max = 4                  # package.toml:4

    # pool other is not enabled  # local.toml:6
    "#);
    // It is a profile itself.
    write("shown.toml", &written.stdout);
    assert_eq!(stokerctl(folder.path(), &["profile", "check", "shown.toml"]).code, 0);
    let all = show(&["--all"]);
    write("all.toml", &all.stdout);
    let again = stokerctl(folder.path(), &["profile", "show", "--all", "all.toml"]);
    let values = |said: &str| {
        said.lines().map(|line| line.split("  #").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(values(&again.stdout)[..30], values(&all.stdout)[..30]);
    assert!(all.stdout.contains("# user is not set"), "{}", all.stdout);
    let json: serde_json::Value = serde_json::from_str(&show(&["--json"]).stdout).unwrap();
    let row = json["settings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["key"] == "pool.sandbox.warm.min")
        .unwrap();
    assert_eq!(
        row.to_string(),
        r#"{"key":"pool.sandbox.warm.min","value":1,"origin":{"file":"local.toml","line":4}}"#
    );
    assert_eq!(json["disabled"][0]["pool"], "other");
    let check = stokerctl(folder.path(), &["profile", "check", "package.toml", "local.toml"]);
    insta::assert_snapshot!(check.whole(), @r#"
    note: pool sandbox: where leases take until their deadlines, a request may wait for 2h 2m 10s until its class has a slot, and gives up before: batch (max_wait 1h), interactive (max_wait 30s); a lease may hold its slot for 1h 1m 5s (start_timeout, max_runtime and stop_timeout)
    package.toml, local.toml: no mistakes; pools: 1, classes: 2
    "#);
}

#[test]
fn how_the_help_looks() {
    let anywhere = std::path::Path::new("/");
    let help = stokerctl(anywhere, &["--help"]);
    let acquire = stokerctl(anywhere, &["help", "acquire"]);
    insta::assert_snapshot!(help.whole(), @r#"
    Asks a stokerd: what it has, and for a browser or a sandbox

    Usage: stokerctl [OPTIONS] <COMMAND>

    Commands:
      status     The host, its pools and the leases that live
      ready      Whether every pool has its smallest stock
      acquire    Lend an instance; prints the lease's name
      release    Give leases back: their instances are destroyed
      cancel     Take leases back, whether they wait or execute
      renew      Let a lease live at least so long from now
      hold       Let a lease wait for a person: it keeps its instance, and is not idle
      resume     Let a lease go on that waited for a person
      leases     All leases, ended ones of the last ten minutes included
      pools      All pools
      providers  All external providers: their rates, what of them is used, and who waits
      explain    Why a pool has what it has, or why a lease waits or has ended, in numbers
      show       Everything about one lease or one pool
      exec       Run a command in a lease's instance, and end with its exit code
      forward    Reach a port of a lease's instance at a local address, until Ctrl-C or the lease's end
      logs       What the journal has of a lease, a pool or an instance (journalctl)
      drain      Take no new work, let running leases end within a window, then reclaim
      undrain    Take work again
      reload     Have stokerd read its profile anew; shows what has changed
      reap       End what is past its deadline while stokerd is down; says nothing where nothing is
      simulate   Try a host profile with a workload, in virtual time and without a daemon
      profile    Host profiles
      help       Print this message or the help of the given subcommand(s)

    Options:
          --socket <PATH>  Where stokerd serves [env: STOKER_SOCKET=] [default: /run/stoker.sock]
          --json           Print what the API answered, as JSON
      -h, --help           Print help
      -V, --version        Print version

    Exit codes:
        0  it was done
        1  it failed
        2  the arguments are not as they must be
        4  there is no such lease, pool or class, or the lease has ended
       69  stokerd cannot be reached
       75  refused for now: a limit, a drain or the wait; trying again later may help
       78  the host profile or a workload has mistakes, or the profile is not there
      exec has codes of its own, see `stokerctl exec --help`
    "#);
    insta::assert_snapshot!(acquire.whole(), @r#"
    Lend an instance; prints the lease's name

    Usage: stokerctl acquire [OPTIONS] <POOL>

    Arguments:
      <POOL>  The pool to lend from

    Options:
          --class <CLASS>        The class; the pool's own where absent
          --socket <PATH>        Where stokerd serves [env: STOKER_SOCKET=] [default: /run/stoker.sock]
          --json                 Print what the API answered, as JSON
          --task-id <NAME>       What you call it: asked for again under this name, the answer is the
                                 same lease
          --wait <TIME>          The longest wait; the class's max_wait where absent, 0s not to wait
          --async                Do not wait: print the name of a lease that is queued
          --max-runtime <TIME>   A shorter life than the pool allows
          --idle-timeout <TIME>  A shorter idle time than the pool allows
      -h, --help                 Print help
    "#);
}
