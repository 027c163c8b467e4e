//! Removes a worktree that remand created, and never one with work in it.
//!
//! The directory is first renamed, which is atomic, and checked once more under its new name, where
//! nobody works. Then the repository forgets it, and its files are deleted. A removal that was
//! interrupted is continued by the next one, and so it never leaves half a worktree.

use std::fs;
use std::path::{Path, PathBuf};

use super::checkout::{blocking, remove_all};
use super::command::GitCommand;
use super::fs_nofollow::{at, path_of, sync_folder};
use super::lock::RepositoryLock;
use super::repository::admin_dirs;
use super::{Git, HeadAt, Place, Project, Result};
use crate::failpoint::crash_point;
use crate::files::{self, SMALL};

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
    /// its commits. Without `head_at`, any ref may keep them.
    pub(crate) async fn sweepable(
        &self,
        project: &Project,
        path: &Path,
        head_at: impl Into<Option<HeadAt<'_>>>,
    ) -> Result<Sweep> {
        if path.symlink_metadata().is_err() {
            return Ok(match moved_away(path).symlink_metadata() {
                Ok(_) => Sweep::Clean,
                Err(_) => Sweep::Gone,
            });
        }
        if let Some(old) = replaced(path) {
            return self.leftover(project, path, &old).await;
        }
        let moved = moved_away(path);
        if moved.symlink_metadata().is_ok() {
            return Ok(Sweep::Stays(in_the_way(&moved)));
        }
        let place = Place::find(&project.common_dir, path)?;
        if let Some(why) = kept_as_it_is(&place, path) {
            return Ok(Sweep::Stays(why));
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
        let is_kept = match (head_at.into(), &now.head) {
            // A person's branch is left to that person.
            (Some(head_at), _) if !head_at.fits(now.branch.as_deref()) => {
                let found = now.branch.as_deref().unwrap_or("no branch");
                return Ok(Sweep::Stays(format!(
                    "it is on {found}, not on {}",
                    head_at.expected()
                )));
            }
            (_, None) => true,
            (Some(head_at), Some(head)) => {
                match self.resolve(&place, &head_at.ref_name()?).await? {
                    Some(kept) => self.is_ancestor(&place, head, &kept).await?,
                    None => false,
                }
            }
            (None, Some(head)) => now.branch.is_some() || self.is_on_a_ref(&place, head).await?,
        };
        // Commits that no ref leads to would be lost with it.
        if !is_kept {
            return Ok(Sweep::Stays(
                "its commits are not reachable from any ref".into(),
            ));
        }
        Ok(self
            .uncommitted(&place)
            .await?
            .map_or(Sweep::Clean, Sweep::Stays))
    }

    /// Returns the reason why the files of a worktree are not all committed.
    async fn uncommitted(&self, place: &Place) -> Result<Option<String>> {
        let status = self.status(place).await?;
        if let Some(path) = status.changed.iter().chain(&status.untracked).next() {
            return Ok(Some(format!("it has uncommitted work: {path}")));
        }
        // Files hidden from git do not appear in its status.
        let hidden = self.text(GitCommand::at(place, "ls-files -v -z")).await?;
        let is_hidden =
            |line: &&str| line.starts_with(|tag: char| tag == 'S' || tag.is_ascii_lowercase());
        Ok(hidden.split('\0').find(is_hidden).map(|line| {
            let path = line.get(2..).unwrap_or_default();
            format!("it has a file marked skip-worktree or assume-unchanged: {path}")
        }))
    }

    /// Checks the directory of an interrupted removal whose old path is in use again. Its files may have been deleted in
    /// part, and git may have forgotten it, which it does only after everything was found to be committed.
    async fn leftover(&self, project: &Project, moved: &Path, old: &Path) -> Result<Sweep> {
        if !moved.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            return Ok(Sweep::Stays("it is not a directory".into()));
        }
        let Some(git_dir) = admin_dir(project, old)? else {
            return Ok(Sweep::Clean);
        };
        let place = Place {
            path: moved.to_owned(),
            git_dir,
            common_dir: project.common_dir.clone(),
        };
        let status = self.status(&place).await?;
        let is_there = |path: &&String| moved.join(path).symlink_metadata().is_ok();
        let work = status
            .changed
            .iter()
            .chain(&status.untracked)
            .find(is_there);
        Ok(match work {
            Some(path) => Sweep::Stays(format!("it has uncommitted work: {path}")),
            None => Sweep::Clean,
        })
    }

    /// Makes git forget a worktree whose directory is gone.
    pub(crate) async fn forget_worktree(&self, project: &Project, path: &Path) -> Result<()> {
        let _lock = RepositoryLock::take(&project.common_dir).await?;
        if path.symlink_metadata().is_ok() || admin_dir(project, path)?.is_none() {
            return Ok(());
        }
        let call = GitCommand::anywhere(&project.common_dir, "worktree remove --")
            .writes(&project.common_dir);
        self.run(call.arg(path)).await.map(drop)
    }

    async fn is_on_a_ref(&self, place: &Place, sha: &str) -> Result<bool> {
        let call = GitCommand::at(
            place,
            "for-each-ref --count=1 --format=%(refname) --contains",
        );
        Ok(!self.lines(call.arg(sha)).await?.is_empty())
    }

    /// Removes a worktree that was found to be clean: `Gone` if it was removed. `Stays` if it has
    /// changed since.
    pub(crate) async fn remove_worktree(&self, project: &Project, path: &Path) -> Result<Sweep> {
        let lock = RepositoryLock::take(&project.common_dir).await?;
        let parent = path.parent().unwrap_or(path);
        let parent = parent.canonicalize().map_err(at("resolve", parent))?;
        let path = parent.join(path.file_name().unwrap_or_default());
        if let Some(old) = replaced(&path) {
            let sweep = self.leftover(project, &path, &old).await?;
            if sweep == Sweep::Clean {
                drop(lock);
                blocking(move || remove_all(&path)).await?;
                return Ok(Sweep::Gone);
            }
            return Ok(sweep);
        }
        let moved = moved_away(&path);
        let is_moved = moved.symlink_metadata().is_ok();
        if path.symlink_metadata().is_ok() {
            if is_moved {
                return Ok(Sweep::Stays(in_the_way(&moved)));
            }
            // Refuses a symlink.
            Place::find(&project.common_dir, &path)?.check()?;
            fs::rename(&path, &moved).map_err(at("rename", &path))?;
            sync_folder(&parent)?;
        }
        crash_point!("git.worktree.moved");
        if let Some(git_dir) = admin_dir(project, &path)? {
            let place = Place {
                path: moved.clone(),
                git_dir,
                common_dir: project.common_dir.clone(),
            };
            if moved.symlink_metadata().is_ok()
                && let Some(why) = self.uncommitted(&place).await?
            {
                fs::rename(&moved, &path).map_err(at("rename", &moved))?;
                return Ok(Sweep::Stays(why));
            }
            let call =
                GitCommand::anywhere(&project.common_dir, "worktree remove --").writes(&parent);
            self.run(call.arg(&path)).await?;
        }
        crash_point!("git.worktree.forgotten");
        // Deleting many files takes long, and concerns only this removal.
        drop(lock);
        blocking(move || remove_all(&moved)).await?;
        Ok(Sweep::Gone)
    }
}

