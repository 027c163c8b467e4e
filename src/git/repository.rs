//! Repositories, worktrees, and operations in progress.

use std::path::{Path, PathBuf};

use super::bytes::{lossy, split_once};
use super::command::GitCommand;
use super::config_files::leads_to_common_dir;
use super::fs_nofollow::{at, leads_to, path_of, paths_in, without_line_end};
use super::{Git, GitError, Result};
use crate::closed_enum::closed_enum;
use crate::files::{self, SMALL};

/// Location of a worktree and its git dir.
///
/// This is enough to call git without any discovery, so it still works after an agent has removed
/// or changed the `.git` file, HEAD or the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Canonical path.
    pub(crate) path: PathBuf,
    pub(crate) git_dir: PathBuf,
    pub(crate) common_dir: PathBuf,
}

/// Snapshot of a worktree's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Worktree {
    pub(crate) place: Place,
    /// Branch without `refs/heads/`; `None` if HEAD is detached (as in the middle of a rebase).
    pub(crate) branch: Option<String>,
    /// Commit of HEAD; `None` if HEAD names a branch that has no commit or was deleted.
    pub(crate) head: Option<String>,
    pub(crate) operation: Option<Operation>,
    pub(crate) index_lock: bool,
}

/// Repository, with what `project add` needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Project {
    /// Canonical path of the main checkout; for a bare repository, its directory.
    pub(crate) path: PathBuf,
    pub(crate) common_dir: PathBuf,
    pub(crate) bare: bool,
    pub(crate) default_branch: Option<String>,
    /// URL as written in the configuration.
    pub(crate) origin: Option<String>,
}

/// Line of `git worktree list`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Listed {
    pub(crate) path: PathBuf,
    pub(crate) head: Option<String>,
    pub(crate) branch: Option<String>,
    pub(crate) bare: bool,
    /// Set if its directory is gone.
    pub(crate) prunable: bool,
}

closed_enum! {
    /// Operation that was started in a worktree and is not finished.
    "operation" Operation {
        Rebase = "rebase",
        Am = "am",
        Merge = "merge",
        CherryPick = "cherry_pick",
        Revert = "revert",
        Bisect = "bisect",
    }
}

impl Project {
    /// Returns the repository itself, for operations that need no worktree: history, refs, imported
    /// commits.
    pub(crate) fn repository(&self) -> Place {
        Place::bare(self.common_dir.clone())
    }
}

impl Git {
    pub(crate) async fn project_at(&self, path: &Path) -> Result<Project> {
        let path = canonical(path)?;
        let ask =
            |what: &str| GitCommand::anywhere(&path, "rev-parse --path-format=absolute").arg(what);
        let (common_dir, git_dir) = self.git_dirs(&path).await?;
        let format = GitCommand::anywhere(&path, "rev-parse --show-object-format");
        let format = self.line(format).await?;
        if format != "sha1" {
            return Err(GitError::ObjectFormat { path, format });
        }
        let bare = self.line(ask("--is-bare-repository")).await? == "true";
        let main = if bare {
            common_dir.clone()
        } else if git_dir == common_dir {
            canonical(self.line(ask("--show-toplevel")).await?.as_ref())?
        } else {
            let listed = self.listed(&path).await?.into_iter().next();
            let none = || GitError::NotARepository { path: path.clone() };
            listed.ok_or_else(none)?.path
        };
        let main = canonical(&main)?;
        let origin = GitCommand::anywhere(&path, "config --get remote.origin.url");
        Ok(Project {
            bare: bare || main == common_dir,
            path: main,
            common_dir,
            origin: self.maybe_line(origin).await?,
            default_branch: self.default_branch(&path).await?,
        })
    }

