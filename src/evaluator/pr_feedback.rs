//! The stock evaluator of pull requests: feedback from the forge becomes rejections, approvals and moves. Values in,
//! proposals out; it reads nothing and changes nothing.

use std::time::Duration;

use super::size_limit::fit;
use crate::change::{AdoptedBy, Change, State};
use crate::clock::{self, Time};
use crate::event::body::WorkRejected;
use crate::finding::{Severity, Verdict};
use crate::proposal::Proposal;
use crate::pull_request::{
    Feedback, FeedbackOutcome, PullRow, PullState, ReviewState, SaidKind, Trust,
};
use crate::review_text::{Dialect, read};
use crate::text::short_sha;

/// Time after a review was read during which its comments may still be missing.
const COMMENTS_LAG: Duration = Duration::from_secs(120);

/// A change with its pull request as it was last read.
#[derive(Debug, Clone)]
pub(crate) struct PullCase {
    pub(crate) change: Change,
    pub(crate) pull: PullRow,
    /// Oldest first.
    pub(crate) unjudged: Vec<Feedback>,
    /// Inline comments that were judged as context before their review arrived, and that no fix was given.
    pub(crate) alone: Vec<Feedback>,
    pub(crate) pushes: Vec<OurPush>,
    /// A fix is open, or a review is running: a head that a person moved waits for its end.
    pub(crate) is_busy: bool,
    /// Reason why an ended change cannot be reopened: another one has its branch or its worktree.
    pub(crate) taken_by: Option<String>,
    /// Authors of requests for changes that wait for a fix or are in one.
    pub(crate) standing: Vec<String>,
}

/// A push by remand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OurPush {
    pub(crate) from: String,
    pub(crate) to: String,
    /// None: started, with an unknown result.
    pub(crate) done_at: Option<Time>,
}

/// Result of judging a pull request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judged {
    pub(crate) proposals: Vec<Proposal>,
    /// Set if nothing is left to judge until something new is read.
    pub(crate) is_settled: bool,
}

/// Judges a pull request as it was last read.
pub(crate) fn judge(case: &PullCase) -> Judged {
    let (change, pull) = (&case.change, &case.pull);
    if pull.state != PullState::Open || change.state.is_over() {
        return judge_ended(case);
    }
    let mut proposals = Vec::new();
    if change.adopted_by == Some(AdoptedBy::Discovery) {
        match &pull.passed_over {
            Some(reason) if !change.paused_by_rules => {
                proposals.push(Proposal::Unwanted {
                    reason: reason.clone(),
                });
            }
            None if change.paused_by_rules => proposals.push(Proposal::Wanted),
            Some(_) | None => {}
        }
    }
    if pull.base_ref != change.base {
        proposals.push(Proposal::Retargeted {
            to: pull.base_ref.clone(),
        });
    }
    let mut is_settled = true;
    match moved(case) {
        Moved::No => {}
        // Judged again after a later read, which may show nothing new.
        Moved::Perhaps => is_settled = false,
        Moved::Yes if case.is_busy || change.state.is_running() => is_settled = false,
        Moved::Yes => proposals.push(Proposal::HeadMoved {
            to: pull.head_sha.clone(),
        }),
    }
    let early: Vec<&str> = case
        .unjudged
        .iter()
        .filter(|said| waits_for_comments(case, said))
        .map(id_of)
        .collect();
    is_settled &= early.is_empty();
    proposals.extend(feedback_proposals(case, &early));
    Judged {
        proposals,
        is_settled,
    }
}

