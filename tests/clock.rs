//! A clock that jumps, either way: it costs one interval at most, and it is reported. The clock of
//! the program is moved through a file that only a test build reads.
#![cfg(feature = "failpoints")]

use std::fs;
use std::process::Stdio;

use serde_json::json;

use crate::intake::stage::Stage;
use crate::support::forge::Review;
use crate::support::{run, wait_for};

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
const JUMPS: [i64; 6] = [HOUR, DAY, 3653 * DAY, -HOUR, -DAY, -3653 * DAY];

/// Moves the clock of programs started with [`at`].
fn set(stage: &Stage, offset_ms: i64) {
    fs::write(stage.folder("clock.new"), offset_ms.to_string()).unwrap();
    fs::rename(stage.folder("clock.new"), stage.folder("clock")).unwrap();
}

/// Runs remand with the clock this much ahead; returns its output.
#[track_caller]
fn at(stage: &Stage, offset_ms: i64, args: &[&str]) -> String {
    set(stage, offset_ms);
    let mut command = stage.world.remand_command(args);
    command.env("REMAND_CLOCK", stage.folder("clock"));
    let output = run(&mut command);
    assert!(
        [0, 5].contains(&output.status) || args == ["doctor", "--offline"],
        "{}",
        output.stderr
    );
    format!("{}{}", output.stdout, output.stderr)
}

fn read_at_is_ahead(stage: &Stage) -> bool {
    stage.count("pulls WHERE read_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+30 minutes')") == 1
}

/// The schedule is every minute: after a jump the next read is a minute away at most.
#[test]
fn a_pull_request_is_read_one_interval_after_a_jump() {
    let stage = Stage::new();
    stage.every("* * * * *");
    let number = stage.watched();
    let mut now = 0;
    for (n, jump) in (1..).zip(JUMPS) {
        at(&stage, now + jump, &["tick"]);
        assert_eq!(read_at_is_ahead(&stage), jump > 0, "{jump}");
        stage
            .forge
            .issue_comment(number, "bob", &format!("comment {n}"));
        now += 61_000;
        at(&stage, now, &["tick"]);
        assert_eq!(
            stage.count("feedback"),
            n,
            "{jump}: {}",
            stage.world.sqlite("SELECT next_read, read_at FROM pulls")
        );
    }
    assert!(
        stage.count("events WHERE event_type = 'skipped' AND metadata ->> 'deadline' = 'read'")
            >= 3
    );
}

/// A read that failed while the clock was wrong holds the change for one interval at most.
#[test]
fn a_hold_ends_one_interval_after_a_jump() {
    for jump in JUMPS {
        let stage = Stage::new();
        stage.every("* * * * *");
        let number = stage.forge.open_pull("feature", "main", "ada");
        stage
            .world
            .remand(&["watch", &format!("ada/engine#{number}")])
            .ok();
        stage.forge.issue_comment(number, "bob", "hello");
        stage
            .forge
            .fault(json!({ "path": "issues/1/comments", "then": "html502" }));
        stage
            .world
            .sqlite("UPDATE work_items SET status = 'blocked'");
        at(&stage, jump, &["tick"]);
        assert_eq!(
            stage.count("changes WHERE hold_reason LIKE '%502%'"),
            1,
            "{jump}"
        );
        at(&stage, 61_000, &["tick"]);
        assert_eq!(
            stage.world.sqlite("SELECT failures, trouble FROM pulls"),
            "0|",
            "{jump}"
        );
        assert_eq!(
            stage.count("changes WHERE hold_reason LIKE '%502%'"),
            0,
            "{jump}"
        );
        assert_eq!(stage.count("feedback"), 1, "{jump}");
    }
}

/// Every stored time that work waits for, ten years ahead: reported, and due at the next check.
#[test]
fn no_stored_time_keeps_work_waiting() {
    let stage = Stage::new();
    stage.every("* * * * *");
    stage.watched();
    let far = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+10 years')";
    for sql in [
        "UPDATE pulls SET next_read = FAR",
        "INSERT INTO discoveries (project_id, next_read, marks) VALUES ('engine', FAR, '{}')",
        "UPDATE changes SET held_until = FAR, hold_reason = 'no network'",
        "UPDATE work_items SET not_before = FAR",
        "INSERT INTO intents (key, kind, change_id, payload, epoch, created_at, not_before, trouble)
             VALUES ('note:1', 'note', 'c1', '{}', 0, FAR, FAR, 'no network')",
        "INSERT INTO evaluator_troubles VALUES ('lint', 1, 'no network', FAR, FAR)",
    ] {
        stage.world.sqlite(&sql.replace("FAR", far));
    }
    let doctor = at(&stage, 0, &["doctor", "--offline"]);
    assert!(
        doctor.contains("too far in the future, such as the read of c1 until 20"),
        "{doctor}"
    );
    at(&stage, 0, &["tick"]);
    let left = "SELECT (SELECT count(*) FROM pulls WHERE next_read > LATER),
        (SELECT count(*) FROM discoveries WHERE next_read > LATER),
        (SELECT count(*) FROM changes WHERE held_until > LATER),
        (SELECT count(*) FROM work_items WHERE not_before > LATER),
        (SELECT count(*) FROM intents WHERE not_before > LATER),
        (SELECT count(*) FROM evaluator_troubles WHERE try_again > LATER)";
    let later = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+2 hours')";
    assert_eq!(
        stage.world.sqlite(&left.replace("LATER", later)),
        "0|0|0|0|0|0"
    );
    let told = "SELECT group_concat(metadata ->> 'deadline') FROM (SELECT * FROM events
        WHERE event_type = 'skipped' AND metadata ->> 'deadline' IS NOT NULL ORDER BY metadata ->> 'deadline')";
    assert_eq!(
        stage.world.sqlite(told),
        "discovery,evaluator,item,post,read"
    );
    assert_eq!(stage.count("events WHERE event_type = 'resumed'"), 1);
}

