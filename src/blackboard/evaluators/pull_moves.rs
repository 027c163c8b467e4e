//! Transitions of a change that follow from its pull request: each with its event, in the caller's transaction.

use crate::blackboard::forge::outbox::{NewIntent, intend};
use crate::blackboard::forge::{pulls, reopen};
use crate::blackboard::operator::pause;
use crate::blackboard::sql::{Connection, Json, params};
use crate::blackboard::work::{hold, items};
use crate::blackboard::{Result, changes, rejections};
use crate::change::{Change, ChangeId, HoldKind, State};
use crate::clock::Time;
use crate::event::NewEvent;
use crate::event::body::{self, PullChange};
use crate::intent::{Ask, IntentResult, Payload};
use crate::pull_request::{Pull, PullState};
use crate::state::Trigger;
use crate::text::short_sha;
use crate::work::RejectionEnd;

/// Pauses a change whose pull request no longer matches the project's rules, as noticed between two reads.
pub(crate) fn unwanted(
    conn: &Connection,
    id: &ChangeId,
    pull: &Pull,
    reason: &str,
    now: Time,
) -> Result<()> {
    let change = crate::blackboard::change(conn, id)?;
    // The head is left to the next read: the forge may show an old one.
    let known = pulls::pull_row(conn, &change.project_id, pull.number)?;
    let head_sha = known.map_or_else(|| pull.head_sha.clone(), |known| known.head_sha);
    pulls::see_pull(
        conn,
        &change.project_id,
        &Pull {
            head_sha,
            ..pull.clone()
        },
        Some(reason),
    )?;
    if !change.state.is_over() {
        pause_unwanted(conn, id, reason, now)?;
    }
    Ok(())
}

/// Pauses a change that no longer matches the project's rules.
pub(super) fn pause_unwanted(
    conn: &Connection,
    id: &ChangeId,
    reason: &str,
    now: Time,
) -> Result<bool> {
    pause::pause_by_rules(conn, id, now)?;
    let summary = format!("paused: {reason}");
    record(conn, id, PullChange::Unwanted, &summary, now)
}

/// Ends a change whose pull request was merged or closed.
pub(crate) fn over(
    conn: &Connection,
    change: &Change,
    state: PullState,
    now: Time,
) -> Result<bool> {
    let id = &change.change_id;
    let (trigger, what, ended_by) = if state == PullState::Merged {
        (Trigger::Merged, PullChange::Merged, RejectionEnd::PrMerged)
    } else {
        (Trigger::Closed, PullChange::Closed, RejectionEnd::PrClosed)
    };
    let is_over = change.state == State::Merged
        || (state == PullState::Closed && change.state == State::Closed);
    // A change that a person cancelled is not moved by this, and is not reopened with its pull
    // request.
    conn.execute(
        "UPDATE pulls SET state = :state, acted_on = CASE WHEN :is_over THEN acted_on ELSE :state END WHERE change_id = :id",
        params! { state, is_over, id },
    )?;
    if is_over {
        return Ok(false);
    }
    let reason = if state == PullState::Closed {
        "the PR was closed".to_owned()
    } else {
        format!("the PR was {state}")
    };
    record(conn, id, what, &reason, now)?;
    changes::advance(conn, id, trigger, "github", now)?;
    items::cancel_open(conn, id, None, &reason, now)?;
    rejections::settle_all(conn, id, (ended_by, &reason))?;
    conn.execute(
        "UPDATE changes SET held_until = NULL, hold_reason = NULL, hold_kind = NULL, paused_by_person = 0, paused_by_rules = 0
         WHERE change_id = :id",
        params! { id },
    )?;
    Ok(true)
}

pub(super) fn reopened(conn: &Connection, change: &Change, now: Time) -> Result<bool> {
    let id = &change.change_id;
    conn.execute(
        "UPDATE pulls SET acted_on = 'open' WHERE change_id = :id",
        params! { id },
    )?;
    record(conn, id, PullChange::Reopened, "the PR was reopened", now)?;
    reopen::reopen(conn, change, now)?;
    Ok(true)
}

