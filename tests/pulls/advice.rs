//! Advice to a person about a pull request that needs one: its worktree belongs to remand, and is a
//! dead end.

use crate::support::play::Script;
use crate::support::pull_play::PullPlay;

#[test]
fn a_person_is_told_to_push_and_not_to_review_a_worktree() {
    let stage = PullPlay::new(&Script {
        fixer: "cat >/dev/null\n",
        ..Script::default()
    });
    let (play, world) = (&stage.play, &stage.play.world);
    stage.tick();
    play.is_escalated("the agent changed nothing");
    let answer = play.answer();
    assert!(
        answer.contains("fix it by hand and push your commit to feature, the branch of PR #1"),
        "{answer}"
    );
    assert!(!answer.contains("review --worktree"), "{answer}");
    let refused = world.remand(&["item", "requeue", "w1"]);
    assert!(
        !refused.stderr.contains("review --worktree"),
        "{}",
        refused.stderr
    );

    world.remand(&["watch", "ada/calc#1"]).held();
    world.remand(&["post", "c1"]).held();

    // It is not a dead end.
    std::fs::write(stage.elsewhere.join("work.txt"), "fixed\n").unwrap();
    world.git(&stage.elsewhere, &["fetch", "--quiet", "origin"]);
    world.git(
        &stage.elsewhere,
        &[
            "checkout",
            "--quiet",
            "-f",
            "-B",
            "feature",
            "origin/feature",
        ],
    );
    std::fs::write(stage.elsewhere.join("work.txt"), "fixed\n").unwrap();
    world.git(&stage.elsewhere, &["commit", "--quiet", "-am", "by hand"]);
    world.git(&stage.elsewhere, &["push", "--quiet", "origin", "feature"]);
    stage.tick();
    stage.tick();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
}

/// Elsewhere `remand review` adopts the branch.
#[test]
fn without_a_pull_request_the_worktree_is_reviewed() {
    let play = crate::support::play::Play::new(&Script {
        fixer: "cat >/dev/null\n",
        ..Script::default()
    });
    play.tick().report();
    let advice = format!(
        "fix it by hand and run `remand review --worktree {}`",
        play.worktree.display()
    );
    assert!(play.answer().contains(&advice), "{}", play.answer());
}
