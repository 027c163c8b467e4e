//! A fix, step by step. Each turn asks the blackboard how far it is and does the next step, so that going on after a
//! crash is the same as going on.

use super::commit::Span;
use super::context::FixPrompt;
use super::gates::last_line;
use super::launch::Launch;
use super::look::budget_left;
use super::stop::Stop;
use super::task::Task;
use crate::agent::Phase;
use crate::blackboard::{self as bb, FixDone};
use crate::clock;
use crate::finding::Outcome;
use crate::git::Worktree;
use crate::review::Stance;
use crate::work::{Ended, GateResult, Run};

/// The next step of a fix, read off its last run whose work counts.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Nothing ran yet, or nothing of it counts.
    Begin,
    /// A run has no end on the blackboard: it just ended, or a crash cut it.
    Conclude,
    Commit,
    Withdraw(String),
    Gates(String),
    /// The gates were red: the agent gets to see why.
    Again(String),
    Finish(String),
}

fn next_step(last: Option<&Run>) -> Step {
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
        (Some(head), None) => Step::Gates(head.clone()),
        (Some(head), Some(GateResult::Red)) => Step::Again(head.clone()),
        (Some(head), Some(GateResult::Green)) => Step::Finish(head.clone()),
    }
}

impl Task {
    pub(super) async fn fix(&self) -> Result<(), Stop> {
        loop {
            let runs = self.runs().await?;
            let first = runs.iter().rev().find_map(|run| run.rebased_onto.as_ref());
            let first = first.or_else(|| runs.first().map(|run| &run.head_before));
            let span = first.zip(runs.last()).map(|(first, run)| Span { first, run });
            match (next_step(runs.last()), span) {
                (Step::Begin, _) | (_, None) => {
                    let worktree = self.ready_worktree().await?;
                    let head = self.head_as_known(&worktree).await?;
                    self.run_fixer(&worktree, &head, None).await?;
                }
                (Step::Conclude, Some(span)) => self.conclude(span.run, Phase::Fix).await?,
                (Step::Commit, Some(span)) => self.commit(span).await?,
                (Step::Withdraw(reason), Some(span)) => return self.withdraw(span, &reason).await,
                (Step::Gates(head), Some(span)) => self.gates(span, &head).await?,
                (Step::Again(head), Some(span)) => self.again(span, &head).await?,
                (Step::Finish(head), Some(span)) => {
                    if !self.change.has_pr() || self.is_pushed(&head).await? {
                        return self.finish(span, &head).await;
                    }
                    self.push(span, &head).await?;
                }
            }
        }
    }

    async fn run_fixer(&self, worktree: &Worktree, head: &str, gate_output: Option<String>) -> Result<(), Stop> {
        let agent = self.agent(Phase::Fix)?;
        let base = self.base_of(worktree, head).await?;
        let FixPrompt { text: prompt, guidance } = self.fix_prompt(&base, head, gate_output).await?;
        let session = agent.session(None);
        self.launch(Launch { phase: Phase::Fix, agent: &agent, session, worktree, base: &base, head, prompt, guidance })
            .await
    }

    /// Red gates: once more, from the commit that failed them, until the rounds are used up.
    async fn again(&self, span: Span<'_>, head: &str) -> Result<(), Stop> {
        let rounds = self.rules.max_gate_rounds;
        let given_up = if self.item_now().await?.gate_rounds > rounds {
            let sent_back = match rounds {
                0 => String::new(),
                1 => ", also after the agent was sent back once".to_owned(),
                n => format!(", also after the agent was sent back {n} times"),
            };
            Some(format!("the gates are red{sent_back}: {}", what_gates_said(span.run)))
        } else if let Err(Stop::Fail(spent)) = budget_left(&self.change_now().await?) {
            Some(format!("the gates are red ({}), and {}", what_gates_said(span.run), spent.reason))
        } else {
            None
        };
        if let Some(reason) = given_up {
            let (claim, id) = (self.claim.clone(), span.run.run_id.clone());
            self.write("refuse", move |conn| bb::refuse_run(conn, &claim, &id, &reason)).await?;
            return Ok(());
        }
        let worktree = self.look().await?;
        self.run_fixer(&worktree, head, span.run.gate_output.clone()).await
    }

    async fn finish(&self, span: Span<'_>, head: &str) -> Result<(), Stop> {
        let place = self.place()?;
        let diff = self.git.changed_files(&place, span.first, head).await?;
        let commits = self.git.log(&place, span.first, head).await?;
        let answers = self.answers(span.run).into_iter().map(|answer| {
            let outcome = match answer.answer {
                Stance::Fixed => Outcome::Addressed,
                Stance::CannotFix | Stance::Disagree => Outcome::Disputed,
            };
            (answer.id, outcome, answer.reason)
        });
        let done = FixDone {
            head_before: span.first.to_owned(),
            head_after: head.to_owned(),
            commits: commits.len(),
            files: diff.into_iter().map(|file| file.path).collect(),
            answers: answers.collect(),
            pushed_to: self.project.remote_url.clone().filter(|_| self.change.has_pr()),
            posts: self.answers_to_post(head).await?,
        };
        let claim = self.claim.clone();
        let change = self.write("finish_fix", move |conn| bb::finish_fix(conn, &claim, &done, clock::now())).await?;
        tracing::info!(item = %self.item.item_id, change = %change.change_id, state = %change.state, "fix finished");
        Ok(())
    }
}

/// The command and what it said last.
fn what_gates_said(run: &Run) -> String {
    let (command, output) = run.gate_output.as_deref().and_then(|said| said.split_once('\n')).unwrap_or(("?", ""));
    format!("{}: {}", command.chars().take(200).collect::<String>(), last_line(output))
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
            rebased_onto: None,
            refused: None,
            discarded: false,
            tokens: None,
            cost_micros: None,
        }
    }

    #[test]
    fn a_step_whose_result_is_recorded_is_not_done_again() {
        assert_eq!(next_step(None), Step::Begin);
        let cut = run();
        assert_eq!(next_step(Some(&cut)), Step::Conclude);
        let good = Run { ended: Some(Ended::Agent), ..cut };
        assert_eq!(next_step(Some(&good)), Step::Commit);
        let refused = Run { refused: Some("nothing changed".into()), ..good.clone() };
        assert_eq!(next_step(Some(&refused)), Step::Withdraw("nothing changed".into()));
        let committed = Run { head_after: Some("c".into()), ..good };
        assert_eq!(next_step(Some(&committed)), Step::Gates("c".into()));
        let red = Run { gates: Some(GateResult::Red), ..committed.clone() };
        assert_eq!(next_step(Some(&red)), Step::Again("c".into()));
        let green = Run { gates: Some(GateResult::Green), ..committed };
        assert_eq!(next_step(Some(&green)), Step::Finish("c".into()));
    }
}
