//! Creates a worktree for a pull request that has none.

use std::fs;
use std::path::{Path, PathBuf};

use super::command::GitCommand;
use super::fs_nofollow::{at, names, remove};
use super::history::check_sha;
use super::lock::RepositoryLock;
use super::wip::wip_ref;
use super::{Git, GitError, HeadAt, Listed, Place, Project, Result, Worktree};
use crate::files::{self, SMALL};

/// Progress of creating one of remand's worktrees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Made {
    Not,
    /// Started at this commit, and interrupted before all its files were written.
    Empty {
        head: String,
    },
    /// Complete, or something else is there, which remand does not judge.
    Whole,
}

impl Git {
    /// Returns how far an earlier [`Git::add_worktree`] at this path got.
    pub(crate) async fn made_so_far(&self, project: &Project, path: &Path) -> Result<Made> {
        if path.symlink_metadata().is_err() || unborn(project, path)?.is_some() {
            return Ok(Made::Not);
        }
        let Ok(place) = Place::find(&project.common_dir, path) else {
            return Ok(Made::Whole);
        };
        // Git writes it last, when all files are there.
        if place.git_dir.join("index").symlink_metadata().is_ok() {
            return Ok(Made::Whole);
        }
        let head = self.look(&place).await?.head;
        Ok(head.map_or(Made::Whole, |head| Made::Empty { head }))
    }

    /// Creates a worktree at `path` with `sha` checked out and HEAD at its expected position.
    ///
    /// `sha` must already be in the repository. A branch that does not exist yet starts at `sha`;
    /// one that `sha` descends from is fast-forwarded to it; one that is elsewhere, or checked out
    /// in another worktree, is refused.
    ///
    /// Idempotent, also after a crash or if the directory was deleted: it returns the same
    /// worktree.
    pub(crate) async fn add_worktree(
        &self,
        project: &Project,
        path: &Path,
        head_at: impl Into<HeadAt<'_>>,
        sha: &str,
    ) -> Result<Worktree> {
        let head_at = head_at.into();
        head_at.ref_name()?;
        check_sha(sha)?;
        let lock = RepositoryLock::take(&project.common_dir).await?;
        clear_unborn(project, path)?;
        let place = match Place::find(&project.common_dir, path) {
            Ok(place) => place,
            Err(GitError::NotThere { .. } | GitError::NotThisWorktree { .. }) => {
                let was_there = self.lead_ref(project, path, head_at, sha).await?;
                // Without its files, so that it takes hardly any time. A branch must be named
                // without `refs/heads/` here, or HEAD would be detached; the name cannot be an
                // option.
                let parent = path.parent().unwrap_or(path);
                fs::create_dir_all(parent).map_err(at("make", parent))?;
                let mut call =
                    GitCommand::anywhere(&project.common_dir, "worktree add --quiet --no-checkout")
                        .writes(&parent.canonicalize().map_err(at("resolve", parent))?);
                if was_there {
                    call = call.arg("--force");
                }
                let call = match head_at {
                    HeadAt::Branch(branch) => call.arg("--").arg(path).arg(branch),
                    HeadAt::Detached(_) => call.arg("--detach").arg("--").arg(path).arg(sha),
                };
                self.bytes(call).await?;
                Place::find(&project.common_dir, path)?
            }
            Err(error) => return Err(error),
        };
        drop(lock);
        let found = self.look(&place).await?;
        head_at.check(found.branch.as_deref())?;
        if found.head.as_deref() != Some(sha) {
            return Err(GitError::elsewhere(head_at.expected(), sha, found.head));
        }
        self.fill(&place, sha).await?;
        self.worktree_at(path).await
    }

