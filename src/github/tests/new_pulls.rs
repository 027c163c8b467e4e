//! Tests for pull requests that are opened, and for those that a branch has.

use serde_json::{Value, json};

use super::{Bed, recorded};
use crate::github::{GithubError, NewPull, Opened, PullRefusal, RefusalCause};

const PULLS: &str = "repos/acme/rocket/pulls";
const OF_BRANCH: &str = "repos/acme/rocket/pulls?state=all&head=acme:fix%2Fengines";

fn new() -> NewPull {
    NewPull {
        title: "@file".to_owned(),
        body: "--input /etc/passwd\n\n<!-- remand:1 -->".to_owned(),
        head: "fix/engines".to_owned(),
        base: "main".to_owned(),
        draft: false,
    }
}

/// Returns the recorded pull request with some changes.
fn pull(number: i64, changes: &[(&str, Value)]) -> Value {
    let recorded = String::from_utf8(recorded("pull")).unwrap();
    let mut pull: Value = serde_json::from_str(recorded.split_once("\r\n\r\n").unwrap().1).unwrap();
    pull["number"] = json!(number);
    for (pointer, value) in changes {
        *pull.pointer_mut(pointer).unwrap() = value.clone();
    }
    pull
}

#[tokio::test]
async fn a_pull_request_is_opened() {
    let bed = Bed::new();
    let created = format!("HTTP/2.0 201 Created\n\r\n{}", pull(8, &[]));
    bed.raw(PULLS, created.as_bytes(), "", 0);
    let Ok(Opened::Done(pull)) = bed.github.create_pull("acme/rocket", &new()).await else {
        panic!("it is opened")
    };
    assert_eq!((pull.number, pull.head_ref.as_str()), (8, "fix/engines"));
    assert_eq!(bed.asked(), [format!("POST {PULLS}")]);
    assert_eq!(
        bed.body(),
        json!({
            "title": "@file",
            "body": "--input /etc/passwd\n\n<!-- remand:1 -->",
            "head": "fix/engines",
            "base": "main",
            "draft": false,
        })
    );
}

