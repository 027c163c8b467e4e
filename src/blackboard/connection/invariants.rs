//! Invariants for `remand check`: SQLite's own integrity, and consistency between the rows, which
//! must survive any crash.

use std::collections::BTreeMap;

use serde::Serialize;

use super::migrate;
use crate::blackboard::Result;
use crate::blackboard::sql::Connection;
use crate::change::{Change, OnMaxCycles, State};
use crate::event::{Event, body};
use crate::state::{self, Facts, Move};

/// Violated invariant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Violation {
    pub(crate) invariant: &'static str,
    pub(crate) what: String,
}

/// Each invariant as a query that must return nothing. Each row that it does return describes a
/// violation.
const QUERIES: &[(&str, &str)] = &[
    (
        "I1",
        "SELECT 'event ' || e.id || ' (work_rejected) became neither a rejection nor a skipped event'
         FROM events e
         WHERE e.event_type = 'work_rejected'
             AND e.id <= (SELECT coalesce(max(cursor), 0) FROM evaluators WHERE name = 'review_feedback')
             AND NOT EXISTS (SELECT 1 FROM pruned_changes p WHERE p.change_id = e.change_id)
             AND NOT EXISTS (SELECT 1 FROM rejections j WHERE j.event_id = e.id)
             AND NOT EXISTS (SELECT 1 FROM events s WHERE s.event_type = 'skipped' AND s.target_type = 'event'
                 AND s.target_id = CAST(e.id AS TEXT))",
    ),
    (
        "I1",
        "SELECT j.rejection_id || ' is ' || j.state || ', but its fix ' || j.item_id || ' is ' || w.status
         FROM rejections j JOIN work_items w ON w.item_id = j.item_id
         WHERE (j.state = 'in_fix' AND w.status NOT IN ('available', 'claimed', 'blocked'))
             OR (j.state = 'fixed' AND w.status <> 'completed')",
    ),
    (
        "I1",
        "SELECT j.rejection_id || ' is ' || j.state || ', but ' || c.change_id || ' is ' || c.state
         FROM rejections j JOIN changes c ON c.change_id = j.change_id
         WHERE j.state IN ('pending', 'in_fix') AND c.state IN ('escalated', 'merged', 'closed')",
    ),
    (
        "I2",
        "SELECT 'rejection ' || rejection_id || ' has ' || count(*) || ' fixes' FROM work_items
         WHERE source = 'review_fix' GROUP BY rejection_id HAVING count(*) > 1",
    ),
    (
        "I2",
        "SELECT 'worktree ' || worktree || ' has ' || count(*) || ' claimed items' FROM work_items
         WHERE status = 'claimed' AND worktree IS NOT NULL GROUP BY worktree HAVING count(*) > 1",
    ),
    (
        "I3",
        "SELECT change_id || ' had ' || total_fixes || ' of ' || max_total_fixes || ' fixes, ' || fix_cycle || ' of '
             || max_fix_cycles || ' in this round'
         FROM changes WHERE fix_cycle > max_fix_cycles OR total_fixes > max_total_fixes",
    ),
    (
        "I3",
        "SELECT change_id || ' counts ' || total_fixes || ' fixes, but ' || (SELECT count(*) FROM work_items w
             WHERE w.change_id = c.change_id AND w.source = 'review_fix' AND w.status = 'completed') || ' were completed'
         FROM changes c WHERE total_fixes <> (SELECT count(*) FROM work_items w
             WHERE w.change_id = c.change_id AND w.source = 'review_fix' AND w.status = 'completed')",
    ),
    (
        "I7",
        "SELECT c.change_id || ' is ' || c.state || ' with ' || w.source || ' ' || w.item_id || ' still ' || w.status
         FROM changes c JOIN work_items w ON w.change_id = c.change_id
         WHERE c.state IN ('escalated', 'merged', 'closed') AND w.status IN ('available', 'claimed', 'blocked')",
    ),
    (
        "I7",
        "SELECT c.change_id || ' is ' || c.state || ', but it has no open item to continue with'
         FROM changes c
         WHERE c.state IN ('queued', 'implementing', 'pending_self_review', 'self_reviewing', 'refining', 'reviewing_pr',
                 'addressing_feedback')
             AND (c.auto_review OR c.state <> 'pending_self_review')
             AND NOT EXISTS (SELECT 1 FROM work_items w WHERE w.change_id = c.change_id
                 AND w.status IN ('available', 'claimed', 'blocked'))",
    ),
    (
        "I7",
        "SELECT c.change_id || ' is self_review_failed, but it has no pending rejection'
         FROM changes c
         WHERE c.state = 'self_review_failed'
             AND NOT EXISTS (SELECT 1 FROM rejections j WHERE j.change_id = c.change_id AND j.state = 'pending')
             AND NOT EXISTS (SELECT 1 FROM events e WHERE e.change_id = c.change_id AND e.event_type = 'work_rejected'
                 AND e.id > (SELECT coalesce(max(cursor), 0) FROM evaluators WHERE name = 'review_feedback'))",
    ),
    (
        "I7",
        "SELECT change_id || CASE WHEN stopped THEN ' is stopped, but there is no stop for ' ELSE ' is not stopped, but there is a stop for ' END
             || project_id
         FROM changes WHERE stopped <> EXISTS (SELECT 1 FROM stops
             WHERE stops.project_id IS NULL OR stops.project_id = changes.project_id)",
    ),
    (
        "I7",
        "SELECT change_id || ' is ' || CASE WHEN shadow THEN '' ELSE 'not ' END || 'in shadow mode, contrary to its settings'
         FROM changes WHERE shadow <> coalesce(shadow_word,
             (SELECT p.shadow FROM projects p WHERE p.project_id = changes.project_id))",
    ),
    (
        "I7",
        "SELECT c.change_id || ' is self_review_passed, but its pull request is not queued'
         FROM changes c
         WHERE c.state = 'self_review_passed' AND c.opens_pr
             AND NOT EXISTS (SELECT 1 FROM work_items w WHERE w.change_id = c.change_id AND w.source = 'pull_request'
                 AND w.status IN ('available', 'claimed', 'blocked'))",
    ),
    (
        "I7",
        "SELECT c.change_id || ' waits for ' || c.waits_for || ', which is ' || coalesce(f.state, 'gone')
         FROM changes c LEFT JOIN changes f ON f.change_id = c.waits_for
         WHERE c.waits_for IS NOT NULL AND c.state NOT IN ('escalated', 'merged', 'closed')
             AND coalesce(f.state IN ('merged', 'closed', 'escalated'), 1)",
    ),
    (
        "I8",
        "SELECT r.run_id || ' has epoch ' || r.epoch || ', but ' || r.item_id || ' never had it' FROM runs r
         JOIN work_items w ON w.item_id = r.item_id WHERE r.epoch > w.epoch OR r.epoch < 1",
    ),
    (
        "I8",
        "SELECT r.item_id || ' has ' || count(*) || ' reviews' FROM reviews r GROUP BY r.item_id HAVING count(*) > 1",
    ),
];

