//! Interrupted runs that nobody continues: their item was cancelled, approved or failed, and then the program died.
//! They are cleaned up at the next opportunity, never over a person's later work in the worktree.

use std::path::{Path, PathBuf};

use super::finish_run::run_end;
use super::launch::swap_record;
use super::moved_branches::restore_branches;
use super::worktree_lock::WorktreeLock;
use crate::agent;
use crate::blackboard::{self as bb, Project, RunEnd};
use crate::change::{Change, ChangeId};
use crate::clock;
use crate::dispatch::Dispatch;
use crate::dispatch::interrupt::{Interrupt, Result, chain};
use crate::dispatch::worktree::preflight::{head_at, named};
use crate::event::{NewEvent, TargetType, body};
use crate::failpoint::crash_point;
use crate::git::{Git, Place, RestorePoint, Worktree, remove_index_lock};
use crate::process;
use crate::text::short_sha;
use crate::work::Run;

/// Returns the mark that our git processes in a worktree have in their environment.
pub(crate) fn git_mark(worktree: &str) -> String {
    format!("git:{worktree}")
}

impl Dispatch {
    /// Cleans up after every interrupted run whose item has ended. One that another process works on is left to it.
    pub(crate) async fn recover_orphans(&self) -> bb::Result<()> {
        for (run, change) in self.db.read(bb::orphaned_runs).await? {
            let locks = &self.settings.locks_dir;
            let Ok(Some(_lock)) = WorktreeLock::try_take(locks, &change.worktree) else {
                continue;
            };
            // Read again under the lock: a person may have taken it over since.
            let change = self.db.read_of(&change.change_id, bb::change).await?;
            let project = self.db.read_of(&change.project_id, bb::project).await?;
            if let Err(stop) = self.recover(&project, &change, &run).await {
                tracing::error!(run_id = %run.run_id, why = ?stop, "cannot clean up an interrupted run");
            }
        }
        Ok(())
    }

    /// Ends what a dead process left in the worktree of a change that a person has taken over. Returns false while
    /// another process is working there.
    pub(crate) async fn settle_takeover(&self, id: &ChangeId) -> bb::Result<bool> {
        let change = self.db.read_of(id, bb::change).await?;
        let locks = &self.settings.locks_dir;
        let Ok(Some(_lock)) = WorktreeLock::try_take(locks, &change.worktree) else {
            return Ok(false);
        };
        let worktree = change.worktree.clone();
        let open = self.db.read(move |conn| bb::open_run_at(conn, &worktree));
        let Some(run) = open.await? else {
            return Ok(true);
        };
        let project = self.db.read_of(&change.project_id, bb::project).await?;
        match self.recover(&project, &change, &run).await {
            Ok(()) => Ok(true),
            Err(stop) => {
                tracing::warn!(run_id = %run.run_id, why = ?stop, "cannot end an interrupted run");
                Ok(false)
            }
        }
    }

    /// Ends one interrupted run. The caller holds the worktree's lock.
    pub(crate) async fn recover(
        &self,
        project: &Project,
        change: &Change,
        run: &Run,
    ) -> Result<()> {
        let dir = PathBuf::from(&run.dir);
        process::end_marked(git_mark(&change.worktree).as_ref()).await?;
        process::settle(&dir, process::SETTLE).await?;
        let git = self.settings.git_in(&change.worktree);
        let id = &run.run_id;
        let cleaned = if change.taken_over {
            leave_to_person(&git, project, change, run).await
        } else {
            clean_up(&git, project, change, run).await
        };
        let (wip, summary) = match cleaned {
            Ok(Cleaned::PutBack { wip }) => {
                let kept = |wip: &String| {
                    let sha = short_sha(wip);
                    format!("the changes of {id} are kept on refs/remand/wip/{id} ({sha})")
                };
                let summary = wip.as_ref().map(kept);
                (wip, summary)
            }
            Ok(Cleaned::LeftToPerson { wip }) => {
                let kept = |wip: &String| {
                    let sha = short_sha(wip);
                    format!(
                        "the changes of {id} stay in the worktree; a copy is kept on refs/remand/wip/{id} ({sha})"
                    )
                };
                let summary = wip.as_ref().map(kept);
                (wip, summary)
            }
            Ok(Cleaned::LeftAlone(why)) => {
                let summary = format!("the worktree was not restored after {id}: {why}");
                (None, Some(summary))
            }
            // A worktree that cannot be restored must not keep its run open forever.
            Err(Interrupt::Fail(fail)) => {
                let summary = format!("{id} could not be cleaned up: {}", fail.reason);
                (None, Some(summary))
            }
            Err(other) => return Err(other),
        };
        let exit = process::read_exit(&dir)?;
        let outcome = agent::outcome(&dir, exit.as_ref());
        // Its usage counts, though nobody continues it.
        let cost_micros = self.cost_of(run, &outcome).await?;
        let end = RunEnd {
            wip: wip.clone(),
            ..run_end(exit.as_ref(), &outcome, cost_micros)
        };
        let (run_id, change_id) = (run.run_id.clone(), run.change_id.clone());
        self.db
            .write("recover", move |conn| {
                bb::end_run(conn, &run_id, &end, clock::now())?;
                bb::discard_run(conn, &run_id)?;
                if let Some(summary) = summary {
                    let undone = body::EditsUndone {
                        run_id: Some(run_id.clone()),
                        wip,
                        ..Default::default()
                    };
                    let event =
                        NewEvent::about(&change_id, undone, summary).on(TargetType::Run, &run_id);
                    bb::append(conn, &event, clock::now())?;
                }
                Ok(())
            })
            .await?;
        Ok(())
    }
}

