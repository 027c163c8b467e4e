//! Appending facts, and reading them back by id, by change, by what they are about.

use rusqlite::{Connection, OptionalExtension as _, named_params};
use serde_json::json;

use super::{BoardError, Result, from_row};
use crate::change::ChangeId;
use crate::clock::Time;
use crate::event::{Event, EventType, NewEvent, TargetType};

pub(crate) fn append(conn: &Connection, event: &NewEvent, now: Time) -> Result<i64> {
    conn.prepare_cached(
        "INSERT INTO events (timestamp, event_type, actor_id, target_type, target_id, change_id, summary, metadata)
         VALUES (:timestamp, :event_type, :actor_id, :target_type, :target_id, :change_id, :summary, :metadata)",
    )?
    .execute(named_params! {
        ":timestamp": now.to_string(),
        ":event_type": event.event_type.as_str(),
        ":actor_id": event.actor,
        ":target_type": event.target_type.as_str(),
        ":target_id": event.target_id,
        ":change_id": event.change_id.as_ref().map(ChangeId::as_str),
        ":summary": event.summary,
        ":metadata": event.metadata.to_string(),
    })?;
    Ok(conn.last_insert_rowid())
}

pub(crate) fn event(conn: &Connection, id: i64) -> Result<Event> {
    conn.prepare_cached("SELECT * FROM events WHERE id = :id")?
        .query_row(named_params! { ":id": id }, from_row::event)
        .optional()?
        .ok_or_else(|| BoardError::NotFound {
            kind: "event",
            id: id.to_string(),
        })
}

/// Whether a change has an event of this type.
pub(crate) fn has_event(
    conn: &Connection,
    change_id: &ChangeId,
    event_type: EventType,
) -> Result<bool> {
    Ok(conn
        .prepare_cached("SELECT 1 FROM events WHERE change_id = :id AND event_type = :type")?
        .exists(named_params! { ":id": change_id.as_str(), ":type": event_type.as_str() })?)
}

/// The id of the newest event, 0 when there is none.
pub(crate) fn newest_event(conn: &Connection) -> Result<i64> {
    Ok(conn
        .prepare_cached("SELECT coalesce(max(id), 0) FROM events")?
        .query_row([], |row| row.get(0))?)
}

/// Events after `id`, oldest first.
pub(crate) fn events_since(conn: &Connection, id: i64, limit: i64) -> Result<Vec<Event>> {
    collect(
        conn,
        "SELECT * FROM events WHERE id > :id ORDER BY id LIMIT :limit",
        named_params! { ":id": id, ":limit": limit },
    )
}

/// The newest events of a change, with those that were appended by hand about it or its items, oldest first.
pub(crate) fn events_of(conn: &Connection, change_id: &ChangeId, limit: i64) -> Result<Vec<Event>> {
    let mut events = collect(
        conn,
        "SELECT * FROM events WHERE change_id = :change_id
         UNION
         SELECT events.* FROM events JOIN rejections ON rejections.event_id = events.id
         WHERE rejections.change_id = :change_id
         UNION
         SELECT * FROM events WHERE target_type = 'change' AND target_id = :change_id
         ORDER BY id DESC LIMIT :limit",
        named_params! { ":change_id": change_id.as_str(), ":limit": limit },
    )?;
    events.reverse();
    Ok(events)
}

/// The newest events of a change that are of certain types, oldest first.
pub(crate) fn events_of_types(
    conn: &Connection,
    change_id: &ChangeId,
    types: &[EventType],
    limit: i64,
) -> Result<Vec<Event>> {
    let types: Vec<&str> = types.iter().map(|one| one.as_str()).collect();
    let mut events = collect(
        conn,
        "SELECT * FROM events INDEXED BY events_by_change
         WHERE change_id = :change_id AND event_type IN (SELECT value FROM json_each(:types))
         ORDER BY id DESC LIMIT :limit",
        named_params! { ":change_id": change_id.as_str(), ":types": json!(types).to_string(), ":limit": limit },
    )?;
    events.reverse();
    Ok(events)
}

/// The newest events about one thing, oldest first.
pub(crate) fn events_about(
    conn: &Connection,
    target: TargetType,
    id: &str,
    limit: i64,
) -> Result<Vec<Event>> {
    let mut events = collect(
        conn,
        "SELECT * FROM events WHERE target_type = :target_type AND target_id = :target_id ORDER BY id DESC LIMIT :limit",
        named_params! { ":target_type": target.as_str(), ":target_id": id, ":limit": limit },
    )?;
    events.reverse();
    Ok(events)
}

fn collect(
    conn: &Connection,
    sql: &str,
    params: &[(&str, &dyn rusqlite::ToSql)],
) -> Result<Vec<Event>> {
    let mut statement = conn.prepare_cached(sql)?;
    let events = statement
        .query_map(params, from_row::event)?
        .collect::<std::result::Result<_, _>>()?;
    Ok(events)
}
