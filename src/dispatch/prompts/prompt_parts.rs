//! Feedback that is too long for one prompt: the part given to each run of a fix, the need for another run, and the
//! rest that is left to a person. It reads the blackboard and starts nothing.

use crate::blackboard::{self as bb, Coverage, Rest};
use crate::dispatch::interrupt::{Interrupt, Result};
use crate::dispatch::remote::reply_intents::NOT_TAKEN;
use crate::dispatch::task::Task;
use crate::dispatch::worktree::preflight::{budget_left, named};
use crate::finding::Finding;
use crate::proposal::{Bound, Decision, Escalation, decision};
use crate::pull_request::Feedback;
use crate::review_text::{FindingAnswer, Stance};
use crate::text::{count, prefixed};
use crate::work::{LeftOut, Rejection, Run};

/// Maximum number of runs among which one fix may split its feedback.
const MAX_RUNS: usize = 5;

/// Maximum characters listed of a text that was left out.
const LISTED_CHARS: usize = 160;

/// Feedback that a fix has not been given yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remaining {
    /// All feedback was given, or the rest can no longer be given.
    Nothing,
    AnotherRun,
}

impl Task {
    /// Returns the extent of each piece of feedback that counted runs of this item were given.
    pub(crate) async fn coverage(&self) -> Result<Vec<Coverage>> {
        Ok(self
            .read_of(&self.item.item_id, bb::coverage_of_item)
            .await?)
    }

    /// Decides if another run is needed before the gates, and can be afforded.
    pub(crate) async fn remaining(&self, runs: &[Run]) -> Result<Remaining> {
        if runs.len() >= MAX_RUNS || self.coverage().await?.iter().all(Coverage::is_complete) {
            return Ok(Remaining::Nothing);
        }
        let is_affordable = budget_left(&self.change_now().await?).is_ok();
        Ok(if is_affordable {
            Remaining::AnotherRun
        } else {
            Remaining::Nothing
        })
    }

    /// The answers of all runs; the last one to each id counts.
    pub(crate) fn all_answers(&self, runs: &[Run]) -> Vec<FindingAnswer> {
        let mut answers: Vec<FindingAnswer> = Vec::new();
        for answer in runs.iter().flat_map(|run| self.answers(run)) {
            answers.retain(|known| known.id != answer.id);
            answers.push(answer);
        }
        answers
    }

    /// Returns the feedback that no run was given, with the reason and the decision to make.
    pub(crate) async fn rest(&self, runs: &[Run]) -> Result<Option<Rest>> {
        let (id, item) = (self.change.change_id.clone(), self.item.item_id.clone());
        let (rejections, feedback) = self
            .read(move |conn| Ok((bb::rejections_in(conn, &item)?, bb::said_of(conn, &id)?)))
            .await?;
        let coverage = self.coverage().await?;
        let mut left_out: Vec<LeftOut> = coverage
            .iter()
            .filter(|piece| !piece.is_complete())
            .map(|piece| describe(piece, &rejections, &feedback))
            .collect();
        left_out.extend(
            rejections
                .iter()
                .flat_map(|rejection| without_room(rejection, &feedback)),
        );
        if left_out.is_empty() {
            return Ok(None);
        }
        let (n, id) = (left_out.len(), &self.change.change_id);
        let why = match budget_left(&self.change_now().await?) {
            Err(Interrupt::Fail(spent)) if runs.len() < MAX_RUNS => spent.reason,
            Ok(()) | Err(_) => {
                let limit = self.dispatch.settings.limits.feedback / 1000;
                let prompts = count(runs.len(), "prompt");
                format!("there is not enough room in {prompts} of {limit} KB")
            }
        };
        let names: Vec<String> = left_out.iter().map(name).collect();
        let texts = if n == 1 {
            "1 comment was".to_owned()
        } else {
            format!("{n} comments were")
        };
        let list = if self.change.has_pr() {
            "listed on the pull request, and by"
        } else {
            "listed by"
        };
        let escalation = Escalation::new(
            format!("{texts} not given to an agent ({}): {why}", named(&names)),
            decision!(
                "read what was left out ({list} {events}); then {refine} starts another fix with it, or accept the change as it is ({approve})",
                events = Decision::command(format!("remand events --change {id} --json")),
                refine = Decision::command(format!("remand refine {id}")),
                approve = Decision::approve(id),
            ),
        );
        Ok(Some(Rest {
            escalation: escalation.at_bound(Bound::PromptSize),
            left_out,
        }))
    }
}

