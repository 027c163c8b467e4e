//! Failures of one change do not affect others: they are read, judged, fixed and posted as if it
//! did not exist.

use crate::support::forge::Review;
use crate::support::pull_play::{PullPlay, REPO, quiet};

/// Opens another pull request, of the branch `other`, and watches it; returns its change.
fn another(stage: &PullPlay) -> (i64, String) {
    let world = &stage.play.world;
    world.git(
        &stage.play.repo,
        &["push", "--quiet", "origin", "main:refs/heads/other"],
    );
    stage.push_from_elsewhere("other", "work.txt", "other work");
    let number = stage.forge.open_pull("other", "main", "carol");
    world.remand(&["watch", &format!("{REPO}#{number}")]).ok();
    (
        number,
        world.sqlite(&format!(
            "SELECT change_id FROM changes WHERE pr_number = {number}"
        )),
    )
}

fn state_of(stage: &PullPlay, change: &str) -> String {
    stage.play.world.sqlite(&format!(
        "SELECT state FROM changes WHERE change_id = '{change}'"
    ))
}

#[test]
fn a_pull_request_that_is_reopened_while_another_change_has_its_branch_stays_closed_and_stops_nobody()
 {
    let stage = PullPlay::new(&quiet());
    let (play, world) = (&stage.play, &stage.play.world);
    stage.tick();
    stage.forge.close(1);
    stage.tick();
    assert_eq!(play.state(), "closed");
    world
        .remand(&["review", "--worktree", play.worktree.to_str().unwrap()])
        .ok();
    stage.forge.reopen(1);
    stage.tick();
    assert_eq!(play.state(), "closed");
    let told = "the PR was reopened, but c1 stays closed: its branch feature belongs to c2";
    assert!(play.why().contains(told), "{}", play.why());
    let (number, other) = another(&stage);
    stage.tick();
    stage.forge.review(
        number,
        &Review {
            body: "say fixed",
            ..Review::default()
        },
    );
    stage.tick();
    assert_eq!(state_of(&stage, &other), "ready_for_human_review");
    assert_eq!(stage.fixes(), (1, 1), "{}", play.events().join("\n"));
    assert_eq!(
        play.count(&format!("events WHERE summary LIKE '{told}%'")),
        1,
        "once"
    );

    // Its branch is free again, and it can be adopted again.
    world.remand(&["cancel", "c2"]).ok();
    world.remand(&["watch", &format!("{REPO}#1")]).ok();
    stage.tick();
    assert_eq!(
        world.sqlite("SELECT state FROM changes WHERE pr_number = 1 AND state <> 'closed'"),
        "ready_for_human_review"
    );
    play.check();
}

#[test]
fn what_cannot_be_written_of_one_change_is_a_persons_and_the_others_go_on() {
    let stage = PullPlay::new(&quiet());
    let (play, world) = (&stage.play, &stage.play.world);
    let (number, other) = another(&stage);
    stage.tick();
    world.sqlite(
        "CREATE TRIGGER no_luck BEFORE UPDATE OF judged_at ON feedback WHEN NEW.change_id = 'c1'
         BEGIN SELECT RAISE(ABORT, 'no luck'); END",
    );
    stage.review(
        "bob",
        "CHANGES_REQUESTED",
        "say fixed",
        &[("work.txt", 1, "here")],
    );
    stage.forge.review(
        number,
        &Review {
            body: "say fixed",
            ..Review::default()
        },
    );
    stage.tick();
    assert_eq!(state_of(&stage, &other), "ready_for_human_review");
    assert_eq!(stage.fixes(), (1, 1), "{}", play.events().join("\n"));
    play.is_escalated("no luck");
    stage.tick();
    assert_eq!(
        play.count("events WHERE event_type = 'escalated'"),
        1,
        "once"
    );

    // The feedback is still there, and is processed when a person resumes the change.
    world.sqlite("DROP TRIGGER no_luck");
    world.remand(&["refine", "c1", "--text", "say fixed"]).ok();
    stage.tick();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{}",
        play.events().join("\n")
    );
    assert_eq!(
        play.count("feedback WHERE change_id = 'c1' AND outcome = 'rejected'"),
        2
    );
    assert!(
        stage.fix_prompt().contains("here"),
        "{}",
        stage.fix_prompt()
    );
    play.check();
}

