//! Judges the checks of a pull request's head: which run again, which are rejected, which a person is told about. Values
//! in, proposals out; it reads nothing and changes nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::change::State;
use crate::check::{
    Check, CheckAnswer, CheckKind, CheckState, ChecksSummary, Evidence, LOG_BYTES, RerunCall,
    end_of_log,
};
use crate::clock::{self, Time};
use crate::event::body::{SkipCode, WorkRejected};
use crate::finding::{Category, Finding, RaisedBy, Severity, Verdict};
use crate::proposal::Proposal;
use crate::text::{count, list, short_sha};

/// Longest wait for other checks after the first red one, so that one fix is given all of them.
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(30 * 60);

/// Time after which a required check that nothing has reported is a person's concern.
const WAIT_FOR_MISSING: Duration = Duration::from_secs(60 * 60);

/// Maximum number of names in a summary.
const MOST_NAMES: usize = 5;

/// A change on a pull request with the checks of its head, as they were last read.
#[derive(Debug, Clone)]
pub(crate) struct ChecksCase {
    pub(crate) state: State,
    /// Head of the change.
    pub(crate) head: String,
    /// Head of the pull request, as last read or pushed.
    pub(crate) pull_head: String,
    pub(crate) summary: ChecksSummary,
    pub(crate) checks: Vec<Check>,
    /// A fix is open, after which there is another head.
    pub(crate) is_fixing: bool,
    /// Nothing is left to do but to wait for checks.
    pub(crate) is_past_review: bool,
    /// A person declared the change ready.
    pub(crate) is_marked_ready: bool,
    pub(crate) now: Time,
}

/// Judges the checks of a head.
pub(crate) fn judge(case: &ChecksCase) -> Vec<Proposal> {
    let state = case.state;
    let is_left_to_person =
        state == State::Escalated || (state == State::ReadyForHumanReview && case.is_marked_ready);
    if state.is_over() || is_left_to_person || case.head != case.pull_head {
        return Vec::new();
    }
    if case.summary.is_green() {
        let passed = case.is_past_review.then_some(Proposal::ChecksPassed);
        return passed.into_iter().collect();
    }
    let mut proposals = Vec::new();
    if state == State::ReadyForHumanReview {
        proposals.push(Proposal::ChecksOpen);
    }
    if case.is_fixing {
        return proposals;
    }
    proposals.extend(missing(case));
    proposals.extend(red(case));
    proposals
}

fn missing(case: &ChecksCase) -> Option<Proposal> {
    let is_late = |check: &&Check| {
        check.kind == CheckKind::Missing
            && check.answer.is_none()
            && clock::is_due(
                check.seen_at.plus(WAIT_FOR_MISSING),
                case.now,
                WAIT_FOR_MISSING,
            )
    };
    let late: Vec<&Check> = case.checks.iter().filter(is_late).collect();
    let names = names(&late);
    (!names.is_empty()).then(|| Proposal::ReportChecks {
        code: SkipCode::CheckMissing,
        reason: format!(
            "required but not reported for {} after an hour: {} (renamed, or its workflow does not run?)",
            short_sha(&case.head),
            some_of(&names)
        ),
        names,
    })
}

fn red(case: &ChecksCase) -> Vec<Proposal> {
    let now = case.now;
    let counted: Vec<&Check> = case.checks.iter().filter(|check| check.counts).collect();
    let first = counted.iter().filter_map(|check| check.red_since).min();
    let is_late =
        first.is_some_and(|first| clock::is_due(first.plus(WAIT_FOR_OTHERS), now, WAIT_FOR_OTHERS));
    // A check that was reported as missing is not waited for.
    let is_awaited = |check: &&Check| check.is_open(now) && check.answer.is_none();
    if counted.iter().any(is_awaited) && !is_late {
        return Vec::new();
    }
    let settled: Vec<&Check> = counted
        .into_iter()
        .filter(|check| check.is_red() && !check.is_rerunning(now))
        .collect();
    let again: Vec<&Check> = settled
        .iter()
        .copied()
        .filter(|check| check.may_rerun && check.rerun.is_none())
        .collect();
    if !again.is_empty() {
        return reruns(case, &again, is_late);
    }
    let of_state = |state: CheckState| -> Vec<&Check> {
        let those = settled.iter().copied();
        those.filter(|check| check.state == state).collect()
    };
    let mut proposals = Vec::new();
    proposals.extend(stopped(&of_state(CheckState::Stopped)));
    proposals.extend(failing(case, &of_state(CheckState::Failing)));
    proposals
}

