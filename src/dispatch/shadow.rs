//! Items of changes in shadow mode. Reviews run without any effect. For other items the prompt is built and kept and
//! its cost is estimated; nothing is started, pushed or posted. No worktree is touched: commits of a pull request are
//! read in the project's repository.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::interrupt::{Interrupt, Result};
use super::review::DIFF_CAP;
use super::task::{Signs, Task};
use super::{Claimed, Dispatch};
use crate::agent::Phase;
use crate::blackboard::{self as bb, Estimate, PastRun, ReviewDone, ShadowReview, Shadowed};
use crate::change::Change;
use crate::clock;
use crate::dispatch::prompts::prompt_context::Purpose;
use crate::dispatch::run::launch::{make_folder, write};
use crate::git::Place;
use crate::text::count;
use crate::work::{Item, LoopStep, Run};

/// Number of runs that an estimate is based on.
const RUNS: i64 = 50;

/// Bytes per token, for an estimate without any known run.
const BYTES_A_TOKEN: i64 = 4;
const TIMES_ITS_PROMPT: i64 = 20;
const MICROS_A_TOKEN: i64 = 3;
const TOKENS_A_SECOND: i64 = 200;

impl Dispatch {
    /// Records the items that would run, once per item.
    pub(super) async fn shadow_due(self: &Arc<Self>, stop: &CancellationToken) -> bb::Result<()> {
        let due = self
            .db
            .read(|conn| bb::unshadowed(conn, clock::now()))
            .await?;
        for item in due {
            if stop.is_cancelled() {
                break;
            }
            self.shadow(item, stop).await?;
        }
        Ok(())
    }

    async fn shadow(self: &Arc<Self>, item: Item, stop: &CancellationToken) -> bb::Result<()> {
        let Some(id) = &item.change_id else {
            return Ok(());
        };
        let change = self.db.read_of(id, bb::change).await?;
        // Never claimed: the epoch of this claim would be refused by every write, and none is made.
        let claimed = Claimed {
            item: item.clone(),
            change,
            in_shadow: false,
        };
        let signs = Signs {
            stop: stop.clone(),
            ..Signs::default()
        };
        let task = Task::begin(self, claimed, signs).await?;
        let phase = match item.step() {
            Some(LoopStep::Implement) => Phase::Implement,
            Some(LoopStep::Fix) => Phase::Fix,
            Some(LoopStep::Review | LoopStep::OpenPull) | None => Phase::Review,
        };
        let agent = task.agent(phase).ok();
        let (prompt, trouble) = match task.shadow_prompt(phase).await {
            Ok(prompt) => (Some(prompt), None),
            Err(Interrupt::Hold { reason, until, .. }) => {
                let until = until
                    .map(|until| until.min(clock::now().plus(bb::RATE_WINDOW)))
                    .unwrap_or_else(|| self.settings.backoff(0, clock::now()));
                tracing::warn!(item = %item.item_id, reason = ?reason, until = %until, "cannot build the prompt now");
                return self
                    .db
                    .write("put_off", move |conn| {
                        bb::put_off_shadow(conn, &item.item_id, until)
                    })
                    .await;
            }
            Err(Interrupt::Blackboard(error)) => return Err(error),
            Err(stop) => {
                let reason = stop.reason();
                (
                    None,
                    Some(reason.unwrap_or_else(|| "it was interrupted".into())),
                )
            }
        };
        let bytes = prompt
            .as_ref()
            .map(|(_, text)| i64::try_from(text.len()).unwrap_or(i64::MAX));
        let name = agent.as_ref().map(|agent| agent.name.clone());
        let (of, source) = (name.clone().unwrap_or_default(), item.source);
        let past = self
            .db
            .read(move |conn| bb::past_runs(conn, &of, source, RUNS))
            .await?;
        let shadowed = Shadowed {
            item_id: item.item_id.clone(),
            change_id: task.change.change_id.clone(),
            model: agent.and_then(|agent| agent.model),
            estimate: estimate(name.as_deref(), &past, bytes),
            agent: name,
            worktree: task.change.worktree.clone(),
            prompt: prompt.map(|(path, _)| path),
            prompt_bytes: bytes,
            trouble,
        };
        tracing::info!(item = %item.item_id, change = %shadowed.change_id, "not run because of shadow mode");
        self.db
            .write("shadow", move |conn| {
                bb::record_shadow(conn, &item, &shadowed, clock::now())
            })
            .await?;
        Ok(())
    }
}

impl Task {
    /// True if nothing may start for the change now. Shadow mode blocks everything except its own reviews.
    pub(super) fn waits(&self, change: &Change) -> bool {
        let is_paused = if self.in_shadow {
            change.paused_by_person
                || change.paused_by_rules
                || change.stopped
                || change.taken_over
                || !change.shadow
        } else {
            change.paused
        };
        is_paused || change.held_until.is_some()
    }

    /// Stores the result of a review in shadow mode.
    pub(super) async fn finish_in_shadow(&self, run: &Run, done: ReviewDone) -> Result<()> {
        let review = ShadowReview {
            run_id: Some(run.run_id.clone()),
            agent: Some(done.agent),
            model: done.model,
            head: done.head,
            base: Some(done.base),
            verdict: Some(done.verdict),
            summary: Some(done.summary.unwrap_or(done.reason)),
            body: Some(done.body),
            findings: done.findings,
            trouble: None,
            ..self.no_shadow_review(String::new())
        };
        tracing::debug!(item = %self.item.item_id, verdict = ?review.verdict, "reviewed in shadow mode");
        self.record_shadow_review(review).await
    }

