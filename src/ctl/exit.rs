//! Exit codes, and how an error is said: the chain of causes once, at the top.

use std::io::Write;
use std::process::ExitCode;

use crate::api::client::ClientError;
use crate::api::problem::Problem;
use crate::profile::Reported;
use crate::store::StoreError;
use crate::systemd;

/// The codes, for the end of the tool's help.
pub const HELP: &str = "\
Exit codes:
    0  it was done
    1  it failed
    2  the arguments are not as they must be
    4  there is no such lease, pool or class, or the lease has ended
   69  stokerd cannot be reached
   75  refused for now: a limit, a drain or the wait; trying again later may help
   78  the host profile or a workload has mistakes, or the profile is not there
  exec has codes of its own, see `stokerctl exec --help`";

/// The codes of exec, which are its command's but for three.
pub const EXEC_HELP: &str = "\
Exit codes:
  that of the command, 128 and the signal's number where a signal ended it, but:
  124  it ran past its limit, and the lease has ended
  125  it was not run at all: standard error says why
  126, 127  there is no such program, or it cannot be run

Output is text; bytes that are no UTF-8 are replaced.";

/// The codes of the daemon.
pub const DAEMON_HELP: &str = "\
Exit codes:
    0  it was told to end
    2  the arguments are not as they must be
   69  something that it needs cannot be had
   77  it may not do what it must: it needs root
   78  the host profile has mistakes, or is not there; or the state is that of a host of another name";

/// The arguments, or the request that was made of them, are not as they must be.
pub const USAGE: u8 = 2;
/// A command inside ran past its limit, as timeout(1) says it.
pub const OVERRAN: u8 = 124;

/// A command inside was not run at all, as docker(1) says it.
pub const NOT_RUN: u8 = 125;
/// EX_NOPERM of sysexits(3).
pub const NO_PERMISSION: u8 = 77;
/// It failed.
pub const FAILED: u8 = 1;
/// EX_UNAVAILABLE of sysexits(3): something that is needed cannot be had.
pub const UNAVAILABLE: u8 = 69;

const NOT_FOUND: u8 = 4;
/// EX_TEMPFAIL of sysexits(3).
pub const TRY_LATER: u8 = 75;
/// EX_CONFIG of sysexits(3): the host profile has mistakes, or is not there.
pub const PROFILE: u8 = 78;

/// Says what went wrong on standard error, and picks the code for it; `otherwise` where nothing fits better.
pub fn report(program: &str, error: &anyhow::Error, otherwise: u8) -> ExitCode {
    let mut text = format!("{program}: {error:#}\n");
    if let Some(hint) = hint(error) {
        text.push_str(&format!("\nhint: {hint}\n"));
    }
    if systemd::stderr_is_the_journal() {
        // Each line is an entry of its own there, with the level that it begins with: an error (sd-daemon(3)).
        text = text.lines().map(|line| format!("<3>{line}\n")).collect();
    }
    // Nobody may be there to read it.
    let _ = std::io::stderr().write_all(text.as_bytes());
    // What was not run has one code, whatever the reason: any other could be the command's.
    let code = if otherwise == NOT_RUN { None } else { code(error) };
    ExitCode::from(code.unwrap_or(otherwise))
}

fn code(error: &anyhow::Error) -> Option<u8> {
    if error.downcast_ref::<Reported>().is_some() {
        return Some(PROFILE);
    }
    if let Some(StoreError::OtherHost { .. }) = error.downcast_ref::<StoreError>() {
        return Some(PROFILE); // The name that the profile says, or does not say.
    }
    match error.downcast_ref::<ClientError>()? {
        ClientError::Unreachable { .. } | ClientError::TooLate(_) => Some(UNAVAILABLE),
        ClientError::Refused(problem) if problem.is_of_the_profile() => Some(PROFILE),
        ClientError::Refused(problem) => match problem.status {
            400 => Some(USAGE),
            404 | 410 => Some(NOT_FOUND),
            429 | 503 | 504 => Some(TRY_LATER),
            _ => None,
        },
        ClientError::Broken(_) | ClientError::BrokenAnswer(_) | ClientError::Unreadable(_) => None,
    }
}

fn hint(error: &anyhow::Error) -> Option<String> {
    match error.downcast_ref::<ClientError>()? {
        ClientError::Unreachable { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            Some("the socket is for root and its group: use sudo, or join the group that owns it".into())
        }
        ClientError::Unreachable { .. } => {
            Some("is stokerd running? `--socket PATH` or STOKER_SOCKET says where it serves".into())
        }
        ClientError::Refused(problem) => problem.retry_after_s.map(|s| match **problem {
            Problem { limit: Some(ref limit), .. } => format!("{limit}: try again in {s}s"),
            _ => format!("try again in {s}s"),
        }),
        ClientError::Broken(_)
        | ClientError::BrokenAnswer(_)
        | ClientError::TooLate(_)
        | ClientError::Unreadable(_) => None,
    }
}
