//! Pauses: by a person, and by the project's rules, if they no longer select the pull request. A
//! change continues when neither applies; ending one does not end the other.

use super::operator_actions::instruct;
use crate::blackboard::sql::{Connection, params};
use crate::blackboard::work::{hold, items};
use crate::blackboard::{Result, changes};
use crate::change::{Change, ChangeId};
use crate::clock::Time;
use crate::event::body::Action;
use crate::work::Status;

pub(crate) fn pause(
    conn: &Connection,
    id: &ChangeId,
    why: Option<&str>,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let change = crate::blackboard::change(conn, id)?;
    changes::refuse_if_over(&change, "there is nothing to pause")?;
    if !change.paused_by_person {
        conn.execute(
            "UPDATE changes SET paused_by_person = 1, updated_at = :now WHERE change_id = :id",
            params! { now, id },
        )?;
        hold::block(conn, id)?;
        instruct(conn, id, Action::Pause, why.unwrap_or(""), actor, now)?;
    }
    crate::blackboard::change(conn, id)
}

/// Ends a person's pause, and also a hold, since the person has explicitly asked to continue. A
/// change that the rules do not select stays paused.
pub(crate) fn resume(conn: &Connection, id: &ChangeId, actor: &str, now: Time) -> Result<Change> {
    let change = crate::blackboard::change(conn, id)?;
    if change.paused_by_person {
        conn.execute(
            "UPDATE changes SET paused_by_person = 0, updated_at = :now WHERE change_id = :id",
            params! { now, id },
        )?;
        instruct(conn, id, Action::Resume, "", actor, now)?;
    }
    let change = crate::blackboard::change(conn, id)?;
    if change.held_until.is_some() {
        hold::end_hold(conn, &change, &format!("requested by {actor}"), now)?;
        hold::forget_repeats(conn, id)?;
    }
    retry_now(conn, id, now)?;
    unblock_if_free(conn, id)
}

/// Makes postponed reads and posts due now.
pub(crate) fn retry_now(conn: &Connection, id: &ChangeId, now: Time) -> Result<()> {
    let (now, id) = (now.to_string(), id.as_str());
    for sql in [
        "UPDATE pulls SET next_read = :now WHERE change_id = :id AND failures > 0 AND next_read > :now",
        "UPDATE intents SET not_before = :now WHERE change_id = :id AND done_at IS NULL AND not_before > :now",
    ] {
        conn.execute(sql, params! { now, id })?;
    }
    Ok(())
}

pub(crate) fn pause_by_rules(conn: &Connection, id: &ChangeId, now: Time) -> Result<()> {
    conn.execute(
        "UPDATE changes SET paused_by_rules = 1, updated_at = :now WHERE change_id = :id",
        params! { now, id },
    )?;
    hold::block(conn, id)
}

pub(crate) fn resume_by_rules(conn: &Connection, id: &ChangeId, now: Time) -> Result<()> {
    conn.execute(
        "UPDATE changes SET paused_by_rules = 0, updated_at = :now WHERE change_id = :id",
        params! { now, id },
    )?;
    unblock_if_free(conn, id).map(drop)
}

/// Makes blocked items available, if nothing blocks them any more.
pub(crate) fn unblock_if_free(conn: &Connection, id: &ChangeId) -> Result<Change> {
    let change = crate::blackboard::change(conn, id)?;
    if items::queued_status(Some(&change)) == Status::Available {
        hold::unblock(conn, id)?;
    }
    Ok(change)
}
