//! A fix, step by step. Each turn reads the progress from the blackboard and does the next step, so that continuing
//! after a crash is the same as continuing.

use super::commit::Span;
use super::interrupt::{Interrupt, Result};
use super::task::Task;
use crate::agent::Phase;
use crate::blackboard::{self as bb, Coverage, FixDone};
use crate::clock;
use crate::dispatch::gates::gate_summary::gate_summary;
use crate::dispatch::prompts::prompt_context::Purpose;
use crate::dispatch::prompts::prompt_parts::Remaining;
use crate::dispatch::run::launch::Launch;
use crate::dispatch::worktree::preflight::budget_left;
use crate::failpoint::crash_point;
use crate::finding::Outcome;
use crate::git::Worktree;
use crate::proposal::decision;
use crate::review_text::Stance;
use crate::work::{Ended, GateResult, Run};

/// The next step of a fix, derived from its last run whose work counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing ran yet, or no run counts.
    Begin,
    /// A run has no end on the blackboard: it just ended, or a crash interrupted it.
    Conclude,
    Commit,
    Withdraw(String),
    /// Not all feedback was given yet: another run continues from this commit.
    NextRun(String),
    Gates(String),
    /// The gates were red: the agent gets their output.
    Again(String),
    Finish(String),
}

pub(super) fn next_step(last: Option<&Run>, remaining: Remaining) -> Step {
    let Some(run) = last else { return Step::Begin };
    if run.ended.is_none() {
        return Step::Conclude;
    }
    if let Some(reason) = &run.refused {
        return Step::Withdraw(reason.clone());
    }
    if run.ended != Some(Ended::Agent) {
        return Step::Begin;
    }
    match (&run.head_after, run.gates) {
        (None, _) => Step::Commit,
        (Some(head), None) if remaining == Remaining::AnotherRun => Step::NextRun(head.clone()),
        (Some(head), None) => Step::Gates(head.clone()),
        (Some(head), Some(GateResult::Red)) => Step::Again(head.clone()),
        (Some(head), Some(GateResult::Green)) => Step::Finish(head.clone()),
    }
}

impl Task {
    pub(super) async fn fix(&self) -> Result<()> {
        loop {
            let runs = self.runs().await?;
            let first = runs.iter().rev().find_map(|run| run.rebased_onto.as_ref());
            let first = first.or_else(|| runs.first().map(|run| &run.head_before));
            let span = first.zip(runs.last());
            let span = span.map(|(first, run)| Span { first, run });
            let remaining = self.remaining(&runs).await?;
            match (next_step(runs.last(), remaining), span) {
                (Step::Begin, _) | (_, None) => {
                    let worktree = self.ready_worktree().await?;
                    let head = self.head_as_known(&worktree).await?;
                    self.run_fixer(&worktree, &head, Purpose::Feedback).await?;
                }
                (Step::Conclude, Some(span)) => self.conclude(span.run, Phase::Fix).await?,
                (Step::Commit, Some(span)) => self.commit(span, &runs).await?,
                (Step::Withdraw(reason), Some(span)) => return self.withdraw(span, &reason).await,
                (Step::NextRun(head), Some(span)) => self.next_run(span, &head).await?,
                (Step::Gates(head), Some(span)) => {
                    match self.changes_nothing(span, &runs, &head).await? {
                        Some(reason) => self.refuse(span, reason).await?,
                        None => {
                            self.configuration_in_force().await?;
                            self.begin_gates(span.run).await?;
                            self.gates(span, &head).await?;
                        }
                    }
                }
                (Step::Again(head), Some(span)) => self.again(span, &head).await?,
                (Step::Finish(head), Some(span)) => {
                    if self.change.has_pr() && self.is_pushed(&head).await? {
                        return self.finish(span, &runs, &head).await;
                    }
                    self.configuration_in_force().await?;
                    if !self.gates_hold(span.run).await? {
                        continue;
                    }
                    if !self.change.has_pr() {
                        return self.finish(span, &runs, &head).await;
                    }
                    self.push(span, &head).await?;
                }
            }
        }
    }

    async fn run_fixer(&self, worktree: &Worktree, head: &str, purpose: Purpose) -> Result<()> {
        let agent = self.agent(Phase::Fix)?;
        let base = self.base_of(worktree, head).await?;
        if matches!(purpose, Purpose::Feedback) {
            self.base_passes(worktree, &base, head).await?;
        }
        let prompt = self.fix_prompt(&base, head, purpose).await?;
        let session = agent.session(None);
        self.launch(Launch {
            phase: Phase::Fix,
            agent: &agent,
            session,
            worktree,
            base: &base,
            head,
            prompt,
        })
        .await
    }

    /// Runs the agent on the next part of the feedback, on top of the earlier commits.
    async fn next_run(&self, span: Span<'_>, head: &str) -> Result<()> {
        crash_point!("next_run.before");
        let worktree = self.look().await?;
        if worktree.head.as_deref() != Some(head) {
            return Err(Interrupt::fail(
                format!(
                    "the worktree has changed since {} was committed (other commits); nothing was removed",
                    span.run.run_id
                ),
                decision!(
                    "check {worktree}, then {submit}",
                    worktree = self.change.worktree.as_str().into(),
                    submit = self.change.submit_advice(),
                ),
            ));
        }
        self.run_fixer(&worktree, head, Purpose::Feedback).await
    }

