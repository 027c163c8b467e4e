//! A person's decisions about a change. Each is an event with actor and reason, in the transaction
//! that carries it out.

use super::decisions;
use crate::blackboard::escalate::set_final;
use crate::blackboard::forge::{outbox, pulls};
use crate::blackboard::sql::{Connection, params};
use crate::blackboard::work::{coverage, finish, items, waiting};
use crate::blackboard::{BoardError, Result, changes, escalate, rejections};
use crate::change::{Change, ChangeId, FinalVerdict, State};
use crate::clock::Time;
use crate::event::body::Action;
use crate::event::{NewEvent, body};
use crate::finding::{Finding, Outcome, Verdict};
use crate::proposal::{Bound, Decision, Escalation, decision};
use crate::state::Trigger;
use crate::work::{Item, ItemId, LoopStep, RejectionEnd, RejectionState, Source};

/// Approves a change despite anything open. Running items are fenced, and waiting rejections are
/// ended with the reason.
pub(crate) fn approve_by_person(
    conn: &Connection,
    id: &ChangeId,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let change = crate::blackboard::change(conn, id)?;
    changes::refuse_if_over(&change, "it can no longer be approved")?;
    if decisions::is_unimplemented(&change) {
        return Err(decisions::unimplemented(&change));
    }
    items::cancel_open(conn, id, None, &format!("approved by {actor}"), now)?;
    let reason = format!("approved by {actor}");
    rejections::settle_all(conn, id, (RejectionEnd::Approved, &reason))?;
    set_final(conn, id, Some(FinalVerdict::Approved))?;
    end_waiting(conn, id)?;
    changes::advance(conn, id, Trigger::Approve, actor, now)
}

/// Reopens the failed item and moves the change back to its previous state.
pub(crate) fn retry(conn: &Connection, id: &ChangeId, actor: &str, now: Time) -> Result<Change> {
    if crate::blackboard::seen_again(conn, id, actor, now)? {
        instruct(conn, id, Action::Retry, "", actor, now)?;
        conn.execute(
            "UPDATE pulls SET next_read = :now, failures = 0, slow_reads = 0 WHERE change_id = :id",
            params! { now, id },
        )?;
        return crate::blackboard::change(conn, id);
    }
    let change = crate::blackboard::change(conn, id)?;
    let failed = escalate::failed_item(conn, id)?;
    if change.state == State::Escalated && failed.is_none() && has_room(conn, &change)? {
        instruct(conn, id, Action::Retry, "", actor, now)?;
        return ask_anew(conn, &change, None, BeginsRound::No, actor, now);
    }
    let (State::Escalated, Some(failed)) = (change.state, failed) else {
        let state = change.state;
        if let Some(until) = change.held_until {
            return Err(BoardError::refused_with_hint(
                format!(
                    "{id} is held until {}, not escalated: there is nothing to retry",
                    until.local()
                ),
                format!("`remand resume {id}` continues now"),
            ));
        }
        let what = if state == State::Escalated {
            format!("{id} has no failed item to retry")
        } else {
            format!("{id} is {state}, not escalated: there is nothing to retry")
        };
        let helps = if state.is_over() {
            format!("`remand show {id}` shows how it ended")
        } else if change.paused_by_person {
            format!("`remand resume {id}` ends the pause")
        } else if state != State::Escalated {
            format!("`remand why {id}` explains what it is waiting for")
        } else if !needs_more_fixes(conn, id)? {
            format!(
                "`remand refine {id} --text TEXT` starts a new round; `remand why {id}` lists the possible commands"
            )
        } else {
            format!(
                "`remand budget {id} --fixes +1` allows one more fix, `remand refine {id} --text TEXT` starts a new round; `remand why {id}` explains its state"
            )
        };
        return Err(BoardError::refused_with_hint(what, helps));
    };
    instruct(
        conn,
        id,
        Action::Retry,
        &failed.item_id.to_string(),
        actor,
        now,
    )?;
    reopen_failed(conn, id, &failed, actor, now)
}

