//! Expected position of a worktree's HEAD: on a branch, or detached with a ref of remand's that
//! keeps its commits.

use super::command::GitCommand;
use super::history::check_sha;
use super::{Git, GitError, Place, Result, check_branch_name};

/// Prefix of the refs that keep the commits of changes with a detached worktree.
const CHANGES: &str = "refs/remand/change/";

/// Expected position of a worktree's HEAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadAt<'a> {
    /// On this branch.
    Branch(&'a str),
    /// On no branch, so that none is locked. `refs/remand/change/ID` of this change keeps the
    /// commits.
    Detached(&'a str),
}

impl<'a> From<&'a str> for HeadAt<'a> {
    fn from(branch: &'a str) -> Self {
        Self::Branch(branch)
    }
}

impl<'a> HeadAt<'a> {
    /// Parses the result of [`HeadAt::ref_name`] or the name of a branch.
    pub(crate) fn parse(name: &'a str) -> Self {
        name.strip_prefix(CHANGES)
            .map_or(Self::Branch(name), Self::Detached)
    }

    /// Full name of the ref that moves with HEAD.
    pub(crate) fn ref_name(self) -> Result<String> {
        match self {
            Self::Branch(branch) => {
                check_branch_name(branch)?;
                Ok(format!("refs/heads/{branch}"))
            }
            Self::Detached(change) => {
                let is_id = !change.is_empty()
                    && change.len() <= 100
                    && change.bytes().all(|b| b.is_ascii_alphanumeric());
                if !is_id {
                    return Err(GitError::not_a_ref(change));
                }
                Ok(format!("{CHANGES}{change}"))
            }
        }
    }

    /// Returns true if a HEAD on this branch (`None`: detached) is at the expected position.
    pub(crate) fn fits(self, branch: Option<&str>) -> bool {
        match self {
            Self::Branch(expected) => branch == Some(expected),
            Self::Detached(_) => branch.is_none(),
        }
    }

    /// Checks that a HEAD on this branch (`None`: detached) is at the expected position.
    pub(super) fn check(self, branch: Option<&str>) -> Result<()> {
        if self.fits(branch) {
            return Ok(());
        }
        Err(GitError::NotOnBranch {
            expected: self.expected(),
            found: branch.map(str::to_owned),
        })
    }

    /// Describes the expected position.
    pub(crate) fn expected(self) -> String {
        match self {
            Self::Branch(branch) => branch.to_owned(),
            Self::Detached(_) => "a detached HEAD".to_owned(),
        }
    }
}

impl Git {
    /// Sets HEAD to its expected position, at this commit, without touching index or files.
    ///
    /// The ref that keeps the commit moves first: if interrupted between the two, no commit is
    /// without a ref.
    pub(super) async fn set_head(
        &self,
        place: &Place,
        head_at: HeadAt<'_>,
        sha: &str,
    ) -> Result<()> {
        check_sha(sha)?;
        let name = head_at.ref_name()?;
        self.set_ref(place, &name, sha).await?;
        match head_at {
            HeadAt::Branch(_) => {
                let call = GitCommand::at(place, "symbolic-ref HEAD");
                self.run(call.arg(name)).await
            }
            HeadAt::Detached(_) => self.set_ref(place, "HEAD", sha).await,
        }
    }

    /// Points a ref at a commit without following symbolic refs: a planted one would move the
    /// branch that it names.
    pub(super) async fn set_ref(&self, place: &Place, name: &str, sha: &str) -> Result<()> {
        let call = GitCommand::at(place, "update-ref --no-deref");
        self.run(call.args([name, sha])).await
    }

    /// Points a ref at a commit if it is still at the old one, since someone may have moved it.
    /// Zeros mean that the ref must not exist.
    pub(super) async fn move_ref(
        &self,
        place: &Place,
        name: &str,
        sha: &str,
        old: &str,
    ) -> Result<()> {
        let call = GitCommand::at(place, "update-ref --no-deref");
        self.run(call.args([name, sha, old])).await
    }

    /// Sets the index, the files and the branch of HEAD to a commit.
    pub(super) async fn reset_hard(&self, place: &Place, sha: &str) -> Result<()> {
        let call = GitCommand::at(place, "reset --quiet --hard");
        self.run(call.args([sha, "--"])).await
    }

    /// Moves the ref that keeps the commits of a detached worktree to its HEAD. A branch moves with
    /// HEAD by itself.
    pub(crate) async fn keep_head(&self, place: &Place, head_at: HeadAt<'_>) -> Result<()> {
        if let HeadAt::Branch(_) = head_at {
            return Ok(());
        }
        let head = self.head_commit(place).await?;
        let name = head_at.ref_name()?;
        if self.resolve(place, &name).await?.as_ref() == Some(&head) {
            return Ok(());
        }
        self.set_ref(place, &name, &head).await
    }

    /// Detaches HEAD of a worktree at its current commit. The branch and everything else stay
    /// unchanged.
    pub(crate) async fn detach(&self, place: &Place, head_at: HeadAt<'_>) -> Result<()> {
        let head = self.head_commit(place).await?;
        self.set_head(place, head_at, &head).await
    }

    /// Returns the commit of HEAD, which must exist.
    pub(super) async fn head_commit(&self, place: &Place) -> Result<String> {
        let head = self.resolve(place, "HEAD").await?;
        head.ok_or_else(|| GitError::not_a_ref("HEAD"))
    }
}
