//! The fake `gh` command prints what the real one prints, for the same requests to the same forge.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::model::Stage;
use crate::support::forge::{Review, Server};
use crate::support::{Output, feed, skip, tool};

/// One call, and the faults that affect it.
struct Case {
    args: Vec<String>,
    stdin: String,
    fault: Option<Value>,
}

fn case(args: &[&str]) -> Case {
    Case {
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        stdin: String::new(),
        fault: None,
    }
}

impl Case {
    fn sends(mut self, body: &Value) -> Self {
        self.args.extend(["--input".to_owned(), "-".to_owned()]);
        self.stdin = body.to_string();
        self
    }

    fn meets(mut self, then: &Value) -> Self {
        self.fault = Some(json!({ "path": "", "then": then }));
        self
    }
}

const NO_GH: &str = "gh 2.102 is not there: see tests/run";
const PULL: &str = "repos/ada/engine/pulls/1";

fn cases(etag: &str) -> Vec<Case> {
    let status = |status: u16, body: &str| json!({ "status": { "status": status, "body": body } });
    let moved = |status: u16| {
        let headers = json!({ "Location": "https://api.github.com/user" });
        json!({ "status": { "status": status, "headers": headers, "body": "{}" } })
    };
    let scopes =
        json!({ "X-OAuth-Scopes": "gist, repo", "X-Accepted-OAuth-Scopes": "repo, read:org" });
    let single = json!({ "X-GitHub-SSO": "required; url=https://github.com/orgs/ada/sso?x=y" });
    let pulls = "repos/ada/engine/pulls";
    let new =
        |head: &str, base: &str| json!({ "title": "x", "body": "y", "head": head, "base": base });
    let (reviews, comments) = (
        format!("{PULL}/reviews"),
        "repos/ada/engine/issues/1/comments",
    );
    let mut cases = vec![
        case(&["user"]),
        case(&["/user", "--hostname", "github.com", "--method", "GET"]),
        case(&["https://api.github.com/user"]),
        case(&["-i", "user", "--silent"]),
        case(&["-i", PULL]),
        case(&["-i", PULL, "-H", &format!("If-None-Match: {etag}")]),
        case(&["-i", &reviews]),
        case(&["-i", comments]),
        case(&["-i", "repos/ada/nothing"]),
        case(&["repos/ada/nothing", "--silent"]),
        // Renamed since: a GET is redirected, a POST whose body cannot be sent twice is not.
        case(&["-i", "repos/ada/old/pulls?state=open"]),
        case(&["-i", "repos/ada/old/issues/1/comments"]).sends(&json!({ "body": "x" })),
        case(&["-i", comments]).sends(&json!({ "body": "a comment" })),
        case(&["-i", "-X", "POST", comments]).sends(&json!({ "body": " " })),
        case(&["-i", pulls]).sends(&new("topic", "main")),
        case(&["-i", pulls]).sends(&new("feature", "main")),
        case(&[pulls]).sends(&new("topic", "nowhere")),
        case(&["-i", pulls])
            .sends(&new("topic", "main"))
            .meets(&json!("dropped_after_write")),
        case(&["-i", pulls])
            .sends(&new("topic", "main"))
            .meets(&moved(307)),
        case(&["-i", "-X", "PATCH", PULL]).sends(&json!({ "body": "new" })),
        case(&["-i", "-X", "PATCH", PULL])
            .sends(&json!({ "body": "new" }))
            .meets(&json!("dropped_after_write")),
        case(&["-X", "POST", &reviews])
            .sends(&json!({ "event": "COMMENT", "body": "x", "commit_id": "1".repeat(40) })),
        case(&["-i", &reviews]).sends(&json!({ "event": "APPROVE" })),
        case(&[comments])
            .sends(&json!({ "body": "x" }))
            .meets(&json!("empty")),
        // A write that is redirected with the older status becomes a read.
        case(&["-i", comments])
            .sends(&json!({ "body": "x" }))
            .meets(&moved(301)),
        case(&["-i", comments])
            .sends(&json!({ "body": "x" }))
            .meets(&moved(308)),
        case(&["-i", comments]).meets(&moved(308)),
    ];
    for page in 1..=4 {
        cases.push(case(&[
            "-i",
            &format!("repos/ada/engine/pulls?state=open&per_page=2&page={page}"),
        ]));
    }
    for then in [
        status(401, r#"{"message":"Bad credentials","status":"401"}"#),
        status(403, r#"{"message":"Forbidden","errors":"so there"}"#),
        status(404, r#"{"message":"Not Found"}"#),
        status(404, "{}"),
        status(409, r#"{"message":"Conflict","errors":[{"message":"x"}]}"#),
        status(410, r#"{"message":"Gone"}"#),
        status(422, r#"{"message":"Validation Failed","errors":["x"]}"#),
        json!({ "status": { "status": 429, "headers": { "Retry-After": "7" }, "body": r#"{"message":"slow down"}"# } }),
        json!({ "status": { "status": 403, "headers": scopes, "body": r#"{"message":"Forbidden"}"# } }),
        json!({ "status": { "status": 422, "headers": scopes, "body": r#"{"message":"Invalid"}"# } }),
        json!({ "status": { "status": 403, "headers": single, "body": r#"{"message":"SAML"}"# } }),
        status(500, ""),
        status(500, r#"{"mess"#),
        status(502, "<html></html>"),
        status(503, r#"{"message":"No server is currently available"}"#),
        status(200, "null"),
        json!("html502"),
        json!("empty"),
        json!("half"),
        json!("not_json"),
        json!("dropped_after_write"),
        json!({ "rate_limited": { "reset_in_s": 60 } }),
        json!({ "secondary_limit": { "retry_after_s": 60 } }),
        json!({ "slow": { "ms": 20 } }),
    ] {
        cases.push(case(&["-i", "user"]).meets(&then));
        cases.push(case(&["user"]).meets(&then));
    }
    cases
}

fn real(stage: &Stage, gh: &Path, server: &Server, case: &Case) -> Output {
    let mut command = stage.world.command(gh);
    command
        .envs(server.real_gh_env())
        .arg("api")
        .args(&case.args);
    feed(command, &case.stdin)
}

fn fake(stage: &Stage, case: &Case) -> Output {
    let args: Vec<&str> = std::iter::once("api")
        .chain(case.args.iter().map(String::as_str))
        .collect();
    stage.gh_with(&args, &case.stdin)
}

/// Removes unrelated differences: the version of HTTP, and the time.
fn plain(output: &Output) -> (i32, String, String) {
    let line = |line: &str| match line.split_once(' ') {
        Some(("HTTP/1.1", rest)) => format!("HTTP/2.0 {rest}"),
        Some((name @ ("Date:" | "X-Ratelimit-Reset:"), _)) => format!("{name} …\r\n"),
        _ => line.to_owned(),
    };
    (
        output.status,
        output.stdout.split_inclusive('\n').map(line).collect(),
        output.stderr.clone(),
    )
}

/// Returns the upstream binary, and that of this machine.
fn installed() -> Vec<PathBuf> {
    let upstream = tool("gh/bin/gh");
    if upstream.is_none() {
        skip("the_real_gh_speaks_to_the_fake", NO_GH);
    }
    let system = Some(PathBuf::from("/usr/bin/gh")).filter(|path| path.exists());
    if system.is_none() {
        skip(
            "the_systems_gh_speaks_to_the_fake",
            "/usr/bin/gh is not there",
        );
    }
    upstream.into_iter().chain(system).collect()
}

fn stage() -> (Stage, Server) {
    let mut stage = Stage::new();
    stage.branch("topic");
    for _ in 0..4 {
        stage.forge.open_pull("feature", "main", "bob");
    }
    stage.forge.review(
        1,
        &Review {
            body: "say \"é\" \u{7}, \\ and\ttab",
            ..Review::default()
        },
    );
    stage.forge.rename("ada/old");
    stage.forge.rename("ada/engine");
    stage.forge.set_rate(4000, 1800);
    let server = stage.forge.serve();
    (stage, server)
}

#[test]
fn the_real_gh_speaks_to_the_fake() {
    let (stage, server) = stage();
    let first = stage.gh(&["api", "-i", PULL]).ok();
    let etag = first
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("Etag: "))
        .unwrap()
        .trim()
        .to_owned();
    for gh in installed() {
        for case in cases(&etag) {
            both_say_the_same(&stage, &server, &gh, &case);
        }
    }
    assert!(server.stop().success());
}

/// Checks, reruns, and a log that another host has, to which the real gh is redirected.
#[test]
fn checks_and_logs_are_the_same_through_the_real_gh() {
    let (stage, server) = stage();
    let head = stage.world.git(&stage.work, &["rev-parse", "feature"]);
    let job = stage.forge.set_check(&head, "test", Some("failure"));
    stage.forge.set_log(
        job,
        "one\n\u{1b}[31mtwo\u{1b}[0m\n##[error]three\n",
        100_000,
    );
    stage.forge.set_status(&head, "ci", "pending");
    stage.forge.require("main", &["test"]);
    let repo = "repos/ada/engine";
    let cases = [
        case(&[
            "-i",
            &format!("{repo}/commits/{head}/check-runs?per_page=100&page=1"),
        ]),
        case(&[
            "-i",
            &format!("{repo}/commits/{head}/status?per_page=100&page=1"),
        ]),
        case(&["-i", &format!("{repo}/rules/branches/main?per_page=100")]),
        case(&["-i", &format!("{repo}/branches/main")]),
        case(&["-i", &format!("{repo}/branches/nowhere")]),
        case(&["-i", &format!("{repo}/compare/main...{head}?per_page=1")]),
        case(&["-i", &format!("{repo}/actions/jobs/{job}/logs")]),
        case(&[
            "-i",
            "--allow-escape-sequences",
            &format!("{repo}/actions/jobs/{job}/logs"),
        ]),
        case(&["-i", &format!("{repo}/actions/jobs/1/logs")]),
        case(&[
            "-i",
            "-X",
            "POST",
            &format!("{repo}/actions/jobs/{job}/rerun"),
        ])
        .sends(&json!({})),
    ];
    for gh in installed() {
        for case in &cases {
            both_say_the_same(&stage, &server, &gh, case);
        }
    }
    assert!(server.stop().success());
}

/// 2.46 does the same; 2.23 accepts more of them.
#[test]
fn control_characters_are_shown_as_the_newest_gh_shows_them() {
    let Some(gh) = tool("gh/bin/gh") else {
        return skip("the_real_gh_speaks_to_the_fake", NO_GH);
    };
    let (stage, server) = stage();
    let body: String = (0..=0x20)
        .chain(0x7f..=0xa0_u8)
        .map(|code| format!("\\u{code:04x} {} ", char::from(code)))
        .collect();
    let case = case(&["-i", "user"]).meets(&json!({ "status": { "status": 200, "body": body } }));
    both_say_the_same(&stage, &server, &gh, &case);
}

/// Asserts the same effect on the forge, which is then restored.
#[track_caller]
fn both_say_the_same(stage: &Stage, server: &Server, gh: &Path, case: &Case) {
    let before = stage.forge.snapshot();
    if let Some(fault) = &case.fault {
        stage.forge.fault(fault.clone());
    }
    let ready = stage.forge.snapshot();
    let ours = fake(stage, case);
    let after_ours = stage.forge.snapshot();
    stage.forge.restore(&ready);
    let theirs = real(stage, gh, server, case);
    assert_eq!(
        plain(&ours),
        plain(&theirs),
        "{}: {:?} {:?}",
        gh.display(),
        case.args,
        case.fault
    );
    assert_eq!(
        after_ours,
        stage.forge.snapshot(),
        "{:?} {:?}",
        case.args,
        case.fault
    );
    stage.forge.restore(&before);
}

#[test]
fn a_transfer_that_is_cut_is_no_answer() {
    let (stage, server) = stage();
    for gh in installed() {
        let case = case(&["repos/ada/engine/issues/1/comments"]).sends(&json!({ "body": "x" }));
        stage.forge.fault(
            json!({ "method": "POST", "path": "comments", "times": 2, "then": "cut_after_write" }),
        );
        let before = stage.forge.issue_comments(1).len();
        let (ours, theirs) = (fake(&stage, &case), real(&stage, &gh, &server, &case));
        assert_eq!((ours.status, ours.stderr.as_str()), (1, "unexpected EOF\n"));
        assert_eq!(
            (theirs.status, theirs.stderr.as_str()),
            (1, "unexpected EOF\n")
        );
        // Versions differ by the byte in how much of it they print; the ids in it differ, too.
        assert!(
            ours.stdout.len().abs_diff(theirs.stdout.len()) <= 1,
            "{ours:?} {theirs:?}"
        );
        assert_eq!(
            stage.forge.issue_comments(1).len(),
            before + 2,
            "both were written all the same"
        );
    }
}

#[test]
fn nobody_is_logged_in_or_nobody_is_there() {
    let (stage, server) = stage();
    let case = case(&["-i", "user"]);
    for gh in installed() {
        stage.forge.log_out();
        let mut command = stage.world.command(&gh);
        command
            .envs(server.real_gh_env())
            .env_remove("GH_TOKEN")
            .args(["api", "-i", "user"]);
        assert_eq!(plain(&fake(&stage, &case)), plain(&feed(command, "")));
        stage.forge.log_in("ada");
        stage
            .forge
            .fault(json!({ "path": "user", "then": "refused" }));
        let end = |output: Output| {
            let (_, reason) = output.stderr.rsplit_once(": dial ").unwrap();
            (
                output.status,
                output.stdout,
                reason.split_once(": ").unwrap().1.to_owned(),
            )
        };
        let ours = end(fake(&stage, &case));
        let mut command = stage.world.command(&gh);
        let nowhere = stage.world.root().join("nowhere");
        std::fs::create_dir_all(&nowhere).unwrap();
        // A socket whose server is gone.
        let socket = nowhere.join("sock");
        drop(std::os::unix::net::UnixListener::bind(&socket));
        std::fs::write(
            nowhere.join("config.yml"),
            format!("http_unix_socket: {}\n", socket.display()),
        )
        .unwrap();
        command
            .env("GH_CONFIG_DIR", &nowhere)
            .env("GH_TOKEN", "x")
            .args(["api", "-i", "user"]);
        assert_eq!(ours, end(feed(command, "")));
        std::fs::remove_file(socket).unwrap();
    }
}
