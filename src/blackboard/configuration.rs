//! The configuration in force in the daemon, what keeps a changed one from being in force, and `remand reload`.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde::Serialize;
use serde_json::json;

use super::{Result, from_row};
use crate::clock::Time;
use crate::closed_enum::closed_enum;
use crate::event::body;
use crate::event::{EventType, NewEvent, TargetType};
use serde_json::Value;

closed_enum! {
    /// Why a changed configuration is not in force.
    "changed_kind" ChangedKind {
        /// It cannot be loaded.
        Invalid = "invalid",
        /// It drops a safeguard: a person has to apply it.
        NeedsReload = "needs_reload",
    }
}

/// The row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Configuration {
    #[serde(skip)]
    pub(crate) holder: String,
    pub(crate) file: Option<String>,
    pub(crate) hash: String,
    #[serde(skip)]
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) in_force_since: Time,
    /// The files are different from what is in force.
    pub(crate) changed: Option<Changed>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Changed {
    pub(crate) hash: String,
    pub(crate) kind: ChangedKind,
    pub(crate) reason: String,
    pub(crate) since: Time,
}

/// Configuration that a daemon puts in force.
#[derive(Debug, Clone)]
pub(crate) struct InForce {
    pub(crate) holder: String,
    pub(crate) file: Option<String>,
    pub(crate) hash: String,
    pub(crate) settings: BTreeMap<String, String>,
}

pub(crate) fn configuration(conn: &Connection) -> Result<Option<Configuration>> {
    Ok(conn
        .prepare_cached("SELECT * FROM configuration WHERE id = 1")?
        .query_row([], from_row)
        .optional()?)
}

/// Nothing of an earlier daemon stays but its requests, which are answered with this.
pub(crate) fn put_in_force(conn: &Connection, new: &InForce, now: Time) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO configuration (id, holder, file, hash, settings, in_force_since)
         VALUES (1, :holder, :file, :hash, :settings, :now)
         ON CONFLICT (id) DO UPDATE SET holder = :holder, file = :file, hash = :hash, settings = :settings,
             in_force_since = :now, changed_hash = NULL, changed_kind = NULL, changed_reason = NULL, changed_since = NULL",
    )?
    .execute(named_params! {
        ":holder": new.holder,
        ":file": new.file,
        ":hash": new.hash,
        ":settings": json!(new.settings).to_string(),
        ":now": now.to_string(),
    })?;
    Ok(())
}

/// Records that the files are different from what is in force, and why; `None`: they are the same again.
pub(crate) fn note_changed(conn: &Connection, changed: Option<&Changed>) -> Result<()> {
    conn.prepare_cached(
        "UPDATE configuration SET changed_hash = :hash, changed_kind = :kind, changed_reason = :reason,
             changed_since = :since WHERE id = 1",
    )?
    .execute(named_params! {
        ":hash": changed.map(|changed| &changed.hash),
        ":kind": changed.map(|changed| changed.kind.as_str()),
        ":reason": changed.map(|changed| &changed.reason),
        ":since": changed.map(|changed| changed.since.to_string()),
    })?;
    Ok(())
}

/// An event about the configuration itself.
pub(crate) fn about_configuration(
    body: impl Into<(EventType, Value)>,
    summary: String,
) -> NewEvent {
    NewEvent::new(body, summary).on(TargetType::Blackboard, "configuration")
}

/// A person wants the files applied; returns the request's event. There is no row before the first daemon.
pub(crate) fn request_reload(conn: &Connection, actor: &str, now: Time) -> Result<i64> {
    let reload = body::Instructed::new(body::Action::Reload, "", actor);
    let event = about_configuration(reload, format!("{actor} says reload")).by(actor);
    let request = super::append(conn, &event, now)?;
    conn.prepare_cached("UPDATE configuration SET requested = :request WHERE id = 1")?
        .execute(named_params! { ":request": request })?;
    Ok(request)
}

/// The newest request that nobody answered.
pub(crate) fn open_request(conn: &Connection) -> Result<Option<i64>> {
    Ok(conn
        .prepare_cached(
            "SELECT requested FROM configuration WHERE id = 1 AND requested > answered",
        )?
        .query_row([], |row| row.get(0))
        .optional()?)
}

/// The event that answers a request, or all up to it.
pub(crate) fn answer_reload(conn: &Connection, request: i64, event: i64) -> Result<()> {
    conn.prepare_cached(
        "UPDATE configuration SET answered = :request, answer_event = :event WHERE id = 1 AND answered < :request",
    )?
    .execute(named_params! { ":request": request, ":event": event })?;
    Ok(())
}

/// The answer to a request, once there is one.
pub(crate) fn reload_answer(
    conn: &Connection,
    request: i64,
) -> Result<Option<crate::event::Event>> {
    let event: Option<i64> = conn
        .prepare_cached(
            "SELECT answer_event FROM configuration WHERE id = 1 AND answered >= :request",
        )?
        .query_row(named_params! { ":request": request }, |row| row.get(0))
        .optional()?
        .flatten();
    event.map(|id| super::event(conn, id)).transpose()
}

fn from_row(row: &Row<'_>) -> std::result::Result<Configuration, rusqlite::Error> {
    let changed = match row.get::<_, Option<String>>("changed_hash")? {
        None => None,
        Some(hash) => Some(Changed {
            hash,
            kind: from_row::word(row, "changed_kind")?,
            reason: row.get("changed_reason")?,
            since: from_row::time(row, "changed_since")?,
        }),
    };
    Ok(Configuration {
        holder: row.get("holder")?,
        file: row.get("file")?,
        hash: row.get("hash")?,
        // Only shown: what is no object of texts is shown as nothing.
        settings: serde_json::from_str(&row.get::<_, String>("settings")?).unwrap_or_default(),
        in_force_since: from_row::time(row, "in_force_since")?,
        changed,
    })
}
