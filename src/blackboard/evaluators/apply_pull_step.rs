//! What the forge showed moves a change: each step with its event, in the caller's transaction.

use crate::blackboard::Result;
use crate::blackboard::changes;
use crate::blackboard::forge::feedback;
use crate::blackboard::forge::head_moved;
use crate::blackboard::forge::outbox::{NewIntent, intend};
use crate::blackboard::forge::pulls;
use crate::blackboard::forge::reopen;
use crate::blackboard::operator::pause;
use crate::blackboard::rejections;
use crate::blackboard::sql::{Connection, Json, params};
use crate::blackboard::work::hold;
use crate::blackboard::work::items;
use crate::change::HoldKind;
use crate::change::{Change, ChangeId, State};
use crate::clock::Time;
use crate::event::NewEvent;
use crate::event::body;
use crate::event::body::PullChange;
use crate::finding::Verdict;
use crate::intent::Ask;
use crate::intent::IntentResult;
use crate::intent::Payload;
use crate::proposal::PullStep;
use crate::pull_request::{FeedbackOutcome, Pull, PullState};
use crate::state::Trigger;
use crate::work::{NewRejection, RejectionEnd};

/// Carries out one step; `false` when it had been carried out before.
pub(crate) fn apply_pull_step(
    conn: &Connection,
    id: &ChangeId,
    step: &PullStep,
    now: Time,
) -> Result<bool> {
    let change = crate::blackboard::change(conn, id)?;
    match step {
        PullStep::Reject(rejection) => reject_with_feedback(conn, id, rejection, now),
        PullStep::Approve {
            by,
            head,
            feedback_id,
        } => {
            let actor = format!("github:{by}");
            let approved = body::WorkApproved {
                verdict: Some(Verdict::Approved),
                head: Some(head.clone()),
                base: Some(change.base.clone()),
                feedback_id: Some(feedback_id.clone()),
                ..Default::default()
            };
            let summary = format!("{by} approved {}", changes::short(head));
            let event = NewEvent::about(id, approved, summary).by(&actor);
            let event_id = crate::blackboard::append(conn, &event, now)?;
            feedback::judge(
                conn,
                feedback_id,
                (FeedbackOutcome::Approved, None),
                Some(event_id),
                now,
            )
        }
        PullStep::Settle {
            feedback_id,
            outcome,
            reason,
        } => feedback::judge(conn, feedback_id, (*outcome, reason.as_deref()), None, now),
        PullStep::PassOver {
            feedback_id,
            outcome,
            reason,
            ask_again,
        } => {
            if !feedback::judge(conn, feedback_id, (*outcome, Some(reason)), None, now)? {
                return Ok(false);
            }
            let event = NewEvent::about(
                id,
                body::Skipped {
                    feedback_id: Some(feedback_id.clone()),
                    ..body::Skipped::because(body::SkipCode::FeedbackPassedOver, reason)
                },
                format!("{feedback_id} made no work: {reason}"),
            );
            crate::blackboard::append(conn, &event, now)?;
            if let Some(login) = ask_again {
                ask(conn, &change, login, now)?;
            }
            Ok(true)
        }
        PullStep::Merged => over(conn, &change, PullState::Merged, now),
        PullStep::Closed => over(conn, &change, PullState::Closed, now),
        PullStep::Reopened => reopened(conn, &change, now),
        PullStep::StaysClosed { reason } => stays_closed(conn, id, reason, now),
        PullStep::HeadMoved { to } => {
            head_moved::review_new_head(conn, id, to, "github", now)?;
            Ok(true)
        }
        PullStep::Retargeted { to } => {
            conn.execute(
                "UPDATE changes SET base = :to, updated_at = :now WHERE change_id = :id",
                params! { ":to": to, ":now": now, ":id": id },
            )?;
            let reason = format!("the PR goes into {to} now, not into {}", change.base);
            told(conn, id, PullChange::Retargeted, reason.clone(), now)?;
            head_moved::review_new_base(conn, id, &reason, now)?;
            Ok(true)
        }
        PullStep::Unwanted { reason } => {
            pause::pause_by_rules(conn, id, now)?;
            told(
                conn,
                id,
                PullChange::Unwanted,
                format!("paused: {reason}"),
                now,
            )?;
            Ok(true)
        }
        PullStep::Wanted => {
            pause::resume_by_rules(conn, id, now)?;
            told(
                conn,
                id,
                PullChange::Wanted,
                "the project's rules take the PR again".to_owned(),
                now,
            )?;
            Ok(true)
        }
    }
}

/// The project's rules no longer take it, as was seen between two reads: paused, with what was seen.
pub(crate) fn unwanted(
    conn: &Connection,
    id: &ChangeId,
    pull: &Pull,
    reason: &str,
    now: Time,
) -> Result<()> {
    let change = crate::blackboard::change(conn, id)?;
    // Where the branch is, the next read finds out: the forge may show an old head.
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
        apply_pull_step(
            conn,
            id,
            &PullStep::Unwanted {
                reason: reason.to_owned(),
            },
            now,
        )?;
    }
    Ok(())
}

