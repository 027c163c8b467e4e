//! A review, step by step: a read-only run on the head, whose verdict is bound to the head and base that it was given.

use std::path::PathBuf;

use super::interrupt::{Interrupt, Result};
use super::task::Task;
use crate::agent::{self, Phase};
use crate::blackboard::{self as bb, ReviewDone};
use crate::clock;
use crate::dispatch::prompts::earlier_findings::EarlierFinding;
use crate::dispatch::run::launch::Launch;
use crate::finding::Verdict;
use crate::git::Worktree;
use crate::review_text::{Earlier, Entry, Reading, read_without, settle};
use crate::work::{Ended, Run};

/// Maximum bytes of the diff that is fetched. The prompt has its own limit for the part that it shows.
pub(super) const DIFF_CAP: usize = 1024 * 1024;

impl Task {
    pub(super) async fn review(&self) -> Result<()> {
        loop {
            match self.runs().await?.last() {
                Some(run) if run.ended.is_none() => self.conclude(run, Phase::Review).await?,
                Some(run) if run.ended == Some(Ended::Agent) => {
                    if self.read_verdict(run).await? == Turn::Done {
                        return Ok(());
                    }
                }
                Some(_) | None => {
                    if self.run_reviewer().await? == Turn::Done {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn run_reviewer(&self) -> Result<Turn> {
        let agent = self.agent(Phase::Review)?;
        let worktree = self.ready_worktree().await?;
        let head = self.head_to_review(&worktree).await?;
        let base = self.base_of(&worktree, &head).await?;
        let diff = self
            .git
            .diff(&worktree.place, &base, &head, DIFF_CAP)
            .await?;
        if diff.files.is_empty() {
            return Err(Interrupt::fail(
                format!(
                    "nothing to review: {} has no changes compared with {}",
                    self.change.branch, self.change.base
                ),
                "an empty diff cannot be approved: commit the work, then retry",
            ));
        }
        if let Some(red) = self.red_on_head_only(&worktree, &base, &head).await? {
            self.finish_by_gate(red).await?;
            return Ok(Turn::Done);
        }
        let again = if self.item_now().await?.asked_again {
            Some(self.unclear(&agent).await?)
        } else {
            None
        };
        let session = agent.session(again.as_ref().and_then(|unclear| unclear.session.clone()));
        let prompt = self.review_prompt(&base, &head, &diff, again).await?;
        self.launch(Launch {
            phase: Phase::Review,
            agent: &agent,
            session,
            worktree: &worktree,
            base: &base,
            head: &head,
            prompt,
        })
        .await?;
        Ok(Turn::Again)
    }

    /// Returns the current head, which is reviewed: a verdict on an older one would be worthless.
    async fn head_to_review(&self, worktree: &Worktree) -> Result<String> {
        let head = worktree.head.clone().ok_or_else(|| self.no_branch())?;
        if head != self.change.head {
            self.note_head(&head).await?;
        }
        Ok(head)
    }

    async fn read_verdict(&self, run: &Run) -> Result<Turn> {
        self.check_cancelled()?;
        let text = agent::answer(&PathBuf::from(&run.dir))?;
        let threshold = self.rules.severity_threshold;
        let earlier = self.earlier_findings(run).await?;
        let earlier: Vec<Earlier<'_>> = earlier.iter().map(EarlierFinding::as_earlier).collect();
        let waived = self.waived().await?;
        let waived = waived.iter().map(|open| open.finding.fingerprint());
        let reading = read_without(&text, threshold, &waived.collect());
        let (reading, entries) = settle(reading, &earlier, threshold);
        let claim = self.claim.clone();
        if reading.verdict == Verdict::Unclear && !self.item_now().await?.asked_again {
            let unclear = bb::Unclear {
                run_id: run.run_id.clone(),
                reason: reading.reason,
                missing: reading.missing,
            };
            self.write("ask_again", move |conn| {
                bb::discard_run(conn, &unclear.run_id)?;
                bb::ask_again(conn, &claim, &unclear, clock::now())
            })
            .await?;
            return Ok(Turn::Again);
        }
        let done = self.receipt(run, reading, entries, text).await?;
        if self.in_shadow {
            self.finish_in_shadow(run, done).await?;
            return Ok(Turn::Done);
        }
        self.write("finish_review", move |conn| {
            bb::finish_review(conn, &claim, &done, clock::now())
        })
        .await?;
        Ok(Turn::Done)
    }

    /// Returns a record of the reviewer's input, computed from the commit that the run started at.
    async fn receipt(
        &self,
        run: &Run,
        reading: Reading,
        judged: Vec<Entry>,
        body: String,
    ) -> Result<ReviewDone> {
        let place = self.place()?;
        let head = run.head_before.clone();
        let (base, tree) = self.base_and_tree(&place, &head).await?;
        let files = self.git.changed_files(&place, &base, &head).await?;
        let lines: u64 = files.iter().map(|file| file.added + file.deleted).sum();
        Ok(ReviewDone {
            tree,
            files: files.into_iter().map(|file| file.path).collect(),
            lines: i64::try_from(lines).unwrap_or(i64::MAX),
            head,
            base,
            verdict: reading.verdict,
            raw_verdict: reading.raw_verdict,
            dialect: reading.dialect.to_string(),
            reason: reading.reason,
            summary: reading.summary,
            body,
            findings: reading.findings,
            judged: judged
                .into_iter()
                .map(|entry| (entry.id, entry.outcome, entry.resolution))
                .collect(),
            threshold: self.rules.severity_threshold,
            agent: run.agent.clone(),
            model: run.model.clone(),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Again,
    Done,
}
