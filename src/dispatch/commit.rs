//! The commit of a fix: uncommitted changes are committed, and the result of the run is judged by the net diff. A
//! rejected result is recorded first, then kept aside, then removed from the branch.

use std::path::{Path, PathBuf};

use super::fix_size::Commits;
use super::interrupt::{Interrupt, Result};
use super::task::Task;
use crate::agent;
use crate::blackboard as bb;
use crate::clock;
use crate::dispatch::prompts::prompt_parts::Remaining;
use crate::dispatch::run::moved_branches::restore_branches;
use crate::dispatch::worktree::preflight::named;
use crate::event::{NewEvent, TargetType, body};
use crate::failpoint::crash_point;
use crate::git::{FileChange, FileStatus, GitError, HeadAt, only_prose_about_review};
use crate::proposal::{Decision, Escalation, decision};
use crate::review_text::{FindingAnswer, Stance, read_answers};
use crate::sanitize;
use crate::text::{self, short_sha};
use crate::work::{GateResult, Run};

/// Maximum bytes of a diff that is only judged, not shown.
const DIFF_CAP: usize = 1024 * 1024;

/// Maximum number of characters quoted from the answer of an agent that implemented nothing.
const EXPLANATION: usize = 300;

/// Start and last run of a fix.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span<'a> {
    /// The head before the first run whose work counts.
    pub(super) first: &'a str,
    pub(super) run: &'a Run,
}

impl Task {
    /// Commits the remaining changes and records the new head, or refuses the run's work with the reason.
    pub(super) async fn commit(&self, span: Span<'_>, runs: &[Run]) -> Result<()> {
        self.check_cancelled()?;
        let place = self.place()?;
        let run = span.run;
        // A git process of ours that was killed during this commit left its locks.
        let to = self.restore_point(&run.head_before, run);
        let (now, rest) = self.git.unblock_and_look(&place, to).await?;
        if !self.head_at().fits(now.branch.as_deref()) {
            let found = now.branch.as_deref().unwrap_or("a detached HEAD");
            let reason = match self.head_at() {
                HeadAt::Branch(branch) => {
                    format!("the agent switched from the branch {branch} to {found}")
                }
                HeadAt::Detached(_) => format!("the agent switched to the branch {found}"),
            };
            return self.refuse(span, reason).await;
        }
        let Some(head) = now.head.as_deref() else {
            let reason = format!("the agent deleted the branch {}", self.change.branch);
            return self.refuse(span, reason).await;
        };
        let agent_committed = head != run.head_before;
        let is_rewritten =
            agent_committed && !self.git.is_ancestor(&place, &run.head_before, head).await?;
        if is_rewritten {
            let reason = format!(
                "the agent rewrote the branch: it no longer contains {}",
                short_sha(&run.head_before)
            );
            return self.refuse(span, reason).await;
        }
        if let Some(reason) = self.oversize_rest(&place, &rest) {
            return self.refuse(span, reason).await;
        }
        let message = self.message(run, runs).await?;
        crash_point!("git.commit.before");
        let left = self.git.commit_left(self.head_at(), &now, rest, &message);
        match left.await {
            Ok(_) => {}
            Err(error @ (GitError::NotOnBranch { .. } | GitError::Unfinished { .. })) => {
                let reason = format!("cannot commit the agent's work: {error}");
                return self.refuse(span, reason).await;
            }
            Err(error) => return Err(error.into()),
        }
        crash_point!("git.commit.after");
        self.git.keep_head(&place, self.head_at()).await?;
        crash_point!("git.keep.after");
        let (after, left) = self.git.look_and_status(&place).await?;
        if !left.is_clean() {
            let paths: Vec<String> = left.changed.into_iter().chain(left.untracked).collect();
            let reason = format!("the agent's changes cannot be committed: {}", named(&paths));
            return self.refuse(span, reason).await;
        }
        let head_after = after.head.unwrap_or_default();
        let commits = if agent_committed || span.first != run.head_before {
            Commits::Others
        } else {
            Commits::OursOnly
        };
        // Not only the files that were measured before: the index can have others.
        if let Some(reason) = self.oversize(&place, span, &head_after, commits).await? {
            return self.refuse(span, reason).await;
        }
        // If more feedback follows, the runs are judged together, before the gates.
        if self.remaining(runs).await? == Remaining::Nothing
            && let Some(reason) = self.is_no_fix(&place, span, runs, &head_after).await?
        {
            return self.refuse(span, reason).await;
        }
        let id = run.run_id.clone();
        self.record("head_after", move |conn, claim| {
            bb::record_head_after(conn, claim, &id, &head_after)
        })
        .await
    }

