//! Values that the prompts are built from, read from the blackboard and the worktree.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::spec_files::{Plan, plan};
use crate::agent::{self, Agent};
use crate::blackboard as bb;
use crate::dispatch::interrupt::Result;
use crate::dispatch::task::Task;
use crate::event::{Event, body};
use crate::finding::{Finding, FindingId, Outcome, Severity};
use crate::git::Diff;
use crate::prompt::{
    AgainContext, AgentEnvironment, Extent, FixContext, GuidanceText, ImplementContext, IssueText,
    Prompt, ReviewContext,
};
use crate::pull_request::{LinkedIssue, Trust, last_lines};
use crate::sandbox::Backend;
use crate::text::{prefixed, shell_line};
use crate::work::{Item, PlanReason, PlanSource, PromptCut, Rejection, Source};

impl Task {
    /// Builds the prompt of a review, or of a repeated one if the last answer was unclear; a reviewer with a resumed
    /// session needs only the question.
    pub(crate) async fn review_prompt(
        &self,
        base: &str,
        head: &str,
        diff: &Diff,
        again: Option<UnclearAnswer>,
    ) -> Result<AgentPrompt> {
        let id = &self.change.change_id;
        let open = self.read_of(id, bb::open_findings).await?;
        let open = open.into_iter().map(bb::OpenFinding::into_finding);
        let open_findings: Vec<Finding> = open.collect();
        let waived = self.waived().await?.into_iter().map(|open| {
            let place = prefixed(" at ", open.finding.place());
            let why = prefixed(" (reason: ", open.note);
            let end = if why.is_empty() { "" } else { ")" };
            format!(
                "{}{place}: {}{why}{end}",
                open.finding_id,
                open.finding.titled_text()
            )
        });
        let waived: Vec<String> = waived.collect();
        let feedback_limit = self.dispatch.settings.limits.feedback;
        let Plan { text: plan, source } = self.plan();
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
            waived,
            feedback_limit,
            cycle: self.change.budget.fix_cycle,
            max_cycles: self.change.budget.max_fix_cycles,
            environment: self.environment(self.dispatch.settings.limits.review).await,
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

    /// Returns the findings of the change that a person has waived.
    pub(crate) async fn waived(&self) -> Result<Vec<bb::OpenFinding>> {
        let mut waived = self
            .read_of(&self.change.change_id, bb::finding_list)
            .await?;
        waived.retain(|open| open.outcome == Outcome::Waived);
        Ok(waived)
    }

    async fn environment(&self, time_limit: Duration) -> AgentEnvironment {
        let backend = self.dispatch.settings.sandbox.way().await;
        AgentEnvironment {
            time_limit,
            sandboxed: matches!(backend, Ok(Backend::Bubblewrap(_) | Backend::Wrapper(_))),
        }
    }

    /// Builds the prompt for the implementation of the task.
    pub(crate) async fn implement_prompt(&self, base: &str, head: &str) -> Result<AgentPrompt> {
        let last = self.read_of(&self.item.item_id, bb::last_run).await?;
        let Plan { text: plan, source } = self.plan();
        let (task, issue) = self.purpose().await?;
        let time_limit = self.dispatch.settings.limits.implement;
        let context = ImplementContext {
            title: self.change.title.clone(),
            branch: self.change.branch.clone(),
            base: self.change.base.clone(),
            base_sha: base.to_owned(),
            head_sha: head.to_owned(),
            task,
            plan,
            issue,
            gates: self.gate_lines(),
            last_run_tail: last.and_then(|run| output_of(&run.dir)),
            environment: self.environment(time_limit).await,
            nonce: nonce(),
        };
        let prompt = self.dispatch.settings.prompts.implement(&context)?;
        Ok(AgentPrompt {
            text: prompt.text,
            part: self.runs().await?.len() + 1,
            plan: source,
            coverage: Vec::new(),
            cuts: prompt.cuts,
        })
    }

    /// Returns the specification that the task names, otherwise that of the branch in `.specify/`.
    fn plan(&self) -> Plan {
        let spec = self.task.as_ref().and_then(|task| task.spec.clone());
        let Some(spec) = spec else {
            return plan(self.worktree(), &self.change.branch);
        };
        Plan {
            text: Some(spec.text),
            source: Some(PlanSource {
                folder: Some(spec.path.clone()),
                reason: PlanReason::Named,
                folders: vec![spec.path],
                unread: Vec::new(),
            }),
        }
    }

    pub(crate) fn gate_lines(&self) -> Vec<String> {
        self.rules
            .gates
            .iter()
            .map(|gate| shell_line(gate))
            .collect()
    }

    /// The description and the issue of a task; otherwise those of the pull request, if agents may read them.
    async fn purpose(&self) -> Result<(Option<String>, Option<IssueText>)> {
        if let Some(task) = &self.task {
            let text = Some(task.text.clone()).filter(|text| !text.trim().is_empty());
            return Ok((text, task.issue.as_ref().map(IssueText::of_task)));
        }
        let id = &self.change.change_id;
        let Some(pull) = self.read_of(id, bb::pull_of_change).await? else {
            return Ok((None, None));
        };
        let description = pull.purpose.description;
        let description = description.filter(|one| one.trust == Trust::MayMakeWork);
        let issue = match pull.purpose.issue {
            Some(LinkedIssue::Read {
                number,
                title,
                body,
                trust: Trust::MayMakeWork,
                ..
            }) => Some(IssueText {
                number,
                title,
                body,
            }),
            Some(LinkedIssue::Read { .. } | LinkedIssue::Unread { .. }) | None => None,
        };
        Ok((description.map(|description| description.text), issue))
    }

    /// Returns the reviewer's last answer, its missing parts, and its session if that can be resumed. A session is
    /// resumed only right after that answer, so that one that cannot be resumed is tried once.
    pub(crate) async fn unclear(&self, agent: &Agent) -> Result<UnclearAnswer> {
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
    ) -> Result<AgentPrompt> {
        let (id, item_id) = (self.change.change_id.clone(), self.item.item_id.clone());
        let read = self.read(move |conn| {
            let (rejections, guidance) = (
                bb::rejections_in(conn, &item_id)?,
                bb::open_guidance(conn, &id)?,
            );
            let findings = bb::finding_list(conn, &id)?;
            Ok((rejections, guidance, findings, bb::items_of(conn, &id)?))
        });
        let (mut rejections, guidance, findings, items) = read.await?;
        let mut closed: Vec<String> = findings
            .iter()
            .filter(|finding| matches!(finding.outcome, Outcome::Resolved | Outcome::Waived))
            .map(|open| {
                let text = open.finding.titled_text();
                format!("{} ({}): {text}", open.finding_id, open.outcome)
            })
            .collect();
        closed.reverse();
        let is_waived = |id: &FindingId| {
            let mut waived = findings
                .iter()
                .filter(|open| open.outcome == Outcome::Waived);
            waived.any(|open| open.finding_id == *id)
        };
        for rejection in &mut rejections {
            name_findings(rejection, &findings);
            for finding in &mut rejection.rejected.findings {
                if finding.id.as_ref().is_some_and(is_waived) {
                    waive(finding);
                }
            }
        }
        let mut last_run_tail = None;
        let is_fix = |item: &&Item| item.source == Source::ReviewFix;
        for item in items.iter().rev().filter(is_fix) {
            if let Some(run) = self.read_of(&item.item_id, bb::last_run).await? {
                last_run_tail = output_of(&run.dir);
                break;
            }
        }
        let comment = |(key, guidance): (String, bb::Guidance)| {
            let text = guidance.body;
            GuidanceText { key, text }
        };
        let guidance = guidance.into_iter().map(comment).collect();
        let (told, gate_output) = match purpose {
            Purpose::Feedback => {
                let end = |piece: &bb::Coverage| usize::try_from(piece.end).unwrap_or(0);
                let pieces = self.coverage().await?.into_iter();
                let told = pieces.map(|piece| (piece.piece.clone(), end(&piece)));
                (told.collect(), None)
            }
            // An agent that fixes failed gates has to know the context, the most important part
            // first.
            Purpose::RedGates(output) => (BTreeMap::new(), output),
        };
        let part = self.runs().await?.len() + 1;
        let Plan { text: plan, source } = self.plan();
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
            environment: self.environment(self.dispatch.settings.limits.fix).await,
            plan,
            description,
            issue,
            gates: self.gate_lines(),
            rejections,
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
        let covered = |extent: &Extent| covered(extent, &context.rejections);
        Ok(AgentPrompt {
            text: prompt.text,
            part,
            plan: source,
            coverage: prompt.extents.iter().map(covered).collect(),
            cuts: prompt.cuts,
        })
    }
}

/// Replaces a finding that a person has waived. It keeps its place, since the keys of feedback count.
fn waive(finding: &mut Finding) {
    *finding = Finding {
        id: finding.id.clone(),
        severity: Severity::Suggestion,
        text: "A person has waived this finding: do nothing about it.".to_owned(),
        ..Finding::default()
    };
}

/// An answer without a verdict.
pub(crate) struct UnclearAnswer {
    missing: Vec<String>,
    answer: Option<String>,
    /// The session to resume.
    pub(crate) session: Option<String>,
}

/// Reason for running a fixer.
pub(crate) enum Purpose {
    /// Feedback that no earlier run was given.
    Feedback,
    /// The gates were red, with their output.
    RedGates(Option<String>),
}

/// A prompt, with the facts about it that the blackboard stores.
pub(crate) struct AgentPrompt {
    pub(crate) text: String,
    /// Number of the item's run that gets it, from 1.
    pub(crate) part: usize,
    /// Source of the plan, if there is one.
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

/// A piece of a fixer's prompt, with its rejection and its finding in the ledger.
fn covered(extent: &Extent, rejections: &[Rejection]) -> bb::Coverage {
    let of = |rejection: &&Rejection| {
        let rest = extent.key.strip_prefix(rejection.rejection_id.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let Some(rejection) = rejections.iter().find(of) else {
        return bare(extent);
    };
    let finding_id = rejection
        .finding_at(&extent.key)
        .and_then(|finding| finding.id.clone());
    bb::Coverage {
        rejection_id: Some(rejection.rejection_id.clone()),
        finding_id: finding_id.filter(|id| id.as_str() != extent.key),
        ..bare(extent)
    }
}

fn nonce() -> u128 {
    uuid::Uuid::new_v4().as_u128()
}

fn output_of(dir: &str) -> Option<String> {
    let answer = agent::answer(&PathBuf::from(dir)).ok();
    answer.filter(|text| !text.trim().is_empty())
}

/// Gives each finding the id that the agent uses in its answer, and the lines of the diff that it refers to. The id
/// appears in our own sentences, so only ids of the ledger are kept.
fn name_findings(rejection: &mut Rejection, ledger: &[bb::OpenFinding]) {
    for (at, finding) in rejection.rejected.findings.iter_mut().enumerate() {
        let is_known = |id: &FindingId| ledger.iter().any(|open| open.finding_id == *id);
        let key = format!("{}.{}", rejection.rejection_id, at + 1);
        let id = finding.id.take().filter(is_known);
        finding.id = id.or_else(|| Some(FindingId::new(&key)));
        let hunk = finding.context.as_deref();
        if let Some(hunk) = hunk.filter(|hunk| !hunk.trim().is_empty()) {
            finding.text = format!(
                "{}\n\nThe comment refers to these lines of the diff:\n{}",
                finding.text,
                last_lines(hunk)
            );
        }
    }
}
