//! Serializes the creation and removal of worktrees: git creates a worktree's directory in several
//! steps, and another git that reads it in between fails.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use tokio::time::Instant;

use super::fs_nofollow::at;
use super::{GitError, Result};

/// Maximum time to wait: longer than any `git worktree add` without files takes.
const LONGEST: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// Lock held while a worktree of a repository is created or removed, across processes.
pub(super) struct RepositoryLock {
    _folder: File,
}

impl RepositoryLock {
    /// Locks the directory itself, so that nothing an agent puts there (a FIFO, a symlink) is
    /// opened.
    pub(super) async fn take(common_dir: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = open(common_dir, flags, Mode::empty())
            .map_err(|error| at("open", common_dir)(error.into()))?;
        let folder = File::from(folder);
        let begun = Instant::now();
        while folder.try_lock().is_err() {
            if begun.elapsed() > LONGEST {
                return Err(GitError::Locked {
                    path: common_dir.to_owned(),
                });
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(Self { _folder: folder })
    }
}
