//! After a run: none of its processes is alive, its end is read and judged, and the worktree is restored before the end
//! is committed. Works in the same way for a run that just ended and for one that a crash interrupted.

use std::path::{Path, PathBuf};

use super::launch::{mark_file, swap_record};
use super::moved_branches::restore_branches;
use super::recover::commits_since;
use crate::agent::{self, End, Outcome, Phase};
use crate::blackboard::{self as bb, RunEnd};
use crate::change::HoldKind;
use crate::clock;
use crate::dispatch::Dispatch;
use crate::dispatch::interrupt::{Interrupt, Result};
use crate::dispatch::task::Task;
use crate::dispatch::worktree::preflight::{gone, named};
use crate::event::{NewEvent, TargetType, body};
use crate::failpoint::crash_point;
use crate::files::{self, RECORD};
use crate::git::{CheckoutFingerprint, GitError, Place, RestorePoint, Restored};
use crate::process::{self, Exit, SETTLE};
use crate::project_settings::MainCheckout;
use crate::proposal::{Decision, Escalation, decision};
use crate::text;
use crate::work::{Ended, Run};

/// Maximum number of changes outside the worktree that a summary lists.
const MAX_LISTED: usize = 40;

/// The end of a run: that of its agent, or of its worktree.
#[derive(Debug, Clone, PartialEq)]
enum RunOutcome {
    Agent(End),
    /// The worktree is missing, with everything that was not committed.
    NoWorktree,
    /// Somebody has committed there since it ended.
    Overtaken(Vec<String>),
}

/// Facts about an ended run.
struct FinishedRun {
    end: RunOutcome,
    run_end: RunEnd,
    events: Vec<NewEvent>,
    checkout: Vec<String>,
}

impl Task {
    /// Ends a run's row. A good end continues; any other end returns its `Interrupt`, or `Ok` if the agent has to run
    /// again.
    pub(crate) async fn conclude(&self, run: &Run, phase: Phase) -> Result<()> {
        let dir = PathBuf::from(&run.dir);
        process::settle(&dir, SETTLE).await?;
        crash_point!("settled");
        let place = match self.find_place() {
            Err(GitError::NotThere { .. }) => return self.without_worktree(run, phase, &dir).await,
            found => found?,
        };
        let to = self.restore_point(&run.head_before, run);
        let found = self.git.unblock(&place, to).await?;
        crash_point!("git.unblock.after");
        let dropped = self
            .git
            .put_back_config(&place, &swap_record(&dir), found.now.head.as_deref())
            .await?;
        crash_point!("git.config_back.after");
        let mut over = self.over(run, &dir, &dropped).await?;
        if self.is_taken_over().await? {
            return self.leave_to_person(run, phase, over, to).await;
        }
        if self.signs.fenced.is_cancelled() {
            // Nobody waits for its work any more: it is kept aside like that of any other interrupted run.
            over.end = RunOutcome::Agent(End::Stopped);
        } else if over.end == RunOutcome::Agent(End::Stopped) && !self.is_told_to_end() {
            // Ended by a signal that was not ours: counted, or an agent that ends its own shim would run forever.
            over.end = RunOutcome::Agent(End::Lost);
        }
        let is_put_back = over.end != RunOutcome::Agent(End::Good)
            || !phase.writes()
            || self.is_for_a_person(&over.checkout);
        let later = if is_put_back {
            commits_since(&self.git, &found.now, run).await?
        } else {
            Vec::new()
        };
        if !later.is_empty() {
            // Commits by a person, made while no daemon was watching, are not removed.
            over.end = RunOutcome::Overtaken(later);
        } else if is_put_back {
            crash_point!("git.put_back.before");
            let restored = self.git.put_back_unblocked(to, &found).await?;
            crash_point!("git.put_back.after");
            over.tell_restored(&restored, run, phase);
        }
        let moved = restore_branches(&self.git, &place, &dir).await?;
        over.tell_outside(run, moved);
        self.commit_end(run, phase, over).await
    }

    /// True if a person has taken the change over. The claim has ended then, whether or not that was noticed yet.
    pub(crate) async fn is_taken_over(&self) -> Result<bool> {
        let is_taken_over = self.change_now().await?.taken_over;
        if is_taken_over {
            self.signs.fenced.cancel();
        }
        Ok(is_taken_over)
    }

