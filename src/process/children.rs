//! The children that this process has started, and those that came to it when their own parents died.
//!
//! A process that an agent hides (its own session, no mark in its environment) is nobody's once its shim is killed. With us
//! as a reaper of orphans it comes to us instead, and is ended before the next run begins.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};
use tokio::time::Instant;

use super::table::{self, Entry, Key};
use super::{MARK, ProcessError};

/// Children of ours that somebody of ours waits for, or that were there before us.
static KNOWN: Mutex<BTreeSet<Key>> = Mutex::new(BTreeSet::new());
/// Whether orphans come to us.
static ADOPTS: AtomicBool = AtomicBool::new(false);

/// Marks of commands that speak with the forge: what git or ssh leave running for their next call (a credential cache, a
/// shared connection) is the user's.
const SPARED: [&str; 2] = ["forge:", "remote:"];

const PAUSE: Duration = Duration::from_millis(10);
/// From the first SIGKILL until we say that they cannot be ended.
const GIVE_UP: Duration = Duration::from_secs(10);

/// A child that somebody waits for, until this is dropped.
pub(super) struct Known(Option<Key>);

/// Starts a child and remembers it in one step, so that nobody takes it for an orphan in between.
pub(super) fn start<C, E>(
    spawn: impl FnOnce() -> Result<C, E>,
    pid: impl FnOnce(&C) -> Option<u32>,
) -> Result<(C, Known), E> {
    if !table::ORPHANS_COME_TO_US {
        return Ok((spawn()?, Known(None)));
    }
    let mut known = known();
    let child = spawn()?;
    let pid = pid(&child).and_then(|pid| i32::try_from(pid).ok());
    let key = pid
        .and_then(|pid| table::look(pid).ok().flatten())
        .map(|entry| entry.key());
    known.extend(key);
    Ok((child, Known(key)))
}

impl Drop for Known {
    fn drop(&mut self) {
        if let Some(key) = &self.0 {
            known().remove(key);
        }
    }
}

/// From here on orphans below us come to us. Children that whoever became this program had are left alone.
pub(crate) fn adopt_orphans() -> Result<(), ProcessError> {
    if table::ORPHANS_COME_TO_US {
        table::become_reaper().map_err(ProcessError::system("become the reaper"))?;
        known().extend(children()?.iter().map(Entry::key));
        ADOPTS.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Ends everybody who came to us because their parents died, with all of their descendants, and tells how many that were.
pub(crate) async fn end_adopted() -> Result<u32, ProcessError> {
    if !ADOPTS.load(Ordering::Relaxed) {
        return Ok(0);
    }
    let begun = Instant::now();
    let mut ended = BTreeSet::new();
    let mut empty_looks = 0;
    // One look is not a moment, and a process can be born behind its back.
    while empty_looks < 2 {
        let alive = adopted()?;
        empty_looks = if alive.is_empty() { empty_looks + 1 } else { 0 };
        for entry in &alive {
            ended.insert(entry.key());
            // Who could not be killed shows in the next look.
            table::signal(entry, Signal::KILL).ok();
        }
        if begun.elapsed() > GIVE_UP {
            let pids = alive.iter().map(|entry| entry.pid).collect();
            return Err(ProcessError::StillAlive {
                mark: "(adopted)".to_owned(),
                pids,
            });
        }
        tokio::time::sleep(if alive.is_empty() {
            Duration::from_millis(1)
        } else {
            PAUSE
        })
        .await;
    }
    let ended = u32::try_from(ended.len()).unwrap_or(u32::MAX);
    if ended > 0 {
        tracing::warn!(
            ended,
            "processes that had outlived whoever started them were ended"
        );
    }
    Ok(ended)
}

/// Takes in those who came to us and have ended since: nobody else would.
pub(crate) fn reap_adopted() {
    if ADOPTS.load(Ordering::Relaxed) && has_dead_child() {
        // A look that fails proves nothing; the next one comes.
        adopted().ok();
    }
}

/// Whether some child has ended and was not waited for. Asked first, as a look at all processes costs a thousand times more.
fn has_dead_child() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(rustix::process::waitid(WaitId::All, options), Ok(Some(_)))
}

/// Kills the groups of all children but the shims, which end their own when we are gone. For the end of the program.
pub(crate) fn end_children() {
    for entry in children().unwrap_or_default() {
        if !entry.is_dead
            && entry.session != entry.pid
            && entry.group == entry.pid
            && let Some(group) = Pid::from_raw(entry.group)
        {
            // An empty group has nobody to tell.
            rustix::process::kill_process_group(group, Signal::KILL).ok();
        }
    }
}

/// The living who came to us, with their descendants. Those who are dead are taken in on the way.
fn adopted() -> Result<Vec<Entry>, ProcessError> {
    let known = known();
    let entries = scan()?;
    let mut roots = BTreeSet::new();
    for entry in entries.iter().filter(|entry| entry.parent == own()) {
        // Whoever is still in the group of a command of ours is ended with that command.
        let is_in_group = known.iter().any(|(pid, _)| *pid == entry.group);
        if known.contains(&entry.key()) || is_in_group {
            continue;
        }
        if entry.is_dead {
            if let Some(pid) = Pid::from_raw(entry.pid) {
                // It is dead, so this does not wait.
                rustix::process::waitpid(Some(pid), WaitOptions::NOHANG).ok();
            }
        } else if !is_spared(entry.pid) {
            roots.insert(entry.pid);
        }
    }
    let mut found: Vec<Entry> = entries
        .iter()
        .filter(|entry| roots.contains(&entry.pid))
        .copied()
        .collect();
    found.extend(table::descendants(&entries, roots));
    found.retain(|entry| !entry.is_dead);
    Ok(found)
}

fn is_spared(pid: i32) -> bool {
    SPARED
        .iter()
        .any(|mark| table::mark_that_begins(pid, &format!("{MARK}={mark}")).is_some())
}

fn children() -> Result<Vec<Entry>, ProcessError> {
    Ok(scan()?
        .into_iter()
        .filter(|entry| entry.parent == own())
        .collect())
}

fn scan() -> Result<Vec<Entry>, ProcessError> {
    table::scan().map_err(ProcessError::system("list the processes"))
}

fn own() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// A panic elsewhere leaves the set as it was, which is whole.
fn known() -> MutexGuard<'static, BTreeSet<Key>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}
