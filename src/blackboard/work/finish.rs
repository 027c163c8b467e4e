//! Ends of items. Each is one step with its events, its follow-up and the transition of the change,
//! and happens only while the claim's epoch is valid.

use serde_json::Value;

use super::claim::fenced;
use super::items::{self, about_item, change_id_of};
use super::tasks;
use crate::blackboard::escalate::{escalate, set_final};
use crate::blackboard::forge::{outbox, pulls};
use crate::blackboard::operator::guidance;
use crate::blackboard::sql::{Connection, Json, params};
use crate::blackboard::{BoardError, NewIntent, OpenFinding, Result, changes, rejections, reviews};
use crate::change::{Change, ChangeId, FinalVerdict, State};
use crate::clock::Time;
use crate::event::{EventType, body};
use crate::finding::{Finding, FindingId, Outcome, Resolution, Severity, Verdict};
use crate::intent::{Note, Payload, PostedReview};
use crate::proposal::{Decision, Escalation, decision};
use crate::state::Trigger;
use crate::text::{count, short_sha};
use crate::work::{Claim, Item, LeftOut, RejectionId, RunId};

/// Review that does not give a verdict.
#[derive(Debug, Clone)]
pub(crate) struct Unclear {
    /// Run that gave the answer.
    pub(crate) run_id: RunId,
    pub(crate) reason: String,
    pub(crate) missing: Vec<String>,
}

/// Parsed review with its receipt: the input of the reviewer.
#[derive(Debug, Clone)]
pub(crate) struct ReviewDone {
    pub(crate) head: String,
    pub(crate) base: String,
    pub(crate) tree: String,
    pub(crate) files: Vec<String>,
    pub(crate) lines: i64,
    pub(crate) verdict: Verdict,
    pub(crate) raw_verdict: Option<Verdict>,
    pub(crate) dialect: String,
    pub(crate) reason: String,
    pub(crate) summary: Option<String>,
    pub(crate) body: String,
    pub(crate) findings: Vec<Finding>,
    /// Decisions about findings of earlier reviews: id, outcome, and reason if resolved. Others
    /// stay as they are.
    pub(crate) judged: Vec<(String, Outcome, Option<Resolution>)>,
    pub(crate) threshold: Severity,
    pub(crate) agent: String,
    pub(crate) model: Option<String>,
}

/// Fix that is committed and has passed its gates.
#[derive(Debug, Clone)]
pub(crate) struct FixDone {
    pub(crate) head_before: String,
    pub(crate) head_after: String,
    pub(crate) commits: usize,
    pub(crate) files: Vec<String>,
    /// Answers of the agent to each finding: id, outcome, reason.
    pub(crate) answers: Vec<(String, Outcome, String)>,
    /// Remote that it was pushed to; `None` for a local change.
    pub(crate) pushed_to: Option<String>,
    /// Posts for the pull request.
    pub(crate) posts: Vec<NewIntent>,
    /// Feedback that was not given to any run.
    pub(crate) rest: Option<Rest>,
}

/// Feedback that did not fit into any prompt of a fix.
#[derive(Debug, Clone)]
pub(crate) struct Rest {
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) escalation: Escalation,
}

