//! `GET /metrics`: what is scraped, read as strictly as the format is written down.

use std::collections::{BTreeMap, BTreeSet};

use crate::host::{Host, SANDBOX};

/// One family of the text: its type, and its samples by their whole name with labels.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    unit: String,
    samples: BTreeMap<String, f64>,
}

/// Reads OpenMetrics 1.0, or says what is wrong with it.
fn read(text: &str) -> BTreeMap<String, Family> {
    let body = text.strip_suffix("# EOF\n").expect("it ends with # EOF");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in body.lines() {
        assert!(!line.is_empty(), "an empty line");
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        if words[0] == "#" {
            let (what, name, rest) = (words[1], words[2], words[3]);
            if name != current {
                assert!(!families.contains_key(name), "{name} comes in two pieces");
                name.clone_into(&mut current);
            }
            let family = families.entry(name.to_owned()).or_default();
            assert!(family.samples.is_empty(), "{what} of {name} behind its samples");
            match what {
                "TYPE" => rest.clone_into(&mut family.kind),
                "UNIT" => {
                    assert!(name.ends_with(&format!("_{rest}")), "{name} is not named after {rest}");
                    rest.clone_into(&mut family.unit);
                }
                "HELP" => assert!(rest.len() > 1, "{line}"),
                _ => panic!("{line}"),
            }
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').expect("a sample has a value");
        let name = sample.split('{').next().unwrap();
        let family = families.get_mut(&current).expect("a family has a type before its samples");
        let suffixes: &[&str] = match family.kind.as_str() {
            "gauge" => &[""],
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_count", "_sum"],
            kind => panic!("{current} is a {kind}"),
        };
        let rest =
            name.strip_prefix(current.as_str()).unwrap_or_else(|| panic!("{name} is not of {current}"));
        assert!(suffixes.contains(&rest), "{name} is no sample of a {}", family.kind);
        let before =
            family.samples.insert(sample.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")));
        assert!(before.is_none(), "{sample} comes twice");
    }
    families
}

/// Label names of all samples.
fn labels(families: &BTreeMap<String, Family>) -> BTreeSet<String> {
    let samples = families.values().flat_map(|family| family.samples.keys());
    let inside =
        samples.filter_map(|sample| sample.split_once('{').map(|(_, rest)| rest.trim_end_matches('}')));
    let pairs =
        inside.flat_map(|inside| inside.split("\",")).map(|pair| pair.split('=').next().unwrap().to_owned());
    pairs.collect()
}

#[tokio::test]
async fn what_happened_is_counted_and_labels_are_names_of_the_profile() {
    let Some(host) = Host::with(&format!("{SANDBOX}max_instances = 1")).await else { return };
    host.until_warm("sandbox", 1).await;
    let lease = host.acquire("sandbox").await;
    let refused = host.ctl(&["acquire", "sandbox", "--class", "batch", "--wait", "0s"]).await;
    assert_eq!(refused.code, 75, "{}", refused.stderr);
    host.release(&lease.id).await;
    let answer = host.raw("GET", "/metrics", "").await.unwrap();
    assert_eq!(answer.headers["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let families = read(&answer.body);
    let value = |family: &str, sample: &str| families[family].samples.get(sample).copied();
    let of = |name: &str, more: &str| format!("stoker_{name}{{pool=\"sandbox\"{more}}}");
    let class = ",class=\"interactive\"";
    assert_eq!(value("stoker_requests", &of("requests_total", class)), Some(1.0), "{}", answer.body);
    assert_eq!(value("stoker_grants", &of("grants_total", &format!("{class},after=\"nothing\""))), Some(1.0));
    assert_eq!(
        value("stoker_leases_ended", &of("leases_ended_total", &format!("{class},state=\"completed\""))),
        Some(1.0)
    );
    let batch = ",class=\"batch\",limit=\"wait_expired\"";
    assert_eq!(value("stoker_refusals", &of("refusals_total", batch)), Some(1.0));
    assert_eq!(value("stoker_wait_seconds", &of("wait_seconds_count", class)), Some(1.0));
    let all = "stoker_wait_seconds_bucket{le=\"+Inf\",pool=\"sandbox\",class=\"interactive\"}";
    assert_eq!(value("stoker_wait_seconds", all), Some(1.0));
    assert!(value("stoker_start_seconds", &of("start_seconds_sum", "")).is_some_and(|sum| sum > 0.0));
    assert!(value("stoker_host_memory_bytes", "stoker_host_memory_bytes").is_some_and(|bytes| bytes > 1e8));
    assert!(value("stoker_host_pids", "stoker_host_pids").is_some_and(|pids| pids > 1.0));
    for disk in ["engine", "state"] {
        let sample = format!("stoker_disk_free_bytes{{disk=\"{disk}\"}}");
        assert!(value("stoker_disk_free_bytes", &sample).is_some_and(|bytes| bytes > 1e6), "{disk}");
    }
    let known =
        ["after", "class", "disk", "le", "limit", "pool", "provider", "resource", "state"].map(String::from);
    assert!(labels(&families).is_subset(&known.into()), "{:?}", labels(&families));
    for (name, family) in families.iter().filter(|(_, family)| family.kind == "histogram") {
        let buckets = |(sample, count): (&String, &f64)| sample.contains("_bucket").then_some(*count);
        let counts: Vec<f64> = family.samples.iter().filter_map(buckets).collect();
        assert!(counts.len() > 12, "{name} has {} buckets", counts.len());
    }
    let json = host.pool("sandbox").await.classes;
    let interactive = json.iter().find(|it| it.class == "interactive").unwrap();
    assert_eq!((interactive.asked, interactive.granted, interactive.waited), (1, 1, 0));
    assert_eq!(interactive.ended.get("completed"), Some(&1));
}
