//! Transactions and savepoints: writes that are not committed are rolled back when the guard is
//! dropped.

use std::ops::Deref;

use super::Connection;
use crate::blackboard::Result;

/// Kind of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// One consistent view.
    Read,
    /// Takes the write lock immediately.
    Write,
}

/// Open transaction.
pub(crate) struct Tx<'c> {
    conn: &'c Connection,
}

/// Part of a transaction that can be rolled back separately.
pub(crate) struct Savepoint<'c> {
    conn: &'c Connection,
    is_open: bool,
}

impl Connection {
    pub(crate) fn begin(&mut self, begin: Begin) -> Result<Tx<'_>> {
        self.execute_batch(match begin {
            Begin::Read => "BEGIN DEFERRED",
            Begin::Write => "BEGIN IMMEDIATE",
        })?;
        Ok(Tx { conn: self })
    }

    pub(crate) fn savepoint(&self) -> Result<Savepoint<'_>> {
        self.run("SAVEPOINT part", &[])?;
        Ok(Savepoint {
            conn: self,
            is_open: true,
        })
    }

    /// True if a transaction is open. Some errors (a full disk, for example) make SQLite roll back
    /// everything, not only the statement.
    pub(crate) fn is_in_transaction(&self) -> bool {
        !self.sqlite.is_autocommit()
    }
}

impl Tx<'_> {
    pub(crate) fn commit(self) -> Result<()> {
        self.conn.execute_batch("COMMIT")
    }

    pub(crate) fn roll_back(self) -> Result<()> {
        self.undo()
    }

    fn undo(&self) -> Result<()> {
        if self.conn.is_in_transaction() {
            self.conn.execute_batch("ROLLBACK")?;
        }
        Ok(())
    }
}

impl Savepoint<'_> {
    pub(crate) fn commit(mut self) -> Result<()> {
        self.is_open = false;
        self.conn.run("RELEASE part", &[])
    }

    pub(crate) fn roll_back(mut self) -> Result<()> {
        self.undo()
    }

    fn undo(&mut self) -> Result<()> {
        self.is_open = false;
        self.conn.run("ROLLBACK TO part", &[])?;
        self.conn.run("RELEASE part", &[])
    }
}

impl Drop for Tx<'_> {
    fn drop(&mut self) {
        // Nothing of it is kept either way, and the next transaction meets the same error.
        drop(self.undo());
    }
}

impl Drop for Savepoint<'_> {
    fn drop(&mut self) {
        if self.is_open && self.conn.is_in_transaction() {
            // The error that led here ends the surrounding transaction.
            drop(self.undo());
        }
    }
}

impl Deref for Tx<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.conn
    }
}
