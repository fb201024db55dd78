//! That the table and the parser cannot drift apart.

use super::*;
use crate::profile::{HostProfile, Mistakes, check};

const KINDS: [&str; 2] = ["browser", "sandbox"];
const CLASSES: [&str; 3] = ["interactive", "batch", "other"];

/// A profile of this kind in which a key of the table is written so; the class it may be about is `class`.
fn with(kind: &str, class: &str, key: &Key, value: Option<&str>) -> Result<HostProfile, Mistakes> {
    let name = match key.table {
        CLASS => class,
        PROVIDER => "models",
        _ => "p",
    };
    let table = key.table.replace("NAME", name);
    let line = value.map_or(String::new(), |value| format!("{table}.{} = {value}\n", key.name));
    let written = |name: &str| key.table == POOL && key.name == name && value.is_some();
    let mut text = line;
    for (name, value) in [("kind", kind), ("image", "i")] {
        if !written(name) {
            text += &format!("pool.p.{name} = \"{value}\"\n");
        }
    }
    if key.name == "without_telemetry.use" {
        text += &format!("pool.q = {{ kind = \"{kind}\", image = 'i' }}\n");
    }
    if !text.contains("provider.models.rate") {
        text += "provider.models.rate = \"60/min\"\n";
    }
    if !text.contains("class.other") {
        text += "[class.other]\n";
    }
    check("host.toml", &text)
}

#[test]
fn every_default_is_what_holds_without_it() {
    for key in KEYS {
        for kind in KINDS {
            for class in CLASSES {
                let value = match key.usual {
                    Usual::Is(value) => value,
                    Usual::ByKind { browser, sandbox } => {
                        match if kind == "browser" { browser } else { sandbox } {
                            Some(value) => value,
                            None => continue,
                        }
                    }
                    Usual::ByClass { interactive, batch, other } => match class {
                        "interactive" => interactive,
                        "batch" => batch,
                        _ => other,
                    },
                    Usual::Required(example) => {
                        let value = if key.name == "kind" { format!("\"{kind}\"") } else { example.into() };
                        with(kind, class, key, Some(&value)).unwrap_or_else(|wrong| panic!("{wrong}"));
                        continue;
                    }
                    Usual::Open(_, example) => {
                        with(kind, class, key, Some(example)).unwrap_or_else(|wrong| panic!("{wrong}"));
                        continue;
                    }
                };
                let plain = with(kind, class, key, None).unwrap();
                let written = with(kind, class, key, Some(value)).unwrap_or_else(|wrong| panic!("{wrong}"));
                assert_eq!(written, plain, "{}.{} = {value}", key.table, key.name);
            }
        }
    }
}

/// The ends of a range, and one step below and above it, as TOML; what is below zero is not written.
fn ends(range: Range) -> Option<[Option<String>; 4]> {
    let text = |value: String| Some(format!("\"{value}\""));
    let bytes = |bytes: u64| text(format!("{bytes}B"));
    let millis = |time: Duration| text(format!("{}ms", time.as_millis()));
    let cores = |thousandths: u64| text(MilliCpu::new(thousandths).to_string());
    let share = |thousandths: u32| text(Permille::new(thousandths).to_string());
    Some(match range {
        Range::Size(from, to) => {
            [bytes(from.get()), bytes(to.get()), bytes(from.get() - 1), bytes(to.get() + 1)]
        }
        Range::Time(from, to) => {
            let below = from.checked_sub(Duration::from_millis(1)).and_then(millis);
            [millis(from), millis(to), below, millis(to + Duration::from_millis(1))]
        }
        Range::Cores(from, to) => {
            let below = from.get().checked_sub(1).and_then(cores);
            [cores(from.get()), cores(to.get()), below, cores(to.get() + 1)]
        }
        Range::Share(from, to) => {
            let below = from.get().checked_sub(1).and_then(share);
            [share(from.get()), share(to.get()), below, share(to.get() + 1)]
        }
        Range::Amount(most, ..) => [bytes(0), bytes(most.get()), None, bytes(most.get() + 1)],
        Range::Count(from, to) => [
            Some(from.to_string()),
            Some(to.to_string()),
            Some((i64::from(from) - 1).to_string()),
            Some((u64::from(to) + 1).to_string()),
        ],
        Range::Sizes(_, from, to) => {
            let folder = |size: u64| Some(format!("{{ \"/x\" = \"{size}B\" }}"));
            [folder(from.get()), folder(to.get()), folder(from.get() - 1), folder(to.get() + 1)]
        }
        Range::Flag | Range::Word(_) | Range::Text(_) | Range::Command | Range::Texts(_) => return None,
    })
}

