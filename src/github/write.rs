//! Writes to GitHub: reviews, comments and review requests. Nothing here checks for an existing
//! one.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::call::{Call, Method, read_body};
use super::{Github, Result, endpoint};

/// Object that was posted on GitHub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Posted {
    pub(crate) id: i64,
    pub(crate) url: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewReview {
    /// Reviewed commit.
    pub(crate) commit: String,
    pub(crate) body: String,
    pub(crate) event: ReviewEvent,
    pub(crate) comments: Vec<NewInline>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum ReviewEvent {
    /// GitHub refuses this on a pull request of the same account.
    RequestChanges,
    Comment,
}

/// Comment on a line of the new text, which must be in the diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewInline {
    pub(crate) path: String,
    pub(crate) line: i64,
    pub(crate) body: String,
}

#[derive(Deserialize)]
struct PostedJson {
    id: i64,
    html_url: String,
}

/// The part of a pull request that identifies it as one.
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
    ) -> Result<Posted> {
        let path = endpoint::of_pull(repo, number, "reviews")?;
        let comment = |comment: &NewInline| {
            let NewInline { path, line, body } = comment;
            json!({ "path": path, "line": line, "side": "RIGHT", "body": body })
        };
        let comments: Vec<Value> = review.comments.iter().map(comment).collect();
        let body = json!({
            "commit_id": review.commit,
            "body": review.body,
            "event": review.event,
            "comments": comments,
        });
        self.post(path, &body).await
    }

    /// Posts a comment on the pull request.
    pub(crate) async fn post_comment(&self, repo: &str, number: i64, body: &str) -> Result<Posted> {
        let path = format!("{}/comments", endpoint::numbered(repo, "issues", number)?);
        self.post(path, &json!({ "body": body })).await
    }

    /// Replies to an inline comment.
    pub(crate) async fn reply(
        &self,
        repo: &str,
        number: i64,
        comment_id: i64,
        body: &str,
    ) -> Result<Posted> {
        let path = endpoint::of_pull(repo, number, &format!("comments/{comment_id}/replies"))?;
        self.post(path, &json!({ "body": body })).await
    }

    pub(crate) async fn ask_reviewers(
        &self,
        repo: &str,
        number: i64,
        logins: &[String],
    ) -> Result<()> {
        let path = endpoint::of_pull(repo, number, "requested_reviewers")?;
        let body = json!({ "reviewers": logins });
        let written = self.write::<Numbered>(Method::Post, path, &body);
        written.await.map(drop)
    }

    /// Dismisses an outdated review of ours.
    pub(crate) async fn dismiss(
        &self,
        repo: &str,
        number: i64,
        review_id: i64,
        message: &str,
    ) -> Result<()> {
        let path = endpoint::of_pull(repo, number, &format!("reviews/{review_id}/dismissals"))?;
        let body = json!({ "message": message, "event": "DISMISS" });
        let written = self.write::<PostedJson>(Method::Put, path, &body);
        written.await.map(drop)
    }

    async fn post(&self, path: String, body: &Value) -> Result<Posted> {
        let PostedJson { id, html_url } = self.write(Method::Post, path, body).await?;
        Ok(Posted { id, url: html_url })
    }

    /// Sends a write request and reads its response.
    ///
    /// gh follows a 301, which turns the write into a read of the new location. Such a response
    /// does not count as done, since it is not of the kind expected here.
    pub(super) async fn write<T: serde::de::DeserializeOwned>(
        &self,
        method: Method,
        path: String,
        body: &Value,
    ) -> Result<T> {
        let call = Call::write(method, path.clone(), body)?;
        let reply = self.ask(&call, self.deadline()).await?;
        read_body(&path, &reply.new_answer(&path)?.1)
    }
}
