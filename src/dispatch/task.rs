//! The work on one claimed item, from the claim to the transaction that ends it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Dispatch;
use super::interrupt::{Interrupt, TakenBack, chain};
use crate::blackboard::{self as bb, Claimed, Conn, Hold, Project};
use crate::change::{Change, HoldKind};
use crate::clock;
use crate::dispatch::run::recover::git_mark;
use crate::dispatch::run::worktree_lock::WorktreeLock;
use crate::git::Git;
use crate::process::{self, Running};
use crate::project_settings::ProjectSettings;
use crate::proposal::{Decision, Escalation, decision};
use crate::work::{Claim, Item, Run, Source};

/// One item in our hands.
pub(super) struct Task {
    pub(super) dispatch: Arc<Dispatch>,
    pub(super) claim: Claim,
    pub(super) item: Item,
    pub(super) change: Change,
    pub(super) project: Project,
    pub(super) rules: ProjectSettings,
    pub(super) git: Git,
    /// A review from which nothing follows.
    pub(super) in_shadow: bool,
    /// The claim is over.
    pub(super) fenced: CancellationToken,
    /// The program is stopping.
    pub(super) stop: CancellationToken,
    /// A person stopped the project, or everything, and wants agents ended at once.
    pub(super) halted: CancellationToken,
}

/// What ends the work before its end.
#[derive(Clone)]
pub(super) struct Signs {
    pub(super) fenced: CancellationToken,
    pub(super) stop: CancellationToken,
    pub(super) halted: CancellationToken,
}

impl Signs {
    /// Waits for the end of a process. A claim that is over and `stop --now` end it at once; a stopping program gives it
    /// its grace first.
    pub(super) async fn wait(
        &self,
        running: &mut Running,
        grace: Duration,
    ) -> Result<(), Interrupt> {
        let out_of_time = async {
            self.stop.cancelled().await;
            tokio::time::sleep(grace).await;
        };
        let told_to_end = async {
            tokio::select! {
                () = self.fenced.cancelled() => {}
                () = self.halted.cancelled() => {}
            }
        };
        tokio::pin!(out_of_time);
        let is_told = tokio::select! {
            ended = running.wait() => return Ok(ended.map(drop)?),
            () = told_to_end => true,
            () = &mut out_of_time => false,
        };
        if is_told {
            running.stop().await;
            tokio::select! {
                ended = running.wait() => return Ok(ended.map(drop)?),
                () = &mut out_of_time => {}
            }
        }
        // The program stops: the grace was for the process.
        running.hurry().await;
        Ok(running.wait().await.map(drop)?)
    }
}

impl Task {
    /// Runs a claimed item to its end, whatever that is; every end is written down.
    pub(super) async fn run(dispatch: Arc<Dispatch>, claimed: Claimed, stop: CancellationToken) {
        let claim = claimed.claim();
        let signs = Signs {
            fenced: CancellationToken::new(),
            stop,
            halted: CancellationToken::new(),
        };
        let lease = dispatch.keep_lease(claim.clone(), signs.fenced.clone(), signs.halted.clone());
        let work = async {
            let task = match Self::begin(&dispatch, claimed, signs).await {
                Ok(task) => task,
                Err(error) => {
                    return tracing::error!(item = %claim.item_id, error = ?error, "an item can't be begun");
                }
            };
            tracing::info!(item = %task.item.item_id, change = %task.change.change_id, source = %task.item.source, "begins");
            if let Err(stop) = task.work().await {
                task.write_down(stop).await;
            }
        };
        tokio::select! {
            // The lease only ends by cancelling `fenced`, which the work notices; then it cleans up after itself.
            () = async { lease.await; std::future::pending::<()>().await } => {}
            () = work => {}
        }
    }