/// What the parser says of the range of a key; rules between keys say `expected at most` and a key's name.
fn out_of_range(key: &Key, value: &str) -> Option<String> {
    let kind = if let Usual::ByKind { browser: None, .. } = key.usual { "sandbox" } else { "browser" };
    let mistakes = with(kind, "other", key, Some(value)).err()?;
    let said = mistakes.as_slice().iter().find(|mistake| {
        let bound = mistake.problem.strip_prefix("expected at ").and_then(|rest| rest.split_once(' '));
        bound.is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()))
    })?;
    Some(said.problem.clone())
}

#[test]
fn every_range_ends_where_the_parser_says() {
    let mut looked = 0;
    for key in KEYS {
        let Some([first, last, below, above]) = ends(key.range) else { continue };
        for value in [first, last].into_iter().flatten() {
            assert_eq!(out_of_range(key, &value), None, "{}.{} = {value}", key.table, key.name);
        }
        for value in [below, above].into_iter().flatten() {
            assert!(out_of_range(key, &value).is_some(), "{}.{} = {value} is taken", key.table, key.name);
        }
        if let Range::Amount(_, most, _) = key.range {
            assert_eq!(out_of_range(key, &format!("\"{most}\"")), None);
            assert!(out_of_range(key, &format!("\"{}\"", Permille::new(most.get() + 1))).is_some());
        }
        looked += 1;
    }
    assert!(looked > 20, "hardly a range: {looked}");
}

#[test]
fn every_word_is_known_and_no_other() {
    for key in KEYS {
        if let Range::Word(words) = key.range {
            for word in words {
                with("sandbox", "other", key, Some(&format!("{word:?}"))).unwrap();
            }
            let said = with("sandbox", "other", key, Some("'x'")).unwrap_err().to_string();
            let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
            assert!(said.contains(&format!("expected {}, found", quoted.join(" or "))), "{said}");
        }
        if let Range::Flag = key.range {
            assert!(with("sandbox", "other", key, Some("1")).is_err());
        }
    }
}

/// The parser lists the keys it knows when asked for one that is like none of them.
#[test]
fn the_parser_knows_these_keys_and_no_others() {
    for (table, sub) in [
        (HOST, ""),
        (HOST, "reserve"),
        (CLASS, ""),
        (PROVIDER, ""),
        (TENANT, ""),
        (POOL, ""),
        (POOL, "warm"),
        (POOL, "hold"),
        (POOL, "probe"),
        (POOL, "without_telemetry"),
        (POOL, "class.interactive"),
    ] {
        let path = format!("{}{}{sub}", table.replace("NAME", "p"), if sub.is_empty() { "" } else { "." });
        let text = format!(
            "provider.p.rate = '1/s'\n{path}.qqqqqqqqqqqqqqqq = 1\npool.p.kind = 'browser'\npool.p.image = 'i'\n"
        );
        let mistakes = check("host.toml", &text).unwrap_err();
        let hint = mistakes.as_slice()[0].hint.clone().unwrap();
        let mut known: Vec<&str> =
            hint.strip_prefix("the keys known here are ").unwrap().split(", ").collect();
        let of_table = KEYS.iter().filter(|key| key.table == table);
        let mut here: Vec<&str> = of_table
            .filter_map(|key| {
                if sub.is_empty() { Some(key.name) } else { key.name.strip_prefix(sub)?.strip_prefix('.') }
            })
            .map(|name| name.split('.').next().unwrap())
            .collect();
        known.sort_unstable();
        here.sort_unstable();
        here.dedup();
        assert_eq!(known, here, "{path}");
    }
}
