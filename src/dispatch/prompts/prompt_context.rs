//! What the prompts are built from: the blackboard's rows and the worktree, as values.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::spec_files::{Plan, plan};
use crate::agent::{self, Agent};
use crate::blackboard as bb;
use crate::dispatch::interrupt::Interrupt;
use crate::dispatch::task::Task;
use crate::event::{Event, body};
use crate::finding::{Finding, FindingId, Outcome};
use crate::git::Diff;
use crate::prompt::{
    AgainContext, Comment, Extent, Feedback, FixContext, Issue, OpenFinding, Prompt, ReviewContext,
};
use crate::pull_request::{LinkedIssue, Trust, last_lines};
use crate::work::{PlanSource, PromptCut, Rejection, Source};

impl Task {
    /// Again, if the answer before was unclear; a reviewer that goes on with its session knows the rest already.
    pub(crate) async fn review_prompt(
        &self,
        base: &str,
        head: &str,
        diff: &Diff,
        again: Option<UnclearAnswer>,
    ) -> Result<AgentPrompt, Interrupt> {
        let id = self.change.change_id.clone();
        let open = self.read(move |conn| bb::open_findings(conn, &id)).await?;
        let open_findings: Vec<OpenFinding> = open.into_iter().map(prompt_finding).collect();
        let feedback_limit = self.dispatch.settings.limits.feedback;
        let Plan { text: plan, source } = plan(self.worktree(), &self.change.branch);
        let (description, issue) = self.purpose().await?;
        let context = ReviewContext {
            title: self.change.title.clone(),
            branch: self.change.branch.clone(),
            base: self.change.base.clone(),
            base_sha: base.to_owned(),
            head_sha: head.to_owned(),
            plan,
            description,
            issue,
            files: diff.files.iter().map(|file| file.path.clone()).collect(),
            diff: diff.text.clone(),
            open_findings: open_findings.clone(),
            feedback_limit,
            cycle: self.change.budget.fix_cycle,
            max_cycles: self.change.budget.max_fix_cycles,
            nonce: nonce(),
        };
        let prompts = &self.dispatch.settings.prompts;
        let review = AgentPrompt::of_review(prompts.review(&context)?, source);
        let Some(again) = again else {
            return Ok(review);
        };
        let resumes = again.session.is_some();
        let context = AgainContext {
            base_sha: base.to_owned(),
            head_sha: head.to_owned(),
            missing: again.missing,
            answer: again.answer.filter(|_| !resumes),
            open_findings,
            feedback_limit,
            nonce: nonce(),
        };
        let again = AgentPrompt::of_review(prompts.again(&context)?, None);
        Ok(if resumes {
            again
        } else {
            AgentPrompt {
                text: format!("{}\n\n{}", review.text, again.text),
                ..review
            }
        })
    }

    /// The description of the pull request and the issue that it closes, as far as agents are given them.
    async fn purpose(&self) -> Result<(Option<String>, Option<Issue>), Interrupt> {
        let id = self.change.change_id.clone();
        let Some(pull) = self.read(move |conn| bb::pull_of_change(conn, &id)).await? else {
            return Ok((None, None));
        };
        let description = pull
            .purpose
            .description
            .filter(|description| description.trust == Trust::MayMakeWork);
        let issue = match pull.purpose.issue {
            Some(LinkedIssue::Read {
                number,
                title,
                body,
                trust: Trust::MayMakeWork,
                ..
            }) => Some(Issue {
                number,
                title,
                body,
            }),
            Some(LinkedIssue::Read { .. } | LinkedIssue::Unread { .. }) | None => None,
        };
        Ok((description.map(|description| description.text), issue))
    }

    /// What the reviewer answered before, what was missing in it, and whether its session can be gone on with: only
    /// right after that answer, so that a session which can't be resumed is tried once.
    pub(crate) async fn unclear(&self, agent: &Agent) -> Result<UnclearAnswer, Interrupt> {
        let id = self.item.item_id.clone();
        let (runs, events) = self
            .read(move |conn| {
                let events =
                    bb::events_about(conn, crate::event::TargetType::WorkItem, id.as_str(), 20)?;
                Ok((bb::runs_of(conn, &id)?, events))
            })
            .await?;
        let unclear: body::ReviewUnclear = events
            .iter()
            .rev()
            .find_map(Event::body)
            .unwrap_or_default();
        let run = runs.iter().rev().find(|run| {
            let id = unclear.run_id.as_ref();
            id.is_none_or(|id| run.run_id == *id)
        });
        let is_last = run
            .zip(runs.last())
            .is_some_and(|(run, last)| run.run_id == last.run_id);
        let session = run.filter(|run| is_last && agent.can_resume() && run.agent == agent.name);
        Ok(UnclearAnswer {
            missing: unclear.missing,
            answer: run.and_then(|run| output_of(&run.dir)),
            session: session.and_then(|run| run.session.clone()),
        })
    }

