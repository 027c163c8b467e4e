//! The built-in evaluator of pull requests: feedback from the forge becomes rejections, approvals and moves. Values in,
//! proposals out; it reads nothing and changes nothing.

use std::time::Duration;

use super::size_limit::fit;
use crate::change::{AdoptedBy, Change, State};
use crate::clock::{self, Time};
use crate::event::body::WorkRejected;
use crate::finding::{Severity, Verdict};
use crate::proposal::Proposal;
use crate::pull_request::{
    CommentKind, Feedback, FeedbackOutcome, PullRow, PullState, ReviewState, Trust,
};
use crate::review_text::{Dialect, read};
use crate::text::{prefixed, short_sha};

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
        .filter(|feedback| waits_for_comments(case, feedback))
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
            let proposal =
                case.taken_by
                    .clone()
                    .map_or(Proposal::Reopened, |reason| Proposal::StaysClosed {
                        reason,
                    });
            return Judged {
                proposals: vec![proposal],
                is_settled: case.taken_by.is_some(),
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
        "the change has ended".to_owned()
    } else {
        format!("the PR is {}", case.pull.state)
    };
    proposals.extend(case.unjudged.iter().map(|feedback| match feedback.trust {
        Trust::MayMakeWork if is_request(feedback) => {
            pass_over(feedback, FeedbackOutcome::PrOver, over.clone())
        }
        Trust::MayMakeWork | Trust::ShownOnly | Trust::Ours => {
            settle(feedback, FeedbackOutcome::PrOver, &over)
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
    let is_under_way = |push: &OurPush| push.from == *head && push.done_at.is_none();
    if case.pushes.iter().any(is_under_way) {
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
    let is_left = |one: &&Feedback| is_request(one) && !early.contains(&id_of(one));
    for feedback in case.unjudged.iter().filter(is_left) {
        let with_it = comments_of(feedback, case);
        let proposal = request(case, feedback, &with_it);
        if matches!(proposal, Proposal::Reject { .. }) {
            standing.push(feedback.author.clone());
        } else {
            // Comments of a request that makes no work are settled too.
            proposals.extend(with_it.iter().map(|comment| {
                let reason = "it belongs to a review that created no work items";
                settle(comment, FeedbackOutcome::NoWork, reason)
            }));
        }
        taken.extend(with_it.iter().map(|comment| id_of(comment)));
        taken.push(id_of(feedback));
        proposals.push(proposal);
    }
    let is_dismissed = |one: &&Feedback| one.state == Some(ReviewState::Dismissed);
    for feedback in case.unjudged.iter().filter(is_dismissed) {
        let with_it = comments_of(feedback, case);
        proposals.extend(with_it.iter().map(|comment| {
            let reason = "it belongs to a review that was dismissed";
            settle(comment, FeedbackOutcome::Dismissed, reason)
        }));
        taken.extend(with_it.iter().map(|comment| id_of(comment)));
    }
    let is_left = |one: &&Feedback| !taken.contains(&id_of(one));
    for feedback in case.unjudged.iter().filter(is_left) {
        proposals.push(match (feedback.trust, feedback.state) {
            (Trust::MayMakeWork, Some(ReviewState::Approved)) if feedback.is_person => {
                approval(case, feedback, &standing)
            }
            (Trust::MayMakeWork, Some(ReviewState::Dismissed)) => {
                settle(feedback, FeedbackOutcome::Dismissed, "it was dismissed")
            }
            (Trust::MayMakeWork, _) if feedback.body.trim().is_empty() => {
                settle(feedback, FeedbackOutcome::SaysNothing, "it is empty")
            }
            (Trust::MayMakeWork, _) => settle_as(feedback, FeedbackOutcome::Context),
            (Trust::ShownOnly, Some(ReviewState::Approved)) => not_trusted(feedback),
            (Trust::ShownOnly, _) => {
                let reason = why_shown_only(feedback);
                settle(feedback, FeedbackOutcome::NotTrusted, &reason)
            }
            (Trust::Ours, _) => settle_as(feedback, FeedbackOutcome::Ours),
        });
    }
    proposals
}

/// True for a review that requests changes, or for a comment with such a verdict: the forge does not let authors review
/// their own pull requests.
fn is_request(feedback: &Feedback) -> bool {
    match feedback.state {
        Some(ReviewState::ChangesRequested) => feedback.trust != Trust::Ours,
        Some(ReviewState::Commented) | None => {
            feedback.trust == Trust::MayMakeWork
                && feedback.kind != CommentKind::ReviewComment
                && says_no(&feedback.body)
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
fn waits_for_comments(case: &PullCase, feedback: &Feedback) -> bool {
    feedback.state == Some(ReviewState::ChangesRequested)
        && feedback.trust == Trust::MayMakeWork
        && is_live(case, feedback)
        && says_nothing(feedback, &comments_of(feedback, case))
        // It was stored after the read had started, so its wait may be a little longer than the lag.
        && case.pull.read_at.is_none_or(|read| !clock::is_due(feedback.taken_in.plus(COMMENTS_LAG), read, 2 * COMMENTS_LAG))
}

fn says_nothing(feedback: &Feedback, comments: &[&Feedback]) -> bool {
    let is_empty = |feedback: &Feedback| feedback.body.trim().is_empty();
    is_empty(feedback) && comments.iter().all(|comment| is_empty(comment))
}

fn comments_of<'a>(review: &Feedback, case: &'a PullCase) -> Vec<&'a Feedback> {
    if review.kind != CommentKind::Review {
        return Vec::new();
    }
    let number = review.number();
    case.alone
        .iter()
        .chain(&case.unjudged)
        .filter(|feedback| {
            feedback.kind == CommentKind::ReviewComment
                && feedback.review.is_some()
                && feedback.review == number
        })
        .filter(|feedback| feedback.author_id == review.author_id && feedback.trust == review.trust)
        .collect()
}

fn request(case: &PullCase, feedback: &Feedback, comments: &[&Feedback]) -> Proposal {
    if feedback.trust != Trust::MayMakeWork {
        return not_trusted(feedback);
    }
    // The forge does not accept review requests to authors.
    let ask_again = Some(&feedback.author)
        .filter(|author| feedback.is_person && case.pull.author.as_ref() != Some(author));
    let no_work = |outcome, reason| Proposal::PassOver {
        feedback_id: feedback.feedback_id.clone(),
        outcome,
        reason,
        ask_again: ask_again.cloned(),
    };
    if !is_live(case, feedback) {
        let head = short_sha(&case.pull.head_sha);
        let why = match &feedback.commit {
            Some(about) => format!(
                "it is about {}, but the head is now {head}",
                short_sha(about)
            ),
            None => format!("it was written before {head} was pushed"),
        };
        let asked = ask_again.map(|author| format!("; {author} is asked to review again"));
        let reason = why + &asked.unwrap_or_default();
        return no_work(FeedbackOutcome::OtherHead, reason);
    }
    if says_nothing(feedback, comments) {
        let reason = "it requests changes but does not say which".to_owned();
        return no_work(FeedbackOutcome::SaysNothing, reason);
    }
    let head = feedback.commit.as_ref().unwrap_or(&case.pull.head_sha);
    let rejected = WorkRejected {
        head: Some(head.clone()),
        ..fit(feedback, comments)
    };
    let more = match rejected.left_out {
        0 => String::new(),
        left_out => format!(
            " ({left_out} of its {} comments are left to a person: too many for one fix)",
            comments.len()
        ),
    };
    let summary = format!(
        "{} requests changes{}{more}",
        feedback.author,
        first_line(feedback, comments)
    );
    Proposal::Reject {
        by: format!("github:{}", feedback.author),
        summary,
        rejected: Box::new(rejected),
    }
}

/// True if a comment is about the head, or about one that only our pushes have replaced since: then it arrived during
/// the fix and waits for the next one.
fn is_live(case: &PullCase, feedback: &Feedback) -> bool {
    let Some(commit) = &feedback.commit else {
        return is_after_head(case, feedback);
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
fn is_after_head(case: &PullCase, feedback: &Feedback) -> bool {
    if case.pushes.iter().any(|push| push.to == case.pull.head_sha) {
        return true;
    }
    let written_at = feedback.created_at.as_deref();
    let written_at = written_at.and_then(|text| Time::parse(text).ok());
    match (written_at, case.pull.head_since) {
        (Some(written_at), Some(since)) => written_at >= since,
        (None, _) | (_, None) => true,
    }
}

fn approval(case: &PullCase, feedback: &Feedback, standing: &[String]) -> Proposal {
    let now = &case.pull.head_sha;
    let head = feedback.commit.as_ref().unwrap_or(now);
    if *head != case.change.head || head != now {
        let (head, now) = (short_sha(head), short_sha(now));
        let reason = format!("it approves {head}, but the head is now {now}");
        return pass_over(feedback, FeedbackOutcome::OtherHead, reason);
    }
    match standing.iter().find(|by| **by != feedback.author) {
        Some(by) => {
            let reason = format!("{by} still requests changes");
            pass_over(feedback, FeedbackOutcome::ObjectionStands, reason)
        }
        None => Proposal::Approve {
            by: feedback.author.clone(),
            head: head.clone(),
            feedback_id: feedback.feedback_id.clone(),
        },
    }
}

fn first_line(feedback: &Feedback, comments: &[&Feedback]) -> String {
    let bodies = std::iter::once(feedback.body.as_str())
        .chain(comments.iter().map(|comment| comment.body.as_str()));
    let mut lines = bodies.flat_map(str::lines).map(str::trim);
    let line = lines.find(|line| !line.is_empty());
    prefixed(
        ": ",
        line.map(|line| line.chars().take(160).collect::<String>()),
    )
}

fn id_of(feedback: &Feedback) -> &str {
    &feedback.feedback_id
}

fn why_shown_only(feedback: &Feedback) -> String {
    feedback
        .trust_reason
        .clone()
        .unwrap_or_else(|| format!("{} is not allowed to create work items", feedback.author))
}

/// Feedback that would have an effect if its author were allowed to create work.
fn not_trusted(feedback: &Feedback) -> Proposal {
    let reason = why_shown_only(feedback);
    pass_over(feedback, FeedbackOutcome::NotTrusted, reason)
}

fn settle(feedback: &Feedback, outcome: FeedbackOutcome, reason: &str) -> Proposal {
    Proposal::Settle {
        feedback_id: feedback.feedback_id.clone(),
        outcome,
        reason: Some(reason.to_owned()),
    }
}

/// An outcome that needs no reason.
fn settle_as(feedback: &Feedback, outcome: FeedbackOutcome) -> Proposal {
    Proposal::Settle {
        feedback_id: feedback.feedback_id.clone(),
        outcome,
        reason: None,
    }
}

fn pass_over(feedback: &Feedback, outcome: FeedbackOutcome, reason: String) -> Proposal {
    Proposal::PassOver {
        feedback_id: feedback.feedback_id.clone(),
        outcome,
        reason,
        ask_again: None,
    }
}
