//! Reading a watched pull request: everything once, nothing twice, nothing lost.

use super::stage::Stage;
use crate::support::forge::Review;

#[test]
fn what_is_said_in_all_three_places_is_stored_once() {
    let stage = Stage::new();
    let number = stage.watched();
    let inline = [("work.txt", 1, "say it here")];
    let review = Review {
        body: "please",
        inline: &inline,
        ..Review::default()
    };
    stage.forge.review(number, &review);
    stage.forge.issue_comment(number, "bob", "and there");
    stage
        .forge
        .review_comment(number, "ada", "work.txt", 1, "a line");
    stage.read();
    stage.read();
    let said = stage
        .world
        .sqlite("SELECT kind, author, state, path, line, body FROM feedback ORDER BY rowid");
    assert_eq!(
        said,
        "review|bob|CHANGES_REQUESTED|||please\nreview_comment|bob||work.txt|1|say it here\n\
         review_comment|ada||work.txt|1|a line\nissue_comment|bob||||and there"
    );
    let shown = stage.world.remand(&["show", "c1"]).ok().stdout;
    assert!(
        shown.contains("g1 by bob (may_make_work; rejected) review CHANGES_REQUESTED please"),
        "{shown}"
    );
    assert_eq!(
        stage.count("events WHERE event_type = 'feedback_received'"),
        4
    );
}

#[test]
fn what_has_not_changed_is_not_sent_again() {
    let stage = Stage::new();
    let number = stage.watched();
    stage.forge.review(number, &Review::default());
    stage.read();
    stage.asked();
    stage.read();
    let head = stage.world.sqlite("SELECT head_sha FROM pulls");
    let asked: Vec<String> = stage
        .asked()
        .iter()
        .map(|one| one.replace(&head, "HEAD"))
        .collect();
    assert_eq!(
        asked,
        [
            "304 repos/ada/engine/pulls/1",
            "304 repos/ada/engine/pulls/1/reviews?per_page=100&page=1",
            "304 repos/ada/engine/pulls/1/comments?per_page=100&page=1",
            "304 repos/ada/engine/issues/1/comments?per_page=100&page=1",
            "304 repos/ada/engine/commits/HEAD/check-runs?per_page=100&page=1",
            "304 repos/ada/engine/commits/HEAD/status?per_page=100&page=1",
        ]
    );
    // Nor before its time.
    stage.world.remand(&["tick"]).report();
    assert_eq!(stage.asked(), [] as [&str; 0]);
    let told = stage.world.json(&["status"]);
    assert_eq!(told["rate"]["allowed"], 5000);
}

#[test]
fn hundreds_of_comments_over_four_pages_are_stored_once() {
    let stage = Stage::new();
    let number = stage.watched();
    for n in 0..310 {
        stage
            .forge
            .issue_comment(number, "bob", &format!("comment {n}"));
    }
    stage.read();
    assert_eq!(stage.count("feedback"), 310);
    assert_eq!(
        stage
            .asked()
            .iter()
            .filter(|line| line.contains("/permission"))
            .count(),
        1
    );
    stage.forge.issue_comment(number, "bob", "one more");
    stage.read();
    assert_eq!(stage.count("feedback"), 311);
    let comments: Vec<String> = stage
        .asked()
        .into_iter()
        .filter(|line| line.contains("/issues/"))
        .collect();
    assert_eq!(
        comments
            .iter()
            .filter(|line| line.starts_with("304"))
            .count(),
        3,
        "{comments:?}"
    );
}

#[test]
fn a_comment_that_was_edited_keeps_what_it_said() {
    let stage = Stage::new();
    let number = stage.watched();
    let id = stage.forge.issue_comment(number, "bob", "as it was");
    stage.read();
    stage.forge.edit_comment(id, "run this instead");
    stage.read();
    stage.read();
    assert_eq!(stage.world.sqlite("SELECT body FROM feedback"), "as it was");
    assert_eq!(
        stage.count("events WHERE summary LIKE '%edited after it was read%'"),
        1
    );
}

