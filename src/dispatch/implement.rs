//! The implementation of a task, step by step, like a fix: each turn reads the progress from the blackboard. Its gates
//! run before its review and before its pull request.

use super::commit::Span;
use super::fix::{Step, next_step};
use super::interrupt::{Interrupt, Result};
use super::task::Task;
use crate::agent::Phase;
use crate::blackboard::{self as bb, ImplementDone};
use crate::clock;
use crate::dispatch::prompts::prompt_parts::Remaining;
use crate::dispatch::run::launch::Launch;
use crate::git::Worktree;
use crate::proposal::{Decision, decision};
use crate::work::LoopStep;

impl Task {
    pub(super) async fn implement(&self) -> Result<()> {
        loop {
            let runs = self.runs().await?;
            let span = runs.first().zip(runs.last()).map(|(first, run)| Span {
                first: &first.head_before,
                run,
            });
            match (next_step(runs.last(), Remaining::Nothing), span) {
                (Step::Begin, _) | (_, None) => self.run_implementer().await?,
                (Step::Conclude, Some(span)) => {
                    self.conclude(span.run, Phase::Implement).await?;
                }
                (Step::Commit, Some(span)) => self.commit(span, &runs).await?,
                (Step::Withdraw(reason), Some(span)) => return self.withdraw(span, &reason).await,
                (
                    Step::NextRun(head)
                    | Step::Gates(head)
                    | Step::Again(head)
                    | Step::Finish(head),
                    Some(span),
                ) => return self.finish_implement(span, &head).await,
            }
        }
    }

    /// True if the item implements a task.
    pub(super) fn is_implementation(&self) -> bool {
        self.item.step() == Some(LoopStep::Implement)
    }

    async fn run_implementer(&self) -> Result<()> {
        let agent = self.agent(Phase::Implement)?;
        let worktree = self.ready_worktree().await?;
        let head = self.begin_branch(&worktree).await?;
        let base = self.base_of(&worktree, &head).await?;
        self.base_passes(&worktree, &base, &head).await?;
        let prompt = self.implement_prompt(&base, &head).await?;
        let session = agent.session(None);
        self.launch(Launch {
            phase: Phase::Implement,
            agent: &agent,
            session,
            worktree: &worktree,
            base: &base,
            head: &head,
            prompt,
        })
        .await
    }

    /// Returns the commit that the implementation starts from, and records it.
    async fn begin_branch(&self, worktree: &Worktree) -> Result<String> {
        let head = worktree.head.clone().ok_or_else(|| self.no_branch())?;
        if head != self.change_now().await?.head {
            let (id, to) = (self.change.change_id.clone(), head.clone());
            self.record("begin_branch", move |conn, _| {
                bb::begin_branch(conn, &id, &to, clock::now())
            })
            .await?;
        }
        Ok(head)
    }

    async fn finish_implement(&self, span: Span<'_>, head: &str) -> Result<()> {
        self.check_cancelled()?;
        let place = self.place()?;
        let diff = self.git.changed_files(&place, span.first, head).await?;
        let commits = self.git.log(&place, span.first, head).await?;
        let done = ImplementDone {
            head_before: span.first.to_owned(),
            head_after: head.to_owned(),
            commits: commits.len(),
            files: diff.into_iter().map(|file| file.path).collect(),
        };
        self.record("finish_implement", move |conn, claim| {
            bb::finish_implement(conn, claim, &done, clock::now()).map(drop)
        })
        .await
    }

    /// Returns the commit that a new worktree starts from: the tip of its branch if that exists, otherwise the base.
    /// Work that ends in a pull request starts from the base on the remote, which may be ahead of the local one.
    pub(super) async fn first_commit(&self) -> Result<String> {
        let repository = self.project_of_git().repository();
        let branch = format!("refs/heads/{}", self.change.branch);
        if let Some(tip) = self.git.resolve(&repository, &branch).await? {
            return Ok(tip);
        }
        let base = self.base_head(&repository).await?;
        base.ok_or_else(|| {
            let (id, base) = (&self.change.change_id, &self.change.base);
            Interrupt::fail(
                format!("the base branch {base} does not exist"),
                decision!(
                    "create it, or choose another one ({edit}); then retry",
                    edit = Decision::command(format!("remand item edit {id} --base BRANCH")),
                ),
            )
        })
    }
}
