//! Finding one row by what a person typed, and pages of events: what the commands that look need.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::blackboard::BoardError;
use crate::blackboard::OpenFinding;
use crate::blackboard::PastReview;
use crate::blackboard::Result;
use crate::blackboard::from_row;
use crate::blackboard::reviews::{finding_row, review_row};
use crate::change::ChangeId;
use crate::event::Event;
use crate::finding::{FindingId, ReviewId};
use crate::work::{Rejection, RejectionId, RunId};

pub(crate) fn review(conn: &Connection, id: &ReviewId) -> Result<(ChangeId, PastReview)> {
    conn.prepare_cached("SELECT * FROM reviews WHERE review_id = :id")?
        .query_row(named_params! { ":id": id.as_str() }, |row| {
            Ok((change_of(row)?, review_row(row)?))
        })
        .optional()?
        .ok_or_else(|| BoardError::NotFound {
            kind: "review",
            id: id.to_string(),
        })
}

pub(crate) fn finding(conn: &Connection, id: &FindingId) -> Result<(ChangeId, OpenFinding)> {
    conn.prepare_cached("SELECT * FROM findings WHERE finding_id = :id")?
        .query_row(named_params! { ":id": id.as_str() }, |row| {
            Ok((change_of(row)?, finding_row(row)?))
        })
        .optional()?
        .ok_or_else(|| BoardError::NotFound {
            kind: "finding",
            id: id.to_string(),
        })
}

pub(crate) fn rejection(conn: &Connection, id: &RejectionId) -> Result<Rejection> {
    conn.prepare_cached(
        "SELECT j.*, e.summary, e.metadata FROM rejections j JOIN events e ON e.id = j.event_id
         WHERE j.rejection_id = :id",
    )?
    .query_row(named_params! { ":id": id.as_str() }, from_row::rejection)
    .optional()?
    .ok_or_else(|| BoardError::NotFound {
        kind: "rejection",
        id: id.to_string(),
    })
}

/// What became of a `work_rejected` event, if it became a rejection.
pub(crate) fn rejection_of_event(conn: &Connection, event_id: i64) -> Result<Option<Rejection>> {
    Ok(conn
        .prepare_cached(
            "SELECT j.*, e.summary, e.metadata FROM rejections j JOIN events e ON e.id = j.event_id
             WHERE j.event_id = :id",
        )?
        .query_row(named_params! { ":id": event_id }, from_row::rejection)
        .optional()?)
}

/// The newest run of a change.
pub(crate) fn last_run_of_change(conn: &Connection, id: &ChangeId) -> Result<Option<RunId>> {
    Ok(conn
        .prepare_cached(
            "SELECT run_id FROM runs WHERE change_id = :id ORDER BY length(run_id) DESC, run_id DESC LIMIT 1",
        )?
        .query_row(named_params! { ":id": id.as_str() }, |row| row.get::<_, String>(0).map(RunId::new))
        .optional()?)
}

/// The newest events of all, oldest first.
pub(crate) fn newest_events(conn: &Connection, limit: i64) -> Result<Vec<Event>> {
    let mut statement =
        conn.prepare_cached("SELECT * FROM events ORDER BY id DESC LIMIT :limit")?;
    let mut events: Vec<Event> = statement
        .query_map(named_params! { ":limit": limit }, from_row::event)?
        .collect::<std::result::Result<_, _>>()?;
    events.reverse();
    Ok(events)
}

/// How many items are being run.
pub(crate) fn claimed_items(conn: &Connection) -> Result<usize> {
    let count: i64 = conn
        .prepare_cached("SELECT count(*) FROM work_items WHERE status = 'claimed'")?
        .query_row([], |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// What a person may have meant: ids, branches and worktrees of changes, the newest first.
pub(crate) fn change_names(conn: &Connection) -> Result<Vec<[String; 3]>> {
    let mut statement = conn.prepare_cached(
        "SELECT change_id, branch, worktree FROM changes ORDER BY created_at DESC, rowid DESC LIMIT 500",
    )?;
    let names = statement
        .query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?
        .collect::<std::result::Result<_, _>>()?;
    Ok(names)
}

fn change_of(row: &rusqlite::Row<'_>) -> std::result::Result<ChangeId, rusqlite::Error> {
    row.get::<_, String>("change_id").map(ChangeId::new)
}
