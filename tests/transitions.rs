//! Every row of the table of states, reached through the binary. The stories run one after another;
//! their transitions, as recorded in the events, must together contain each row.

use std::collections::BTreeSet;

use crate::support::World;
use crate::support::forge::Review;
use crate::support::play::{NEVER_SATISFIED, Play, REVIEWS_FIXED, Script};
use crate::support::pull_play::{APPROVES, PullPlay};

/// Rows: state, trigger, next state. A rejection by gates comes after the claim of the review, whose
/// state it leaves.
const ROWS: &[&str] = &[
    "queued implement_claimed implementing",
    "implementing implement_done pending_self_review",
    "implementing implement_done self_review_passed",
    "pending_self_review review_claimed self_reviewing",
    "self_reviewing review_approved self_review_passed",
    "self_reviewing review_rejected self_review_failed",
    "self_reviewing gates_red self_review_failed",
    "self_review_failed fix_created refining",
    "self_review_failed bound_reached escalated",
    "self_review_failed bound_reached self_review_passed",
    "refining fix_finished pending_self_review",
    "self_review_passed pr_made pr_created",
    "self_review_passed local_only ready_for_human_review",
    "self_review_passed gates_red self_review_failed",
    "pr_created pr_recorded awaiting_pr_feedback",
    "awaiting_pr_feedback review_claimed reviewing_pr",
    "awaiting_pr_feedback fix_created addressing_feedback",
    "awaiting_pr_feedback bound_reached escalated",
    "awaiting_pr_feedback approve approved",
    "awaiting_pr_feedback nothing_pending ready_for_human_review",
    "reviewing_pr review_approved ready_for_human_review",
    "reviewing_pr review_approved awaiting_pr_feedback",
    "reviewing_pr review_rejected awaiting_pr_feedback",
    "addressing_feedback fix_finished awaiting_pr_feedback",
    "ready_for_human_review checks_open awaiting_pr_feedback",
    "ready_for_human_review approve approved",
    "ready_for_human_review new_rejection awaiting_pr_feedback",
    "ready_for_human_review new_rejection self_review_failed",
    "ready_for_human_review head_moved awaiting_pr_feedback",
    "ready_for_human_review head_moved pending_self_review",
    "approved merged merged",
    "approved new_rejection awaiting_pr_feedback",
    "approved new_rejection self_review_failed",
    "approved head_moved awaiting_pr_feedback",
    "approved head_moved pending_self_review",
    "implementing needs_person escalated",
    "self_reviewing needs_person escalated",
    "ready_for_human_review closed closed",
    "ready_for_human_review merged merged",
    "pending_self_review mark_ready ready_for_human_review",
    "refining approve approved",
    "pending_self_review skip_to_pr self_review_passed",
    "escalated skip_to_pr self_review_passed",
    "ready_for_human_review skip_to_pr self_review_passed",
    "approved skip_to_pr self_review_passed",
    "escalated retry queued",
    "escalated retry pending_self_review",
    "escalated retry self_review_failed",
    "escalated retry awaiting_pr_feedback",
    "closed reopened awaiting_pr_feedback",
    "closed reopened pending_self_review",
];

/// Writes `work.txt`; the first fix writes "fixed" into it.
const WORKER: &str = r#"
cat >/dev/null
if [ "$REMAND_PHASE" = implement ]; then
    [ ! -e "$PROMPTS/idle" ] || exit 0
    echo begun >work.txt
else
    echo "fixed $REMAND_ITEM" >>work.txt
fi
echo done
"#;

/// S0-54…62, S0-110, S1-23…26: each row of the table of states occurs in the life of some change.
#[test]
fn every_row_of_the_table_of_states_is_reached() {
    let mut seen = BTreeSet::new();
    for story in [
        a_task_to_its_merge,
        a_task_nobody_reviews,
        a_task_reviewed_on_its_pull_request,
        a_task_that_changes_nothing,
        tasks_accepted_before_their_pull_request,
        a_bound_with_a_pull_request_anyway,
        gates_before_the_review,
        a_pull_request_that_moves,
        a_pull_request_that_is_never_good_enough,
        an_approval_that_comes_first,
        a_pull_request_with_checks,
        a_local_branch,
    ] {
        seen.extend(transitions(&story()));
    }
    let missing: Vec<_> = ROWS.iter().filter(|row| !seen.contains(**row)).collect();
    assert!(
        missing.is_empty(),
        "never reached: {missing:#?}\nof {seen:#?}"
    );
}

/// Returns the transitions of all changes: state, trigger, next state.
fn transitions(world: &World) -> BTreeSet<String> {
    let rows = world.sqlite(
        "SELECT (metadata ->> 'from') || ' ' || (metadata ->> 'on') || ' ' || (metadata ->> 'to') FROM events
         WHERE event_type = 'state_changed' AND metadata ->> 'from' IS NOT NULL",
    );
    rows.lines().map(str::to_owned).collect()
}

