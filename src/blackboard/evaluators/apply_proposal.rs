//! Applies the proposals of evaluators: items, escalations and cursors, all in the caller's transaction.

use std::collections::BTreeSet;

use super::pull_moves::{ask, over, pause_unwanted, record, reopened, stays_closed};
use crate::blackboard::forge::{checks, feedback, head_moved};
use crate::blackboard::operator::pause;
use crate::blackboard::sql::{Connection, params};
use crate::blackboard::work::finish;
use crate::blackboard::work::items::{self, about_item};
use crate::blackboard::{NewItem, Result, changes, rejections};
use crate::change::{Change, ChangeId, FinalVerdict};
use crate::check::CheckAnswer;
use crate::clock::Time;
use crate::event::NewEvent;
use crate::event::body::{self, PullChange, RejectionContext};
use crate::finding::Verdict;
use crate::proposal::Proposal;
use crate::pull_request::{FeedbackOutcome, PullState};
use crate::state::Trigger;
use crate::text::{count, short_sha};
use crate::work::{Priority, Rejection, RejectionId, RejectionState, ReviewFixMetadata, Source};

/// Actor of a rejection by failing checks.
const CHECKS: &str = "checks";

/// Maximum bytes of feedback in an item's metadata: the default total for all runs of a fix.
const COMMENTS_CAP: usize = 1_000_000;

/// Maximum characters of a rejection's summary in the event of a fix.
const SUMMARY_CHARS: usize = 300;

/// Maximum number of files in that event.
const PATHS: usize = 20;

/// Applies one proposal to a change. Returns false if it was applied before.
pub(crate) fn apply_proposal(
    conn: &Connection,
    evaluator: &str,
    id: &ChangeId,
    proposal: &Proposal,
    now: Time,
) -> Result<bool> {
    let change = crate::blackboard::change(conn, id)?;
    match proposal {
        Proposal::Fix {
            rejections,
            begins_round,
        } => create_fix(conn, evaluator, &change, rejections, *begins_round, now),
        Proposal::Bound(escalation) => {
            if rejections::rejections_of(conn, id, Some(RejectionState::Pending))?.is_empty() {
                return Ok(false);
            }
            rejections::reopen_for_rejection(conn, &change, now)?;
            crate::blackboard::escalate::bound_reached(conn, id, escalation, now)?;
            Ok(true)
        }
        Proposal::Reject {
            by,
            summary,
            rejected,
        } => {
            let event_id = rejections::reject_change(conn, id, by, summary, rejected, now)?;
            let taken = (FeedbackOutcome::Rejected, None);
            for feedback_id in rejected.feedback.iter().flatten() {
                feedback::judge(conn, feedback_id, taken, Some(event_id), now)?;
            }
            let reason = "its review has more comments than fit into one fix";
            let left_out = (FeedbackOutcome::LeftOut, Some(reason));
            for feedback_id in &rejected.left_out_feedback {
                feedback::judge(conn, feedback_id, left_out, None, now)?;
            }
            Ok(true)
        }
        Proposal::Approve {
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
            let summary = format!("{by} approved {}", short_sha(head));
            let event = NewEvent::about(id, approved, summary).by(&actor);
            let event_id = crate::blackboard::append(conn, &event, now)?;
            let judged = (FeedbackOutcome::Approved, None);
            feedback::judge(conn, feedback_id, judged, Some(event_id), now)
        }
        Proposal::Settle {
            feedback_id,
            outcome,
            reason,
        } => feedback::judge(conn, feedback_id, (*outcome, reason.as_deref()), None, now),
        Proposal::PassOver {
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
                format!("{feedback_id} created no work item: {reason}"),
            );
            crate::blackboard::append(conn, &event, now)?;
            if let Some(login) = ask_again {
                ask(conn, &change, login, now)?;
            }
            Ok(true)
        }
        Proposal::Merged => over(conn, &change, PullState::Merged, now),
        Proposal::Closed => over(conn, &change, PullState::Closed, now),
        Proposal::Reopened => reopened(conn, &change, now),
        Proposal::StaysClosed { reason } => stays_closed(conn, id, reason, now),
        Proposal::HeadMoved { to } => {
            head_moved::review_new_head(conn, id, to, "github", now)?;
            Ok(true)
        }
        Proposal::Retargeted { to } => {
            conn.execute(
                "UPDATE changes SET base = :to, updated_at = :now WHERE change_id = :id",
                params! { to, now, id },
            )?;
            let reason = format!("the PR now targets {to} instead of {}", change.base);
            record(conn, id, PullChange::Retargeted, &reason, now)?;
            head_moved::review_new_base(conn, id, &reason, now)?;
            Ok(true)
        }
        Proposal::Rerun { checks: runs, call } => {
            checks::request_rerun(conn, &change, runs, *call, now)
        }
        Proposal::Evidence { checks: failing } => {
            checks::want_evidence(conn, &change, failing, now)
        }
        Proposal::RejectChecks {
            names,
            summary,
            rejected,
        } => {
            let is_new = checks::answer_checks(conn, &change, names, CheckAnswer::Rejected)?;
            if is_new {
                rejections::reject_change(conn, id, CHECKS, summary, rejected, now)?;
            }
            Ok(is_new)
        }
        Proposal::ReportChecks {
            names,
            code,
            reason,
        } => {
            let answer = if *code == body::SkipCode::ChecksNotOurs {
                CheckAnswer::NotOurs
            } else {
                CheckAnswer::Reported
            };
            checks::report_checks(conn, &change, names, (*code, answer), reason, now)
        }
        Proposal::ChecksPassed => checks_passed(conn, &change, now),
        Proposal::ChecksOpen => {
            changes::advance(conn, id, Trigger::ChecksOpen, "remand", now)?;
            Ok(true)
        }
        Proposal::Unwanted { reason } => pause_unwanted(conn, id, reason, now),
        Proposal::Wanted => {
            pause::resume_by_rules(conn, id, now)?;
            let summary = "the project's rules select the PR again";
            record(conn, id, PullChange::Wanted, summary, now)
        }
    }
}

