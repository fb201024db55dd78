//! What is written for people from the tables in the code: manual pages, completions, the packaged profile, and the
//! catalog that explains entries of the journal.
//!
//! The arguments are clap's own table, the keys of a profile are `stoker::profile::KEYS`, the entries of the journal
//! `stoker::systemd::catalog`; what only prose can say is here. Equal code gives equal bytes: no date, no path of
//! the machine it was built on.

mod host_toml;
mod pages;
mod reference;

use std::path::PathBuf;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

pub(crate) use host_toml::host_toml;

/// All files with their places below a folder: `man/`, `catalog/`, and `completions/` under the names that shells
/// look for.
pub(crate) fn all() -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = vec![
        ("man/stokerd.8".into(), pages::stokerd().into_bytes()),
        ("man/stokerctl.1".into(), pages::stokerctl().into_bytes()),
        ("man/stoker.host.5".into(), reference::stoker_host().into_bytes()),
        ("catalog/stoker.catalog".into(), stoker::systemd::catalog::render().into_bytes()),
    ];
    for (name, command) in [("stokerd", daemon()), ("stokerctl", tool())] {
        for (shell, file) in [
            (Shell::Bash, format!("bash/{name}")),
            (Shell::Zsh, format!("zsh/_{name}")),
            (Shell::Fish, format!("fish/{name}.fish")),
        ] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut command.clone(), name, &mut text);
            files.push((PathBuf::from("completions").join(file), text));
        }
    }
    files
}

/// The arguments of `stokerd`.
fn daemon() -> Command {
    without_surroundings(stoker::ctl::daemon::Arguments::command())
}

/// The arguments of `stokerctl`.
fn tool() -> Command {
    without_surroundings(stoker::ctl::command())
}

/// clap shows what a variable holds where it runs: that is not for a page.
fn without_surroundings(command: Command) -> Command {
    command.mut_args(|argument| argument.hide_env_values(true))
}
