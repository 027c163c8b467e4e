//! Explains a change that waits for the checks of its pull request.

use super::because::Because;
use super::explanation::Explanation;
use super::facts::Facts;
use crate::check::{Check, CheckAnswer, CheckKind, CheckState};
use crate::text::list;

/// Maximum number of checks that a sentence names.
const MOST_NAMES: usize = 3;

/// Explains a change for which nothing is left to do but to wait for checks.
pub(super) fn waits_for_checks(facts: &Facts) -> Explanation {
    let id = &facts.row.change.change_id;
    let counted: Vec<&Check> = facts.checks.iter().filter(|check| check.counts).collect();
    let those = |fits: &dyn Fn(&Check) -> bool| -> Option<String> {
        let found: Vec<&str> = counted
            .iter()
            .filter(|check| fits(check))
            .map(|check| check.name.as_str())
            .collect();
        let more = found.len().saturating_sub(MOST_NAMES);
        let first = list(found.iter().take(MOST_NAMES));
        match (found.is_empty(), more) {
            (true, _) => None,
            (false, 0) => Some(first),
            (false, more) => Some(format!("{first} and {more} more")),
        }
    };
    let is_not_ours = |check: &Check| check.answer == Some(CheckAnswer::NotOurs);
    let is_failing = |check: &Check| check.state == CheckState::Failing && !is_not_ours(check);
    let is_pending =
        |check: &Check| check.state == CheckState::Pending && check.kind != CheckKind::Missing;
    let parts = [
        those(&is_failing).map(|names| format!("{names} failed")),
        those(&is_not_ours).map(|names| format!("{names} failed, also on the merge base")),
        those(&|check| check.state == CheckState::Stopped)
            .map(|names| format!("{names} ended without a result")),
        those(&is_pending).map(|names| format!("{names} not finished")),
        those(&|check| check.kind == CheckKind::Missing)
            .map(|names| format!("{names} not reported")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let why = if parts.is_empty() {
        "those of the new head are not read yet".to_owned()
    } else {
        parts.join("; ")
    };
    let explanation = Explanation::new(
        Because::WaitsForChecks,
        "it is ",
        "waiting for its required checks",
    )
    .and(&format!(": {why}"))
    .until(facts.pull.as_ref().and_then(|pull| pull.next_read));
    // Checks that run end by themselves.
    if counted.iter().any(|check| check.answer.is_some()) {
        explanation.commands([format!("remand approve {id}")])
    } else {
        explanation
    }
}
