//! Keeps the hard limits on all containers together as the controller wants them.
//!
//! Where systemd manages the host the slice is systemd's, and systemd is told, again where the kernel's own files say
//! something else; only what they say still is written by us. Without systemd they are the engine's folders, made here
//! before the engine does. They are looked at again and again: an engine, an operator or a reload may have changed them.
//!
//! Not here: how much (`control`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::World;
use crate::control::message::{Ceilings, Input};
use crate::gateway::chain;
use crate::measure::{Root, SliceLimits};
use crate::systemd::slice;

/// Three small reads.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// The same the engine is told (`docker`).
const SLICE: &str = "stoker.slice";
/// The kernel keeps limits of memory in whole pages.
const PAGE: u64 = 4096;
/// The shares of v1 that stand for the weight 100 of v2.
const EQUAL_SHARES: u64 = 1024;

/// Does so for as long as somebody may want others, who says so this way.
pub(super) fn keep(world: World) -> watch::Sender<Option<Ceilings>> {
    let (wish, wanted) = watch::channel(None);
    tokio::spawn(follow(world, wanted));
    wish
}

async fn follow(world: World, mut wanted: watch::Receiver<Option<Ceilings>>) {
    let mut again = interval(LOOK_AGAIN);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told: Option<Ceilings> = None;
    loop {
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() { return },
            _ = again.tick() => {}
        }
        let Some(ceilings) = *wanted.borrow_and_update() else { continue };
        let set = set(ceilings, &mut told).await.map(|()| ceilings);
        world.tell(Input::Ceilings(set)).await;
    }
}

/// Sets what does not stand yet; `told` is what systemd was told last.
async fn set(ceilings: Ceilings, told: &mut Option<Ceilings>) -> Result<(), String> {
    let memory = ceilings.memory.get() / PAGE * PAGE;
    let booted = slice::is_running();
    let mut wrong = Vec::new();
    let changed = !tokio::task::spawn_blocking(move || all_stand(ceilings, memory)).await.unwrap_or(false);
    if booted && (*told != Some(ceilings) || changed) {
        let cpu_weight = u64::from(ceilings.cpu_weight);
        match slice::set_limits(SLICE, slice::SliceLimits { memory, cpu_weight, tasks: ceilings.pids }).await
        {
            Ok(()) => *told = Some(ceilings),
            Err(error) => wrong.push(chain(&error)),
        }
    }
    let written = tokio::task::spawn_blocking(move || write_all(ceilings, memory, !booted)).await;
    match written {
        Ok(more) => wrong.extend(more),
        Err(_) => wrong.push("writing its files broke off".into()),
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

/// The kernel's files, each with what it should say.
type Files = Vec<(Result<PathBuf, String>, u64)>;

fn files(ceilings: Ceilings, memory: u64) -> Result<Files, String> {
    let SliceLimits { memory: memory_file, cpu, pids, unified } = Root::host().slice_limits()?;
    let weight = u64::from(ceilings.cpu_weight);
    let weight = if unified { weight } else { weight * EQUAL_SHARES / 100 };
    let pids = ceilings.pids.map(|most| (pids, most));
    Ok([(memory_file, memory), (cpu, weight)].into_iter().chain(pids).collect())
}

/// Whether no file that is there says something else.
fn all_stand(ceilings: Ceilings, memory: u64) -> bool {
    let stands = |file: &Path, value: u64| match fs::read_to_string(file) {
        Ok(text) => text.trim() == value.to_string(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    let all = files(ceilings, memory);
    all.is_ok_and(|all| all.iter().all(|(file, value)| file.as_ref().is_ok_and(|file| stands(file, *value))))
}

/// Writes what the kernel's files do not say; what could not be written, and why.
fn write_all(ceilings: Ceilings, memory: u64, make: bool) -> Vec<String> {
    let files = match files(ceilings, memory) {
        Ok(files) => files,
        Err(why) => return vec![why],
    };
    let mut wrong = Vec::new();
    for (file, value) in files {
        let written = file.and_then(|file| {
            let said = |error: io::Error| format!("cannot set `{}`: {error}", file.display());
            write(&file, value, make).map_err(said)
        });
        wrong.extend(written.err());
    }
    wrong
}

/// Makes this file say this number; with `make`, in a folder that is made where there is none, and without it only where
/// there is one.
fn write(file: &Path, value: u64, make: bool) -> io::Result<()> {
    let Some(folder) = file.parent() else { return Err(io::ErrorKind::InvalidInput.into()) };
    if make {
        fs::create_dir_all(folder)?;
    } else if !folder.exists() {
        return Ok(()); // systemd makes it with the first container, and knows the limit.
    }
    if fs::read_to_string(file)?.trim() == value.to_string() {
        return Ok(());
    }
    fs::write(file, value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_where_it_says_something_else_and_made_where_that_is_ours_to_do() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("stoker.slice/memory.max");
        write(&file, 7, false).unwrap();
        assert!(!file.exists(), "systemd makes its folders itself");
        let missing = write(&file, 7, true).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound, "the folder is made, the file is the kernel's");
        fs::write(&file, "max\n").unwrap();
        write(&file, 7, false).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "7");
    }
}
