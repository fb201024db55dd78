//! What a container writes, line by line, as the engine's log has it.
//!
//! The engine marks each entry of its log with a time of its own. They come in that order, so the last one that
//! was seen tells what is new after a connection was lost.

use std::time::Duration;

use bollard::container::LogOutput;
use bollard::query_parameters::LogsOptionsBuilder;
use futures_util::stream::StreamExt;

use crate::docker::{ContainerId, Docker, DockerError};

/// What a line may have in bytes; the rest of it is left out.
const LINE: usize = 4096;

/// How far a container's output was read, and what stands unfinished.
#[derive(Debug, Default)]
pub struct Reading {
    /// The engine's time of the last entry, as it writes it: such texts compare as the times do.
    seen: String,
    /// What was read before the connection was lost comes again.
    again: bool,
    stdout: Unfinished,
    stderr: Unfinished,
}

#[derive(Debug, Default)]
struct Unfinished(Vec<u8>);

impl Docker {
    /// Hands each line that a container writes to `each`, with the name of its stream and the engine's time of it, until the container has
    /// ended; whatever `reading` has seen already is left out.
    ///
    /// # Errors
    /// As the engine answers, or when its answer breaks off; the same `reading` then goes on.
    pub async fn follow_output(
        &self,
        container: &ContainerId,
        reading: &mut Reading,
        mut each: impl FnMut(&'static str, &str, &str),
    ) -> Result<(), DockerError> {
        let mut options =
            LogsOptionsBuilder::default().follow(true).stdout(true).stderr(true).timestamps(true);
        if let Some(since) = reading.since() {
            options = options.since(since);
        }
        reading.again = true;
        let mut log = self.client.logs(container.as_str(), Some(options.build()));
        while let Some(entry) = log.next().await {
            let what = || format!("read the output of container `{container}`");
            let entry = entry.map_err(|cause| DockerError::of(what(), Duration::ZERO, cause))?;
            reading.take(&entry, &mut each);
        }
        reading.end(&mut each);
        Ok(())
    }
}

impl Reading {
    /// A reading that leaves out what was written until `time` (RFC 3339, with nanoseconds).
    pub fn after(time: String) -> Reading {
        Reading { seen: time, ..Reading::default() }
    }

    /// The second of the last entry, as the engine is asked for it.
    fn since(&self) -> Option<i32> {
        let time = humantime::parse_rfc3339(&self.seen).ok()?;
        let seconds = time.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
        i32::try_from(seconds).ok()
    }

    fn take(&mut self, entry: &LogOutput, each: &mut impl FnMut(&'static str, &str, &str)) {
        let (name, bytes) = match entry {
            LogOutput::StdErr { message } => ("stderr", message),
            LogOutput::StdOut { message } | LogOutput::Console { message } => ("stdout", message),
            LogOutput::StdIn { .. } => return,
        };
        // An entry is a time, a space, and a line or, where a line is long, a part of it.
        let at = bytes.iter().position(|byte| *byte == b' ').unwrap_or(bytes.len());
        let (time, words) = bytes.split_at(at);
        let time = String::from_utf8_lossy(time);
        // Parts of one line have one time, and the two streams are not quite in order: only what is read again is
        // left out.
        self.again &= *time <= *self.seen;
        if self.again {
            return;
        }
        self.seen = time.into_owned();
        let unfinished = if name == "stderr" { &mut self.stderr } else { &mut self.stdout };
        let seen = &self.seen;
        unfinished.add(words.get(1..).unwrap_or_default(), |line| each(name, line, seen));
    }

    fn end(&mut self, each: &mut impl FnMut(&'static str, &str, &str)) {
        let seen = &self.seen;
        self.stdout.finish(|line| each("stdout", line, seen));
        self.stderr.finish(|line| each("stderr", line, seen));
    }
}

impl Unfinished {
    fn add(&mut self, words: &[u8], mut each: impl FnMut(&str)) {
        for piece in words.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE - self.0.len();
            self.0.extend_from_slice(piece.get(..room).unwrap_or(piece));
            if piece.ends_with(b"\n") {
                self.finish(&mut each);
            }
        }
    }

    fn finish(&mut self, mut each: impl FnMut(&str)) {
        let line = String::from_utf8_lossy(&self.0);
        let line = line.trim_end();
        if !line.is_empty() {
            each(line);
        }
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reading: &mut Reading, entries: &[&str]) -> Vec<String> {
        let mut lines = Vec::new();
        for entry in entries {
            let (stream, message) = entry.split_at(1);
            let message = message.to_owned().into_bytes().into();
            let output = match stream {
                "e" => LogOutput::StdErr { message },
                _ => LogOutput::StdOut { message },
            };
            reading.take(&output, &mut |stream, line, _| lines.push(format!("{stream}: {line}")));
        }
        lines
    }

    #[test]
    fn lines_are_put_together_by_stream_and_said_once() {
        let mut reading = Reading::default();
        let first = ["o2026-01-01T00:00:01.000000001Z one\n", "o2026-01-01T00:00:01.000000002Z tw"];
        assert_eq!(read(&mut reading, &first), ["stdout: one"]);
        let second = ["e2026-01-01T00:00:01.000000003Z bad\r\n", "o2026-01-01T00:00:02.000000000Z o\n"];
        assert_eq!(read(&mut reading, &second), ["stderr: bad", "stdout: two"]);
        assert_eq!(reading.since(), Some(1_767_225_602));
        reading.again = true;
        assert!(read(&mut reading, &first).is_empty(), "the connection was lost, and the log is read anew");
        assert_eq!(read(&mut reading, &["o2026-01-01T00:00:03.000000000Z last"]), Vec::<String>::new());
        let mut last = Vec::new();
        reading.end(&mut |_, line, _| last.push(line.to_owned()));
        assert_eq!(last, ["last"]);
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let mut reading = Reading::default();
        let long = "x".repeat(3000);
        for second in 1..9 {
            assert!(read(&mut reading, &[&format!("o2026-01-01T00:00:01.0Z {long}")]).is_empty(), "{second}");
        }
        let lines = read(&mut reading, &["o2026-01-01T00:00:01.0Z y\n", "o2026-01-01T00:00:01.1Z z\n"]);
        assert_eq!(
            lines.iter().map(String::len).collect::<Vec<_>>(),
            ["stdout: ".len() + LINE, "stdout: z".len()]
        );
    }
}
