//! The demo, run as a newcomer runs it, and whether it leaves anything behind.
//!
//! It needs an engine with the real images, root, and `cargo build --bins --example demo` before.

use std::path::PathBuf;
use std::process::{Command, Output};

/// Why a demo did not run: something is missing, in use, or not allowed. As sysexits(3) numbers them.
const NOT_HERE: [i32; 3] = [69, 75, 77];

#[test]
fn the_demo_shows_a_whole_day_and_leaves_nothing() {
    // target/debug/deps/it-0123456789abcdef
    let test = std::env::current_exe().expect("a test is a file");
    let built: PathBuf = test.ancestors().nth(2).expect("it is below target").to_owned();
    let program = built.join("examples/demo");
    if !program.exists() {
        return skip(&format!("there is no {}: cargo build --bins --example demo", program.display()));
    }
    let picture = built.with_file_name("demo").join("screenshot.png");
    // Only one drawn in this run counts.
    let _ = std::fs::remove_file(&picture);
    let Output { status, stdout, stderr } = Command::new(&program).output().expect("it is a program");
    let (said, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    if let Some(code) = status.code().filter(|code| NOT_HERE.contains(code)) {
        return skip(&format!("the demo ended with {code}: {errors}"));
    }
    assert!(status.success(), "{status}\n{said}\n{errors}");
    for line in [
        "answers     /json/version says HeadlessChrome/",
        "| the 1000th prime is 7919",
        "| as if nothing had been",
        "| drained: nothing is left",
        "it ended; the engine has no container of this host",
        "Nothing is left behind.",
    ] {
        assert!(said.contains(line), "`{line}` is missing in:\n{said}\n{errors}");
    }
    let drawn = std::fs::read(&picture).expect("the demo keeps its picture");
    assert!(drawn.starts_with(b"\x89PNG\r\n\x1a\n"), "{} bytes", drawn.len());
    // Its daemon is gone too: nobody serves where it said that it does.
    let socket = said.lines().find_map(|line| line.trim().strip_prefix("socket ")).expect("it says where");
    assert!(!PathBuf::from(socket.trim()).exists(), "{socket}");
}

#[expect(clippy::print_stdout, reason = "a test that did not run says so")]
fn skip(why: &str) {
    let required = ["CI", "STOKER_REQUIRE_DOCKER"].map(|name| std::env::var(name).unwrap_or_default());
    assert!(!required.iter().any(|value| value == "true" || value == "1"), "the demo is required: {why}");
    println!("SKIPPED: {why}");
}