/// Moves a change to the person who reviews it. One whose loop ended at its limit still needs that person's decision.
fn checks_passed(conn: &Connection, change: &Change, now: Time) -> Result<bool> {
    let id = &change.change_id;
    // A review by remand on the pull request says by itself that it passed.
    let after = if change.opens_pr || !change.is_reviewed() {
        finish::ready_on_pull(conn, id, now)?
    } else {
        changes::advance(conn, id, Trigger::NothingPending, "remand", now)?
    };
    let is_at_limit = after.final_verdict == Some(FinalVerdict::MaxCyclesReached);
    if is_at_limit || change.opens_pr && finish::is_unapproved(conn, &after)? {
        conn.run(
            "UPDATE changes SET human_review_required = 1 WHERE change_id = :id",
            params! { id },
        )?;
    }
    Ok(after.state != change.state)
}

fn create_fix(
    conn: &Connection,
    evaluator: &str,
    change: &Change,
    rejections: &[RejectionId],
    begins_round: bool,
    now: Time,
) -> Result<bool> {
    let Some(newest) = rejections.last() else {
        return Ok(false);
    };
    let id = &change.change_id;
    let budget = &change.budget;
    let fix_cycle = if begins_round { 0 } else { budget.fix_cycle };
    let max_fix_cycles = budget.max_fix_cycles;
    let mut pending = rejections::rejections_of(conn, id, Some(RejectionState::Pending))?;
    pending.retain(|rejection| rejections.contains(&rejection.rejection_id));
    let new = NewItem {
        rejection_id: Some(newest.clone()),
        title: format!("Fix {}", change.title),
        source: Source::ReviewFix,
        priority: Priority::P1,
        idempotency_key: format!("review_fix:{newest}"),
        fix_cycle,
        metadata: serde_json::to_value(metadata(conn, change, &pending, fix_cycle)?)?,
        actor: evaluator.to_owned(),
    };
    // The key is checked before anything else is changed: a late proposal must not cancel the next review.
    let is_pending = pending.iter().any(|one| one.rejection_id == *newest);
    let item = match items::insert_item(conn, change, &new, now)? {
        // Its fix was cancelled, and it is asked for again.
        None if is_pending => items::reopen_item(conn, change, &new, now)?,
        inserted => inserted,
    };
    let Some(item) = item else { return Ok(false) };
    rejections::reopen_for_rejection(conn, change, now)?;
    // A head that is about to change needs no verdict.
    let reason = "a fix for this head was created";
    items::cancel_reviews(conn, id, reason, "remand", now)?;
    if begins_round {
        conn.execute(
            "UPDATE changes SET fix_cycle = 0, progress_since = :now, auto_fix = 1 WHERE change_id = :id",
            params! { now, id },
        )?;
    }
    for rejection in rejections {
        conn.execute(
            "UPDATE rejections SET state = 'in_fix', item_id = :item_id
             WHERE rejection_id = :rejection_id AND state = 'pending'",
            params! { item_id: item.item_id, rejection_id: rejection },
        )?;
    }
    changes::advance(conn, id, Trigger::FixCreated, evaluator, now)?;
    let summary = format!(
        "fix {} of {} created from {}",
        fix_cycle + 1,
        max_fix_cycles,
        count(rejections.len(), "rejection")
    );
    let created = body::FixCreated {
        item_id: Some(item.item_id.clone()),
        rejections: rejections.to_vec(),
        fix_cycle,
        max_fix_cycles,
        context: pending.into_iter().map(context).collect(),
    };
    let event = about_item(&item, created, summary).by(evaluator);
    crate::blackboard::append(conn, &event, now)?;
    Ok(true)
}

