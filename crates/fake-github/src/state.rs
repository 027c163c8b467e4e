//! The contents of the state file.
//!
//! Unknown keys are errors, so that a typo in a test is not taken for a default.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::FakeGithubError;
use crate::clock;
use crate::fault::Fault;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GithubState {
    /// Login of the user who is logged in; null means nobody.
    pub(crate) me: Option<String>,
    pub(crate) users: BTreeMap<String, User>,
    /// Repositories by `owner/name`.
    pub(crate) repos: BTreeMap<String, Repo>,
    #[serde(default)]
    pub(crate) rate: Rate,
    #[serde(default = "default_next_id")]
    pub(crate) next_id: i64,
    /// A clock that advances by one second with every write; null means the system clock.
    #[serde(default)]
    pub(crate) now: Option<String>,
    #[serde(default)]
    pub(crate) faults: Vec<Fault>,
    /// Requests that got a response or were affected by a fault.
    #[serde(default)]
    pub(crate) log: Vec<LogEntry>,
    /// Requests that the stand-in does not support. Tests fail if there are any.
    #[serde(default)]
    pub(crate) misuse: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct User {
    pub(crate) id: i64,
    #[serde(rename = "type", default)]
    pub(crate) kind: UserKind,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum UserKind {
    #[default]
    User,
    Bot,
    Organization,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Repo {
    pub(crate) id: i64,
    /// Bare repository with the branches of the pull requests.
    pub(crate) git_dir: PathBuf,
    pub(crate) default_branch: String,
    #[serde(default)]
    pub(crate) private: bool,
    /// Former names, which redirect to the repository.
    #[serde(default)]
    pub(crate) formerly: Vec<String>,
    /// Permissions by login. All others may read a public repository, and do not see a private one.
    #[serde(default)]
    pub(crate) permissions: BTreeMap<String, Permission>,
    #[serde(default)]
    pub(crate) pulls: BTreeMap<i64, Pull>,
    /// Issues by number.
    #[serde(default)]
    pub(crate) issues: BTreeMap<i64, Issue>,
    /// Set if drafts are not supported, as in private repositories of some plans.
    #[serde(default)]
    pub(crate) no_drafts: bool,
    /// Checks by commit.
    #[serde(default)]
    pub(crate) checks: BTreeMap<String, CommitChecks>,
    /// Names of the checks that a rule set requires, by branch.
    #[serde(default)]
    pub(crate) rules: BTreeMap<String, Vec<String>>,
    /// Names of the checks that the protection of a branch requires.
    #[serde(default)]
    pub(crate) protection: BTreeMap<String, Vec<String>>,
    /// Logs by the number of the job.
    #[serde(default)]
    pub(crate) logs: BTreeMap<i64, JobLog>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommitChecks {
    /// All check runs, including those that a newer one of the same name replaces.
    #[serde(default)]
    pub(crate) runs: Vec<CheckRun>,
    /// Newest status of each context.
    #[serde(default)]
    pub(crate) statuses: Vec<Status>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckRun {
    pub(crate) id: i64,
    pub(crate) name: String,
    /// Slug of the app.
    pub(crate) app: String,
    pub(crate) status: String,
    pub(crate) conclusion: Option<String>,
    pub(crate) started_at: String,
    pub(crate) completed_at: Option<String>,
    /// Workflow run of GitHub Actions that it is a job of; the number of the job is that of the check run.
    #[serde(default)]
    pub(crate) workflow: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Status {
    pub(crate) id: i64,
    pub(crate) context: String,
    pub(crate) state: String,
    pub(crate) description: Option<String>,
    pub(crate) target_url: Option<String>,
    pub(crate) created_at: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobLog {
    pub(crate) text: String,
    /// Size of the lines before the text.
    #[serde(default)]
    pub(crate) padding_bytes: usize,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Issue {
    pub(crate) id: i64,
    pub(crate) title: String,
    pub(crate) body: Option<String>,
    pub(crate) author: String,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    #[serde(default)]
    pub(crate) closed_at: Option<String>,
    #[serde(default)]
    pub(crate) comments: Vec<IssueComment>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pull {
    pub(crate) id: i64,
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) body: Option<String>,
    /// Login of the author. One that is not in `users` was deleted, and GitHub returns null for it.
    pub(crate) author: String,
    pub(crate) head_ref: String,
    /// `owner/name`; null means that the fork was deleted.
    pub(crate) head_repo: Option<String>,
    /// Last known commit of the branch, updated at every request while the pull request is open.
    pub(crate) head_sha: String,
    /// Head in responses while the API lags behind a push; null means `head_sha`.
    #[serde(default)]
    pub(crate) shown_head: Option<String>,
    pub(crate) base_ref: String,
    pub(crate) base_sha: String,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    #[serde(default)]
    pub(crate) closed_at: Option<String>,
    #[serde(default)]
    pub(crate) merged_at: Option<String>,
    #[serde(default)]
    pub(crate) merged_by: Option<String>,
    #[serde(default)]
    pub(crate) merge_commit_sha: Option<String>,
    #[serde(default)]
    pub(crate) draft: bool,
    #[serde(default)]
    pub(crate) labels: Vec<String>,
    #[serde(default)]
    pub(crate) requested_reviewers: Vec<String>,
    #[serde(default)]
    pub(crate) reviews: Vec<Review>,
    #[serde(default)]
    pub(crate) comments: Vec<Comment>,
    #[serde(default)]
    pub(crate) issue_comments: Vec<IssueComment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Permission {
    Admin,
    Maintain,
    Write,
    Triage,
    Read,
    None,
}

impl Permission {
    pub(crate) fn may_write(self) -> bool {
        matches!(self, Self::Admin | Self::Maintain | Self::Write)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum ReviewState {
    Approved,
    ChangesRequested,
    Commented,
    Dismissed,
    Pending,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Review {
    pub(crate) id: i64,
    pub(crate) author: String,
    pub(crate) state: ReviewState,
    pub(crate) commit: Option<String>,
    pub(crate) body: String,
    pub(crate) submitted_at: String,
}

/// A comment on a line of the diff.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Comment {
    pub(crate) id: i64,
    #[serde(default)]
    pub(crate) review: Option<i64>,
    pub(crate) author: String,
    pub(crate) body: String,
    pub(crate) path: String,
    pub(crate) line: Option<i64>,
    #[serde(default)]
    pub(crate) side: Side,
    #[serde(default)]
    pub(crate) start_line: Option<i64>,
    pub(crate) commit: String,
    pub(crate) hunk: String,
    #[serde(default)]
    pub(crate) in_reply_to: Option<i64>,
    /// Set if the line has changed since: GitHub then returns null as its number.
    #[serde(default)]
    pub(crate) is_outdated: bool,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Side {
    Left,
    #[default]
    Right,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IssueComment {
    pub(crate) id: i64,
    pub(crate) author: String,
    pub(crate) body: String,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rate {
    pub(crate) limit: i64,
    pub(crate) remaining: i64,
    /// End of the window in seconds of the system clock. A new window begins when it has passed.
    pub(crate) reset: i64,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            limit: 5000,
            remaining: 5000,
            reset: 0,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogEntry {
    pub(crate) method: String,
    /// Path with query.
    pub(crate) path: String,
    /// Status of the response; null if a fault prevented the request.
    pub(crate) status: Option<u16>,
    /// Body of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<Value>,
    /// Set if a fault changed or replaced the response.
    #[serde(default)]
    pub(crate) faulty: bool,
}

fn default_next_id() -> i64 {
    1001
}

impl GithubState {
    pub(crate) fn new_id(&mut self) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Returns the timestamp for a write.
    pub(crate) fn timestamp(&mut self) -> Result<String, FakeGithubError> {
        let Some(text) = &self.now else {
            return Ok(clock::timestamp(clock::now()));
        };
        let later = clock::one_second_later(text).map_err(FakeGithubError::Clock)?;
        self.now = Some(later.clone());
        Ok(later)
    }

    /// Finds the current name of a repository, ignoring case.
    pub(crate) fn repo_name(&self, owner: &str, name: &str) -> Option<String> {
        let wanted = format!("{owner}/{name}");
        self.repos
            .keys()
            .find(|known| known.eq_ignore_ascii_case(&wanted))
            .cloned()
    }

    pub(crate) fn permission(&self, repo: &Repo, login: &str) -> Permission {
        let explicit = repo
            .permissions
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(login));
        explicit.map_or(
            if repo.private {
                Permission::None
            } else {
                Permission::Read
            },
            |(_, permission)| *permission,
        )
    }
}

impl Pull {
    pub(crate) fn is_open(&self) -> bool {
        self.closed_at.is_none()
    }
}