    pub(super) async fn begin(
        dispatch: &Arc<Dispatch>,
        claimed: Claimed,
        signs: Signs,
    ) -> bb::Result<Self> {
        let id = claimed.change.project_id.clone();
        let project = dispatch.db.read(move |conn| bb::project(conn, &id)).await?;
        let rules = (dispatch.settings.rules)(&project.project_id);
        let mut env = dispatch.settings.env.clone();
        env.insert(process::MARK.into(), git_mark(&claimed.change.worktree));
        let git = Git::new(
            &env,
            dispatch.settings.limits.git,
            &dispatch.settings.sandbox,
        );
        let id = claimed.change.change_id.clone();
        git.pass_over(
            &dispatch
                .db
                .read(move |conn| bb::gate_leftovers(conn, &id))
                .await?,
        );
        Ok(Self {
            claim: claimed.claim(),
            in_shadow: claimed.in_shadow,
            item: claimed.item,
            change: claimed.change,
            dispatch: Arc::clone(dispatch),
            project,
            rules,
            git,
            fenced: signs.fenced,
            stop: signs.stop,
            halted: signs.halted,
        })
    }

    pub(super) fn signs(&self) -> Signs {
        Signs {
            fenced: self.fenced.clone(),
            stop: self.stop.clone(),
            halted: self.halted.clone(),
        }
    }

    async fn work(&self) -> Result<(), Interrupt> {
        let locks = &self.dispatch.settings.locks_dir;
        let _lock = WorktreeLock::take(locks, &self.change.worktree)
            .await
            .map_err(|error| Interrupt::hold(format!("cannot lock the worktree: {error}")))?;
        // A git that a killed daemon had started goes on without it: two at once in one worktree would be one too many.
        process::end_marked(git_mark(&self.change.worktree).as_ref()).await?;
        self.recover_others().await?;
        let done = match self.item.source {
            Source::ReviewFix => self.fix().await,
            Source::CodeReview => self.review().await,
            // The claim takes only the two.
            Source::Github
            | Source::Specflow
            | Source::Manual
            | Source::PullRequest
            | Source::FeedbackAnalysis => Ok(()),
        };
        if matches!(done, Err(Interrupt::Fenced)) {
            self.abandon().await?;
        }
        done
    }

