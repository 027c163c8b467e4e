//! Marker of a worktree that is being moved to another commit.
//!
//! It is set while the worktree is known to be clean, so any change found while the marker exists
//! was left by an interrupted move and may be reverted.

use super::command::GitCommand;
use super::history::check_sha;
use super::{Git, GitError, HeadAt, Place, RestorePoint, Result, Worktree};

/// Ref that each worktree has for itself and that is deleted with it.
const MARK: &str = "refs/worktree/remand-moving";

impl Git {
    /// Returns the target of a move that was started and not completed.
    pub(super) async fn moving(&self, place: &Place) -> Result<Option<String>> {
        self.resolve(place, MARK).await
    }

    pub(super) async fn begin_moving(&self, place: &Place, to: &str) -> Result<()> {
        check_sha(to)?;
        self.set_ref(place, MARK, to).await
    }

    pub(super) async fn end_moving(&self, place: &Place) -> Result<()> {
        self.run(GitCommand::at(place, "update-ref --no-deref -d").arg(MARK))
            .await
    }

    /// Completes an interrupted move.
    ///
    /// If git had started to write files, they are brought to the target; otherwise nothing
    /// happens, and the caller that wants the move starts it again. Existing changes are first
    /// saved on `refs/remand/wip/moved-SHA`. The caller has verified that no process of remand is
    /// at work there.
    pub(crate) async fn end_cut_move(
        &self,
        place: &Place,
        head_at: impl Into<HeadAt<'_>>,
    ) -> Result<()> {
        let head_at = head_at.into();
        let Some(to) = self.moving(place).await? else {
            return Ok(());
        };
        // A ref moves after all files are written: if it is at the target, the move was complete,
        // and any difference now was made by someone else.
        let is_whole = self.look(place).await?.head.as_ref() == Some(&to)
            && place.index_lock().symlink_metadata().is_err();
        if !is_whole {
            let run = format!("moved-{to}");
            let back = RestorePoint::new(head_at, &to, &run);
            self.unblock(place, back).await?;
            let is_begun = match self.clean_head(place, head_at).await {
                Err(_) => true,
                // A branch moves last. A detached HEAD ahead of its ref is in the middle of a
                // replay.
                Ok(head) => head != self.resolve(place, &head_at.ref_name()?).await?,
            };
            if is_begun {
                self.put_back(place, back).await?;
            }
        }
        self.keep_head(place, head_at).await?;
        self.end_moving(place).await
    }

    /// Returns the head of a worktree that may be moved: HEAD is at its expected position, no
    /// operation is in progress, nothing is changed.
    pub(super) async fn clean_head(
        &self,
        place: &Place,
        head_at: HeadAt<'_>,
    ) -> Result<Option<String>> {
        let Worktree {
            branch,
            head,
            operation,
            index_lock,
            ..
        } = self.look(place).await?;
        if let Some(operation) = operation {
            return Err(GitError::Unfinished { operation });
        }
        head_at.check(branch.as_deref())?;
        if index_lock {
            let path = place.index_lock();
            return Err(GitError::Locked { path });
        }
        let status = self.status(place).await?;
        if !status.is_clean() {
            return Err(GitError::LocalWork {
                paths: [status.changed, status.untracked].concat(),
            });
        }
        Ok(head)
    }
}
