//! Finds a row by what a person typed, and returns pages of events, for read-only commands.

use crate::blackboard::sql::{Connection, FromRow as _, params};
use crate::blackboard::{BoardError, OpenFinding, PastReview, Result, events, from_row};
use crate::change::ChangeId;
use crate::event::Event;
use crate::finding::{FindingId, ReviewId};
use crate::work::{Rejection, RejectionId, RunId};

pub(crate) fn review(conn: &Connection, id: &ReviewId) -> Result<(ChangeId, PastReview)> {
    conn.optional(
        "SELECT * FROM reviews WHERE review_id = :id",
        params! { id },
        |row| Ok((row.get("change_id")?, PastReview::from_row(row)?)),
    )?
    .ok_or_else(|| BoardError::not_found("review", id))
}

pub(crate) fn finding(conn: &Connection, id: &FindingId) -> Result<(ChangeId, OpenFinding)> {
    conn.optional(
        "SELECT * FROM findings WHERE finding_id = :id",
        params! { id },
        |row| Ok((row.get("change_id")?, OpenFinding::from_row(row)?)),
    )?
    .ok_or_else(|| BoardError::not_found("finding", id))
}

pub(crate) fn rejection(conn: &Connection, id: &RejectionId) -> Result<Rejection> {
    conn.find(
        from_row::select_rejections!("WHERE j.rejection_id = :id"),
        params! { id },
    )?
    .ok_or_else(|| BoardError::not_found("rejection", id))
}

/// Returns the rejection that a `work_rejected` event became, if it did.
pub(crate) fn rejection_of_event(conn: &Connection, event_id: i64) -> Result<Option<Rejection>> {
    conn.find(
        from_row::select_rejections!("WHERE j.event_id = :id"),
        params! { id: event_id },
    )
}

/// Returns the newest run of a change.
pub(crate) fn last_run_of_change(conn: &Connection, id: &ChangeId) -> Result<Option<RunId>> {
    conn.find(
        "SELECT run_id FROM runs WHERE change_id = :id ORDER BY length(run_id) DESC, run_id DESC LIMIT 1",
        params! { id },
    )
}

/// Returns the newest events of all, oldest first.
pub(crate) fn newest_events(conn: &Connection, limit: i64) -> Result<Vec<Event>> {
    events::newest(
        conn,
        "SELECT * FROM events ORDER BY id DESC LIMIT :limit",
        params! { limit },
    )
}

/// Returns the number of items being run.
pub(crate) fn claimed_items(conn: &Connection) -> Result<usize> {
    let count: i64 = conn.value(
        "SELECT count(*) FROM work_items WHERE status = 'claimed'",
        &[],
    )?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Returns candidates for a mistyped name: ids, branches and worktrees of changes, newest first.
pub(crate) fn change_names(conn: &Connection) -> Result<Vec<[String; 3]>> {
    conn.all(
        "SELECT change_id, branch, worktree FROM changes ORDER BY created_at DESC, rowid DESC LIMIT 500",
        &[],
        |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]),
    )
}
