//! The database used by the cases: SQLite, in a temporary directory. The only file of the suite
//! that knows the database, and the only one with SQL.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::blackboard::sql::params;
use crate::blackboard::{Conn, Result, SyncDb};
use crate::change::{ChangeId, State};
use crate::clock::Time;
use crate::finding::FindingId;

/// Blackboard for one case.
pub(in crate::blackboard) struct Engine {
    folder: TempDir,
    board: SyncDb,
}

impl Engine {
    pub(in crate::blackboard) fn fresh() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let board =
            SyncDb::open(&folder.path().join("blackboard.db"), Time::from_millis(0)).unwrap();
        Self { folder, board }
    }

    pub(in crate::blackboard) fn path(&self) -> PathBuf {
        self.folder.path().join("blackboard.db")
    }

    /// Runs one transaction, which is committed unless the step fails.
    pub(in crate::blackboard) fn write<T>(
        &mut self,
        step: impl FnOnce(&Conn) -> Result<T>,
    ) -> Result<T> {
        self.board.write("conformance", step)
    }

    /// Runs one transaction that may leave rows which refer to deleted ones.
    pub(in crate::blackboard) fn write_unlinked<T>(
        &mut self,
        step: impl FnOnce(&Conn) -> Result<T>,
    ) -> Result<T> {
        self.board.write_unlinked("conformance", step)
    }

    pub(in crate::blackboard) fn read<T>(&mut self, look: impl FnOnce(&Conn) -> Result<T>) -> T {
        self.board.read(look).unwrap()
    }

    /// Appends an event the way a person does by hand.
    pub(in crate::blackboard) fn by_hand(
        &mut self,
        event_type: &str,
        target: (&str, &str),
        summary: &str,
    ) -> i64 {
        self.write(|conn| {
            conn.insert(
                "INSERT INTO events (event_type, target_type, target_id, summary) VALUES (:type, :target_type, :id, :summary)",
                params! { type: event_type, target_type: target.0, id: target.1, summary },
            )
        })
        .unwrap()
    }

    /// Asserts that the database itself refuses a statement, and that its message contains the
    /// expected word.
    pub(in crate::blackboard) fn refuses(&mut self, forbidden: Forbidden) {
        let (sql, says) = forbidden.by_hand();
        let error = self
            .write(|conn| conn.execute_batch(sql))
            .expect_err("this must be refused");
        let said = std::error::Error::source(&error)
            .map_or_else(|| error.to_string(), ToString::to_string);
        assert!(said.contains(says), "{said}");
    }

    /// Adds a table that refers to changes, as a person may.
    pub(in crate::blackboard) fn add_table(&mut self) {
        let sql = "CREATE TABLE notes (text TEXT, change_id TEXT REFERENCES Changes (change_id))";
        self.write(|conn| conn.execute_batch(sql)).unwrap();
    }

    /// Waives a finding, as a person does.
    pub(in crate::blackboard) fn waive(&mut self, id: &FindingId) {
        self.write(|conn| {
            conn.run(
                "UPDATE findings SET outcome = 'waived' WHERE finding_id = :id",
                params! { id },
            )
        })
        .unwrap();
    }

    /// Puts a change into a state, as no decision could.
    pub(in crate::blackboard) fn place(&mut self, id: &ChangeId, state: State) {
        self.write(|conn| {
            conn.run(
                "UPDATE changes SET state = :state, escalated_from = CASE WHEN :state = 'escalated' THEN 'self_review_failed' END
                 WHERE change_id = :id",
                params! { state, id },
            )
        })
        .unwrap();
    }

    /// Makes the worktree of a change one of remand's own.
    pub(in crate::blackboard) fn owned(&mut self, id: &ChangeId) {
        self.write(|conn| {
            conn.run(
                "UPDATE changes SET own_worktree = 1 WHERE change_id = :id",
                params! { id },
            )
        })
        .unwrap();
    }

    /// Gives the change a pull request.
    pub(in crate::blackboard) fn with_pr(&mut self, number: i64) {
        self.write(|conn| {
            conn.run(
                "UPDATE changes SET pr_number = :number + rowid",
                params! { number },
            )
        })
        .unwrap();
    }

    /// Returns everything that is stored.
    pub(in crate::blackboard) fn image(&mut self) -> Image {
        self.read(|conn| Ok(image(conn)))
    }

    /// Returns the rows that differ.
    pub(in crate::blackboard) fn changed_since(&mut self, before: &Image) -> Vec<String> {
        self.image().symmetric_difference(before).cloned().collect()
    }
}

/// Statements that nobody may run, not even by hand.
#[derive(Debug, Clone, Copy)]
pub(in crate::blackboard) enum Forbidden {
    ChangeAnEvent,
    DeleteAnEvent,
    UnknownEventType,
    MoreFixesInARound,
    MoreFixesInALife,
    ClaimAllAtOnce,
}

impl Forbidden {
    fn by_hand(self) -> (&'static str, &'static str) {
        match self {
            Self::ChangeAnEvent => ("UPDATE events SET summary = 'otherwise'", "append another one"),
            Self::DeleteAnEvent => ("DELETE FROM events", "never deleted"),
            Self::UnknownEventType => (
                "INSERT INTO events (event_type, target_type, target_id, summary)
                 VALUES ('work_rejektet', 'change', 'c1', 'x')",
                "unknown event_type",
            ),
            Self::MoreFixesInARound => ("UPDATE changes SET fix_cycle = max_fix_cycles + 1", "fix_cycle"),
            Self::MoreFixesInALife => ("UPDATE changes SET total_fixes = max_total_fixes + 1", "total_fixes"),
            Self::ClaimAllAtOnce => (
                "UPDATE work_items SET status = 'claimed', claimed_by = 'x', lease_expires_at = '2026-11-16T08:00:00.000Z'
                 WHERE status = 'available'",
                "work_items.worktree",
            ),
        }
    }
}

/// Opens a database file without any checks.
#[expect(clippy::disallowed_methods, reason = "not opened as a blackboard")]
pub(in crate::blackboard) fn bare(path: &Path) -> Conn {
    Conn::new(rusqlite::Connection::open(path).unwrap())
}

/// Every row of every table, one line per row.
pub(in crate::blackboard) type Image = BTreeSet<String>;

pub(in crate::blackboard) fn image(conn: &Conn) -> Image {
    let names: Vec<String> = conn
        .all(
            "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name",
            &[],
            |row| row.get(0),
        )
        .unwrap();
    let of_table = |name: &String| {
        let cell = |column: &str| format!("coalesce({column}, 'null')");
        let rows = rows_of(conn, name, cell, "|").into_iter();
        rows.map(|row| format!("{name}|{row}")).collect::<Vec<_>>()
    };
    names.iter().flat_map(of_table).collect()
}

/// Returns the rows of a table, one line each, without computed columns, which cannot be inserted.
pub(in crate::blackboard) fn rows_of(
    conn: &Conn,
    table: &str,
    cell: impl Fn(&str) -> String,
    between: &str,
) -> Vec<String> {
    let columns: Vec<String> = conn
        .all(
            "SELECT name FROM pragma_table_info(:table)",
            params! { table },
            |row| Ok(cell(&format!("\"{}\"", row.get::<String>(0)?))),
        )
        .unwrap();
    let columns = columns.join(&format!(" || '{between}' || "));
    let sql = format!("SELECT {columns} FROM \"{table}\"");
    conn.all(sql.leak(), &[], |row| row.get(0)).unwrap()
}
