//! Description of the running daemon for the other commands, in a file beside the blackboard.
//!
//! Other processes cannot look into `/proc` for it, since the daemon's own entry is closed to them.
//! A record is valid only while the process that wrote it holds the lock; a leftover one belongs to
//! a daemon that was killed.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::{lock, program};
use crate::clock::{self, Time};
use crate::wake::beside;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) pid: u32,
    pub(crate) version: String,
    pub(crate) started_at: Time,
    /// True if systemd started it.
    pub(crate) supervised: bool,
    pub(crate) program: PathBuf,
    /// Device and inode of the running file. A different file at `program` has other numbers, since
    /// this one is in use.
    file: (u64, u64),
    /// Start of the current period without a notification to the watchdog, if any: systemd will end
    /// the daemon soon.
    #[serde(default)]
    pub(crate) silent_since: Option<Time>,
}

/// Record of this daemon on disk. Removed when the daemon shuts down cleanly.
pub(super) struct Recorded {
    record: Record,
    path: PathBuf,
}

impl Recorded {
    /// Records the start or the end of such a period. Does not use the blackboard, so that it
    /// succeeds even while the blackboard does not respond.
    pub(super) fn set_silent(&self, since: Option<Time>) {
        let record = Record {
            silent_since: since,
            ..self.record.clone()
        };
        if let Err(error) = record.write(&self.path) {
            tracing::warn!(error = ?error, path = %self.path.display(), "cannot write the daemon's state file");
        }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        // A leftover file describes a dead process, which every reader notices.
        drop(fs::remove_file(&self.path));
    }
}

impl Record {
    /// Describes this process.
    pub(super) fn own(supervised: bool) -> anyhow::Result<Self> {
        let program = program::path()?;
        let running = program::running()?;
        let file = fs::metadata(&running)
            .with_context(|| format!("cannot read the metadata of {}", running.display()))?;
        Ok(Self {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: clock::now(),
            supervised,
            program,
            file: (file.dev(), file.ino()),
            silent_since: None,
        })
    }

    /// Writes the record for the blackboard whose lock this process holds.
    pub(super) fn publish(self, blackboard: &Path) -> anyhow::Result<Recorded> {
        let path = path(blackboard);
        self.write(&path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Recorded { record: self, path })
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let new = path.with_extension("daemon.new");
        fs::write(&new, serde_json::to_vec(self)?)?;
        fs::rename(&new, path)
    }

    /// Returns the record of the daemon that runs on this blackboard. `None` also if the version of
    /// that daemon has no records.
    pub(crate) fn of_running(blackboard: &Path) -> Option<Self> {
        let pid = lock::holder(blackboard)?;
        Self::read(blackboard).filter(|record| record.pid.to_string() == pid)
    }

    /// Returns the record left by a killed daemon, for the next one, which holds the lock.
    pub(super) fn left_over(blackboard: &Path) -> Option<Self> {
        Self::read(blackboard)
    }

    fn read(blackboard: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(path(blackboard)).ok()?).ok()
    }

    /// True if the file that the daemon was started from was replaced or removed.
    pub(crate) fn is_replaced(&self) -> bool {
        match fs::metadata(&self.program) {
            Ok(there) => (there.dev(), there.ino()) != self.file,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}

fn path(blackboard: &Path) -> PathBuf {
    beside(blackboard, "daemon")
}