    pub(crate) async fn fix_prompt(
        &self,
        base: &str,
        head: &str,
        purpose: Purpose,
    ) -> Result<AgentPrompt, Interrupt> {
        let (id, item_id) = (self.change.change_id.clone(), self.item.item_id.clone());
        let (rejections, guidance, findings, items) = self
            .read(move |conn| {
                let rejections = bb::rejections_in(conn, &item_id)?;
                Ok((
                    rejections,
                    bb::open_guidance(conn, &id)?,
                    bb::finding_list(conn, &id)?,
                    bb::items_of(conn, &id)?,
                ))
            })
            .await?;
        let mut closed: Vec<String> = findings
            .iter()
            .filter(|finding| matches!(finding.outcome, Outcome::Resolved | Outcome::Waived))
            .map(|finding| {
                format!(
                    "{} ({}): {}",
                    finding.finding_id, finding.outcome, finding.finding.text
                )
            })
            .collect();
        closed.reverse();
        let mut last_run_tail = None;
        for item in items
            .iter()
            .rev()
            .filter(|item| item.source == Source::ReviewFix)
        {
            let id = item.item_id.clone();
            if let Some(run) = self.read(move |conn| bb::last_run(conn, &id)).await? {
                last_run_tail = output_of(&run.dir);
                break;
            }
        }
        let guidance = guidance
            .into_iter()
            .map(|(key, said)| Comment {
                key,
                text: said.body,
            })
            .collect();
        let (told, gate_output) = match purpose {
            Purpose::Feedback => {
                let end = |piece: &bb::Coverage| usize::try_from(piece.end).unwrap_or(0);
                (
                    self.coverage()
                        .await?
                        .into_iter()
                        .map(|piece| (piece.piece.clone(), end(&piece)))
                        .collect(),
                    None,
                )
            }
            // Whoever mends what the gates found has to know what it is about, from the most important on.
            Purpose::RedGates(output) => (BTreeMap::new(), output),
        };
        let part = self.runs().await?.len() + 1;
        let Plan { text: plan, source } = plan(self.worktree(), &self.change.branch);
        let (description, issue) = self.purpose().await?;
        let context = FixContext {
            title: self.change.title.clone(),
            branch: self.change.branch.clone(),
            base: self.change.base.clone(),
            base_sha: base.to_owned(),
            head_sha: head.to_owned(),
            pr_number: self.change.pr_number,
            detached: self.change.detached,
            cycle: self.item.fix_cycle + 1,
            max_cycles: self.change.budget.max_fix_cycles,
            plan,
            description,
            issue,
            gates: self
                .rules
                .gates
                .iter()
                .map(|gate| shell_line(gate))
                .collect(),
            feedback: rejections
                .iter()
                .map(|rejection| feedback(rejection, &findings))
                .collect(),
            guidance,
            feedback_limit: self.dispatch.settings.limits.feedback,
            told,
            part,
            closed,
            last_run_tail,
            gate_output,
            nonce: nonce(),
        };
        let prompt = self.dispatch.settings.prompts.fix(&context)?;
        let coverage = prompt
            .extents
            .iter()
            .map(|extent| covered(extent, &rejections, &context))
            .collect();
        Ok(AgentPrompt {
            text: prompt.text,
            part,
            plan: source,
            coverage,
            cuts: prompt.cuts,
        })
    }
}