/// Judges a pull request if it was merged or closed, or if its change was.
fn judge_ended(case: &PullCase) -> Judged {
    let mut proposals = Vec::new();
    match (case.pull.state, case.change.state) {
        (PullState::Merged, State::Merged) | (PullState::Closed, State::Merged | State::Closed) => {
        }
        (PullState::Merged, _) => proposals.push(Proposal::Merged),
        (PullState::Closed, _) => proposals.push(Proposal::Closed),
        (PullState::Open, State::Closed) if case.pull.acted_on == Some(PullState::Closed) => {
            // Everything else is judged once it is reopened.
            return match &case.taken_by {
                None => Judged {
                    proposals: vec![Proposal::Reopened],
                    is_settled: false,
                },
                Some(reason) => Judged {
                    proposals: vec![Proposal::StaysClosed {
                        reason: reason.clone(),
                    }],
                    is_settled: true,
                },
            };
        }
        (PullState::Open, _) => {}
    }
    if case.pull.state == PullState::Closed
        && (!proposals.is_empty() || case.pull.acted_on == Some(PullState::Closed))
    {
        // It may be reopened: comments made until then are judged then.
        return Judged {
            proposals,
            is_settled: true,
        };
    }
    let over = if case.pull.state == PullState::Open {
        "the change is over".to_owned()
    } else {
        format!("the PR is {}", case.pull.state)
    };
    proposals.extend(case.unjudged.iter().map(|said| match said.trust {
        Trust::MayMakeWork if is_request(said) => {
            pass_over(said, FeedbackOutcome::PrOver, over.clone())
        }
        Trust::MayMakeWork | Trust::ShownOnly | Trust::Ours => {
            settle(said, FeedbackOutcome::PrOver, &over)
        }
    }));
    Judged {
        proposals,
        is_settled: true,
    }
}

/// Result of checking for a move of the branch by somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moved {
    No,
    /// At the commit where our push, which is still running, found it.
    Perhaps,
    Yes,
}

fn moved(case: &PullCase) -> Moved {
    let head = &case.pull.head_sha;
    // Only the last of our pushes: a reset to an earlier one removes the later ones from the branch.
    if *head == case.change.head || case.pushes.last().is_some_and(|push| push.to == *head) {
        return Moved::No;
    }
    // Lag of the forge was handled by the read: intake stores the remote's head of the branch.
    let is_under_way = case
        .pushes
        .iter()
        .any(|push| push.from == *head && push.done_at.is_none());
    if is_under_way {
        Moved::Perhaps
    } else {
        Moved::Yes
    }
}

/// Proposals for all comments, except those in `early`, which are left for a later pass.
fn feedback_proposals(case: &PullCase, early: &[&str]) -> Vec<Proposal> {
    let mut proposals = Vec::new();
    let mut standing = case.standing.clone();
    let mut taken: Vec<&str> = early.to_vec();
    for said in case
        .unjudged
        .iter()
        .filter(|said| is_request(said) && !early.contains(&id_of(said)))
    {
        let with_it = comments_of(said, case);
        let proposal = request(case, said, &with_it);
        if matches!(proposal, Proposal::Reject { .. }) {
            standing.push(said.author.clone());
        } else {
            // Comments of a request that makes no work are settled too.
            proposals.extend(with_it.iter().map(|comment| {
                let reason = "it came with a review that made no work";
                settle(comment, FeedbackOutcome::NoWork, reason)
            }));
        }
        taken.extend(with_it.iter().map(|comment| id_of(comment)));
        taken.push(id_of(said));
        proposals.push(proposal);
    }
    for said in case
        .unjudged
        .iter()
        .filter(|said| said.state == Some(ReviewState::Dismissed))
    {
        let with_it = comments_of(said, case);
        proposals.extend(with_it.iter().map(|comment| {
            let reason = "it came with a review that was dismissed";
            settle(comment, FeedbackOutcome::Dismissed, reason)
        }));
        taken.extend(with_it.iter().map(|comment| id_of(comment)));
    }
    for said in case
        .unjudged
        .iter()
        .filter(|said| !taken.contains(&id_of(said)))
    {
        proposals.push(match (said.trust, said.state) {
            (Trust::MayMakeWork, Some(ReviewState::Approved)) if said.is_person => {
                approval(case, said, &standing)
            }
            (Trust::MayMakeWork, Some(ReviewState::Dismissed)) => {
                settle(said, FeedbackOutcome::Dismissed, "it was dismissed")
            }
            (Trust::MayMakeWork, _) if said.body.trim().is_empty() => {
                settle(said, FeedbackOutcome::SaysNothing, "it says nothing")
            }
            (Trust::MayMakeWork, _) => settle_as(said, FeedbackOutcome::Context),
            (Trust::ShownOnly, Some(ReviewState::Approved)) => {
                pass_over(said, FeedbackOutcome::NotTrusted, why_shown_only(said))
            }
            (Trust::ShownOnly, _) => {
                settle(said, FeedbackOutcome::NotTrusted, &why_shown_only(said))
            }
            (Trust::Ours, _) => settle_as(said, FeedbackOutcome::Ours),
        });
    }
    proposals
}

