//! Tests for the contents of a call, and for misbehaving programs.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde_json::json;

use super::{Bed, recorded};
use crate::github::{
    Answer, CommentList, Github, GithubError, Marks, NewInline, NewReview, Posted, ReviewEvent,
};

const PULL: &str = "repos/acme/rocket/pulls/7";

fn posted() -> Posted {
    Posted {
        id: 80,
        url: "https://github.com/acme/rocket/pull/7#pullrequestreview-80".to_owned(),
    }
}

#[tokio::test]
async fn who_am_i() {
    let bed = Bed::new();
    bed.raw("user", &recorded("user"), "", 0);
    assert_eq!(bed.github.rate(), None);
    let me = bed.github.me().await.unwrap();
    assert_eq!(
        (me.author.id, me.author.login.as_str()),
        (583_231, "octocat")
    );
    assert_eq!(
        (me.scopes, me.at.unwrap().to_string().as_str()),
        (None, "2026-11-16T02:30:00.000Z")
    );
    assert_eq!(
        bed.github.clone().rate().unwrap().remaining,
        4_987,
        "clones share it"
    );
}

#[tokio::test]
async fn a_pull_request_that_did_not_change() {
    let bed = Bed::new();
    bed.raw(PULL, &recorded("pull"), "", 0);
    assert_eq!(
        bed.github
            .pull("acme/rocket", 7, Some("W/\"5dc2f1\""))
            .await,
        Ok(Answer::Unchanged)
    );
    assert_eq!(bed.asked(), [format!("GET {PULL} W/\"5dc2f1\"")]);
    for etag in ["W/\"old\"", "", "a\nb", "W/\"ü\"", "\u{0}"] {
        let answer = bed.github.pull("acme/rocket", 7, Some(etag)).await;
        assert!(
            matches!(answer, Ok(Answer::New { .. })),
            "{etag:?}: {answer:?}"
        );
    }
}

#[tokio::test]
async fn a_review_with_comments_at_lines() {
    let bed = Bed::new();
    bed.raw(&format!("{PULL}/reviews"), &recorded("posted"), "", 0);
    let comments = vec![NewInline {
        path: "src/a b.rs".to_owned(),
        line: 3,
        body: "--input /etc/passwd".to_owned(),
    }];
    let review = NewReview {
        commit: "6dcb".to_owned(),
        body: "@/etc/passwd \u{1b}[31m\n`x` 🚀".to_owned(),
        event: ReviewEvent::RequestChanges,
        comments,
    };
    assert_eq!(
        bed.github.post_review("acme/rocket", 7, &review).await,
        Ok(posted())
    );
    assert_eq!(bed.asked(), [format!("POST {PULL}/reviews")]);
    assert_eq!(
        bed.body(),
        json!({
            "commit_id": "6dcb",
            "body": "@/etc/passwd \u{1b}[31m\n`x` 🚀",
            "event": "REQUEST_CHANGES",
            "comments": [{"path": "src/a b.rs", "line": 3, "side": "RIGHT", "body": "--input /etc/passwd"}],
        })
    );
}

#[tokio::test]
async fn comments_and_replies() {
    let bed = Bed::new();
    bed.raw(
        "repos/acme/rocket/issues/7/comments",
        &recorded("posted"),
        "",
        0,
    );
    bed.raw(
        &format!("{PULL}/comments/501/replies"),
        &recorded("posted"),
        "",
        0,
    );
    let long = "x".repeat(300_000);
    assert_eq!(
        bed.github.post_comment("acme/rocket", 7, &long).await,
        Ok(posted())
    );
    assert_eq!(bed.body(), json!({ "body": long }));
    assert_eq!(
        bed.github.reply("acme/rocket", 7, 501, "done").await,
        Ok(posted())
    );
    assert_eq!(bed.body(), json!({"body": "done"}));
    let asked = bed.asked();
    assert_eq!(
        asked,
        [
            "POST repos/acme/rocket/issues/7/comments".to_owned(),
            format!("POST {PULL}/comments/501/replies")
        ]
    );
}

