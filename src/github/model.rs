//! GitHub's JSON, as far as it is used, and its conversion to our types. A nullable field must
//! still be present, unless GitHub itself sometimes omits it.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use crate::clock::{BadTime, Time};
use crate::pull_request::{
    Author, AuthorKind, Comment, CommentKind, Issue, Permission, Pull, PullState, ReviewState,
    last_lines,
};

#[derive(Deserialize)]
pub(super) struct User {
    id: i64,
    login: String,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
pub(super) struct PullJson {
    number: i64,
    title: String,
    #[serde(deserialize_with = "there")]
    body: Option<String>,
    state: OpenOrClosed,
    #[serde(default)]
    draft: bool,
    /// Present only if a single pull request is requested.
    #[serde(default)]
    merged: bool,
    #[serde(deserialize_with = "there")]
    merged_at: Option<Moment>,
    #[serde(deserialize_with = "there")]
    user: Option<User>,
    head: Head,
    base: Base,
    labels: Vec<Label>,
    created_at: Moment,
    updated_at: Moment,
    html_url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum OpenOrClosed {
    Open,
    Closed,
}

#[derive(Deserialize)]
struct Head {
    #[serde(rename = "ref")]
    name: String,
    sha: String,
    /// Null if the repository was deleted.
    #[serde(deserialize_with = "there")]
    repo: Option<Repo>,
}

#[derive(Deserialize)]
struct Base {
    #[serde(rename = "ref")]
    name: String,
    repo: BaseRepo,
}

#[derive(Deserialize)]
struct BaseRepo {
    full_name: String,
    default_branch: String,
}

#[derive(Deserialize)]
struct Repo {
    full_name: String,
}

#[derive(Deserialize)]
struct Label {
    name: String,
}

/// Submitted review; `None` for our own draft, which nobody else sees.
#[derive(Deserialize)]
#[serde(try_from = "ReviewJson")]
pub(super) struct Review(pub(super) Option<Comment>);

#[derive(Deserialize)]
struct ReviewJson {
    id: i64,
    #[serde(deserialize_with = "there")]
    user: Option<User>,
    #[serde(deserialize_with = "there")]
    body: Option<String>,
    state: ReviewState,
    #[serde(deserialize_with = "there")]
    commit_id: Option<String>,
    html_url: String,
    submitted_at: Option<Moment>,
}

#[derive(Debug, thiserror::Error)]
#[error("a submitted review has no `submitted_at`")]
pub(super) struct NotHandedIn;

#[derive(Deserialize)]
pub(super) struct InlineJson {
    id: i64,
    #[serde(deserialize_with = "there")]
    user: Option<User>,
    #[serde(deserialize_with = "there")]
    body: Option<String>,
    path: String,
    /// Null if the lines are no longer in the diff.
    line: Option<i64>,
    original_line: Option<i64>,
    diff_hunk: Option<String>,
    #[serde(deserialize_with = "there")]
    commit_id: Option<String>,
    pull_request_review_id: Option<i64>,
    in_reply_to_id: Option<i64>,
    html_url: String,
    created_at: Moment,
    updated_at: Moment,
}

#[derive(Deserialize)]
pub(super) struct CommentJson {
    id: i64,
    #[serde(deserialize_with = "there")]
    user: Option<User>,
    #[serde(deserialize_with = "there")]
    body: Option<String>,
    html_url: String,
    created_at: Moment,
    updated_at: Moment,
}

#[derive(Deserialize)]
pub(super) struct IssueJson {
    title: String,
    state: OpenOrClosed,
    #[serde(deserialize_with = "there")]
    body: Option<String>,
    #[serde(deserialize_with = "there")]
    user: Option<User>,
    /// Present only for a pull request.
    pull_request: Option<IgnoredAny>,
}

#[derive(Deserialize)]
pub(super) struct PermissionJson {
    permission: Permission,
    /// One of the built-in roles, or a custom role of the organization.
    role_name: Option<String>,
    #[serde(deserialize_with = "there")]
    user: Option<User>,
}

#[derive(Deserialize)]
pub(super) struct CommitJson {
    committer: Signature,
}

#[derive(Deserialize)]
struct Signature {
    date: Moment,
}

/// Time, kept as GitHub wrote it.
#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
struct Moment(String);

/// Deserializes a field that may be null but must be present.
fn there<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)
}