    /// Writes down why the work stopped. If even that can't be written, the item is given back later: see `slots`.
    async fn write_down(&self, stop: Interrupt) {
        let item = &self.item.item_id;
        let written = match stop {
            Interrupt::Fenced => {
                tracing::info!(%item, "the claim is over, nothing was written");
                Ok(())
            }
            Interrupt::Stopping | Interrupt::Reloaded | Interrupt::Paused => self.give_back().await,
            Interrupt::Hold {
                kind,
                reason,
                until,
            } => {
                tracing::warn!(%item, reason = ?reason, "held");
                self.hold(kind, reason, until).await
            }
            Interrupt::Fail(failure) if self.in_shadow => self.end_in_shadow(failure.reason).await,
            Interrupt::TakenBack(taken) if self.in_shadow => self.end_in_shadow(taken.reason).await,
            Interrupt::Fail(failure) => self.fail(*failure).await,
            Interrupt::TakenBack(taken) => self.fail_taken_back(taken).await,
            Interrupt::Blackboard(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::error!(%item, error = %chain(&error), "the end of an item could not be written");
        }
    }

    async fn give_back(&self) -> bb::Result<()> {
        let claim = self.claim.clone();
        self.write("give_back", move |conn| {
            bb::give_back(conn, &claim, None, clock::now())
        })
        .await
    }

    async fn hold(
        &self,
        kind: HoldKind,
        reason: String,
        until: Option<clock::Time>,
    ) -> bb::Result<()> {
        let now = clock::now();
        let until = until
            .filter(|moment| *moment > now)
            .map(|moment| moment.min(now.plus(bb::LONGEST_HOLD)));
        let until = until.unwrap_or_else(|| self.dispatch.settings.backoff(self.change.holds, now));
        let (claim, change_id) = (self.claim.clone(), self.change.change_id.clone());
        let worktree = &self.change.worktree;
        let again = Escalation::new(
            format!("the same hold a third time, with nothing changed since: {reason}"),
            decision!(
                "end what is in the way, then {retry}; or {cancel}, and finish it by hand in {worktree}",
                retry = Decision::retry(&change_id),
                cancel = Decision::cancel(&change_id),
            ),
        );
        let hold = Hold {
            kind,
            reason,
            until,
        };
        let in_shadow = self
            .in_shadow
            .then(|| self.no_shadow_review(again.reason.clone()));
        self.write("hold", move |conn| {
            if bb::is_held_too_often(&bb::change(conn, &change_id)?, kind, now) {
                if let Some(review) = &in_shadow {
                    return bb::end_shadow_review(conn, &claim, review, clock::now());
                }
                return bb::fail(conn, &claim, &again, clock::now()).map(drop);
            }
            bb::hold(conn, &claim, &change_id, &hold, clock::now())
        })
        .await
    }

    async fn fail(&self, mut failure: Escalation) -> bb::Result<()> {
        let (claim, id) = (self.claim.clone(), &self.change.change_id);
        if failure.bound.is_none() {
            failure.decision = decision!(
                "{first} ({retry}, or {cancel})",
                first = failure.decision,
                retry = Decision::retry(id),
                cancel = Decision::cancel(id),
            );
        }
        self.write("fail", move |conn| {
            bb::fail(conn, &claim, &failure, clock::now()).map(drop)
        })
        .await
    }

    async fn fail_taken_back(&self, taken: TakenBack) -> bb::Result<()> {
        let (claim, id) = (self.claim.clone(), self.change.change_id.clone());
        let failure = Escalation::new(
            taken.reason.clone(),
            decision!(
                "say what is wanted instead ({refine}), or leave it",
                refine = Decision::refine(&id),
            ),
        );
        self.write("taken_back", move |conn| {
            taken.write(conn, &id)?;
            bb::fail(conn, &claim, &failure, clock::now()).map(drop)
        })
        .await
    }

    pub(super) async fn write<T: Send + 'static>(
        &self,
        name: &'static str,
        step: impl FnOnce(&Conn) -> bb::Result<T> + Send + 'static,
    ) -> bb::Result<T> {
        self.dispatch.db.write(name, step).await
    }

    pub(super) async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Conn) -> bb::Result<T> + Send + 'static,
    ) -> bb::Result<T> {
        self.dispatch.db.read(look).await
    }

    /// The item as it stands on the blackboard now, if it is still ours.
    pub(super) async fn item_now(&self) -> Result<Item, Interrupt> {
        let claim = self.claim.clone();
        let item = self
            .read(move |conn| bb::item(conn, &claim.item_id))
            .await?;
        if item.epoch == self.claim.epoch {
            Ok(item)
        } else {
            Err(Interrupt::Fenced)
        }
    }

    /// The runs of this item whose work counts, oldest first.
    pub(super) async fn runs(&self) -> Result<Vec<Run>, Interrupt> {
        let id = self.item.item_id.clone();
        let runs = self.read(move |conn| bb::runs_of(conn, &id)).await?;
        Ok(runs.into_iter().filter(|run| !run.discarded).collect())
    }

    /// Whether to go on: between any two steps the claim may have ended, or the program be asked to stop.
    pub(super) fn go_on(&self) -> Result<(), Interrupt> {
        if self.fenced.is_cancelled() {
            return Err(Interrupt::Fenced);
        }
        if self.is_told_to_end() {
            Err(Interrupt::Stopping)
        } else {
            Ok(())
        }
    }

    /// By the program that stops, or by a person's `stop --now`: what is cut then is nobody's failure.
    pub(super) fn is_told_to_end(&self) -> bool {
        self.stop.is_cancelled() || self.halted.is_cancelled()
    }

    /// Before something new begins inside this item: a stop lets only what is at work finish.
    pub(super) async fn not_stopped(&self) -> Result<(), Interrupt> {
        if self.change_now().await?.stopped {
            Err(Interrupt::Paused)
        } else {
            Ok(())
        }
    }

    pub(super) fn worktree(&self) -> &Path {
        Path::new(&self.change.worktree)
    }
}