/// Rejects a change and records with each comment that it is in the rejection, or had no room.
fn reject_with_feedback(
    conn: &Connection,
    id: &ChangeId,
    rejection: &NewRejection,
    now: Time,
) -> Result<bool> {
    let event_id = rejections::reject_change(conn, id, rejection, now)?;
    for feedback_id in rejection.rejected.feedback.iter().flatten() {
        feedback::judge(
            conn,
            feedback_id,
            (FeedbackOutcome::Rejected, None),
            Some(event_id),
            now,
        )?;
    }
    for feedback_id in &rejection.rejected.left_out_feedback {
        feedback::judge(
            conn,
            feedback_id,
            (
                FeedbackOutcome::LeftOut,
                Some("it came with more than a fix can be told"),
            ),
            None,
            now,
        )?;
    }
    Ok(true)
}

/// The pull request was merged or closed: the change is too, and nothing of it goes on.
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
    // What a person cancelled was not moved by this, and does not come back with it.
    conn.execute(
        "UPDATE pulls SET state = :state, acted_on = CASE WHEN :is_over THEN acted_on ELSE :state END WHERE change_id = :id",
        params! { ":state": state, ":is_over": is_over, ":id": id },
    )?;
    if is_over {
        return Ok(false);
    }
    let reason = if state == PullState::Closed {
        "the PR was closed".to_owned()
    } else {
        format!("the PR was {state}")
    };
    told(conn, id, what, reason.clone(), now)?;
    changes::advance(conn, id, trigger, "github", now)?;
    items::cancel_open(conn, id, None, &reason, now)?;
    rejections::settle_all(conn, id, (ended_by, &reason))?;
    conn.execute(
        "UPDATE changes SET held_until = NULL, hold_reason = NULL, hold_kind = NULL, paused_by_person = 0, paused_by_rules = 0
         WHERE change_id = :id",
        params! { ":id": id },
    )?;
    Ok(true)
}

fn reopened(conn: &Connection, change: &Change, now: Time) -> Result<bool> {
    let id = &change.change_id;
    conn.execute(
        "UPDATE pulls SET acted_on = 'open' WHERE change_id = :id",
        params! { ":id": id },
    )?;
    told(
        conn,
        id,
        PullChange::Reopened,
        "the PR was reopened".to_owned(),
        now,
    )?;
    reopen::reopen(conn, change, now)?;
    Ok(true)
}

/// Told once, though it is looked at again whenever there is something new: what is in the way may be over by then.
fn stays_closed(conn: &Connection, id: &ChangeId, reason: &str, now: Time) -> Result<bool> {
    let summary = format!("the PR was reopened, and {id} stays closed: {reason}");
    let is_told = conn.exists(
        "SELECT 1 FROM events INDEXED BY events_by_change
         WHERE change_id = :id AND event_type = 'skipped' AND metadata ->> 'code' = :code
             AND id > (SELECT max(id) FROM events INDEXED BY events_by_change
                 WHERE change_id = :id AND event_type = 'state_changed' AND metadata ->> 'to' = 'closed')",
        params! { ":id": id, ":code": body::SkipCode::StaysClosed },
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

/// However much of what they said is passed over: each is asked once about a head.
fn ask(conn: &Connection, change: &Change, login: &str, now: Time) -> Result<()> {
    let new = NewIntent {
        key: format!(
            "ask:{}:{}:{login}",
            change.change_id,
            changes::short(&change.head)
        ),
        change_id: change.change_id.clone(),
        payload: Payload::Ask(Ask {
            logins: vec![login.to_owned()],
        }),
        epoch: 0,
    };
    intend(conn, &new, now).map(drop)
}

fn told(
    conn: &Connection,
    id: &ChangeId,
    what: PullChange,
    summary: String,
    now: Time,
) -> Result<()> {
    let changed = body::PrChanged {
        what: Some(what),
        ..Default::default()
    };
    let event = NewEvent::about(id, changed, summary).by("github");
    crate::blackboard::append(conn, &event, now)?;
    Ok(())
}

/// A person took fixes of ours back, each named by the intent to push it: no more are made unless a person says so. It is
/// said once of each.
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
        params! { ":now": now, ":id": id },
    )
}

/// The set-up of the change's worktree was run for this.
pub(crate) fn set_up_for(conn: &Connection, id: &ChangeId, what: &str) -> Result<()> {
    conn.run(
        "UPDATE changes SET setup_done = :what WHERE change_id = :id",
        params! { ":what": what, ":id": id },
    )
}

/// The untracked files that passing gates left in the change's worktree.
pub(crate) fn gate_leftovers(conn: &Connection, id: &ChangeId) -> Result<Vec<String>> {
    conn.one(
        "SELECT gate_leftovers FROM changes WHERE change_id = :id",
        params! { ":id": id },
        |row| Ok(row.get::<Json<_>>(0)?.0),
    )
}

pub(crate) fn add_gate_leftovers(conn: &Connection, id: &ChangeId, paths: &[String]) -> Result<()> {
    let mut all = gate_leftovers(conn, id)?;
    all.extend(paths.iter().cloned());
    all.sort();
    all.dedup();
    conn.run(
        "UPDATE changes SET gate_leftovers = :paths WHERE change_id = :id",
        params! { ":paths": Json(all), ":id": id },
    )
}

/// Ends a hold that stood only because the forge could not be read.
pub(crate) fn end_read_hold(conn: &Connection, id: &ChangeId, now: Time) -> Result<()> {
    let change = crate::blackboard::change(conn, id)?;
    if change.hold_kind == Some(HoldKind::PrUnreadable) {
        hold::end_hold(conn, &change, "GitHub could be read again", now)?;
    }
    Ok(())
}
