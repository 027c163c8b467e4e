//! Reads: pull requests, comments on them, and permissions.

use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::call::{Call, read_body};
use super::fetch::Fetch;
use super::model::{
    CommentJson, CommitJson, InlineJson, IssueJson, PermissionJson, PullJson, Review, User,
};
use super::pagination::{Marks, Pages};
use super::response::Reply;
use super::{Github, GithubError, Result, endpoint};
use crate::clock::Time;
use crate::pull_request::{Author, Comment, Issue, Permission, Pull};

/// List of comments on a pull request. An issue has only the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommentList {
    /// Without a draft of our own.
    Reviews,
    /// Those that stand at lines of the diff.
    ReviewComments,
    /// Those under the pull request, or under an issue.
    IssueComments,
}

/// Response to a request with an ETag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer<T> {
    New { value: T, etag: Option<String> },
    Unchanged,
}

/// Account that gh is logged in with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) author: Author,
    /// Scopes of a classic token; `None` for other tokens, whose scopes GitHub does not report.
    pub(crate) scopes: Option<Vec<String>>,
    /// GitHub's own time.
    pub(crate) at: Option<Time>,
}

/// Account that was logged in at a given time; `None` if GitHub did not report it, as for the token of an app.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownAccount {
    id: Option<i64>,
    asked_at: Instant,
}

/// Time for which the account is cached: people switch between accounts.
const ACCOUNT_HOLDS: Duration = Duration::from_secs(15 * 60);

