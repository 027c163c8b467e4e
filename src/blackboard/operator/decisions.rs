//! Decisions of a person that end a stage or start it again: skip the review, mark as ready, waive
//! findings, reopen. Each refuses what the transition table does not allow, with the reason.

use std::collections::BTreeSet;

use super::operator_actions::{end_escalation, end_waiting, instruct};
use crate::blackboard::escalate::{self, set_final};
use crate::blackboard::forge::{head_moved, pulls, reopen as pull_reopen};
use crate::blackboard::sql::{Connection, params};
use crate::blackboard::work::{finish, items, tasks};
use crate::blackboard::{BoardError, Result, changes, events, rejections, reviews};
use crate::change::{Change, ChangeId, FinalVerdict, State};
use crate::clock::Time;
use crate::event::body::Action;
use crate::event::{EventType, NewEvent, body};
use crate::finding::{FindingId, Outcome, Verdict};
use crate::proposal::Bound;
use crate::pull_request::PullState;
use crate::state::{self, Facts, Trigger};
use crate::text::{list, typed};
use crate::work::{Rejection, RejectionEnd, RejectionState, Source, Status};

/// Skips the review before the pull request: the pull request is queued, or a change without one is
/// ready. Findings stay as they are. A change that a person left without its pull request gets it.
pub(crate) fn skip(
    conn: &Connection,
    id: &ChangeId,
    why: Option<&str>,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let change = crate::blackboard::change(conn, id)?;
    changes::refuse_if_over(&change, "there is no review to skip")?;
    let may_skip = state::next(change.state, Trigger::SkipToPr, Facts::from(&change)).is_ok();
    if !may_skip || (is_past_review(&change) && !change.lacks_pr()) {
        return Err(no_review_to_skip(&change));
    }
    instruct(conn, id, Action::Skip, why.unwrap_or(""), actor, now)?;
    let reason = format!("{actor} skipped the review");
    let asked = end_work(conn, id, (RejectionEnd::ReviewSkipped, &reason), now)?;
    if asked {
        set_final(conn, id, Some(FinalVerdict::ChangesRequested))?;
    }
    let passed = changes::advance(conn, id, Trigger::SkipToPr, actor, now)?;
    tasks::leave_self_review(conn, passed, now)
}

/// True for a change whose review has ended, and which waits for a person or for its merge.
fn is_past_review(change: &Change) -> bool {
    let stage = change.escalated_from.unwrap_or(change.state);
    matches!(stage, State::ReadyForHumanReview | State::Approved)
}

fn no_review_to_skip(change: &Change) -> BoardError {
    let id = &change.change_id;
    let (what, hint) = if change.has_pr() {
        let what = format!("{id} already has a PR: only the review before it can be skipped");
        (what, format!("`remand ready {id}` marks it as ready"))
    } else if is_unimplemented(change) {
        return unimplemented(change);
    } else {
        let what = format!("{id} is {}: there is no review to skip", change.state);
        (what, format!("`remand why {id}` explains its state"))
    };
    BoardError::refused_with_hint(what, hint)
}

/// Marks a change as ready for a person. Nothing is posted, and no pull request is opened.
pub(crate) fn mark_ready(
    conn: &Connection,
    id: &ChangeId,
    why: Option<&str>,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let change = crate::blackboard::change(conn, id)?;
    changes::refuse_if_over(&change, "it can no longer be marked as ready")?;
    if is_unimplemented(&change) {
        return Err(unimplemented(&change));
    }
    if change.state == State::ReadyForHumanReview {
        let what = format!("{id} is already ready");
        let hint = format!("`remand approve {id}` approves it");
        return Err(BoardError::refused_with_hint(what, hint));
    }
    instruct(conn, id, Action::Ready, why.unwrap_or(""), actor, now)?;
    let reason = format!("marked as ready by {actor}");
    end_work(conn, id, (RejectionEnd::MarkedReady, &reason), now)?;
    changes::advance(conn, id, Trigger::MarkReady, actor, now)
}