/// Finishes a review: stores it, appends its event and moves the change.
pub(crate) fn finish_review(
    conn: &Connection,
    claim: &Claim,
    done: &ReviewDone,
    now: Time,
) -> Result<Change> {
    let item = fenced(conn, claim)?;
    let change = change_of(conn, &item)?;
    let (review_id, findings) = reviews::insert_review(conn, &change, &item.item_id, done, now)?;
    let findings: Vec<Finding> = findings
        .into_iter()
        .map(OpenFinding::into_finding)
        .collect();
    let id = &change.change_id;
    let summary = done.summary.clone().unwrap_or_else(|| done.reason.clone());
    if change.has_pr() && done.verdict != Verdict::Unclear {
        let post = NewIntent {
            key: format!("review:{review_id}"),
            change_id: id.clone(),
            payload: Payload::Review(PostedReview {
                review_id: Some(review_id.clone()),
                findings: findings.clone(),
            }),
            epoch: claim.epoch,
        };
        outbox::intend(conn, &post, now)?;
    }
    match done.verdict {
        Verdict::Approved => {
            complete(conn, &item, now)?;
            let approved = body::WorkApproved {
                verdict: Some(done.verdict),
                raw_verdict: done.raw_verdict,
                review_id: Some(review_id),
                item_id: Some(item.item_id.clone()),
                head: Some(done.head.clone()),
                base: Some(done.base.clone()),
                not_raised_again: not_raised_again(done),
                ..Default::default()
            };
            let approved = about_item(&item, approved, format!("approved: {summary}"));
            crate::blackboard::append(conn, &approved, now)?;
            set_final(conn, id, Some(FinalVerdict::Approved))?;
            settle(conn, id)?;
            let after = changes::advance(conn, id, Trigger::ReviewApproved, "remand", now)?;
            tasks::leave_self_review(conn, after, now)
        }
        Verdict::ChangesRequested => {
            complete(conn, &item, now)?;
            let rejected = body::WorkRejected {
                verdict: Some(done.verdict),
                raw_verdict: done.raw_verdict,
                review_id: Some(review_id),
                item_id: Some(item.item_id.clone()),
                head: Some(done.head.clone()),
                body: done.body.clone(),
                findings,
                ..Default::default()
            };
            let summary = format!("changes requested: {summary}");
            rejections::reject_change(conn, id, "remand", &summary, &rejected, now)?;
            set_final(conn, id, Some(FinalVerdict::ChangesRequested))?;
            settle(conn, id)?;
            changes::advance(conn, id, Trigger::ReviewRejected, "remand", now)
        }
        Verdict::NeedsDiscussion => {
            complete(conn, &item, now)?;
            settle(conn, id)?;
            let escalation = Escalation::new(
                format!("the reviewer asks for a discussion: {summary}"),
                decision!(
                    "read the review (`remand show {review_id}`), then {refine} or {approve}",
                    refine = Decision::refine(id),
                    approve = Decision::accept(&change),
                ),
            )
            .of_rejected(Some(item.item_id))
            .with_verdict(FinalVerdict::NeedsDiscussion);
            escalate(conn, id, &escalation, now)
        }
        Verdict::Unclear => {
            let failure = Escalation::new(
                format!(
                    "the review has no clear verdict, even after the reviewer was asked again: {}",
                    done.reason
                ),
                decision!(
                    "read what the reviewer wrote (`remand show {review_id}`), then {verdict}, or {retry} for another review",
                    verdict = Decision::command(format!(
                        "remand verdict {id} APPROVED|CHANGES_REQUESTED"
                    )),
                    retry = Decision::retry(id),
                ),
            );
            fail(conn, claim, &failure, now)
        }
    }
}

/// Requests an unclear review once more, within the same item.
pub(crate) fn ask_again(
    conn: &Connection,
    claim: &Claim,
    unclear: &Unclear,
    now: Time,
) -> Result<()> {
    let item = fenced(conn, claim)?;
    conn.execute(
        "UPDATE work_items SET asked_again = 1 WHERE item_id = :id",
        params! { id: item.item_id },
    )?;
    let asked = body::ReviewUnclear {
        item_id: Some(item.item_id.clone()),
        run_id: Some(unclear.run_id.clone()),
        reason: unclear.reason.clone(),
        missing: unclear.missing.clone(),
    };
    let summary = format!("verdict unclear, asking again: {}", unclear.reason);
    crate::blackboard::append(conn, &about_item(&item, asked, summary), now).map(drop)
}

