//! One daemon a blackboard: a lock that the kernel takes back from the dead, with the pid of its holder in it.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::fs::{FlockOperation, flock};

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

pub(crate) fn take(blackboard: &Path) -> anyhow::Result<Lock> {
    let path = beside(blackboard, "lock");
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if error != rustix::io::Errno::WOULDBLOCK {
            return Err(error).with_context(|| format!("cannot lock {}", path.display()));
        }
        let mut pid = String::new();
        // What can't be read is not known; the refusal stands either way.
        drop(file.read_to_string(&mut pid));
        let pid = if pid.trim().is_empty() { "unknown".into() } else { pid.trim().to_owned() };
        return Err(AlreadyRunning { path: blackboard.to_owned(), pid }.into());
    }
    let written = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .and_then(|()| file.flush());
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Lock { _file: file })
}
