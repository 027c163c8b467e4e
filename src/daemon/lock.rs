//! Lock that allows one daemon per blackboard. It contains the pid of its holder, and the kernel
//! releases it when the holder dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, test_kill_process};
use tokio::time::Instant;

use crate::wake::beside;

/// Lock on a blackboard, held for the life of the daemon.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Closing it releases the lock.
    _file: File,
}

#[derive(Debug, thiserror::Error)]
#[error("remand is already running on {} (pid {pid})", path.display())]
pub(crate) struct AlreadyRunning {
    pub(crate) path: PathBuf,
    pub(crate) pid: String,
}

/// Maximum time to wait for the lock of a dead daemon. If it was killed while it started a child,
/// the child holds the lock too until it has become another program.
const LINGERS: Duration = Duration::from_secs(5);

pub(crate) async fn take(blackboard: &Path) -> anyhow::Result<Lock> {
    let path = beside(blackboard, "lock");
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    let begun = Instant::now();
    while let Err(error) = file.try_lock() {
        if let TryLockError::Error(error) = error {
            return Err(error).with_context(|| format!("cannot lock {}", path.display()));
        }
        let pid = pid_in(&mut file);
        if begun.elapsed() > LINGERS || is_alive(&pid) != Some(false) {
            let path = blackboard.to_owned();
            return Err(AlreadyRunning { path, pid }.into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let written = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .and_then(|()| file.flush());
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Lock { _file: file })
}

/// Returns the pid of the daemon that runs on this blackboard, if any. Tries the lock only if its
/// holder seems to be alive: a daemon that starts at this moment must not find the lock taken by
/// this check.
pub(crate) fn holder(blackboard: &Path) -> Option<String> {
    let mut file = File::open(beside(blackboard, "lock")).ok()?;
    let pid = pid_in(&mut file);
    is_alive(&pid).filter(|is_alive| *is_alive)?;
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)).then_some(pid)
}

fn pid_in(file: &mut File) -> String {
    let mut pid = String::new();
    // A pid that cannot be read is unknown; the refusal stands either way.
    drop(file.rewind().and_then(|()| file.read_to_string(&mut pid)));
    if pid.trim().is_empty() {
        "unknown".into()
    } else {
        pid.trim().to_owned()
    }
}

/// True if the process exists, even if it belongs to another user; `None` if this is not a pid.
fn is_alive(pid: &str) -> Option<bool> {
    let pid = pid.parse().ok().and_then(Pid::from_raw)?;
    Some(test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board_with_lock(pid: &str) -> (tempfile::TempDir, PathBuf, File) {
        let folder = tempfile::tempdir().unwrap();
        let board = folder.path().join("blackboard.db");
        std::fs::write(beside(&board, "lock"), pid).unwrap();
        let held = File::open(beside(&board, "lock")).unwrap();
        held.lock().unwrap();
        (folder, board, held)
    }

    #[tokio::test]
    async fn a_second_one_is_refused_at_once_and_told_of_the_first() {
        let own = std::process::id().to_string();
        let (_folder, board, _held) = board_with_lock(&own);
        let refused = tokio::time::timeout(Duration::from_secs(1), take(&board))
            .await
            .unwrap()
            .unwrap_err();
        assert_eq!(refused.downcast_ref::<AlreadyRunning>().unwrap().pid, own);
        assert_eq!(holder(&board), Some(own));
    }

    #[tokio::test]
    async fn a_lock_that_lingers_after_its_holder_was_killed_is_waited_for() {
        // The highest possible pid, which in practice no process has.
        let (_folder, board, held) = board_with_lock("4194303");
        let taken = take(&board);
        tokio::pin!(taken);
        assert!(
            tokio::time::timeout(Duration::from_millis(100), &mut taken)
                .await
                .is_err()
        );
        assert_eq!(holder(&board), None, "its holder is dead");
        drop(held);
        let _lock = taken.await.unwrap();
        assert_eq!(holder(&board), Some(std::process::id().to_string()));
    }
}