#[test]
fn what_we_wrote_is_known_by_its_marker_and_by_its_number() {
    let stage = Stage::new();
    let number = stage.watched();
    let intent = |key: &str, marker: &str, done: &str| {
        stage.world.sqlite(&format!(
            "INSERT INTO intents (key, kind, change_id, payload, marker, epoch, created_at, result, forge_id, done_at)
             VALUES ('{key}', 'note', 'c1', '{{}}', '{marker}', 0, '2026-01-01T00:00:00.000Z', {done})"
        ));
    };
    stage
        .forge
        .issue_comment(number, "ada", "ours\n<!-- remand:abc -->");
    let done = stage
        .forge
        .issue_comment(number, "ada", "ours too, recorded");
    stage
        .forge
        .issue_comment(number, "ada", "a person with our account");
    stage
        .forge
        .issue_comment(number, "ada", "> quoted\n<!-- remand:def -->\nno");
    intent("note:1", "abc", "NULL, NULL, NULL");
    intent(
        "note:2",
        "def",
        &format!("'done', 'issue_comment:{done}', '2026-01-01T00:00:00.000Z'"),
    );
    // Posts are left to others: the change is paused.
    stage.read();
    assert_eq!(
        stage
            .world
            .sqlite("SELECT trust FROM feedback ORDER BY rowid"),
        "ours\nours\nmay_make_work\nmay_make_work"
    );
    assert_eq!(
        stage.count("feedback WHERE trust = 'ours' AND outcome = 'ours'"),
        2
    );
}

#[test]
fn a_merged_one_is_not_read_any_more_and_a_closed_one_seldom() {
    let stage = Stage::new();
    let number = stage.watched();
    stage.forge.close(number);
    stage.read();
    assert_eq!(stage.world.sqlite("SELECT state FROM changes"), "closed");
    let minutes = "SELECT round((julianday(next_read) - julianday(read_at)) * 1440) FROM pulls";
    assert_eq!(stage.world.sqlite(minutes), "15.0");
    stage.forge.reopen(number);
    stage.read();
    assert_eq!(stage.count("changes WHERE state <> 'closed'"), 1);
    stage.forge.merge(number, "bob");
    stage.read();
    assert_eq!(stage.world.sqlite("SELECT state FROM changes"), "merged");
    assert_eq!(stage.world.sqlite("SELECT next_read FROM pulls"), "");
}

#[test]
fn one_that_was_closed_two_weeks_ago_is_not_read_any_more() {
    let stage = Stage::new();
    let number = stage.watched();
    stage.forge.close(number);
    stage.read();
    stage
        .world
        .sqlite("UPDATE changes SET updated_at = '2020-01-01T00:00:00.000Z'");
    stage.read();
    assert_eq!(stage.world.sqlite("SELECT next_read FROM pulls"), "");
}

/// Killed at the write of a read, before and after: everything is there once.
#[cfg(feature = "failpoints")]
#[test]
fn a_read_that_was_cut_is_read_again() {
    for at in ["commit.read.before", "commit.read.after"] {
        let stage = Stage::new();
        let number = stage.watched();
        stage.forge.review(
            number,
            &Review {
                inline: &[("work.txt", 1, "here")],
                ..Review::default()
            },
        );
        for n in 0..120 {
            stage
                .forge
                .issue_comment(number, "bob", &format!("comment {n}"));
        }
        stage.due();
        let mut command = stage.world.remand_command(&["tick"]);
        command.env("REMAND_CRASH_AT", at);
        assert_eq!(crate::support::run(&mut command).status, -1, "{at}");
        assert_eq!(
            stage.count("feedback"),
            if at.ends_with("before") { 0 } else { 122 },
            "{at}"
        );
        stage.world.remand(&["tick"]).report();
        assert_eq!(stage.count("feedback"), 122, "{at}");
        assert_eq!(
            stage.count("events WHERE event_type = 'work_rejected'"),
            1,
            "{at}"
        );
    }
}

/// The daemon reads by itself, including pull requests watched after it started; and it stops while
/// a call hangs.
#[test]
fn the_daemon_reads_when_it_is_time() {
    let stage = Stage::new();
    stage.every("* * * * * *");
    let mut daemon = stage.world.remand_command(&["run"]);
    daemon
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut daemon = daemon.spawn().unwrap();
    let number = stage.watched();
    stage.forge.issue_comment(number, "bob", "hello");
    crate::support::wait_for("the comment", || stage.count("feedback") == 1);
    stage.forge.issue_comment(number, "bob", "again");
    crate::support::wait_for("the second comment", || stage.count("feedback") == 2);
    stage
        .forge
        .fault(serde_json::json!({ "path": "pulls/1", "times": 9, "then": "hang" }));
    stage.asked();
    crate::support::wait_for("a question that hangs", || !stage.forge.log().is_empty());
    let begun = std::time::Instant::now();
    let pid = rustix::process::Pid::from_child(&daemon);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
}