/// True for a review that requests changes, or for a comment with such a verdict: the forge does not let authors review
/// their own pull requests.
fn is_request(said: &Feedback) -> bool {
    match said.state {
        Some(ReviewState::ChangesRequested) => said.trust != Trust::Ours,
        Some(ReviewState::Commented) | None => {
            said.trust == Trust::MayMakeWork
                && said.kind != SaidKind::ReviewComment
                && says_no(&said.body)
        }
        Some(ReviewState::Approved | ReviewState::Dismissed | ReviewState::Pending) => false,
    }
}

/// Only a verdict in one of the written forms counts; a complaint without one is context.
fn says_no(body: &str) -> bool {
    let reading = read(body, Severity::Critical);
    reading.dialect != Dialect::None && reading.raw_verdict == Some(Verdict::ChangesRequested)
}

/// True if a request for changes is empty. The forge does not accept those, so its comments have not arrived yet.
fn waits_for_comments(case: &PullCase, said: &Feedback) -> bool {
    said.state == Some(ReviewState::ChangesRequested)
        && said.trust == Trust::MayMakeWork
        && is_live(case, said)
        && says_nothing(said, &comments_of(said, case))
        // It was stored after the read had started, so its wait may be a little longer than the lag.
        && case.pull.read_at.is_none_or(|read| !clock::is_due(said.taken_in.plus(COMMENTS_LAG), read, 2 * COMMENTS_LAG))
}

fn says_nothing(said: &Feedback, comments: &[&Feedback]) -> bool {
    said.body.trim().is_empty()
        && comments
            .iter()
            .all(|comment| comment.body.trim().is_empty())
}

fn comments_of<'a>(review: &Feedback, case: &'a PullCase) -> Vec<&'a Feedback> {
    if review.kind != SaidKind::Review {
        return Vec::new();
    }
    let number = review.number();
    case.alone
        .iter()
        .chain(&case.unjudged)
        .filter(|said| {
            said.kind == SaidKind::ReviewComment && said.review.is_some() && said.review == number
        })
        .filter(|said| said.author_id == review.author_id && said.trust == review.trust)
        .collect()
}

fn request(case: &PullCase, said: &Feedback, comments: &[&Feedback]) -> Proposal {
    if said.trust != Trust::MayMakeWork {
        return pass_over(said, FeedbackOutcome::NotTrusted, why_shown_only(said));
    }
    // The forge does not accept review requests to authors.
    let ask_again = Some(&said.author)
        .filter(|author| said.is_person && case.pull.author.as_ref() != Some(author));
    if !is_live(case, said) {
        let head = short_sha(&case.pull.head_sha);
        let why = match &said.commit {
            Some(about) => format!(
                "it is about {}, and the head is {head} now",
                short_sha(about)
            ),
            None => format!("it was said before {head} came"),
        };
        let asked = ask_again
            .map(|author| format!("; {author} is asked to look again"))
            .unwrap_or_default();
        let feedback_id = said.feedback_id.clone();
        return Proposal::PassOver {
            feedback_id,
            outcome: FeedbackOutcome::OtherHead,
            reason: format!("{why}{asked}"),
            ask_again: ask_again.cloned(),
        };
    }
    if says_nothing(said, comments) {
        return Proposal::PassOver {
            feedback_id: said.feedback_id.clone(),
            outcome: FeedbackOutcome::SaysNothing,
            reason: "it requests changes and does not say which".to_owned(),
            ask_again: ask_again.cloned(),
        };
    }
    let rejected = WorkRejected {
        head: Some(
            said.commit
                .clone()
                .unwrap_or_else(|| case.pull.head_sha.clone()),
        ),
        ..fit(said, comments)
    };
    let more = match rejected.left_out {
        0 => String::new(),
        left_out => format!(
            " ({left_out} of its {} comments are left to a person: they are more than a fix can be told)",
            comments.len()
        ),
    };
    let summary = format!(
        "{} requests changes{}{more}",
        said.author,
        first_line(said, comments)
    );
    Proposal::Reject {
        by: format!("github:{}", said.author),
        summary,
        rejected: Box::new(rejected),
    }
}