/// Metadata of a fix, for people and other programs. Prompts are built from the rejections themselves.
fn metadata(
    conn: &Connection,
    change: &Change,
    pending: &[Rejection],
    fix_cycle: i64,
) -> Result<ReviewFixMetadata> {
    Ok(ReviewFixMetadata {
        pr_number: change.pr_number,
        repo: crate::blackboard::project(conn, &change.project_id)?.repo,
        branch: change.branch.clone(),
        worktree_path: change.worktree.clone(),
        fix_cycle,
        max_fix_cycles: change.budget.max_fix_cycles,
        review_comments: comments(pending),
        implementation_work_item_id: change.implementation_item_id.clone(),
        project_id: change.project_id.clone(),
    })
}

/// Returns all feedback as one text: the body, then each finding with its location.
fn comments(pending: &[Rejection]) -> String {
    let mut text = String::new();
    for rejection in pending {
        text.push_str(rejection.text());
        text.push('\n');
        for finding in &rejection.rejected.findings {
            text.push_str(&format!(
                "- [{}] {} {}\n",
                finding.severity,
                finding.place().unwrap_or_default(),
                finding.titled_text()
            ));
            if let Some(failure) = &finding.failure {
                text.push_str(&format!("  fails with: {failure}\n"));
            }
            for line in finding.context.as_deref().unwrap_or_default().lines() {
                text.push_str(&format!("    | {line}\n"));
            }
        }
        text.push('\n');
    }
    let cut = text.floor_char_boundary(COMMENTS_CAP);
    let left_out = text.len() - cut;
    if left_out > 0 {
        text.truncate(cut);
        text.push_str(&format!(
            "\n… ({left_out} more bytes in the events of its rejections)\n"
        ));
    }
    text
}

/// Summarizes a rejection that a fix addresses: author, text, number of findings and paths.
fn context(rejection: Rejection) -> RejectionContext {
    let findings = &rejection.rejected.findings;
    let paths: BTreeSet<String> = findings
        .iter()
        .filter_map(|finding| finding.path.clone())
        .collect();
    RejectionContext {
        by: rejection.by,
        summary: rejection.summary.chars().take(SUMMARY_CHARS).collect(),
        findings: findings.len(),
        severity: findings.iter().map(|finding| finding.severity).min(),
        paths: paths.into_iter().take(PATHS).collect(),
        rejection_id: rejection.rejection_id,
    }
}

/// Returns the newest event that an evaluator has turned into rows.
pub(crate) fn cursor(conn: &Connection, evaluator: &str) -> Result<i64> {
    Ok(conn
        .find(
            "SELECT cursor FROM evaluators WHERE name = :name",
            params! { name: evaluator },
        )?
        .unwrap_or(0))
}

/// Records how far an evaluator has read, when it ran, and when its schedule fires next.
pub(crate) fn set_cursor(
    conn: &Connection,
    evaluator: &str,
    cursor: i64,
    next_run: Option<Time>,
    now: Time,
) -> Result<()> {
    conn.run(
        "INSERT INTO evaluators (name, cursor, last_run, next_run) VALUES (:name, :cursor, :now, :next_run)
         ON CONFLICT (name) DO UPDATE SET cursor = max(cursor, :cursor), last_run = :now, next_run = :next_run",
        params! { name: evaluator, cursor, now, next_run },
    )
}
