//! The stock evaluator: what waits for a change becomes one fix, or one escalation when a bound is reached.
//! Values in, a proposal out; it reads nothing and changes nothing.

use crate::change::{Change, FinalVerdict, State};
use crate::proposal::{Bound, Decision, Escalation, Fix, Proposal, decision};
use crate::review_text::{Cycle, stuck};
use crate::work::{Rejection, ReviewFixMetadata};

/// Maximum bytes of feedback in an item's metadata: what all runs of a fix can be told by default. Prompts are made from
/// the events, which have all of it.
const COMMENTS_CAP: usize = 1_000_000;

/// A change with all that waits for it.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) change: Change,
    pub(crate) repo: Option<String>,
    /// Oldest first.
    pub(crate) pending: Vec<Rejection>,
    /// The reviews since a person last spoke, oldest first.
    pub(crate) history: Vec<Cycle>,
}

/// One fix for all that waits, an escalation, or nothing while the change is busy with something else.
pub(crate) fn propose(case: &Case) -> Option<Proposal> {
    if case.pending.is_empty() || !takes_fixes(case.change.state) {
        return None;
    }
    let begins_round = case.pending.iter().any(|rejection| rejection.by_person);
    if let Some(escalation) = reached(case, begins_round) {
        return Some(Proposal::Bound {
            change_id: case.change.change_id.clone(),
            escalation,
        });
    }
    let change = &case.change;
    let fix_cycle = if begins_round {
        0
    } else {
        change.budget.fix_cycle
    };
    Some(Proposal::Fix(Fix {
        change_id: change.change_id.clone(),
        rejections: case
            .pending
            .iter()
            .map(|rejection| rejection.rejection_id.clone())
            .collect(),
        begins_round,
        metadata: ReviewFixMetadata {
            pr_number: change.pr_number,
            repo: case.repo.clone(),
            branch: change.branch.clone(),
            worktree_path: change.worktree.clone(),
            fix_cycle,
            max_fix_cycles: change.budget.max_fix_cycles,
            review_comments: comments(&case.pending),
            implementation_work_item_id: change.implementation_item_id.clone(),
            project_id: change.project_id.clone(),
        },
    }))
}

/// States in which a fix may begin. In the others a rejection waits: for the review or the fix under way.
pub(crate) fn takes_fixes(state: State) -> bool {
    match state {
        State::SelfReviewFailed
        | State::AwaitingPrFeedback
        | State::ReadyForHumanReview
        | State::Approved => true,
        State::Queued
        | State::Implementing
        | State::PendingSelfReview
        | State::SelfReviewing
        | State::SelfReviewPassed
        | State::Refining
        | State::PrCreated
        | State::ReviewingPr
        | State::AddressingFeedback
        | State::Merged
        | State::Closed
        | State::Escalated => false,
    }
}

/// The bound that stands in the way of another fix.
fn reached(case: &Case, begins_round: bool) -> Option<Escalation> {
    let budget = &case.change.budget;
    let id = &case.change.change_id;
    let subject = case
        .change
        .pr_number
        .map_or_else(|| id.to_string(), |number| format!("PR #{number}"));
    let at = |bound: Bound, reason: String, decision: Decision| {
        let rejected_item = case
            .pending
            .iter()
            .rev()
            .find_map(|rejection| rejection.rejected.item_id.clone());
        let escalation = Escalation::new(format!("{reason} — requires human review"), decision)
            .at_bound(bound)
            .of_rejected(rejected_item)
            .with_verdict(FinalVerdict::MaxCyclesReached);
        Some(escalation)
    };
    if !case.change.auto_fix && !begins_round {
        return at(
            Bound::Reverted,
            format!("a person took a fix of {subject} back, so no more are made by themselves"),
            decision!(
                "say what is wanted ({refine}), or accept it ({approve})",
                refine = Decision::refine(id),
                approve = Decision::approve(id),
            ),
        );
    }
    let one_more = || Decision::command(format!("remand budget {id} --fixes +1"));
    if budget.total_fixes >= budget.max_total_fixes {
        return at(
            Bound::TotalFixes,
            format!(
                "{subject} used all {} fixes of its life",
                budget.max_total_fixes
            ),
            decision!(
                "finish it by hand and {approve}, or allow one more fix: {more}",
                approve = Decision::approve(id),
                more = one_more(),
            ),
        );
    }
    let cycle = if begins_round { 0 } else { budget.fix_cycle };
    if cycle >= budget.max_fix_cycles {
        return at(
            Bound::Cycles,
            format!(
                "{subject} exceeded max fix cycles ({})",
                budget.max_fix_cycles
            ),
            decision!(
                "accept it ({approve}), or go on ({more}, or {refine} with your guidance)",
                approve = Decision::approve(id),
                more = one_more(),
                refine = Decision::refine(id),
            ),
        );
    }
    if let Some(spent) = budget.spent() {
        return at(
            spent.into(),
            format!("{subject} {}", budget.used(spent)),
            decision!(
                "allow more ({more}), accept it ({approve}), or close it ({cancel})",
                more = case.change.more_command(spent),
                approve = Decision::approve(id),
                cancel = Decision::cancel(id),
            ),
        );
    }
    if begins_round {
        return None;
    }
    let stuck = stuck(&case.history)?;
    at(
        Bound::NoProgress,
        format!("{subject} makes no progress: {stuck}"),
        decision!(
            "say how ({refine}), or accept it ({approve})",
            refine = Decision::refine(id),
            approve = Decision::approve(id),
        ),
    )
}

/// All feedback as one text: what was said, then each finding with its place.
fn comments(pending: &[Rejection]) -> String {
    let mut text = String::new();
    for rejection in pending {
        text.push_str(rejection.text());
        text.push('\n');
        for finding in &rejection.rejected.findings {
            let line = finding
                .line
                .map(|line| format!(":{line}"))
                .unwrap_or_default();
            text.push_str(&format!(
                "- [{}] {}{line} {}\n",
                finding.severity,
                finding.path.as_deref().unwrap_or_default(),
                finding.text
            ));
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
            "\n… ({left_out} more bytes are in the events of its rejections)\n"
        ));
    }
    text
}