/// Rows that refer to missing ones, except the remaining events of pruned changes.
const LINKS: &str = "SELECT * FROM pragma_foreign_key_check AS link
     WHERE link.[table] <> 'events' OR link.parent <> 'changes' OR NOT EXISTS (
         SELECT 1 FROM events JOIN pruned_changes ON pruned_changes.change_id = events.change_id
         WHERE events.id = link.[rowid])";

/// Thoroughness of SQLite's check of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Compares every index with its table.
    Full,
    /// Everything else; the comparison takes most of the time.
    Quick,
}

pub(crate) fn check(conn: &Connection) -> Result<Vec<Violation>> {
    violations(conn, Depth::Full)
}

pub(crate) fn violations(conn: &Connection, depth: Depth) -> Result<Vec<Violation>> {
    let integrity = match depth {
        Depth::Full => "PRAGMA integrity_check",
        Depth::Quick => "PRAGMA quick_check",
    };
    let mut damage = conn.list::<String>(integrity, &[])?;
    damage.retain(|line| line != "ok");
    // The invariants are those of the newest version; an older blackboard lacks columns.
    let is_newest = migrate::version(conn)? >= migrate::NEWEST;
    damage.extend(conn.all(
        if is_newest {
            LINKS
        } else {
            "PRAGMA foreign_key_check"
        },
        &[],
        |row| {
            let (from, to): (String, String) = (row.get("table")?, row.get("parent")?);
            Ok(format!("a row of {from} references a missing row of {to}"))
        },
    )?);
    let violation = |invariant| move |what| Violation { invariant, what };
    let mut found: Vec<Violation> = damage.into_iter().map(violation("I12")).collect();
    if !is_newest {
        return Ok(found);
    }
    for (invariant, sql) in QUERIES {
        let broken = conn.list(sql, &[])?;
        found.extend(broken.into_iter().map(violation(invariant)));
    }
    replay(conn, &mut found)?;
    Ok(found)
}

