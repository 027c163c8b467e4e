//! One daemon a blackboard: a lock that the kernel takes back from the dead, with the pid of its holder in it.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, test_kill_process};
use tokio::time::Instant;

use crate::wake::beside;

/// Held for the daemon's life.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Closing it gives the lock back.
    _file: File,
}

#[derive(Debug, thiserror::Error)]
#[error("remand runs on {} already, with pid {pid}", path.display())]
pub(crate) struct AlreadyRunning {
    pub(crate) path: PathBuf,
    pub(crate) pid: String,
}

/// A daemon that was killed in the moment when it started a child: until the child has become another program, it holds
/// the lock too.
const LINGERS: Duration = Duration::from_secs(5);

pub(crate) async fn take(blackboard: &Path) -> anyhow::Result<Lock> {
    let path = beside(blackboard, "lock");
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
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
    while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if error != rustix::io::Errno::WOULDBLOCK {
            return Err(error).with_context(|| format!("cannot lock {}", path.display()));
        }
        let pid = pid_in(&mut file);
        if begun.elapsed() > LINGERS
            || pid
                .parse()
                .ok()
                .and_then(Pid::from_raw)
                .is_none_or(is_there)
        {
            return Err(AlreadyRunning {
                path: blackboard.to_owned(),
                pid,
            }
            .into());
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

/// The pid of the daemon that runs on this blackboard, if one does. The lock is tried only where its holder seems to be
/// alive: a daemon that starts in this moment must not find it taken by a look.
pub(crate) fn holder(blackboard: &Path) -> Option<String> {
    let mut file = File::open(beside(blackboard, "lock")).ok()?;
    let pid = pid_in(&mut file);
    pid.parse()
        .ok()
        .and_then(Pid::from_raw)
        .filter(|pid| is_there(*pid))?;
    (flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK))
        .then_some(pid)
}

fn pid_in(file: &mut File) -> String {
    let mut pid = String::new();
    // What can't be read is not known; the refusal stands either way.
    drop(file.rewind().and_then(|()| file.read_to_string(&mut pid)));
    if pid.trim().is_empty() {
        "unknown".into()
    } else {
        pid.trim().to_owned()
    }
}

/// Also one of another user.
fn is_there(pid: Pid) -> bool {
    test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board_with_lock(pid: &str) -> (tempfile::TempDir, PathBuf, File) {
        let folder = tempfile::tempdir().unwrap();
        let board = folder.path().join("blackboard.db");
        std::fs::write(beside(&board, "lock"), pid).unwrap();
        let held = File::open(beside(&board, "lock")).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
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
        // No process has the highest pid that there can be, as far as anybody has seen.
        let (_folder, board, held) = board_with_lock("4194303");
        let taken = take(&board);
        tokio::pin!(taken);
        assert!(
            tokio::time::timeout(Duration::from_millis(100), &mut taken)
                .await
                .is_err()
        );
        assert_eq!(holder(&board), None, "who holds it is dead");
        drop(held);
        let _lock = taken.await.unwrap();
        assert_eq!(holder(&board), Some(std::process::id().to_string()));
    }
}
