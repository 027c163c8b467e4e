//! The stock evaluator: what waits for a change becomes one fix, or one escalation when a bound is reached.
//! Values in, a proposal out; it reads nothing and changes nothing.

use crate::change::{Change, FinalVerdict, State};
use crate::proposal::{Escalation, Fix, Proposal};
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
    if let Some(bound) = reached(case, begins_round) {
        return Some(Proposal::Bound {
            change_id: case.change.change_id.clone(),
            escalation: escalation(case, &bound),
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

/// A bound that stands in the way of another fix.
struct Bound {
    name: &'static str,
    reason: String,
    decide: String,
}

fn reached(case: &Case, begins_round: bool) -> Option<Bound> {
    let budget = &case.change.budget;
    let id = &case.change.change_id;
    let subject = case
        .change
        .pr_number
        .map_or_else(|| id.to_string(), |number| format!("PR #{number}"));
    let bound = |name, reason, decide| {
        Some(Bound {
            name,
            reason,
            decide,
        })
    };
    if !case.change.auto_fix && !begins_round {
        return bound(
            "reverted",
            format!(
                "a person took a fix of {subject} back, so no more are made by themselves — requires human review"
            ),
            format!(
                "say what is wanted (`remand refine {id} --text …`), or accept it (`remand approve {id}`)"
            ),
        );
    }
    if budget.total_fixes >= budget.max_total_fixes {
        return bound(
            "total_fixes",
            format!(
                "{subject} used all {} fixes of its life — requires human review",
                budget.max_total_fixes
            ),
            format!(
                "finish it by hand and `remand approve {id}`, or allow one more fix: `remand budget {id} --fixes +1`"
            ),
        );
    }
    let cycle = if begins_round { 0 } else { budget.fix_cycle };
    if cycle >= budget.max_fix_cycles {
        return bound(
            "cycles",
            format!(
                "{subject} exceeded max fix cycles ({}) — requires human review",
                budget.max_fix_cycles
            ),
            format!(
                "accept it (`remand approve {id}`), or go on (`remand budget {id} --fixes +1`, or `remand refine {id} --text …` with your guidance)"
            ),
        );
    }
    if let Some(spent) = budget.spent() {
        let decide = format!(
            "allow more (`{}`), accept it (`remand approve {id}`), or close it (`remand cancel {id}`)",
            case.change.more_command(spent)
        );
        return bound(
            spent.word(),
            format!("{subject} {} — requires human review", budget.used(spent)),
            decide,
        );
    }
    if begins_round {
        return None;
    }
    let stuck = stuck(&case.history)?;
    bound(
        "no_progress",
        format!("{subject} makes no progress: {stuck} — requires human review"),
        format!("say how (`remand refine {id} --text …`), or accept it (`remand approve {id}`)"),
    )
}

fn escalation(case: &Case, bound: &Bound) -> Escalation {
    let rejected_item = case
        .pending
        .iter()
        .rev()
        .find_map(|rejection| rejection.rejected.item_id.clone());
    Escalation {
        reason: bound.reason.clone(),
        decide: bound.decide.clone(),
        bound: Some(bound.name),
        rejected_item,
        final_verdict: Some(FinalVerdict::MaxCyclesReached),
        failed_item: None,
    }
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
