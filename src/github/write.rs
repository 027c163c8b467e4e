//! What is written: reviews, comments, and requests to look again. Nothing here looks whether it is there already.

use serde::{Deserialize, Serialize};

use super::call::{Call, Method, read_body};
use super::response::Reply;
use super::{Github, GithubError, endpoint};

/// Something of ours that is on GitHub now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Posted {
    pub(crate) id: i64,
    pub(crate) url: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewReview {
    /// The commit that was reviewed.
    pub(crate) commit: String,
    pub(crate) body: String,
    pub(crate) event: ReviewEvent,
    pub(crate) comments: Vec<NewInline>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum ReviewEvent {
    /// GitHub refuses it on a pull request of the same account.
    RequestChanges,
    Comment,
}

/// A comment at a line of the new text, which must be in the diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewInline {
    pub(crate) path: String,
    pub(crate) line: i64,
    pub(crate) body: String,
}

#[derive(Serialize)]
struct ReviewBody<'a> {
    commit_id: &'a str,
    body: &'a str,
    event: ReviewEvent,
    comments: Vec<InlineBody<'a>>,
}

#[derive(Serialize)]
struct InlineBody<'a> {
    path: &'a str,
    line: i64,
    side: &'static str,
    body: &'a str,
}

#[derive(Serialize)]
struct CommentBody<'a> {
    body: &'a str,
}

#[derive(Serialize)]
struct ReviewersBody<'a> {
    reviewers: &'a [String],
}

#[derive(Serialize)]
struct DismissalBody<'a> {
    message: &'a str,
    event: &'static str,
}

#[derive(Deserialize)]
struct PostedJson {
    id: i64,
    html_url: String,
}

/// A pull request, as far as to know that it is one.
#[derive(Deserialize)]
struct Numbered {
    #[serde(rename = "number")]
    _number: i64,
}

impl Github {
    pub(crate) async fn post_review(
        &self,
        repo: &str,
        number: i64,
        review: &NewReview,
    ) -> Result<Posted, GithubError> {
        let path = format!("{}/reviews", endpoint::numbered(repo, "pulls", number)?);
        let comments = review.comments.iter().map(InlineBody::from).collect();
        let (commit_id, body, event) = (&review.commit, &review.body, review.event);
        self.post(
            path,
            &ReviewBody {
                commit_id,
                body,
                event,
                comments,
            },
        )
        .await
    }

    /// Under the pull request.
    pub(crate) async fn post_comment(
        &self,
        repo: &str,
        number: i64,
        body: &str,
    ) -> Result<Posted, GithubError> {
        let path = format!("{}/comments", endpoint::numbered(repo, "issues", number)?);
        self.post(path, &CommentBody { body }).await
    }

    /// To a comment at a line.
    pub(crate) async fn reply(
        &self,
        repo: &str,
        number: i64,
        comment_id: i64,
        body: &str,
    ) -> Result<Posted, GithubError> {
        let path = format!(
            "{}/comments/{comment_id}/replies",
            endpoint::numbered(repo, "pulls", number)?
        );
        self.post(path, &CommentBody { body }).await
    }

    pub(crate) async fn ask_reviewers(
        &self,
        repo: &str,
        number: i64,
        logins: &[String],
    ) -> Result<(), GithubError> {
        let path = format!(
            "{}/requested_reviewers",
            endpoint::numbered(repo, "pulls", number)?
        );
        self.write::<Numbered>(Method::Post, path, &ReviewersBody { reviewers: logins })
            .await
            .map(drop)
    }

    /// A review of ours that no longer holds.
    pub(crate) async fn dismiss(
        &self,
        repo: &str,
        number: i64,
        review_id: i64,
        message: &str,
    ) -> Result<(), GithubError> {
        let path = format!(
            "{}/reviews/{review_id}/dismissals",
            endpoint::numbered(repo, "pulls", number)?
        );
        self.write::<PostedJson>(
            Method::Put,
            path,
            &DismissalBody {
                message,
                event: "DISMISS",
            },
        )
        .await
        .map(drop)
    }

    async fn post(&self, path: String, body: &impl Serialize) -> Result<Posted, GithubError> {
        let PostedJson { id, html_url } = self.write(Method::Post, path, body).await?;
        Ok(Posted { id, url: html_url })
    }

    /// gh follows a 301, and then its write has become a read of what is at that place. Such an answer is not taken for
    /// done, since it is not of the kind that is expected here.
    async fn write<T: serde::de::DeserializeOwned>(
        &self,
        method: Method,
        path: String,
        body: &impl Serialize,
    ) -> Result<T, GithubError> {
        let call = Call::write(method, path.clone(), body)?;
        match self.ask(&call, self.deadline()).await? {
            Reply::New { body, .. } => read_body(&path, &body),
            Reply::Unchanged { .. } => Err(GithubError::Broken {
                path,
                what: "not modified".to_owned(),
            }),
        }
    }
}

impl<'a> From<&'a NewInline> for InlineBody<'a> {
    fn from(comment: &'a NewInline) -> Self {
        Self {
            path: &comment.path,
            line: comment.line,
            side: "RIGHT",
            body: &comment.body,
        }
    }
}