/// Requests to run checks again: one per workflow run, since the forge refuses a second one while the first is under
/// way.
fn reruns(case: &ChecksCase, again: &[&Check], is_late: bool) -> Vec<Proposal> {
    let mut groups: BTreeMap<(Option<i64>, i64), Vec<&Check>> = BTreeMap::new();
    for check in again {
        let number = check.forge_id.unwrap_or_default();
        let group = match check.job() {
            Some(job) => (Some(job.workflow_run), 0),
            None => (None, number),
        };
        groups.entry(group).or_default().push(check);
    }
    let is_under_way = |workflow: i64| {
        case.checks.iter().any(|check| {
            check.state == CheckState::Pending
                && check.job().is_some_and(|job| job.workflow_run == workflow)
        })
    };
    let mut proposals = Vec::new();
    for ((workflow, number), checks) in groups {
        let call = match (workflow, checks.as_slice()) {
            // Its optional jobs may still run.
            (Some(workflow), _) if is_under_way(workflow) && !is_late => continue,
            (Some(_), [only]) => match only.job() {
                Some(job) => RerunCall::Job(job.id),
                None => continue,
            },
            (Some(workflow), _) => RerunCall::FailedJobs(workflow),
            (None, _) => RerunCall::CheckRun(number),
        };
        let checks = checks.iter().filter_map(|check| check.forge_id).collect();
        proposals.push(Proposal::Rerun { checks, call });
    }
    proposals
}

/// Checks that ended without a result, and do not run again: no agent can fix that.
fn stopped(stopped: &[&Check]) -> Option<Proposal> {
    let new: Vec<&Check> = unanswered(stopped);
    let names = names(&new);
    (!names.is_empty()).then(|| Proposal::ReportChecks {
        code: SkipCode::ChecksStopped,
        reason: format!("cancelled or stale, and not run again: {}", some_of(&names)),
        names,
    })
}

fn failing(case: &ChecksCase, failing: &[&Check]) -> Vec<Proposal> {
    let unknown = failing.iter().filter(|check| check.evidence.is_none());
    let unknown: Vec<i64> = unknown.filter_map(|check| check.forge_id).collect();
    if !unknown.is_empty() {
        return vec![Proposal::Evidence { checks: unknown }];
    }
    let is_read = |check: &&Check| check.evidence == Some(Evidence::Read);
    if !failing.iter().all(is_read) {
        return Vec::new();
    }
    let (not_ours, ours): (Vec<&Check>, Vec<&Check>) = failing
        .iter()
        .partition(|check| check.on_base == Some(CheckState::Failing));
    let mut proposals = Vec::new();
    let new = names(&unanswered(&not_ours));
    if !new.is_empty() {
        proposals.push(Proposal::ReportChecks {
            code: SkipCode::ChecksNotOurs,
            reason: format!(
                "red on the merge base too, so not caused by this change: {}",
                some_of(&new)
            ),
            names: new,
        });
    }
    let mut all = case.checks.iter();
    let is_rejected = all.any(|check| check.answer == Some(CheckAnswer::Rejected));
    if !ours.is_empty() && !is_rejected {
        proposals.push(reject(case, &ours));
    }
    proposals
}

fn reject(case: &ChecksCase, ours: &[&Check]) -> Proposal {
    let (names, head) = (names(ours), short_sha(&case.head));
    let room = LOG_BYTES / ours.len().max(1);
    let findings = ours.iter().map(|check| finding(check, room)).collect();
    let what = count(ours.len(), "check");
    Proposal::RejectChecks {
        summary: format!("{what} failed on {head}: {}", some_of(&names)),
        rejected: Box::new(WorkRejected {
            verdict: Some(Verdict::ChangesRequested),
            head: Some(case.head.clone()),
            body: format!("{what} of the pull request failed on {head}."),
            findings,
            begins_round: Some(false),
            ..Default::default()
        }),
        names,
    }
}

/// A check as one thing to fix, with at most `room` bytes of its log.
fn finding(check: &Check, room: usize) -> Finding {
    let mut text = match &check.url {
        Some(url) => format!("Its page: {url}\n"),
        None => String::new(),
    };
    match (&check.log, &check.log_trouble) {
        (Some(log), _) => {
            let log = end_of_log(log, room);
            text.push_str(&format!("The end of its log:\n\n{log}"));
        }
        (None, Some(trouble)) => text.push_str(&format!("Its log could not be read: {trouble}")),
        (None, None) => text.push_str("Its log is not available."),
    }
    Finding {
        severity: Severity::High,
        category: Category::Testing,
        title: Some(format!(
            "The check `{}` failed ({})",
            check.name, check.detail
        )),
        text,
        raised_by: RaisedBy::Check,
        ..Finding::default()
    }
}

fn unanswered<'a>(checks: &[&'a Check]) -> Vec<&'a Check> {
    let those = checks.iter().copied();
    those.filter(|check| check.answer.is_none()).collect()
}

fn names(checks: &[&Check]) -> Vec<String> {
    let mut names: Vec<String> = checks.iter().map(|check| check.name.clone()).collect();
    names.sort();
    names.dedup();
    names
}

fn some_of(names: &[String]) -> String {
    let more = names.len().saturating_sub(MOST_NAMES);
    let first = list(names.iter().take(MOST_NAMES));
    if more == 0 {
        first
    } else {
        format!("{first} and {more} more")
    }
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
