//! Makes sure that no process of a run is alive before anyone touches its worktree again.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;

use super::children::{end_adopted, own, pause, scan};
use super::run_dir::Lock;
use super::running::wake;
use super::table::{self, Entry, Key};
use super::terminate::ask;
use super::{MARK, ProcessError, ProcessId, run_dir};

const PAUSE: Duration = Duration::from_millis(25);
/// Time from SIGTERM to SIGKILL: these processes already had their grace period.
const GRACE: Duration = Duration::from_secs(1);
/// Time from SIGKILL until processes are reported as not terminable.
const GIVE_UP: Duration = Duration::from_secs(10);

/// Time that a shim has left when nobody waits for its run any more.
pub(crate) const SETTLE: Duration = Duration::from_secs(60);

/// Waits until the run's shim has released its lock, then terminates all processes that carry the
/// run's mark, and returns how many there were.
///
/// A shim that holds the lock for longer than `limit` is killed, and its processes are terminated
/// here. After this no shim can start an agent in this directory. For a run that nobody waits for
/// any more.
pub(crate) async fn settle(dir: &Path, limit: Duration) -> Result<u32, ProcessError> {
    if !run_dir::exists(dir)? {
        return end_marked(dir.as_os_str()).await;
    }
    let _lock = take_lock(dir, limit).await?;
    run_dir::mark_settled(dir)?;
    let sweep = Sweep::new(dir.as_os_str(), run_dir::read_shim(dir)?)?;
    let ended = sweep.end_all().await?;
    // Processes that hid from the mark were adopted when the shim died.
    Ok(ended + end_adopted().await?)
}

/// Creates the directory of a run that has none yet.
///
/// An existing directory belongs to an earlier database, whose runs had the same numbers: nothing
/// in it is trusted. Processes still alive in it are terminated first, since they would write into
/// the new one; then it is moved to `<dir>.old-<n>`.
pub(crate) async fn claim_folder(dir: &Path, limit: Duration) -> Result<(), ProcessError> {
    while !run_dir::make_new(dir)? {
        if dir.is_dir() {
            settle(dir, limit).await?;
        }
        run_dir::move_aside(dir)?;
    }
    Ok(())
}

/// Terminates all processes whose [`MARK`] has this value: those of a run without a directory, or
/// of short commands.
pub(crate) async fn end_marked(value: &OsStr) -> Result<u32, ProcessError> {
    Sweep::new(value, None)?.end_all().await
}

async fn take_lock(dir: &Path, limit: Duration) -> Result<Lock, ProcessError> {
    if let Some(lock) = wait_for_lock(dir, limit).await? {
        return Ok(lock);
    }
    if let Some(shim) = run_dir::read_shim(dir)?
        && shim.is_alive()?
        && let Some(entry) =
            table::look(shim.pid).map_err(ProcessError::system("inspect a shim"))?
        && entry.start_time == shim.start_time
    {
        tracing::warn!(%shim, run_dir = %dir.display(), "killing a shim that has held its lock for too long");
        table::signal(&entry, Signal::KILL).map_err(ProcessError::system("kill a shim"))?;
    }
    let held = || ProcessError::LockHeld {
        path: run_dir::lock_path(dir),
        limit,
    };
    wait_for_lock(dir, GRACE).await?.ok_or_else(held)
}