/// True for a task without any work that could be judged.
pub(super) fn is_unimplemented(change: &Change) -> bool {
    let stage = change.escalated_from.unwrap_or(change.state);
    matches!(stage, State::Queued | State::Implementing)
}

pub(super) fn unimplemented(change: &Change) -> BoardError {
    let id = &change.change_id;
    BoardError::refused_with_hint(
        format!("{id} is not implemented yet ({})", change.state),
        format!("`remand why {id}` explains what it is waiting for"),
    )
}

/// Ends everything that is under way or waiting for a change. Returns true if a rejection was among
/// it.
fn end_work(
    conn: &Connection,
    id: &ChangeId,
    ended: (RejectionEnd, &str),
    now: Time,
) -> Result<bool> {
    items::cancel_open(conn, id, None, ended.1, now)?;
    let asked = !unsettled(conn, id)?.is_empty();
    rejections::settle_all(conn, id, ended)?;
    end_waiting(conn, id)?;
    Ok(asked)
}

/// Returns the rejections that wait for a fix or for a person, or are in a fix.
fn unsettled(conn: &Connection, id: &ChangeId) -> Result<Vec<Rejection>> {
    let mut all = rejections::rejections_of(conn, id, None)?;
    all.retain(|one| match one.state {
        RejectionState::Pending | RejectionState::InFix | RejectionState::Escalated => true,
        RejectionState::Fixed | RejectionState::Superseded | RejectionState::Skipped => false,
    });
    Ok(all)
}

/// Waives findings of one change: no fix is made for them, and they do not prevent an approval.
///
/// If nothing else was asked for, the head is reviewed again.
pub(crate) fn waive(
    conn: &Connection,
    findings: &[FindingId],
    reason: &str,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let id = change_of_findings(conn, findings)?;
    let change = crate::blackboard::change(conn, &id)?;
    changes::refuse_if_over(&change, "its findings can no longer be waived")?;
    for finding in findings {
        let (_, known) = crate::blackboard::finding(conn, finding)?;
        match known.outcome {
            Outcome::Open | Outcome::Addressed | Outcome::Disputed => {}
            outcome @ (Outcome::Waived | Outcome::Resolved) => {
                return Err(BoardError::refused_with_hint(
                    format!("{finding} is already {outcome}"),
                    format!("`remand status {id}` lists the open findings"),
                ));
            }
        }
        reviews::set_outcome(conn, finding, Outcome::Waived, Some(reason))?;
    }
    let waived = body::Instructed {
        findings: Some(findings.to_vec()),
        ..body::Instructed::new(Action::Waive, reason, actor)
    };
    let summary = format!("{actor} waived {}: {reason}", list(findings));
    let event = NewEvent::about(&id, waived, summary).by(actor);
    crate::blackboard::append(conn, &event, now)?;
    continue_without(conn, &change, actor, now)
}

/// Returns the one change that the findings belong to.
fn change_of_findings(conn: &Connection, findings: &[FindingId]) -> Result<ChangeId> {
    let mut found: Option<ChangeId> = None;
    for finding in findings {
        let (of, _) = crate::blackboard::finding(conn, finding)?;
        if let Some(other) = found.filter(|other| *other != of) {
            return Err(BoardError::refused_with_hint(
                format!("the findings belong to several changes: {other} and {of}"),
                "waive those of each change separately",
            ));
        }
        found = Some(of);
    }
    found.ok_or_else(|| BoardError::refused("no finding is named"))
}

