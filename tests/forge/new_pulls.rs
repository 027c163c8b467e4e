//! Pull requests that are opened by `remand __gh`, issues, and their comments.

use serde_json::{Value, json};

use super::model::Stage;

const PULLS: &str = "repos/ada/engine/pulls";

fn new(head: &str, base: &str) -> Value {
    json!({ "title": "Add it", "body": "As asked.", "head": head, "base": base })
}

#[test]
fn a_pull_request_is_opened_once() {
    let stage = Stage::new();
    stage.branch("task");
    let opened = stage.post(PULLS, &new("ada:task", "main")).ok();
    let opened: Value = serde_json::from_str(&opened.stdout).unwrap();
    let head = stage.world.git(&stage.work, &["rev-parse", "task"]);
    assert_eq!(
        (
            &opened["number"],
            &opened["user"]["login"],
            &opened["head"]["sha"]
        ),
        (&json!(2), &json!("ada"), &json!(head))
    );
    let refused = stage.post(PULLS, &new("task", "main"));
    assert_eq!(refused.stderr, "gh: Validation Failed (HTTP 422)\n");
    assert!(
        refused
            .stdout
            .contains("A pull request already exists for ada:task."),
        "{}",
        refused.stdout
    );
    let list = stage.get(&format!("{PULLS}?state=all&head=ada:task"));
    assert_eq!(list.as_array().unwrap().len(), 1);
    stage.forge.close(2);
    stage.post(PULLS, &new("task", "main")).ok();
    let list = stage.get(&format!("{PULLS}?state=all&head=ADA:task"));
    let states = [&list[0]["state"], &list[1]["state"]];
    assert_eq!(states, [&json!("open"), &json!("closed")]);
    assert_eq!(stage.get(&format!("{PULLS}?head=ada:Task")), json!([]));
}

#[test]
fn what_cannot_be_opened() {
    let stage = Stage::new();
    stage.branch("task");
    let changed = |key: &str, value: Value| {
        let mut body = new("task", "main");
        body[key] = value;
        body
    };
    stage.forge.refuse_drafts();
    for (body, reason) in [
        (new("task", "nowhere"), r#""field":"base""#),
        (new("nowhere", "main"), r#""field":"head""#),
        (new("Task", "main"), r#""field":"head""#),
        (new("main", "task"), "No commits between task and main"),
        (new("task", "task"), "No commits between task and task"),
        (
            changed("draft", json!(true)),
            "Draft pull requests are not supported",
        ),
        (changed("title", json!(" ")), "missing_field"),
        (
            changed("title", json!("x".repeat(257))),
            "title is too long",
        ),
        (
            changed("body", json!("x".repeat(65_537))),
            "body is too long",
        ),
    ] {
        let refused = stage.post(PULLS, &body);
        assert_eq!(refused.status, 1);
        assert!(refused.stderr.contains("(HTTP 422)"), "{}", refused.stderr);
        assert!(refused.stdout.contains(reason), "{}", refused.stdout);
    }
    stage.forge.log_in("mallory");
    let refused = stage.post(PULLS, &new("task", "main"));
    assert!(refused.stderr.contains("(HTTP 403)"), "{}", refused.stderr);
    stage.forge.set_permission("mallory", "none");
    let refused = stage.post(PULLS, &new("task", "main"));
    assert!(refused.stderr.contains("(HTTP 404)"), "{}", refused.stderr);
    assert_eq!(stage.forge.writes(), [""; 0]);
}

#[test]
fn the_text_of_a_pull_request_is_edited() {
    let stage = Stage::new();
    let edit = |body: &Value| {
        let args = [
            "api",
            "-X",
            "PATCH",
            "repos/ada/engine/pulls/1",
            "--input",
            "-",
        ];
        stage.gh_with(&args, &body.to_string())
    };
    edit(&json!({ "body": "new" })).ok();
    let pull = stage.get("repos/ada/engine/pulls/1");
    assert_eq!(
        (&pull["body"], &pull["title"]),
        (&json!("new"), &json!("Add feature"))
    );
    stage.forge.log_in("mallory");
    assert_eq!(edit(&json!({ "title": "x" })).status, 1);
    stage.forge.log_in("bob");
    edit(&json!({ "title": "x" })).ok();
    assert_eq!(stage.get("repos/ada/engine/pulls/1")["title"], "x");
}

#[test]
fn an_issue_has_comments_and_is_closed() {
    let stage = Stage::new();
    let number = stage
        .forge
        .open_issue("mallory", "It leaks", "See the log.");
    stage.forge.comment_on_issue(number, "bob", "which log?");
    let issue = format!("repos/ada/engine/issues/{number}");
    let comments = format!("{issue}/comments");
    stage.post(&comments, &json!({ "body": "this one" })).ok();
    let list = stage.get(&comments);
    assert_eq!(
        [
            &list[0]["body"],
            &list[1]["body"],
            &list[1]["user"]["login"]
        ],
        ["which log?", "this one", "ada"]
    );
    assert!(list[1]["html_url"].as_str().unwrap().contains("/issues/"));
    let before = stage.get(&issue);
    stage.forge.close_issue(number);
    let after = stage.get(&issue);
    assert_eq!([&before["state"], &after["state"]], ["open", "closed"]);
    assert_eq!(after["comments"], 2);
}
