//! What is read: pull requests, what is said on them, and who may do what.

use super::call::{Call, read_body};
use super::list::{Marks, Pages};
use super::model::{CommentJson, CommitJson, InlineJson, PermissionJson, PullJson, Review, User};
use super::reply::Reply;
use super::{Github, GithubError, place};
use crate::clock::Time;
use crate::pull::{Author, Permission, Pull, Said};

/// What a question with an etag was answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer<T> {
    New { value: T, etag: Option<String> },
    Unchanged,
}

/// Who is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) author: Author,
    /// What a classic token may do. None: of other tokens GitHub does not tell.
    pub(crate) scopes: Option<Vec<String>>,
    /// GitHub's own time.
    pub(crate) at: Option<Time>,
}

impl Github {
    /// The account that gh is logged in with, and what its answer tells besides.
    pub(crate) async fn me(&self) -> Result<Account, GithubError> {
        let path = "user";
        match self.ask(&Call::get(path.to_owned()), self.deadline()).await? {
            Reply::New { head, body } => {
                let author = read_body::<User>(path, &body)?.into();
                Ok(Account { author, scopes: head.scopes(), at: head.date() })
            }
            Reply::Unchanged { .. } => {
                Err(GithubError::Broken { path: path.to_owned(), what: "not modified".to_owned() })
            }
        }
    }

    pub(crate) async fn pull(&self, repo: &str, number: i64, etag: Option<&str>) -> Result<Answer<Pull>, GithubError> {
        let path = place::numbered(repo, "pulls", number)?;
        match self.ask(&Call::get(path.clone()).unless(etag), self.deadline()).await? {
            Reply::Unchanged { .. } => Ok(Answer::Unchanged),
            Reply::New { head, body } => {
                let json: PullJson = read_body(&path, &body)?;
                Ok(Answer::New { value: json.into(), etag: head.etag() })
            }
        }
    }

    pub(crate) async fn open_pulls(&self, repo: &str, known: &Marks) -> Result<Pages<Pull>, GithubError> {
        let path = format!("{}/pulls?state=open", place::repository(repo)?);
        Ok(self.list::<PullJson>(&path, known).await?.filter_map(|json| Some(json.into())))
    }

    /// Without a draft of our own.
    pub(crate) async fn reviews(&self, repo: &str, number: i64, known: &Marks) -> Result<Pages<Said>, GithubError> {
        let path = format!("{}/reviews", place::numbered(repo, "pulls", number)?);
        Ok(self.list::<Review>(&path, known).await?.filter_map(|Review(said)| said))
    }

    /// Those that stand at lines of the diff.
    pub(crate) async fn review_comments(
        &self,
        repo: &str,
        number: i64,
        known: &Marks,
    ) -> Result<Pages<Said>, GithubError> {
        let path = format!("{}/comments", place::numbered(repo, "pulls", number)?);
        Ok(self.list::<InlineJson>(&path, known).await?.filter_map(|json| Some(json.into())))
    }

    /// Those under the pull request.
    pub(crate) async fn issue_comments(
        &self,
        repo: &str,
        number: i64,
        known: &Marks,
    ) -> Result<Pages<Said>, GithubError> {
        let path = format!("{}/comments", place::numbered(repo, "issues", number)?);
        Ok(self.list::<CommentJson>(&path, known).await?.filter_map(|json| Some(json.into())))
    }

    /// What this account may do to a repository: nothing, when its name is another's by now or GitHub knows of none.
    pub(crate) async fn permission(&self, repo: &str, author: &Author) -> Result<Permission, GithubError> {
        let repository = place::repository(repo)?;
        let Some(login) = place::login(&author.login) else {
            return Ok(Permission::None);
        };
        match self.read::<PermissionJson>(format!("{repository}/collaborators/{login}/permission")).await {
            Ok(json) => Ok(json.of(author)),
            Err(GithubError::NotFound { .. }) => Ok(Permission::None),
            Err(error) => Err(error),
        }
    }

    /// The date of a commit; none where GitHub has no such commit.
    pub(crate) async fn commit_date(&self, repo: &str, sha: &str) -> Result<Option<String>, GithubError> {
        match self.read::<CommitJson>(place::commit(repo, sha)?).await {
            Ok(json) => Ok(Some(json.date())),
            Err(GithubError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn read<T: serde::de::DeserializeOwned>(&self, path: String) -> Result<T, GithubError> {
        let call = Call::get(path.clone());
        match self.ask(&call, self.deadline()).await? {
            Reply::New { body, .. } => read_body(&path, &body),
            Reply::Unchanged { .. } => Err(GithubError::Broken { path, what: "not modified".to_owned() }),
        }
    }
}
