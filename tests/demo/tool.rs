//! `stokerctl`, as a person at a terminal uses it.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context;
use tokio::task::spawn_blocking;

use super::say::Talk;
use super::stage::{Stage, built};

/// The tool, at the demo's own socket.
#[derive(Debug)]
pub(crate) struct Tool {
    program: PathBuf,
    socket: PathBuf,
}

impl Tool {
    pub(crate) fn new(stage: &Stage) -> anyhow::Result<Tool> {
        Ok(Tool { program: built()?.join("stokerctl"), socket: stage.stokerd.socket().to_owned() })
    }

    /// Shows a command, runs it, shows what it says, and returns what it prints.
    pub(crate) async fn run(&self, talk: &Talk, arguments: &[&str]) -> anyhow::Result<String> {
        self.ask(talk, arguments, "", Stdio::piped()).await
    }

    /// The same with a text for its standard input.
    pub(crate) async fn feed(&self, talk: &Talk, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        self.ask(talk, arguments, input, Stdio::piped()).await
    }

    /// The same for one that takes its time: its progress goes to the terminal as it comes.
    pub(crate) async fn watch(&self, talk: &Talk, arguments: &[&str]) -> anyhow::Result<String> {
        self.ask(talk, arguments, "", Stdio::inherit()).await
    }

    async fn ask(
        &self,
        talk: &Talk,
        arguments: &[&str],
        input: &str,
        errors: Stdio,
    ) -> anyhow::Result<String> {
        let shown = format!("stokerctl {}", arguments.join(" "));
        talk.line(&format!("$ {shown}"));
        let mut command = Command::new(&self.program);
        command.arg("--socket").arg(&self.socket).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        // In a group of its own a Ctrl-C does not end it before us, who say what that means.
        command.process_group(0);
        let input = input.to_owned();
        let ended = spawn_blocking(move || {
            use std::io::Write;
            let mut child = command.spawn()?;
            // Dropped at the end of the line, which is the end of the input. One that reads none may have left.
            let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
            child.wait_with_output()
        });
        let output =
            ended.await.context("waiting broke")?.with_context(|| format!("cannot run `{shown}`"))?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        talk.quote(&printed);
        talk.quote(&String::from_utf8_lossy(&output.stderr));
        anyhow::ensure!(output.status.success(), "`{shown}` failed ({})", output.status);
        Ok(printed)
    }
}
