//! JSON of reviews and comments, with every field that GitHub's API description requires.

use serde_json::{Value, json};

use crate::json::{WEB, merge};
use crate::request::API;
use crate::state::{Comment, GithubState, IssueComment, Review};

/// A pull request, by repository and number.
pub(crate) struct PullRef<'a> {
    pub(crate) repo: &'a str,
    pub(crate) number: i64,
}

impl PullRef<'_> {
    fn web(&self) -> String {
        format!("{WEB}/{}/pull/{}", self.repo, self.number)
    }

    fn pull_url(&self) -> String {
        format!("{API}/repos/{}/pulls/{}", self.repo, self.number)
    }
}

impl GithubState {
    pub(crate) fn review(&self, on: &PullRef<'_>, review: &Review) -> Value {
        let html = format!("{}#pullrequestreview-{}", on.web(), review.id);
        json!({
            "id": review.id,
            "node_id": format!("PRR_{}", review.id),
            "user": self.user(&review.author),
            "body": review.body,
            "state": review.state,
            "html_url": html,
            "pull_request_url": on.pull_url(),
            "author_association": self.association(on.repo, &review.author),
            "_links": { "html": { "href": html }, "pull_request": { "href": on.pull_url() } },
            "submitted_at": review.submitted_at,
            "commit_id": review.commit,
        })
    }

    pub(crate) fn comment(&self, on: &PullRef<'_>, comment: &Comment) -> Value {
        let url = format!("{API}/repos/{}/pulls/comments/{}", on.repo, comment.id);
        let html = format!("{}#discussion_r{}", on.web(), comment.id);
        let line = comment.line.filter(|_| !comment.is_outdated);
        let start = comment.start_line.filter(|_| !comment.is_outdated);
        let value = json!({
            "url": url,
            "pull_request_review_id": comment.review,
            "id": comment.id,
            "node_id": format!("PRRC_{}", comment.id),
            "diff_hunk": comment.hunk,
            "path": comment.path,
            "commit_id": comment.commit,
            "original_commit_id": comment.commit,
            "user": self.user(&comment.author),
            "body": comment.body,
            "created_at": comment.created_at,
            "updated_at": comment.updated_at,
            "html_url": html,
            "pull_request_url": on.pull_url(),
            "author_association": self.association(on.repo, &comment.author),
            "_links": {
                "self": { "href": url },
                "html": { "href": html },
                "pull_request": { "href": on.pull_url() },
            },
            "start_line": start,
            "original_start_line": comment.start_line,
            "start_side": comment.start_line.map(|_| comment.side),
            // GitHub returns null for outdated comments, although its API description does not allow it.
            "position": line.map(|_| 1),
            "original_position": 1,
            "line": line,
            "original_line": comment.line,
            "side": comment.side,
            "subject_type": if comment.line.is_some() { "line" } else { "file" },
            "reactions": reactions(&format!("{url}/reactions")),
        });
        // GitHub omits the key in comments that are not replies.
        let reply = comment
            .in_reply_to
            .map_or(json!({}), |id| json!({ "in_reply_to_id": id }));
        merge(value, reply)
    }

    pub(crate) fn issue_comment(&self, on: &PullRef<'_>, comment: &IssueComment) -> Value {
        let url = format!("{API}/repos/{}/issues/comments/{}", on.repo, comment.id);
        let home = self.repos.get(on.repo);
        let web = if home.is_some_and(|home| home.issues.contains_key(&on.number)) {
            format!("{WEB}/{}/issues/{}", on.repo, on.number)
        } else {
            on.web()
        };
        json!({
            "url": url,
            "html_url": format!("{web}#issuecomment-{}", comment.id),
            "issue_url": format!("{API}/repos/{}/issues/{}", on.repo, on.number),
            "id": comment.id,
            "node_id": format!("IC_{}", comment.id),
            "user": self.user(&comment.author),
            "created_at": comment.created_at,
            "updated_at": comment.updated_at,
            "body": comment.body,
            "author_association": self.association(on.repo, &comment.author),
            "reactions": reactions(&format!("{url}/reactions")),
            "performed_via_github_app": null,
        })
    }
}

fn reactions(url: &str) -> Value {
    json!({
        "url": url, "total_count": 0, "+1": 0, "-1": 0, "laugh": 0, "hooray": 0, "confused": 0, "heart": 0,
        "rocket": 0, "eyes": 0,
    })
}