/// Reopens the failed item for which a change was escalated.
pub(crate) fn reopen_failed(
    conn: &Connection,
    id: &ChangeId,
    failed: &Item,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let mut back = end_escalation(conn, id, actor, now)?;
    rejections::reopen_escalated(conn, id, &failed.item_id)?;
    if failed.source == Source::ReviewFix {
        back = changes::advance(conn, id, Trigger::FixCreated, actor, now)?;
    }
    items::requeue_item(conn, Some(&back), &failed.item_id, now)?;
    Ok(back)
}

/// Reopens an item that was cancelled or failed. A change that was waiting for a person continues,
/// with everything that waited with it.
pub(crate) fn reopen(
    conn: &Connection,
    id: &ChangeId,
    item: &ItemId,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let change = crate::blackboard::change(conn, id)?;
    if change.state != State::Escalated {
        return Ok(change);
    }
    let back = end_escalation(conn, id, actor, now)?;
    rejections::reopen_escalated(conn, id, item)?;
    Ok(back)
}

/// Creates a rejection with everything that is open and the person's additions. It supersedes older
/// ones.
pub(crate) fn refine(
    conn: &Connection,
    id: &ChangeId,
    text: Option<&str>,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let change = crate::blackboard::change(conn, id)?;
    changes::refuse_if_over(&change, "it can no longer be refined")?;
    let says_nothing = crate::blackboard::last_review(conn, id)?
        .is_none_or(|review| review.verdict == Verdict::Approved);
    let waiting = crate::blackboard::rejections_of(conn, id, Some(RejectionState::Pending))?;
    let escalated = crate::blackboard::rejections_of(conn, id, Some(RejectionState::Escalated))?;
    let is_quiet = waiting.is_empty()
        && escalated.is_empty()
        && crate::blackboard::open_guidance(conn, id)?.is_empty();
    if crate::blackboard::open_findings(conn, id)?.is_empty()
        && text.is_none()
        && says_nothing
        && is_quiet
    {
        return Err(BoardError::refused_with_hint(
            format!("{id} has no open findings and no feedback: there is nothing to refine"),
            "use --text to describe what to do",
        ));
    }
    if change.budget.total_fixes >= change.budget.max_total_fixes {
        let most = change.budget.max_total_fixes;
        return Err(BoardError::refused_with_hint(
            format!("{id} has used all of its fixes ({most})"),
            format!("`remand budget {id} --fixes +1` allows one more"),
        ));
    }
    instruct(
        conn,
        id,
        Action::Refine,
        text.unwrap_or("the open findings"),
        actor,
        now,
    )?;
    let refined = ask_anew(conn, &change, text, BeginsRound::Yes, actor, now)?;
    // Nobody else starts its review, which the rejection would wait for.
    if refined.state == State::PendingSelfReview && !refined.auto_review {
        items::cancel_reviews(conn, id, "a person asked for a fix first", actor, now)?;
        return changes::advance(conn, id, Trigger::NewRejection, actor, now);
    }
    Ok(refined)
}

/// True if a change waits for a person because of a limit on fixes.
fn needs_more_fixes(conn: &Connection, id: &ChangeId) -> Result<bool> {
    let bound = escalate::last(conn, id)?.as_ref().and_then(Bound::of);
    Ok(matches!(bound, Some(Bound::Cycles | Bound::TotalFixes)))
}

/// True if a change that used all fixes of its round may have more since then, because of new
/// settings.
fn has_room(conn: &Connection, change: &Change) -> Result<bool> {
    let last = escalate::last(conn, &change.change_id)?;
    let bound = last.as_ref().and_then(Bound::of);
    Ok(bound == Some(Bound::Cycles) && change.budget.fix_cycle < change.budget.max_fix_cycles)
}

/// Ends an escalation that a person has answered by their request: fixes are made again, and the
/// change returns to its previous state.
pub(crate) fn end_escalation(
    conn: &Connection,
    id: &ChangeId,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let back = changes::advance(conn, id, Trigger::Retry, actor, now)?;
    // What it was to wait for is no longer waited for: the person knows how that ended.
    let back = match back.waits_for {
        Some(_) => waiting::start_waiting(conn, id)?,
        None => back,
    };
    forget_progress(conn, id, now)?;
    pulls::judge_again(conn, id)?;
    Ok(back)
}

