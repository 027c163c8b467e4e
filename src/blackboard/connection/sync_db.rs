//! Access to the blackboard for a program that runs one command and exits: no threads.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{db_thread, open};
use crate::blackboard::Result;
use crate::blackboard::sql::{Begin, Connection};
use crate::clock::Time;
use crate::failpoint::crash_point;

/// Size of a large page cache, in KiB if negative: 64 MiB.
const LARGE_CACHE: &str = "-65536";

/// Connection for one command.
pub(crate) struct SyncDb {
    path: PathBuf,
    conn: Connection,
}

impl SyncDb {
    pub(crate) fn open(path: &Path, now: Time) -> Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            conn: open::writer(path, now)?,
        })
    }

    /// Creates an empty blackboard in memory, for queries where there is no file.
    pub(crate) fn empty(now: Time) -> Result<Self> {
        Ok(Self {
            path: PathBuf::new(),
            conn: open::empty(now)?,
        })
    }

    /// True if there is no file.
    pub(crate) fn is_nowhere(&self) -> bool {
        self.path.as_os_str().is_empty()
    }

    /// Creates a copy in memory, to see what would be written. The file is not changed.
    pub(crate) fn copy_of(path: &Path, now: Time) -> Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            conn: open::copy(path, now)?,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs one immediate transaction: everything that `step` writes is committed, or nothing.
    pub(crate) fn write<T>(
        &mut self,
        name: &str,
        step: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        let tx = self.conn.begin(Begin::Write)?;
        let value = step(&tx)?;
        crash_point!("commit.{name}.before");
        tx.commit()?;
        crash_point!("commit.{name}.after");
        Ok(value)
    }

    /// Like [`Self::write`], without checking foreign keys: rows may refer to deleted ones until a
    /// later transaction deletes them too.
    pub(crate) fn write_unlinked<T>(
        &mut self,
        name: &str,
        step: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        self.pragma("foreign_keys", "off")?;
        let written = self.write(name, step);
        self.pragma("foreign_keys", "on")?;
        written
    }

    /// Like [`Self::write_unlinked`], for a step that may be undone by a power cut, because it will
    /// be repeated then: the commit does not wait for the disk.
    pub(crate) fn write_repeatable<T>(
        &mut self,
        name: &str,
        step: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        self.pragma("synchronous", "normal")?;
        let written = self.write_unlinked(name, step);
        self.pragma("synchronous", "full")?;
        written
    }

    /// Uses more memory, for a command that writes many pages.
    pub(crate) fn use_large_cache(&mut self) -> Result<()> {
        // Pages as they were before a statement; otherwise in a temporary file.
        self.pragma("temp_store", "memory")?;
        self.pragma("cache_size", LARGE_CACHE)
    }

    fn pragma(&self, name: &str, value: &str) -> Result<()> {
        Ok(self.conn.sqlite().pragma_update(None, name, value)?)
    }

    /// Pauses between two of many writes for at least this long, so that other processes get their
    /// turn.
    pub(crate) fn breathe(&self, pause: Duration) {
        db_thread::breathe(pause.max(db_thread::BREATH));
    }

    /// Returns the space of deleted rows to the disk. Nobody else can write meanwhile.
    pub(crate) fn vacuum(&mut self) -> Result<()> {
        self.conn.execute_batch("VACUUM")?;
        // VACUUM goes through the log, which would otherwise stay as large as the whole database.
        self.conn
            .one("PRAGMA wal_checkpoint(TRUNCATE)", &[], |_| Ok(()))
    }

    /// Runs a query on one consistent view.
    pub(crate) fn read<T>(&mut self, look: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let tx = self.conn.begin(Begin::Read)?;
        let value = look(&tx)?;
        tx.roll_back()?;
        Ok(value)
    }
}
