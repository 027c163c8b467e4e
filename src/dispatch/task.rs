//! The work on one claimed item, from the claim to the transaction that ends it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Dispatch;
use super::interrupt::{Interrupt, Result, Reverted, chain};
use crate::blackboard::{self as bb, Claimed, Conn, Hold, Project};
use crate::change::{Change, HoldKind};
use crate::clock;
use crate::dispatch::run::recover::git_mark;
use crate::dispatch::run::worktree_lock::WorktreeLock;
use crate::event::NewEvent;
use crate::git::Git;
use crate::process::{self, Running};
use crate::project_settings::ProjectSettings;
use crate::proposal::{Decision, Escalation, decision};
use crate::task::TaskRow;
use crate::work::{Claim, Item, LoopStep, Run};

/// One claimed item.
pub(super) struct Task {
    pub(super) dispatch: Arc<Dispatch>,
    pub(super) claim: Claim,
    pub(super) item: Item,
    pub(super) change: Change,
    pub(super) project: Project,
    pub(super) rules: ProjectSettings,
    /// `None` if the change was not made from a task.
    pub(super) task: Option<TaskRow>,
    pub(super) git: Git,
    /// Set for a review in shadow mode, which has no effect.
    pub(super) in_shadow: bool,
    pub(super) signs: Signs,
}

/// Signals that end the work early.
#[derive(Clone, Default)]
pub(super) struct Signs {
    /// Cancelled when the claim has ended.
    pub(super) fenced: CancellationToken,
    /// Cancelled when the program is stopping.
    pub(super) stop: CancellationToken,
    /// Cancelled when a person stopped the project, or everything, and wants agents ended immediately.
    pub(super) halted: CancellationToken,
}

impl Signs {
    /// Waits for the end of a process. An ended claim and `stop --now` end it immediately; a stopping program gives it
    /// the grace period first.
    pub(super) async fn wait(&self, running: &mut Running, grace: Duration) -> Result<()> {
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
        // The program stops: the grace period was for the process.
        running.hurry().await;
        Ok(running.wait().await.map(drop)?)
    }
}

