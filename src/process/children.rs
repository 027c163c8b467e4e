//! The children that this process has started, and those that came to it when their own parents died.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal};

use super::table::{self, Entry, Key};

/// Children of ours that somebody of ours waits for.
static KNOWN: Mutex<BTreeSet<Key>> = Mutex::new(BTreeSet::new());

/// A child that somebody waits for, until this is dropped.
pub(super) struct Known(Option<Key>);

/// Starts a child and remembers it in one step, so that nobody takes it for a stranger in between.
pub(super) fn start<C, E>(
    spawn: impl FnOnce() -> Result<C, E>,
    pid: impl FnOnce(&C) -> Option<u32>,
) -> Result<(C, Known), E> {
    let mut known = known();
    let child = spawn()?;
    let pid = pid(&child).and_then(|pid| i32::try_from(pid).ok());
    let key = pid.and_then(|pid| table::look(pid).ok().flatten()).map(|entry| entry.key());
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

/// Kills the groups of all children but the shims, which end their own when we are gone. For the end of the program.
pub(crate) fn end_children() {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    for entry in children(own).iter().filter(|entry| entry.session != entry.pid && !entry.is_dead) {
        if entry.group == entry.pid
            && let Some(group) = Pid::from_raw(entry.group)
        {
            // An empty group has nobody to tell.
            rustix::process::kill_process_group(group, Signal::KILL).ok();
        }
    }
}

fn children(own: i32) -> Vec<Entry> {
    let entries = table::scan().unwrap_or_default();
    entries.into_iter().filter(|entry| entry.parent == own).collect()
}

/// A panic elsewhere leaves the set as it was, which is whole.
fn known() -> MutexGuard<'static, BTreeSet<Key>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}
