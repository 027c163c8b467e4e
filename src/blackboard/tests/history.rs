//! Blackboard with a long history, created with SQL, since the module's functions would take
//! minutes.

use std::path::PathBuf;

use crate::blackboard::conformance::story::{new_change, project};
use crate::blackboard::connection::open;
use crate::blackboard::{self as bb, Conn};
use crate::clock::Time;

pub(super) struct Past {
    _folder: tempfile::TempDir,
    pub(super) conn: Conn,
}

pub(super) fn now() -> Time {
    Time::parse("2026-11-16T08:00:00.000Z").unwrap()
}

impl Past {
    /// Creates `n` finished changes, each with an item, a run, a review, a finding, a rejection and
    /// four events.
    pub(super) fn of(n: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join("blackboard.db");
        let conn = open::writer(&path, now()).unwrap();
        conn.sqlite()
            .pragma_update(None, "synchronous", "off")
            .unwrap();
        bb::insert_project(&conn, &project(now())).unwrap();
        conn.execute_batch(&format!(
            "BEGIN;
             CREATE TEMP TABLE n AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n}) SELECT i FROM n;
             INSERT INTO changes (change_id, project_id, title, branch, base, head, worktree, host, state, max_fix_cycles,
                 max_total_fixes, max_run_ms, created_at, updated_at)
             SELECT 'h' || i, 'shop', 'old', 'b' || i, 'main', 'x', '/old/' || i, 'laptop', iif(i % 2, 'merged', 'closed'), 2, 8, 1000,
                 '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z' FROM n;
             INSERT INTO events (timestamp, event_type, actor_id, target_type, target_id, change_id, summary)
             SELECT '2026-01-01T00:00:00.000Z', t.value, 'remand', 'change', 'h' || i, 'h' || i, 'old'
             FROM n, json_each('[\"work_rejected\", \"work_approved\", \"work_created\", \"skipped\"]') t ORDER BY i;
             INSERT INTO work_items (item_id, project_id, change_id, title, source, status, idempotency_key, worktree, created_at, completed_at)
             SELECT 'hw' || i, 'shop', 'h' || i, 'old', 'code_review', iif(i % 9, 'completed', 'cancelled'), 'h' || i, '/old/' || i,
                 '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z' FROM n;
             INSERT INTO runs (run_id, item_id, change_id, worktree, epoch, agent, dir, head_before, started_at, ended_at, ended)
             SELECT 'hr' || i, 'hw' || i, 'h' || i, '/old/' || i, 1, 'a', '', 'x', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z', 'agent' FROM n;
             INSERT INTO reviews (review_id, change_id, item_id, cycle, head, base, tree, files, lines, verdict, dialect, reason, body, blocking, agent, created_at)
             SELECT 'hv' || i, 'h' || i, 'hw' || i, 0, 'x', 'y', 't', '[]', 1, 'approved', 'plain', '', '', '[]', 'a', '2026-01-01T00:00:00.000Z' FROM n;
             INSERT INTO findings (finding_id, change_id, fingerprint, severity, category, text, outcome, first_review, last_review)
             SELECT 'hf' || i, 'h' || i, 'p', 'low', 'style', 't', 'resolved', 'hv' || i, 'hv' || i FROM n;
             INSERT INTO rejections (rejection_id, event_id, change_id, state, by_person, reason)
             SELECT 'hj' || i, i * 4 - 3, 'h' || i, 'skipped', 0, 'old' FROM n;
             INSERT INTO evaluators (name, cursor) VALUES ('review_feedback', {n} * 4);
             COMMIT;"
        ))
        .unwrap();
        Self {
            _folder: folder,
            conn,
        }
    }

    /// Adds `n` live changes with one review each. `columns` and `values` set its status,
    /// not_before, priority and so on.
    pub(super) fn with_reviews(self, n: usize, columns: &str, values: &str) -> Self {
        self.conn
            .execute_batch(&format!(
                "BEGIN;
                 CREATE TEMP TABLE m AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n}) SELECT i FROM n;
                 INSERT INTO changes (change_id, project_id, title, branch, base, head, worktree, host, state, max_fix_cycles,
                     max_total_fixes, max_run_ms, created_at, updated_at)
                 SELECT 'm' || i, 'shop', 'waits', 'm' || i, 'main', 'x', '/m/' || i, 'laptop', 'pending_self_review', 2, 8, 1000,
                     '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z' FROM m;
                 INSERT INTO work_items (item_id, project_id, change_id, title, source, idempotency_key, worktree, created_at, {columns})
                 SELECT 'mw' || i, 'shop', 'm' || i, 'waits', 'code_review', 'm' || i, '/m/' || i, '2026-01-01T00:00:00.000Z', {values} FROM m;
                 DROP TABLE m;
                 COMMIT;"
            ))
            .unwrap();
        self
    }

    /// Adds one new change whose review can be claimed.
    pub(super) fn with_one_ready(self) -> Self {
        let change = bb::insert_change(&self.conn, &new_change(1), now()).unwrap();
        bb::insert_item(
            &self.conn,
            &change,
            &bb::review_item(&change, "ready".into(), "tester"),
            now(),
        )
        .unwrap();
        self
    }
}