/// Settles the rejections of a change that ask only for waived findings, and has its head reviewed.
fn continue_without(conn: &Connection, change: &Change, actor: &str, now: Time) -> Result<Change> {
    let id = &change.change_id;
    let ledger = crate::blackboard::finding_list(conn, id)?;
    let is_closed = |outcome| matches!(outcome, Outcome::Waived | Outcome::Resolved);
    let closed: BTreeSet<FindingId> = ledger
        .into_iter()
        .filter(|one| is_closed(one.outcome))
        .map(|one| one.finding_id)
        .collect();
    let asked = unsettled(conn, id)?;
    let is_claimed = items::items_of(conn, id)?
        .iter()
        .any(|item| item.status == Status::Claimed);
    if asked.is_empty() || is_claimed || asked.iter().any(|one| asks_for_more(one, &closed)) {
        return crate::blackboard::change(conn, id);
    }
    if change.state == State::Escalated && !is_about_fixes(conn, id)? {
        return crate::blackboard::change(conn, id);
    }
    let reason = format!("{actor} waived all of its findings");
    rejections::settle_all(conn, id, (RejectionEnd::Waived, &reason))?;
    for item in items::items_of(conn, id)? {
        if item.source == Source::ReviewFix && item.status.is_open() {
            items::cancel_item(conn, &item.item_id, &reason, actor, now)?;
        }
    }
    let back = if change.state == State::Escalated {
        end_escalation(conn, id, actor, now)?
    } else {
        crate::blackboard::change(conn, id)?
    };
    match back.state {
        State::SelfReviewFailed | State::Refining | State::AddressingFeedback => {
            let back = to_review(conn, &back, actor, now)?;
            review_if_due(conn, &back, actor, now)
        }
        State::PendingSelfReview | State::AwaitingPrFeedback => {
            review_if_due(conn, &back, actor, now)
        }
        State::SelfReviewPassed if back.opens_pr => tasks::leave_self_review(conn, back, now),
        // A verdict that was given meanwhile stands.
        State::Queued
        | State::Implementing
        | State::SelfReviewing
        | State::SelfReviewPassed
        | State::PrCreated
        | State::ReviewingPr
        | State::ReadyForHumanReview
        | State::Approved
        | State::Merged
        | State::Closed
        | State::Escalated => Ok(back),
    }
}

/// True if a rejection asks for anything besides closed findings.
fn asks_for_more(rejection: &Rejection, closed: &BTreeSet<FindingId>) -> bool {
    let rejected = &rejection.rejected;
    let is_open = |id: Option<&FindingId>| id.is_none_or(|id| !closed.contains(id));
    let has_open = rejected.findings.is_empty()
        || rejected
            .findings
            .iter()
            .any(|finding| is_open(finding.id.as_ref()));
    // The text of remand's own review only repeats its findings.
    let says_more = match &rejected.said {
        Some(said) => !said.trim().is_empty(),
        None => rejected.review_id.is_none(),
    };
    has_open || says_more || rejection.gate().is_some()
}

/// True if a change waits for a person only because its fixes are used up or make no progress.
fn is_about_fixes(conn: &Connection, id: &ChangeId) -> Result<bool> {
    let bound = escalate::last(conn, id)?.as_ref().and_then(Bound::of);
    let is_fixes = matches!(
        bound,
        Some(Bound::Cycles | Bound::TotalFixes | Bound::NoProgress)
    );
    Ok(is_fixes && escalate::failed_item(conn, id)?.is_none())
}

/// Moves a change to the state in which its head waits for a review.
pub(super) fn to_review(
    conn: &Connection,
    change: &Change,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let id = &change.change_id;
    match change.state {
        State::PendingSelfReview | State::AwaitingPrFeedback => return Ok(change.clone()),
        State::ReadyForHumanReview | State::Approved => {}
        State::Queued
        | State::Implementing
        | State::SelfReviewing
        | State::SelfReviewPassed
        | State::SelfReviewFailed
        | State::Refining
        | State::PrCreated
        | State::ReviewingPr
        | State::AddressingFeedback
        | State::Merged
        | State::Closed
        | State::Escalated => {
            changes::advance(conn, id, Trigger::MarkReady, actor, now)?;
        }
    }
    changes::advance(conn, id, Trigger::HeadMoved, actor, now)
}

