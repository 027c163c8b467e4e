//! Appends events, and reads them by id, by change and by target.

use super::{BoardError, Result};
use crate::blackboard::sql::{Connection, Params, params};
use crate::change::ChangeId;
use crate::clock::Time;
use crate::event::{Event, EventType, NewEvent, TargetType};

pub(crate) fn append(conn: &Connection, event: &NewEvent, now: Time) -> Result<i64> {
    #[cfg(feature = "failpoints")]
    let event = &super::sql::prose::scrambled_event(event);
    conn.insert(
        "INSERT INTO events (timestamp, event_type, actor_id, target_type, target_id, change_id, summary, metadata)
         VALUES (:timestamp, :event_type, :actor_id, :target_type, :target_id, :change_id, :summary, :metadata)",
        params! {
            timestamp: now,
            actor_id: event.actor;
            event.{ event_type, target_type, target_id, change_id, summary, metadata }
        },
    )
}

pub(crate) fn event(conn: &Connection, id: i64) -> Result<Event> {
    conn.find("SELECT * FROM events WHERE id = :id", params! { id })?
        .ok_or_else(|| BoardError::not_found("event", &id))
}

/// True if a change has an event of this type.
pub(crate) fn has_event(
    conn: &Connection,
    change_id: &ChangeId,
    event_type: EventType,
) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM events WHERE change_id = :id AND event_type = :type",
        params! { id: change_id, type: event_type },
    )
}

/// Returns the id of the newest event; 0 if there is none.
pub(crate) fn newest_event(conn: &Connection) -> Result<i64> {
    conn.value("SELECT coalesce(max(id), 0) FROM events", &[])
}

/// Returns the id of the newest event before a point in time; 0 if there is none.
pub(crate) fn event_before(conn: &Connection, moment: Time) -> Result<i64> {
    conn.value(
        "SELECT coalesce(max(id), 0) FROM events WHERE timestamp < :moment",
        params! { moment },
    )
}

/// Returns the events after `id`, oldest first.
pub(crate) fn events_since(conn: &Connection, id: i64, limit: i64) -> Result<Vec<Event>> {
    conn.list(
        "SELECT * FROM events WHERE id > :id ORDER BY id LIMIT :limit",
        params! { id, limit },
    )
}

/// Returns the events of a query that lists the newest first, in the opposite order.
pub(super) fn newest(
    conn: &Connection,
    sql: &'static str,
    params: Params<'_>,
) -> Result<Vec<Event>> {
    let mut events = conn.list(sql, params)?;
    events.reverse();
    Ok(events)
}

/// Returns the newest events of a change, oldest first, including those appended by hand about it
/// or its items.
pub(crate) fn events_of(conn: &Connection, change_id: &ChangeId, limit: i64) -> Result<Vec<Event>> {
    newest(
        conn,
        "SELECT * FROM events WHERE change_id = :change_id
         UNION
         SELECT events.* FROM events JOIN rejections ON rejections.event_id = events.id
         WHERE rejections.change_id = :change_id
         UNION
         SELECT * FROM events WHERE target_type = 'change' AND target_id = :change_id
         ORDER BY id DESC LIMIT :limit",
        params! { change_id, limit },
    )
}

/// Types that explain a change. They have an index, since a long history may have few of them.
pub(super) const EXPLAINING: [EventType; 5] = [
    EventType::Escalated,
    EventType::Instructed,
    EventType::PrChanged,
    EventType::StateChanged,
    EventType::WorkApproved,
];

/// Returns the newest events of a change that have a type, newest first.
pub(crate) fn events_of_type(
    conn: &Connection,
    change_id: &ChangeId,
    event_type: EventType,
    limit: i64,
) -> Result<Vec<Event>> {
    if EXPLAINING.contains(&event_type) {
        // SQLite uses the index only if its condition is repeated.
        return conn.list(
            "SELECT * FROM events INDEXED BY events_explaining
             WHERE change_id = :change_id AND event_type = :event_type
                 AND event_type IN ('escalated', 'instructed', 'pr_changed', 'state_changed', 'work_approved')
             ORDER BY id DESC LIMIT :limit",
            params! { change_id, event_type, limit },
        );
    }
    conn.list(
        "SELECT * FROM events INDEXED BY events_by_change
         WHERE change_id = :change_id AND event_type = :event_type ORDER BY id DESC LIMIT :limit",
        params! { change_id, event_type, limit },
    )
}

/// Returns the newest events about one target, oldest first.
pub(crate) fn events_about(
    conn: &Connection,
    target: TargetType,
    id: &str,
    limit: i64,
) -> Result<Vec<Event>> {
    newest(
        conn,
        "SELECT * FROM events WHERE target_type = :target_type AND target_id = :target_id ORDER BY id DESC LIMIT :limit",
        params! { target_type: target, target_id: id, limit },
    )
}
