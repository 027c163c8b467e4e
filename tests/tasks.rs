//! From a task to a pull request, through the binary: what a person types, what the agents are
//! given, and what is left behind when it cannot be done.

use crate::support::forge::Review;
use crate::support::play::{Play, REVIEWS_FIXED, Script};
use crate::support::pull_play::{APPROVES, PullPlay};

/// Implements without what the reviewer asks for, and fixes it then. Records its prompts.
const IMPLEMENTS: &str = r#"
cat >"$PROMPTS/$REMAND_ITEM.$REMAND_PHASE.prompt"
if [ "$REMAND_PHASE" = implement ]; then
    git rev-parse --abbrev-ref HEAD >"$PROMPTS/$REMAND_ITEM.branch"
    pwd >"$PROMPTS/$REMAND_ITEM.pwd"
    echo "begun by $REMAND_CHANGE" >work.txt
    echo "I wrote work.txt."
else
    echo fixed >>work.txt
    echo done
fi
"#;

fn script() -> Script<'static> {
    Script {
        reviewer: REVIEWS_FIXED,
        fixer: IMPLEMENTS,
        ..Script::default()
    }
}

/// S0-1, S0-3, S0-4, S0-53…57, S0-90, S1-1, S1-8, GZ-1: with `-a`, one command leads from a task to
/// a branch that passed its review.
#[test]
fn a_local_task_is_implemented_reviewed_and_refined() {
    let play = Play::without_change(&script());
    let added = play
        .world
        .remand_in(
            &play.repo,
            &[
                "add",
                "Add a work file",
                "-a",
                "--local",
                "--body",
                "It says who began it.",
            ],
        )
        .ok();
    assert!(
        added.stdout.contains("remand/add-a-work-file"),
        "{}",
        added.stdout
    );
    assert_eq!(play.state(), "queued");
    play.check();
    play.tick().ok();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    play.check();
    assert_eq!(play.noted("w1.branch").trim(), "remand/add-a-work-file");
    let worktree = play.noted("w1.pwd");
    assert!(
        worktree
            .trim()
            .ends_with("worktrees/calc/remand-add-a-work-file"),
        "{worktree}"
    );
    let log = play.world.git(
        &play.repo,
        &["log", "--format=%s", "main..remand/add-a-work-file"],
    );
    assert_eq!(log, "Address review feedback (cycle 1)\nAdd a work file");
    let prompt = play.noted("w1.implement.prompt");
    assert!(prompt.contains("It says who began it."), "{prompt}");
    assert_eq!(
        play.world.sqlite("SELECT group_concat(metadata ->> 'implementation_work_item_id') FROM work_items WHERE item_id <> 'w1'"),
        "w1,w1,w1"
    );
    play.tick().ok();
    play.check();
}

fn number_of(stage: &PullPlay) -> i64 {
    stage
        .play
        .world
        .sqlite("SELECT coalesce(pr_number, 0) FROM changes WHERE change_id = 'c1'")
        .parse()
        .unwrap()
}

