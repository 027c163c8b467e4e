//! Tests with recorded JSON, and with JSON that GitHub would not send.

use serde_json::{Value, json};

use super::{Bed, ann, recorded};
use crate::github::{Answer, CommentList, GithubError, Marks};
use crate::pull_request::{Author, AuthorKind, Permission, PullState, ReviewState};

const PULL: &str = "repos/acme/rocket/pulls/7";

/// Returns the body of a recorded response with one change.
fn changed(name: &str, change: impl FnOnce(&mut Value)) -> String {
    let recorded = recorded(name);
    let text = String::from_utf8(recorded).unwrap();
    let mut value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
    change(&mut value);
    value.to_string()
}

async fn pull(change: impl FnOnce(&mut Value)) -> Result<crate::pull_request::Pull, GithubError> {
    let bed = Bed::new();
    bed.answer(PULL, "W/\"1\"", &changed("pull", change));
    match bed.github.pull("acme/rocket", 7, None).await? {
        Answer::New { value, etag } => {
            assert_eq!(etag.as_deref(), Some("W/\"1\""));
            Ok(value)
        }
        Answer::Unchanged => panic!("unchanged"),
    }
}

#[tokio::test]
async fn a_pull_request() {
    let pull = pull(|_| ()).await.unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&pull).unwrap(), @r#"
    {
      "number": 7,
      "title": "Count the engines",
      "state": "open",
      "draft": false,
      "author": {
        "id": 583231,
        "login": "octocat",
        "kind": "user"
      },
      "head_ref": "fix/engines",
      "head_sha": "6dcb09b5b57875f334f61aebed695e2e4193db5e",
      "head_repo": "acme/rocket",
      "base_repo": "acme/rocket",
      "default_branch": "main",
      "base_ref": "main",
      "labels": [
        "bug"
      ],
      "opened_at": "2026-11-10T19:01:12Z",
      "updated_at": "2026-11-16T02:29:53Z",
      "url": "https://github.com/acme/rocket/pull/7"
    }
    "#);
    assert!(!pull.is_fork());
}

#[tokio::test]
async fn states_of_a_pull_request() {
    let state = async |change: Value| pull(|json| merge(json, change)).await.unwrap().state;
    assert_eq!(state(json!({"state": "closed"})).await, PullState::Closed);
    assert_eq!(
        state(json!({"state": "closed", "merged_at": "2026-11-16T03:00:00Z"})).await,
        PullState::Merged
    );
    assert_eq!(
        state(json!({"state": "closed", "merged": true})).await,
        PullState::Merged
    );
}

#[tokio::test]
async fn ghosts_and_deleted_forks() {
    let pull = pull(|json| merge(json, json!({"user": null, "head": {"repo": null}})))
        .await
        .unwrap();
    assert_eq!(pull.author, None);
    assert!(pull.is_fork());
}