impl From<User> for Author {
    fn from(user: User) -> Self {
        let kind = match user.kind.as_str() {
            "User" => AuthorKind::User,
            "Bot" => AuthorKind::Bot,
            _ => AuthorKind::Other,
        };
        Self {
            id: user.id,
            login: user.login,
            kind,
        }
    }
}

impl From<PullJson> for Pull {
    fn from(json: PullJson) -> Self {
        let state = match json.state {
            _ if json.merged || json.merged_at.is_some() => PullState::Merged,
            OpenOrClosed::Open => PullState::Open,
            OpenOrClosed::Closed => PullState::Closed,
        };
        Self {
            number: json.number,
            title: json.title,
            body: json.body,
            state,
            draft: json.draft,
            author: json.user.map(Author::from),
            head_ref: json.head.name,
            head_sha: json.head.sha,
            head_repo: json.head.repo.map(|repo| repo.full_name),
            base_repo: json.base.repo.full_name,
            default_branch: json.base.repo.default_branch,
            base_ref: json.base.name,
            labels: json.labels.into_iter().map(|label| label.name).collect(),
            opened_at: json.created_at.0,
            updated_at: json.updated_at.0,
            url: json.html_url,
        }
    }
}

impl TryFrom<ReviewJson> for Review {
    type Error = NotHandedIn;

    fn try_from(json: ReviewJson) -> Result<Self, NotHandedIn> {
        if json.state == ReviewState::Pending {
            return Ok(Self(None));
        }
        let at = json.submitted_at.ok_or(NotHandedIn)?;
        let comment = CommentJson {
            id: json.id,
            user: json.user,
            body: json.body,
            html_url: json.html_url,
            // GitHub does not report when a review was edited.
            created_at: at.clone(),
            updated_at: at,
        };
        Ok(Self(Some(Comment {
            kind: CommentKind::Review,
            state: Some(json.state),
            commit: json.commit_id,
            ..comment.into()
        })))
    }
}

impl From<InlineJson> for Comment {
    fn from(json: InlineJson) -> Self {
        let comment = CommentJson {
            id: json.id,
            user: json.user,
            body: json.body,
            html_url: json.html_url,
            created_at: json.created_at,
            updated_at: json.updated_at,
        };
        Self {
            kind: CommentKind::ReviewComment,
            commit: json.commit_id,
            path: Some(json.path),
            line: json.line.or(json.original_line),
            hunk: json.diff_hunk.as_deref().map(last_lines),
            review: json.pull_request_review_id,
            in_reply_to: json.in_reply_to_id,
            ..comment.into()
        }
    }
}

impl From<CommentJson> for Comment {
    fn from(json: CommentJson) -> Self {
        Self {
            kind: CommentKind::IssueComment,
            forge_id: json.id,
            author: json.user.map(Author::from),
            body: json.body.unwrap_or_default(),
            state: None,
            commit: None,
            path: None,
            line: None,
            hunk: None,
            review: None,
            in_reply_to: None,
            created_at: json.created_at.0,
            updated_at: json.updated_at.0,
            url: json.html_url,
        }
    }
}

impl From<IssueJson> for Issue {
    fn from(json: IssueJson) -> Self {
        Self {
            title: json.title,
            body: json.body.unwrap_or_default(),
            author: json.user.map(Author::from),
            is_pull: json.pull_request.is_some(),
            is_open: matches!(json.state, OpenOrClosed::Open),
        }
    }
}

impl CommitJson {
    /// Returns when the commit was made, or remade by a rebase: no later than it was pushed, if
    /// clocks are right.
    pub(super) fn date(self) -> String {
        self.committer.date.0
    }
}

impl PermissionJson {
    /// Returns the permission of this account. The path contains a login, and a login can pass to
    /// another account.
    pub(super) fn of(self, author: &Author) -> Permission {
        if self.user.is_none_or(|user| user.id != author.id) {
            return Permission::None;
        }
        // Both values come from the same forge. If they differ, the higher one would grant too much
        // trust. A custom role does not reveal write access, so `permission` decides.
        match self.role_name.and_then(|role| role.parse().ok()) {
            Some(role) => self.permission.lesser(role),
            None => self.permission,
        }
    }
}

impl TryFrom<String> for Moment {
    type Error = BadTime;

    fn try_from(text: String) -> Result<Self, BadTime> {
        Time::parse(&text).map(|_| Self(text))
    }
}
