//! What is read: pull requests, what is said on them, and who may do what.

use std::time::Duration;

use tokio::time::Instant;

use super::call::{Call, read_body};
use super::fetch::Fetch;
use super::model::{
    CommentJson, CommitJson, InlineJson, IssueJson, PermissionJson, PullJson, Review, User,
};
use super::pagination::{Marks, Pages};
use super::response::Reply;
use super::{Github, GithubError, endpoint};
use crate::clock::Time;
use crate::pull_request::{Author, Comment, Issue, Permission, Pull};

/// What a question with an etag was answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer<T> {
    New { value: T, etag: Option<String> },
    Unchanged,
}

/// What is known of a pull request and of each of its lists.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownPull<'a> {
    pub(crate) etag: Option<&'a str>,
    pub(crate) reviews: Marks,
    pub(crate) review_comments: Marks,
    pub(crate) issue_comments: Marks,
}

/// A pull request with all that is said on it and is new.
#[derive(Debug, Clone)]
pub(crate) struct Feedback {
    pub(crate) pull: Answer<Pull>,
    pub(crate) reviews: Pages<Comment>,
    pub(crate) review_comments: Pages<Comment>,
    pub(crate) issue_comments: Pages<Comment>,
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

/// Who was logged in at a moment. None: GitHub did not say, as for the token of an app.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownAccount {
    id: Option<i64>,
    asked_at: Instant,
}

/// How long an account is taken for the one that is logged in: people switch between accounts.
const ACCOUNT_HOLDS: Duration = Duration::from_secs(15 * 60);

