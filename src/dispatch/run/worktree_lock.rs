//! One run at a time per worktree, in any process: a file lock, which the kernel releases when its holder dies. The
//! blackboard's index ensures the same for claims; this lock also separates the clean-up after a cancelled claim from
//! the next one.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::files;
use crate::fingerprint::fnv;

/// Held until it is dropped.
pub(crate) struct WorktreeLock {
    /// Closing it releases the lock.
    _file: File,
}

impl WorktreeLock {
    /// Takes the lock if it is free.
    pub(crate) fn try_take(locks_dir: &Path, worktree: &str) -> io::Result<Option<Self>> {
        let file = open(locks_dir, worktree)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for the lock, polling every few milliseconds: its holder is about to end.
    pub(crate) async fn take(locks_dir: &Path, worktree: &str) -> io::Result<Self> {
        loop {
            if let Some(lock) = Self::try_take(locks_dir, worktree)? {
                return Ok(lock);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn open(locks_dir: &Path, worktree: &str) -> io::Result<File> {
    files::make_private_dir(locks_dir)?;
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(locks_dir.join(file_name(worktree)))
}

/// A name of limited length that differs for different paths: special characters are written in hex.
fn file_name(worktree: &str) -> String {
    // Two worktrees with the same lock would merely wait for each other.
    let hash = fnv(worktree.as_bytes());
    let tail: String = worktree.chars().rev().take(40).collect();
    let tail: String = tail
        .chars()
        .rev()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    format!("{hash:032x}{tail}.lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_second_waits_until_the_first_lets_go() {
        let folder = tempfile::tempdir().unwrap();
        let first = WorktreeLock::take(folder.path(), "/a/b").await.unwrap();
        WorktreeLock::take(folder.path(), "/a/c").await.unwrap();
        let second = WorktreeLock::take(folder.path(), "/a/b");
        tokio::pin!(second);
        let early = tokio::time::timeout(Duration::from_millis(60), &mut second).await;
        assert!(early.is_err(), "two held one worktree");
        drop(first);
        second.await.unwrap();
    }
}