/// The bodies are those of GitHub, as its users report them.
#[tokio::test]
async fn a_refusal_has_a_cause() {
    let details = |errors: Value| json!({ "message": "Validation Failed", "errors": errors });
    let field = |name: &str| {
        details(json!([{ "resource": "PullRequest", "field": name, "code": "invalid" }]))
    };
    let custom = |text: &str| {
        details(json!([{ "resource": "PullRequest", "code": "custom", "message": text }]))
    };
    let no_drafts =
        json!({ "message": "Draft pull requests are not supported in this repository." });
    let too_long = json!([{
        "resource": "Issue", "code": "custom", "field": "title", "message": "title is too long",
    }]);
    for (draft, body, cause, message) in [
        (
            false,
            field("base"),
            RefusalCause::NoBase,
            "Validation Failed: base is invalid",
        ),
        (
            true,
            field("head"),
            RefusalCause::NoHead,
            "Validation Failed: head is invalid",
        ),
        (
            true,
            no_drafts.clone(),
            RefusalCause::MaybeDraft,
            "Draft pull requests are not supported in this repository.",
        ),
        (
            false,
            no_drafts,
            RefusalCause::Other,
            "Draft pull requests are not supported in this repository.",
        ),
        (
            true,
            custom("No commits between main and x"),
            RefusalCause::Other,
            "Validation Failed: No commits between main and x",
        ),
        (
            false,
            details(too_long),
            RefusalCause::Other,
            "Validation Failed: title is too long",
        ),
    ] {
        let bed = Bed::new();
        let out = format!("HTTP/2.0 422 Unprocessable Entity\n\r\n{body}");
        bed.raw(PULLS, out.as_bytes(), "gh: (HTTP 422)\n", 1);
        let new = NewPull { draft, ..new() };
        let message = message.to_owned();
        assert_eq!(
            bed.github.create_pull("acme/rocket", &new).await,
            Ok(Opened::Refused(PullRefusal { cause, message })),
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_token_without_the_right_is_auth_and_says_what_it_needs() {
    let classic =
        "X-Oauth-Scopes: gist, read:org\r\nX-Accepted-Oauth-Scopes: public_repo, repo\r\n";
    let fine = "X-Accepted-Github-Permissions: pull_requests=write\r\n";
    let bed = Bed::new();
    let mut said = Vec::new();
    for (head, message) in [
        (format!("404 Not Found\n{classic}"), "Not Found"),
        (format!("403 Forbidden\n{classic}"), "Forbidden"),
        (
            format!("403 Forbidden\n{fine}"),
            "Resource not accessible by personal access token",
        ),
    ] {
        let out = format!("HTTP/2.0 {head}\r\n{{\"message\":\"{message}\"}}");
        bed.raw(PULLS, out.as_bytes(), "gh: refused\n", 1);
        let error = bed.github.create_pull("acme/rocket", &new()).await;
        let error = error.unwrap_err();
        assert!(matches!(error, GithubError::Auth { .. }), "{error}");
        said.push(error.to_string());
    }
    insta::assert_snapshot!(said.join("\n"), @"
    GitHub refused the request for the account that gh is logged in to: Not Found (the token needs the scope public_repo or repo; its scopes: gist, read:org)
    GitHub refused the request for the account that gh is logged in to: Forbidden (the token needs the scope public_repo or repo; its scopes: gist, read:org)
    GitHub refused the request for the account that gh is logged in to: Resource not accessible by personal access token (the token needs pull_requests=write)
    ");
    // A repository that is gone.
    bed.raw(PULLS, &recorded("not_found"), "gh: Not Found\n", 1);
    let error = bed.github.create_pull("acme/rocket", &new()).await;
    assert!(
        matches!(error, Err(GithubError::NotFound { .. })),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_unclear_result_is_not_a_refusal() {
    for (out, exit) in [
        (&b"HTTP/2.0 502 Bad Gateway\n\r\n<html></html>"[..], 1),
        // Redirected: a list of the pull requests.
        (b"HTTP/2.0 200 OK\n\r\n[]", 0),
        (b"", 1),
    ] {
        let bed = Bed::new();
        bed.raw(PULLS, out, "Post \"https://api.github.com/x\": EOF\n", exit);
        let error = bed.github.create_pull("acme/rocket", &new()).await;
        assert!(
            matches!(
                error,
                Err(GithubError::Transient { .. } | GithubError::Broken { .. })
            ),
            "{error:?}"
        );
        assert_eq!(bed.asked().len(), 1, "never repeated");
    }
}

#[tokio::test]
async fn the_pull_requests_of_a_branch() {
    let bed = Bed::new();
    let closed = json!("closed");
    let other = |name: &str| ("/head/repo/full_name", json!(name));
    let list = json!([
        pull(9, &[other("Acme/Rocket"), ("/base/ref", json!("next"))]),
        pull(9, &[]),
        pull(8, &[]),
        pull(7, &[other("mallory/rocket")]),
        pull(6, &[("/head/repo", Value::Null)]),
        pull(5, &[("/head/ref", json!("Fix/Engines"))]),
        pull(4, &[("/state", closed.clone())]),
        pull(
            3,
            &[
                ("/state", closed),
                ("/merged_at", json!("2026-11-16T03:00:00Z"))
            ]
        ),
    ]);
    let page = format!("{OF_BRANCH}&per_page=100&page=1");
    bed.answer(&page, "W/\"1\"", &list.to_string());
    let found = bed.github.pulls_of_branch("acme/rocket", "fix/engines");
    let found = found.await.unwrap();
    let numbers = |list: &[crate::pull_request::Pull]| {
        list.iter().map(|pull| pull.number).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&found.open), [9, 8]);
    assert_eq!(numbers(&found.closed), [4, 3]);
    assert_eq!(found.open_into("main").map(|pull| pull.number), Some(8));
    assert_eq!(found.open_into("dev"), None);
    assert_eq!(bed.asked(), [format!("GET {page}")]);
    let none = bed.github.pulls_of_branch("acme/rocket", "").await;
    assert!(matches!(none, Err(GithubError::NotFound { .. })));
    assert_eq!(bed.asked(), [""; 0]);
}

#[tokio::test]
async fn an_issue_and_a_pull_request_that_is_one() {
    let bed = Bed::new();
    let path = "repos/acme/rocket/issues/12";
    let issue = json!({ "title": "It leaks", "state": "closed", "body": null, "user": null });
    bed.answer(path, "W/\"1\"", &issue.to_string());
    let read = bed.github.issue("acme/rocket", 12).await.unwrap();
    assert_eq!((read.title.as_str(), read.body.as_str()), ("It leaks", ""));
    assert_eq!(
        (read.is_open, read.is_pull, read.author),
        (false, false, None)
    );
    let mut issue = issue;
    issue["pull_request"] = json!({});
    issue["state"] = json!("open");
    bed.answer(path, "W/\"1\"", &issue.to_string());
    let read = bed.github.issue("acme/rocket", 12).await.unwrap();
    assert_eq!((read.is_open, read.is_pull), (true, true));
}
