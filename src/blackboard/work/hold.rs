//! Holds: the environment prevents progress until a given time. No cycle and no attempt is spent.

use std::time::Duration;

use super::claim;
use crate::blackboard::Result;
use crate::blackboard::operator::pause;
use crate::blackboard::sql::{Connection, params};
use crate::change::{Change, ChangeId, HoldKind};
use crate::clock::Time;
use crate::event::{NewEvent, body};
use crate::sanitize::cap;
use crate::work::Claim;

/// Maximum number of characters stored of a hold's reason. It is shown in lists and on one line of
/// `why`; the output of a command that it may quote is in the log.
const REASON_CAP: usize = 2_000;

/// Maximum number of repeats. The next hold of the same kind escalates the change.
const MOST_REPEATS: i64 = 2;

/// Maximum time to wait for a lock, however often it is encountered.
const LOCK_PATIENCE: Duration = Duration::from_mins(10);

/// Reason and end of a hold.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    pub(crate) kind: HoldKind,
    pub(crate) reason: String,
    pub(crate) until: Time,
}

/// Holds a change: the claimed item returns to the queue, available items are blocked.
pub(crate) fn hold(
    conn: &Connection,
    claim: &Claim,
    change_id: &ChangeId,
    hold: &Hold,
    now: Time,
) -> Result<()> {
    // Returned first: an ended claim must not hold the change of whoever has the item now.
    claim::give_back(conn, claim, None, now)?;
    hold_change(conn, change_id, hold, now)
}

/// Holds a change. Running items may finish.
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
        params! { until: hold.until, reason, kind, is_own: kind.is_own_step(), now, id: change_id },
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
    crate::blackboard::append(conn, &event, now).map(drop)
}

/// True if one of remand's own steps has held the change as often as it may without any change in
/// between.
///
/// A lock left by a killed git is removed once it is surely stale, so a few holds within a minute
/// prove nothing. A gate without a result is counted like a run without one (`max_lost_runs`): what
/// killed it may have nothing to do with the change.
pub(crate) fn is_held_too_often(
    change: &Change,
    kind: HoldKind,
    max_lost_runs: i64,
    now: Time,
) -> bool {
    let most = if kind == HoldKind::GateEnded {
        max_lost_runs - 1
    } else {
        MOST_REPEATS
    };
    let is_again =
        kind.is_own_step() && change.last_hold == Some(kind) && change.hold_repeats >= most;
    let lasted = change
        .first_hold_at
        .map(|first| now.since(first))
        .unwrap_or_default();
    is_again && (kind != HoldKind::GitLock || lasted >= LOCK_PATIENCE)
}

/// Resets the repeats after something has changed: the next hold is the first one again.
pub(crate) fn forget_repeats(conn: &Connection, id: &ChangeId) -> Result<()> {
    conn.run(
        "UPDATE changes SET last_hold = NULL, hold_repeats = 0, first_hold_at = NULL WHERE change_id = :id",
        params! { id },
    )
}

/// Shortens a reason for its row.
pub(crate) fn stored_reason(reason: &str) -> String {
    cap(reason, REASON_CAP)
}

/// True if a hold has expired.
pub(crate) fn anything_held_is_due(conn: &Connection, now: Time) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM changes WHERE held_until IS NOT NULL AND held_until <= :now",
        params! { now },
    )
}

/// Ends the expired holds, and returns the changes that continue.
pub(crate) fn resume_due(conn: &Connection, now: Time) -> Result<Vec<Change>> {
    let due: Vec<Change> = conn.list(
        "SELECT * FROM changes WHERE held_until IS NOT NULL AND held_until <= :now",
        params! { now },
    )?;
    for change in &due {
        end_hold(conn, change, "the hold has expired", now)?;
    }
    Ok(due)
}

/// Ends the holds of this kind, and returns their number.
pub(crate) fn resume_held_for(
    conn: &Connection,
    kind: HoldKind,
    why: &str,
    now: Time,
) -> Result<usize> {
    let held: Vec<Change> = conn.list(
        "SELECT * FROM changes WHERE held_until IS NOT NULL AND hold_kind = :kind",
        params! { kind },
    )?;
    held.iter()
        .try_for_each(|change| end_hold(conn, change, why, now))?;
    Ok(held.len())
}

/// True if any change is held for this reason.
pub(crate) fn any_held_for(conn: &Connection, kind: HoldKind) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM changes WHERE held_until IS NOT NULL AND hold_kind = :kind",
        params! { kind },
    )
}

pub(crate) fn end_hold(conn: &Connection, change: &Change, why: &str, now: Time) -> Result<()> {
    conn.execute(
        "UPDATE changes SET held_until = NULL, hold_reason = NULL, hold_kind = NULL, updated_at = :now WHERE change_id = :id",
        params! { now, id: change.change_id },
    )?;
    pause::unblock_if_free(conn, &change.change_id)?;
    let event = NewEvent::about(
        &change.change_id,
        body::Resumed {
            reason: why.to_owned(),
            held_for: change.hold_reason.clone(),
        },
        format!("resumed: {why}"),
    );
    crate::blackboard::append(conn, &event, now).map(drop)
}

pub(crate) fn block(conn: &Connection, change_id: &ChangeId) -> Result<()> {
    conn.run(
        "UPDATE work_items SET status = 'blocked' WHERE change_id = :id AND status = 'available'",
        params! { id: change_id },
    )
}

pub(crate) fn unblock(conn: &Connection, change_id: &ChangeId) -> Result<()> {
    conn.run(
        "UPDATE work_items SET status = 'available' WHERE change_id = :id AND status = 'blocked'",
        params! { id: change_id },
    )
}

/// Returns the next time at which an item becomes due by itself: the end of a hold, or its own
/// time.
pub(crate) fn next_moment(conn: &Connection) -> Result<Option<Time>> {
    conn.moment(
        "SELECT min(moment) FROM (
             SELECT min(held_until) AS moment FROM changes WHERE held_until IS NOT NULL
             UNION ALL
             SELECT min(not_before) FROM work_items WHERE status = 'available' AND not_before IS NOT NULL)",
    )
}