enum Cleaned {
    PutBack { wip: Option<String> },
    LeftToPerson { wip: Option<String> },
    LeftAlone(String),
}

/// Restores only the agent configuration in a worktree where a person may already be at work, and keeps a copy of what
/// the run left. Only a lock of the run itself is removed; no operation is ended, and nothing is reset.
async fn leave_to_person(
    git: &Git,
    project: &Project,
    change: &Change,
    run: &Run,
) -> Result<Cleaned> {
    let place = match Place::find(Path::new(&project.common_dir), Path::new(&change.worktree)) {
        Ok(place) => place,
        Err(error) => return Ok(Cleaned::LeftAlone(chain(&error))),
    };
    crash_point!("takeover.settle.before");
    if let Some(ended) = process::ended_at(Path::new(&run.dir))? {
        remove_index_lock(&place, ended)?;
    }
    let now = git.look(&place).await?;
    let record = swap_record(Path::new(&run.dir));
    git.put_back_config(&place, &record, now.head.as_deref())
        .await?;
    let to = RestorePoint::new(head_at(change), &run.head_before, run.run_id.as_str());
    let wip = git.save_wip(&place, to).await?;
    crash_point!("takeover.settle.after");
    Ok(Cleaned::LeftToPerson { wip })
}

async fn clean_up(git: &Git, project: &Project, change: &Change, run: &Run) -> Result<Cleaned> {
    let place = match Place::find(Path::new(&project.common_dir), Path::new(&change.worktree)) {
        Ok(place) => place,
        Err(error) => return Ok(Cleaned::LeftAlone(chain(&error))),
    };
    let to = RestorePoint::new(head_at(change), &run.head_before, run.run_id.as_str());
    let found = git.unblock(&place, to).await?;
    let now = &found.now;
    let record = swap_record(Path::new(&run.dir));
    git.put_back_config(&place, &record, now.head.as_deref())
        .await?;
    // If an agent died on a branch of a managed worktree, that is restored; a person's branch is left alone.
    if !change.detached && now.branch.as_deref() != Some(change.branch.as_str()) {
        let found = now.branch.as_deref().unwrap_or("a detached HEAD");
        let why = format!("it is on {found}, not on {}", change.branch);
        return Ok(Cleaned::LeftAlone(why));
    }
    let later = commits_since(git, now, run).await?;
    if !later.is_empty() {
        let why = format!("new commits have since been made there ({})", named(&later));
        return Ok(Cleaned::LeftAlone(why));
    }
    let wip = git.put_back_unblocked(to, &found).await?.wip;
    restore_branches(git, &place, Path::new(&run.dir)).await?;
    Ok(Cleaned::PutBack { wip })
}

/// Commits on the branch that a run cannot have made, since it had ended before: a person's. Empty if the end of the
/// run is unknown.
pub(crate) async fn commits_since(git: &Git, now: &Worktree, run: &Run) -> Result<Vec<String>> {
    let Some(ended) = process::ended_at(Path::new(&run.dir))? else {
        return Ok(Vec::new());
    };
    let Some(head) = now.head.as_ref().filter(|head| **head != run.head_before) else {
        return Ok(Vec::new());
    };
    // Commits carry whole seconds.
    let commits = git
        .committed_since(&now.place, &run.head_before, head, ended + 1)
        .await?;
    let short = |sha: &String| short_sha(sha).to_owned();
    Ok(commits.iter().map(short).collect())
}
