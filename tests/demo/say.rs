//! How the demo talks: numbered steps, what was done indented below them, what programs print behind a bar.

use tokio::time::Instant;

use super::stage::say;

/// The steps so far, and when the first one began.
#[derive(Debug)]
pub(crate) struct Talk {
    step: u32,
    began: Instant,
}

impl Talk {
    pub(crate) fn begin() -> Talk {
        Talk { step: 0, began: Instant::now() }
    }

    pub(crate) fn step(&mut self, title: &str) {
        self.step += 1;
        say(&format!("\n{}. {title}", self.step));
    }

    /// A fact: its name, padded so that values stand below each other, and its value.
    pub(crate) fn fact(&self, name: &str, value: &str) {
        say(&format!("   {name:<11} {value}"));
    }

    pub(crate) fn line(&self, text: &str) {
        say(&format!("   {text}"));
    }

    /// What a program was given or has printed.
    pub(crate) fn quote(&self, text: &str) {
        for line in text.trim_end().lines() {
            say(format!("   | {line}").trim_end());
        }
    }

    /// Seconds since the beginning.
    pub(crate) fn elapsed(&self) -> String {
        format!("{:.1} s", self.began.elapsed().as_secs_f64())
    }
}

/// A short time as people read it.
pub(crate) fn millis(began: Instant) -> String {
    let ms = began.elapsed().as_secs_f64() * 1e3;
    if ms < 1000.0 { format!("{ms:.0} ms") } else { format!("{:.1} s", ms / 1e3) }
}
