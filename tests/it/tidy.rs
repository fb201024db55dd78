//! The house, held by a test: which room may use which, how long files may be, and what is not written here.

use std::fs;
use std::path::{Path, PathBuf};

/// Who may name whom. A room that is not here does not exist; `ctl` is named by nobody.
const MAY_USE: &[(&str, &[&str])] = &[
    ("quantity", &[]),
    ("profile", &["quantity"]),
    ("control", &["quantity", "profile"]),
    ("measure", &["quantity", "profile", WORDS]),
    ("docker", &["quantity", "profile", WORDS]),
    ("netns", &["quantity", "profile", WORDS]),
    ("store", &["quantity", "profile", WORDS]),
    ("systemd", &["quantity", "profile", WORDS]),
    ("auth", &["quantity", "profile"]),
    ("gateway", &["quantity", "profile", WORDS, "netns", "docker"]),
    ("api", &["quantity", "profile", WORDS, "auth", "gateway"]),
    (
        "daemon",
        &[
            "quantity", "profile", "control", "measure", "docker", "netns", "store", "systemd", "auth",
            "gateway", "api",
        ],
    ),
    ("sim", &["quantity", "profile", "control"]),
    (
        "ctl",
        &[
            "quantity",
            "profile",
            WORDS,
            "api::client",
            "api::wire",
            "api::problem",
            "measure",
            "docker",
            "store",
            "systemd",
            "sim",
        ],
    ),
];
/// The controller's words, and nothing else of it.
const WORDS: &str = "control::message";

/// What the brain may not know of: it has no clock, no IO, no async, and chance comes in from outside.
const NOT_IN_THE_BRAIN: &[&str] = &[
    "std::fs",
    "std::net",
    "std::io",
    "std::env",
    "std::thread",
    "std::sync::Mutex",
    "tokio",
    "axum",
    "hyper",
    "bollard",
    "procfs",
    "cgroups_rs",
    "nix::",
    "rustix",
    "getrandom",
    "fastrand",
    "async fn",
    ".await",
    "serde",
    "SystemTime",
];

/// Lines of a file: think at 600, stop before 1000. Longer tests move to a file of their own.
const LONGEST: usize = 600;

#[test]
fn rooms_look_down_only() {
    let mut wrong = Vec::new();
    for file in sources("src") {
        let Some(room) = room_of(&file) else { continue };
        let Some((_, may)) = MAY_USE.iter().find(|(name, _)| *name == room) else {
            wrong.push(format!("{}: room `{room}` is not in the table", file.display()));
            continue;
        };
        for (number, line) in lines(&file) {
            let place = format!("{}:{number}", file.display());
            if line.contains("super::super") || line.contains("crate::{") || line.contains("crate::*") {
                wrong.push(format!("{place}: name the room on a line of its own: {}", line.trim()));
            }
            for used in line.match_indices("crate::").map(|(at, word)| &line[at + word.len()..]) {
                let target =
                    used.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
                let known = MAY_USE.iter().any(|(name, _)| *name == target);
                let allowed = target == room || may.iter().any(|path| is_below(used, path));
                if known && !allowed {
                    wrong.push(format!(
                        "{place}: `{room}` must not use `{used}`",
                        used = used.trim_end_matches(';')
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn every_room_is_in_the_map() {
    let map = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    for (room, _) in MAY_USE {
        if !root().join(format!("src/{room}")).exists() && !root().join(format!("src/{room}.rs")).exists() {
            continue; // Not every room of the house is built.
        }
        assert!(map.contains(&format!("pub mod {room};")), "src/lib.rs does not declare `{room}`");
        assert!(map.contains(&format!("[`{room}`]")), "the map in src/lib.rs does not speak of `{room}`");
    }
}

#[test]
fn the_brain_is_pure() {
    let mut wrong = Vec::new();
    for file in sources("src/control") {
        for (number, line) in lines(&file) {
            for word in NOT_IN_THE_BRAIN.iter().filter(|word| line.contains(**word)) {
                wrong.push(format!("{}:{number}: the controller must not know of `{word}`", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn files_open_with_their_idea_and_stay_short() {
    let mut wrong = Vec::new();
    for file in ["src", "tests"].into_iter().flat_map(sources) {
        let text = fs::read_to_string(root().join(&file)).unwrap();
        let first = text.lines().find(|line| !line.starts_with("#![") && !line.trim().is_empty());
        if !first.is_some_and(|line| line.starts_with("//!")) {
            wrong.push(format!("{}: does not say what it is for", file.display()));
        }
        let many = text.lines().count();
        if many > LONGEST {
            wrong.push(format!("{}: {many} lines, {LONGEST} at most: is it one room?", file.display()));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn nothing_is_left_for_later() {
    // Put together, so that this file does not find itself.
    let words = [["TO", "DO"], ["FIX", "ME"], ["todo", "!("], ["unimplemented", "!("], ["#[ign", "ore"]];
    let words: Vec<String> = words.iter().map(|parts| parts.concat()).collect();
    let mut wrong = Vec::new();
    for file in
        ["src", "tests", "packaging", "profiles", "units", "workloads"].into_iter().flat_map(all_files)
    {
        let Ok(text) = fs::read_to_string(root().join(&file)) else { continue };
        for (number, line) in text.lines().enumerate() {
            for word in words.iter().filter(|word| line.contains(word.as_str())) {
                wrong.push(format!("{}:{}: `{word}`", file.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn the_readme_names_tests_that_exist() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let promises = readme.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    let mut named = 0;
    for name in promises.flat_map(|line| line.split('`').skip(1).step_by(2)) {
        let here = root().join("tests/it");
        let exists = match (name.split_once("::"), name.strip_prefix("scenarios/")) {
            _ if name == "make bench" => root().join("tests/bench/main.rs").exists(),
            (Some((file, test)), _) => [here.clone(), root().join("src")].iter().any(|folder| {
                fs::read_to_string(folder.join(format!("{file}.rs")))
                    .is_ok_and(|text| text.contains(&format!("fn {test}(")))
            }),
            (None, Some(scenario)) => here.join(format!("scenarios/{scenario}.txt")).exists(),
            (None, None) => {
                here.join(format!("{name}.rs")).exists()
                    || here.join(format!("scenarios/{name}.txt")).exists()
            }
        };
        assert!(exists, "README.md names `{name}`, and there is no such test");
        named += 1;
    }
    assert!(named > 8, "README.md names hardly a test: {named}");
}

/// Whether `used` (`control::message::Why`) names `path` (`control::message`) or something in it.
fn is_below(used: &str, path: &str) -> bool {
    used.strip_prefix(path).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// The room a file of `src` belongs to; none for the map and the binaries.
fn room_of(file: &Path) -> Option<String> {
    let inside = file.strip_prefix("src").ok()?;
    let first = inside.components().next()?.as_os_str().to_str()?;
    match first {
        "lib.rs" | "bin" => None,
        name => Some(name.trim_end_matches(".rs").to_owned()),
    }
}

/// The lines of code of a file, without comments.
fn lines(file: &Path) -> Vec<(usize, String)> {
    let text = fs::read_to_string(root().join(file)).unwrap();
    let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    text.lines().enumerate().map(|(number, line)| (number + 1, code(line))).collect()
}

fn sources(folder: &str) -> Vec<PathBuf> {
    all_files(folder).into_iter().filter(|file| file.extension().is_some_and(|end| end == "rs")).collect()
}

fn all_files(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(root()).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
