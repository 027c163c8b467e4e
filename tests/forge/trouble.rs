//! Planned faults, as remand encounters them.

use std::process::Stdio;

use serde_json::json;

use super::model::Stage;
use crate::support::forge::Review;
use crate::support::wait_for;

const COMMENTS: &str = "repos/ada/engine/issues/1/comments";

/// A completed write stays, whatever happens to its response.
#[test]
fn what_breaks_before_it_is_done_and_what_after() {
    let stage = Stage::new();
    let broken = [
        (json!("cut_after_write"), 1, 1),
        (json!("dropped_after_write"), 1, 1),
        (json!("empty"), 1, 0),
        (json!("half"), 1, 0),
        (json!("not_json"), 1, 0),
        (json!({ "slow": { "ms": 1 } }), 1, 0),
        (json!("html502"), 0, 1),
        (json!("refused"), 0, 1),
        (json!("no_token"), 0, 4),
        (json!({ "rate_limited": { "reset_in_s": 60 } }), 0, 1),
        (json!({ "secondary_limit": { "retry_after_s": 60 } }), 0, 1),
        (json!({ "status": { "status": 500 } }), 0, 1),
        (json!({ "exit": { "code": 2, "stderr": "no\n" } }), 0, 2),
        // Killed by a signal.
        (json!("killed"), 0, -1),
    ];
    for (then, done, status) in broken {
        stage
            .forge
            .fault(json!({ "method": "POST", "path": "issues/*/comments", "then": then }));
        let before = stage.forge.issue_comments(1).len();
        let output = stage.post(COMMENTS, &json!({ "body": "x" }));
        assert_eq!(output.status, status, "{then}: {}", output.stderr);
        assert_eq!(stage.forge.issue_comments(1).len() - before, done, "{then}");
    }
    stage.post(COMMENTS, &json!({ "body": "x" })).ok();
    assert_eq!(stage.forge.writes_to("/comments"), 7);
    stage.forge.clear_log();
    assert_eq!(stage.forge.writes(), [""; 0]);
}

#[test]
fn what_never_answers_is_there_until_it_is_ended() {
    let stage = Stage::new();
    for (then, done) in [("hang", 0), ("hang_after_write", 1)] {
        stage
            .forge
            .fault(json!({ "path": "comments", "then": then }));
        let argv = stage.forge.gh_argv();
        let mut command = stage.world.command(&argv[0]);
        command
            .args(&argv[1..])
            .args(["api", COMMENTS, "--input", "-"]);
        let body = stage.world.root().join("body.json");
        std::fs::write(&body, r#"{"body":"x"}"#).unwrap();
        let before = stage.forge.issue_comments(1).len();
        let asked = stage.forge.log().len();
        let mut child = command
            .stdin(std::fs::File::open(body).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait_for("the request is taken", || stage.forge.log().len() > asked);
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(stage.forge.issue_comments(1).len() - before, done, "{then}");
    }
    stage.forge.clear_faults();
}

#[test]
fn a_page_that_comes_twice() {
    let stage = Stage::new();
    for n in 0..4 {
        stage.forge.review(
            1,
            &Review {
                body: &n.to_string(),
                ..Review::default()
            },
        );
    }
    let page = |number: i64| {
        let said = stage.get(&format!(
            "repos/ada/engine/pulls/1/reviews?per_page=2&page={number}"
        ));
        said.as_array()
            .unwrap()
            .iter()
            .map(|review| review["body"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    stage
        .forge
        .fault(json!({ "path": "/reviews", "then": "duplicate_page" }));
    assert_eq!(
        (page(1), page(2), page(2)),
        (
            vec!["0".into(), "1".into()],
            vec!["0".into(), "1".into()],
            vec!["2".into(), "3".into()]
        )
    );
}

#[test]
fn a_pull_request_from_elsewhere_or_to_another_base() {
    let stage = Stage::new();
    let fork = stage
        .forge
        .open_pull_from(Some("mallory/engine"), "feature", "main", "mallory");
    let gone = stage
        .forge
        .open_pull_from(None, "feature", "main", "mallory");
    assert_eq!(
        stage.get(&format!("repos/ada/engine/pulls/{fork}"))["head"]["label"],
        "mallory:feature"
    );
    assert_eq!(
        stage.get(&format!("repos/ada/engine/pulls/{gone}"))["head"]["repo"],
        json!(null)
    );
    stage.forge.retarget(1, "feature");
    assert_eq!(
        stage.get("repos/ada/engine/pulls/1")["base"]["ref"],
        "feature"
    );
}