    pub(super) async fn record_shadow_review(&self, review: ShadowReview) -> Result<()> {
        self.record("shadow_review", move |conn, claim| {
            bb::end_shadow_review(conn, claim, &review, clock::now())
        })
        .await
    }

    /// The review failed, and in shadow mode nobody is asked.
    pub(super) async fn end_in_shadow(&self, reason: String) -> bb::Result<()> {
        tracing::warn!(item = %self.item.item_id, reason = ?reason, "not reviewed in shadow mode");
        let (claim, review) = (self.claim.clone(), self.no_shadow_review(reason));
        self.write("shadow_review", move |conn| {
            bb::end_shadow_review(conn, &claim, &review, clock::now())
        })
        .await
    }

    pub(super) fn no_shadow_review(&self, trouble: String) -> ShadowReview {
        ShadowReview {
            item_id: self.item.item_id.clone(),
            change_id: self.change.change_id.clone(),
            run_id: None,
            agent: None,
            model: None,
            head: self.change.head.clone(),
            base: None,
            verdict: None,
            summary: None,
            body: None,
            findings: Vec::new(),
            trouble: Some(trouble),
        }
    }

    /// The file that stores the prompt, and the prompt.
    async fn shadow_prompt(&self, phase: Phase) -> Result<(String, String)> {
        let (place, head, base) = self.commits(phase).await?;
        let text = match phase {
            Phase::Implement => self.implement_prompt(&base, &head).await?.text,
            Phase::Fix => self.fix_prompt(&base, &head, Purpose::Feedback).await?.text,
            Phase::Review => {
                let diff = self.git.diff(&place, &base, &head, DIFF_CAP).await?;
                self.review_prompt(&base, &head, &diff, None).await?.text
            }
        };
        let folder = &self.dispatch.settings.shadow_dir;
        make_folder(folder)?;
        let path = folder.join(format!("{}.md", self.item.item_id));
        write(&path, text.as_bytes())?;
        Ok((path.display().to_string(), text))
    }

    /// Returns the place to read from, the head, and the merge base.
    async fn commits(&self, phase: Phase) -> Result<(Place, String, String)> {
        if phase == Phase::Implement {
            let head = self.first_commit().await?;
            return Ok((self.project_of_git().repository(), head.clone(), head));
        }
        if !self.change.has_pr() {
            let worktree = self.git.worktree_at(self.worktree()).await?;
            let head = worktree.head.clone().ok_or_else(|| self.no_branch())?;
            let base = self.base_of(&worktree, &head).await?;
            return Ok((worktree.place, head, base));
        }
        let place = self.project_of_git().repository();
        let remote = self.remote().await?;
        let head = self.remote_head(&remote).await?;
        let base = remote.fetch(&self.change.base).await?;
        let base = base.ok_or_else(|| self.no_base())?;
        for sha in [&head, &base] {
            self.git.bring_in(&place, remote.path(), sha).await?;
        }
        let merge_base = self.git.merge_base(&place, &base, &head).await?;
        Ok((place, head, merge_base.unwrap_or(base)))
    }
}

/// Estimates from the cost of earlier runs; without any, from the prompt's size.
fn estimate(agent: Option<&str>, past: &[PastRun], bytes: Option<i64>) -> Estimate {
    let Some(agent) = agent else {
        return Estimate {
            basis: "no agent is configured".into(),
            ..Estimate::default()
        };
    };
    if !past.is_empty() {
        let runs = count(past.len(), "run");
        return Estimate {
            tokens: median(past.iter().filter_map(|run| run.tokens)),
            cost_micros: median(past.iter().filter_map(|run| run.cost_micros)),
            run_ms: median(past.iter().map(|run| run.run_ms)),
            basis: format!("the median of {runs} of {agent} on this machine"),
        };
    }
    let Some(bytes) = bytes else {
        return Estimate {
            basis: format!("no earlier run of {agent} on this machine"),
            ..Estimate::default()
        };
    };
    let tokens = (bytes / BYTES_A_TOKEN).saturating_mul(TIMES_ITS_PROMPT);
    Estimate {
        tokens: Some(tokens),
        cost_micros: Some(tokens.saturating_mul(MICROS_A_TOKEN)),
        run_ms: Some(tokens.saturating_mul(1000) / TOKENS_A_SECOND),
        basis: format!(
            "a guess, as {agent} has not run on this machine yet: {TIMES_ITS_PROMPT} times the size of its \
             prompt, ${MICROS_A_TOKEN} per million tokens, {TOKENS_A_SECOND} tokens per second"
        ),
    }
}

fn median(values: impl Iterator<Item = i64>) -> Option<i64> {
    let mut values: Vec<i64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_of_what_is_known_and_says_so() {
        let run = |tokens, run_ms| PastRun {
            tokens,
            cost_micros: None,
            run_ms,
        };
        let known = estimate(
            Some("claude"),
            &[
                run(Some(900), 3_000),
                run(None, 1_000),
                run(Some(100), 2_000),
            ],
            Some(4),
        );
        assert_eq!(
            (known.tokens, known.cost_micros, known.run_ms),
            (Some(900), None, Some(2_000))
        );
        assert_eq!(
            known.basis,
            "the median of 3 runs of claude on this machine"
        );
        let assumed = estimate(Some("claude"), &[], Some(4_000));
        assert_eq!(
            (assumed.tokens, assumed.cost_micros, assumed.run_ms),
            (Some(20_000), Some(60_000), Some(100_000))
        );
        assert!(assumed.basis.starts_with("a guess"), "{}", assumed.basis);
        let nobody = estimate(None, &[], Some(4_000));
        assert_eq!((nobody.tokens, nobody.text()), (None, None));
    }
}
