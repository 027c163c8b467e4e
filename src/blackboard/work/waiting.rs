//! Tasks that wait for other changes (`--after`): they start when the other change is merged, and need a person when it
//! needs one or is closed.

use super::{hold, items};
use crate::blackboard::operator::pause;
use crate::blackboard::sql::{Connection, params};
use crate::blackboard::{BoardError, Result, changes, escalate};
use crate::change::{Change, ChangeId, State};
use crate::clock::Time;
use crate::event::{NewEvent, body};
use crate::proposal::{Decision, Escalation, decision};
use crate::state::Trigger;
use crate::work::{Item, ItemId, Status};

/// Returns the change to wait for; `None` if it is already merged.
pub(crate) fn waiting_for(conn: &Connection, after: &ChangeId) -> Result<Option<ChangeId>> {
    let first = crate::blackboard::change(conn, after)?;
    match first.state {
        State::Merged => return Ok(None),
        State::Closed | State::Escalated => {
            return Err(BoardError::refused_with_hint(
                format!("cannot wait for {after}: it is {}", first.state),
                format!("`remand why {after}` explains its state"),
            ));
        }
        State::Queued
        | State::Implementing
        | State::PendingSelfReview
        | State::SelfReviewing
        | State::SelfReviewPassed
        | State::SelfReviewFailed
        | State::Refining
        | State::PrCreated
        | State::AwaitingPrFeedback
        | State::ReviewingPr
        | State::AddressingFeedback
        | State::ReadyForHumanReview
        | State::Approved => {}
    }
    if !first.opens_pr && !first.has_pr() {
        return Err(BoardError::refused_with_hint(
            format!("cannot wait for {after}: it has no pull request whose merge remand would see"),
            format!(
                "to build on its work, use `--base {}`; or add the task when {after} is merged",
                first.branch
            ),
        ));
    }
    let is_left = matches!(first.state, State::ReadyForHumanReview | State::Approved);
    if is_left && first.lacks_pr() {
        return Err(BoardError::refused_with_hint(
            format!(
                "cannot wait for {after}: it is {} and has no pull request whose merge remand would see",
                first.state
            ),
            format!(
                "`remand skip {after}` opens it; to build on its work, use `--base {}`",
                first.branch
            ),
        ));
    }
    Ok(Some(after.clone()))
}

