//! Failed reads: nothing of them is stored, the reason and the time of the next are reported, and
//! nothing is lost.

use serde_json::json;

use super::stage::Stage;
use crate::support::forge::Review;

/// Creates a watched change that is not paused: items that wait for a read are held by it. Its
/// review is postponed as far as possible, so that nobody runs it.
fn waiting() -> (Stage, i64) {
    let stage = Stage::new();
    let number = stage.forge.open_pull("feature", "main", "ada");
    stage
        .world
        .remand(&["watch", &format!("ada/engine#{number}")])
        .ok();
    stage.world.sqlite(
        "UPDATE work_items SET not_before = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+50 minutes')",
    );
    (stage, number)
}

#[test]
fn a_limit_on_the_second_page_stores_nothing_and_holds_until_it_is_over() {
    let (stage, number) = waiting();
    for n in 0..150 {
        stage
            .forge
            .issue_comment(number, "bob", &format!("comment {n}"));
    }
    stage.forge.fault(
        json!({ "path": "comments?*page=2", "then": { "rate_limited": { "reset_in_s": 600 } } }),
    );
    stage.world.remand(&["tick"]).report();
    assert_eq!(stage.count("feedback"), 0);
    let told = stage.why("c1");
    assert_eq!(told["because"], "held");
    assert!(
        told["answer"]
            .as_str()
            .unwrap()
            .contains("GitHub's rate limit is used up until"),
        "{told}"
    );
    assert_eq!(
        told["until"],
        stage.world.sqlite("SELECT next_read FROM pulls")
    );
    assert_eq!(
        stage
            .world
            .sqlite("SELECT round((julianday(next_read) - julianday('now')) * 144) FROM pulls"),
        "1.0"
    );
    stage.asked();
    stage.world.remand(&["tick"]).report();
    assert_eq!(
        stage.asked(),
        [] as [&str; 0],
        "nothing is asked before its time"
    );
    stage.world.sqlite("DELETE FROM rate");
    stage.read();
    assert_eq!(stage.count("feedback"), 150);
    assert_eq!(
        stage
            .world
            .sqlite("SELECT held_until, hold_reason FROM changes"),
        "|"
    );
    assert_eq!(stage.count("events WHERE event_type = 'resumed'"), 1);
    assert_eq!(
        stage.world.sqlite("SELECT failures, trouble FROM pulls"),
        "0|"
    );
}

#[test]
fn each_trouble_is_told_and_the_next_read_has_all() {
    for (fault, reason) in [
        (json!("html502"), "HTTP 502"),
        (json!("half"), "unexpected response"),
        (json!("not_json"), "unexpected response"),
        (json!("empty"), "unexpected response"),
        (json!("cut_after_write"), "request to GitHub for"),
        (json!("refused"), "request to GitHub for"),
        (json!("no_token"), "gh auth login"),
        (json!("killed"), "gh was killed by a signal"),
        (
            json!({ "secondary_limit": { "retry_after_s": 60 } }),
            "rate limit",
        ),
    ] {
        let (stage, number) = waiting();
        stage.forge.review(
            number,
            &Review {
                state: "COMMENTED",
                body: "hm",
                ..Review::default()
            },
        );
        stage.forge.issue_comment(number, "bob", "hello");
        stage
            .forge
            .fault(json!({ "path": "issues/1/comments", "then": fault }));
        stage.world.remand(&["tick"]).report();
        assert_eq!(stage.count("feedback"), 0, "{fault}");
        let told = stage.why("c1");
        assert_eq!(told["because"], "held", "{fault}: {told}");
        assert!(
            told["answer"].as_str().unwrap().contains(reason),
            "{fault}: {told}"
        );
        stage.read();
        assert_eq!(stage.count("feedback"), 2, "{fault}");
        assert_eq!(
            stage.world.sqlite("SELECT hold_reason FROM changes"),
            "",
            "{fault}"
        );
    }
}

