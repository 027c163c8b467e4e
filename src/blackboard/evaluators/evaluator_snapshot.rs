//! Input of command evaluators: each list has a limit, and long rows are cut to fit.

use crate::blackboard::Result;
use crate::blackboard::sql::{Connection, Json, params};
use crate::change::Change;
use crate::clock::Time;
use crate::event::{Event, EventType};
use crate::pull_request::PullRow;
use crate::work::Item;

/// Maximum bytes of an event's metadata, which may be as large as a review; larger metadata is left out and marked.
const MOST_METADATA: i64 = 16 * 1024;
const MOST_SUMMARY: i64 = 2_000;

/// Number of events before the newest at which a new evaluator starts.
const BEGINS_BEFORE: i64 = 200;

/// Returns the event after which an evaluator reads: its cursor or, for a new evaluator, a recent
/// one.
pub(crate) fn looks_after(conn: &Connection, evaluator: &str) -> Result<i64> {
    conn.value(
        "SELECT coalesce((SELECT cursor FROM evaluators WHERE name = :name),
             max((SELECT coalesce(max(id), 0) FROM events) - :before, 0))",
        params! { name: evaluator, before: BEGINS_BEFORE },
    )
}

/// True if there is such an event by somebody else: an evaluator is not woken by its own events.
pub(crate) fn any_by_others(
    conn: &Connection,
    event_type: EventType,
    after: i64,
    evaluator: &str,
) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM events WHERE event_type = :event_type AND id > :after AND actor_id <> :evaluator LIMIT 1",
        params! { event_type, after, evaluator },
    )
}

/// Returns events of these types (all types if empty) after the cursor, oldest first, without metadata that is too
/// large.
pub(crate) fn shown_events(
    conn: &Connection,
    types: &[EventType],
    after: i64,
    limit: i64,
) -> Result<Vec<Event>> {
    conn.list(
        "SELECT id, timestamp, event_type, actor_id, target_type, target_id, change_id,
             substr(summary, 1, :summary) AS summary,
             CASE WHEN length(metadata) <= :metadata THEN metadata
                 ELSE json_object('left_out', length(metadata)) END AS metadata
         FROM events
         WHERE id > :after AND (:types = '[]' OR event_type IN (SELECT value FROM json_each(:types)))
         ORDER BY id LIMIT :limit",
        params! {
            after, limit,
            types: Json(types),
            summary: MOST_SUMMARY,
            metadata: MOST_METADATA,
        })
}

/// Returns changes that have not ended, most recently updated first.
pub(crate) fn live_changes(conn: &Connection, limit: i64) -> Result<Vec<Change>> {
    conn.list(
        "SELECT * FROM changes WHERE state NOT IN ('merged', 'closed') ORDER BY updated_at DESC LIMIT :limit",
        params! { limit })
}

pub(crate) fn open_items(conn: &Connection, limit: i64) -> Result<Vec<Item>> {
    conn.list(
        "SELECT * FROM work_items WHERE status IN ('available', 'claimed', 'blocked')
         ORDER BY priority, created_at, length(item_id), item_id LIMIT :limit",
        params! { limit },
    )
}

/// Returns pull requests that were open when they were last seen, watched or not.
pub(crate) fn open_pulls(conn: &Connection, limit: i64) -> Result<Vec<PullRow>> {
    conn.list(
        "SELECT * FROM pulls WHERE state = 'open' ORDER BY project_id, number LIMIT :limit",
        params! { limit },
    )
}

/// True if a pull request is due to be read.
pub(crate) fn any_read_due(conn: &Connection, now: Time) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM pulls WHERE next_read IS NOT NULL AND next_read <= :now",
        params! { now },
    )
}
