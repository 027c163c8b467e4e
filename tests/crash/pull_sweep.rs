//! Every named line that a pull request crosses: the program dies there once, is started again, and
//! the remote and the forge are as if it had not.

use std::collections::BTreeSet;

use super::pull_scene::{FORBIDDEN, OVERTAKEN, TAKEN_BACK, TASK, WHOLE};
use super::pull_stage::PullStage;
use super::stage::{Stage as _, is_long};
use super::sweep::{Undisturbed, apart};
use crate::support::pull_play::REPO;

/// Deaths per run of the short test.
const DEATHS: usize = 30;

fn whole() -> PullStage {
    WHOLE.stage()
}

fn overtaken() -> PullStage {
    OVERTAKEN.stage()
}

fn forbidden() -> PullStage {
    FORBIDDEN.stage()
}

fn taken_back() -> PullStage {
    TAKEN_BACK.stage()
}

fn task() -> PullStage {
    TASK.stage()
}

fn sweep(stage: fn() -> PullStage, args: &[&str], every: usize, crossed: &[&str]) {
    let undisturbed = Undisturbed::play(stage, args);
    let names: BTreeSet<&String> = undisturbed.crossings.iter().collect();
    for name in crossed {
        assert!(
            names.iter().any(|crossed| crossed == name),
            "{name} is not crossed: {names:#?}"
        );
    }
    let points: Vec<String> = undisturbed
        .points()
        .into_iter()
        .step_by(if is_long() { 1 } else { every })
        .collect();
    println!(
        "{} crossings of {} lines, {} are tried",
        undisturbed.crossings.len(),
        names.len(),
        points.len()
    );
    undisturbed.sweep(args, &apart(&points, if is_long() { 1 } else { DEATHS }));
}

#[test]
fn a_daemon_that_dies_at_any_line_pushes_and_posts_everything_once() {
    let crossed = [
        "commit.read.before",
        "commit.permission.before",
        "commit.heartbeat.after",
        "commit.intend_push.after",
        "push.before",
        "push.after",
        "commit.pushed.before",
        "commit.finish_fix.after",
        "commit.claim_post.after",
        "post.review.before",
        "post.answer.before",
        "post.note.before",
        "post.ask.before",
        "github.reviews.before",
        "github.reviews.after",
        "github.comments.after",
        "github.replies.after",
        "github.requested_reviewers.after",
        "github.dismissals.before",
        "github.dismissals.after",
        "post.ask.after",
        "commit.post_done.before",
        "commit.dismissed.before",
    ];
    sweep(whole, &["run"], 1, &crossed);
}

/// Creates a scenario in which remand is logged in as the author of the pull request.
fn by_us() -> PullStage {
    let stage = WHOLE.unwatched("max_lost_runs = 50\n");
    stage.pull.forge.log_in("carol");
    stage.pull.watch();
    stage
}

#[test]
fn a_review_of_our_own_pull_request_is_posted_once_wherever_it_dies() {
    let undisturbed = Undisturbed::play(by_us, &["run"]);
    let is_review = |point: &String| {
        [
            "post.review.",
            "github.reviews.",
            "commit.claim_post.",
            "commit.post_done.",
        ]
        .iter()
        .any(|at| point.starts_with(at))
    };
    let points: Vec<String> = undisturbed.points().into_iter().filter(is_review).collect();
    assert!(
        points
            .iter()
            .any(|point| point.starts_with("github.reviews.after")),
        "{points:#?}"
    );
    assert!(
        !undisturbed
            .crossings
            .iter()
            .any(|name| name.starts_with("github.dismissals")),
        "nothing to take back"
    );
    undisturbed.sweep(
        &["run"],
        &apart(&points, if is_long() { 1 } else { DEATHS }),
    );
}

#[test]
fn a_worktree_of_its_own_and_a_push_of_somebody_else_survive_a_death_at_any_line() {
    let crossed = [
        "git.worktree.before",
        "call.worktree.after",
        "git.worktree.after",
        "setup.before",
        "setup.after",
        "commit.set_up.after",
        "git.rebase.before",
        "call.rebase.after",
        "git.rebase.after",
        "commit.rebased.before",
    ];
    sweep(overtaken, &["run"], 1, &crossed);
}

/// S0-64, S0-112: a task has one branch, one worktree and one pull request, and each of its steps is
/// pushed and posted once.
#[test]
fn a_task_comes_to_its_merge_once_wherever_the_daemon_dies() {
    let crossed = [
        "git.worktree.before",
        "git.worktree.after",
        "commit.finish_implement.before",
        "commit.finish_implement.after",
        "commit.intend_push.after",
        "push.before",
        "push.after",
        "commit.pushed.before",
        "github.pulls.before",
        "github.pulls.after",
        "commit.finish_pull.before",
        "commit.finish_pull.after",
    ];
    sweep(task, &["run"], 1, &crossed);
}

#[test]
fn a_fix_that_must_not_be_pushed_is_withdrawn_once_wherever_it_dies() {
    sweep(
        forbidden,
        &["run"],
        2,
        &[
            "commit.refuse.after",
            "git.withdraw.after",
            "commit.withdraw.before",
        ],
    );
}

#[test]
fn a_fix_that_a_person_took_back_is_not_made_again_wherever_it_dies() {
    sweep(
        taken_back,
        &["run"],
        2,
        &["commit.taken_back.after", "commit.withdraw.before"],
    );
}

#[test]
fn a_tick_on_a_pull_request_that_dies_is_made_good_by_the_next() {
    sweep(whole, &["tick"], 8, &["push.after", "post.note.after"]);
    sweep(overtaken, &["tick"], 8, &["git.rebase.after"]);
    sweep(task, &["tick"], 8, &["commit.finish_pull.after"]);
}

#[test]
fn a_daemon_that_dies_again_while_it_recovers_pushes_and_posts_everything_once() {
    for (stage, seed) in [
        (whole as fn() -> PullStage, 11),
        (overtaken, 13),
        (task, 17),
    ] {
        let undisturbed = Undisturbed::play(stage, &["run"]);
        undisturbed.sweep(
            &["run"],
            &undisturbed.pairs(seed, if is_long() { 1000 } else { 12 }),
        );
    }
}

#[test]
fn a_watch_that_dies_and_is_said_again_is_one_watch() {
    let watch = ["watch", &format!("{REPO}#1")];
    let stage = WHOLE.unwatched("");
    let list = stage.play().world.root().join("crossings");
    let mut command = stage.play().world.remand_command(&watch);
    assert!(
        command
            .env("REMAND_CRASH_LIST", &list)
            .output()
            .unwrap()
            .status
            .success()
    );
    let crossings = std::fs::read_to_string(list).unwrap();
    assert!(crossings.contains("commit.adopt.before"), "{crossings}");
    let names: BTreeSet<&str> = crossings.lines().collect();
    for name in names {
        let stage = WHOLE.unwatched("");
        let mut command = stage.play().world.remand_command(&watch);
        assert!(
            !command
                .env("REMAND_CRASH_AT", name)
                .output()
                .unwrap()
                .status
                .success(),
            "{name}"
        );
        stage.pull.watch();
        assert_eq!(stage.play().count("changes"), 1, "{name}");
        assert_eq!(stage.play().count("work_items"), 1, "{name}");
        assert_eq!(
            stage.play().count("events WHERE event_type = 'pr_adopted'"),
            1,
            "{name}"
        );
    }
}
