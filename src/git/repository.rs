//! Which repository, which worktree, and what is under way in it.

use std::path::{Path, PathBuf};

use super::command::{GitCommand, text};
use super::fs_nofollow::{at, names, path_of};
use super::{Git, GitError};
use crate::closed_enum::closed_enum;
use crate::files::{self, SMALL};

/// Where a worktree is and which git dir is its own: enough to call git there without any discovery, so
/// that it holds even when an agent has removed or bent the `.git` file, HEAD or the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Canonical.
    pub(crate) path: PathBuf,
    pub(crate) git_dir: PathBuf,
    pub(crate) common_dir: PathBuf,
}

/// A worktree as it stands at the moment of the look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Worktree {
    pub(crate) place: Place,
    /// Without `refs/heads/`; none when HEAD is detached (as in the middle of a rebase).
    pub(crate) branch: Option<String>,
    /// None when HEAD names a branch that has no commit, or was deleted.
    pub(crate) head: Option<String>,
    pub(crate) operation: Option<Operation>,
    pub(crate) index_lock: bool,
}

/// A repository, as `project add` needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Project {
    /// The main checkout, canonical; of a bare repository its folder.
    pub(crate) path: PathBuf,
    pub(crate) common_dir: PathBuf,
    pub(crate) bare: bool,
    pub(crate) default_branch: Option<String>,
    /// As it is written in the configuration.
    pub(crate) origin: Option<String>,
}

/// A line of `git worktree list`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) path: PathBuf,
    pub(crate) head: Option<String>,
    pub(crate) branch: Option<String>,
    pub(crate) bare: bool,
    /// Its folder is gone.
    pub(crate) prunable: bool,
}

closed_enum! {
    /// What was begun in a worktree and is not finished.
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
    /// The repository itself, for what needs no worktree: its history, its refs, commits brought into it.
    pub(crate) fn repository(&self) -> Place {
        let dir = self.common_dir.clone();
        Place {
            path: dir.clone(),
            git_dir: dir.clone(),
            common_dir: dir,
        }
    }
}

impl Git {
    pub(crate) async fn project_at(&self, path: &Path) -> Result<Project, GitError> {
        let path = canonical(path)?;
        let ask =
            |what: &str| GitCommand::anywhere(&path, ["rev-parse", "--path-format=absolute", what]);
        let common_dir = canonical(self.line(ask("--git-common-dir")).await?.as_ref())?;
        let git_dir = canonical(self.line(ask("--git-dir")).await?.as_ref())?;
        let format = self
            .line(GitCommand::anywhere(
                &path,
                ["rev-parse", "--show-object-format"],
            ))
            .await?;
        if format != "sha1" {
            return Err(GitError::ObjectFormat { path, format });
        }
        let bare = self.line(ask("--is-bare-repository")).await? == "true";
        let main = if bare {
            common_dir.clone()
        } else if git_dir == common_dir {
            canonical(self.line(ask("--show-toplevel")).await?.as_ref())?
        } else {
            let first = self
                .listed(GitCommand::anywhere(&path, LIST))
                .await?
                .into_iter()
                .next();
            first
                .ok_or(GitError::NotARepository { path: path.clone() })?
                .path
        };
        let bare = bare || canonical(&main)? == common_dir;
        let origin = self
            .maybe_line(GitCommand::anywhere(
                &path,
                ["config", "--get", "remote.origin.url"],
            ))
            .await?;
        let default_branch = self.default_branch(&path).await?;
        Ok(Project {
            path: canonical(&main)?,
            common_dir,
            bare,
            default_branch,
            origin,
        })
    }

    /// What the remote calls its default, else `main` or `master`, else the only branch there is.
    async fn default_branch(&self, path: &Path) -> Result<Option<String>, GitError> {
        let named = GitCommand::anywhere(path, ["symbolic-ref", "-q", "refs/remotes/origin/HEAD"]);
        if let Some(name) = self.maybe_line(named).await? {
            return Ok(name.strip_prefix("refs/remotes/origin/").map(str::to_owned));
        }
        let call = GitCommand::anywhere(
            path,
            [
                "for-each-ref",
                "--format=%(refname:lstrip=2)",
                "refs/heads/",
            ],
        );
        let branches = text("for-each-ref", self.bytes(call).await?)?;
        let branches: Vec<&str> = branches.lines().collect();
        let usual = ["main", "master"]
            .into_iter()
            .find(|name| branches.contains(name));
        let only = if let [only] = branches.as_slice() {
            Some(*only)
        } else {
            None
        };
        Ok(usual.or(only).map(str::to_owned))
    }

    /// The top of the worktree that a folder is in, for a person who stands somewhere below it.
    pub(crate) async fn top_of(&self, path: &Path) -> Result<PathBuf, GitError> {
        let path = canonical(path)?;
        let call = GitCommand::anywhere(
            &path,
            ["rev-parse", "--path-format=absolute", "--show-toplevel"],
        );
        canonical(self.line(call).await?.as_ref())
    }

    /// The worktree whose top is exactly `path`; a folder inside one, or one whose `.git` leads elsewhere, is none.
    pub(crate) async fn worktree_at(&self, path: &Path) -> Result<Worktree, GitError> {
        let path = canonical(path)?;
        let ask =
            |what: &str| GitCommand::anywhere(&path, ["rev-parse", "--path-format=absolute", what]);
        let common_dir = canonical(self.line(ask("--git-common-dir")).await?.as_ref())?;
        let git_dir = canonical(self.line(ask("--git-dir")).await?.as_ref())?;
        let place = Place::find(&common_dir, &path)?;
        if place.git_dir != git_dir {
            return Err(GitError::NotThisWorktree { path, common_dir });
        }
        self.look(&place).await
    }

