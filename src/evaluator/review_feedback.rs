//! The built-in evaluator: the pending rejections of a change become one fix, or one escalation when a limit is reached.
//! Values in, a proposal out; it reads nothing and changes nothing.

use crate::change::{Change, FinalVerdict, State};
use crate::proposal::{Bound, Decision, Escalation, Proposal, decision};
use crate::review_text::{Cycle, stuck};
use crate::work::Rejection;

/// Returns one fix for all pending rejections, an escalation, or nothing while the change is busy. `pending` is oldest
/// first, and so is `history`: the reviews since a person's last decision.
pub(crate) fn propose(
    change: &Change,
    pending: &[Rejection],
    history: &[Cycle],
) -> Option<Proposal> {
    if pending.is_empty() || !takes_fixes(change.state) {
        return None;
    }
    let begins_round = pending.iter().any(|rejection| rejection.by_person);
    if !pending
        .iter()
        .any(|rejection| starts_fix(change, rejection))
    {
        return None;
    }
    if let Some(escalation) = reached(change, history, begins_round) {
        let mut items = pending.iter().rev().map(|one| &one.rejected.item_id);
        let rejected_item = items.find_map(Clone::clone);
        return Some(Proposal::Bound(escalation.of_rejected(rejected_item)));
    }
    let ids = pending
        .iter()
        .map(|rejection| rejection.rejection_id.clone());
    Some(Proposal::Fix {
        rejections: ids.collect(),
        begins_round,
    })
}

/// True if a rejection leads to a fix by itself: those by remand and by gates, and those by people on the pull request,
/// unless the change's settings leave that to a person at the command line.
pub(crate) fn starts_fix(change: &Change, rejection: &Rejection) -> bool {
    match (rejection.by_person, rejection.login()) {
        (false, _) => change.auto_review,
        (true, Some(_)) => change.auto_address,
        (true, None) => true,
    }
}

/// States in which a fix may start. In the others a rejection waits for the running review or fix.
pub(crate) const TAKES_FIXES: &[State] = &[
    State::SelfReviewFailed,
    State::SelfReviewPassed,
    State::AwaitingPrFeedback,
    State::ReadyForHumanReview,
    State::Approved,
];

pub(crate) fn takes_fixes(state: State) -> bool {
    TAKES_FIXES.contains(&state)
}

/// Returns the limit that prevents another fix.
fn reached(change: &Change, history: &[Cycle], begins_round: bool) -> Option<Escalation> {
    let budget = &change.budget;
    let id = &change.change_id;
    let subject = change
        .pr_number
        .map_or_else(|| id.to_string(), |number| format!("PR #{number}"));
    let at = |bound: Bound, reason: String, decision: Decision| {
        let escalation = Escalation::new(format!("{reason} — requires human review"), decision)
            .at_bound(bound)
            .with_verdict(FinalVerdict::MaxCyclesReached);
        Some(escalation)
    };
    if !change.auto_fix && !begins_round {
        return at(
            Bound::Reverted,
            format!(
                "a fix of {subject} was reverted; automatic fixes are off until a person resumes them"
            ),
            decision!(
                "describe what to do ({refine}), or accept it ({approve})",
                refine = Decision::refine(id),
                approve = Decision::accept(change),
            ),
        );
    }
    let one_more = || Decision::command(format!("remand budget {id} --fixes +1"));
    if budget.total_fixes >= budget.max_total_fixes {
        return at(
            Bound::TotalFixes,
            format!(
                "{subject} has used all of its {} fixes",
                budget.max_total_fixes
            ),
            decision!(
                "finish it by hand and {approve}, or allow one more fix: {more}",
                approve = Decision::accept(change),
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
                "accept it ({approve}), or continue ({more}, or {refine} with your guidance)",
                approve = Decision::accept(change),
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
                more = change.more_command(spent),
                approve = Decision::accept(change),
                cancel = Decision::cancel(id),
            ),
        );
    }
    if begins_round {
        return None;
    }
    let stuck = stuck(history)?;
    at(
        Bound::NoProgress,
        format!("{subject} is making no progress: {stuck}"),
        decision!(
            "describe how to fix it ({refine}), or accept it ({approve})",
            refine = Decision::refine(id),
            approve = Decision::accept(change),
        ),
    )
}