#[tokio::test]
async fn reviewers_and_dismissals() {
    let bed = Bed::new();
    bed.raw(
        &format!("{PULL}/requested_reviewers"),
        &recorded("pull"),
        "",
        0,
    );
    bed.raw(
        &format!("{PULL}/reviews/77/dismissals"),
        &recorded("posted"),
        "",
        0,
    );
    assert_eq!(
        bed.github
            .ask_reviewers("acme/rocket", 7, &["ann".to_owned()])
            .await,
        Ok(())
    );
    assert_eq!(bed.body(), json!({"reviewers": ["ann"]}));
    assert_eq!(
        bed.github.dismiss("acme/rocket", 7, 77, "fixed").await,
        Ok(())
    );
    assert_eq!(bed.body(), json!({"message": "fixed", "event": "DISMISS"}));
    let asked = bed.asked();
    assert_eq!(
        asked,
        [
            format!("POST {PULL}/requested_reviewers"),
            format!("PUT {PULL}/reviews/77/dismissals")
        ]
    );
}

/// gh follows the 301 of a renamed repository with a GET.
#[tokio::test]
async fn a_write_that_was_answered_like_a_read_is_not_done() {
    let bed = Bed::new();
    bed.raw(
        "repos/acme/rocket/issues/7/comments",
        &recorded("issue_comments"),
        "",
        0,
    );
    bed.answer(
        &format!("{PULL}/requested_reviewers"),
        "W/\"1\"",
        r#"{"users":[],"teams":[]}"#,
    );
    let comment = bed.github.post_comment("acme/rocket", 7, "x").await;
    assert!(
        matches!(comment, Err(GithubError::Broken { .. })),
        "{comment:?}"
    );
    let asked = bed
        .github
        .ask_reviewers("acme/rocket", 7, &["ann".to_owned()])
        .await;
    assert!(
        matches!(asked, Err(GithubError::Broken { .. })),
        "{asked:?}"
    );
}

#[tokio::test]
async fn nothing_from_outside_becomes_an_option_or_another_path() {
    let bed = Bed::new();
    for repo in [
        "",
        "a",
        "/",
        "a/",
        "/b",
        "a/b/c",
        "-a/b",
        "a/-b",
        "../b",
        "a/..",
        "a/.",
        "a/b?x=1",
        "a/b#",
        "a b/c",
        "a/b\n",
        "a/b\0",
        "{owner}/{repo}",
        ":owner/b",
        "a/%2e%2e",
        "ü/b",
        "https://evil.example/a",
        "--hostname=evil/x",
    ] {
        let error = bed.github.pull(repo, 7, None).await.unwrap_err();
        assert!(
            matches!(error, GithubError::NotFound { .. }),
            "{repo:?}: {error}"
        );
        assert!(
            bed.github.post_comment(repo, 7, "x").await.is_err(),
            "{repo:?}"
        );
        assert!(
            bed.github
                .open_pulls(repo, &Marks::default())
                .await
                .is_err(),
            "{repo:?}"
        );
    }
    for number in [0, -1, i64::MIN] {
        assert!(
            bed.github
                .comments(CommentList::Reviews, "a/b", number, &Marks::default())
                .await
                .is_err()
        );
    }
    assert_eq!(bed.asked(), Vec::<String>::new());
    bed.raw("repos/acme/.github/pulls/7", &recorded("pull"), "", 0);
    assert!(bed.github.pull("acme/.github", 7, None).await.is_ok());
}

