//! Table of the error class for each result of a call.

use super::super::GithubError;
use super::super::call::CAP;
use super::super::classify::{Request, classify};
use super::super::response::Reply;
use super::recorded;
use crate::clock::Time;
use crate::process::ShortOutput;

const PATH: &str = "repos/acme/rocket/pulls/7";

fn end(status: Option<i32>, stdout: &[u8], stderr: &str) -> ShortOutput {
    ShortOutput {
        status,
        stdout: stdout.to_vec(),
        stderr: stderr.as_bytes().to_vec(),
        truncated: false,
    }
}

fn read(output: &ShortOutput) -> Result<Reply, GithubError> {
    classify(
        Request {
            path: PATH,
            is_conditional: true,
            is_write: false,
        },
        output,
    )
}

fn kind(output: &ShortOutput) -> &'static str {
    match read(output) {
        Ok(Reply::New { .. }) => "new",
        Ok(Reply::Unchanged { .. }) => "unchanged",
        Err(error) => {
            assert!(
                !error.to_string().contains('\n') && error.to_string().len() < 700,
                "{error}"
            );
            assert!(!error.hint().is_empty());
            match error {
                GithubError::NoGh => "no gh",
                GithubError::LoggedOut => "logged out",
                GithubError::Auth { .. } => "auth",
                GithubError::NotFound { .. } => "not found",
                GithubError::Limited { .. } => "limited",
                GithubError::Refused { .. } => "refused",
                GithubError::Transient { .. } => "transient",
                GithubError::Broken { .. } => "broken",
            }
        }
    }
}

#[test]
fn recorded_answers() {
    for (name, exit, expected) in [
        ("pull", 0, "new"),
        ("pulls", 0, "new"),
        ("posted", 0, "new"),
        // gh exits with 1 if nothing has changed.
        ("not_modified", 1, "unchanged"),
        ("bad_credentials", 1, "auth"),
        ("single_sign_on", 1, "auth"),
        ("missing_scope", 1, "auth"),
        ("rate_limit", 1, "limited"),
        ("secondary_limit", 1, "limited"),
        ("too_many", 1, "limited"),
        ("not_found", 1, "not found"),
        ("conflict", 1, "refused"),
        ("gone", 1, "refused"),
        ("unprocessable", 1, "refused"),
        ("own_pull", 1, "refused"),
        ("moved", 1, "refused"),
        ("bad_gateway", 1, "transient"),
        ("server_error", 1, "transient"),
        ("unavailable", 1, "transient"),
    ] {
        assert_eq!(
            kind(&end(Some(exit), &recorded(name), "gh: (HTTP nnn)")),
            expected,
            "{name}"
        );
        if exit == 1 {
            assert_eq!(
                kind(&end(Some(0), &recorded(name), "")),
                expected,
                "{name}, should gh leave with 0"
            );
        }
    }
}

#[test]
fn other_refusals() {
    for (status, message, expected) in [
        (400, "Problems parsing JSON", "refused"),
        (403, "Repository was archived so is read-only.", "refused"),
        (
            403,
            "Unable to create comment because issue is locked.",
            "refused",
        ),
        (
            403,
            "Must have push access to view collaborator permission.",
            "auth",
        ),
        (
            403,
            "Resource not accessible by personal access token",
            "auth",
        ),
        (
            403,
            "Although you appear to have the correct authorization credentials, the `x` organization has an IP allow list enabled",
            "auth",
        ),
        (
            403,
            "You have triggered an abuse detection mechanism.",
            "limited",
        ),
        (403, "API rate limit exceeded for 1.2.3.4.", "limited"),
        (408, "", "transient"),
        (451, "Repository access blocked", "refused"),
        (500, "", "transient"),
        (504, "", "transient"),
    ] {
        let out = format!("HTTP/2.0 {status} X\n\r\n{{\"message\":\"{message}\"}}");
        assert_eq!(
            kind(&end(Some(1), out.as_bytes(), "")),
            expected,
            "{status} {message}"
        );
    }
}

#[test]
fn ends_without_an_answer() {
    for (exit, stderr, expected) in [
        (
            Some(4),
            "To get started with GitHub CLI, please run:  gh auth login\n",
            "logged out",
        ),
        (
            Some(1),
            "Get \"https://api.github.com/user\": dial tcp 127.0.0.1:1: connect: connection refused\n",
            "transient",
        ),
        (
            Some(1),
            "Get \"https://api.github.com/user\": EOF\n",
            "transient",
        ),
        (
            Some(1),
            "Post \"https://api.github.com/x\": read tcp: connection reset by peer\n",
            "transient",
        ),
        (
            Some(1),
            "Get \"https://api.github.com/user\": tls: failed to verify certificate: x509: unknown authority\n",
            "transient",
        ),
        (
            Some(1),
            "error connecting to api.github.com\ncheck your internet connection or https://githubstatus.com\n",
            "transient",
        ),
        (
            Some(1),
            "A new release of gh is available: 2.23 → 2.102\n\u{1b}[33mGet \"x\n\nunexpected end of JSON input\n",
            "transient",
        ),
        (Some(2), "", "transient"),
        (None, "", "transient"),
        (Some(0), "", "broken"),
        (Some(1), "unknown flag: --input\n", "broken"),
        (Some(127), "sh: gh: not found\n", "broken"),
    ] {
        assert_eq!(kind(&end(exit, b"", stderr)), expected, "{exit:?} {stderr}");
    }
}