/// Queues the review of the head, unless one is open, a person starts it, or there is none.
pub(super) fn review_if_due(
    conn: &Connection,
    change: &Change,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let id = &change.change_id;
    if !change.is_reviewed() {
        return finish::pass_unreviewed(conn, change, now);
    }
    let mut all = items::items_of(conn, id)?.into_iter();
    let is_open = all.any(|item| {
        item.source == Source::CodeReview && item.status.is_open() && !item.is_for_person()
    });
    if change.auto_review && !is_open {
        head_moved::queue_review(conn, change, actor, now)?;
    }
    crate::blackboard::change(conn, id)
}

/// Reopens a closed change, with the commit that its branch is at now.
pub(crate) fn reopen_change(
    conn: &Connection,
    id: &ChangeId,
    (head, why): (Option<&str>, Option<&str>),
    actor: &str,
    now: Time,
) -> Result<Change> {
    let change = crate::blackboard::change(conn, id)?;
    may_reopen(conn, &change)?;
    instruct(conn, id, Action::Reopen, why.unwrap_or(""), actor, now)?;
    let back = changes::advance(conn, id, Trigger::Reopened, actor, now)?;
    let back = match head {
        Some(head) => changes::move_head(conn, id, head, now)?,
        None => back,
    };
    conn.execute(
        "UPDATE pulls SET acted_on = 'open', next_read = :now WHERE change_id = :id",
        params! { now, id },
    )?;
    let verdict = crate::blackboard::review_of_head(conn, id, &back.head)?;
    if verdict.is_some_and(|review| review.verdict == Verdict::Approved) {
        return changes::advance(conn, id, Trigger::MarkReady, "remand", now);
    }
    review_if_due(conn, &back, actor, now)
}

fn may_reopen(conn: &Connection, change: &Change) -> Result<()> {
    let (id, state) = (&change.change_id, change.state);
    let refused = |what: String, hint: String| Err(BoardError::refused_with_hint(what, hint));
    match state {
        State::Closed => {}
        State::Merged => {
            let hint = "add new work with `remand add` or `remand review`".to_owned();
            return refused(format!("{id} is merged: it cannot be reopened"), hint);
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
        | State::Approved
        | State::Escalated => {
            let hint = format!("`remand why {id}` explains what it is waiting for");
            return refused(format!("{id} is {state}, not closed"), hint);
        }
    }
    crate::blackboard::refuse_removed(conn, &change.project_id)?;
    let pull = pulls::pull_of_change(conn, id)?;
    if let Some(pull) = pull.filter(|pull| pull.state != PullState::Open) {
        let what = format!("PR #{} of {id} is {}", pull.number, pull.state);
        let hint = if pull.state == PullState::Merged {
            "add new work with `remand add` or `remand review`".to_owned()
        } else if pull_reopen::may_come_back(conn, change)? {
            format!(
                "reopen {} on GitHub; remand then continues by itself",
                pull.url
            )
        } else {
            format!("reopen {} on GitHub first", pull.url)
        };
        return refused(what, hint);
    }
    if change.is_task() && !events::has_event(conn, id, EventType::Implemented)? {
        let dashes = if change.title.starts_with('-') {
            "-- "
        } else {
            ""
        };
        let hint = format!(
            "add the task again, with its options (such as --spec, --issue and --agent): `remand add {dashes}{}`",
            typed(&change.title)
        );
        return refused(format!("{id} was closed before it was implemented"), hint);
    }
    let beside = |live: &Change, what: String| {
        let live = &live.change_id;
        let hint = format!("`remand status {live}` shows it, `remand cancel {live}` closes it");
        refused(format!("{what} of {id} now belongs to {live}"), hint)
    };
    if let Some(live) = changes::live_change_at(conn, &change.worktree)? {
        return beside(&live, format!("the worktree {}", change.worktree));
    }
    if let Some(live) = changes::live_change_on(conn, &change.project_id, &change.branch)? {
        return beside(&live, format!("the branch {}", change.branch));
    }
    Ok(())
}