    /// Returns the common dir and the git dir that git discovers from a directory.
    async fn git_dirs(&self, path: &Path) -> Result<(PathBuf, PathBuf)> {
        let call = "rev-parse --path-format=absolute --git-common-dir --git-dir";
        let answer = self.text(GitCommand::anywhere(path, call)).await?;
        // A path with a line break is refused.
        let [common_dir, git_dir] = answer.lines().collect::<Vec<_>>()[..] else {
            return Err(GitError::output("rev-parse", answer.as_bytes()));
        };
        Ok((
            canonical(common_dir.as_ref())?,
            canonical(git_dir.as_ref())?,
        ))
    }

    /// Returns the remote's default branch, otherwise `main` or `master`, otherwise the only
    /// branch.
    async fn default_branch(&self, path: &Path) -> Result<Option<String>> {
        let named = GitCommand::anywhere(path, "symbolic-ref -q refs/remotes/origin/HEAD");
        if let Some(name) = self.maybe_line(named).await? {
            return Ok(name.strip_prefix("refs/remotes/origin/").map(str::to_owned));
        }
        let call = "for-each-ref --format=%(refname:lstrip=2) refs/heads/";
        let mut branches = self.lines(GitCommand::anywhere(path, call)).await?;
        for usual in ["main", "master"] {
            if branches.iter().any(|branch| branch == usual) {
                return Ok(Some(usual.to_owned()));
            }
        }
        Ok(branches.pop().filter(|_| branches.is_empty()))
    }

    /// Returns the top of the worktree that contains a directory, for a person who is somewhere
    /// below it.
    pub(crate) async fn top_of(&self, path: &Path) -> Result<PathBuf> {
        let path = canonical(path)?;
        let call = GitCommand::anywhere(&path, "rev-parse --path-format=absolute --show-toplevel");
        canonical(self.line(call).await?.as_ref())
    }

    /// Returns the worktree whose top is exactly `path`; an error for a directory inside one, or
    /// for one whose `.git` leads elsewhere.
    pub(crate) async fn worktree_at(&self, path: &Path) -> Result<Worktree> {
        let path = canonical(path)?;
        let (common_dir, git_dir) = self.git_dirs(&path).await?;
        let place = Place::find(&common_dir, &path)?;
        if place.git_dir != git_dir {
            return Err(GitError::NotThisWorktree { path, common_dir });
        }
        self.look(&place).await
    }

    /// Lists all worktrees of a project, the main checkout first.
    pub(crate) async fn worktrees(&self, project: &Project) -> Result<Vec<Listed>> {
        self.listed(&project.common_dir).await
    }

    async fn listed(&self, folder: &Path) -> Result<Vec<Listed>> {
        let call = GitCommand::anywhere(folder, "worktree list --porcelain -z");
        let mut all = read_list(&self.bytes(call).await?);
        // A confined git does not see the other worktrees, so it cannot determine which are gone.
        for linked in all.iter_mut().skip(1) {
            linked.prunable = linked.path.join(".git").symlink_metadata().is_err();
        }
        Ok(all)
    }
}

fn read_list(bytes: &[u8]) -> Vec<Listed> {
    let mut all: Vec<Listed> = Vec::new();
    for line in bytes.split(|b| *b == 0) {
        let (key, value) = split_once(line, b' ').unwrap_or((line, &[]));
        if key == b"worktree" {
            all.push(Listed {
                path: path_of(value),
                ..Listed::default()
            });
        }
        let Some(last) = all.last_mut() else { continue };
        match key {
            b"HEAD" => last.head = Some(lossy(value)),
            b"branch" => {
                last.branch = Some(lossy(value.strip_prefix(b"refs/heads/").unwrap_or(value)));
            }
            b"bare" => last.bare = true,
            _ => {}
        }
    }
    all
}

impl Place {
    /// Creates the place of a repository without a worktree.
    pub(crate) fn bare(git_dir: PathBuf) -> Self {
        Self::with_git_dir(git_dir.clone(), git_dir)
    }

    /// Creates the place of a worktree with a git dir that it does not share.
    pub(crate) fn with_git_dir(path: PathBuf, git_dir: PathBuf) -> Self {
        Self {
            path,
            git_dir: git_dir.clone(),
            common_dir: git_dir,
        }
    }