async fn wait_for_lock(dir: &Path, limit: Duration) -> Result<Option<Lock>, ProcessError> {
    let started = Instant::now();
    loop {
        if let Some(lock) = run_dir::try_lock(dir)? {
            return Ok(Some(lock));
        }
        if started.elapsed() >= limit {
            return Ok(None);
        }
        // The agent may have stopped it with a signal.
        if let Some(shim) = run_dir::read_shim(dir)? {
            wake(&shim);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Processes of a run whose shim is gone.
struct Sweep {
    /// `NAME=value`.
    mark: OsString,
    /// Identity of the shim, if it is known and was started since this kernel booted.
    shim: Option<ProcessId>,
    /// All processes found so far: a child whose marked parent has died since would not be found
    /// again.
    known: BTreeSet<Key>,
    /// Those that were asked to stop.
    asked: BTreeSet<Key>,
}

impl Sweep {
    fn new(value: &OsStr, shim: Option<ProcessId>) -> Result<Self, ProcessError> {
        let shim = match shim {
            Some(shim) if shim.is_of_this_boot()? => Some(shim),
            Some(_) | None => None,
        };
        let mut mark = OsString::from(format!("{MARK}="));
        mark.push(value);
        Ok(Self {
            mark,
            shim,
            known: BTreeSet::new(),
            asked: BTreeSet::new(),
        })
    }

    /// Repeats until two snapshots in a row are empty: a snapshot is not atomic, and a process can
    /// be created while it is taken.
    async fn end_all(mut self) -> Result<u32, ProcessError> {
        let kill_at = Instant::now() + GRACE;
        let mut empty_looks = 0;
        loop {
            let alive = self.look()?;
            empty_looks = if alive.is_empty() { empty_looks + 1 } else { 0 };
            if empty_looks == 2 {
                // A shim that has released its lock may still be exiting.
                let shim = self.shim.as_ref().map(|shim| (shim.pid, shim.start_time));
                let ended = self.known.iter().filter(|key| Some(**key) != shim).count();
                return Ok(u32::try_from(ended).unwrap_or(u32::MAX));
            }
            let now = Instant::now();
            if now >= kill_at + GIVE_UP {
                let mark = self.mark.to_string_lossy().into_owned();
                return Err(ProcessError::still_alive(mark, &alive));
            }
            for entry in &alive {
                if now >= kill_at {
                    // A process that could not be killed appears in the next snapshot.
                    table::signal(entry, Signal::KILL).ok();
                } else if self.asked.insert(entry.key()) {
                    ask(entry);
                }
            }
            pause(&alive, PAUSE).await;
        }
    }

    /// Returns all living processes of this run.
    fn look(&mut self) -> Result<Vec<Entry>, ProcessError> {
        let mut entries = scan()?;
        // A daemon may itself run under an agent whose run has the same name: it must not terminate
        // its own ancestors.
        let own = table::ancestry(&entries, own());
        let roots = self.roots(&entries).filter(|pid| !own.contains(pid));
        let mut found: BTreeSet<i32> = roots.collect();
        let below = table::descendants(&entries, found.iter().copied());
        found.extend(below.iter().map(|entry| entry.pid));
        entries.retain(|entry| {
            let is_found = found.contains(&entry.pid) || self.known.contains(&entry.key());
            is_found && !entry.is_dead && !own.contains(&entry.pid)
        });
        self.known.extend(entries.iter().map(Entry::key));
        Ok(entries)
    }

    /// Returns processes that carry the mark or are in the session that the shim opened.
    fn roots<'a>(&'a self, entries: &'a [Entry]) -> impl Iterator<Item = i32> + 'a {
        let since = self.shim.as_ref().map_or(0, |shim| shim.start_time);
        // The number of a session stays taken while it has members: if another process has it now,
        // all of them are gone.
        let is_taken = |shim: &ProcessId| {
            let mut entries = entries.iter();
            entries.any(|e| e.pid == shim.pid && e.start_time != shim.start_time)
        };
        let session = self.shim.as_ref().filter(|shim| !is_taken(shim));
        let session = session.map(|shim| shim.pid);
        let belongs = move |entry: &&Entry| {
            entry.start_time >= since
                && (session == Some(entry.session) || table::carries(entry.pid, &self.mark))
        };
        entries.iter().filter(belongs).map(|entry| entry.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_not_the_shims_when_a_stranger_has_its_number() {
        // Larger than any pid that a system assigns.
        let pid = i32::MAX - 1;
        let shim = ProcessId {
            boot_id: "b".into(),
            pid,
            start_time: 10,
        };
        let sweep = Sweep {
            mark: format!("{MARK}=/nowhere").into(),
            shim: Some(shim),
            known: BTreeSet::new(),
            asked: BTreeSet::new(),
        };
        let entry = |pid, start_time| Entry {
            pid,
            parent: 1,
            group: pid,
            session: i32::MAX - 1,
            start_time,
            is_dead: false,
        };
        let roots = |entries: &[Entry]| sweep.roots(entries).collect::<Vec<_>>();
        assert_eq!(roots(&[entry(pid, 10), entry(pid + 1, 20)]), [pid, pid + 1]);
        assert_eq!(
            roots(&[entry(pid + 1, 20)]),
            [pid + 1],
            "the shim is gone, its session is not"
        );
        assert_eq!(
            roots(&[entry(pid, 15), entry(pid + 1, 20)]),
            [0; 0],
            "the number is somebody else's now"
        );
        assert_eq!(roots(&[entry(pid + 1, 9)]), [0; 0], "older than the shim");
    }
}
