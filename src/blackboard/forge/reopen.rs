//! Resumes a change whose pull request was closed and is open again, or could not be read and now
//! can. It continues where it was; no feedback, decision or work in progress is lost.

use super::{outbox, pulls};
use crate::blackboard::sql::{Connection, params};
use crate::blackboard::work::{finish, items};
use crate::blackboard::{Result, changes, escalate, rejections};
use crate::change::{Change, ChangeId, State};
use crate::clock::Time;
use crate::event::{NewEvent, body};
use crate::finding::Verdict;
use crate::intent::IntentResult;
use crate::proposal::Bound;
use crate::pull_request::PullState;
use crate::state::{Trigger, resting};
use crate::work::{RejectionEnd, RejectionState, Source, Status};

/// Rejections that ended with their pull request, and are resumed with it.
const CLOSED: (RejectionState, Option<RejectionEnd>) =
    (RejectionState::Skipped, Some(RejectionEnd::PrClosed));

/// Resumes a change whose pull request is open again.
pub(crate) fn reopen(conn: &Connection, change: &Change, now: Time) -> Result<()> {
    let id = &change.change_id;
    let left = left_from(conn, id)?;
    let back = changes::advance(conn, id, Trigger::Reopened, "github", now)?;
    let head = pulls::pull_of_change(conn, id)?
        .map(|pull| pull.head_sha)
        .filter(|head| *head != back.head);
    if let Some(head) = head {
        let moved = changes::move_head(conn, id, &head, now)?;
        // The new head is judged like any other: of the feedback on the old one, only people's
        // requests remain. If a person was asked, a push is their answer.
        rejections::answer_by_push(conn, id, left)?;
        return continue_reopened(conn, &moved, CLOSED, now);
    }
    match (left, escalate::last(conn, id)?) {
        (State::Escalated, Some(escalated)) => {
            let from = escalated
                .body::<body::Escalated>()
                .and_then(|escalated| escalated.from);
            stand(
                conn,
                &back,
                from.map_or(State::AwaitingPrFeedback, resting),
                now,
            )?;
            escalate::wait_again(conn, id, &escalated, now)?;
            rejections::wait_again(conn, id, &escalated.summary)
        }
        (left, _) => {
            let back = stand(conn, &back, left, now)?;
            continue_reopened(conn, &back, CLOSED, now)
        }
    }
}

/// Ends an escalation that was only about an unreadable pull request, which can be read again.
/// Returns true if there was one.
pub(crate) fn seen_again(conn: &Connection, id: &ChangeId, actor: &str, now: Time) -> Result<bool> {
    let change = crate::blackboard::change(conn, id)?;
    let Some(escalated) = escalate::last(conn, id)?.filter(|_| change.state == State::Escalated)
    else {
        return Ok(false);
    };
    if Bound::of(&escalated) != Some(Bound::Unreadable) {
        return Ok(false);
    }
    let why = "the PR is readable again; continuing from the previous state";
    let resumed = body::Resumed {
        reason: why.to_owned(),
        held_for: None,
    };
    crate::blackboard::append(conn, &NewEvent::about(id, resumed, why).by(actor), now)?;
    // There is no need to notify anyone any more.
    outbox::end_intent(
        conn,
        &escalate::note_key(escalated.id),
        IntentResult::NotNeeded,
        None,
        now,
    )?;
    let back = changes::advance(conn, id, Trigger::Retry, actor, now)?;
    continue_reopened(conn, &back, (RejectionState::Escalated, None), now)?;
    Ok(true)
}

/// Returns the state of a change when it was closed.
fn left_from(conn: &Connection, id: &ChangeId) -> Result<State> {
    let left: Option<String> = conn.find(
        "SELECT metadata ->> 'from' FROM events
         WHERE change_id = :id AND event_type = 'state_changed' AND metadata ->> 'to' = 'closed' ORDER BY id DESC LIMIT 1",
        params! { id },
    )?;
    Ok(left
        .and_then(|left| left.parse().ok())
        .unwrap_or(State::AwaitingPrFeedback))
}

/// Restores a verdict that still applies to this head.
fn stand(conn: &Connection, back: &Change, as_it_was: State, now: Time) -> Result<Change> {
    let trigger = match as_it_was {
        State::ReadyForHumanReview => Trigger::MarkReady,
        State::Approved => Trigger::HeadApproved,
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
        | State::Merged
        | State::Closed
        | State::Escalated => return Ok(back.clone()),
    };
    changes::advance(conn, &back.change_id, trigger, "github", now)
}

/// True if a change is closed only because its pull request is.
pub(crate) fn may_come_back(conn: &Connection, change: &Change) -> Result<bool> {
    let pull =
        pulls::pull_of_change(conn, &change.change_id)?.filter(|_| change.state == State::Closed);
    Ok(pull.is_some_and(|pull| pull.acted_on == Some(PullState::Closed)))
}

/// Reopens the fix that was open, and leaves other requests for the next one. If there is nothing
/// to wait for, an approved head stays approved, and any other is reviewed.
fn continue_reopened(
    conn: &Connection,
    back: &Change,
    ended: (RejectionState, Option<RejectionEnd>),
    now: Time,
) -> Result<()> {
    let id = &back.change_id;
    let in_fix = rejections::items_of_ended(conn, id, ended)?;
    let fix = items::items_of(conn, id)?.into_iter().rev().find(|item| {
        item.source == Source::ReviewFix
            && item.status == Status::Cancelled
            && in_fix.contains(&item.item_id)
    });
    rejections::take_up_again(conn, id, ended, fix.as_ref().map(|fix| &fix.item_id))?;
    if let Some(fix) = fix {
        let addressing = rejections::reopen_for_rejection(conn, back, now)?;
        let addressing = changes::advance(
            conn,
            &addressing.change_id,
            Trigger::FixCreated,
            "remand",
            now,
        )?;
        items::requeue_item(conn, Some(&addressing), &fix.item_id, now)?;
        return Ok(());
    }
    let waits = !rejections::rejections_of(conn, id, Some(RejectionState::Pending))?.is_empty();
    if waits || back.state != State::AwaitingPrFeedback {
        return Ok(());
    }
    if crate::blackboard::review_of_head(conn, id, &back.head)?
        .is_some_and(|review| review.verdict == Verdict::Approved)
    {
        changes::advance(conn, id, Trigger::MarkReady, "remand", now)?;
    } else {
        finish::review_again(conn, back, now)?;
    }
    Ok(())
}