    /// The work of the run stays in the worktree, where a person continues; a copy is kept.
    async fn leave_to_person(
        &self,
        run: &Run,
        phase: Phase,
        mut over: FinishedRun,
        to: RestorePoint<'_>,
    ) -> Result<()> {
        over.end = RunOutcome::Agent(End::Stopped);
        crash_point!("takeover.wip.before");
        over.run_end.wip = self.git.save_wip(&self.place()?, to).await?;
        crash_point!("takeover.wip.after");
        over.tell_outside(run, Vec::new());
        self.commit_end(run, phase, over).await
    }

    /// Without a worktree nothing can be kept or restored; the run has ended nevertheless.
    async fn without_worktree(&self, run: &Run, phase: Phase, dir: &Path) -> Result<()> {
        let mut over = self.over(run, dir, &[]).await?;
        over.end = if self.signs.fenced.is_cancelled() {
            RunOutcome::Agent(End::Stopped)
        } else {
            RunOutcome::NoWorktree
        };
        over.tell_outside(run, Vec::new());
        self.commit_end(run, phase, over).await
    }

    fn is_for_a_person(&self, checkout: &[String]) -> bool {
        !checkout.is_empty() && self.rules.main_checkout == MainCheckout::Escalate
    }

    async fn over(&self, run: &Run, dir: &Path, dropped: &[String]) -> Result<FinishedRun> {
        let exit = process::read_exit(dir)?;
        let outcome = agent::outcome(dir, exit.as_ref());
        let mut events = Vec::new();
        let run_id = Some(run.run_id.clone());
        if !dropped.is_empty() {
            let summary = format!(
                "{} edited agent configuration, which a branch must not change; reverted: {}",
                run.agent,
                named(dropped)
            );
            let (paths, more) = body::listed(dropped.to_vec());
            let undone = body::EditsUndone {
                run_id: run_id.clone(),
                paths,
                more,
                ..Default::default()
            };
            let event = NewEvent::about(&run.change_id, undone, summary);
            events.push(event.on(TargetType::Run, &run.run_id));
        }
        if !outcome.denied.is_empty() {
            let summary = format!("{} was denied: {}", run.agent, named(&outcome.denied));
            let (denied, more) = body::listed(outcome.denied.clone());
            let denied = body::PermissionDenied {
                run_id,
                denied,
                more,
            };
            let event = NewEvent::about(&run.change_id, denied, summary);
            events.push(event.on(TargetType::Run, &run.run_id));
        }
        let checkout = self.checkout_changes(dir).await;
        let cost_micros = self.dispatch.cost_of(run, &outcome).await?;
        let mut run_end = run_end(exit.as_ref(), &outcome, cost_micros);
        // The agent may report itself that somebody ended it.
        if run_end.ended == Some(Ended::Agent) && outcome.end == End::Lost {
            run_end.ended = Some(Ended::Lost);
        }
        run_end.session = outcome.session;
        run_end.note = outcome.odd.or_else(|| leftovers(exit.as_ref()));
        Ok(FinishedRun {
            end: RunOutcome::Agent(outcome.end),
            run_end,
            events,
            checkout,
        })
    }

    /// Returns changes in the main checkout and in files shared by all worktrees. A fingerprint that cannot be taken
    /// now does not prove a change; it is logged.
    async fn checkout_changes(&self, dir: &Path) -> Vec<String> {
        let before: Option<CheckoutFingerprint> = files::read(&mark_file(dir), RECORD)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let Some(before) = before else {
            return Vec::new();
        };
        match self.git.checkout_mark(&self.project_of_git()).await {
            Ok(after) => before.differs(&after),
            Err(error) => {
                tracing::warn!(change = %self.change.change_id, error = ?error, "cannot compare the main checkout");
                Vec::new()
            }
        }
    }

