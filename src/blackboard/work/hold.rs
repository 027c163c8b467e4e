//! Holds: the environment is in the way, for now, with a time. No cycle and no attempt is spent.

use std::time::Duration;

use super::claim;
use crate::blackboard::Result;
use crate::blackboard::from_row;
use crate::blackboard::sql::{Connection, params};
use crate::change::{Change, ChangeId, HoldKind};
use crate::clock::Time;
use crate::event::{NewEvent, body};
use crate::sanitize::cap;
use crate::work::Claim;

/// Characters of a hold's reason that are stored. It stands in lists and on one line of `why`; the output of a command
/// that it may quote is in the log.
const REASON_CAP: usize = 2_000;

/// The next hold of the same kind goes to a person.
const MOST_REPEATS: i64 = 2;

/// Time for which a lock is waited for, however often it is met.
const LOCK_PATIENCE: Duration = Duration::from_mins(10);

/// Why, and until when.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    pub(crate) kind: HoldKind,
    pub(crate) reason: String,
    pub(crate) until: Time,
}

/// Holds a change: the claimed item goes back, what is available is blocked.
pub(crate) fn hold(
    conn: &Connection,
    claim: &Claim,
    change_id: &ChangeId,
    hold: &Hold,
    now: Time,
) -> Result<()> {
    // Given back first: a claim that is over must not hold the change of whoever has the item now.
    claim::give_back(conn, claim, None, now)?;
    hold_change(conn, change_id, hold, now)
}

/// Holds a change; whoever runs may finish.
pub(crate) fn hold_change(
    conn: &Connection,
    change_id: &ChangeId,
    hold: &Hold,
    now: Time,
) -> Result<()> {
    let (kind, reason) = (hold.kind, stored_reason(&hold.reason));
    conn.execute(
        "UPDATE changes SET held_until = :until, hold_reason = :reason, hold_kind = :kind, holds = holds + 1,
             hold_repeats = CASE WHEN NOT :is_own THEN hold_repeats WHEN last_hold IS :kind THEN hold_repeats + 1 ELSE 1 END,
             first_hold_at = CASE WHEN NOT :is_own OR last_hold IS :kind THEN first_hold_at ELSE :now END,
             last_hold = CASE WHEN :is_own THEN :kind ELSE last_hold END,
             held_at = :now, updated_at = :now
         WHERE change_id = :id",
        params! {
            ":until": hold.until,
            ":reason": reason,
            ":kind": kind,
            ":is_own": kind.is_own_step(),
            ":now": now,
            ":id": change_id,
        },
    )?;
    block(conn, change_id)?;
    let event = NewEvent::about(
        change_id,
        body::Held {
            reason: reason.clone(),
            until: Some(hold.until),
            kind: Some(kind),
        },
        format!("held until {}: {reason}", hold.until),
    );
    crate::blackboard::append(conn, &event, now)?;
    Ok(())
}

/// Whether a step of remand's own has held the change as often as it may without anything having changed.
///
/// A lock that a killed git left is removed once it is surely stale, so that a few holds within a minute prove nothing.
pub(crate) fn is_held_too_often(change: &Change, kind: HoldKind, now: Time) -> bool {
    let is_again =
        kind.is_own_step() && change.last_hold == Some(kind) && change.hold_repeats >= MOST_REPEATS;
    let lasted = change
        .first_hold_at
        .map(|first| now.since(first))
        .unwrap_or_default();
    is_again && (kind != HoldKind::GitLock || lasted >= LOCK_PATIENCE)
}

/// Something changed: the next hold is the first one again.
pub(crate) fn forget_repeats(conn: &Connection, id: &ChangeId) -> Result<()> {
    conn.run(
        "UPDATE changes SET last_hold = NULL, hold_repeats = 0, first_hold_at = NULL WHERE change_id = :id",
        params! { ":id": id },
    )
}

/// A reason as its row holds it.
pub(crate) fn stored_reason(reason: &str) -> String {
    cap(reason, REASON_CAP)
}

/// Whether a hold's time is up.
pub(crate) fn anything_held_is_due(conn: &Connection, now: Time) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM changes WHERE held_until IS NOT NULL AND held_until <= :now",
        params! { ":now": now },
    )
}

/// Ends the holds whose time has come; returns the changes that go on.
pub(crate) fn resume_due(conn: &Connection, now: Time) -> Result<Vec<Change>> {
    let due: Vec<Change> = conn.all(
        "SELECT * FROM changes WHERE held_until IS NOT NULL AND held_until <= :now",
        params! { ":now": now },
        from_row::change,
    )?;
    for change in &due {
        end_hold(conn, change, "the time is up", now)?;
    }
    Ok(due)
}

/// Ends the holds of this kind; returns how many.
pub(crate) fn resume_held_for(
    conn: &Connection,
    kind: HoldKind,
    why: &str,
    now: Time,
) -> Result<usize> {
    let held: Vec<Change> = conn.all(
        "SELECT * FROM changes WHERE held_until IS NOT NULL AND hold_kind = :kind",
        params! { ":kind": kind },
        from_row::change,
    )?;
    held.iter()
        .try_for_each(|change| end_hold(conn, change, why, now))?;
    Ok(held.len())
}

/// Whether anything is held for this.
pub(crate) fn any_held_for(conn: &Connection, kind: HoldKind) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM changes WHERE held_until IS NOT NULL AND hold_kind = :kind",
        params! { ":kind": kind },
    )
}

pub(crate) fn end_hold(conn: &Connection, change: &Change, why: &str, now: Time) -> Result<()> {
    conn.execute(
        "UPDATE changes SET held_until = NULL, hold_reason = NULL, hold_kind = NULL, updated_at = :now WHERE change_id = :id",
        params! { ":now": now, ":id": change.change_id },
    )?;
    if !change.paused {
        unblock(conn, &change.change_id)?;
    }
    let event = NewEvent::about(
        &change.change_id,
        body::Resumed {
            reason: why.to_owned(),
            held_for: change.hold_reason.clone(),
        },
        format!("going on: {why}"),
    );
    crate::blackboard::append(conn, &event, now)?;
    Ok(())
}

pub(crate) fn block(conn: &Connection, change_id: &ChangeId) -> Result<()> {
    conn.run(
        "UPDATE work_items SET status = 'blocked' WHERE change_id = :id AND status = 'available'",
        params! { ":id": change_id },
    )
}

pub(crate) fn unblock(conn: &Connection, change_id: &ChangeId) -> Result<()> {
    conn.run(
        "UPDATE work_items SET status = 'available' WHERE change_id = :id AND status = 'blocked'",
        params! { ":id": change_id },
    )
}

/// The next moment at which an item becomes due by itself: a hold's end, or its own.
pub(crate) fn next_moment(conn: &Connection) -> Result<Option<Time>> {
    let text: Option<String> = conn.one(
        "SELECT min(moment) FROM (
             SELECT min(held_until) AS moment FROM changes WHERE held_until IS NOT NULL
             UNION ALL
             SELECT min(not_before) FROM work_items WHERE status = 'available' AND not_before IS NOT NULL)",
        &[],
        |row| row.get(0),
    )?;
    // The columns' CHECKs keep anything else out.
    Ok(text.and_then(|text| Time::parse(&text).ok()))
}
