//! Moves a worktree forward to a commit that someone else made.

use std::collections::BTreeSet;

use super::command::GitCommand;
use super::fs_nofollow::{FileKind, path_of, standing};
use super::history::check_shas;
use super::wip::wip_ref;
use super::{Git, GitError, HeadAt, Place, RestorePoint, Result};

impl Git {
    /// Moves a clean worktree from one commit to a later one.
    ///
    /// Refused if the worktree has uncommitted work, or an untracked or ignored file at a path that
    /// must be written.
    ///
    /// Idempotent, also after a crash: the remains of an interrupted move are first saved on
    /// `refs/remand/wip/forward-SHA`, since a person may have edited files in the meantime. The
    /// caller has verified that nobody is at work there.
    pub(crate) async fn forward(
        &self,
        place: &Place,
        head_at: impl Into<HeadAt<'_>>,
        from: &str,
        to: &str,
    ) -> Result<()> {
        let head_at = head_at.into();
        head_at.ref_name()?;
        check_shas([from, to])?;
        if !self.is_ancestor(place, from, to).await? {
            return Err(GitError::not_forward(from, to));
        }
        match self.clean_head(place, head_at).await {
            Ok(head) if head.as_deref() == Some(to) => {}
            Ok(head) if head.as_deref() == Some(from) => {
                self.merge_forward(place, from, to).await?;
            }
            Ok(found) => {
                return Err(GitError::elsewhere(head_at.expected(), from, found));
            }
            Err(error) => {
                if self.moving(place).await.ok().flatten().as_deref() != Some(to) {
                    return Err(error);
                }
                let run = format!("forward-{to}");
                self.put_back(place, RestorePoint::new(head_at, to, &run))
                    .await?;
            }
        }
        self.keep_head(place, head_at).await?;
        self.end_moving(place).await
    }

    /// Moves a clean worktree to a commit that does not contain the current one, after the branch
    /// was rewritten.
    ///
    /// The old commit is kept on `refs/remand/wip/rewritten-SHA`. Untracked files are never
    /// overwritten.
    ///
    /// An interrupted move is completed by [`Git::end_cut_move`]: the branch moves once all files
    /// are written.
    pub(crate) async fn follow(
        &self,
        place: &Place,
        head_at: impl Into<HeadAt<'_>>,
        from: &str,
        to: &str,
    ) -> Result<()> {
        let head_at = head_at.into();
        head_at.ref_name()?;
        check_shas([from, to])?;
        let found = self.clean_head(place, head_at).await?;
        if found.as_deref() != Some(from) {
            return Err(GitError::elsewhere(head_at.expected(), from, found));
        }
        self.refuse_overwriting(place, from, to).await?;
        let kept = wip_ref(&format!("rewritten-{from}"))?;
        self.set_ref(place, &kept, from).await?;
        self.begin_moving(place, to).await?;
        self.reset_hard(place, to).await?;
        self.keep_head(place, head_at).await?;
        self.end_moving(place).await
    }

    async fn merge_forward(&self, place: &Place, from: &str, to: &str) -> Result<()> {
        self.refuse_overwriting(place, from, to).await?;
        self.begin_moving(place, to).await?;
        let call = GitCommand::at(
            place,
            "merge --quiet --ff-only --no-autostash --no-overwrite-ignore --no-verify-signatures --no-stat",
        )
        .arg(to);
        self.run(call).await
    }

    pub(super) async fn refuse_overwriting(
        &self,
        place: &Place,
        from: &str,
        to: &str,
    ) -> Result<()> {
        let paths = self.in_the_way(place, from, to).await?;
        if paths.is_empty() {
            return Ok(());
        }
        Err(GitError::InTheWay { paths })
    }

    /// Returns paths that a commit adds and that are occupied by untracked files.
    async fn in_the_way(&self, place: &Place, from: &str, to: &str) -> Result<Vec<String>> {
        let files = self.net_files(place, from, to).await?;
        // A file that only changes the case of its name, or becomes a directory, is tracked by git.
        let gone: BTreeSet<String> = files
            .iter()
            .filter(|f| f.mode == 0)
            .map(|f| f.display_path().to_lowercase())
            .collect();
        let mut paths = Vec::new();
        for file in files.iter().filter(|file| file.old_mode == 0) {
            let Some((stands, what)) = standing(&place.path, &path_of(&file.path))? else {
                continue;
            };
            let stands = stands.to_string_lossy().to_lowercase();
            let below = format!("{stands}/");
            let is_git_s = gone.contains(&stands)
                || (what == FileKind::Folder && gone.iter().any(|g| g.starts_with(&below)));
            if !is_git_s {
                paths.push(file.display_path());
            }
        }
        Ok(paths)
    }
}