/// I7: every recorded transition is in the table, and replaying them gives the stored state.
fn replay(conn: &Connection, found: &mut Vec<Violation>) -> Result<()> {
    let mut at: BTreeMap<String, (State, Option<State>)> = BTreeMap::new();
    let mut broken = |what| {
        let invariant = "I7";
        found.push(Violation { invariant, what });
    };
    let moves: Vec<Event> = conn.list(
        "SELECT * FROM events WHERE event_type = 'state_changed'
             AND NOT EXISTS (SELECT 1 FROM pruned_changes WHERE pruned_changes.change_id = events.change_id)
         ORDER BY id",
        &[],
    )?;
    for event in moves {
        let Some(id) = event.change_id.as_ref().map(ToString::to_string) else {
            continue;
        };
        let Some(to) = event
            .body::<body::StateChanged>()
            .and_then(|moved| moved.to)
        else {
            broken(format!("event {} has no target state", event.id));
            continue;
        };
        if let Some((was, escalated_from)) = at.get(&id).copied()
            && !allowed(&event, was, escalated_from, to)
        {
            broken(format!(
                "event {}: invalid transition of {id} from {was} to {to}",
                event.id
            ));
        }
        let from = at.get(&id).filter(|_| to == State::Escalated);
        let escalated_from = from.map(|(state, _)| state::resting(*state));
        at.insert(id, (to, escalated_from));
    }
    for change in conn.list::<Change>("SELECT * FROM changes", &[])? {
        let replayed = at.get(change.change_id.as_str()).map(|(state, _)| *state);
        if replayed != Some(change.state) {
            let replayed_name = replayed.map_or("nothing", State::as_str);
            broken(format!(
                "{} is {}, but its events lead to {replayed_name}",
                change.change_id, change.state
            ));
        }
    }
    Ok(())
}

fn allowed(event: &Event, was: State, escalated_from: Option<State>, to: State) -> bool {
    let Some(body::StateChanged {
        from: Some(from),
        on: Some(body::Cause::Trigger(trigger)),
        ..
    }) = event.body()
    else {
        return false;
    };
    if from != was {
        return false;
    }
    // The event does not record whether there was a PR, nor the settings at that time: any
    // combination is accepted.
    [false, true].into_iter().any(|has_pr| {
        [OnMaxCycles::Escalate, OnMaxCycles::PrAnyway]
            .into_iter()
            .any(|on_max_cycles| {
                [false, true].into_iter().any(|self_review| {
                    [false, true].into_iter().any(|checks_green| {
                        let facts = Facts {
                            has_pr,
                            self_review,
                            on_max_cycles,
                            escalated_from,
                            checks_green,
                        };
                        state::next(was, trigger, facts) == Ok(Move::To(to))
                    })
                })
            })
    })
}