    /// Finds the worktree `path` of the repository `common_dir` from the repository's side, so that
    /// it also finds one whose `.git` file is gone.
    pub(crate) fn find(common_dir: &Path, path: &Path) -> Result<Self> {
        files::aside(|| Self::search(common_dir, path))
    }

    fn search(common_dir: &Path, path: &Path) -> Result<Self> {
        let path = canonical(path)?;
        let common_dir = canonical(common_dir)?;
        let place = |git_dir: PathBuf| Self {
            path: path.clone(),
            git_dir,
            common_dir: common_dir.clone(),
        };
        for git_dir in admin_dirs(&common_dir)? {
            let Ok(link) = files::read(&git_dir.join("gitdir"), SMALL) else {
                continue;
            };
            let link = git_dir.join(path_of(link.trim_ascii_end()));
            let top = link.parent().and_then(|top| top.canonicalize().ok());
            if top.as_ref() == Some(&path) {
                return Ok(place(git_dir));
            }
        }
        if leads_to(&path.join(".git"), &common_dir) || points_at(&path, &common_dir) {
            return Ok(place(common_dir.clone()));
        }
        Err(GitError::NotThisWorktree { path, common_dir })
    }

    /// Like [`Place::find`], if the worktree's own `.git` leads back to the same repository, as a
    /// discovery by git would find.
    pub(crate) fn find_both_ways(common_dir: &Path, path: &Path) -> Option<Self> {
        files::aside(|| {
            let place = Self::search(common_dir, path).ok()?;
            let leads_back = !place.is_linked() || points_at(&place.path, &place.git_dir);
            (leads_back && leads_to_common_dir(&place)).then_some(place)
        })
    }

    /// Checks that the worktree is still a directory and not a symlink to another one; called
    /// before files are written without git.
    pub(super) fn check(&self) -> Result<()> {
        if canonical(&self.path)? == self.path {
            Ok(())
        } else {
            Err(GitError::not_there(&self.path))
        }
    }

    /// Returns true if its git dir is not the one that all worktrees share.
    pub(crate) fn is_linked(&self) -> bool {
        self.git_dir != self.common_dir
    }

    pub(super) fn index_lock(&self) -> PathBuf {
        self.git_dir.join("index.lock")
    }

    pub(super) fn operation(&self) -> Option<Operation> {
        let is_there = |name: &str| self.git_dir.join(name).symlink_metadata().is_ok();
        let of_file = [
            ("rebase-apply/applying", Operation::Am),
            ("rebase-merge", Operation::Rebase),
            ("rebase-apply", Operation::Rebase),
            ("MERGE_HEAD", Operation::Merge),
            ("REVERT_HEAD", Operation::Revert),
            ("CHERRY_PICK_HEAD", Operation::CherryPick),
            ("sequencer", Operation::CherryPick),
            ("BISECT_LOG", Operation::Bisect),
        ];
        let found = of_file.into_iter().find(|(name, _)| is_there(name));
        found.map(|(_, operation)| operation)
    }
}

pub(super) fn admin_dirs(common_dir: &Path) -> Result<Vec<PathBuf>> {
    let mut all = paths_in(&common_dir.join("worktrees"))?;
    all.retain(|path| path.symlink_metadata().is_ok_and(|meta| meta.is_dir()));
    Ok(all)
}

/// Returns true for a `.git` file that names this directory: the git dir of a linked worktree, or
/// the common dir of a submodule or of a repository with a separate git dir.
pub(super) fn points_at(path: &Path, git_dir: &Path) -> bool {
    let text = files::read(&path.join(".git"), SMALL).unwrap_or_default();
    let target = without_line_end(&text).strip_prefix(b"gitdir: ");
    target.is_some_and(|target| leads_to(&path.join(path_of(target)), git_dir))
}

/// Returns the canonical path of a directory that is not itself a symlink.
fn canonical(path: &Path) -> Result<PathBuf> {
    let there = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    if !there {
        return Err(GitError::not_there(path));
    }
    path.canonicalize().map_err(at("resolve", path))
}