    /// Returns a reason if the result is not a fix: a fix has to change the tree, and not only in prose about the
    /// review. The agent's claim does not count.
    pub(super) async fn is_no_fix(
        &self,
        place: &crate::git::Place,
        span: Span<'_>,
        runs: &[Run],
        head_after: &str,
    ) -> Result<Option<String>> {
        let diff = self.git.diff(place, span.first, head_after, DIFF_CAP);
        let diff = diff.await?;
        let answers = self.all_answers(runs);
        let unfixed: Vec<String> = answers
            .iter()
            .filter(|answer| answer.answer != Stance::Fixed)
            .map(|answer| format!("{} {}: {}", answer.id, answer.answer, answer.reason))
            .collect();
        if diff.files.is_empty() {
            let reason = match unfixed.join("; ") {
                unfixed if unfixed.is_empty() => "the agent changed nothing".to_owned(),
                unfixed => format!("the agent changed nothing and answered: {unfixed}"),
            };
            let denied = |run: &Run| agent::denied(&PathBuf::from(&run.dir));
            let denied: Vec<String> = runs.iter().flat_map(denied).collect();
            return Ok(Some(match denied.as_slice() {
                [] => format!("{reason}{}", self.explanation(runs)),
                denied => format!("{reason}; it was denied: {}", named(denied)),
            }));
        }
        let is_deleted = |file: &FileChange| file.status == FileStatus::Deleted;
        if diff.files.iter().all(is_deleted) && self.git.is_empty_tree(place, head_after).await? {
            return Ok(Some("the agent removed every file".to_owned()));
        }
        if self.is_implementation() {
            return Ok(None);
        }
        let id = &self.change.change_id;
        let findings = self.read_of(id, bb::finding_list).await?.into_iter();
        let paths: Vec<String> = findings.filter_map(|open| open.finding.path).collect();
        if only_prose_about_review(&diff, &paths) {
            let files: Vec<String> = diff.files.into_iter().map(|file| file.path).collect();
            return Ok(Some(format!(
                "the agent only added text about the review ({}) and fixed nothing",
                named(&files)
            )));
        }
        Ok(None)
    }

    /// Returns the start of the answer of an agent that implemented nothing: it was asked to explain why.
    fn explanation(&self, runs: &[Run]) -> String {
        let last = runs.last().filter(|_| self.is_implementation());
        let answer = last.and_then(|run| agent::answer(&PathBuf::from(&run.dir)).ok());
        let answer = answer.unwrap_or_default();
        match text::truncate(&sanitize::line(answer.trim()), EXPLANATION) {
            answer if answer.is_empty() => String::new(),
            answer => format!("; its answer: {answer}"),
        }
    }

    /// Records why a run's work is not used; `withdraw` does the rest, also after a crash.
    pub(super) async fn refuse(&self, span: Span<'_>, reason: String) -> Result<()> {
        let id = span.run.run_id.clone();
        self.record("refuse", move |conn, claim| {
            bb::refuse_run(conn, claim, &id, &reason)
        })
        .await
    }

