//! The configuration in effect in the daemon, the reason why a changed one is not in effect, and
//! `remand reload`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use super::Result;
use crate::blackboard::sql::{Connection, impl_from_row, params};
use crate::clock::Time;
use crate::closed_enum::closed_enum;
use crate::event::{EventType, NewEvent, TargetType, body};
use serde_json::Value;

closed_enum! {
    /// Reason why a changed configuration is not in effect.
    "changed_kind" ChangedKind {
        /// It cannot be loaded.
        Invalid = "invalid",
        /// It removes a safeguard, so a person has to apply it.
        NeedsReload = "needs_reload",
    }
}

/// Row of the configuration table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Configuration {
    #[serde(skip)]
    pub(crate) holder: String,
    pub(crate) file: Option<String>,
    pub(crate) hash: String,
    #[serde(skip)]
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) in_force_since: Time,
    /// Set if the files differ from the configuration in effect.
    pub(crate) changed: Option<Changed>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Changed {
    pub(crate) hash: String,
    pub(crate) kind: ChangedKind,
    pub(crate) reason: String,
    pub(crate) since: Time,
}

/// Configuration that a daemon puts in effect.
#[derive(Debug, Clone)]
pub(crate) struct InForce {
    pub(crate) holder: String,
    pub(crate) file: Option<String>,
    pub(crate) hash: String,
    pub(crate) settings: BTreeMap<String, String>,
}

pub(crate) fn configuration(conn: &Connection) -> Result<Option<Configuration>> {
    conn.find("SELECT * FROM configuration WHERE id = 1", &[])
}

/// Replaces everything from an earlier daemon except its open requests, which are answered with
/// this.
pub(crate) fn put_in_force(conn: &Connection, new: &InForce, now: Time) -> Result<()> {
    conn.run(
        "INSERT INTO configuration (id, holder, file, hash, settings, in_force_since)
         VALUES (1, :holder, :file, :hash, :settings, :now)
         ON CONFLICT (id) DO UPDATE SET holder = :holder, file = :file, hash = :hash, settings = :settings,
             in_force_since = :now, changed_hash = NULL, changed_kind = NULL, changed_reason = NULL, changed_since = NULL",
        params! { now, settings: json!(new.settings); new.{ holder, file, hash } },
    )
}

/// Records that the files differ from the configuration in effect, and why; `None` if they are equal
/// again.
pub(crate) fn note_changed(conn: &Connection, changed: Option<&Changed>) -> Result<()> {
    conn.run(
        "UPDATE configuration SET changed_hash = :hash, changed_kind = :kind, changed_reason = :reason,
             changed_since = :since WHERE id = 1",
        params! {
            hash: changed.map(|changed| &changed.hash),
            kind: changed.map(|changed| changed.kind),
            reason: changed.map(|changed| &changed.reason),
            since: changed.map(|changed| changed.since),
        },
    )
}

/// Creates an event about the configuration itself.
pub(crate) fn about_configuration(
    body: impl Into<(EventType, Value)>,
    summary: String,
) -> NewEvent {
    NewEvent::new(body, summary).on(TargetType::Blackboard, "configuration")
}

/// Records a person's request to apply the files, and returns the event of the request. There is no
/// row before the first daemon.
pub(crate) fn request_reload(conn: &Connection, actor: &str, now: Time) -> Result<i64> {
    let reload = body::Instructed::new(body::Action::Reload, "", actor);
    let event = about_configuration(reload, format!("{actor} requested reload")).by(actor);
    let request = super::append(conn, &event, now)?;
    conn.execute(
        "UPDATE configuration SET requested = :request WHERE id = 1",
        params! { request },
    )?;
    Ok(request)
}

/// Returns the newest unanswered request.
pub(crate) fn open_request(conn: &Connection) -> Result<Option<i64>> {
    conn.find(
        "SELECT requested FROM configuration WHERE id = 1 AND requested > answered",
        &[],
    )
}

/// Records the event that answers a request and all earlier ones.
pub(crate) fn answer_reload(conn: &Connection, request: i64, event: i64) -> Result<()> {
    conn.run(
        "UPDATE configuration SET answered = :request, answer_event = :event WHERE id = 1 AND answered < :request",
        params! { request, event },
    )
}

/// Returns the answer to a request, once there is one.
pub(crate) fn reload_answer(
    conn: &Connection,
    request: i64,
) -> Result<Option<crate::event::Event>> {
    let event: Option<i64> = conn
        .find(
            "SELECT answer_event FROM configuration WHERE id = 1 AND answered >= :request",
            params! { request },
        )?
        .flatten();
    event.map(|id| super::event(conn, id)).transpose()
}

impl_from_row! { row => Configuration {
    holder, file, hash, in_force_since,
    // Only displayed, so anything other than an object of strings is treated as empty.
    settings: serde_json::from_str(&row.get::<String>("settings")?).unwrap_or_default(),
    changed: match row.get("changed_hash")? {
        None => None,
        Some(hash) => Some(Changed {
            hash,
            kind: row.get("changed_kind")?,
            reason: row.get("changed_reason")?,
            since: row.get("changed_since")?,
        }),
    },
} }
