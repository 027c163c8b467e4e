//! Probes of the heartbeat: whether a pass would find something to do. Each is one query that ends at the first entry of
//! an index that answers it.

use crate::blackboard::Result;
use crate::blackboard::sql::{Connection, Json, params};
use crate::change::{ChangeId, State};
use crate::clock::Time;
use crate::event::EventType;

/// True if an event of these types is newer than the evaluator's cursor.
pub(crate) fn any_event(conn: &Connection, evaluator: &str, types: &[EventType]) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM json_each(:types) CROSS JOIN events ON events.event_type = json_each.value
             AND events.id > coalesce((SELECT cursor FROM evaluators WHERE name = :evaluator), 0)
         LIMIT 1",
        params! { evaluator, types: Json(types) },
    )
}

/// Returns the stored time of the next firing of an evaluator's schedule.
pub(crate) fn next_run(conn: &Connection, evaluator: &str) -> Result<Option<Time>> {
    let found = conn.optional(
        "SELECT next_run FROM evaluators WHERE name = :evaluator",
        params! { evaluator },
        |row| row.get("next_run"),
    )?;
    Ok(found.flatten())
}

/// True if a change in one of these states has pending rejections. With `needs_read`, those that wait for a read
/// that was already requested do not count; see [`needs_read`].
pub(crate) fn any_pending(
    conn: &Connection,
    states: &[State],
    needs_read: bool,
    now: Time,
) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM rejections newest INDEXED BY rejections_pending
         CROSS JOIN changes ON changes.change_id = newest.change_id
         CROSS JOIN events ON events.id = newest.event_id
         LEFT JOIN pulls ON pulls.change_id = changes.change_id AND changes.pr_number IS NOT NULL
         WHERE newest.state = 'pending' AND changes.state IN (SELECT value FROM json_each(:states))
             AND ((changes.auto_review AND changes.auto_address) OR EXISTS (
                 SELECT 1 FROM rejections asked JOIN events ON events.id = asked.event_id
                 WHERE asked.change_id = newest.change_id AND asked.state = 'pending'
                     AND iif(asked.by_person, changes.auto_address OR events.actor_id NOT GLOB 'github:*', changes.auto_review)))
             AND NOT EXISTS (
                 SELECT 1 FROM rejections later WHERE later.change_id = newest.change_id
                     AND later.state = 'pending' AND later.event_id > newest.event_id)
             AND NOT (:needs_read AND events.actor_id NOT GLOB 'github:*'
                 AND coalesce(pulls.read_after < newest.event_id, 0)
                 AND coalesce(pulls.failures > 0 OR pulls.next_read <= :now, 0))
         LIMIT 1",
        params! { needs_read, now, states: Json(states) },
    )
}

/// True if the pending rejections of a change wait for a read of its pull request: the newest was made elsewhere, after
/// the last read started. Compares the order of events, not their times: an event dated ahead would cause reads again and
/// again.
pub(crate) fn needs_read(conn: &Connection, id: &ChangeId) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM rejections newest INDEXED BY rejections_pending
         CROSS JOIN changes ON changes.change_id = newest.change_id AND changes.pr_number IS NOT NULL
         CROSS JOIN events ON events.id = newest.event_id
         CROSS JOIN pulls ON pulls.change_id = changes.change_id
         WHERE newest.change_id = :id AND newest.state = 'pending' AND events.actor_id NOT GLOB 'github:*'
             AND pulls.read_after < newest.event_id
             AND NOT EXISTS (
                 SELECT 1 FROM rejections later WHERE later.change_id = newest.change_id
                     AND later.state = 'pending' AND later.event_id > newest.event_id)
         LIMIT 1",
        params! { id },
    )
}

/// The unjudged pull requests, except those in `:left`, each with everything that its judgement depends on.
const UNJUDGED: &str = "SELECT change_id, json_array(state, acted_on, head_sha, base_ref, passed_over IS NULL, read_at,
         (SELECT max(id) FROM events WHERE events.change_id = pulls.change_id),
         (SELECT max(done_at) FROM intents WHERE intents.change_id = pulls.change_id AND kind = 'push')) AS seen
     FROM pulls INDEXED BY pulls_unjudged
     WHERE is_judged = 0 AND change_id IS NOT NULL
         AND NOT EXISTS (SELECT 1 FROM json_each(:left) WHERE value ->> 0 = change_id AND value ->> 1 = seen)
     ORDER BY change_id";

/// Pull requests that a pass left unjudged, each with its state: they wait for a later read, or for the end of our own
/// work.
pub(crate) type LeftUnjudged = Vec<(ChangeId, String)>;

/// True if a pull request is unjudged, other than those that are still as the last pass left them: as long as its state
/// is unchanged, judging it again changes nothing.
pub(crate) fn any_unjudged(conn: &Connection, left: &LeftUnjudged) -> Result<bool> {
    conn.exists(UNJUDGED, params! { left: Json(left) })
}

/// Returns the unjudged pull requests with their states.
pub(crate) fn unjudged_as_seen(conn: &Connection) -> Result<LeftUnjudged> {
    conn.list(UNJUDGED, params! { left: "[]" })
}
