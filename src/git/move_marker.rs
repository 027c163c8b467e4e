//! The mark of a worktree that is being moved to another commit. It is set while the worktree is known to be clean, so
//! whatever is found there with the mark still standing was left by a move that was cut, and may be put back.

use super::command::GitCommand;
use super::history::check_sha;
use super::{Git, GitError, HeadAt, Place, RestorePoint, Worktree};

/// A ref of each worktree alone, gone with it.
const MARK: &str = "refs/worktree/remand-moving";

impl Git {
    /// Where a move that was begun and not ended leads.
    pub(super) async fn moving(&self, place: &Place) -> Result<Option<String>, GitError> {
        self.resolve(place, MARK).await
    }

    pub(super) async fn begin_moving(&self, place: &Place, to: &str) -> Result<(), GitError> {
        check_sha(to)?;
        self.bytes(GitCommand::at(
            place,
            ["update-ref", "--no-deref", MARK, to],
        ))
        .await
        .map(drop)
    }

    pub(super) async fn end_moving(&self, place: &Place) -> Result<(), GitError> {
        self.bytes(GitCommand::at(
            place,
            ["update-ref", "--no-deref", "-d", MARK],
        ))
        .await
        .map(drop)
    }

    /// Ends a move that was cut: what git had begun to write is brought to where it was to lead, what it had not begun is
    /// begun again by whoever wants it. What is found there is kept on `refs/remand/wip/moved-SHA` first. The caller has
    /// proven that nobody of ours is at work there.
    pub(crate) async fn end_cut_move(
        &self,
        place: &Place,
        head_at: impl Into<HeadAt<'_>>,
    ) -> Result<(), GitError> {
        let head_at = head_at.into();
        let Some(to) = self.moving(place).await? else {
            return Ok(());
        };
        // A ref moves when all files are written: one that is there shows that the move was whole, and then whatever
        // is different now is somebody's.
        let is_whole = self.look(place).await?.head.as_ref() == Some(&to)
            && place.index_lock().symlink_metadata().is_err();
        if !is_whole {
            let run = format!("moved-{to}");
            let back = RestorePoint {
                head_at,
                head_before: &to,
                run: &run,
            };
            self.unblock(place, back).await?;
            let is_begun = match self.clean_head(place, head_at).await {
                Err(_) => true,
                // A branch moves last. A detached HEAD that its ref has not followed is in the middle of a replay.
                Ok(head) => head != self.resolve(place, &head_at.ref_name()?).await?,
            };
            if is_begun {
                self.put_back(place, back).await?;
            }
        }
        self.keep_head(place, head_at).await?;
        self.end_moving(place).await
    }

    /// HEAD is where it belongs, nothing is under way, nothing is changed: only such a worktree is moved. Returns its head.
    pub(super) async fn clean_head(
        &self,
        place: &Place,
        head_at: HeadAt<'_>,
    ) -> Result<Option<String>, GitError> {
        let Worktree {
            branch: found,
            head,
            operation,
            index_lock,
            ..
        } = self.look(place).await?;
        if let Some(operation) = operation {
            return Err(GitError::Unfinished { operation });
        }
        if !head_at.fits(found.as_deref()) {
            return Err(GitError::NotOnBranch {
                expected: head_at.expected(),
                found,
            });
        }
        if index_lock {
            return Err(GitError::Locked {
                path: place.index_lock(),
            });
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