#[test]
fn odd_answers() {
    let pull = recorded("pull");
    assert_eq!(
        kind(&end(Some(1), &pull, "unexpected EOF\n")),
        "transient",
        "a truncated transfer"
    );
    assert_eq!(
        kind(&end(None, &pull, "")),
        "transient",
        "killed after the complete response"
    );
    for out in [
        &b"<html>502</html>"[..],
        b"null",
        b"[]",
        b"\x1b[1mHTTP/2.0 200 OK",
        b"HTTP/2.0 2000 OK\n\r\n",
        b"HTTP/2.0 OK\n\r\n",
    ] {
        assert_eq!(
            kind(&end(Some(0), out, "")),
            "broken",
            "{}",
            String::from_utf8_lossy(out)
        );
    }
    let unasked = classify(
        Request {
            path: PATH,
            is_conditional: false,
            is_write: false,
        },
        &end(Some(1), &recorded("not_modified"), ""),
    );
    assert!(
        matches!(unasked, Err(GithubError::Broken { .. })),
        "{unasked:?}"
    );
}

/// GitHub reports something as missing that a token may not change.
#[test]
fn what_is_not_found_for_want_of_a_scope() {
    for (is_write, scopes, accepted, is_auth) in [
        (true, "gist", "repo", true),
        (true, "", "repo", true),
        (false, "gist", "repo", false),
        (true, "repo", "repo", false),
        (true, "public_repo", "repo", false),
        (true, "gist", "", false),
    ] {
        let out = format!(
            "HTTP/2.0 404 Not Found\nX-Oauth-Scopes: {scopes}\r\nX-Accepted-Oauth-Scopes: {accepted}\r\n\r\n{{}}"
        );
        let request = Request {
            path: PATH,
            is_conditional: false,
            is_write,
        };
        let error = classify(request, &end(Some(1), out.as_bytes(), ""));
        assert_eq!(
            matches!(error, Err(GithubError::Auth { .. })),
            is_auth,
            "{is_write} {scopes}: {error:?}"
        );
    }
}

#[test]
fn an_answer_over_the_cap_is_broken_and_a_flood_of_stderr_is_not() {
    let mut output = end(Some(0), &recorded("pull"), "");
    output.truncated = true;
    assert_eq!(kind(&output), "new");
    output.stdout.resize(CAP, b' ');
    assert_eq!(kind(&output), "broken");
}

#[test]
fn when_to_come_back() {
    let until = |head: &str| {
        let out = format!("HTTP/2.0 403 Forbidden\n{head}\r\n{{\"message\":\"rate limit\"}}");
        match read(&end(Some(1), out.as_bytes(), "")) {
            Err(GithubError::Limited { until }) => until.map(|time| time.to_string()),
            other => panic!("{other:?}"),
        }
    };
    let date = "Date: Mon, 16 Nov 2026 02:30:00 GMT\r\n";
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        until(&format!("{date}Retry-After: 60\r\n")),
        some("2026-11-16T02:31:00.000Z")
    );
    assert_eq!(
        until("Retry-After: Mon, 16 Nov 2026 03:00:00 GMT\r\n"),
        some("2026-11-16T03:00:00.000Z")
    );
    let used_up = "X-Ratelimit-Remaining: 0\r\nX-Ratelimit-Reset: 1795000000\r\n";
    assert_eq!(until(used_up), some("2026-11-18T11:06:40.000Z"));
    assert_eq!(
        until(&format!("Retry-After: 60\r\n{used_up}")),
        some("2026-11-18T11:06:40.000Z"),
        "seconds from when?"
    );
    assert_eq!(
        until(&format!("{date}Retry-After: 60\r\n{used_up}")),
        some("2026-11-16T02:31:00.000Z")
    );
    assert_eq!(
        until("X-Ratelimit-Remaining: 9\r\nX-Ratelimit-Reset: 1795000000\r\n"),
        None
    );
    assert_eq!(until("Retry-After: soon\r\n"), None);
    assert_eq!(
        until(&format!("{date}Retry-After: 99999999999999999\r\n")),
        some("9999-12-31T23:59:59.999Z")
    );
}

#[test]
fn what_a_person_reads() {
    let said = |name: &str| {
        read(&end(Some(1), &recorded(name), ""))
            .unwrap_err()
            .to_string()
    };
    let names = [
        "bad_credentials",
        "single_sign_on",
        "not_found",
        "rate_limit",
        "unprocessable",
        "own_pull",
        "moved",
        "bad_gateway",
    ];
    insta::assert_snapshot!(names.map(said).join("\n"), @"
    GitHub refused the request for the account that gh is logged in to: Bad credentials
    GitHub refused the request for the account that gh is logged in to: Resource protected by organization SAML enforcement. You must grant your Personal Access token access to this organization. (authorize it at https://github.com/orgs/x/sso?a=b)
    GitHub has no `repos/acme/rocket/pulls/7`, or gh's account has no access to it
    GitHub's rate limit is used up until 2026-11-18T11:06:40.000Z
    GitHub refused the request (HTTP 422): Validation Failed: Line could not be resolved
    GitHub refused the request (HTTP 422): Unprocessable Entity: Can not request changes on your own pull request
    GitHub refused the request (HTTP 307): the repository was renamed (Moved)
    request to GitHub for `repos/acme/rocket/pulls/7` failed: HTTP 502: <html><body>502 Bad; Gateway</body></html>
    ");
}

#[test]
fn the_rate_of_every_answer() {
    let rate = |name: &str| {
        super::super::response::split(&recorded(name))
            .unwrap()
            .0
            .rate()
    };
    let seen = rate("not_modified").unwrap();
    assert_eq!(
        (seen.limit, seen.remaining, seen.reset),
        (5_000, 4_987, Time::from_millis(1_795_000_000_000))
    );
    assert_eq!(rate("rate_limit").unwrap().remaining, 0);
}
