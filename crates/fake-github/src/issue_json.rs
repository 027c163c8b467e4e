//! JSON of issues, with every field that GitHub's API description requires.

use serde_json::{Value, json};

use crate::json::{WEB, merge, node_id};
use crate::request::API;
use crate::state::{GithubState, Issue, Pull};

impl GithubState {
    pub(crate) fn issue(&self, repo: &str, number: i64, issue: &Issue) -> Value {
        let own = json!({
            "id": issue.id,
            "node_id": node_id("I", issue.id),
            "html_url": format!("{WEB}/{repo}/issues/{number}"),
            "title": issue.title,
            "body": issue.body,
            "user": self.user(&issue.author),
            "state": if issue.closed_at.is_none() { "open" } else { "closed" },
            "closed_at": issue.closed_at,
            "comments": issue.comments.len(),
            "created_at": issue.created_at,
            "updated_at": issue.updated_at,
            "author_association": self.association(repo, &issue.author),
        });
        merge(common_fields(repo, number), own)
    }

    pub(crate) fn pull_as_issue(&self, repo: &str, number: i64, pull: &Pull) -> Value {
        let web = format!("{WEB}/{repo}/pull/{number}");
        let own = json!({
            "id": pull.id,
            "node_id": node_id("PR", pull.id),
            "html_url": web,
            "title": pull.title,
            "body": pull.body,
            "user": self.user(&pull.author),
            "state": if pull.is_open() { "open" } else { "closed" },
            "closed_at": pull.closed_at,
            "created_at": pull.created_at,
            "updated_at": pull.updated_at,
            "author_association": self.association(repo, &pull.author),
            "pull_request": {
                "url": format!("{API}/repos/{repo}/pulls/{number}"), "html_url": web,
                "diff_url": format!("{web}.diff"), "patch_url": format!("{web}.patch"), "merged_at": pull.merged_at,
            },
        });
        merge(common_fields(repo, number), own)
    }
}

fn common_fields(repo: &str, number: i64) -> Value {
    let (api, url) = (
        format!("{API}/repos/{repo}"),
        format!("{API}/repos/{repo}/issues/{number}"),
    );
    json!({
        "url": url,
        "repository_url": api,
        "labels_url": format!("{url}/labels{{/name}}"),
        "comments_url": format!("{url}/comments"),
        "events_url": format!("{url}/events"),
        "number": number,
        "labels": [],
        "locked": false,
        "active_lock_reason": null,
        "assignee": null,
        "assignees": [],
        "milestone": null,
        "comments": 0,
        "reactions": {
            "url": format!("{url}/reactions"), "total_count": 0, "+1": 0, "-1": 0, "laugh": 0, "hooray": 0,
            "confused": 0, "heart": 0, "rocket": 0, "eyes": 0,
        },
        "timeline_url": format!("{url}/timeline"),
        "performed_via_github_app": null,
        "state_reason": null,
        "closed_by": null,
    })
}