/// S0-1…3, S0-52…62, S0-91, S0-112, S0-114, FR-1, FR-6: from the task to the merge. Remand's review
/// rejects the implementation, the fix passes, the pull request is opened and handed to the loop of
/// pull requests; a person there requests a change, approves it and merges it.
#[test]
fn a_task_becomes_a_pull_request_that_is_refined_approved_and_merged() {
    let stage = PullPlay::unwatched(&script());
    let play = &stage.play;
    let text = "It says who began it.";
    play.world
        .remand_in(
            &play.repo,
            &["add", "Add a work file", "-a", "--body", text],
        )
        .ok();
    stage.tick();
    let told = || play.events().join("\n");
    assert_eq!(play.state(), "ready_for_human_review", "{}", told());
    play.check();
    let number = number_of(&stage);
    let pull = stage.forge.pull(number);
    assert_eq!(pull["title"], "Add a work file");
    assert_eq!(pull["draft"], false);
    let body = pull["body"].as_str().unwrap();
    for part in [
        text,
        "Address review feedback (cycle 1)",
        "work.txt",
        "<!-- remand:",
    ] {
        assert!(body.contains(part), "{part:?} is not in {body}");
    }
    let branch = "remand/add-a-work-file";
    assert_eq!(
        stage.remote_head(branch),
        play.world
            .sqlite("SELECT head FROM changes WHERE change_id = 'c1'")
    );

    let head = stage.remote_head(branch);
    stage.forge.review(
        number,
        &Review {
            by: "bob",
            state: "CHANGES_REQUESTED",
            commit: Some(&head),
            body: "Say please.",
            inline: &[],
        },
    );
    stage.tick();
    assert_eq!(play.state(), "ready_for_human_review", "{}", told());
    let fixed = stage.remote_head(branch);
    assert_ne!(fixed, head);
    let fix = play.world.sqlite("SELECT metadata ->> 'implementation_work_item_id' || ' ' || (metadata ->> 'pr_number') FROM work_items WHERE source = 'review_fix' ORDER BY length(item_id) DESC, item_id DESC LIMIT 1");
    assert_eq!(fix, format!("w1 {number}"));
    stage.forge.review(
        number,
        &Review {
            by: "bob",
            state: "APPROVED",
            commit: Some(&fixed),
            ..Review::default()
        },
    );
    stage.tick();
    assert_eq!(play.state(), "approved", "{}", told());
    stage.forge.merge(number, "bob");
    stage.tick();
    assert_eq!(play.state(), "merged", "{}", told());
    play.check();
    insta::assert_snapshot!(play.world.sqlite("SELECT event_type || coalesce(' ' || (metadata ->> 'to'), '') FROM events WHERE change_id = 'c1' ORDER BY id"), @"
    state_changed queued
    work_created
    state_changed implementing
    work_claimed
    worktree_made
    run_started
    run_finished
    work_completed
    implemented
    state_changed pending_self_review
    work_created
    review_requeued
    state_changed self_reviewing
    work_claimed
    run_started
    run_finished
    work_completed
    work_rejected
    state_changed self_review_failed
    work_created
    state_changed refining
    fix_created
    work_claimed
    run_started
    run_finished
    work_completed
    fix_committed
    state_changed pending_self_review
    work_created
    review_requeued
    state_changed self_reviewing
    work_claimed
    run_started
    run_finished
    work_completed
    work_approved
    state_changed self_review_passed
    work_created
    work_claimed
    work_completed
    pr_created
    state_changed pr_created
    state_changed awaiting_pr_feedback
    state_changed ready_for_human_review
    posted
    feedback_received
    work_rejected
    work_created
    state_changed awaiting_pr_feedback
    state_changed addressing_feedback
    fix_created
    work_claimed
    run_started
    run_finished
    work_completed
    fix_pushed
    state_changed awaiting_pr_feedback
    work_created
    review_requeued
    state_changed reviewing_pr
    work_claimed
    run_started
    run_finished
    work_completed
    work_approved
    state_changed ready_for_human_review
    posted
    posted
    review_posted
    feedback_received
    work_approved
    state_changed approved
    instructed
    pr_changed
    state_changed merged
    ");
}

/// What a person asks for before the pull request is done before it is opened.
#[test]
fn a_rejection_by_a_person_comes_before_the_pull_request() {
    let stage = PullPlay::unwatched(&script());
    let play = &stage.play;
    play.world
        .remand_in(&play.repo, &["add", "Add a work file", "-a"])
        .ok();
    play.world
        .remand(&["reject", "c1", "use another library"])
        .ok();
    stage.tick();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    let first = |event: &str| {
        let sql = format!("SELECT min(id) FROM events WHERE event_type = '{event}'");
        play.world.sqlite(&sql).parse::<i64>().unwrap()
    };
    let last_fix = play
        .world
        .sqlite("SELECT max(id) FROM events WHERE event_type IN ('fix_committed', 'fix_pushed')");
    assert!(
        last_fix.parse::<i64>().unwrap() < first("pr_created"),
        "{:#?}",
        play.events()
    );
    assert_eq!(play.count("rejections WHERE state = 'fixed'"), 2);
    play.check();
}

/// S1-8: a review on the pull request comes before "ready" if there will be no pull request.
#[test]
fn a_local_task_is_reviewed_although_the_review_is_on_the_pull_request() {
    let play = Play::without_change(&Script {
        reviewer: APPROVES,
        tables: "[loop]\nself_review_before_pr = false\n",
        ..script()
    });
    play.world
        .remand_in(&play.repo, &["add", "Add a work file", "-a", "--local"])
        .ok();
    play.tick().ok();
    assert_eq!(play.state(), "ready_for_human_review");
    assert_eq!(play.count("reviews"), 1, "{:#?}", play.events());
    play.check();
}