/// Finishes a fix: its rejections are answered, the next review is queued, one cycle is spent.
///
/// If some feedback was not given to any run, the change goes to a person before the review, and
/// the rejection that it belongs to is not fixed.
pub(crate) fn finish_fix(
    conn: &Connection,
    claim: &Claim,
    done: &FixDone,
    now: Time,
) -> Result<Change> {
    let item = fenced(conn, claim)?;
    let change = change_of(conn, &item)?;
    let id = &change.change_id;
    complete(conn, &item, now)?;
    let left_out = done
        .rest
        .as_ref()
        .map(|rest| rest.left_out.as_slice())
        .unwrap_or_default();
    let unfinished: Vec<&str> = left_out
        .iter()
        .filter_map(|piece| piece.rejection_id.as_ref().map(RejectionId::as_str))
        .collect();
    conn.execute(
        "UPDATE rejections SET state = 'fixed'
         WHERE item_id = :item AND state = 'in_fix' AND rejection_id NOT IN (SELECT value FROM json_each(:unfinished))",
        params! { item: item.item_id, unfinished: Json(unfinished) },
    )?;
    for open in crate::blackboard::open_findings(conn, id)? {
        if left_out
            .iter()
            .any(|piece| piece.finding_id.as_ref() == Some(&open.finding_id))
        {
            continue;
        }
        let answer = done
            .answers
            .iter()
            .find(|(finding, _, _)| finding == open.finding_id.as_str());
        let (outcome, note) = answer.map_or((Outcome::Addressed, None), |(_, outcome, note)| {
            (*outcome, Some(note.as_str()))
        });
        reviews::set_outcome(conn, &open.finding_id, outcome, note)?;
    }
    guidance::settle_guidance(conn, &item.item_id)?;
    conn.execute(
        "UPDATE changes SET head = :head, fix_cycle = fix_cycle + 1, total_fixes = total_fixes + 1, updated_at = :now
         WHERE change_id = :id",
        params! { head: done.head_after, now, id },
    )?;
    settle(conn, id)?;
    let cycle = item.fix_cycle + 1;
    let extent = format!(
        "{} in {}",
        count(done.files.len(), "file"),
        count(done.commits, "commit")
    );
    let (files, more) = body::listed(done.files.clone());
    let answers = done.answers.iter().map(answer).collect();
    let (body, what): ((EventType, Value), &str) = match &done.pushed_to {
        Some(remote) => {
            pulls::set_head(conn, id, &done.head_after)?;
            let pushed = body::FixPushed {
                item_id: Some(item.item_id.clone()),
                head_before: done.head_before.clone(),
                head_after: done.head_after.clone(),
                commits: done.commits,
                files,
                fix_cycle: cycle,
                answers,
                remote: remote.clone(),
                branch: change.branch.clone(),
                more,
            };
            (pushed.into(), "pushed")
        }
        None => {
            let committed = body::FixCommitted {
                item_id: Some(item.item_id.clone()),
                head_before: done.head_before.clone(),
                head_after: done.head_after.clone(),
                commits: done.commits,
                files,
                fix_cycle: cycle,
                answers,
                more,
            };
            (committed.into(), "committed")
        }
    };
    let event = about_item(&item, body, format!("fix {cycle} {what}: {extent}"));
    crate::blackboard::append(conn, &event, now)?;
    for post in &done.posts {
        outbox::intend(conn, post, now)?;
    }
    let after = changes::advance(conn, id, Trigger::FixFinished, "remand", now)?;
    if let Some(rest) = &done.rest {
        return hand_over_rest(conn, &item, id, rest, now);
    }
    next_review(conn, &after, format!("code_review:{}", item.item_id), now)
}

/// Queues the review of a new head, once per key. Without reviews, the next stage follows; a change
/// whose reviews are started by a person waits.
pub(crate) fn next_review(
    conn: &Connection,
    change: &Change,
    key: String,
    now: Time,
) -> Result<Change> {
    if !change.is_reviewed() {
        return pass_unreviewed(conn, change, now);
    }
    if change.auto_review {
        requeue_review(conn, change, key, now)?;
    }
    crate::blackboard::change(conn, &change.change_id)
}

/// Moves a change that remand does not review to its next stage.
pub(crate) fn pass_unreviewed(conn: &Connection, change: &Change, now: Time) -> Result<Change> {
    let id = &change.change_id;
    if change.state == State::AwaitingPrFeedback {
        return ready_on_pull(conn, id, now);
    }
    let passed = if change.state == State::PendingSelfReview {
        changes::advance(conn, id, Trigger::SkipToPr, "remand", now)?
    } else {
        change.clone()
    };
    tasks::leave_self_review(conn, passed, now)
}

/// Moves a change whose pull request needs no review by remand: a person is next, and is told so there, once per head.
pub(crate) fn ready_on_pull(conn: &Connection, id: &ChangeId, now: Time) -> Result<Change> {
    let ready = changes::advance(conn, id, Trigger::NothingPending, "remand", now)?;
    if ready.notify_ready && ready.state == State::ReadyForHumanReview {
        let note = NewIntent {
            key: format!("note:ready:{id}:{}", ready.head),
            change_id: id.clone(),
            payload: Payload::Note(Note::Ready {
                head: ready.head.clone(),
                is_unfinished: ready.final_verdict == Some(FinalVerdict::MaxCyclesReached),
                is_unapproved: is_unapproved(conn, &ready)?,
                is_unfixed: ready.budget.total_fixes == 0,
            }),
            epoch: 0,
        };
        outbox::intend(conn, &note, now)?;
    }
    Ok(ready)
}

/// True if a review has the last word on a change and did not approve it, or if findings that prevent an approval are
/// open.
pub(crate) fn is_unapproved(conn: &Connection, change: &Change) -> Result<bool> {
    Ok(match change.final_verdict {
        Some(FinalVerdict::Approved) => false,
        Some(FinalVerdict::MaxCyclesReached) => true,
        Some(FinalVerdict::ChangesRequested | FinalVerdict::NeedsDiscussion) => {
            change.is_reviewed()
        }
        None => {
            let id = &change.change_id;
            let open = reviews::open_findings(conn, id)?;
            reviews::last_review(conn, id)?.is_some_and(|last| {
                let mut open = open.iter().map(|open| open.finding.fingerprint());
                open.any(|fingerprint| last.blocking.contains(&fingerprint))
            })
        }
    })
}

