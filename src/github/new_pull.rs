//! Opens a pull request for a branch, and finds those that it has.
//!
//! Nothing here is repeated. GitHub names some reasons for a refusal only in English (no commits
//! between the branches, an open pull request of the same branch and base); a caller finds out
//! about them by looking first, and after an unclear result.

use serde_json::json;

use super::call::Method;
use super::error::RefusalDetail;
use super::model::PullJson;
use super::pagination::Marks;
use super::{Github, GithubError, Result, endpoint};
use crate::pull_request::{Pull, PullState};

/// GitHub's status for a request that it understood and refuses.
const UNPROCESSABLE: u16 = 422;

/// Pull request to open, from a branch of the same repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewPull {
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) head: String,
    pub(crate) base: String,
    pub(crate) draft: bool,
}

/// Result of a request to open a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Opened {
    Done(Box<Pull>),
    Refused(PullRefusal),
}

/// Refusal to open a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PullRefusal {
    pub(crate) cause: RefusalCause,
    /// GitHub's message, for a person.
    pub(crate) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalCause {
    /// The base branch does not exist.
    NoBase,
    /// The head branch does not exist, or GitHub has not seen it yet.
    NoHead,
    /// A draft was refused without details, as in a repository that has no drafts. The same
    /// request may be accepted if it is not for a draft.
    MaybeDraft,
    /// Any other reason.
    Other,
}

/// Pull requests whose head is one branch of the repository itself, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BranchPulls {
    pub(crate) open: Vec<Pull>,
    /// Closed or merged. They may be about earlier work on a branch of the same name: compare the
    /// head.
    pub(crate) closed: Vec<Pull>,
}

impl BranchPulls {
    /// Returns the open pull request for a base. GitHub allows one for each.
    pub(crate) fn open_into(&self, base: &str) -> Option<&Pull> {
        self.open.iter().find(|pull| pull.base_ref == base)
    }
}

impl Github {
    /// Returns all pull requests of a branch. Those of a fork's branch of that name are not among
    /// them.
    pub(crate) async fn pulls_of_branch(&self, repo: &str, branch: &str) -> Result<BranchPulls> {
        let path = endpoint::pulls_of_branch(repo, branch)?;
        let fetch = &mut self.single_fetch();
        let unknown = Marks::default();
        let pages = self.list_in::<PullJson>(fetch, &path, &unknown).await?;
        let mut found = BranchPulls::default();
        for json in pages.items {
            let pull = Pull::from(json);
            // Names of branches are case-sensitive, those of repositories are not.
            if pull.is_fork() || pull.head_ref != branch {
                continue;
            }
            let list = match pull.state {
                PullState::Open => &mut found.open,
                PullState::Closed | PullState::Merged => &mut found.closed,
            };
            // A list that changes while it is read may have an entry twice.
            if list.iter().all(|known| known.number != pull.number) {
                list.push(pull);
            }
        }
        Ok(found)
    }

    /// Opens a pull request.
    pub(crate) async fn create_pull(&self, repo: &str, new: &NewPull) -> Result<Opened> {
        let path = format!("{}/pulls", endpoint::repository(repo)?);
        let body = json!({
            "title": new.title,
            "body": new.body,
            "head": new.head,
            "base": new.base,
            "draft": new.draft,
        });
        match self.write::<PullJson>(Method::Post, path, &body).await {
            Ok(json) => Ok(Opened::Done(Box::new(json.into()))),
            Err(GithubError::Refused {
                status: UNPROCESSABLE,
                message,
                details,
            }) => Ok(Opened::Refused(PullRefusal {
                cause: cause(&details, new.draft),
                message,
            })),
            Err(error) => Err(error),
        }
    }
}

fn cause(details: &[RefusalDetail], is_draft: bool) -> RefusalCause {
    let is_invalid = |field: &str| {
        let mut details = details.iter();
        details.any(|one| one.field.as_deref() == Some(field) && one.code == "invalid")
    };
    if is_invalid("base") {
        RefusalCause::NoBase
    } else if is_invalid("head") {
        RefusalCause::NoHead
    } else if is_draft && details.is_empty() {
        RefusalCause::MaybeDraft
    } else {
        RefusalCause::Other
    }
}
