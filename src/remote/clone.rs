//! The bare clone.
//!
//! It is written by hand and not by `git init`: no template, no user default, and after a crash at
//! any line, or with another process creating it too, it either does not exist yet or is correct.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use uuid::Uuid;

use super::{Remote, RemoteError, Result};
use crate::failpoint::crash_point;
use crate::git::is_older;

const HEAD: &str = "ref: refs/heads/remand-has-no-branch\n";

/// The complete configuration: anything else in the file was put there by someone else.
///
/// Objects are checked on arrival. Ignored are defects of old, honest histories, which are common;
/// those used in attacks (`.git` in a tree, `.gitmodules` with a command in it, a symlink in its
/// place) stay errors.
const CONFIG: &str = "\
[core]
	repositoryFormatVersion = 0
	fileMode = true
	bare = true
	hooksPath = /dev/null
	fsync = committed,reference
	filesRefLockTimeout = 5000
	packedRefsTimeout = 5000
[gc]
	auto = 0
[maintenance]
	auto = false
[transfer]
	fsckObjects = true
[fetch]
	fsckObjects = true
[fetch \"fsck\"]
	badDate = ignore
	badDateOverflow = ignore
	badEmail = ignore
	badName = ignore
	badTimezone = ignore
	duplicateEntries = ignore
	emptyName = ignore
	extraHeaderEntry = ignore
	fullPathname = ignore
	missingEmail = ignore
	missingNameBeforeEmail = ignore
	missingSpaceBeforeDate = ignore
	missingSpaceBeforeEmail = ignore
	missingTaggerEntry = ignore
	multipleAuthors = ignore
	nulInCommit = ignore
	treeNotSorted = ignore
	zeroPaddedDate = ignore
	zeroPaddedFilemode = ignore
";

/// Age at which a lock is stale: no git of remand holds one for longer than this beyond its time
/// limit.
const STALE: Duration = Duration::from_secs(600);

/// Age at which the lock of a ref is stale.
///
/// A ref is locked only for a moment, when all its objects are there. If a process does hold it for
/// longer, git reports an error to that process, which tries again.
const STALE_REF: Duration = Duration::from_secs(20);

impl Remote {
    /// Creates or fixes the bare clone: afterwards its configuration is remand's, and locks left by
    /// a killed git are gone. Called before each use; if nothing changed, it costs a few file
    /// system reads.
    #[expect(
        clippy::unused_async,
        reason = "same form as the other operations, which are async"
    )]
    pub(crate) async fn ready(&self) -> Result<()> {
        let dir = self.path();
        if self.check().is_err() {
            crash_point!("ready.before");
            self.make()?;
            crash_point!("ready.after");
            self.check()?;
        }
        let aged = STALE + self.reach.limit;
        for name in ["shallow.lock", "HEAD.lock", "config.lock"] {
            remove_stale(&dir.join(name), aged)?;
        }
        remove_stale(&dir.join("packed-refs.lock"), STALE_REF)?;
        for lock in locks_below(&dir.join("refs"))? {
            remove_stale(&lock, STALE_REF)?;
        }
        Ok(())
    }

    fn make(&self) -> Result<()> {
        let dir = self.path();
        if dir.symlink_metadata().is_ok_and(|meta| !meta.is_dir()) {
            return Err(self.not_ready());
        }
        for folder in ["objects/info", "refs"].map(|name| dir.join(name)) {
            let mut builder = fs::DirBuilder::new();
            let made = builder.recursive(true).mode(0o700).create(&folder);
            made.map_err(RemoteError::file("make", &folder))?;
        }
        remove(&dir.join("objects/info/alternates"))?;
        // HEAD comes last: without it git sees no repository.
        for (name, text) in [("config", CONFIG), ("HEAD", HEAD)] {
            replace(&dir.join(name), text)?;
            crash_point!("ready.{name}.written");
        }
        Ok(())
    }

    /// Checks, before credentials are used, that this is the clone that remand made and that its
    /// configuration is unmodified.
    pub(super) fn check(&self) -> Result<()> {
        let dir = self.path();
        let reads = |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default();
        let is_folder = dir.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        let is_ours = reads("config") == CONFIG && reads("HEAD") == HEAD;
        let borrows = ["objects/info/alternates", "commondir", "config.worktree"]
            .iter()
            .any(|name| dir.join(name).symlink_metadata().is_ok());
        if is_folder && is_ours && !borrows {
            Ok(())
        } else {
            Err(self.not_ready())
        }
    }

    fn not_ready(&self) -> RemoteError {
        let path = self.path().to_owned();
        RemoteError::NotReady { path }
    }
}

/// Replaces a file atomically. The temporary name is unique, since two processes may do it
/// concurrently.
fn replace(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension(format!("new-{}", Uuid::new_v4()));
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(&new);
    file.and_then(|mut file| {
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
    })
    .map_err(RemoteError::file("write", &new))?;
    fs::rename(&new, path).map_err(RemoteError::file("replace", path))
}

fn locks_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut locks = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            // Git removes ref directories that have become empty.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(RemoteError::file("read", &folder)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(RemoteError::file("read", &folder))?;
            let path = entry.path();
            let kind = entry.file_type();
            if kind.map_err(RemoteError::file("inspect", &path))?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "lock") {
                locks.push(path);
            }
        }
    }
    Ok(locks)
}

fn remove_stale(lock: &Path, aged: Duration) -> Result<()> {
    if is_older(lock, aged) {
        remove(lock)
    } else {
        Ok(())
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(RemoteError::file("remove", path)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
