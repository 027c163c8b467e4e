//! Managed worktrees that an earlier version left on a branch: they are detached, so that people can check the branch
//! out. One with uncommitted work, or with an active run, is left as it is.

use std::path::Path;

use super::preflight::head_at;
use crate::blackboard as bb;
use crate::change::Change;
use crate::dispatch::Dispatch;
use crate::dispatch::interrupt::Result;
use crate::dispatch::run::worktree_lock::WorktreeLock;
use crate::git::Place;

impl Dispatch {
    /// Detaches all such worktrees. Runs when the program starts: no worktree is created on a branch any more.
    pub(crate) async fn detach_worktrees(&self) -> bb::Result<()> {
        for change in self.db.read(bb::attached_changes).await? {
            if let Err(stop) = self.detach_worktree(change).await {
                tracing::warn!(why = ?stop, "cannot detach a worktree from its branch");
            }
        }
        Ok(())
    }

    async fn detach_worktree(&self, change: Change) -> Result<()> {
        let project = self.db.read_of(&change.project_id, bb::project).await?;
        let Ok(place) = Place::find(Path::new(&project.common_dir), Path::new(&change.worktree))
        else {
            return Ok(());
        };
        let locks = &self.settings.locks_dir;
        let Ok(Some(_lock)) = WorktreeLock::try_take(locks, &change.worktree) else {
            return Ok(());
        };
        let git = self.settings.git_in(&change.worktree);
        let now = git.look(&place).await?;
        let is_idle =
            now.operation.is_none() && !now.index_lock && now.head.is_some() && place.is_linked();
        let is_on_branch = now.branch.as_deref() == Some(change.branch.as_str());
        // Detached but not recorded: interrupted in between.
        let is_cut = change.state.is_over() && now.branch.is_none();
        if !is_idle || !(is_on_branch || is_cut) || !git.status(&place).await?.is_clean() {
            return Ok(());
        }
        let target = Change {
            detached: true,
            ..change.clone()
        };
        // After this, nobody looks at the worktree of an ended change. For other changes it is recorded first: the next
        // claim knows where HEAD belongs, and detaches it if this was interrupted.
        if change.state.is_over() {
            git.detach(&place, head_at(&target)).await?;
        }
        let is_over = change.state.is_over();
        if self
            .db
            .write("detached", move |conn| bb::set_detached(conn, &change))
            .await?
            && !is_over
        {
            git.detach(&place, head_at(&target)).await?;
        }
        Ok(())
    }
}