    /// Removes a worktree that [`Git::add_worktree`] could not complete, and its branch if that was created for it at
    /// `branch`. Nothing else has been in it: a complete one is left alone.
    ///
    /// If it is interrupted, `add_worktree` continues as if it had never begun: the index, which git writes last, goes
    /// first.
    pub(crate) async fn undo_worktree(
        &self,
        project: &Project,
        path: &Path,
        head_at: HeadAt<'_>,
        branch: Option<&str>,
    ) -> Result<()> {
        let _lock = RepositoryLock::take(&project.common_dir).await?;
        clear_unborn(project, path)?;
        if let Ok(place) = Place::find(&project.common_dir, path) {
            let is_empty = names(path)?.iter().all(|name| name == ".git")
                && place.git_dir.join("index").symlink_metadata().is_err();
            if !place.is_linked() || !is_empty && self.moving(&place).await?.is_none() {
                return Ok(());
            }
            remove(&place.git_dir.join("index"))?;
            let parent = path.parent().unwrap_or(path);
            let parent = parent.canonicalize().map_err(at("resolve", parent))?;
            let call = GitCommand::anywhere(&project.common_dir, "worktree remove --force --")
                .writes(&parent);
            self.run(call.arg(path)).await?;
        }
        let (Some(sha), HeadAt::Branch(_)) = (branch, head_at) else {
            return Ok(());
        };
        let name = head_at.ref_name()?;
        let repository = project.repository();
        if self.resolve(&repository, &name).await?.as_deref() != Some(sha) {
            return Ok(());
        }
        let call = GitCommand::at(&repository, "update-ref --no-deref -d");
        self.run(call.args([&name, sha])).await
    }

    /// Writes the files of a worktree that has none yet, or whose writing was interrupted.
    async fn fill(&self, place: &Place, sha: &str) -> Result<()> {
        let is_empty = names(&place.path)?.iter().all(|name| name == ".git");
        let has_index = place.git_dir.join("index").symlink_metadata().is_ok();
        if is_empty && !has_index {
            self.begin_moving(place, sha).await?;
        } else if self.moving(place).await?.is_none() {
            return Ok(());
        }
        remove(&place.index_lock())?;
        self.reset_hard(place, sha).await?;
        self.end_moving(place).await
    }

    /// Moves the ref of HEAD to `sha`. Returns true if the repository still lists a worktree at
    /// this path whose directory is gone.
    async fn lead_ref(
        &self,
        project: &Project,
        path: &Path,
        head_at: HeadAt<'_>,
        sha: &str,
    ) -> Result<bool> {
        let repository = project.repository();
        if self.resolve(&repository, sha).await?.is_none() {
            return Err(GitError::not_a_commit(sha));
        }
        let listed = self.worktrees(project).await?;
        let is_this = |other: &Listed| other.path == path && path.symlink_metadata().is_err();
        let was_there = listed.iter().any(is_this);
        if let HeadAt::Branch(branch) = head_at {
            let is_used =
                |other: &Listed| other.branch.as_deref() == Some(branch) && !is_this(other);
            if let Some(used) = listed.into_iter().find(is_used) {
                return Err(GitError::BranchInUse {
                    branch: branch.to_owned(),
                    path: used.path,
                });
            }
        }
        let name = head_at.ref_name()?;
        let old = self.resolve(&repository, &name).await?;
        if let Some(old) = &old
            && !self.is_ancestor(&repository, old, sha).await?
        {
            match head_at {
                HeadAt::Branch(branch) => {
                    let found = Some(old.clone());
                    return Err(GitError::elsewhere(branch.to_owned(), sha, found));
                }
                // Commits of the deleted worktree that the remote does not have are kept.
                HeadAt::Detached(_) => {
                    let kept = wip_ref(&format!("rewritten-{old}"))?;
                    self.set_ref(&repository, &kept, old).await?;
                }
            }
        }
        if old.as_deref() != Some(sha) {
            let old = old.unwrap_or_else(|| "0".repeat(sha.len()));
            self.move_ref(&repository, &name, sha, &old).await?;
        }
        Ok(was_there)
    }
}

/// Removes what a killed `git worktree add` leaves behind.
///
/// Git writes `initializing` into the lock of a worktree until it is complete, and would refuse the
/// path forever. A directory with anything in it is left alone.
fn clear_unborn(project: &Project, path: &Path) -> Result<()> {
    while let Some(dir) = unborn(project, path)? {
        remove(&path.join(".git"))?;
        remove(path)?;
        fs::remove_dir_all(&dir).map_err(at("remove", &dir))?;
    }
    Ok(())
}

fn unborn(project: &Project, path: &Path) -> Result<Option<PathBuf>> {
    for dir in super::repository::admin_dirs(&project.common_dir)? {
        let reads = |name: &str| files::read_text(&dir.join(name), SMALL).unwrap_or_default();
        let is_unborn = reads("locked").trim_end() == "initializing" && !dir.join("index").exists();
        let is_its = Path::new(reads("gitdir").trim_end()) == path.join(".git");
        if is_unborn && is_its && (!path.exists() || names(path)?.iter().all(|name| name == ".git"))
        {
            return Ok(Some(dir));
        }
    }
    Ok(None)
}