/// Lists the feedback that was not given to any run, and hands the change to a person.
fn hand_over_rest(
    conn: &Connection,
    item: &Item,
    id: &ChangeId,
    rest: &Rest,
    now: Time,
) -> Result<Change> {
    let (left_out, more) = body::listed(rest.left_out.clone());
    let skipped = body::Skipped {
        item_id: Some(item.item_id.clone()),
        left_out: left_out
            .into_iter()
            .map(body::LeftOutPart::Feedback)
            .collect(),
        more,
        ..body::Skipped::because(body::SkipCode::FeedbackLeftOut, &rest.escalation.reason)
    };
    let event = about_item(item, skipped, &rest.escalation.reason);
    crate::blackboard::append(conn, &event, now)?;
    escalate(conn, id, &rest.escalation, now)
}

/// Queues another review of a head, because its verdict is missing or no longer counts.
pub(crate) fn review_again(conn: &Connection, change: &Change, now: Time) -> Result<()> {
    if !change.is_reviewed() {
        return pass_unreviewed(conn, change, now).map(drop);
    }
    requeue_review(conn, change, items::review_key(change, now), now)
}

/// Queues the next review of a head, once per key.
fn requeue_review(conn: &Connection, change: &Change, key: String, now: Time) -> Result<()> {
    let new = items::review_item(change, key, "remand");
    let Some(review) = items::insert_item(conn, change, &new, now)? else {
        return Ok(());
    };
    let requeued = body::ReviewRequeued {
        item_id: Some(review.item_id.clone()),
        fix_cycle: change.budget.fix_cycle,
        head: change.head.clone(),
    };
    let head = short_sha(&change.head);
    let summary = format!("review of {head} queued, {}", change.cycle_text());
    crate::blackboard::append(conn, &about_item(&review, requeued, summary), now).map(drop)
}

/// Records that the item failed and a person is needed. The rejections that it had claimed are
/// escalated with it.
pub(crate) fn fail(
    conn: &Connection,
    claim: &Claim,
    failure: &Escalation,
    now: Time,
) -> Result<Change> {
    let item = fenced(conn, claim)?;
    let change = change_of(conn, &item)?;
    conn.execute(
        "UPDATE work_items SET status = 'failed', claimed_by = NULL, lease_expires_at = NULL, completed_at = :now,
             failure_reason = :reason
         WHERE item_id = :id AND epoch = :epoch AND status = 'claimed'",
        params! { now, reason: failure.reason, id: item.item_id, epoch: claim.epoch },
    )?;
    let failed = body::WorkFailed {
        item_id: Some(item.item_id.clone()),
        source: Some(item.source),
        reason: failure.reason.clone(),
        wip: failure.wip.clone(),
    };
    let (source, id, reason) = (item.source, &item.item_id, &failure.reason);
    let event = about_item(&item, failed, format!("{source} {id} failed: {reason}"));
    crate::blackboard::append(conn, &event, now)?;
    let escalation = failure.clone().of_failed(item.item_id);
    escalate(conn, &change.change_id, &escalation, now)
}

pub(crate) fn complete(conn: &Connection, item: &Item, now: Time) -> Result<()> {
    let moved = conn.execute(
        "UPDATE work_items SET status = 'completed', claimed_by = NULL, lease_expires_at = NULL, completed_at = :now
         WHERE item_id = :id AND epoch = :epoch AND status = 'claimed'",
        params! { now, id: item.item_id, epoch: item.epoch },
    )?;
    if moved != 1 {
        return Err(BoardError::stale(&item.item_id, item.epoch));
    }
    let completed = body::WorkCompleted {
        item_id: Some(item.item_id.clone()),
        source: Some(item.source),
    };
    let summary = format!("{} {} completed", item.source, item.item_id);
    crate::blackboard::append(conn, &about_item(item, completed, summary), now).map(drop)
}

/// Resets the count of consecutive holds after a success.
pub(crate) fn settle(conn: &Connection, id: &ChangeId) -> Result<()> {
    conn.run(
        "UPDATE changes SET holds = 0, last_hold = NULL, hold_repeats = 0, first_hold_at = NULL WHERE change_id = :id",
        params! { id },
    )
}

pub(crate) fn change_of(conn: &Connection, item: &Item) -> Result<Change> {
    crate::blackboard::change(conn, change_id_of(item)?)
}

fn not_raised_again(done: &ReviewDone) -> Vec<FindingId> {
    let dropped = done
        .judged
        .iter()
        .filter(|(_, _, resolution)| *resolution == Some(Resolution::NotRaisedAgain));
    dropped.map(|(id, _, _)| FindingId::new(id)).collect()
}

fn answer((id, outcome, reason): &(String, Outcome, String)) -> body::Answer {
    body::Answer {
        id: id.clone(),
        outcome: *outcome,
        reason: reason.clone(),
    }
}
