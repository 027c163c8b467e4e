//! Removes a worktree that remand created, and never one with work in it.

use std::path::Path;

use super::command::GitCommand;
use super::fs_nofollow::at;
use super::lock::RepositoryLock;
use super::{Git, HeadAt, Place, Project, Result};

/// Result of checking whether one of remand's worktrees can be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sweep {
    Gone,
    Clean,
    /// Must be kept, with the reason.
    Stays(String),
}

impl Git {
    /// Checks that everything in a worktree is committed on its branch, or on the ref that keeps
    /// its commits.
    pub(crate) async fn sweepable(
        &self,
        project: &Project,
        path: &Path,
        head_at: HeadAt<'_>,
    ) -> Result<Sweep> {
        if path.symlink_metadata().is_err() {
            return Ok(Sweep::Gone);
        }
        let place = Place::find(&project.common_dir, path)?;
        if !place.is_linked() {
            return Ok(Sweep::Stays("it is the main checkout".into()));
        }
        let now = self.look(&place).await?;
        if let Some(operation) = now.operation {
            return Ok(Sweep::Stays(format!("it has an unfinished {operation}")));
        }
        if now.index_lock {
            return Ok(Sweep::Stays(
                "another git process is running in it, or was killed there".into(),
            ));
        }
        // A person's branch is left to that person.
        if !head_at.fits(now.branch.as_deref()) {
            let found = now.branch.as_deref().unwrap_or("no branch");
            return Ok(Sweep::Stays(format!(
                "it is on {found}, not on {}",
                head_at.expected()
            )));
        }
        // Commits that no ref leads to would be lost with it.
        let kept = self.resolve(&place, &head_at.ref_name()?).await?;
        let is_kept = match (&now.head, &kept) {
            (Some(head), Some(kept)) => self.is_ancestor(&place, head, kept).await?,
            (None, _) => true,
            (Some(_), None) => false,
        };
        if !is_kept {
            return Ok(Sweep::Stays(
                "its commits are not reachable from any ref".into(),
            ));
        }
        let status = self.status(&place).await?;
        if let Some(path) = status.changed.iter().chain(&status.untracked).next() {
            return Ok(Sweep::Stays(format!("it has uncommitted work: {path}")));
        }
        // Files hidden from git do not appear in its status.
        let hidden = self.text(GitCommand::at(&place, "ls-files -v -z")).await?;
        let is_hidden =
            |line: &&str| line.starts_with(|tag: char| tag == 'S' || tag.is_ascii_lowercase());
        if let Some(line) = hidden.split('\0').find(is_hidden) {
            let path = line.get(2..).unwrap_or_default();
            return Ok(Sweep::Stays(format!(
                "it has a file marked skip-worktree or assume-unchanged: {path}"
            )));
        }
        Ok(Sweep::Clean)
    }

    /// Removes a worktree that was found to be clean. Git checks again and refuses one that is not.
    pub(crate) async fn remove_worktree(&self, project: &Project, path: &Path) -> Result<()> {
        let _lock = RepositoryLock::take(&project.common_dir).await?;
        self.remove_caches(&Place::find(&project.common_dir, path)?)
            .await?;
        let parent = path.parent().unwrap_or(path);
        let parent = parent.canonicalize().map_err(at("resolve", parent))?;
        let call = GitCommand::anywhere(&project.common_dir, "worktree remove --").writes(&parent);
        self.run(call.arg(path)).await
    }
}