    /// HEAD and what is under way. Fails when HEAD itself is broken.
    pub(crate) async fn look(&self, place: &Place) -> Result<Worktree, GitError> {
        let branch = self.head_ref(place).await?;
        Ok(Worktree {
            place: place.clone(),
            branch: branch.and_then(|name| name.strip_prefix("refs/heads/").map(str::to_owned)),
            head: self.resolve(place, "HEAD").await?,
            operation: place.operation(),
            index_lock: place.index_lock().symlink_metadata().is_ok(),
        })
    }

    /// The full name of the ref that HEAD names, through every symbolic ref on the way.
    pub(super) async fn head_ref(&self, place: &Place) -> Result<Option<String>, GitError> {
        self.maybe_line(GitCommand::at(place, ["symbolic-ref", "-q", "HEAD"]))
            .await
    }

    /// All worktrees of a project, the main checkout first.
    pub(crate) async fn worktrees(&self, project: &Project) -> Result<Vec<Listed>, GitError> {
        self.listed(GitCommand::anywhere(&project.common_dir, LIST))
            .await
    }

    async fn listed(&self, call: GitCommand) -> Result<Vec<Listed>, GitError> {
        let mut all = read_list(&self.bytes(call).await?);
        // A confined git does not see the other worktrees, so it can't tell which are gone.
        for linked in all.iter_mut().skip(1) {
            linked.prunable = linked.path.join(".git").symlink_metadata().is_err();
        }
        Ok(all)
    }
}

const LIST: [&str; 4] = ["worktree", "list", "--porcelain", "-z"];

fn read_list(bytes: &[u8]) -> Vec<Listed> {
    let mut all: Vec<Listed> = Vec::new();
    for line in bytes.split(|b| *b == 0) {
        let (key, value) = match line.iter().position(|b| *b == b' ') {
            Some(at) => (
                line.get(..at).unwrap_or_default(),
                line.get(at + 1..).unwrap_or_default(),
            ),
            None => (line, &[][..]),
        };
        if key == b"worktree" {
            all.push(Listed {
                path: path_of(value),
                head: None,
                branch: None,
                bare: false,
                prunable: false,
            });
        }
        let Some(last) = all.last_mut() else { continue };
        let value = String::from_utf8_lossy(value);
        match key {
            b"HEAD" => last.head = Some(value.into_owned()),
            b"branch" => {
                last.branch = Some(
                    value
                        .strip_prefix("refs/heads/")
                        .unwrap_or(&value)
                        .to_owned(),
                );
            }
            b"bare" => last.bare = true,
            _ => {}
        }
    }
    all
}

impl Place {
    /// Finds the worktree `path` of the repository `common_dir` from the repository's side, so it also
    /// finds one whose `.git` file is gone.
    pub(crate) fn find(common_dir: &Path, path: &Path) -> Result<Self, GitError> {
        files::aside(|| Self::search(common_dir, path))
    }

    fn search(common_dir: &Path, path: &Path) -> Result<Self, GitError> {
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
        if path
            .join(".git")
            .canonicalize()
            .is_ok_and(|dir| dir == common_dir)
            || points_at(&path, &common_dir)
        {
            return Ok(place(common_dir.clone()));
        }
        Err(GitError::NotThisWorktree {
            path: path.clone(),
            common_dir: common_dir.clone(),
        })
    }

    /// Still a folder, and no symlink to another: asked before files are written without git.
    pub(super) fn check(&self) -> Result<(), GitError> {
        if canonical(&self.path)? == self.path {
            Ok(())
        } else {
            Err(GitError::NotThere {
                path: self.path.clone(),
            })
        }
    }

    /// Its git dir is not the one that all worktrees share.
    pub(crate) fn is_linked(&self) -> bool {
        self.git_dir != self.common_dir
    }

    pub(super) fn index_lock(&self) -> PathBuf {
        self.git_dir.join("index.lock")
    }

    fn operation(&self) -> Option<Operation> {
        let there = |name: &str| self.git_dir.join(name).symlink_metadata().is_ok();
        if there("rebase-apply/applying") {
            Some(Operation::Am)
        } else if there("rebase-merge") || there("rebase-apply") {
            Some(Operation::Rebase)
        } else if there("MERGE_HEAD") {
            Some(Operation::Merge)
        } else if there("REVERT_HEAD") {
            Some(Operation::Revert)
        } else if there("CHERRY_PICK_HEAD") || there("sequencer") {
            Some(Operation::CherryPick)
        } else if there("BISECT_LOG") {
            Some(Operation::Bisect)
        } else {
            None
        }
    }
}

pub(super) fn admin_dirs(common_dir: &Path) -> Result<Vec<PathBuf>, GitError> {
    let dir = common_dir.join("worktrees");
    let all = names(&dir)?.into_iter().map(|name| dir.join(name));
    Ok(all
        .filter(|path| path.symlink_metadata().is_ok_and(|meta| meta.is_dir()))
        .collect())
}

/// A `.git` file that names the common dir itself: a submodule, or a separate git dir.
fn points_at(path: &Path, common_dir: &Path) -> bool {
    let Ok(text) = files::read(&path.join(".git"), SMALL) else {
        return false;
    };
    let Some(target) = text.trim_ascii_end().strip_prefix(b"gitdir: ") else {
        return false;
    };
    path.join(path_of(target))
        .canonicalize()
        .is_ok_and(|dir| dir == common_dir)
}

/// The canonical path of a folder that is no symlink itself.
fn canonical(path: &Path) -> Result<PathBuf, GitError> {
    let there = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    if !there {
        return Err(GitError::NotThere {
            path: path.to_owned(),
        });
    }
    path.canonicalize().map_err(at("resolve", path))
}
