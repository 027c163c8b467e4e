//! Converts rows to domain types, by column name. Text outside a closed set is an error.

use serde::Deserialize as _;
use serde_json::Value;

use super::Result;
use super::sql::{self, Connection, FromRow, Json, Lossy, Row, columns, impl_from_row, params};
use crate::change::{Budget, Change, ChangeId};
use crate::event::Event;
use crate::event::body::WorkRejected;
use crate::work::{Item, Rejection, Run};

/// Returns the next id of a kind: `c1`, `w1`, … It is allocated inside the transaction that uses
/// it, so a rollback does not lose one.
pub(super) fn next_id(conn: &Connection, letter: &str) -> Result<String> {
    let value: i64 = conn.value(
        "INSERT INTO counters (name, value) VALUES (:name, 1)
         ON CONFLICT (name) DO UPDATE SET value = value + 1
         RETURNING value",
        params! { name: letter },
    )?;
    Ok(format!("{letter}{value}"))
}

// Other programs append events too, and events cannot be withdrawn: anything that the schema let
// through is never an error here, or one malformed event would block all later ones.
impl_from_row! { row => Event {
    id, timestamp, event_type, target_type,
    actor_id: row.get::<Lossy>("actor_id")?.0,
    target_id: row.get::<Lossy>("target_id")?.0,
    change_id: row
        .get::<Option<Lossy>>("change_id")?
        .map(|id| ChangeId::new(id.0)),
    summary: row.get::<Lossy>("summary")?.0,
    metadata: foreign_json(row, "metadata")?,
} }

// In the order of the columns, which is the fastest.
impl_from_row! { row => Change {
    change_id, project_id, title, branch, base, head, worktree, host, pr_number, state,
    escalated_from, on_max_cycles,
    budget: columns! { row => Budget {
        fix_cycle, max_fix_cycles, total_fixes, max_total_fixes, run_ms, max_run_ms, tokens,
        max_tokens, cost_micros, max_cost_micros, own_max_fix_cycles, added_fix_cycles,
    } },
    paused_by_person, paused_by_rules, stopped, shadow_word, shadow, held_until,
    hold_reason, holds, final_verdict, human_review_required, decision, implementation_item_id,
    adopted_by, own_worktree, setup_done, auto_fix, created_at, updated_at, last_hold,
    hold_repeats, first_hold_at, shadow_mode, detached,
    // A list that somebody changed by hand must not hide the board.
    decision_commands: serde_json::from_value(row.get::<Json<_>>("decision_commands")?.0).unwrap_or_default(),
    hold_kind, review, auto_review, opens_pr, waits_for, auto_address, skip_tests, notify_ready, completed_at,
    taken_over, paused,
} }

impl_from_row! { row => Item {
    item_id, project_id, change_id, rejection_id, title, source, status, priority, fix_cycle,
    worktree, claimed_by, epoch, attempt, lease_expires_at, not_before, created_at,
    completed_at, failure_reason, gate_rounds, lost_runs, asked_again, metadata,
} }

impl_from_row! { row => Run {
    run_id, item_id, change_id, epoch, agent, model, session, dir, head_before, head_after,
    started_at, ended_at, ended, exit_status, gates, gate_output, gate_rules, rebased_onto,
    refused, discarded, tokens, cost_micros,
} }

/// Query for rejections joined with their events, as [`Rejection`] is read; the condition follows.
macro_rules! select_rejections {
    ($which:literal) => {
        concat!(
            "SELECT j.*, e.actor_id, e.summary, e.metadata FROM rejections j JOIN events e ON e.id = j.event_id ",
            $which
        )
    };
}
pub(super) use select_rejections;

impl FromRow for Rejection {
    fn from_row(row: &Row<'_>) -> sql::Result<Self> {
        let stored = foreign_json(row, "metadata")?;
        Ok(columns! { row => Self {
            rejection_id, event_id, change_id, state, item_id, reason, ended_by, by_person,
            by: row.get::<Lossy>("actor_id")?.0,
            summary: row.get::<Lossy>("summary")?.0,
            rejected: WorkRejected::deserialize(&stored).unwrap_or_default(),
            metadata: stored,
        } })
    }
}

/// Reads metadata from another program.
///
/// SQLite accepts some JSON that cannot be represented here (1e999, half a surrogate pair, very
/// deep nesting); the result then contains nothing but that fact.
fn foreign_json(row: &Row<'_>, column: &str) -> sql::Result<Value> {
    let text = row.get::<Lossy>(column)?.0;
    Ok(serde_json::from_str(&text)
        .unwrap_or_else(|error| serde_json::json!({ "unreadable": error.to_string() })))
}