    /// Removes refused work from the branch, keeps it aside, and fails the item.
    pub(super) async fn withdraw(&self, span: Span<'_>, reason: &str) -> Result<()> {
        if self.is_taken_over().await? {
            return Err(Interrupt::Fenced);
        }
        let place = self.place()?;
        let there = self.pushed_from_here(&place, span.first).await;
        let reason = match &there {
            Some(sha) => format!(
                "{reason}; {} is already on the remote, pushed from this repository",
                short_sha(sha)
            ),
            None => reason.to_owned(),
        };
        let to = self.restore_point(span.first, span.run);
        crash_point!("git.withdraw.before");
        let restored = self.git.put_back(&place, to).await?;
        let branches = restore_branches(&self.git, &place, Path::new(&span.run.dir)).await?;
        crash_point!("git.withdraw.after");
        let runs = self.runs().await?;
        let (change_id, run_id) = (self.change.change_id.clone(), span.run.run_id.clone());
        let (claim, kept) = (self.claim.clone(), restored.wip.clone());
        let see_gates = match span.run.gates {
            Some(GateResult::Red) => decision!(
                ", and the gates: {show}",
                show = Decision::command(format!("remand show {run_id}")),
            ),
            Some(GateResult::Green) | None => Decision::default(),
        };
        let see_work = match &kept {
            Some(_) => format!(", and its work (refs/remand/wip/{run_id})"),
            None => String::new(),
        };
        let log = Decision::command(format!("remand log {run_id}"));
        let decision = if self.is_implementation() {
            decision!(
                "read the agent's log ({log}){see_work}; then change the task ({edit}), {retry}, or close it ({cancel})",
                log = log,
                edit = Decision::command(format!("remand item edit {change_id} --body …")),
                retry = Decision::retry(&change_id),
                cancel = Decision::cancel(&change_id),
            )
        } else {
            decision!(
                "read the review and the agent's log ({log}{see_gates}){see_work}; then {refine}, {retry}, or fix it by hand and {submit}",
                log = log,
                see_gates = see_gates,
                refine = Decision::refine(&change_id),
                retry = Decision::retry(&change_id),
                submit = self.change.submit_advice(),
            )
        };
        let failure = Escalation::new(reason, decision).with_wip(restored.wip);
        self.write("withdraw", move |conn| {
            for run in &runs {
                bb::discard_run(conn, &run.run_id)?;
            }
            if let Some(wip) = kept {
                let sha = short_sha(&wip);
                let summary =
                    format!("the work of {run_id} is kept on refs/remand/wip/{run_id} ({sha})");
                let reason = "the run's work is not used";
                let skipped = body::Skipped {
                    wip: Some(wip),
                    ..body::Skipped::because(body::SkipCode::WorkUnused, reason)
                };
                let event =
                    NewEvent::about(&change_id, skipped, summary).on(TargetType::Run, &run_id);
                bb::append(conn, &event, clock::now())?;
            }
            if !branches.is_empty() {
                let summary = format!("after {run_id} was reverted: {}", branches.join("; "));
                let (what, more) = body::listed(branches);
                let changed = body::CheckoutChanged {
                    run_id: Some(run_id.clone()),
                    what,
                    more,
                };
                let event =
                    NewEvent::about(&change_id, changed, summary).on(TargetType::Run, &run_id);
                bb::append(conn, &event, clock::now())?;
            }
            let failed = bb::fail(conn, &claim, &failure, clock::now())?;
            // If it were found later, it would look like a person's answer.
            there.map_or(Ok(()), |sha| {
                bb::move_head(conn, &failed.change_id, &sha, clock::now()).map(drop)
            })
        })
        .await?;
        Ok(())
    }

    /// Returns the agent's answer to each finding.
    pub(super) fn answers(&self, run: &Run) -> Vec<FindingAnswer> {
        agent::answer(&PathBuf::from(&run.dir))
            .map(|text| read_answers(&text))
            .unwrap_or_default()
    }
}