    async fn commit_end(&self, run: &Run, phase: Phase, over: FinishedRun) -> Result<()> {
        let FinishedRun {
            end,
            run_end,
            events,
            checkout,
        } = over;
        let escalate_checkout = self.is_for_a_person(&checkout);
        // The work of a fixer that also wrote elsewhere is not used; a reviewer's verdict still counts.
        let discarded =
            end != RunOutcome::Agent(End::Good) || (escalate_checkout && phase.writes());
        let max_lost = self.dispatch.settings.max_lost_runs;
        let fenced = self.signs.fenced.is_cancelled();
        let (claim, id, change_id, item_id) = (
            self.claim.clone(),
            run.run_id.clone(),
            run.change_id.clone(),
            run.item_id.clone(),
        );
        let wip = run_end.wip.clone();
        let ending = end.clone();
        let lost = self
            .write("end_run", move |conn| {
                bb::end_run(conn, &id, &run_end, clock::now())?;
                for event in &events {
                    bb::append(conn, event, clock::now())?;
                }
                if discarded {
                    bb::discard_run(conn, &id)?;
                }
                if fenced || ending != RunOutcome::Agent(End::Lost) {
                    return Ok(0);
                }
                let lost = bb::lose_run(conn, &claim)?;
                let kept = run_end
                    .wip
                    .as_ref()
                    .map(|_| format!("; its changes are kept on refs/remand/wip/{id}"));
                let kept = kept.unwrap_or_default();
                let run_lost = body::RunLost {
                    run_id: Some(id.clone()),
                    wip: run_end.wip,
                    item_id: Some(item_id),
                    lost_in_a_row: lost,
                };
                let summary = format!("{id} ended without a result ({lost} in a row){kept}");
                let event = NewEvent::about(&change_id, run_lost, summary).on(TargetType::Run, &id);
                bb::append(conn, &event, clock::now())?;
                Ok(lost)
            })
            .await?;
        self.see_settings().await?;
        self.dispatch.after.notify_one();
        let fail = |reason: String, decision: Decision| {
            let escalation = Escalation::new(reason, decision).with_wip(wip.clone());
            Err(escalation.into())
        };
        match end {
            RunOutcome::Agent(End::Good) if escalate_checkout => fail(
                format!(
                    "the main checkout changed during {}: {}",
                    run.run_id,
                    named(&checkout)
                ),
                "check the main checkout (run `git status` there), then retry".into(),
            ),
            RunOutcome::Agent(End::Good) => Ok(()),
            RunOutcome::Agent(End::Lost) if lost >= max_lost => fail(
                format!("{lost} runs in a row ended without a result"),
                "find out what is killing them (lack of memory? a restart?), then retry".into(),
            ),
            RunOutcome::Agent(End::Lost) => Ok(()),
            RunOutcome::NoWorktree => fail(
                format!("{} after {} ran in it", gone(self.worktree()), run.run_id),
                self.bring_back().into(),
            ),
            // The current head of the branch is reviewed.
            RunOutcome::Overtaken(_) if phase == Phase::Review => Ok(()),
            RunOutcome::Overtaken(later) => fail(
                format!(
                    "commits were made in the worktree after {} was interrupted ({}); nothing was removed",
                    run.run_id,
                    named(&later)
                ),
                decision!(
                    "check them in {worktree}, then {submit}",
                    worktree = self.change.worktree.as_str().into(),
                    submit = self.change.submit_advice(),
                ),
            ),
            RunOutcome::Agent(End::NoSession) => Ok(()),
            RunOutcome::Agent(End::Stopped) => Err(if fenced {
                Interrupt::Fenced
            } else {
                Interrupt::Stopping
            }),
            RunOutcome::Agent(End::Hold { reason, until }) => Err(Interrupt::Hold {
                kind: HoldKind::Environment,
                reason,
                until,
            }),
            RunOutcome::Agent(End::Failed(reason)) => fail(
                format!("the {phase} agent `{}` failed: {reason}", run.agent),
                decision!(
                    "read its log ({log}), fix the cause, then retry",
                    log = Decision::command(format!("remand log {}", run.run_id)),
                ),
            ),
        }
    }

    /// Cleans up an interrupted run in this worktree that belongs to another item; it does not affect this one.
    pub(crate) async fn recover_others(&self) -> Result<()> {
        let worktree = self.change.worktree.clone();
        let open = self.read(move |conn| bb::open_run_at(conn, &worktree));
        let is_other = |run: &Run| run.item_id != self.item.item_id;
        let Some(run) = open.await?.filter(is_other) else {
            return Ok(());
        };
        let change = self.read_of(&run.change_id, bb::change).await?;
        self.dispatch.recover(&self.project, &change, &run).await
    }

