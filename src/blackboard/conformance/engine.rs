//! The database under the cases: SQLite, in a folder that vanishes. The only file of the suite that knows it, and the
//! only one with SQL.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rusqlite::types::ValueRef;
use tempfile::TempDir;

use crate::blackboard::{Conn, Result, SyncDb};
use crate::clock::Time;
use crate::finding::FindingId;

/// A blackboard for one case.
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

    /// One transaction, kept unless the step fails.
    pub(in crate::blackboard) fn write<T>(
        &mut self,
        step: impl FnOnce(&Conn) -> Result<T>,
    ) -> Result<T> {
        self.board.write("conformance", step)
    }

    pub(in crate::blackboard) fn read<T>(&mut self, look: impl FnOnce(&Conn) -> Result<T>) -> T {
        self.board.read(look).unwrap()
    }

    /// What a person types who appends an event by hand.
    pub(in crate::blackboard) fn by_hand(
        &mut self,
        event_type: &str,
        target: (&str, &str),
        summary: &str,
    ) -> i64 {
        self.write(|conn| {
            conn.execute(
                "INSERT INTO events (event_type, target_type, target_id, summary) VALUES (?1, ?2, ?3, ?4)",
                [event_type, target.0, target.1, summary],
            )?;
            Ok(conn.last_insert_rowid())
        })
        .unwrap()
    }

    /// The database itself refuses it, with a word that says why.
    pub(in crate::blackboard) fn refuses(&mut self, forbidden: Forbidden) {
        let (sql, says) = forbidden.by_hand();
        let error = self
            .write(|conn| Ok(conn.execute_batch(sql)?))
            .expect_err("this must be refused");
        let said = std::error::Error::source(&error)
            .map_or_else(|| error.to_string(), ToString::to_string);
        assert!(said.contains(says), "{said}");
    }

    /// A person waives a finding.
    pub(in crate::blackboard) fn waive(&mut self, id: &FindingId) {
        self.write(|conn| {
            conn.execute(
                "UPDATE findings SET outcome = 'waived' WHERE finding_id = ?1",
                [id.as_str()],
            )?;
            Ok(())
        })
        .unwrap();
    }

    /// The change has a pull request.
    pub(in crate::blackboard) fn with_pr(&mut self, number: i64) {
        self.write(|conn| {
            conn.execute("UPDATE changes SET pr_number = ?1 + rowid", [number])?;
            Ok(())
        })
        .unwrap();
    }

    /// Everything that is stored.
    pub(in crate::blackboard) fn image(&mut self) -> Image {
        self.read(|conn| Ok(image(conn)))
    }

    /// The rows that are not as they were.
    pub(in crate::blackboard) fn changed_since(&mut self, before: &Image) -> Vec<String> {
        self.image().symmetric_difference(before).cloned().collect()
    }
}

/// What nobody may do, not even by hand.
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

/// Every row of every table, a line each.
pub(in crate::blackboard) type Image = BTreeSet<String>;

pub(in crate::blackboard) fn image(conn: &Conn) -> Image {
    let mut tables = conn
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        .unwrap();
    let names: Vec<String> = tables
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(std::result::Result::unwrap)
        .collect();
    let mut image = Image::new();
    for name in names {
        let mut rows = conn
            .prepare(&format!("SELECT * FROM \"{name}\" ORDER BY 1"))
            .unwrap();
        let columns = rows.column_count();
        let mut rows = rows.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let mut text = name.clone();
            for column in 0..columns {
                text.push('|');
                text.push_str(&match row.get_ref(column).unwrap() {
                    ValueRef::Null => "null".into(),
                    ValueRef::Integer(n) => n.to_string(),
                    ValueRef::Real(x) => x.to_string(),
                    ValueRef::Text(t) | ValueRef::Blob(t) => {
                        String::from_utf8_lossy(t).into_owned()
                    }
                });
            }
            image.insert(text);
        }
    }
    image
}