impl Github {
    /// Whether gh is logged in with this account; false when that cannot be known. GitHub is asked once in a while.
    pub(crate) async fn is_logged_in_as(&self, id: i64) -> Result<bool, GithubError> {
        let known = *self.shared.account.borrow();
        if let Some(known) = known.filter(|known| known.asked_at.elapsed() < ACCOUNT_HOLDS) {
            return Ok(known.id == Some(id));
        }
        let asked_at = Instant::now();
        let me = match self.me().await {
            Ok(account) => Some(account.author.id),
            Err(GithubError::Refused { .. } | GithubError::NotFound { .. }) => None,
            // Not kept: it may be a login that is missing only now.
            Err(GithubError::LoggedOut | GithubError::Auth { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        self.shared
            .account
            .send_replace(Some(KnownAccount { id: me, asked_at }));
        Ok(me == Some(id))
    }

    /// The account that gh is logged in with, and what its answer tells besides.
    pub(crate) async fn me(&self) -> Result<Account, GithubError> {
        let path = "user";
        match self
            .ask(&Call::get(path.to_owned()), self.deadline())
            .await?
        {
            Reply::New { head, body } => {
                let author = read_body::<User>(path, &body)?.into();
                Ok(Account {
                    author,
                    scopes: head.scopes(),
                    at: head.date(),
                })
            }
            Reply::Unchanged { .. } => Err(GithubError::Broken {
                path: path.to_owned(),
                what: "not modified".to_owned(),
            }),
        }
    }

    pub(crate) async fn pull(
        &self,
        repo: &str,
        number: i64,
        etag: Option<&str>,
    ) -> Result<Answer<Pull>, GithubError> {
        self.pull_in(&self.single_fetch(), repo, number, etag).await
    }

    async fn pull_in(
        &self,
        fetch: &Fetch,
        repo: &str,
        number: i64,
        etag: Option<&str>,
    ) -> Result<Answer<Pull>, GithubError> {
        let path = endpoint::numbered(repo, "pulls", number)?;
        match self
            .ask(
                &Call::get(path.clone()).unless(etag),
                fetch.deadline().min(self.deadline()),
            )
            .await?
        {
            Reply::Unchanged { .. } => Ok(Answer::Unchanged),
            Reply::New { head, body } => {
                let json: PullJson = read_body(&path, &body)?;
                Ok(Answer::New {
                    value: json.into(),
                    etag: head.etag(),
                })
            }
        }
    }

    pub(crate) async fn open_pulls(
        &self,
        repo: &str,
        known: &Marks,
    ) -> Result<Pages<Pull>, GithubError> {
        let path = format!("{}/pulls?state=open", endpoint::repository(repo)?);
        Ok(self
            .list::<PullJson>(&path, known)
            .await?
            .filter_map(|json| Some(json.into())))
    }

    /// Without a draft of our own.
    pub(crate) async fn reviews(
        &self,
        repo: &str,
        number: i64,
        known: &Marks,
    ) -> Result<Pages<Comment>, GithubError> {
        self.reviews_in(&mut self.single_fetch(), repo, number, known)
            .await
    }

    async fn reviews_in(
        &self,
        fetch: &mut Fetch,
        repo: &str,
        number: i64,
        known: &Marks,
    ) -> Result<Pages<Comment>, GithubError> {
        let path = format!("{}/reviews", endpoint::numbered(repo, "pulls", number)?);
        Ok(self
            .list_in::<Review>(fetch, &path, known)
            .await?
            .filter_map(|Review(said)| said))
    }

    /// Those that stand at lines of the diff.
    pub(crate) async fn review_comments(
        &self,
        repo: &str,
        number: i64,
        known: &Marks,
    ) -> Result<Pages<Comment>, GithubError> {
        self.review_comments_in(&mut self.single_fetch(), repo, number, known)
            .await
    }

    async fn review_comments_in(
        &self,
        fetch: &mut Fetch,
        repo: &str,
        number: i64,
        known: &Marks,
    ) -> Result<Pages<Comment>, GithubError> {
        let path = format!("{}/comments", endpoint::numbered(repo, "pulls", number)?);
        Ok(self
            .list_in::<InlineJson>(fetch, &path, known)
            .await?
            .filter_map(|json| Some(json.into())))
    }

    /// Those under the pull request.
    pub(crate) async fn issue_comments(
        &self,
        repo: &str,
        number: i64,
        known: &Marks,
    ) -> Result<Pages<Comment>, GithubError> {
        self.issue_comments_in(&mut self.single_fetch(), repo, number, known)
            .await
    }

    async fn issue_comments_in(
        &self,
        fetch: &mut Fetch,
        repo: &str,
        number: i64,
        known: &Marks,
    ) -> Result<Pages<Comment>, GithubError> {
        let path = format!("{}/comments", endpoint::numbered(repo, "issues", number)?);
        Ok(self
            .list_in::<CommentJson>(fetch, &path, known)
            .await?
            .filter_map(|json| Some(json.into())))
    }

    /// An issue, within the time of a fetch.
    pub(crate) async fn issue(
        &self,
        fetch: &Fetch,
        repo: &str,
        number: i64,
        etag: Option<&str>,
    ) -> Result<Answer<Issue>, GithubError> {
        let path = endpoint::numbered(repo, "issues", number)?;
        match self
            .ask(
                &Call::get(path.clone()).unless(etag),
                fetch.deadline().min(self.deadline()),
            )
            .await?
        {
            Reply::Unchanged { .. } => Ok(Answer::Unchanged),
            Reply::New { head, body } => {
                let json: IssueJson = read_body(&path, &body)?;
                Ok(Answer::New {
                    value: json.into(),
                    etag: head.etag(),
                })
            }
        }
    }

    /// The pull request and all its lists, within the time of one fetch. Reviews come before their comments: the comments of
    /// a review that is there are there too.
    pub(crate) async fn feedback(
        &self,
        fetch: &mut Fetch,
        repo: &str,
        number: i64,
        known: &KnownPull<'_>,
    ) -> Result<Feedback, GithubError> {
        let pull = self.pull_in(fetch, repo, number, known.etag).await?;
        let reviews = self.reviews_in(fetch, repo, number, &known.reviews).await?;
        let review_comments = self
            .review_comments_in(fetch, repo, number, &known.review_comments)
            .await?;
        let issue_comments = self
            .issue_comments_in(fetch, repo, number, &known.issue_comments)
            .await?;
        Ok(Feedback {
            pull,
            reviews,
            review_comments,
            issue_comments,
        })
    }

    /// What this account may do to a repository: nothing, when its name is another's by now or GitHub knows of none.
    pub(crate) async fn permission(
        &self,
        repo: &str,
        author: &Author,
    ) -> Result<Permission, GithubError> {
        let repository = endpoint::repository(repo)?;
        let Some(login) = endpoint::login(&author.login) else {
            return Ok(Permission::None);
        };
        match self
            .read::<PermissionJson>(format!("{repository}/collaborators/{login}/permission"))
            .await
        {
            Ok(json) => Ok(json.of(author)),
            Err(GithubError::NotFound { .. }) => Ok(Permission::None),
            Err(error) => Err(error),
        }
    }

    /// The date of a commit; none where GitHub has no such commit.
    pub(crate) async fn commit_date(
        &self,
        repo: &str,
        sha: &str,
    ) -> Result<Option<String>, GithubError> {
        match self.read::<CommitJson>(endpoint::commit(repo, sha)?).await {
            Ok(json) => Ok(Some(json.date())),
            Err(GithubError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn read<T: serde::de::DeserializeOwned>(&self, path: String) -> Result<T, GithubError> {
        let call = Call::get(path.clone());
        match self.ask(&call, self.deadline()).await? {
            Reply::New { body, .. } => read_body(&path, &body),
            Reply::Unchanged { .. } => Err(GithubError::Broken {
                path,
                what: "not modified".to_owned(),
            }),
        }
    }
}
