//! The blackboard for a program that runs one command and ends: no threads.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{db_thread, open};
use crate::blackboard::Result;
use crate::blackboard::sql::{Begin, Connection};
use crate::clock::Time;
use crate::failpoint::crash_point;

/// One connection, for one command.
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

    /// One with nothing on it, which is nowhere: for a look where there is none.
    pub(crate) fn empty(now: Time) -> Result<Self> {
        Ok(Self {
            path: PathBuf::new(),
            conn: open::empty(now)?,
        })
    }

    /// Whether it is one that is nowhere.
    pub(crate) fn is_nowhere(&self) -> bool {
        self.path.as_os_str().is_empty()
    }

    /// A copy in memory, for a look at what would be written: nothing of the file is changed.
    pub(crate) fn copy_of(path: &Path, now: Time) -> Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            conn: open::copy(path, now)?,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// One immediate transaction: all that `step` writes is committed, or nothing.
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

    /// Between two of many writes: others get their turn, for so long or a little longer.
    pub(crate) fn breathe(&self, pause: Duration) {
        db_thread::breathe(pause.max(db_thread::BREATH));
    }

    /// Gives the space of what was deleted back to the disk. Nobody else can write meanwhile.
    pub(crate) fn vacuum(&mut self) -> Result<()> {
        self.conn.execute_batch("VACUUM")?;
        // It went through the log, which would stay as large as the whole.
        self.conn
            .one("PRAGMA wal_checkpoint(TRUNCATE)", &[], |_| Ok(()))
    }

    /// One consistent look.
    pub(crate) fn read<T>(&mut self, look: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let tx = self.conn.begin(Begin::Read)?;
        let value = look(&tx)?;
        tx.roll_back()?;
        Ok(value)
    }
}
