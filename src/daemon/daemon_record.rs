//! A description of the running daemon for the other commands, in a file beside the blackboard.
//!
//! The daemon's own entry in `/proc` is closed to other processes, so that they can't look there. A record is valid only
//! while the process that wrote it holds the lock; one that is left over belongs to a daemon that was killed.

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
    /// Whether systemd started it.
    pub(crate) supervised: bool,
    pub(crate) program: PathBuf,
    /// Device and inode of the running file: another file at `program` has others, since this one is in use.
    file: (u64, u64),
    /// Since when the daemon could give no sign of life, while it can't: systemd's watchdog ends it soon.
    #[serde(default)]
    pub(crate) silent_since: Option<Time>,
}

/// The record of this daemon on the disk. Removed when the daemon stops in order.
pub(super) struct Recorded {
    record: Record,
    path: PathBuf,
}

impl Recorded {
    /// Takes no part in the work, so that it also succeeds while the blackboard does not answer.
    pub(super) fn set_silent(&self, since: Option<Time>) {
        let record = Record {
            silent_since: since,
            ..self.record.clone()
        };
        if let Err(error) = record.write(&self.path) {
            tracing::warn!(error = ?error, path = %self.path.display(), "the daemon's record can't be written");
        }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        // What is left describes a dead process, which every reader notices.
        drop(fs::remove_file(&self.path));
    }
}

impl Record {
    /// Describes this process.
    pub(super) fn own(supervised: bool) -> anyhow::Result<Self> {
        let program = program::path()?;
        let running = program::running()?;
        let file = fs::metadata(&running)
            .with_context(|| format!("cannot look at {}", running.display()))?;
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

    /// Writes it for the blackboard whose lock this process holds.
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

    /// The record of the daemon that runs on this blackboard. None also for one of a version without records.
    pub(crate) fn of_running(blackboard: &Path) -> Option<Self> {
        let pid = lock::holder(blackboard)?;
        Self::read(blackboard).filter(|record| record.pid.to_string() == pid)
    }

    /// The record that the last daemon left behind, for the next one, which holds the lock: it was killed.
    pub(super) fn left_over(blackboard: &Path) -> Option<Self> {
        Self::read(blackboard)
    }

    fn read(blackboard: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(path(blackboard)).ok()?).ok()
    }

    /// Whether the file that it was started from is another one now, or gone.
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