#[tokio::test]
async fn the_environment_is_ours() {
    let bed = Bed::with(
        Duration::MAX,
        &[
            ("GH_DEBUG", "api"),
            ("CLICOLOR_FORCE", "1"),
            ("PAGER", "less"),
            ("GH_TOKEN", "secret"),
            ("GH_FORCE_TTY", "80"),
        ],
    );
    bed.script("user", "env > \"$BED/env\"\n");
    bed.raw("user", &recorded("user"), "", 0);
    bed.github.me().await.unwrap();
    let env = fs::read_to_string(bed.dir.path().join("env")).unwrap();
    let mut names: Vec<&str> = env
        .lines()
        .filter(|line| !line.starts_with("BED=") && !line.starts_with("PWD="))
        .collect();
    names.retain(|line| {
        !line.starts_with("_=") && !line.starts_with("SHLVL=") && !line.starts_with("OLDPWD=")
    });
    names.sort_unstable();
    insta::assert_snapshot!(names.join("\n"), @"
    CLICOLOR=0
    GH_NO_EXTENSION_UPDATE_NOTIFIER=1
    GH_NO_UPDATE_NOTIFIER=1
    GH_PAGER=cat
    GH_PROMPT_DISABLED=1
    GH_SPINNER_DISABLED=1
    GH_TELEMETRY=false
    GH_TOKEN=secret
    NO_COLOR=1
    PAGER=cat
    PATH=/usr/bin:/bin
    ");
    assert!(!format!("{:?}", bed.github).contains("secret"));
}

#[tokio::test]
async fn no_gh() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gh");
    fs::write(&file, "not executable").unwrap();
    let env = BTreeMap::from([("PATH".to_owned(), dir.path().to_str().unwrap().to_owned())]);
    for argv in [
        vec![],
        vec!["gh"],
        vec!["/nowhere/gh"],
        vec![file.to_str().unwrap()],
    ] {
        let argv = argv.into_iter().map(str::to_owned).collect();
        let github = Github::new(
            argv,
            env.clone(),
            Duration::from_secs(9),
            dir.path().to_owned(),
        );
        assert_eq!(github.me().await, Err(GithubError::NoGh), "{github:?}");
    }
}

#[tokio::test]
async fn programs_that_do_not_behave() {
    let user = String::from_utf8(recorded("user")).unwrap();
    for (script, is_fine) in [
        ("head -c 40000000 /dev/zero >&2\n", true),
        ("read answer; [ -z \"$answer\" ] || exit 9\n", true),
        ("kill -KILL $$\n", false),
        ("kill -TERM $$\n", false),
    ] {
        let bed = Bed::new();
        bed.raw("user", user.as_bytes(), "", 0);
        bed.script("user", script);
        match bed.github.me().await {
            Ok(_) => assert!(is_fine, "{script}"),
            Err(GithubError::Transient { .. }) => assert!(!is_fine, "{script}"),
            Err(error) => panic!("{script}: {error}"),
        }
    }
}

#[tokio::test]
async fn a_program_that_hangs_is_ended_with_its_children() {
    let bed = Bed::with(Duration::from_secs(2), &[]);
    bed.raw("user", &recorded("user"), "", 0);
    bed.script(
        "user",
        "cat \"$BED/user.out\"\nsleep 600 &\necho $! > \"$BED/child\"\nwait\n",
    );
    let error = bed.github.me().await.unwrap_err();
    assert!(matches!(error, GithubError::Transient { .. }), "{error}");
    let child: i32 = fs::read_to_string(bed.dir.path().join("child"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let child = rustix::process::Pid::from_raw(child).unwrap();
    for _ in 0..200 {
        if rustix::process::test_kill_process(child).is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let state =
        fs::read_to_string(format!("/proc/{}/stat", child.as_raw_nonzero())).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
}

#[tokio::test]
async fn a_refusal_that_gh_printed_is_what_the_caller_gets() {
    let bed = Bed::new();
    bed.raw(
        &format!("{PULL}/reviews"),
        &recorded("own_pull"),
        "gh: Unprocessable Entity (HTTP 422)\n",
        1,
    );
    let review = NewReview {
        commit: String::new(),
        body: String::new(),
        event: ReviewEvent::Comment,
        comments: Vec::new(),
    };
    match bed.github.post_review("acme/rocket", 7, &review).await {
        Err(GithubError::Refused {
            status: 422,
            message,
            ..
        }) => assert!(message.contains("your own pull request")),
        other => panic!("{other:?}"),
    }
    assert_eq!(bed.body()["event"], "COMMENT");
}