#[tokio::test]
async fn what_is_missing_or_of_another_kind_is_named() {
    type Change = fn(&mut Value);
    let cases: &[(&str, Change)] = &[
        ("missing field `number`", |json| {
            drop(json.as_object_mut().unwrap().remove("number"));
        }),
        ("missing field `user`", |json| {
            drop(json.as_object_mut().unwrap().remove("user"));
        }),
        ("missing field `merged_at`", |json| {
            drop(json.as_object_mut().unwrap().remove("merged_at"));
        }),
        ("in number", |json| json["number"] = json!("7")),
        ("in user.id", |json| json["user"]["id"] = json!(1.5)),
        ("in user.id", |json| json["user"]["id"] = json!(u64::MAX)),
        ("in base.repo", |json| json["base"]["repo"] = json!(null)),
        ("in labels[0].name", |json| {
            json["labels"][0]["name"] = json!(["x"]);
        }),
        ("in updated_at", |json| {
            json["updated_at"] = json!("yesterday");
        }),
        ("in state", |json| json["state"] = json!("ajar")),
        ("invalid type: null", |json| *json = json!(null)),
        ("in [0]", |json| *json = json!([json.clone()])),
        ("missing field", |json| {
            *json = json!({"data": null, "errors": [{"message": "no"}]});
        }),
    ];
    for (expected, change) in cases {
        match pull(change).await {
            Err(GithubError::Broken { path, what }) => {
                assert_eq!(path, PULL);
                assert!(what.contains(expected), "{expected}: {what}");
            }
            other => panic!("{expected}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn reviews_without_a_draft() {
    let bed = Bed::new();
    bed.raw(
        &format!("{PULL}/reviews?per_page=100&page=1"),
        &recorded("reviews"),
        "",
        0,
    );
    let reviews = bed
        .github
        .comments(CommentList::Reviews, "acme/rocket", 7, &Marks::default())
        .await
        .unwrap();
    let [first, second] = reviews.items.as_slice() else {
        panic!("{reviews:?}")
    };
    assert_eq!(
        (first.key().as_str(), first.state),
        ("review:77", Some(ReviewState::ChangesRequested))
    );
    assert_eq!(second.author.as_ref().unwrap().kind, AuthorKind::Bot);
    assert_eq!((second.body.as_str(), second.commit.as_deref()), ("", None));
    let mark = reviews
        .marks
        .get(&format!("{PULL}/reviews?per_page=100&page=1"))
        .unwrap();
    assert_eq!(mark.count, 3, "the draft is on the page");
}

#[tokio::test]
async fn comments() {
    let bed = Bed::new();
    bed.raw(
        &format!("{PULL}/comments?per_page=100&page=1"),
        &recorded("review_comments"),
        "",
        0,
    );
    let issue = "repos/acme/rocket/issues/7/comments?per_page=100&page=1";
    bed.raw(
        issue,
        &recorded("issue_comments"),
        "\u{1b}[33mA new release of gh is available\n",
        0,
    );
    let inline = bed
        .github
        .comments(
            CommentList::ReviewComments,
            "acme/rocket",
            7,
            &Marks::default(),
        )
        .await
        .unwrap()
        .items;
    let [first, second] = inline.as_slice() else {
        panic!("{inline:?}")
    };
    insta::assert_snapshot!(serde_json::to_string_pretty(&first).unwrap(), @r#"
    {
      "kind": "review_comment",
      "forge_id": 501,
      "author": {
        "id": 42,
        "login": "ann",
        "kind": "user"
      },
      "body": "This counts \"one\" only.",
      "state": null,
      "commit": "6dcb09b5b57875f334f61aebed695e2e4193db5e",
      "path": "src/engine.rs",
      "line": 2,
      "hunk": "@@ -1,2 +1,3 @@\n one\n+two",
      "review": 77,
      "in_reply_to": null,
      "created_at": "2026-11-15T10:00:00Z",
      "updated_at": "2026-11-15T10:05:00Z",
      "url": "https://github.com/acme/rocket/pull/7#discussion_r501"
    }
    "#);
    assert_eq!(
        (second.line, second.in_reply_to, &second.author),
        (Some(9), Some(501), &None),
        "an outdated line"
    );
    let under = bed
        .github
        .comments(
            CommentList::IssueComments,
            "acme/rocket",
            7,
            &Marks::default(),
        )
        .await
        .unwrap()
        .items;
    assert_eq!(
        (under[0].key().as_str(), under[0].body.as_str()),
        ("issue_comment:901", "And über-fast 🚀 please")
    );
}

#[tokio::test]
async fn permissions_are_of_the_account_not_of_the_name() {
    let bed = Bed::new();
    let of = async |author: &Author, change: Value| {
        let login = author.login.replace('[', "%5B").replace(']', "%5D");
        let path = format!("repos/acme/rocket/collaborators/{login}/permission");
        bed.answer(
            &path,
            "W/\"1\"",
            &changed("permission", |json| merge(json, change)),
        );
        bed.github.permission("acme/rocket", author).await
    };
    for (permission, role, expected) in [
        ("write", Some("maintain"), Permission::Write),
        ("admin", Some("read"), Permission::Read),
        ("write", Some("triage"), Permission::Triage),
        ("read", Some("admin"), Permission::Read),
        ("none", Some("write"), Permission::None),
        ("write", Some("none"), Permission::None),
        ("write", Some("night-watch"), Permission::Write),
        ("read", Some("night-watch"), Permission::Read),
        ("write", Some(""), Permission::Write),
        ("read", None, Permission::Read),
    ] {
        let answer = json!({ "permission": permission, "role_name": role });
        assert_eq!(
            of(&ann(), answer).await,
            Ok(expected),
            "{permission} {role:?}"
        );
    }
    assert_eq!(
        of(&ann(), json!({"user": {"id": 43}})).await,
        Ok(Permission::None),
        "the name belongs to another account now"
    );
    assert_eq!(
        of(&ann(), json!({"user": null})).await,
        Ok(Permission::None)
    );
    assert!(matches!(
        of(&ann(), json!({"permission": "root"})).await,
        Err(GithubError::Broken { .. })
    ));
    let bot = Author {
        id: 42,
        login: "x[bot]".to_owned(),
        kind: AuthorKind::Bot,
    };
    assert_eq!(of(&bot, json!({})).await, Ok(Permission::Write));
    for login in ["nobody", "..", "", "../../user", "-X", "{owner}", "a b\n"] {
        let author = Author {
            login: login.to_owned(),
            ..ann()
        };
        assert_eq!(
            bed.github.permission("acme/rocket", &author).await,
            Ok(Permission::None),
            "{login:?}"
        );
    }
    let asked = bed.asked();
    assert!(
        asked.iter().all(|line| line.matches('/').count() == 5),
        "{asked:?}"
    );
}

fn merge(into: &mut Value, change: Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (name, value) in change {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change,
    }
}

#[tokio::test]
async fn the_date_of_a_commit() {
    let bed = Bed::new();
    let sha = "6dcb09b5b57875f334f61aebed695e2e4193db5e";
    let commit = json!({
        "sha": sha, "author": { "date": "2026-11-01T08:00:00Z" }, "committer": { "date": "2026-11-02T08:00:00Z" },
    });
    bed.answer(
        &format!("repos/acme/rocket/git/commits/{sha}"),
        "W/\"1\"",
        &commit.to_string(),
    );
    let date = bed.github.commit_date("acme/rocket", sha).await.unwrap();
    assert_eq!(date.as_deref(), Some("2026-11-02T08:00:00Z"));
    assert_eq!(
        bed.github
            .commit_date("acme/rocket", &sha.replace('6', "7"))
            .await
            .unwrap(),
        None
    );
    let odd = bed.github.commit_date("acme/rocket", "../x").await;
    assert!(matches!(odd, Err(GithubError::NotFound { .. })), "{odd:?}");
}