    /// Runs that share the feedback are judged together: a run that changed nothing is fine if another one did.
    async fn changes_nothing(
        &self,
        span: Span<'_>,
        runs: &[Run],
        head: &str,
    ) -> Result<Option<String>> {
        // A single run that got all feedback was judged when it was committed, and so was a replayed one.
        let is_judged = runs.len() < 2 && self.coverage().await?.iter().all(Coverage::is_complete);
        if is_judged || span.run.rebased_onto.is_some() {
            return Ok(None);
        }
        self.is_no_fix(&self.place()?, span, runs, head).await
    }

    /// Runs the agent again after red gates, from the commit that failed them, until the rounds are used up.
    async fn again(&self, span: Span<'_>, head: &str) -> Result<()> {
        let rounds = self.rules.max_gate_rounds;
        let excerpt = gate_excerpt(span.run);
        if self.item_now().await?.gate_rounds > rounds {
            let sent_back = match rounds {
                0 => String::new(),
                1 => ", even after one more attempt by the agent".to_owned(),
                n => format!(", even after {n} more attempts by the agent"),
            };
            let reason = format!("the gates failed{sent_back}: {excerpt}");
            return self.refuse(span, reason).await;
        }
        if let Err(Interrupt::Fail(spent)) = budget_left(&self.change_now().await?) {
            let reason = format!("the gates failed ({excerpt}), and {}", spent.reason);
            return self.refuse(span, reason).await;
        }
        let worktree = self.look().await?;
        let purpose = Purpose::RedGates(span.run.gate_output.clone());
        self.run_fixer(&worktree, head, purpose).await
    }

    async fn finish(&self, span: Span<'_>, runs: &[Run], head: &str) -> Result<()> {
        let place = self.place()?;
        let diff = self.git.changed_files(&place, span.first, head).await?;
        let commits = self.git.log(&place, span.first, head).await?;
        let rest = self.rest(runs).await?;
        let is_left_out = |id: &str| {
            rest.as_ref().is_some_and(|rest| {
                let of = |piece: &crate::work::LeftOut| {
                    piece.piece == id || piece.finding_id.as_ref().is_some_and(|f| f.as_str() == id)
                };
                rest.left_out.iter().any(of)
            })
        };
        let mut answers = self.all_answers(runs);
        answers.retain(|answer| !is_left_out(&answer.id));
        let answers = answers.into_iter().map(|answer| {
            let outcome = match answer.answer {
                Stance::Fixed => Outcome::Addressed,
                Stance::CannotFix | Stance::Disagree => Outcome::Disputed,
            };
            (answer.id, outcome, answer.reason)
        });
        let remote_url = self.project.remote_url.clone();
        let done = FixDone {
            head_before: span.first.to_owned(),
            head_after: head.to_owned(),
            commits: commits.len(),
            files: diff.into_iter().map(|file| file.path).collect(),
            answers: answers.collect(),
            pushed_to: remote_url.filter(|_| self.change.has_pr()),
            posts: self.answers_to_post(runs, head, rest.as_ref()).await?,
            rest,
        };
        self.record("finish_fix", move |conn, claim| {
            bb::finish_fix(conn, claim, &done, clock::now())
        })
        .await
    }
}

/// The command and its failures.
fn gate_excerpt(run: &Run) -> String {
    let output = run.gate_output.as_deref().unwrap_or_default();
    let (command, output) = output.split_once('\n').unwrap_or(("?", ""));
    let command: String = command.chars().take(200).collect();
    format!("{command}: {}", gate_summary(output))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::ChangeId;
    use crate::clock::Time;
    use crate::work::{ItemId, RunId};

    fn run() -> Run {
        Run {
            run_id: RunId::new("r1"),
            item_id: ItemId::new("w1"),
            change_id: ChangeId::new("c1"),
            epoch: 1,
            agent: "a".into(),
            model: None,
            session: None,
            dir: "/runs/r1".into(),
            head_before: "b".into(),
            head_after: None,
            started_at: Time::from_millis(0),
            ended_at: None,
            ended: None,
            exit_status: None,
            gates: None,
            gate_output: None,
            gate_rules: None,
            rebased_onto: None,
            refused: None,
            discarded: false,
            tokens: None,
            cost_micros: None,
        }
    }

    #[test]
    fn a_step_whose_result_is_recorded_is_not_done_again() {
        let step = |last: Option<&Run>| next_step(last, Remaining::Nothing);
        assert_eq!(step(None), Step::Begin);
        let cut = run();
        assert_eq!(step(Some(&cut)), Step::Conclude);
        let good = Run {
            ended: Some(Ended::Agent),
            ..cut
        };
        assert_eq!(step(Some(&good)), Step::Commit);
        let refused = Run {
            refused: Some("nothing changed".into()),
            ..good.clone()
        };
        assert_eq!(
            step(Some(&refused)),
            Step::Withdraw("nothing changed".into())
        );
        let committed = Run {
            head_after: Some("c".into()),
            ..good
        };
        assert_eq!(step(Some(&committed)), Step::Gates("c".into()));
        assert_eq!(
            next_step(Some(&committed), Remaining::AnotherRun),
            Step::NextRun("c".into())
        );
        let red = Run {
            gates: Some(GateResult::Red),
            ..committed.clone()
        };
        assert_eq!(step(Some(&red)), Step::Again("c".into()));
        let green = Run {
            gates: Some(GateResult::Green),
            ..committed
        };
        assert_eq!(step(Some(&green)), Step::Finish("c".into()));
    }
}