impl Task {
    /// Runs a claimed item to its end; every kind of end is recorded.
    pub(super) async fn run(dispatch: Arc<Dispatch>, claimed: Claimed, stop: CancellationToken) {
        let claim = claimed.claim();
        let signs = Signs {
            stop,
            ..Signs::default()
        };
        let lease = dispatch.keep_lease(claim.clone(), signs.clone());
        let work = async {
            let task = match Self::begin(&dispatch, claimed, signs).await {
                Ok(task) => task,
                Err(error) => {
                    return tracing::error!(item = %claim.item_id, error = ?error, "cannot start an item");
                }
            };
            tracing::info!(item = %task.item.item_id, change = %task.change.change_id, source = %task.item.source, "started");
            let done = async {
                let locks = &dispatch.settings.locks_dir;
                let _lock = WorktreeLock::take(locks, &task.change.worktree)
                    .await
                    .map_err(|error| {
                        Interrupt::hold(format!("cannot lock the worktree: {error}"))
                    })?;
                // A git process that a killed daemon had started is still running: it must not share the worktree with ours.
                process::end_marked(git_mark(&task.change.worktree).as_ref()).await?;
                task.recover_others().await?;
                let done = match task.item.step() {
                    Some(LoopStep::Implement) => task.implement().await,
                    Some(LoopStep::Fix) => task.fix().await,
                    Some(LoopStep::OpenPull) => task.open_pull().await,
                    Some(LoopStep::Review) => task.review().await,
                    // The claim takes only the two.
                    None => Ok(()),
                };
                if matches!(done, Err(Interrupt::Fenced)) {
                    task.abandon().await?;
                }
                done
            };
            let end = match done.await {
                Ok(()) => ("finished", None),
                Err(stop) => {
                    let end = (stop.name(), stop.held_for());
                    task.write_down(stop).await;
                    end
                }
            };
            task.log_end(end).await;
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
        let project = dispatch
            .db
            .read_of(&claimed.change.project_id, bb::project)
            .await?;
        let mut rules = (dispatch.settings.rules)(&project.project_id);
        let task = dispatch
            .db
            .read_of(&claimed.change.change_id, bb::task)
            .await?;
        if let Some(task) = &task {
            rules.choose_agents(task.agent.as_deref(), task.review_agent.as_deref());
        }
        let git = dispatch.settings.git_in(&claimed.change.worktree);
        let id = &claimed.change.change_id;
        git.pass_over(&dispatch.db.read_of(id, bb::gate_leftovers).await?);
        Ok(Self {
            claim: claimed.claim(),
            in_shadow: claimed.in_shadow,
            item: claimed.item,
            change: claimed.change,
            dispatch: Arc::clone(dispatch),
            project,
            rules,
            task,
            git,
            signs,
        })
    }

    /// Records why the work stopped. If even that cannot be written, the item is returned later: see `slots`.
    async fn write_down(&self, stop: Interrupt) {
        let item = &self.item.item_id;
        let written = match stop {
            Interrupt::Fenced => Ok(()),
            Interrupt::Stopping | Interrupt::Reloaded | Interrupt::Paused => self.give_back().await,
            Interrupt::Hold {
                kind,
                reason,
                until,
            } => self.hold(kind, reason, until).await,
            Interrupt::Fail(failure) if self.in_shadow => self.end_in_shadow(failure.reason).await,
            Interrupt::Reverted(taken) if self.in_shadow => self.end_in_shadow(taken.reason).await,
            Interrupt::Fail(failure) => self.fail(*failure).await,
            Interrupt::Reverted(taken) => self.fail_reverted(taken).await,
            Interrupt::Blackboard(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::error!(%item, error = %chain(&error), "cannot write an item's result");
        }
    }

    /// Logs the end of the work, one line however it ended; a hold with its reason.
    async fn log_end(&self, (end, reason): (&str, Option<String>)) {
        let (item, id) = (&self.item.item_id, &self.change.change_id);
        // A pruned change has no state, and a blackboard that cannot be read has been logged.
        let change = self.dispatch.db.read_of(id, bb::change).await.ok();
        let state = change.map_or("unknown", |change| change.state.as_str());
        let source = self.item.source;
        match reason {
            Some(reason) => {
                tracing::warn!(target: "remand::narrated", %item, change = %id, %source, %state, ?reason, "{end}");
            }
            None => tracing::info!(%item, change = %id, %source, %state, "{end}"),
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
            format!(
                "held for the same reason too often, with nothing changed in between: {reason}"
            ),
            decision!(
                "fix the cause, then {retry}; or {cancel}, and finish it by hand in {worktree}",
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
        let max_lost = self.dispatch.settings.max_lost_runs;
        self.write("hold", move |conn| {
            if bb::is_held_too_often(&bb::change(conn, &change_id)?, kind, max_lost, now) {
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
            let first = failure.decision;
            let is_new = |more: &Decision| {
                let mut commands = more.commands.iter();
                !commands.all(|command| first.commands.contains(command))
            };
            let mut more = [Decision::retry(id), Decision::cancel(id)]
                .into_iter()
                .filter(is_new);
            failure.decision = match (more.next(), more.next()) {
                (None, _) => first,
                (Some(one), None) => decision!("{first} ({one})", first = first, one = one),
                (Some(retry), Some(cancel)) => decision!(
                    "{first} ({retry}, or {cancel})",
                    first = first,
                    retry = retry,
                    cancel = cancel,
                ),
            };
        }
        self.write("fail", move |conn| {
            bb::fail(conn, &claim, &failure, clock::now()).map(drop)
        })
        .await
    }

    async fn fail_reverted(&self, taken: Reverted) -> bb::Result<()> {
        let (claim, id) = (self.claim.clone(), self.change.change_id.clone());
        let failure = Escalation::new(
            taken.reason.clone(),
            decision!(
                "describe what to do instead ({refine}), or do nothing",
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

    /// Writes a step that only the holder of the claim may take.
    pub(super) async fn record<T: Send + 'static>(
        &self,
        name: &'static str,
        step: impl FnOnce(&Conn, &Claim) -> bb::Result<T> + Send + 'static,
    ) -> Result<()> {
        let claim = self.claim.clone();
        self.write(name, move |conn| step(conn, &claim)).await?;
        Ok(())
    }

    pub(super) async fn append(&self, name: &'static str, event: NewEvent) -> Result<()> {
        self.write(name, move |conn| bb::append(conn, &event, clock::now()))
            .await?;
        Ok(())
    }

    pub(super) async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Conn) -> bb::Result<T> + Send + 'static,
    ) -> bb::Result<T> {
        self.dispatch.db.read(look).await
    }

    pub(super) async fn read_of<K: Clone + Send + 'static, T: Send + 'static>(
        &self,
        key: &K,
        query: impl FnOnce(&Conn, &K) -> bb::Result<T> + Send + 'static,
    ) -> bb::Result<T> {
        self.dispatch.db.read_of(key, query).await
    }

    /// The current item on the blackboard, if the claim still holds.
    pub(super) async fn item_now(&self) -> Result<Item> {
        let item = self.read_of(&self.claim.item_id, bb::item).await?;
        if item.epoch == self.claim.epoch {
            Ok(item)
        } else {
            Err(Interrupt::Fenced)
        }
    }

    /// The runs of this item whose work counts, oldest first.
    pub(super) async fn runs(&self) -> Result<Vec<Run>> {
        let runs = self.read_of(&self.item.item_id, bb::runs_of).await?;
        Ok(runs.into_iter().filter(|run| !run.discarded).collect())
    }

    /// Checks that the work may continue: between any two steps the claim may end or the program may be asked to stop.
    pub(super) fn check_cancelled(&self) -> Result<()> {
        if self.signs.fenced.is_cancelled() {
            return Err(Interrupt::Fenced);
        }
        if self.is_told_to_end() {
            Err(Interrupt::Stopping)
        } else {
            Ok(())
        }
    }

    /// True when the program stops or a person typed `stop --now`: an interruption then is not a failure.
    pub(super) fn is_told_to_end(&self) -> bool {
        self.signs.stop.is_cancelled() || self.signs.halted.is_cancelled()
    }

    /// Checks before a new step of this item: a stop lets only running work finish.
    pub(super) async fn not_stopped(&self) -> Result<()> {
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
