//! What is in the forge's file. Unknown keys are refused: a typo in a test must not pass for a default.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ForgeError;
use super::fault::Fault;
use crate::clock::{self, Time};
use crate::pull_request::{Permission, ReviewState};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Forge {
    /// Who is logged in; null: nobody.
    pub(super) me: Option<String>,
    pub(super) users: BTreeMap<String, User>,
    /// By `owner/name`.
    pub(super) repos: BTreeMap<String, Repo>,
    #[serde(default)]
    pub(super) rate: Rate,
    #[serde(default = "first_id")]
    pub(super) next_id: i64,
    /// A clock that steps one second with every write; null: the real one.
    #[serde(default)]
    pub(super) now: Option<String>,
    #[serde(default)]
    pub(super) faults: Vec<Fault>,
    /// Every request that was answered, or broken by a fault.
    #[serde(default)]
    pub(super) log: Vec<Logged>,
    /// Requests that this stand-in can't answer. A test that leaves one has found a gap, not a failure of GitHub's.
    #[serde(default)]
    pub(super) misuse: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct User {
    pub(super) id: i64,
    #[serde(rename = "type", default)]
    pub(super) kind: UserKind,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum UserKind {
    #[default]
    User,
    Bot,
    Organization,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Repo {
    pub(super) id: i64,
    /// The bare repository whose branches are the pull requests' heads and bases.
    pub(super) git_dir: PathBuf,
    pub(super) default_branch: String,
    #[serde(default)]
    pub(super) private: bool,
    /// Names that it had before: they are answered with a redirect.
    #[serde(default)]
    pub(super) formerly: Vec<String>,
    /// Who may do what. Others may read when it is public.
    #[serde(default)]
    pub(super) permissions: BTreeMap<String, Permission>,
    #[serde(default)]
    pub(super) pulls: BTreeMap<i64, Pull>,
    /// Open ones, by number.
    #[serde(default)]
    pub(super) issues: BTreeMap<i64, Issue>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Issue {
    pub(super) id: i64,
    pub(super) title: String,
    pub(super) body: Option<String>,
    pub(super) author: String,
    pub(super) created_at: String,
    pub(super) updated_at: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pull {
    pub(super) id: i64,
    pub(super) title: String,
    #[serde(default)]
    pub(super) body: Option<String>,
    /// Somebody who is not in `users` is gone: GitHub answers null for them.
    pub(super) author: String,
    pub(super) head_ref: String,
    /// Null: the fork was deleted.
    pub(super) head_repo: Option<String>,
    /// Where the branch was when it was last seen. It is looked at again while the pull request is open.
    pub(super) head_sha: String,
    /// The head that readers see while the forge lags behind its own branches. Null: `head_sha`.
    #[serde(default)]
    pub(super) shown_head: Option<String>,
    pub(super) base_ref: String,
    pub(super) base_sha: String,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    #[serde(default)]
    pub(super) closed_at: Option<String>,
    #[serde(default)]
    pub(super) merged_at: Option<String>,
    #[serde(default)]
    pub(super) merged_by: Option<String>,
    #[serde(default)]
    pub(super) merge_commit_sha: Option<String>,
    #[serde(default)]
    pub(super) draft: bool,
    #[serde(default)]
    pub(super) labels: Vec<String>,
    #[serde(default)]
    pub(super) requested_reviewers: Vec<String>,
    #[serde(default)]
    pub(super) reviews: Vec<Review>,
    #[serde(default)]
    pub(super) comments: Vec<Comment>,
    #[serde(default)]
    pub(super) issue_comments: Vec<IssueComment>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Review {
    pub(super) id: i64,
    pub(super) author: String,
    pub(super) state: ReviewState,
    pub(super) commit: Option<String>,
    pub(super) body: String,
    pub(super) submitted_at: String,
}

/// On a line of the diff.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Comment {
    pub(super) id: i64,
    #[serde(default)]
    pub(super) review: Option<i64>,
    pub(super) author: String,
    pub(super) body: String,
    pub(super) path: String,
    pub(super) line: Option<i64>,
    #[serde(default)]
    pub(super) side: Side,
    #[serde(default)]
    pub(super) start_line: Option<i64>,
    pub(super) commit: String,
    pub(super) hunk: String,
    #[serde(default)]
    pub(super) in_reply_to: Option<i64>,
    /// The lines below it have changed since: GitHub then has no line for it any more.
    #[serde(default)]
    pub(super) is_outdated: bool,
    pub(super) created_at: String,
    pub(super) updated_at: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Side {
    Left,
    #[default]
    Right,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IssueComment {
    pub(super) id: i64,
    pub(super) author: String,
    pub(super) body: String,
    pub(super) created_at: String,
    pub(super) updated_at: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rate {
    pub(super) limit: i64,
    pub(super) remaining: i64,
    /// Seconds of the real clock, as remand waits by that; what is past begins anew.
    pub(super) reset: i64,
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
pub(super) struct Logged {
    pub(super) method: String,
    /// With its query.
    pub(super) path: String,
    /// What the model answered; null: a fault came before it.
    pub(super) status: Option<u16>,
    /// What was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) body: Option<Value>,
    /// A fault changed or replaced the answer.
    #[serde(default)]
    pub(super) faulty: bool,
}

fn first_id() -> i64 {
    1001
}

impl Forge {
    pub(super) fn new_id(&mut self) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// The moment of a write.
    pub(super) fn stamp(&mut self) -> Result<String, ForgeError> {
        let Some(text) = &self.now else {
            return Ok(to_the_second(clock::now()));
        };
        let stepped = to_the_second(
            Time::parse(text)
                .map_err(ForgeError::Clock)?
                .plus(Duration::from_secs(1)),
        );
        self.now = Some(stepped.clone());
        Ok(stepped)
    }

    /// The repository by its name now, in any case of letters.
    pub(super) fn name_of(&self, owner: &str, name: &str) -> Option<String> {
        let wanted = format!("{owner}/{name}");
        self.repos
            .keys()
            .find(|known| known.eq_ignore_ascii_case(&wanted))
            .cloned()
    }

    pub(super) fn permission(&self, repo: &Repo, login: &str) -> Permission {
        let given = repo
            .permissions
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(login));
        given.map_or(
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
    pub(super) fn is_open(&self) -> bool {
        self.closed_at.is_none()
    }
}

/// As GitHub writes a time.
pub(super) fn to_the_second(time: Time) -> String {
    time.utc().format("%Y-%m-%dT%H:%M:%SZ").to_string()
}
