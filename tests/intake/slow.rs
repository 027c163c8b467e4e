//! NFR-3: the time limit for the whole fetch of a pull request's feedback.

use serde_json::json;

use super::stage::Stage;

/// Creates a watched change that is not paused: its review is postponed, so that nobody runs it.
fn waiting(github: &str) -> (Stage, i64) {
    let stage = Stage::with(&format!("[github]\n{github}"));
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

/// NFR-3: each call is answered in time, all of them together are not.
#[test]
fn the_limit_is_for_the_whole_fetch() {
    let (stage, number) = waiting("fetch_limit_s = 4\n");
    stage.forge.issue_comment(number, "bob", "hello");
    for path in ["pulls/1", "pulls/1/reviews", "pulls/1/comments"] {
        stage.forge.fault(json!({ "path": format!("repos/ada/engine/{path}"), "then": { "slow": { "ms": 1500 } } }));
    }
    stage.read();
    assert_eq!(stage.count("feedback"), 0);
    assert_eq!(
        stage.world.sqlite("SELECT failures, slow_reads FROM pulls"),
        "1|1"
    );
    let told = stage.answer("c1");
    assert!(
        told.contains("GitHub did not send everything within 4 s"),
        "{told}"
    );
    stage.forge.clear_faults();
    stage.read();
    assert_eq!(stage.count("feedback"), 1);
    assert_eq!(
        stage
            .world
            .sqlite("SELECT failures, slow_reads, kept_pages, trouble FROM pulls"),
        "0|0|{}|"
    );
    assert_eq!(stage.world.sqlite("SELECT hold_reason FROM changes"), "");
}

/// NFR-3: pages that were read are not requested again by the next attempt.
#[test]
fn pages_that_were_read_are_kept_for_the_next_try() {
    let (stage, number) = waiting("fetch_limit_s = 8\n");
    for n in 0..150 {
        stage
            .forge
            .issue_comment(number, "bob", &format!("comment {n}"));
    }
    stage
        .forge
        .fault(json!({ "path": "issues/1/comments?*page=2", "then": "hang" }));
    stage.asked();
    stage.read();
    assert_eq!(stage.count("feedback"), 0);
    let path = |line: &String| {
        line.split_once(' ')
            .map_or(String::new(), |(_, path)| path.to_owned())
    };
    let asked: Vec<String> = stage.asked().iter().map(path).collect();
    assert_eq!(
        asked.len(),
        5,
        "the pull request, two lists, and two pages of the third: {asked:?}"
    );
    stage.read();
    assert_eq!(stage.count("feedback"), 150);
    let of_the_pull = |path: &String| path.contains("/pulls/") || path.contains("/issues/");
    let asked: Vec<String> = stage.asked().iter().map(path).filter(of_the_pull).collect();
    let missing = [
        "repos/ada/engine/pulls/1",
        "repos/ada/engine/issues/1/comments?per_page=100&page=2",
    ];
    assert_eq!(asked, missing, "only what is missing");
    assert_eq!(
        stage
            .world
            .sqlite("SELECT failures, slow_reads, kept_pages FROM pulls"),
        "0|0|{}"
    );
    // A new comment on a page that was kept is read by the next one.
    stage.forge.issue_comment(number, "bob", "one more");
    stage.read();
    assert_eq!(stage.count("feedback"), 151);
}

/// NFR-3: the time for permission checks does not count.
#[test]
fn permission_look_ups_are_no_part_of_it() {
    let (stage, number) = waiting("fetch_limit_s = 5\n");
    stage.forge.issue_comment(number, "bob", "hello");
    stage
        .forge
        .fault(json!({ "path": "bob/permission", "then": { "slow": { "ms": 5500 } } }));
    stage.read();
    assert_eq!(stage.count("feedback"), 1);
    assert_eq!(
        stage.world.sqlite("SELECT failures, slow_reads FROM pulls"),
        "0|0"
    );
}

/// NFR-3: after three such failures in a row a person decides; when it is readable again, it
/// continues by itself.
#[test]
fn three_fetches_that_ran_out_of_time_need_a_person() {
    let (stage, number) = waiting("fetch_limit_s = 1\n");
    stage.forge.issue_comment(number, "bob", "hello");
    stage
        .forge
        .fault(json!({ "path": "pulls/1", "times": 9, "then": "hang" }));
    for expected in ["held", "held", "needs_you", "needs_you"] {
        stage.read();
        assert_eq!(stage.why("c1")["because"], expected);
    }
    let told = stage.answer("c1");
    assert!(
        told.contains("the feedback on its PR could not be read in time, 3 times in a row"),
        "{told}"
    );
    assert!(told.contains("raise `github.fetch_limit_s`"), "{told}");
    assert_eq!(stage.count("events WHERE event_type = 'escalated'"), 1);
    stage.forge.clear_faults();
    stage.settings("");
    stage.read();
    assert_eq!(stage.count("feedback WHERE author = 'bob'"), 1);
    assert_eq!(
        stage.count("changes WHERE state = 'escalated'"),
        0,
        "{}",
        stage.answer("c1")
    );
}
