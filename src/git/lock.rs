//! One at a time: git makes the folder of a worktree in several steps, and a git that looks at it between two of them
//! fails.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use tokio::time::Instant;

use super::GitError;
use super::fs_nofollow::at;

/// Longer than any `git worktree add` without files takes.
const LONGEST: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// Held while a worktree of a repository is made or removed, by whichever process.
pub(super) struct RepositoryLock {
    _folder: File,
}

impl RepositoryLock {
    /// Locks the folder itself, so that nothing that an agent puts there (a FIFO, a symlink) is opened.
    pub(super) async fn take(common_dir: &Path) -> Result<Self, GitError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = open(common_dir, flags, Mode::empty())
            .map_err(|error| at("open", common_dir)(error.into()))?;
        let folder = File::from(folder);
        let begun = Instant::now();
        while flock(&folder, FlockOperation::NonBlockingLockExclusive).is_err() {
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