impl Github {
    /// True if gh is logged in with this account; false if that is unknown. GitHub's answer is cached.
    pub(crate) async fn is_logged_in_as(&self, id: i64) -> Result<bool> {
        let known = *self.shared.account.borrow();
        if let Some(known) = known.filter(|known| known.asked_at.elapsed() < ACCOUNT_HOLDS) {
            return Ok(known.id == Some(id));
        }
        let asked_at = Instant::now();
        let me = match self.me().await {
            Ok(account) => Some(account.author.id),
            Err(GithubError::Refused { .. } | GithubError::NotFound { .. }) => None,
            // Not cached: the login may be missing only now.
            Err(GithubError::LoggedOut | GithubError::Auth { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let known = KnownAccount { id: me, asked_at };
        self.shared.account.send_replace(Some(known));
        Ok(me == Some(id))
    }

    /// Returns the account that gh is logged in with, and further facts from the response.
    pub(crate) async fn me(&self) -> Result<Account> {
        let path = "user";
        let call = Call::get(path.to_owned());
        let reply = self.ask(&call, self.deadline()).await?;
        let (head, body) = reply.new_answer(path)?;
        Ok(Account {
            author: read_body::<User>(path, &body)?.into(),
            scopes: head.scopes(),
            at: head.date(),
        })
    }

    pub(crate) async fn pull(
        &self,
        repo: &str,
        number: i64,
        etag: Option<&str>,
    ) -> Result<Answer<Pull>> {
        self.pull_in(&self.single_fetch(), repo, number, etag).await
    }

    pub(crate) async fn pull_in(
        &self,
        fetch: &Fetch,
        repo: &str,
        number: i64,
        etag: Option<&str>,
    ) -> Result<Answer<Pull>> {
        let path = endpoint::numbered(repo, "pulls", number)?;
        self.read_unless::<PullJson, _>(fetch, &path, etag).await
    }

    pub(crate) async fn open_pulls(&self, repo: &str, known: &Marks) -> Result<Pages<Pull>> {
        let path = format!("{}/pulls?state=open", endpoint::repository(repo)?);
        let fetch = &mut self.single_fetch();
        let pages = self.list_in::<PullJson>(fetch, &path, known).await?;
        Ok(pages.filter_map(|json| Some(json.into())))
    }

    pub(crate) async fn comments(
        &self,
        list: CommentList,
        repo: &str,
        number: i64,
        known: &Marks,
    ) -> Result<Pages<Comment>> {
        let fetch = &mut self.single_fetch();
        self.comments_in(fetch, list, (repo, number), known).await
    }

    pub(crate) async fn comments_in(
        &self,
        fetch: &mut Fetch,
        list: CommentList,
        (repo, number): (&str, i64),
        known: &Marks,
    ) -> Result<Pages<Comment>> {
        Ok(match list {
            CommentList::Reviews => {
                let path = endpoint::of_pull(repo, number, "reviews")?;
                let pages = self.list_in::<Review>(fetch, &path, known).await?;
                pages.filter_map(|Review(comment)| comment)
            }
            CommentList::ReviewComments => {
                let path = endpoint::of_pull(repo, number, "comments")?;
                let pages = self.list_in::<InlineJson>(fetch, &path, known).await?;
                pages.filter_map(|json| Some(json.into()))
            }
            CommentList::IssueComments => {
                let path = format!("{}/comments", endpoint::numbered(repo, "issues", number)?);
                let pages = self.list_in::<CommentJson>(fetch, &path, known).await?;
                pages.filter_map(|json| Some(json.into()))
            }
        })
    }

    /// Returns an issue. Its comments are the list [`CommentList::IssueComments`] of its number.
    pub(crate) async fn issue(&self, repo: &str, number: i64) -> Result<Issue> {
        let path = endpoint::numbered(repo, "issues", number)?;
        let call = Call::get(path.clone());
        let (_, body) = self.ask(&call, self.deadline()).await?.new_answer(&path)?;
        Ok(read_body::<IssueJson>(&path, &body)?.into())
    }

    /// Returns an issue, as part of a fetch.
    pub(crate) async fn issue_in(
        &self,
        fetch: &Fetch,
        repo: &str,
        number: i64,
        etag: Option<&str>,
    ) -> Result<Answer<Issue>> {
        let path = endpoint::numbered(repo, "issues", number)?;
        self.read_unless::<IssueJson, _>(fetch, &path, etag).await
    }

    /// Returns an account's permission for a repository: none if its name now belongs to another account, or if GitHub
    /// knows of none.
    pub(crate) async fn permission(&self, repo: &str, author: &Author) -> Result<Permission> {
        let repository = endpoint::repository(repo)?;
        let Some(login) = endpoint::login(&author.login) else {
            return Ok(Permission::None);
        };
        let path = format!("{repository}/collaborators/{login}/permission");
        let json = self.read::<PermissionJson>(path).await?;
        Ok(json.map_or(Permission::None, |json| json.of(author)))
    }

    /// Returns the date of a commit; `None` if GitHub has no such commit.
    pub(crate) async fn commit_date(&self, repo: &str, sha: &str) -> Result<Option<String>> {
        let json = self.read::<CommitJson>(endpoint::commit(repo, sha)?);
        Ok(json.await?.map(CommitJson::date))
    }

    /// Reads a path; `None` if GitHub has nothing there.
    async fn read<T: DeserializeOwned>(&self, path: String) -> Result<Option<T>> {
        let call = Call::get(path.clone());
        match self.ask(&call, self.deadline()).await {
            Err(GithubError::NotFound { .. }) => Ok(None),
            reply => read_body(&path, &reply?.new_answer(&path)?.1).map(Some),
        }
    }

    /// Reads a path unless it still has the ETag, as part of a fetch.
    pub(super) async fn read_unless<J: DeserializeOwned + Into<T>, T>(
        &self,
        fetch: &Fetch,
        path: &str,
        etag: Option<&str>,
    ) -> Result<Answer<T>> {
        let call = Call::get(path.to_owned()).unless(etag);
        let deadline = fetch.deadline().min(self.deadline());
        match self.ask(&call, deadline).await? {
            Reply::Unchanged { .. } => Ok(Answer::Unchanged),
            Reply::New { head, body } => Ok(Answer::New {
                value: read_body::<J>(path, &body)?.into(),
                etag: head.etag(),
            }),
        }
    }
}
