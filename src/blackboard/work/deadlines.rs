//! Stored deadlines that cannot be right: each is further ahead than any interval that is ever
//! stored.
//!
//! The clock was ahead when it was written, and waiting for it would stop the work for as long as
//! the clock was wrong.
//!
//! All of them are voided in one place, so that every other query may simply compare with `now`.

use std::time::Duration;

use super::hold;
use crate::blackboard::Result;
use crate::blackboard::sql::{Connection, impl_from_row, params};
use crate::change::{ChangeId, ProjectId};
use crate::clock::Time;
use crate::closed_enum::closed_enum;
use crate::event::{NewEvent, TargetType, body};

/// Longest hold: the weekly usage limit of an agent.
pub(crate) const LONGEST_HOLD: Duration = Duration::from_hours(7 * 24);

/// Longest window of the forge's rate limit.
pub(crate) const RATE_WINDOW: Duration = Duration::from_hours(1);

/// Tolerance for a clock that was set back by a small amount.
pub(crate) const CLOCK_TOLERANCE: Duration = Duration::from_secs(60);

/// Latest plausible times, as of now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Latest {
    /// Limit for the next read of an open pull request, and for the next discovery.
    pub(crate) read: Time,
    /// Limit for the next read of a pull request that has ended.
    pub(crate) closed_read: Time,
    /// Limit for the next retry of a failure: a read, a post, an item, an evaluator.
    pub(crate) retry: Time,
    pub(crate) now: Time,
}

closed_enum! {
    "deadline" Deadline {
        Read = "read",
        Discovery = "discovery",
        Hold = "hold",
        Item = "item",
        Post = "post",
        Evaluator = "evaluator",
    }
}

/// Deadline that cannot be right.
#[derive(Debug, Clone)]
pub(crate) struct Implausible {
    pub(crate) deadline: Deadline,
    /// Key of its row.
    pub(crate) id: String,
    pub(crate) change_id: Option<ChangeId>,
    pub(crate) stored: Option<Time>,
}

/// Returns the longest pause before a retry.
pub(crate) fn longest_retry(backoff_max: Duration) -> Duration {
    backoff_max.max(RATE_WINDOW)
}

/// Returns the deadlines that cannot be right.
///
/// The third read is that of a pull request whose reads were ended, by a clock that was ahead,
/// because it had been closed for long. A hold also ends early if it started in the future: its own
/// longest interval is a week.
pub(crate) fn implausible(conn: &Connection, latest: &Latest) -> Result<Vec<Implausible>> {
    conn.list(
        "SELECT 'read' AS deadline, change_id AS id, change_id, next_read AS stored FROM pulls INDEXED BY pulls_due
             WHERE next_read > :read AND change_id IS NOT NULL AND next_read > CASE
                 WHEN failures > 0 THEN :failed_read
                 WHEN state = 'open' AND EXISTS (SELECT 1 FROM changes
                     WHERE changes.change_id = pulls.change_id AND changes.state NOT IN ('merged', 'closed')) THEN :read
                 ELSE :closed_read END
         UNION ALL
         SELECT 'read', change_id, change_id, NULL FROM pulls INDEXED BY pulls_ended
             WHERE next_read IS NULL AND read_at > :ahead AND state = 'closed' AND change_id IS NOT NULL
         UNION ALL
         SELECT 'discovery', project_id, NULL, next_read FROM discoveries
             WHERE next_read > CASE WHEN failures > 0 THEN :failed_read ELSE :read END
         UNION ALL
         SELECT 'hold', change_id, change_id, held_until FROM changes
             WHERE held_until IS NOT NULL AND (held_until > :hold OR held_at > :ahead)
         UNION ALL
         SELECT 'item', item_id, change_id, not_before FROM work_items INDEXED BY items_open
             WHERE status IN ('available', 'claimed', 'blocked') AND not_before > :retry
         UNION ALL
         SELECT 'post', key, change_id, not_before FROM intents INDEXED BY intents_open
             WHERE done_at IS NULL AND kind <> 'push' AND not_before > :retry
         UNION ALL
         SELECT 'evaluator', name, NULL, try_again FROM evaluator_troubles WHERE try_again > :retry",
        params! {
            read: latest.read,
            closed_read: latest.closed_read,
            // Data that was read and could not be stored is read again on schedule.
            failed_read: latest.read.max(latest.retry),
            retry: latest.retry,
            hold: latest.now.plus(LONGEST_HOLD),
            ahead: latest.now.plus(CLOCK_TOLERANCE),
        })
}

/// Makes everything due now that waits for a time that cannot be right, each with an event. Returns
/// their number.
pub(crate) fn void_implausible(conn: &Connection, latest: &Latest) -> Result<usize> {
    let deadlines = implausible(conn, latest)?;
    for one in &deadlines {
        void(conn, one, latest.now)?;
    }
    Ok(deadlines.len())
}

fn void(conn: &Connection, one: &Implausible, now: Time) -> Result<()> {
    let why = format!(
        "the {} was postponed while the clock was ahead, and is due now",
        one.deadline
    );
    let sql = match one.deadline {
        Deadline::Read => "UPDATE pulls SET next_read = :now WHERE change_id = :id",
        Deadline::Discovery => "UPDATE discoveries SET next_read = :now WHERE project_id = :id",
        Deadline::Hold => {
            let change = crate::blackboard::change(conn, &ChangeId::new(&one.id))?;
            hold::end_hold(
                conn,
                &change,
                "the end of the hold was set while the clock was ahead",
                now,
            )?;
            // Its reads and posts may have been postponed by the same clock.
            return crate::blackboard::operator::pause::retry_now(conn, &change.change_id, now);
        }
        Deadline::Item => "UPDATE work_items SET not_before = :now WHERE item_id = :id",
        Deadline::Post => "UPDATE intents SET not_before = :now WHERE key = :id",
        Deadline::Evaluator => "UPDATE evaluator_troubles SET try_again = :now WHERE name = :id",
    };
    conn.execute(sql, params! { now, id: one.id })?;
    let skipped = body::Skipped {
        deadline: Some(one.deadline.to_string()),
        stored: one.stored,
        ..body::Skipped::because(body::SkipCode::DeadlineVoided, &why)
    };
    let change_id = one.change_id.as_ref().map(ChangeId::as_str);
    let event = NewEvent::new(skipped, &why).of(one.change_id.as_ref());
    let event = match one.deadline {
        Deadline::Discovery => event.on(TargetType::Project, ProjectId::new(&one.id)),
        Deadline::Evaluator => event.on(TargetType::Evaluator, &one.id),
        Deadline::Read | Deadline::Hold | Deadline::Item | Deadline::Post => {
            event.on(TargetType::Change, change_id.unwrap_or_default())
        }
    };
    crate::blackboard::append(conn, &event, now).map(drop)
}

/// Returns the latest time of a recorded action, by any clock: one in the future proves that the
/// clock was set back.
pub(crate) fn latest_stored(conn: &Connection) -> Result<Option<Time>> {
    conn.moment(
        "SELECT max(moment) FROM (
             SELECT max(updated_at) AS moment FROM changes WHERE state NOT IN ('merged', 'closed')
             UNION ALL SELECT max(read_at) FROM pulls
             UNION ALL SELECT max(last_run) FROM evaluators
             UNION ALL SELECT max(seen_at) FROM rate)",
    )
}

/// True if the time of a recorded action is in the future.
pub(crate) fn is_ahead(done: Time, now: Time) -> bool {
    done > now.plus(CLOCK_TOLERANCE)
}

impl_from_row! { row => Implausible { deadline, id, change_id, stored } }
