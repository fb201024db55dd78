//! A profile that changes while the daemon runs: by the tool and by SIGHUP, right ones and wrong ones.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::host::{BROWSER, Host, SANDBOX};

impl Host {
    /// Puts another text in place of one in the profile.
    fn edit(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.profile_path()).unwrap();
        assert!(text.contains(from), "`{from}` is not in the profile");
        fs::write(self.profile_path(), text.replace(from, to)).unwrap();
    }
}

#[tokio::test]
async fn a_reload_shows_the_difference_and_goes_by_it() {
    let Some(host) = Host::with(&format!("{SANDBOX}max_instances = 4\n")).await else { return };
    host.until_warm("sandbox", 1).await;
    let lease = host.acquire("sandbox").await.id;
    host.until_warm("sandbox", 1).await;
    let unchanged = host.ctl(&["reload"]).await;
    assert_eq!((unchanged.code, unchanged.stdout.as_str()), (0, "nothing has changed\n"));

    host.edit("max_instances = 4", "max_instances = 3\nenv = { TOKEN = 'hush' }");
    let text = fs::read_to_string(host.profile_path()).unwrap();
    fs::write(host.profile_path(), format!("{text}{BROWSER}")).unwrap();
    let changed = host.ctl(&["reload"]).await;
    insta::assert_snapshot!(changed.whole(), @r#"
    KEY                         FROM  TO
    pool.browser                -     browser stoker/tiny:latest
    pool.sandbox.env.TOKEN      -     (not shown)
    pool.sandbox.max_holds      2     1
    pool.sandbox.max_instances  4     3
    "#);
    host.until_warm("browser", 1).await;
    // The lent one is of the older template until it is given back; the warm one is exchanged.
    let pool =
        host.until_pool("sandbox", |pool| (pool.outdated, pool.warm, pool.stopping) == (1, 1, 0)).await;
    assert_eq!((pool.leased, pool.max_instances), (1, 3));
    let pools = host.ctl(&["pools"]).await.stdout;
    assert!(pools.contains("! sandbox: 1 instance is of an older template\n"), "{pools}");
    let newer = host.acquire("sandbox").await.id;
    let said = async |lease: &str| host.ctl(&["exec", lease, "--", "sh", "-c", "echo $TOKEN"]).await.stdout;
    let (older, newer) = (said(&lease).await, said(&newer).await);
    assert_eq!((older.as_str(), newer.as_str()), ("\n", "hush\n"));
    assert!(!host.log().contains("hush"), "a secret is in the log");
    host.ctl(&["release", &lease]).await;
    host.until_pool("sandbox", |pool| pool.outdated == 0).await;
}

#[tokio::test]
async fn a_wrong_profile_changes_nothing_and_is_told_whole() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    host.until_warm("sandbox", 1).await;
    host.edit("cpus = \"0.1\"", "cpus = 0.1\nmax_instances = 0");
    let refused = host.ctl(&["reload"]).await;
    let said = refused.stderr.replace(&format!("{}/", host.folder().display()), "");
    insta::assert_snapshot!(said, @r#"
    stokerctl: host.toml:14:8: pool.sandbox.cpus: expected a number of cores as text, such as "1" or "0.5", found the number 0.1
      14 | cpus = 0.1
         |        ^^^
      hint: write it as text: "0.1"

    host.toml:15:17: pool.sandbox.max_instances: expected at least 1, found 0
      15 | max_instances = 0
         |                 ^
    "#);
    assert_eq!(refused.code, 78);
    let json = host.ctl(&["reload", "--json"]).await;
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["mistakes"].as_array().map(Vec::len), Some(2), "{json}");
    assert_eq!((json["status"].as_u64(), json["mistakes"][0]["line"].as_u64()), (Some(422), Some(14)));
    host.until_logged("profile not reloaded, going on with the one there was", 2).await;
    assert_eq!(host.pool("sandbox").await.max_instances, 16);

    host.edit("cpus = 0.1\nmax_instances = 0", "cpus = \"0.1\"");
    host.edit(&host.name, "somebody-else");
    let renamed = host.ctl(&["reload"]).await;
    assert_eq!(renamed.code, 78);
    assert!(
        renamed.stderr.contains("host.name") && renamed.stderr.contains("restart stokerd"),
        "{renamed:#?}"
    );
}

#[tokio::test]
async fn sighup_reloads_as_well() {
    let Some(host) = Host::with(&format!("{SANDBOX}{BROWSER}")).await else { return };
    host.until_warm("sandbox", 1).await;
    let lease = host.acquire("browser").await.id;
    host.edit("[pool.browser]", "[pool.browser]\nenabled = false");
    kill(Pid::from_raw(host.pid().cast_signed()), Signal::SIGHUP).unwrap();
    host.until_logged("profile reloaded: 1 change", 1).await;
    let pool = host.pool("browser").await;
    assert_eq!((pool.removed, pool.leased, pool.stock), (true, 1, 0));
    let refused = host.ctl(&["acquire", "browser"]).await;
    assert_eq!(refused.code, 4, "{refused:#?}");
    host.ctl(&["release", &lease]).await;
    host.until_logged("pool is gone: nothing of it is left", 1).await;
    assert_eq!(host.ctl(&["show", &lease]).await.code, 0, "its lease can still be asked about");
    assert_eq!(host.ctl(&["show", "browser"]).await.code, 4);
}

#[tokio::test]
async fn a_pool_is_probed_as_its_instances_were_made() {
    let Some(host) = Host::with(BROWSER).await else { return };
    host.until_warm("browser", 1).await;
    // Nobody listens there: no newer one becomes ready, and the older one stays and goes on being asked.
    host.edit("kind = \"browser\"", "kind = \"browser\"\nprobe = { port = 1 }\nstart_timeout = \"1s\"");
    assert_eq!(host.ctl(&["reload"]).await.code, 0);
    host.until_pool("browser", |pool| {
        pool.blocked_by.as_ref().is_some_and(|why| why.limit == "starts_failing")
    })
    .await;
    let pool = host.pool("browser").await;
    assert_eq!((pool.warm, pool.outdated >= 1), (1, true), "{pool:?}");
    host.acquire("browser").await;
}