/// Refuses to let a change wait for another one that waits for it.
pub(super) fn refuse_cycle(conn: &Connection, id: &ChangeId, after: &ChangeId) -> Result<()> {
    let mut chain = vec![id.to_string()];
    let mut next = Some(after.clone());
    while let Some(first) = next {
        let is_cycle = first == *id;
        chain.push(first.to_string());
        // A cycle without this change would be older than this check; it must not hang here.
        if is_cycle || chain.len() > 10_000 {
            return Err(BoardError::refused_with_hint(
                format!(
                    "{id} cannot wait for {after}: each would wait for the other ({})",
                    chain.join(" after ")
                ),
                format!("`remand item edit {after} --after none` ends the wait of {after}"),
            ));
        }
        next = match crate::blackboard::change(conn, &first) {
            Ok(change) => change.waits_for,
            // It was closed and pruned.
            Err(BoardError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
    }
    Ok(())
}

/// Carries a transition of a change over to those that wait for it: once it is merged, they start; if it is closed or
/// needs a person, so do they; if it then continues, they wait again.
pub(crate) fn follow_first(
    conn: &Connection,
    first: &ChangeId,
    (from, to): (State, State),
    now: Time,
) -> Result<()> {
    let ended = |state| matches!(state, State::Closed | State::Escalated);
    if !ended(from) && !ended(to) && to != State::Merged {
        return Ok(());
    }
    let waiting: Vec<Change> = conn.list(
        "SELECT * FROM changes WHERE waits_for = :first AND state NOT IN ('merged', 'closed') ORDER BY length(change_id), change_id",
        params! { first },
    )?;
    for change in waiting {
        let is_escalated = change.state == State::Escalated;
        if is_escalated && !ended(to) {
            wait_again(conn, &change, &format!("{first} is {to}"), now)?;
        }
        if to == State::Merged {
            start(conn, &change.change_id, &format!("{first} is merged"), now)?;
        } else if ended(to) && !is_escalated {
            need_person(conn, &change, first, to, now)?;
        }
    }
    Ok(())
}

/// Starts a task whose wait is over.
fn start(conn: &Connection, id: &ChangeId, reason: &str, now: Time) -> Result<()> {
    start_waiting(conn, id)?;
    let resumed = body::Resumed {
        reason: reason.to_owned(),
        held_for: None,
    };
    let event = NewEvent::about(id, resumed, format!("starts: {reason}"));
    crate::blackboard::append(conn, &event, now).map(drop)
}

/// Hands a waiting task to a person, with its failed item, so that it can be retried.
fn need_person(
    conn: &Connection,
    change: &Change,
    first: &ChangeId,
    state: State,
    now: Time,
) -> Result<()> {
    let id = &change.change_id;
    let reason = format!("it was to start after {first}, which is {state}");
    let mut escalation = Escalation::new(
        reason.clone(),
        decision!(
            "if {first} continues ({why}), it waits again; or start it now ({retry}), or close it ({cancel})",
            first = first.as_str().into(),
            why = Decision::command(format!("remand why {first}")),
            retry = Decision::retry(id),
            cancel = Decision::cancel(id),
        ),
    );
    escalation.failed_item = fail_implementation(conn, change, &reason, now)?;
    escalate(conn, id, &escalation, now).map(drop)
}

/// Returns a task to the queue that was escalated only because of the change that it waits for.
fn wait_again(conn: &Connection, change: &Change, reason: &str, now: Time) -> Result<()> {
    let id = &change.change_id;
    // A person's retry ends the wait, so nothing else can have stopped it since.
    let Some(failed) = escalate::failed_item(conn, id)? else {
        return Ok(());
    };
    let back = changes::advance(conn, id, Trigger::Retry, "remand", now)?;
    items::requeue_item(conn, Some(&back), &failed.item_id, now)?;
    let resumed = body::Resumed {
        reason: reason.to_owned(),
        held_for: None,
    };
    let event = NewEvent::about(id, resumed, format!("waits again: {reason}"));
    crate::blackboard::append(conn, &event, now).map(drop)
}

/// Marks the item of a waiting task as failed, so that a person can retry it.
fn fail_implementation(
    conn: &Connection,
    change: &Change,
    reason: &str,
    now: Time,
) -> Result<Option<ItemId>> {
    let open = items::items_of(conn, &change.change_id)?
        .into_iter()
        .find(|item: &Item| item.status.is_open());
    let Some(item) = open else { return Ok(None) };
    conn.execute(
        "UPDATE work_items SET status = :failed, claimed_by = NULL, lease_expires_at = NULL, completed_at = :now,
             failure_reason = :reason, epoch = epoch + 1
         WHERE item_id = :id AND status IN ('available', 'claimed', 'blocked')",
        params! { failed: Status::Failed, now, reason, id: item.item_id },
    )?;
    let failed = body::WorkFailed {
        item_id: Some(item.item_id.clone()),
        source: Some(item.source),
        reason: reason.to_owned(),
        wip: None,
    };
    let summary = format!("{} {} not started: {reason}", item.source, item.item_id);
    crate::blackboard::append(conn, &items::about_item(&item, failed, summary), now)?;
    Ok(Some(item.item_id))
}

/// Ends the wait of a change for another one.
pub(crate) fn start_waiting(conn: &Connection, id: &ChangeId) -> Result<Change> {
    conn.execute(
        "UPDATE changes SET waits_for = NULL WHERE change_id = :id",
        params! { id },
    )?;
    pause::unblock_if_free(conn, id)
}

/// Makes a queued change wait for another one.
pub(super) fn begin_waiting(conn: &Connection, id: &ChangeId, first: &ChangeId) -> Result<()> {
    conn.execute(
        "UPDATE changes SET waits_for = :first WHERE change_id = :id",
        params! { first, id },
    )?;
    hold::block(conn, id)
}
