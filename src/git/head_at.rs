//! Where HEAD of a worktree belongs: on a branch, or detached with a ref of remand's own that keeps its commits.

use super::command::GitCommand;
use super::history::check_sha;
use super::{Git, GitError, Place, check_branch_name};

/// Below it stand the commits of changes whose worktrees are detached.
const CHANGES: &str = "refs/remand/change/";

/// Where HEAD of a worktree belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadAt<'a> {
    /// On this branch.
    Branch(&'a str),
    /// On no branch, so that it locks none. `refs/remand/change/ID` of this change keeps the commits.
    Detached(&'a str),
}

impl<'a> From<&'a str> for HeadAt<'a> {
    fn from(branch: &'a str) -> Self {
        Self::Branch(branch)
    }
}

impl<'a> HeadAt<'a> {
    /// Reads what [`HeadAt::ref_name`] or a branch's name says.
    pub(crate) fn parse(name: &'a str) -> Self {
        name.strip_prefix(CHANGES)
            .map_or(Self::Branch(name), Self::Detached)
    }

    /// The full name of the ref that moves with HEAD.
    pub(crate) fn ref_name(self) -> Result<String, GitError> {
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
                    return Err(GitError::NotARef {
                        text: change.chars().take(80).collect(),
                    });
                }
                Ok(format!("{CHANGES}{change}"))
            }
        }
    }

    /// Whether a HEAD that is on this branch, or on none, is where it belongs.
    pub(crate) fn fits(self, branch: Option<&str>) -> bool {
        match self {
            Self::Branch(expected) => branch == Some(expected),
            Self::Detached(_) => branch.is_none(),
        }
    }

    /// In words.
    pub(crate) fn expected(self) -> String {
        match self {
            Self::Branch(branch) => branch.to_owned(),
            Self::Detached(_) => "a detached HEAD".to_owned(),
        }
    }
}

impl Git {
    /// Puts HEAD where it belongs, at this commit. Index and files stay as they are. The ref that keeps the commit moves
    /// first: cut between the two, no commit is without a ref.
    pub(super) async fn set_head(
        &self,
        place: &Place,
        head_at: HeadAt<'_>,
        sha: &str,
    ) -> Result<(), GitError> {
        check_sha(sha)?;
        let name = head_at.ref_name()?;
        // Not through a symbolic ref: one planted here would reset the branch that it points at.
        self.bytes(GitCommand::at(
            place,
            ["update-ref", "--no-deref", &name, sha],
        ))
        .await?;
        match head_at {
            HeadAt::Branch(_) => {
                self.bytes(GitCommand::at(place, ["symbolic-ref", "HEAD", &name]))
                    .await?
            }
            HeadAt::Detached(_) => {
                self.bytes(GitCommand::at(
                    place,
                    ["update-ref", "--no-deref", "HEAD", sha],
                ))
                .await?
            }
        };
        Ok(())
    }

    /// Moves the ref that keeps the commits of a detached worktree to where its HEAD is. A branch moves with HEAD by itself.
    pub(crate) async fn keep_head(
        &self,
        place: &Place,
        head_at: HeadAt<'_>,
    ) -> Result<(), GitError> {
        if let HeadAt::Branch(_) = head_at {
            return Ok(());
        }
        let head = self
            .resolve(place, "HEAD")
            .await?
            .ok_or_else(|| GitError::NotARef {
                text: "HEAD".to_owned(),
            })?;
        let name = head_at.ref_name()?;
        if self.resolve(place, &name).await?.as_ref() == Some(&head) {
            return Ok(());
        }
        self.bytes(GitCommand::at(
            place,
            ["update-ref", "--no-deref", &name, &head],
        ))
        .await
        .map(drop)
    }

    /// Detaches HEAD of a worktree that is on a branch, at the commit where it is. Nothing else changes; the branch stays.
    pub(crate) async fn detach(&self, place: &Place, head_at: HeadAt<'_>) -> Result<(), GitError> {
        match self.resolve(place, "HEAD").await? {
            Some(head) => self.set_head(place, head_at, &head).await,
            None => Err(GitError::NotARef {
                text: "HEAD".to_owned(),
            }),
        }
    }
}