#[test]
fn trouble_that_nothing_waits_for_holds_nothing_but_is_told() {
    let stage = Stage::new();
    let number = stage.forge.open_pull("feature", "main", "ada");
    stage.forge.review(
        number,
        &Review {
            state: "APPROVED",
            ..Review::default()
        },
    );
    stage.world.remand(&["watch", "ada/engine#1"]).ok();
    stage
        .forge
        .fault(json!({ "path": "issues/1/comments", "times": 2, "then": "html502" }));
    stage.read();
    assert_eq!(stage.world.sqlite("SELECT hold_reason FROM changes"), "");
    let told = stage.answer("c1");
    assert!(
        told.contains("cannot read its PR, next attempt in "),
        "{told}"
    );
    let first = stage.world.sqlite("SELECT next_read FROM pulls");
    stage.read();
    assert!(
        stage.world.sqlite("SELECT next_read FROM pulls") > first,
        "each time after twice as long"
    );
    assert_eq!(stage.world.sqlite("SELECT failures FROM pulls"), "2");
}

#[test]
fn without_gh_it_is_held_and_goes_on_when_gh_is_back() {
    let (stage, number) = waiting();
    stage.forge.issue_comment(number, "bob", "hello");
    stage.world.config("[github]\ngh = [\"no-such-gh\"]\n");
    let told = stage.read();
    assert!(told.contains("cannot read a pull request"), "{told}");
    assert!(
        stage.answer("c1").contains("install gh"),
        "{}",
        stage.answer("c1")
    );
    stage.settings("");
    stage.read();
    assert_eq!(stage.count("feedback"), 1);
    assert_eq!(stage.why("c1")["because"], "delayed");
}

#[test]
fn what_the_user_keeps_for_himself_is_not_spent() {
    let (stage, _) = waiting();
    stage.forge.set_rate(481, 600);
    stage.read();
    stage.asked();
    stage.due();
    stage.world.remand(&["tick"]).report();
    assert_eq!(stage.asked(), [] as [&str; 0]);
    let told = stage.answer("c1");
    assert!(
        told.contains("GitHub's rate limit is used up except for the reserve: 47"),
        "{told}"
    );
    assert!(told.contains("of 5000 left until 20"), "{told}");
    assert!(
        stage
            .world
            .remand(&["status"])
            .ok()
            .stdout
            .contains("of 5000 API calls left until")
    );
    stage
        .world
        .sqlite("UPDATE rate SET resets_at = '2020-01-01T00:00:00.000Z'");
    stage.forge.set_rate(5000, 600);
    stage.read();
    assert_ne!(stage.asked(), [] as [&str; 0]);
    assert_eq!(stage.world.sqlite("SELECT hold_reason FROM changes"), "");
}

#[test]
fn one_that_is_gone_is_a_persons_business_after_three_looks() {
    let (stage, _) = waiting();
    let gone = json!({ "status": { "status": 404, "body": "{\"message\": \"Not Found\"}" } });
    stage
        .forge
        .fault(json!({ "path": "pulls/1", "times": 9, "then": gone }));
    for expected in ["held", "held", "needs_you", "needs_you"] {
        stage.read();
        assert_eq!(stage.why("c1")["because"], expected);
    }
    assert!(
        stage
            .answer("c1")
            .contains("its PR cannot be read: GitHub has no `repos/ada/engine/pulls/1`")
    );
    assert_eq!(stage.count("events WHERE event_type = 'escalated'"), 1);
}

/// gh is not called, and nothing is reported about it, if there is nothing to read.
#[test]
fn gh_is_not_missed_where_nothing_is_watched() {
    let stage = Stage::new();
    stage.world.config("[github]\ngh = [\"no-such-gh\"]\n");
    let tick = stage.world.remand(&["tick", "-v"]).report();
    assert!(
        !tick.stderr.contains("gh") && !tick.stderr.contains("pull"),
        "{}",
        tick.stderr
    );
}