/// True if a comment is about the head, or about one that only our pushes have replaced since: then it arrived during
/// the fix and waits for the next one.
fn is_live(case: &PullCase, said: &Feedback) -> bool {
    let Some(commit) = &said.commit else {
        return is_after_head(case, said);
    };
    let is_head = |sha: &str| {
        sha == case.pull.head_sha || (sha == case.change.head && moved(case) != Moved::Yes)
    };
    let mut sha = commit.as_str();
    // Oldest first: one walk follows the whole chain of pushes.
    for push in &case.pushes {
        if is_head(sha) {
            return true;
        }
        if push.from == sha {
            sha = &push.to;
        }
    }
    is_head(sha)
}

/// True if a comment that names no commit was made after the head was pushed. If we pushed the head, the comment was
/// not there at the check before, so it arrived during the fix or later.
fn is_after_head(case: &PullCase, said: &Feedback) -> bool {
    if case.pushes.iter().any(|push| push.to == case.pull.head_sha) {
        return true;
    }
    let said_at = said
        .created_at
        .as_deref()
        .and_then(|text| Time::parse(text).ok());
    match (said_at, case.pull.head_since) {
        (Some(said_at), Some(since)) => said_at >= since,
        (None, _) | (_, None) => true,
    }
}

fn approval(case: &PullCase, said: &Feedback, standing: &[String]) -> Proposal {
    let head = said
        .commit
        .clone()
        .unwrap_or_else(|| case.pull.head_sha.clone());
    if head != case.change.head || head != case.pull.head_sha {
        return pass_over(
            said,
            FeedbackOutcome::OtherHead,
            format!(
                "it approves {}, and the head is {} now",
                short_sha(&head),
                short_sha(&case.pull.head_sha)
            ),
        );
    }
    match standing.iter().find(|by| **by != said.author) {
        Some(by) => pass_over(
            said,
            FeedbackOutcome::ObjectionStands,
            format!("{by} requests changes, and that still stands"),
        ),
        None => Proposal::Approve {
            by: said.author.clone(),
            head,
            feedback_id: said.feedback_id.clone(),
        },
    }
}

fn first_line(said: &Feedback, comments: &[&Feedback]) -> String {
    let bodies = std::iter::once(said.body.as_str())
        .chain(comments.iter().map(|comment| comment.body.as_str()));
    let line = bodies
        .flat_map(str::lines)
        .map(str::trim)
        .find(|line| !line.is_empty());
    line.map(|line| format!(": {}", line.chars().take(160).collect::<String>()))
        .unwrap_or_default()
}

fn id_of(said: &Feedback) -> &str {
    &said.feedback_id
}

fn why_shown_only(said: &Feedback) -> String {
    said.trust_reason
        .clone()
        .unwrap_or_else(|| format!("{} may not make work", said.author))
}

fn settle(said: &Feedback, outcome: FeedbackOutcome, reason: &str) -> Proposal {
    Proposal::Settle {
        feedback_id: said.feedback_id.clone(),
        outcome,
        reason: Some(reason.to_owned()),
    }
}

/// An outcome that needs no reason.
fn settle_as(said: &Feedback, outcome: FeedbackOutcome) -> Proposal {
    Proposal::Settle {
        feedback_id: said.feedback_id.clone(),
        outcome,
        reason: None,
    }
}

fn pass_over(said: &Feedback, outcome: FeedbackOutcome, reason: String) -> Proposal {
    Proposal::PassOver {
        feedback_id: said.feedback_id.clone(),
        outcome,
        reason,
        ask_again: None,
    }
}