/// A command as it is typed in a shell.
fn shell_line(words: &[String]) -> String {
    let is_plain = |word: &str| {
        !word.is_empty()
            && word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c))
    };
    let quoted = |word: &String| {
        if is_plain(word) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// An answer that was no verdict.
pub(crate) struct UnclearAnswer {
    missing: Vec<String>,
    answer: Option<String>,
    /// The session to go on with.
    pub(crate) session: Option<String>,
}

/// Why an agent is run for a fix.
pub(crate) enum Purpose {
    /// To be told what no run before was told.
    Feedback,
    /// The gates were red, with their output.
    RedGates(Option<String>),
}

/// What an agent is told, with what the blackboard keeps of that.
pub(crate) struct AgentPrompt {
    pub(crate) text: String,
    /// Which run of its item gets it, from 1.
    pub(crate) part: usize,
    /// Where its plan comes from, where there are plans.
    pub(crate) plan: Option<PlanSource>,
    pub(crate) coverage: Vec<bb::Coverage>,
    pub(crate) cuts: Vec<PromptCut>,
}

impl AgentPrompt {
    /// The pieces of a reviewer's prompt are findings of the ledger.
    fn of_review(prompt: Prompt, plan: Option<PlanSource>) -> Self {
        let finding = |extent: &Extent| bb::Coverage {
            finding_id: Some(FindingId::new(&extent.key)),
            ..bare(extent)
        };
        let coverage = prompt.extents.iter().map(finding).collect();
        Self {
            text: prompt.text,
            part: 1,
            plan,
            coverage,
            cuts: prompt.cuts,
        }
    }
}

fn bare(extent: &Extent) -> bb::Coverage {
    let bytes = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    bb::Coverage {
        piece: extent.key.clone(),
        rejection_id: None,
        finding_id: None,
        start: bytes(extent.start),
        end: bytes(extent.end),
        total: bytes(extent.total),
    }
}

/// A piece of a fixer's prompt, with the rejection and the finding of the ledger that it is of.
fn covered(extent: &Extent, rejections: &[Rejection], context: &FixContext) -> bb::Coverage {
    let of = context
        .feedback
        .iter()
        .zip(rejections)
        .find_map(|(feedback, rejection)| {
            let open = feedback.findings.iter().find(|open| open.key == extent.key);
            (open.is_some() || feedback.key == extent.key).then_some((rejection, open))
        });
    let Some((rejection, open)) = of else {
        return bare(extent);
    };
    let finding_id = open
        .map(|open| open.id.clone())
        .filter(|id| id.as_str() != extent.key);
    bb::Coverage {
        rejection_id: Some(rejection.rejection_id.clone()),
        finding_id,
        ..bare(extent)
    }
}

fn nonce() -> u128 {
    uuid::Uuid::new_v4().as_u128()
}

fn output_of(dir: &str) -> Option<String> {
    agent::answer(&PathBuf::from(dir))
        .ok()
        .filter(|text| !text.trim().is_empty())
}

fn prompt_finding(open: bb::OpenFinding) -> OpenFinding {
    OpenFinding {
        key: open.finding_id.to_string(),
        id: open.finding_id,
        finding: open.finding,
    }
}

/// A rejection as its event tells it; one made by hand has only its summary.
fn feedback(rejection: &Rejection, ledger: &[bb::OpenFinding]) -> Feedback {
    Feedback {
        key: rejection.rejection_id.to_string(),
        from: match rejection.rejected.feedback {
            Some(_) => "the pull request".into(),
            None if rejection.gate().is_some() => "the project's own checks".into(),
            None if rejection.by_person => "a person".into(),
            None => "the reviewer".into(),
        },
        body: rejection.text().to_owned(),
        findings: rejection
            .rejected
            .findings
            .iter()
            .enumerate()
            .map(|(at, one)| finding(rejection, ledger, at, one))
            .collect(),
    }
}

fn with_context(text: &str, hunk: Option<&str>) -> String {
    let Some(hunk) = hunk.filter(|hunk| !hunk.trim().is_empty()) else {
        return text.to_owned();
    };
    format!(
        "{text}\n\nIt stands under these lines of the diff:\n{}",
        last_lines(hunk)
    )
}

/// A finding of an event for a prompt. An id stands in our own sentences, so only one of the ledger is taken over.
fn finding(
    rejection: &Rejection,
    ledger: &[bb::OpenFinding],
    at: usize,
    one: &Finding,
) -> OpenFinding {
    let known = one
        .id
        .clone()
        .filter(|id| ledger.iter().any(|open| open.finding_id == *id));
    let key = format!("{}.{}", rejection.rejection_id, at + 1);
    OpenFinding {
        id: known.unwrap_or_else(|| FindingId::new(&key)),
        key,
        finding: Finding {
            text: with_context(&one.text, one.context.as_deref()),
            ..one.clone()
        },
    }
}