fn script(settings: &'static str) -> Script<'static> {
    Script {
        reviewer: REVIEWS_FIXED,
        fixer: WORKER,
        settings,
        ..Script::default()
    }
}

#[track_caller]
fn is_now(play: &Play, state: &str) {
    assert_eq!(play.state(), state, "{}", play.events().join("\n"));
}

fn number(stage: &PullPlay) -> i64 {
    let sql = "SELECT pr_number FROM changes WHERE change_id = 'c1'";
    stage.play.world.sqlite(sql).parse().unwrap()
}

fn review(stage: &PullPlay, number: i64, state: &str, body: &str) {
    let branch = "SELECT branch FROM changes WHERE change_id = 'c1'";
    let head = stage.remote_head(&stage.play.world.sqlite(branch));
    let review = Review {
        by: "bob",
        state,
        commit: Some(&head),
        body,
        inline: &[],
    };
    stage.forge.review(number, &review);
}

fn a_task_to_its_merge() -> World {
    let stage = PullPlay::unwatched(&script(""));
    let play = &stage.play;
    play.world
        .remand_in(&play.repo, &["add", "A task", "-a"])
        .ok();
    stage.tick();
    is_now(play, "ready_for_human_review");
    let number = number(&stage);
    review(&stage, number, "CHANGES_REQUESTED", "Say please.");
    stage.tick();
    is_now(play, "ready_for_human_review");
    review(&stage, number, "APPROVED", "");
    stage.tick();
    is_now(play, "approved");
    review(&stage, number, "CHANGES_REQUESTED", "One more thing.");
    stage.tick();
    is_now(play, "ready_for_human_review");
    review(&stage, number, "APPROVED", "");
    stage.tick();
    stage.forge.merge(number, "bob");
    stage.tick();
    is_now(play, "merged");
    stage.play.world
}

fn a_task_nobody_reviews() -> World {
    let play = Play::without_change(&script(""));
    play.world
        .remand_in(&play.repo, &["add", "A task", "--no-review", "--local"])
        .ok();
    play.tick().ok();
    is_now(&play, "ready_for_human_review");
    play.world
}

/// Its gate turns red between implementation and pull request.
fn a_task_reviewed_on_its_pull_request() -> World {
    let settings = "gates = [[\"sh\", \"-c\", \"test ! -e work.txt || grep -q fixed work.txt\"]]\nred_base = \"hold\"";
    let stage = PullPlay::unwatched(&Script {
        tables: "[loop]\nself_review_before_pr = false\n",
        ..script(settings)
    });
    let play = &stage.play;
    play.world
        .remand_in(&play.repo, &["add", "A task", "-a"])
        .ok();
    stage.tick();
    is_now(play, "ready_for_human_review");
    stage.play.world
}

fn a_task_that_changes_nothing() -> World {
    let play = Play::without_change(&script(""));
    std::fs::write(play.seen("idle"), "").unwrap();
    play.world
        .remand_in(&play.repo, &["add", "A task", "-a", "--local"])
        .ok();
    play.tick().report();
    is_now(&play, "escalated");
    std::fs::remove_file(play.seen("idle")).unwrap();
    play.world.remand(&["retry", "c1"]).ok();
    play.tick().ok();
    is_now(&play, "ready_for_human_review");
    play.world
}

fn tasks_accepted_before_their_pull_request() -> World {
    let stage = PullPlay::unwatched(&script(""));
    let play = &stage.play;
    for title in ["A task", "Another task"] {
        play.world.remand_in(&play.repo, &["add", title]).ok();
    }
    stage.tick();
    for (id, accept) in [("c1", "approve"), ("c2", "ready")] {
        play.world.remand(&[accept, id]).ok();
        play.world.remand(&["skip", id]).ok();
    }
    stage.play.world
}

fn a_bound_with_a_pull_request_anyway() -> World {
    let stage = PullPlay::unwatched(&Script {
        reviewer: NEVER_SATISFIED,
        tables: "[loop]\nmax_fix_cycles = 1\non_max_cycles = \"pr_anyway\"\n",
        ..script("")
    });
    let play = &stage.play;
    play.world
        .remand_in(&play.repo, &["add", "A task", "-a"])
        .ok();
    stage.tick();
    let pulls = play.count("changes WHERE pr_number IS NOT NULL AND human_review_required");
    assert_eq!(pulls, 1, "{}", play.events().join("\n"));
    stage.play.world
}

/// Reaches its bound, is continued, approved, rejected again, moved, and closed.
fn a_local_branch() -> World {
    let play = Play::new(&Script {
        reviewer: "says needs_discussion 'is this wanted?'",
        fixer: WORKER,
        tables: "[loop]\nmax_fix_cycles = 1\n",
        ..Script::default()
    });
    let remand = |args: &[&str]| drop(play.world.remand(args).report());
    play.tick().report();
    is_now(&play, "escalated");
    play.reviewer(NEVER_SATISFIED);
    remand(&["refine", "c1", "try again"]);
    play.tick().report();
    is_now(&play, "escalated");
    remand(&["cycles", "c1", "+1"]);
    play.tick().report();
    play.reviewer(APPROVES);
    remand(&["refine", "c1", "once more"]);
    play.tick().report();
    is_now(&play, "ready_for_human_review");
    remand(&["reject", "c1", "--text", "not quite"]);
    remand(&["approve", "c1"]);
    is_now(&play, "approved");
    remand(&["reject", "c1", "--text", "after all"]);
    play.tick().report();
    is_now(&play, "ready_for_human_review");
    let again = |text: &str| {
        play.world.commit(&play.worktree, "more.txt", text, text);
        let review = ["review"];
        play.world.remand_in(&play.worktree, &review).report();
    };
    again("by hand");
    is_now(&play, "pending_self_review");
    play.tick().ok();
    remand(&["approve", "c1"]);
    again("by hand again");
    is_now(&play, "pending_self_review");
    remand(&["skip", "c1"]);
    is_now(&play, "ready_for_human_review");
    again("and again");
    remand(&["ready", "c1"]);
    is_now(&play, "ready_for_human_review");
    remand(&["cancel", "c1"]);
    remand(&["reopen", "c1"]);
    is_now(&play, "pending_self_review");
    play.reviewer("says needs_discussion 'is this wanted?'");
    play.tick().report();
    is_now(&play, "escalated");
    remand(&["skip", "c1"]);
    is_now(&play, "ready_for_human_review");
    play.world
}

fn gates_before_the_review() -> World {
    let play = Play::new(&Script {
        settings: "gates = [[\"sh\", \"-c\", \"test ! -e work.txt || grep -q fixed work.txt\"]]\nred_base = \"hold\"",
        ..script("")
    });
    play.tick().report();
    is_now(&play, "ready_for_human_review");
    play.world
}

fn a_pull_request_that_moves() -> World {
    let stage = PullPlay::new(&script(""));
    let play = &stage.play;
    stage.tick();
    is_now(play, "ready_for_human_review");
    stage.push_from_elsewhere("feature", "more.txt", "fixed\n");
    stage.tick();
    is_now(play, "ready_for_human_review");
    stage.review("bob", "APPROVED", "", &[]);
    stage.tick();
    is_now(play, "approved");
    stage.push_from_elsewhere("feature", "more.txt", "fixed again\n");
    stage.tick();
    is_now(play, "ready_for_human_review");
    stage.forge.close(stage.number);
    stage.tick();
    is_now(play, "closed");
    stage.forge.reopen(stage.number);
    stage.tick();
    is_now(play, "ready_for_human_review");
    stage.forge.merge(stage.number, "bob");
    stage.tick();
    is_now(play, "merged");
    stage.play.world
}

fn a_pull_request_that_is_never_good_enough() -> World {
    let stage = PullPlay::new(&Script {
        reviewer: NEVER_SATISFIED,
        tables: "[loop]\nmax_fix_cycles = 1\n",
        ..script("")
    });
    stage.tick();
    is_now(&stage.play, "escalated");
    stage.play.world.remand(&["cycles", "c1", "+1"]).report();
    stage.play.reviewer(APPROVES);
    stage.tick();
    is_now(&stage.play, "ready_for_human_review");
    stage.play.world
}

/// A person approves before remand's own review begins.
fn an_approval_that_comes_first() -> World {
    let stage = PullPlay::new(&script(""));
    stage.play.world.remand(&["stop"]).ok();
    stage.tick();
    is_now(&stage.play, "awaiting_pr_feedback");
    stage.review("bob", "APPROVED", "", &[]);
    stage.play.world.remand(&["start"]).ok();
    stage.tick();
    is_now(&stage.play, "approved");
    stage.play.world
}

fn a_pull_request_with_checks() -> World {
    let stage = PullPlay::unwatched(&Script {
        reviewer: APPROVES,
        ..script("")
    });
    stage.forge.require("main", &["test"]);
    let head = stage.remote_head("feature");
    stage.forge.set_check(&head, "test", None);
    stage.watch();
    stage.tick();
    is_now(&stage.play, "awaiting_pr_feedback");
    stage.forge.set_check(&head, "test", Some("success"));
    stage.tick();
    is_now(&stage.play, "ready_for_human_review");
    stage.forge.set_check(&head, "test", None);
    stage.tick();
    is_now(&stage.play, "awaiting_pr_feedback");
    stage.play.world
}
