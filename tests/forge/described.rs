//! Every response matches GitHub's own description of its API (`@octokit/openapi`).

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};

use super::model::Stage;
use crate::support::forge::Review;
use crate::support::{feed, skip, tool};

/// Sends a request over the socket; returns status and body.
fn ask(socket: &Path, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut stream = UnixStream::connect(socket).unwrap();
    let head =
        format!("{method} /{path} HTTP/1.1\r\nHost: api.github.com\r\nConnection: close\r\n");
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, rest) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    // The fake sends a body as one chunk.
    let body = rest.lines().nth(1).unwrap_or("null");
    (
        status,
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}")),
    )
}

#[test]
fn forge_answers_match_githubs_own_description() {
    let (Some(python), Some(description)) = (tool("gh/bin/python"), tool("github.json")) else {
        return skip(
            "forge_answers_match_githubs_own_description",
            "GitHub's description is not there: see tests/run",
        );
    };
    let stage = Stage::new();
    let inline: &[_] = &[("work.txt", 1, "why?")];
    let rejection = stage.forge.review(
        1,
        &Review {
            by: "ada",
            body: "no",
            inline,
            ..Review::default()
        },
    );
    stage.forge.issue_comment(1, "mallory", "hi");
    stage.forge.label(1, "agent");
    let issue = stage
        .forge
        .open_issue("mallory", "It leaks", "See the log.");
    stage.forge.comment_on_issue(issue, "mallory", "a log");
    stage.forge.close_issue(issue);
    stage.branch("other");
    stage.branch("new");
    stage.forge.open_pull("other", "main", "ada");
    stage.forge.merge(2, "ada");
    let comment = stage.forge.comments(1)[0]["id"].clone();
    let server = stage.forge.serve();
    let socket = server.socket();
    let repo = "repos/{owner}/{repo}";
    let pull = "repos/{owner}/{repo}/pulls/{pull_number}";
    let issue_path = "repos/{owner}/{repo}/issues/{issue_number}";
    let issue_comments = "repos/{owner}/{repo}/issues/{issue_number}/comments";
    let commit = "repos/{owner}/{repo}/git/commits/{commit_sha}";
    let head = stage.world.git(&stage.work, &["rev-parse", "feature"]);
    let permission = "repos/{owner}/{repo}/collaborators/{username}/permission";
    let review = json!({
        "event": "COMMENT", "body": "x", "comments": [{ "path": "work.txt", "line": 1, "body": "here" }],
    });
    let new =
        |head: &str, base: &str| json!({ "title": "x", "head": head, "base": base, "draft": true });
    let at = |rest: &str| format!("{pull}/{rest}");
    let at_commit = |rest: &str| format!("repos/{{owner}}/{{repo}}/commits/{{ref}}/{rest}");
    let job = stage.forge.set_check(&head, "test", Some("failure"));
    let scan = stage
        .forge
        .set_check_by("scanner", &head, "scan", Some("failure"));
    stage.forge.set_check(&head, "lint", Some("success"));
    stage.forge.set_status(&head, "ci", "success");
    stage.forge.require("main", &["test"]);
    stage.forge.protect("main", &["lint"]);
    let cases: Vec<(&str, String, Option<Value>, u16)> = vec![
        ("GET", "user".into(), None, 200),
        ("GET", "rate_limit".into(), None, 200),
        ("GET", repo.into(), None, 200),
        ("GET", format!("{repo}/pulls"), None, 200),
        (
            "GET",
            format!("{repo}/pulls?state=all&per_page=1&page=2"),
            None,
            200,
        ),
        (
            "GET",
            format!("{repo}/pulls?state=all&head=ada:other"),
            None,
            200,
        ),
        (
            "POST",
            format!("{repo}/pulls"),
            Some(new("new", "main")),
            201,
        ),
        (
            "POST",
            format!("{repo}/pulls"),
            Some(new("new", "main")),
            422,
        ),
        ("POST", format!("{repo}/pulls"), Some(new("new", "x")), 422),
        ("POST", format!("{repo}/pulls"), Some(new("x", "main")), 422),
        (
            "POST",
            format!("{repo}/pulls"),
            Some(new("main", "main")),
            422,
        ),
        ("PATCH", pull.into(), Some(json!({ "body": "x" })), 200),
        (
            "PATCH",
            pull.into(),
            Some(json!({ "body": "x".repeat(65_537) })),
            422,
        ),
        ("GET", pull.into(), None, 200),
        ("GET", pull.replace("{pull_number}", "2"), None, 200),
        ("GET", pull.replace("{pull_number}", "99"), None, 404),
        ("GET", at("reviews"), None, 200),
        ("GET", at("comments"), None, 200),
        ("GET", issue_path.into(), None, 200),
        (
            "GET",
            issue_path.replace("{issue_number}", &issue.to_string()),
            None,
            200,
        ),
        ("GET", issue_comments.into(), None, 200),
        (
            "GET",
            issue_comments.replace("{issue_number}", &issue.to_string()),
            None,
            200,
        ),
        (
            "POST",
            issue_comments.replace("{issue_number}", &issue.to_string()),
            Some(json!({ "body": "x" })),
            201,
        ),
        ("GET", commit.into(), None, 200),
        (
            "GET",
            commit.replace("{commit_sha}", &"0".repeat(40)),
            None,
            404,
        ),
        ("GET", permission.into(), None, 200),
        ("GET", permission.replace("{username}", "nobody"), None, 404),
        ("GET", at_commit("check-runs"), None, 200),
        ("GET", at_commit("status"), None, 200),
        (
            "GET",
            format!("{repo}/rules/branches/{{branch}}"),
            None,
            200,
        ),
        ("GET", format!("{repo}/branches/{{branch}}"), None, 200),
        ("GET", format!("{repo}/branches/nowhere"), None, 404),
        ("GET", format!("{repo}/compare/{{basehead}}"), None, 200),
        (
            "POST",
            format!("{repo}/actions/jobs/{{job_id}}/rerun"),
            Some(json!({})),
            201,
        ),
        (
            "POST",
            format!("{repo}/actions/jobs/{{job_id}}/rerun"),
            Some(json!({})),
            403,
        ),
        (
            "POST",
            format!("{repo}/check-runs/{{check_run_id}}/rerequest"),
            Some(json!({})),
            201,
        ),
        ("POST", at("reviews"), Some(review), 200),
        (
            "POST",
            at("reviews"),
            Some(json!({ "event": "COMMENT" })),
            422,
        ),
        (
            "POST",
            issue_comments.into(),
            Some(json!({ "body": "x" })),
            201,
        ),
        (
            "POST",
            issue_comments.into(),
            Some(json!({ "body": "" })),
            422,
        ),
        (
            "POST",
            at("comments/{comment_id}/replies"),
            Some(json!({ "body": "x" })),
            201,
        ),
        (
            "POST",
            at("requested_reviewers"),
            Some(json!({ "reviewers": ["ada"] })),
            201,
        ),
        (
            "POST",
            at("requested_reviewers"),
            Some(json!({ "reviewers": ["bob"] })),
            422,
        ),
        (
            "PUT",
            at("reviews/{review_id}/dismissals"),
            Some(json!({ "message": "x" })),
            200,
        ),
        (
            "PUT",
            at("reviews/{review_id}/dismissals"),
            Some(json!({ "message": "x" })),
            422,
        ),
    ];
    let mut answers = String::new();
    for (method, shape, body, expected) in cases {
        let path = shape
            .replace("{owner}/{repo}", "ada/engine")
            .replace("{pull_number}", "1")
            .replace("{issue_number}", "1")
            .replace("{username}", "bob")
            .replace("{commit_sha}", &head)
            .replace("{ref}", &head)
            .replace("{branch}", "main")
            .replace("{basehead}", &format!("main...{head}"))
            .replace("{job_id}", &job.to_string())
            .replace("{check_run_id}", &scan.to_string())
            .replace("{comment_id}", &comment.to_string())
            .replace("{review_id}", &rejection.to_string());
        let (status, body) = ask(&socket, method, &path, body.as_ref());
        assert_eq!(status, expected, "{method} {path}: {body}");
        let described =
            described(&shape.replace(&format!("/issues/{issue}"), "/issues/{issue_number}"));
        let answer = json!({ "method": method.to_lowercase(), "path": described, "status": status, "body": body });
        answers.push_str(&format!("{answer}\n"));
    }
    let mut command = stage.world.command(python);
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/forge/described.py"))
        .arg(description);
    let troubles = feed(command, &answers).ok().stdout;
    assert_eq!(troubles, "");
    assert!(server.stop().success());
}

/// Returns the path as in the description, without the values of a case.
fn described(shape: &str) -> String {
    let shape = shape.split('?').next().unwrap_or_default();
    let shape = shape
        .replace("/pulls/2", "/pulls/{pull_number}")
        .replace("/pulls/99", "/pulls/{pull_number}")
        .replace("/branches/nowhere", "/branches/{branch}");
    let shape = shape.replace(&"0".repeat(40), "{commit_sha}");
    format!("/{}", shape.replace("/nobody/", "/{username}/"))
}