/// True if all of a piece was in prompts of runs that count. Runs of older versions recorded nothing.
pub(crate) fn was_told(coverage: &[Coverage], piece: &str) -> bool {
    coverage.is_empty()
        || coverage
            .iter()
            .any(|one| one.piece == piece && one.is_complete())
}

/// Returns the findings of a rejection that were in prompts, each with the agent's answer. Changes that the agent
/// reports in a file with undone edits are not in the commit.
pub(crate) fn answered<'a>(
    rejection: &'a Rejection,
    coverage: &[Coverage],
    answers: &[FindingAnswer],
    undone: &[String],
) -> Vec<(&'a Finding, Option<(Stance, String)>)> {
    let mut answered = Vec::new();
    for (at, finding) in rejection.rejected.findings.iter().enumerate() {
        let piece = format!("{}.{}", rejection.rejection_id, at + 1);
        if !was_told(coverage, &piece) {
            continue;
        }
        let is_undone = |path| undone.contains(path);
        let answer = if finding.path.as_ref().is_some_and(is_undone) {
            Some((Stance::CannotFix, NOT_TAKEN.to_owned()))
        } else {
            let answer = answers
                .iter()
                .find(|one| finding.is_called(&one.id, &piece));
            answer.map(|answer| (answer.answer, answer.reason.clone()))
        };
        answered.push((finding, answer));
    }
    answered
}

fn describe(piece: &Coverage, rejections: &[Rejection], feedback: &[Feedback]) -> LeftOut {
    let rejection = rejections
        .iter()
        .find(|one| Some(&one.rejection_id) == piece.rejection_id.as_ref());
    let finding = rejection.and_then(|rejection| rejection.finding_at(&piece.piece));
    let source = match (finding, rejection) {
        (Some(finding), _) => finding.feedback_id.as_deref(),
        (None, Some(rejection)) => {
            let feedback = rejection.rejected.feedback.as_deref();
            feedback.and_then(|ids| ids.first()).map(String::as_str)
        }
        (None, None) => Some(piece.piece.as_str()),
    };
    let source = feedback
        .iter()
        .find(|one| Some(one.feedback_id.as_str()) == source);
    let text = finding
        .map(|finding| finding.text.as_str())
        .or(source.map(|one| one.body.as_str()))
        .or(rejection.map(Rejection::text))
        .unwrap_or_default();
    LeftOut {
        piece: piece.piece.clone(),
        rejection_id: piece.rejection_id.clone(),
        finding_id: piece.finding_id.clone(),
        path: finding.and_then(|finding| finding.path.clone()),
        line: finding.and_then(|finding| finding.line).map(i64::from),
        text: first_line(text),
        url: source.and_then(|one| one.url.clone()),
        bytes: piece.total,
        told_bytes: piece.end,
    }
}

/// Comments of a review that did not fit into its event.
fn without_room<'a>(
    rejection: &'a Rejection,
    feedback: &'a [Feedback],
) -> impl Iterator<Item = LeftOut> + 'a {
    let ids = rejection.rejected.left_out_feedback.iter();
    ids.map(|id| {
        let source = feedback.iter().find(|one| one.feedback_id == *id);
        LeftOut {
            piece: id.clone(),
            rejection_id: Some(rejection.rejection_id.clone()),
            finding_id: None,
            path: source.and_then(|one| one.path.clone()),
            line: source.and_then(|one| one.line),
            text: source.map(|one| first_line(&one.body)).unwrap_or_default(),
            url: source.and_then(|one| one.url.clone()),
            bytes: source.map_or(0, |one| i64::try_from(one.body.len()).unwrap_or(i64::MAX)),
            told_bytes: 0,
        }
    })
}

fn name(left_out: &LeftOut) -> String {
    let LeftOut { piece, path, .. } = left_out;
    match path {
        Some(path) => format!("{piece} at {path}{}", prefixed(":", left_out.line)),
        None => piece.clone(),
    }
}

fn first_line(text: &str) -> String {
    let line = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    line.chars().take(LISTED_CHARS).collect()
}
