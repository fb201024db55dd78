//! What is written from the tables in the code: that the packaged profile is the written one and says what holds,
//! and that the pages and completions are sound for those who read them.

use std::fs;
use std::path::Path;
use std::process::Command;

use stoker::profile::{KEYS, check};

#[path = "../docs/text/mod.rs"]
mod text;

#[test]
fn the_packaged_profile_is_the_written_one() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/host.toml");
    let packaged = fs::read_to_string(file).unwrap();
    assert!(packaged == text::host_toml(), "packaging/host.toml is not what `make docs` writes");
}

#[test]
fn the_packaged_profile_says_nothing_until_it_is_edited() {
    let text = text::host_toml();
    let mistakes = check("host.toml", &text).unwrap_err();
    let told: Vec<_> = mistakes.as_slice().iter().map(|mistake| mistake.problem.as_str()).collect();
    assert_eq!(told, ["at least one pool is required"]);
}

#[test]
fn what_the_packaged_profile_says_is_what_holds_without_it() {
    // A line that begins with `#` and no space is one to be uncommented.
    let uncommented = |line: &str| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => format!("{rest}\n"),
        _ => format!("{line}\n"),
    };
    let written: String = text::host_toml().lines().map(uncommented).collect();
    let plain = "[provider.models]\nrate = '60/min'\n[pool.python]\nkind = 'sandbox'\nimage = 'stoker/python:latest'\n\
                 [pool.chromium]\nkind = 'browser'\nimage = 'stoker/chromium:latest'\n";
    let written = check("host.toml", &written).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!(written, check("plain", plain).unwrap());
}

/// A page as it is read.
fn page(name: &str) -> String {
    let all = text::all();
    let (_, text) = all.iter().find(|(path, _)| path.ends_with(name)).expect("it is written");
    // A page spells a hyphen so that nobody takes it for a dash.
    String::from_utf8(text.clone()).unwrap().replace("\\-", "-")
}

#[test]
fn every_key_is_in_the_reference_and_every_verb_in_its_page() {
    let reference = page("stoker.host.5");
    for key in KEYS {
        assert!(reference.contains(&format!("\\fB{}\\fR", key.name)), "{} is not in the reference", key.name);
    }
    let tool = page("stokerctl.1");
    for verb in stoker::ctl::command().get_subcommands().filter(|verb| verb.get_name() != "help") {
        assert!(tool.contains(&format!("stokerctl {}", verb.get_name())), "{} has no place", verb.get_name());
    }
}

/// The programs are told by arguments and files; of their surroundings they read what the pages list.
#[test]
fn every_variable_that_is_read_is_in_a_page() {
    let pages = [page("stokerd.8"), page("stokerctl.1")].concat();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut found = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            // What tests read is of no interest to operators.
            let code = text.split("#[cfg(test)]").next().unwrap();
            for before in ["var(\"", "var_os(\"", "env = \""] {
                for (at, _) in code.match_indices(before) {
                    let name = code[at + before.len()..].split('"').next().unwrap();
                    assert!(pages.contains(name), "{} reads {name}, and no page says so", path.display());
                    found += 1;
                }
            }
        }
    }
    assert!(found >= 5, "hardly a variable: {found}");
}

#[test]
fn pages_and_completions_have_no_faults() {
    let folder = tempfile::tempdir().unwrap();
    let mut looked = 0;
    for (name, text) in text::all() {
        assert!(text.is_ascii(), "{} has more than ASCII", name.display());
        let file = folder.path().join(name.file_name().unwrap());
        fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let folders: Vec<_> = name.iter().map(|part| part.to_str().unwrap()).collect();
        let (program, arguments) = match folders[..] {
            ["completions", "bash", _] => ("bash", vec!["-n", file]),
            ["completions", "zsh", _] => ("zsh", vec!["-n", file]),
            ["completions", "fish", _] => ("fish", vec!["--no-execute", file]),
            ["man", _] => ("groff", vec!["-man", "-ww", "-z", "-Tutf8", file]),
            // The catalog is looked at where it is made.
            ["catalog", _] => continue,
            _ => panic!("nobody knows what {} is", name.display()),
        };
        let Ok(said) = Command::new(program).args(arguments).output() else {
            assert!(std::env::var_os("STOKER_REQUIRE_DOCKER").is_none(), "there is no {program}");
            println!("SKIPPED: {} is not looked at, there is no {program}", name.display());
            continue;
        };
        let errors = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success() && errors.is_empty(), "{}: {errors}", name.display());
        looked += 1;
    }
    assert!(looked >= 2, "not even bash is there");
}
