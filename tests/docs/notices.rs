//! The notices of the crates that are built in: of each its name, version, licence and home, and what its folder says in
//! files that are called LICENSE, COPYING, NOTICE and the like. Most licences ask that their text goes with the programs.
//!
//! The crates and their folders are those that `cargo metadata` tells: everything that the library depends on, for this
//! architecture, and nothing that only tests and builds need. A text that several crates have alike is there once.
//! Not here: which licences are allowed, which is `deny.toml`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

/// How the names of files begin that hold a licence or what it asks to be passed on, in capitals.
const NAMES: &[&str] = &["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
const LINE: &str = "------------------------------------------------------------------------------\n";

/// All notices as one text.
///
/// # Errors
///
/// Where cargo does not tell the crates, or a file of one cannot be read.
pub(crate) fn notices() -> anyhow::Result<String> {
    let metadata = metadata()?;
    let built_in = built_in(&metadata)?;
    let mut list = String::new();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in metadata["packages"].as_array().context("cargo lists no packages")? {
        let word = |key: &str| package[key].as_str().unwrap_or_default();
        if !built_in.contains(word("id")) {
            continue;
        }
        let name = format!("{} {}", word("name"), word("version"));
        let found = licence_files(Path::new(word("manifest_path")), word("license_file"))?;
        let note = if found.is_empty() { ", which brings no text of it" } else { "" };
        list.push_str(&format!("{name}: {}{note}\n    {}\n", word("license"), word("repository")));
        for text in found {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    let mut all = format!("What is built into stokerd and stokerctl, and under which licences.\n\n{list}");
    // By the first crate that has it: the order of the texts themselves would say nothing.
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_by(|(_, one), (_, other)| one.cmp(other));
    for (text, crates) in texts {
        all.push_str(&format!("\n{LINE}{}\n{LINE}\n{text}\n", crates.join(", ")));
    }
    Ok(all)
}

fn metadata() -> anyhow::Result<Value> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--offline",
        "--filter-platform",
        &platform,
    ]);
    let said = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().context("cannot run cargo")?;
    anyhow::ensure!(said.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&said.stderr));
    serde_json::from_slice(&said.stdout).context("cargo metadata is not understood")
}

/// The ids of the packages that the root depends on, over any number of steps, itself not among them.
fn built_in(metadata: &Value) -> anyhow::Result<BTreeSet<&str>> {
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo resolves nothing")?;
    let nodes: BTreeMap<&str, &Value> =
        nodes.iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let root = metadata["resolve"]["root"].as_str().context("cargo names no root")?;
    let (mut found, mut ahead) = (BTreeSet::new(), vec![root]);
    while let Some(id) = ahead.pop() {
        for below in nodes[id]["deps"].as_array().into_iter().flatten() {
            // The kind of an ordinary dependency is null; others are `dev` and `build`.
            let ordinary =
                below["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|k| k["kind"].is_null()));
            let Some(package) = below["pkg"].as_str().filter(|_| ordinary) else { continue };
            if found.insert(package) {
                ahead.push(package);
            }
        }
    }
    Ok(found)
}

/// The texts in a crate's folder, and the one that its manifest names, in the order of the files' names.
fn licence_files(manifest: &Path, named: &str) -> anyhow::Result<Vec<String>> {
    let folder = manifest.parent().context("a manifest lies in a folder")?;
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list `{}`", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if entry.file_type()?.is_file() && NAMES.iter().any(|begin| name.starts_with(begin)) {
            files.insert(entry.path());
        }
    }
    if !named.is_empty() {
        files.insert(folder.join(named));
    }
    let read = |file: &Path| -> anyhow::Result<String> {
        let bytes = fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        // Alike but for how lines end is alike.
        Ok(text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_matches('\n').to_owned())
    };
    files.iter().map(|file| read(file)).collect()
}