/// A forge whose clock is years ahead does not stop the reading for years.
#[test]
fn a_rate_limit_that_ends_in_years_is_asked_about_within_the_hour() {
    let stage = Stage::new();
    stage.every("* * * * *");
    let number = stage.watched();
    let limited = json!({ "rate_limited": { "reset_in_s": 315_360_000 } });
    stage
        .forge
        .fault(json!({ "path": "pulls/1", "then": limited }));
    at(&stage, 0, &["tick"]);
    assert_eq!(stage.world.sqlite("SELECT failures FROM pulls"), "1");
    stage.forge.issue_comment(number, "bob", "hello");
    at(&stage, HOUR + 61_000, &["tick"]);
    assert_eq!(
        stage.count("feedback"),
        1,
        "{}",
        stage.world.sqlite("SELECT next_read, trouble FROM pulls")
    );
}

/// By a clock that was ten years ahead, it had been closed for ten years and was no longer read.
#[test]
fn a_closed_pull_request_is_read_again_after_the_clock_was_ahead() {
    let stage = Stage::new();
    stage.every("* * * * *");
    let number = stage.watched();
    stage.forge.close(number);
    at(&stage, 0, &["tick"]);
    at(&stage, 3653 * DAY, &["tick"]);
    assert_eq!(stage.world.sqlite("SELECT next_read FROM pulls"), "");
    stage.forge.reopen(number);
    at(&stage, 61_000, &["tick"]);
    assert_eq!(stage.count("changes WHERE state <> 'closed'"), 1);
}

/// A review that arrived while the clock was ahead, and whose comments arrived later, is judged in
/// time.
#[test]
fn a_review_that_waits_for_its_comments_does_not_wait_for_the_clock() {
    let stage = Stage::new();
    stage.every("* * * * *");
    let number = stage.watched();
    stage.forge.review(number, &Review::default());
    at(&stage, DAY, &["tick"]);
    assert_eq!(stage.count("feedback WHERE judged_at IS NULL"), 1);
    at(&stage, 61_000, &["tick"]);
    assert_eq!(stage.count("feedback WHERE judged_at IS NULL"), 0);
}

#[test]
fn a_clock_that_was_set_back_is_reported() {
    let stage = Stage::new();
    stage.every("* * * * *");
    stage.watched();
    let before = at(&stage, 0, &["doctor", "--offline"]);
    assert!(!before.contains("set back"), "{before}");
    at(&stage, DAY, &["tick"]);
    let doctor = at(&stage, 0, &["doctor", "--offline"]);
    assert!(
        doctor.contains("it was set back: the blackboard contains times up to 20"),
        "{doctor}"
    );
    let why = at(&stage, 0, &["why", "c1", "--json"]);
    assert!(
        why.contains("the clock was set back: the last activity was at 20"),
        "{why}"
    );
}

/// The clock of a running daemon is set back by a day.
#[test]
fn a_running_daemon_goes_on_after_its_clock_was_set_back() {
    let stage = Stage::new();
    stage.every("* * * * * *");
    let number = stage.watched();
    set(&stage, DAY);
    let mut daemon = stage.world.remand_command(&["run"]);
    daemon
        .env("REMAND_CLOCK", stage.folder("clock"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut daemon = daemon.spawn().unwrap();
    wait_for("a read by the wrong clock", || read_at_is_ahead(&stage));
    set(&stage, 0);
    stage.forge.issue_comment(number, "bob", "hello");
    wait_for("a read by the right clock", || stage.count("feedback") == 1);
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&daemon),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
}

/// `resume` retries failed reads now.
#[test]
fn resume_retries_a_failed_read_at_once() {
    let stage = Stage::new();
    stage.every("* * * * *");
    let number = stage.watched();
    stage.forge.issue_comment(number, "bob", "hello");
    stage
        .forge
        .fault(json!({ "path": "issues/1/comments", "then": "html502" }));
    at(&stage, 0, &["tick"]);
    assert_eq!(stage.world.sqlite("SELECT failures FROM pulls"), "1");
    at(&stage, 0, &["tick"]);
    assert_eq!(stage.count("feedback"), 0, "not before its time");
    stage
        .world
        .sqlite("UPDATE work_items SET status = 'cancelled', completed_at = created_at");
    at(&stage, 0, &["resume", "c1"]);
    at(&stage, 0, &["tick"]);
    assert_eq!(stage.count("feedback"), 1);
}
