//! What is built in: every crate from crates.io, under a licence that `deny.toml` allows.
//!
//! `make audit` asks cargo-deny for the same and for known faults; this test needs no network and no tool.

use std::process::Command;

use serde_json::Value;
use spdx::{Expression, ParseMode};

#[path = "../docs/notices.rs"]
mod notices;

#[test]
fn the_notices_name_what_is_built_in_and_hold_its_licences() {
    let notices = notices::notices().unwrap();
    let (list, texts) = notices.split_once("\n---").unwrap();
    let crates: Vec<_> = list.lines().skip(2).filter(|line| !line.starts_with(' ')).collect();
    assert!(crates.len() > 50, "{list}");
    for built_in in ["tokio ", "hyper ", "rusqlite ", "zbus "] {
        assert!(
            crates.iter().any(|line| line.starts_with(built_in)),
            "{built_in}is not in the list:\n{list}"
        );
    }
    assert!(!crates.iter().any(|line| line.starts_with("insta ")), "insta is for tests alone");
    let without = crates.iter().filter(|line| line.ends_with("no text of it")).count();
    assert!(without * 10 < crates.len(), "{without} of {} bring no text", crates.len());
    for text in ["Apache License", "Permission is hereby granted, free of charge"] {
        assert!(texts.contains(text), "there is no text with `{text}`");
    }
}

/// Whether a licence expression (SPDX) can be satisfied with these.
fn allowed(expression: &str, allow: &[&str]) -> bool {
    // Older crates write `MIT/Apache-2.0`.
    let parsed = Expression::parse_mode(expression, ParseMode::LAX);
    parsed.is_ok_and(|parsed| {
        // An exception only permits more.
        parsed.evaluate(|licence| licence.license.id().is_some_and(|id| allow.contains(&id.name)))
    })
}

#[test]
fn every_crate_may_be_built_in() {
    let rules = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/deny.toml")).unwrap();
    let rules: toml::Table = rules.parse().unwrap();
    let allow: Vec<&str> =
        rules["licenses"]["allow"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform"]);
    cargo.arg("x86_64-unknown-linux-gnu").current_dir(env!("CARGO_MANIFEST_DIR"));
    let said = cargo.output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let metadata: Value = serde_json::from_slice(&said.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 50, "only {} crates are listed", packages.len());
    for package in packages.iter().filter(|package| package["name"] != "stoker") {
        let name = &package["name"];
        let source = package["source"].as_str().unwrap_or("a folder");
        assert!(
            source.starts_with("registry+https://github.com/rust-lang/crates.io-index"),
            "{name}: {source}"
        );
        let licence = package["license"].as_str().unwrap_or_default();
        assert!(allowed(licence, &allow), "{name}: {licence:?} is not allowed in deny.toml");
    }
}