/// Reasons for keeping a worktree that do not depend on its files.
fn kept_as_it_is(place: &Place, path: &Path) -> Option<String> {
    let is_there = |name: &str| place.git_dir.join(name).symlink_metadata().is_ok();
    if !place.is_linked() {
        Some("it is the main checkout".into())
    } else if path.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
        Some("it is a symbolic link".into())
    } else if is_there("locked") {
        Some("it is locked (`git worktree unlock` unlocks it)".into())
    } else if is_there("modules") {
        // Their commits would be lost with it.
        Some("it has submodules".into())
    } else {
        None
    }
}

/// Returns the git dir of the worktree at this path, whether or not it exists. The parent must be
/// canonical.
fn admin_dir(project: &Project, path: &Path) -> Result<Option<PathBuf>> {
    let git_file = path.join(".git");
    let is_its = |dir: &PathBuf| {
        let link = files::read(&dir.join("gitdir"), SMALL).unwrap_or_default();
        dir.join(path_of(link.trim_ascii_end())) == git_file
    };
    Ok(admin_dirs(&project.common_dir)?.into_iter().find(is_its))
}

/// Returns the name that a worktree has while it is removed. Git does not allow it as the name of a
/// branch, so that no worktree of remand is called that.
fn moved_away(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.removed"))
}

fn in_the_way(moved: &Path) -> String {
    let moved = moved.display();
    format!(
        "an earlier removal left {moved}: remove that first (`remand worktrees --remove {moved}`)"
    )
}

/// Returns the old path of a directory that was moved away, if something has that path again.
pub(crate) fn replaced(path: &Path) -> Option<PathBuf> {
    before_removal(path).filter(|old| old.symlink_metadata().is_ok())
}

/// Returns the path that a worktree had before [`moved_away`], if it is the result of that.
pub(crate) fn before_removal(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_prefix('.')?.strip_suffix(".removed")?;
    (!name.is_empty()).then(|| path.with_file_name(name))
}