/// Reported once, although it is checked again whenever there is something new: the obstacle may be gone by then.
pub(super) fn stays_closed(
    conn: &Connection,
    id: &ChangeId,
    reason: &str,
    now: Time,
) -> Result<bool> {
    let summary = format!("the PR was reopened, but {id} stays closed: {reason}");
    let is_told = conn.exists(
        "SELECT 1 FROM events INDEXED BY events_by_change
         WHERE change_id = :id AND event_type = 'skipped' AND metadata ->> 'code' = :code
             AND id > (SELECT max(id) FROM events INDEXED BY events_by_change
                 WHERE change_id = :id AND event_type = 'state_changed' AND metadata ->> 'to' = 'closed')",
        params! { id, code: body::SkipCode::StaysClosed },
    )?;
    if !is_told {
        crate::blackboard::append(
            conn,
            &NewEvent::about(
                id,
                body::Skipped::because(body::SkipCode::StaysClosed, reason),
                summary,
            ),
            now,
        )?;
    }
    Ok(!is_told)
}

/// Each reviewer is asked once per head, however many of their comments are ignored.
pub(super) fn ask(conn: &Connection, change: &Change, login: &str, now: Time) -> Result<()> {
    let new = NewIntent {
        key: format!(
            "ask:{}:{}:{login}",
            change.change_id,
            short_sha(&change.head)
        ),
        change_id: change.change_id.clone(),
        payload: Payload::Ask(Ask {
            logins: vec![login.to_owned()],
        }),
        epoch: 0,
    };
    intend(conn, &new, now).map(drop)
}

/// Records what happened to the pull request.
pub(super) fn record(
    conn: &Connection,
    id: &ChangeId,
    what: PullChange,
    summary: &str,
    now: Time,
) -> Result<bool> {
    let changed = body::PrChanged {
        what: Some(what),
        ..Default::default()
    };
    let event = NewEvent::about(id, changed, summary).by("github");
    crate::blackboard::append(conn, &event, now)?;
    Ok(true)
}

/// Records that a person reverted fixes of remand, each identified by the intent of its push. No more fixes are made
/// unless a person asks for them. Each revert is reported once.
pub(crate) fn stop_fixing(
    conn: &Connection,
    id: &ChangeId,
    pushes: &[String],
    now: Time,
) -> Result<()> {
    for key in pushes {
        crate::blackboard::change_result(conn, key, IntentResult::TakenBack)?;
    }
    conn.run(
        "UPDATE changes SET auto_fix = 0, updated_at = :now WHERE change_id = :id",
        params! { now, id },
    )
}

/// Records the key of the set-up that was run in the change's worktree.
pub(crate) fn set_up_for(conn: &Connection, id: &ChangeId, what: &str) -> Result<()> {
    conn.run(
        "UPDATE changes SET setup_done = :what WHERE change_id = :id",
        params! { what, id },
    )
}

/// Returns the untracked files that passing gates left in the change's worktree.
pub(crate) fn gate_leftovers(conn: &Connection, id: &ChangeId) -> Result<Vec<String>> {
    let stored: Json<_> = conn.value(
        "SELECT gate_leftovers FROM changes WHERE change_id = :id",
        params! { id },
    )?;
    Ok(stored.0)
}

pub(crate) fn add_gate_leftovers(conn: &Connection, id: &ChangeId, paths: &[String]) -> Result<()> {
    let mut all = gate_leftovers(conn, id)?;
    all.extend(paths.iter().cloned());
    all.sort();
    all.dedup();
    conn.run(
        "UPDATE changes SET gate_leftovers = :paths WHERE change_id = :id",
        params! { paths: Json(all), id },
    )
}

/// Ends a hold that was set only because the forge could not be read.
pub(crate) fn end_read_hold(conn: &Connection, id: &ChangeId, now: Time) -> Result<()> {
    let change = crate::blackboard::change(conn, id)?;
    if change.hold_kind == Some(HoldKind::PrUnreadable) {
        hold::end_hold(conn, &change, "the PR is readable again", now)?;
    }
    Ok(())
}