#[test]
fn a_rejection_that_can_be_made_no_fix_of_is_a_persons_and_the_others_go_on() {
    let stage = PullPlay::new(&quiet());
    let (play, world) = (&stage.play, &stage.play.world);
    let (_, other) = another(&stage);
    stage.tick();
    world.sqlite(
        "CREATE TRIGGER no_luck BEFORE INSERT ON work_items WHEN NEW.change_id = 'c1' AND NEW.source = 'review_fix'
         BEGIN SELECT RAISE(ABORT, 'no luck'); END",
    );
    for change in ["c1", &other] {
        play.insert("work_rejected", "change", change, "say fixed");
    }
    stage.tick();
    assert_eq!(
        (state_of(&stage, &other), stage.fixes()),
        ("ready_for_human_review".to_owned(), (1, 1))
    );
    play.is_escalated("no luck");
    play.check();
}

#[test]
fn an_event_that_can_be_made_nothing_of_is_told_and_passed() {
    let stage = PullPlay::new(&quiet());
    let (play, world) = (&stage.play, &stage.play.world);
    let (_, other) = another(&stage);
    stage.tick();
    world.sqlite(
        "CREATE TRIGGER no_luck BEFORE INSERT ON rejections WHEN NEW.change_id = 'c1'
         BEGIN SELECT RAISE(ABORT, 'no luck'); END",
    );
    for change in ["c1", &other] {
        play.insert("work_rejected", "change", change, "say fixed");
    }
    stage.tick();
    assert_eq!(
        (state_of(&stage, &other), stage.fixes()),
        ("ready_for_human_review".to_owned(), (1, 1))
    );
    let told =
        "SELECT count(*) FROM events WHERE event_type = 'skipped' AND summary LIKE '%no luck%'";
    assert_eq!(world.sqlite(told), "1");
    assert_eq!(play.state(), "ready_for_human_review");
}

/// GitHub limits neither the hunks nor the number of comments in a review.
#[test]
fn a_review_under_large_hunks_is_one_fix_like_any_other() {
    let stage = PullPlay::new(&quiet());
    let play = &stage.play;
    stage.tick();
    let comments: Vec<(&str, i64, &str)> = (0..36).map(|_| ("work.txt", 1, "say fixed")).collect();
    stage.review("bob", "CHANGES_REQUESTED", "see below", &comments);
    let line = format!("+{}\n", "x".repeat(60));
    stage.forge.set_hunks(
        1,
        &format!("@@ -0,0 +1,8001 @@\n{}+the last line", line.repeat(8000)),
    );
    play.world.remand(&["pause", "c1"]).ok();
    stage.tick();
    assert_eq!(play.count("rejections"), 1);
    // The fake is slow with a forge of this size, and it has been read.
    stage.forge.set_hunks(1, "@@ -0,0 +1 @@\n+x");
    play.world.remand(&["resume", "c1"]).ok();
    stage.tick();
    stage.is_ready(1);
    let prompt = stage.fix_prompt();
    assert!(prompt.contains("the last line"), "{prompt}");
    assert_eq!(
        play.count("feedback WHERE length(hunk) > 2000"),
        0,
        "what nobody is shown is not kept"
    );
}

/// A post that has to wait for a person causes no wake-ups.
#[test]
fn what_a_paused_change_is_to_post_is_not_due() {
    let stage = PullPlay::new(&quiet());
    let (play, world) = (&stage.play, &stage.play.world);
    stage.forge.fault(serde_json::json!({
        "method": "POST", "path": "pulls/1/reviews", "times": 99, "then": { "status": { "status": 503 } },
    }));
    stage.tick();
    assert_eq!(
        play.count("intents WHERE done_at IS NULL AND not_before IS NOT NULL"),
        1
    );
    world.remand(&["pause", "c1"]).ok();
    world.sqlite("UPDATE intents SET not_before = '2020-01-01T00:00:00.000Z'");
    let daemon = play.daemon();
    play.becomes_quiet(&daemon);
    assert!(daemon.stop().success());
}

/// An event may be dated by another clock, or the local one may have been set back since.
#[test]
fn a_rejection_dated_ahead_is_fixed_and_read_for_once() {
    let stage = PullPlay::new(&quiet());
    let (play, world) = (&stage.play, &stage.play.world);
    stage.tick();
    world.sqlite(
        "INSERT INTO events (timestamp, event_type, actor_id, target_type, target_id, summary)
         VALUES ('2099-01-01T00:00:00.000Z', 'work_rejected', 'ci', 'change', 'c1', 'say fixed')",
    );
    stage.forge.clear_log();
    let daemon = play.daemon();
    play.wait_for("SELECT state FROM rejections", "fixed");
    play.wait_for_state("ready_for_human_review");
    assert!(daemon.stop().success());
    // One for the rejection, one by the schedule, one before each review is posted.
    let is_read = |method: &str, path: &str| method == "GET" && path.contains("pulls/1/reviews");
    let reads = stage
        .forge
        .log()
        .iter()
        .filter(|asked| is_read(&asked.method, &asked.path))
        .count();
    assert!(reads < 8, "{reads} reads");
    stage.is_ready(1);
}
