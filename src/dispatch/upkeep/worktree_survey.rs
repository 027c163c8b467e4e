//! List of the worktrees that remand created, and whether each can be removed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Upkeep;
use crate::blackboard as bb;
use crate::change::{Change, ChangeId, ProjectId, State};
use crate::clock::Time;
use crate::closed_enum::closed_enum;
use crate::dispatch::run::worktree_lock::WorktreeLock;
use crate::dispatch::worktree::preflight::head_at;
use crate::files::{self, DiskUse};
use crate::git::{Listed, Sweep, before_removal, replaced};
use crate::sanitize::chain;
use crate::work::Run;

/// Limits for counting the size of one worktree.
const MOST_FILES: usize = 1_000_000;
const MOST_TIME: Duration = Duration::from_secs(5);

closed_enum! {
    /// Use of a worktree that remand created.
    "use" WorktreeUse {
        /// Its change has not ended.
        Live = "live",
        /// Its change was merged or closed.
        Ended = "ended",
        /// No change knows it.
        Orphan = "orphan",
    }
}

/// Worktree that remand created.
#[derive(Debug, Clone)]
pub(crate) struct OwnWorktree {
    pub(crate) path: PathBuf,
    pub(crate) project_id: ProjectId,
    pub(crate) used: WorktreeUse,
    /// The live change, otherwise the last one.
    pub(crate) change: Option<Change>,
    /// Branch in it; the branch of its change if it is detached.
    pub(crate) branch: Option<String>,
    pub(crate) size: DiskUse,
    /// Time from which it is removed without being asked for; `None` if never.
    pub(crate) removed_after: Option<Time>,
    /// Reason why it cannot be removed now.
    pub(crate) kept_because: Option<String>,
}

impl OwnWorktree {
    /// True if it was named by its path, or by the id of its change.
    pub(crate) fn is_called(&self, path: &Path, change: Option<&ChangeId>) -> bool {
        let its = self.change.as_ref().map(|its| &its.change_id);
        self.path == path || (change.is_some() && its == change)
    }
}

impl Upkeep {
    /// Lists the worktrees that remand created, of all projects.
    pub(crate) async fn survey(&self) -> bb::Result<Vec<OwnWorktree>> {
        let mut all = Vec::new();
        for project in self.db.read(bb::list_projects).await? {
            let id = project.project_id;
            let (git, of_git) = self.git_of(&id, &project.path).await?;
            let listed = match git.worktrees(&of_git).await {
                Ok(listed) => listed,
                Err(error) => {
                    tracing::warn!(project = %id, error = %chain(&error), "cannot list worktrees");
                    Vec::new()
                }
            };
            let own = (self.settings.rules)(&id).own_worktrees.join(id.as_str());
            let mut paths: BTreeSet<PathBuf> = BTreeSet::new();
            // Those in other places were created under other settings.
            for one in listed.iter().skip(1).filter(|one| !one.prunable) {
                paths.insert(one.path.clone());
            }
            if let Ok(own) = own.canonicalize() {
                let names = files::names(&own).unwrap_or_default();
                let found = names.iter().map(|name| own.join(name));
                // A link, a pipe or a file is no worktree.
                let found =
                    found.filter(|path| path.symlink_metadata().is_ok_and(|meta| meta.is_dir()));
                // What an interrupted removal left is listed under the old name, if nothing else has it.
                paths.extend(found.map(|path| match replaced(&path) {
                    Some(_) => path,
                    None => before_removal(&path).unwrap_or(path),
                }));
            }
            for path in paths {
                let its = listed.iter().find(|one| one.path == path);
                all.extend(self.examine(&id, &own, path, its).await?);
            }
        }
        Ok(all)
    }

    /// Returns nothing for a worktree that is not remand's.
    async fn examine(
        &self,
        project_id: &ProjectId,
        own: &Path,
        path: PathBuf,
        listed: Option<&Listed>,
    ) -> bb::Result<Option<OwnWorktree>> {
        let text = path.display().to_string();
        let of_path = text.clone();
        let changes = self
            .db
            .read(move |conn| bb::changes_at(conn, &of_path))
            .await?;
        let is_below = own
            .canonicalize()
            .is_ok_and(|own| path.parent() == Some(&own));
        let change = changes.into_iter().next();
        let used = match &change {
            Some(change) if !change.own_worktree => return Ok(None),
            Some(change) if change.state.is_over() => WorktreeUse::Ended,
            Some(_) => WorktreeUse::Live,
            None if is_below => WorktreeUse::Orphan,
            None => return Ok(None),
        };
        let kept_because = match (&change, used) {
            (Some(change), WorktreeUse::Live) => Some(in_use(change)),
            (Some(change), _) if change.taken_over => Some("a person took the change over".into()),
            (_, _) => self.obstacle(project_id, &path, change.as_ref()).await?,
        };
        let ttl = (self.settings.rules)(project_id).worktree_ttl_days;
        let ended = change.as_ref().and_then(|change| change.completed_at);
        let removed_after = ended
            .filter(|_| ttl > 0)
            .map(|ended| ended.plus(Duration::from_hours(24).saturating_mul(ttl)));
        let branch = listed.and_then(|one| one.branch.clone());
        Ok(Some(OwnWorktree {
            size: files::aside(|| files::disk_use(&path, MOST_FILES, MOST_TIME)),
            project_id: project_id.clone(),
            branch: branch.or_else(|| change.as_ref().map(|change| change.branch.clone())),
            path,
            used,
            change,
            removed_after,
            kept_because,
        }))
    }

    /// Returns the reason why a worktree of no live change cannot be removed.
    async fn obstacle(
        &self,
        project_id: &ProjectId,
        path: &Path,
        change: Option<&Change>,
    ) -> bb::Result<Option<String>> {
        let text = path.display().to_string();
        let of_path = text.clone();
        let (is_busy, open) = self
            .db
            .read(move |conn| {
                let is_busy = bb::is_worktree_busy(conn, &of_path)?;
                Ok((is_busy, bb::open_run_at(conn, &of_path)?))
            })
            .await?;
        if is_busy {
            // A process that works there holds the lock.
            let lock = WorktreeLock::try_take(&self.settings.locks_dir, &text);
            return Ok(Some(match (open, lock) {
                (Some(run), Ok(Some(_))) => dead_run(&run),
                (_, _) => "a run is using it".into(),
            }));
        }
        let (git, project) = self.git_of(project_id, &text).await?;
        Ok(
            match git.sweepable(&project, path, change.map(head_at)).await {
                Ok(Sweep::Clean | Sweep::Gone) => None,
                Ok(Sweep::Stays(why)) => Some(why),
                Err(error) => Some(chain(&error)),
            },
        )
    }
}

fn dead_run(run: &Run) -> String {
    let id = &run.run_id;
    format!("its run {id} was interrupted and is dead: `remand tick` cleans up after it")
}

fn in_use(change: &Change) -> String {
    let (id, state): (_, State) = (&change.change_id, change.state);
    format!("{id} uses it ({state})")
}
