//! Children that this process started, and orphans that it adopted.
//!
//! A process that an agent hides (in its own session, without the mark in its environment) has no
//! watcher once its shim is killed. As a subreaper, remand adopts it and terminates it before the
//! next run starts.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};
use tokio::time::Instant;

use super::table::{self, Entry, Key};
use super::{MARK, ProcessError};

/// Children that some part of remand waits for, or that existed before this program.
static KNOWN: Mutex<BTreeSet<Key>> = Mutex::new(BTreeSet::new());
/// Set if this process adopts orphans.
static ADOPTS: AtomicBool = AtomicBool::new(false);

/// Marks of commands that talk to the forge. Processes that git or ssh leave running for their next
/// call (a credential cache, a shared connection) belong to the user.
const SPARED: [&str; 2] = ["forge:", "remote:"];

const PAUSE: Duration = Duration::from_millis(10);
const MOMENT: Duration = Duration::from_millis(1);
/// Time from the first SIGKILL until processes are reported as not terminable.
const GIVE_UP: Duration = Duration::from_secs(10);

/// Child that someone waits for; unregistered when dropped.
pub(super) struct Known(Option<Key>);

/// Starts a child and registers it in one step, so that nobody takes it for an orphan in between.
pub(super) fn start<C, E>(
    spawn: impl FnOnce() -> Result<C, E>,
    pid: impl FnOnce(&C) -> Option<u32>,
) -> Result<(C, Known), E> {
    if !table::ORPHANS_COME_TO_US {
        return Ok((spawn()?, Known(None)));
    }
    let mut known = known();
    let child = spawn()?;
    let entry = pid(&child).and_then(number);
    let entry = entry.and_then(|pid| table::look(pid).ok().flatten());
    let key = entry.map(|entry| entry.key());
    known.extend(key);
    Ok((child, Known(key)))
}

/// Returns the number of a process in the form that the table has.
pub(super) fn number(pid: u32) -> Option<i32> {
    i32::try_from(pid).ok()
}

impl Drop for Known {
    fn drop(&mut self) {
        if let Some(key) = &self.0 {
            known().remove(key);
        }
    }
}

/// Makes this process adopt orphaned descendants from now on. Children inherited from the program
/// that executed remand are left alone.
pub(crate) fn adopt_orphans() -> Result<(), ProcessError> {
    if table::ORPHANS_COME_TO_US {
        table::become_reaper().map_err(ProcessError::system("adopt orphaned processes"))?;
        known().extend(children()?.iter().map(Entry::key));
        ADOPTS.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Terminates all adopted processes and their descendants, and returns how many there were.
pub(crate) async fn end_adopted() -> Result<u32, ProcessError> {
    if !ADOPTS.load(Ordering::Relaxed) {
        return Ok(0);
    }
    let begun = Instant::now();
    let mut ended = BTreeSet::new();
    let mut empty_looks = 0;
    // A snapshot is not atomic: a process can be created while it is taken.
    while empty_looks < 2 {
        let alive = adopted()?;
        empty_looks = if alive.is_empty() { empty_looks + 1 } else { 0 };
        for entry in &alive {
            ended.insert(entry.key());
            // A process that could not be killed appears in the next snapshot.
            table::signal(entry, Signal::KILL).ok();
        }
        if begun.elapsed() > GIVE_UP {
            return Err(ProcessError::still_alive("(adopted)".to_owned(), &alive));
        }
        pause(&alive, PAUSE).await;
    }
    let ended = u32::try_from(ended.len()).unwrap_or(u32::MAX);
    if ended > 0 {
        tracing::info!(ended, "leftover processes killed");
    }
    Ok(ended)
}

/// Waits before the next snapshot: hardly at all if this one was empty.
pub(super) async fn pause(alive: &[Entry], pause: Duration) {
    let is_empty = alive.is_empty();
    tokio::time::sleep(if is_empty { MOMENT } else { pause }).await;
}

/// Reaps adopted processes that have ended: nobody else would.
pub(crate) fn reap_adopted() {
    if ADOPTS.load(Ordering::Relaxed) && has_dead_child() {
        // A failed snapshot proves nothing; the next one follows.
        adopted().ok();
    }
}

/// Returns true if a child has ended and was not reaped. Checked first, as a snapshot of all
/// processes costs a thousand times more.
fn has_dead_child() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(rustix::process::waitid(WaitId::All, options), Ok(Some(_)))
}

/// Kills the process groups of all children at the end of the program, except the shims, which
/// terminate their own when remand is gone.
pub(crate) fn end_children() {
    for entry in children().unwrap_or_default() {
        if !entry.is_dead
            && entry.session != entry.pid
            && entry.group == entry.pid
            && let Some(group) = Pid::from_raw(entry.group)
        {
            // The group may be empty.
            rustix::process::kill_process_group(group, Signal::KILL).ok();
        }
    }
}

/// Returns the living adopted processes with their descendants, and reaps dead ones.
fn adopted() -> Result<Vec<Entry>, ProcessError> {
    let known = known();
    let entries = scan()?;
    let mut roots = BTreeSet::new();
    for entry in entries.iter().filter(|entry| entry.parent == own()) {
        // A process that is still in the group of a registered command is terminated with that
        // command.
        let is_in_group = known.iter().any(|(pid, _)| *pid == entry.group);
        if known.contains(&entry.key()) || is_in_group {
            continue;
        }
        if entry.is_dead {
            if let Some(pid) = Pid::from_raw(entry.pid) {
                // It is dead, so this does not block.
                rustix::process::waitpid(Some(pid), WaitOptions::NOHANG).ok();
            }
        } else if !is_spared(entry.pid) {
            roots.insert(entry.pid);
        }
    }
    let below = table::descendants(&entries, roots.iter().copied());
    let mut found = entries;
    found.retain(|entry| roots.contains(&entry.pid));
    found.extend(below);
    found.retain(|entry| !entry.is_dead);
    Ok(found)
}

fn is_spared(pid: i32) -> bool {
    let has = |mark: &&str| table::mark_that_begins(pid, &format!("{MARK}={mark}")).is_some();
    SPARED.iter().any(has)
}

fn children() -> Result<Vec<Entry>, ProcessError> {
    let mut entries = scan()?;
    entries.retain(|entry| entry.parent == own());
    Ok(entries)
}

pub(super) fn scan() -> Result<Vec<Entry>, ProcessError> {
    table::scan().map_err(ProcessError::system("list the processes"))
}

/// Returns the pid of this process.
pub(super) fn own() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// A panic elsewhere leaves the set consistent.
fn known() -> MutexGuard<'static, BTreeSet<Key>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}