/// Like [`end_escalation`]. If the head has no verdict yet, its review comes first, and rejections wait for
/// it.
pub(crate) fn end_escalation_with_review(
    conn: &Connection,
    id: &ChangeId,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let back = end_escalation(conn, id, actor, now)?;
    if back.state == State::PendingSelfReview {
        finish::review_again(conn, &back, now)?;
    }
    Ok(back)
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BeginsRound {
    Yes,
    No,
}

pub(crate) fn ask_anew(
    conn: &Connection,
    change: &Change,
    text: Option<&str>,
    round: BeginsRound,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let id = &change.change_id;
    let open = crate::blackboard::open_findings(conn, id)?;
    let review = crate::blackboard::last_review(conn, id)?;
    let unanswered = unanswered(conn, id)?;
    let said = unanswered.with(text);
    let mut text_parts = said.clone();
    text_parts.extend(
        review
            .as_ref()
            .filter(|r| r.verdict != Verdict::Approved)
            .map(|r| r.body.clone()),
    );
    let summary = text.map_or_else(
        || format!("continue with {} open findings", open.len()),
        str::to_owned,
    );
    let rejected = body::WorkRejected {
        verdict: Some(Verdict::ChangesRequested),
        item_id: review.map(|r| r.item_id),
        head: Some(change.head.clone()),
        body: text_parts.join("\n\n"),
        said: Some(said.join("\n\n")),
        findings: unanswered.findings,
        supersedes: true,
        supersedes_to: Some(unanswered.to),
        begins_round: Some(round == BeginsRound::Yes),
        ..Default::default()
    };
    // This comes first: if the change is waiting for a person, the rejection would wait with it.
    let back = if change.state == State::Escalated {
        end_escalation_with_review(conn, id, actor, now)?
    } else {
        change.clone()
    };
    rejections::reject_change(conn, id, actor, &summary, &rejected, now)?;
    Ok(back)
}

/// Requests that no fix has answered. A rejection that supersedes them has to repeat them.
pub(crate) struct Unanswered {
    /// Texts of all rejections except those of our own reviews, oldest first.
    words: Vec<String>,
    /// Open findings of the ledger with their ids, then those that came with the texts.
    pub(crate) findings: Vec<Finding>,
    /// Id of the newest event included.
    pub(crate) to: i64,
}

impl Unanswered {
    /// Returns the texts, preceded by what the person adds now.
    pub(crate) fn with(&self, text: Option<&str>) -> Vec<String> {
        text.map(str::to_owned)
            .into_iter()
            .chain(self.words.iter().cloned())
            .collect()
    }
}

pub(crate) fn unanswered(conn: &Connection, id: &ChangeId) -> Result<Unanswered> {
    let ledger = crate::blackboard::finding_list(conn, id)?;
    let is_known = |one: &Finding| {
        ledger.iter().any(|known| {
            one.id.as_ref() == Some(&known.finding_id) && one.text == known.finding.text
        })
    };
    // A fix that had no room for everything was given a part: only the rest is requested again.
    let pieces = coverage::told_of_unfinished(conn, id)?;
    let was_given = |piece: &str| pieces.iter().any(|one| one.piece == piece);
    let mut findings = Vec::new();
    for open in crate::blackboard::open_findings(conn, id)? {
        if open.outcome == Outcome::Addressed
            && pieces
                .iter()
                .any(|one| one.finding_id.as_ref() == Some(&open.finding_id))
        {
            continue;
        }
        findings.push(open.into_finding());
    }
    let to = rejections::rejections_of(conn, id, None)?
        .last()
        .map_or(0, |rejection| rejection.event_id);
    let mut words = Vec::new();
    for rejection in rejections::waiting_from_outside(conn, id)? {
        let own_words = match rejection.rejected.said.as_deref() {
            Some(said) => Some(said).filter(|said| !said.trim().is_empty()),
            None => Some(rejection.text()),
        };
        words.extend(
            own_words
                .filter(|_| !was_given(rejection.rejection_id.as_str()))
                .map(str::to_owned),
        );
        for (at, finding) in rejection.rejected.findings.iter().enumerate() {
            let is_given = was_given(&format!("{}.{}", rejection.rejection_id, at + 1));
            if is_known(finding) || is_given {
                continue;
            }
            // Only findings of the ledger have an id that can be answered.
            findings.push(Finding {
                id: None,
                ..finding.clone()
            });
        }
    }
    Ok(Unanswered {
        words,
        findings,
        to,
    })
}

/// Reopens the posts that the forge refused, and returns their number.
pub(crate) fn post(conn: &Connection, id: &ChangeId, actor: &str, now: Time) -> Result<usize> {
    let change = crate::blackboard::change(conn, id)?;
    changes::refuse_if_over(&change, "nothing more is posted for it")?;
    let opened = outbox::post_again(conn, id)?;
    if opened > 0 {
        instruct(conn, id, Action::Post, "", actor, now)?;
    }
    Ok(opened)
}

pub(crate) fn cancel_change(
    conn: &Connection,
    id: &ChangeId,
    why: Option<&str>,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let reason = why.map_or_else(
        || format!("cancelled by {actor}"),
        |why| format!("cancelled by {actor}: {why}"),
    );
    instruct(conn, id, Action::Cancel, why.unwrap_or(""), actor, now)?;
    let after = changes::advance(conn, id, Trigger::Closed, actor, now)?;
    items::cancel_open(conn, id, None, &reason, now)?;
    rejections::settle_all(conn, id, (RejectionEnd::Cancelled, &reason))?;
    end_waiting(conn, id)?;
    // Closed by a person: reopening the pull request does not bring it back.
    conn.execute(
        "UPDATE pulls SET acted_on = NULL WHERE change_id = :id",
        params! { id },
    )?;
    Ok(after)
}

/// Cancels one open item. A change that has nothing else to continue with is escalated; a task that is not
/// started is closed.
pub(crate) fn cancel_item(
    conn: &Connection,
    id: &ItemId,
    reason: &str,
    actor: &str,
    now: Time,
) -> Result<Item> {
    let before = crate::blackboard::item(conn, id)?;
    if let Some(change_id) = &before.change_id
        && before.status.is_open()
        && before.step() == Some(LoopStep::Implement)
        && crate::blackboard::change(conn, change_id)?.state == State::Queued
    {
        // Nothing was made yet that a person could decide about.
        cancel_change(conn, change_id, Some(reason), actor, now)?;
        return crate::blackboard::item(conn, id);
    }
    let cancelled = items::cancel_item(conn, id, reason, actor, now)?;
    let Some(change_id) = &cancelled.change_id else {
        return Ok(cancelled);
    };
    let change = crate::blackboard::change(conn, change_id)?;
    let goes_on = items::items_of(conn, change_id)?
        .iter()
        .any(|item| item.status.is_open());
    let waits_for_it = change.state.is_running() || change.state == State::PendingSelfReview;
    if waits_for_it && !goes_on {
        let escalation = Escalation::new(
            format!("{actor} cancelled {} {id}: {reason}", cancelled.source),
            decision!(
                "accept it ({approve}), continue ({refine}), or close it ({cancel})",
                approve = Decision::accept(&change),
                refine = Decision::refine(change_id),
                cancel = Decision::cancel(change_id),
            ),
        );
        escalate(conn, change_id, &escalation, now)?;
    }
    Ok(cancelled)
}

pub(super) fn end_waiting(conn: &Connection, id: &ChangeId) -> Result<()> {
    conn.execute(
        "UPDATE changes SET held_until = NULL, hold_reason = NULL, hold_kind = NULL WHERE change_id = :id",
        params! { id },
    )?;
    crate::blackboard::work::hold::forget_repeats(conn, id)
}

/// Resets the detection of missing progress after a person's decision, and allows fixes again.
fn forget_progress(conn: &Connection, id: &ChangeId, now: Time) -> Result<()> {
    conn.run(
        "UPDATE changes SET progress_since = :now, auto_fix = 1 WHERE change_id = :id",
        params! { now, id },
    )
}

pub(crate) fn instruct(
    conn: &Connection,
    id: &ChangeId,
    action: Action,
    text: &str,
    actor: &str,
    now: Time,
) -> Result<()> {
    let colon = if text.is_empty() { "" } else { ": " };
    let event = NewEvent::about(
        id,
        body::Instructed::new(action, text, actor),
        format!("{actor} requested {action}{colon}{text}"),
    )
    .by(actor);
    crate::blackboard::append(conn, &event, now).map(drop)
}
