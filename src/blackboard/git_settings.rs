//! Git settings that a push may be made with: those that were in effect when no agent could have
//! changed them, and those that a person accepted.

use super::Result;
use crate::blackboard::operator::operator_actions;
use crate::blackboard::sql::{Connection, Json, params};
use crate::change::{ChangeId, State};
use crate::clock::Time;
use crate::closed_enum::closed_enum;
use crate::event::body::Action;

closed_enum! {
    /// Status of known settings.
    "state of git settings" Known {
        Trusted = "trusted",
        Asked = "asked",
    }
}

/// Decision whether credentials may be used with the settings in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SettingsVerdict {
    Trusted,
    /// They changed while an agent was running, and this change is the one for which a person is
    /// asked. `keys` were added or removed.
    Ask {
        keys: Vec<String>,
    },
    /// A person is asked about another change.
    AskedAt(ChangeId),
}

/// Git settings in effect that affect a push.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GitSettings<'a> {
    /// Hash of keys and values.
    pub(crate) fingerprint: &'a str,
    pub(crate) keys: &'a [String],
}

/// Judges the settings in effect. New ones are trusted if no agent has run since the last trusted
/// ones were seen: then the user changed them.
pub(crate) fn judge_git_settings(
    conn: &Connection,
    id: &ChangeId,
    settings: GitSettings<'_>,
    now: Time,
) -> Result<SettingsVerdict> {
    let known: Option<(Known, Option<String>)> = conn.optional(
        "SELECT state, asked_at_change FROM git_settings WHERE fingerprint = :fingerprint",
        params! { fingerprint: settings.fingerprint },
        |row| Ok((row.get("state")?, row.get("asked_at_change")?)),
    )?;
    let asked_at = match known {
        Some((Known::Trusted, _)) => {
            see_git_settings(conn, settings.fingerprint, now)?;
            return Ok(SettingsVerdict::Trusted);
        }
        Some((Known::Asked, asked_at)) => asked_at,
        None if could_be_an_agents(conn)? => {
            insert(conn, settings, Some(id), now)?;
            None
        }
        None => {
            insert(conn, settings, None, now)?;
            return Ok(SettingsVerdict::Trusted);
        }
    };
    match asked_at.filter(|other| other != id.as_str()) {
        Some(other) if is_waiting(conn, &other)? => {
            Ok(SettingsVerdict::AskedAt(ChangeId::new(other)))
        }
        _ => {
            ask(conn, id, settings.fingerprint, now)?;
            Ok(SettingsVerdict::Ask {
                keys: differing(conn, settings.keys)?,
            })
        }
    }
}

/// Records that trusted settings are still in effect. Others are judged when credentials are needed.
pub(crate) fn see_git_settings(conn: &Connection, fingerprint: &str, now: Time) -> Result<()> {
    conn.run(
        "UPDATE git_settings SET seen_at = :now, seen_run = :run WHERE fingerprint = :fingerprint AND state = 'trusted'",
        params! { now, run: last_ended_run(conn)?, fingerprint },
    )
}

/// True if credentials may be used now, without asking anybody.
pub(crate) fn may_use_git_settings(conn: &Connection, fingerprint: &str) -> Result<bool> {
    let is_trusted = conn.exists(
        "SELECT 1 FROM git_settings WHERE fingerprint = :fingerprint AND state = 'trusted'",
        params! { fingerprint },
    )?;
    Ok(is_trusted || !conn.exists("SELECT 1 FROM git_settings", &[])?)
}

/// Accepts the settings that the last question of a change was about, and no others.
pub(crate) fn accept_git_settings(
    conn: &Connection,
    id: &ChangeId,
    actor: &str,
    now: Time,
) -> Result<bool> {
    let accepted = conn.execute(
        "UPDATE git_settings SET state = 'trusted', accepted_by = :actor, seen_at = :now
         WHERE state = 'asked' AND asked_at_change = :id
           AND question = (SELECT max(question) FROM git_settings WHERE asked_at_change = :id)",
        params! { actor, now, id },
    )?;
    if accepted > 0 {
        operator_actions::instruct(conn, id, Action::AcceptGitSettings, "", actor, now)?;
    }
    Ok(accepted > 0)
}

/// True if an agent has run since trusted settings were last seen. Compares numbers of runs, since
/// a clock can be set back.
fn could_be_an_agents(conn: &Connection) -> Result<bool> {
    let seen: Option<i64> = conn.value(
        "SELECT max(seen_run) FROM git_settings WHERE state = 'trusted'",
        &[],
    )?;
    let last = last_run(conn)?;
    Ok(seen.is_some_and(|seen| seen < last))
}

/// Returns the number of the newest run.
fn last_run(conn: &Connection) -> Result<i64> {
    let last = conn.find("SELECT value FROM counters WHERE name = 'r'", &[])?;
    Ok(last.unwrap_or(0))
}

/// Returns the number up to which all runs have ended.
fn last_ended_run(conn: &Connection) -> Result<i64> {
    let first_open: Option<i64> = conn.value(
        "SELECT min(CAST(substr(run_id, 2) AS INTEGER)) FROM runs WHERE ended_at IS NULL",
        &[],
    )?;
    first_open.map_or_else(|| last_run(conn), |first| Ok(first - 1))
}

/// Makes a change the one that asks about these settings.
fn ask(conn: &Connection, id: &ChangeId, fingerprint: &str, now: Time) -> Result<()> {
    conn.run(
        "UPDATE git_settings SET asked_at_change = :id, seen_at = :now,
             question = (SELECT coalesce(max(question), 0) + 1 FROM git_settings)
         WHERE fingerprint = :fingerprint",
        params! { id, now, fingerprint },
    )
}

/// Stores settings: as trusted, unless a person is asked about them for a change.
fn insert(
    conn: &Connection,
    settings: GitSettings<'_>,
    asked_at: Option<&ChangeId>,
    now: Time,
) -> Result<()> {
    let state = if asked_at.is_some() {
        Known::Asked
    } else {
        Known::Trusted
    };
    conn.run(
        "INSERT INTO git_settings (fingerprint, state, keys, asked_at_change, first_seen_at, seen_at, seen_run)
         VALUES (:fingerprint, :state, :keys, :change, :now, :now, :run)",
        params! {
            state, now,
            fingerprint: settings.fingerprint,
            keys: Json(settings.keys),
            change: asked_at,
            run: last_ended_run(conn)?,
        },
    )
}

/// True if a change is still waiting for a person.
fn is_waiting(conn: &Connection, id: &str) -> Result<bool> {
    let state = conn.find(
        "SELECT state FROM changes WHERE change_id = :id",
        params! { id },
    )?;
    Ok(state == Some(State::Escalated))
}

/// Returns the keys that are only in one of two sets: the settings in effect, and the trusted ones
/// seen last.
fn differing(conn: &Connection, keys: &[String]) -> Result<Vec<String>> {
    let before = conn.optional(
        "SELECT keys FROM git_settings WHERE state = 'trusted' ORDER BY seen_run DESC, seen_at DESC LIMIT 1",
        &[],
        |row| Ok(row.get::<Json<Vec<String>>>(0)?.0),
    )?
    .unwrap_or_default();
    let came = keys.iter().filter(|key| !before.contains(key));
    let went = before.iter().filter(|key| !keys.contains(key));
    Ok(came.chain(went).cloned().collect())
}