    /// The claim has ended: the item's commits are kept aside, and the branch is restored, unless a person continues
    /// there.
    pub(crate) async fn abandon(&self) -> Result<()> {
        if self.is_taken_over().await? {
            return Ok(());
        }
        let runs = self.runs().await?;
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
            return Ok(());
        };
        let to = self.restore_point(&first.head_before, last);
        let place = self.place()?;
        self.git.put_back(&place, to).await?;
        restore_branches(&self.git, &place, Path::new(&last.dir)).await?;
        self.write("abandon", move |conn| {
            runs.iter()
                .try_for_each(|run| bb::discard_run(conn, &run.run_id))
        })
        .await?;
        Ok(())
    }

    pub(crate) fn place(&self) -> Result<Place> {
        self.find_place().map_err(|error| {
            if let GitError::NotThere { path } = &error {
                return Interrupt::fail(gone(path), self.bring_back());
            }
            error.into()
        })
    }

    fn find_place(&self) -> Result<Place, GitError> {
        Place::find(Path::new(&self.project.common_dir), self.worktree())
    }

    pub(crate) fn project_of_git(&self) -> crate::git::Project {
        crate::git::Project {
            path: PathBuf::from(&self.project.path),
            common_dir: PathBuf::from(&self.project.common_dir),
            bare: self.project.path == self.project.common_dir,
            default_branch: Some(self.project.default_branch.clone()),
            origin: None,
        }
    }
}

impl Dispatch {
    /// Returns the cost of one run. For a resumed session, agents report the total of the session.
    pub(crate) async fn cost_of(&self, run: &Run, outcome: &Outcome) -> bb::Result<Option<i64>> {
        if !outcome.is_sum_of_session {
            return Ok(outcome.cost_micros);
        }
        let counted = self.db.read_of(run, bb::counted_in_session).await?;
        Ok(outcome
            .cost_micros
            .map(|sum| sum.saturating_sub(counted).max(0)))
    }
}

impl FinishedRun {
    /// Adds one event for all changes outside the worktree.
    fn tell_outside(&mut self, run: &Run, moved: Vec<String>) {
        let what: Vec<String> = self.checkout.iter().cloned().chain(moved).collect();
        if what.is_empty() {
            return;
        }
        let listed = text::joined(what.iter().take(MAX_LISTED), "; ");
        let more = if what.len() > MAX_LISTED {
            "; and more"
        } else {
            ""
        };
        let summary = format!(
            "changed outside the worktree during {}: {listed}{more}",
            run.run_id
        );
        let (what, more) = body::listed(what);
        let changed = body::CheckoutChanged {
            run_id: Some(run.run_id.clone()),
            what,
            more,
        };
        let event = NewEvent::about(&run.change_id, changed, summary);
        self.events.push(event.on(TargetType::Run, &run.run_id));
    }

    fn tell_restored(&mut self, restored: &Restored, run: &Run, phase: Phase) {
        self.run_end.wip.clone_from(&restored.wip);
        let kept = restored.wip.is_some() || !restored.moved_aside.is_empty();
        if kept && self.end == RunOutcome::Agent(End::Good) && phase == Phase::Review {
            let summary = format!(
                "files changed during the review by {}; the changes were reverted and are kept on refs/remand/wip/{}",
                run.agent, run.run_id
            );
            let undone = body::EditsUndone {
                run_id: Some(run.run_id.clone()),
                wip: restored.wip.clone(),
                moved_aside: restored.moved_aside.clone(),
                ..Default::default()
            };
            let event = NewEvent::about(&run.change_id, undone, summary);
            self.events.push(event.on(TargetType::Run, &run.run_id));
        }
    }
}

/// The end of a run's row, as reported by its shim and its agent.
pub(super) fn run_end(exit: Option<&Exit>, outcome: &Outcome, cost_micros: Option<i64>) -> RunEnd {
    RunEnd {
        ended: Some(exit.map_or(Ended::Lost, |exit| exit.ended)),
        exit_status: exit.and_then(|exit| exit.status).map(i64::from),
        signal: exit.and_then(|exit| exit.signal).map(i64::from),
        elapsed_ms: exit.map_or(0, |exit| i64::try_from(exit.elapsed_ms).unwrap_or(i64::MAX)),
        tokens: outcome.tokens,
        cost_micros,
        ..RunEnd::default()
    }
}

fn leftovers(exit: Option<&Exit>) -> Option<String> {
    let exit = exit?;
    match (exit.leftovers, exit.survivors) {
        (0, 0) => exit.detail.clone(),
        (1, 0) => Some("1 leftover process was killed".to_owned()),
        (ended, 0) => Some(format!("{ended} leftover processes were killed")),
        (_, 1) => Some("1 leftover process could not be killed".to_owned()),
        (_, alive) => Some(format!("{alive} leftover processes could not be killed")),
    }
}
