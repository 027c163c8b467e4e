//! Nothing is ever pushed to GitHub's default branch, whatever the clone assumes.

use super::people::HALF_THEN_WAITS;
use crate::support::pull_play::{PullPlay, REPO, quiet, rejecting};

/// The clone has no `origin/HEAD`, and assumes `main`.
#[test]
fn a_pull_request_from_the_branch_that_github_calls_its_default_is_not_taken_over() {
    let stage = PullPlay::unwatched(&rejecting());
    let play = &stage.play;
    stage.forge.set_default_branch("feature");
    let watch = play.world.remand(&["watch", &format!("{REPO}#1")]);
    watch.fails(1, "its branch is the project's default branch");
    assert_eq!(play.count("changes"), 0);
    stage.forge.set_default_branch("main");
    stage.watch();
    stage.tick();
    stage.is_ready(1);
}

#[test]
fn a_branch_that_becomes_the_default_is_not_pushed_to() {
    let stage = PullPlay::new(&quiet());
    let play = &stage.play;
    stage.tick();
    stage.is_ready(0);
    // Before the fix: no agent is started for it.
    stage.review("bob", "CHANGES_REQUESTED", "say fixed", &[]);
    stage.forge.set_default_branch("feature");
    stage.tick();
    play.is_escalated("feature is the default branch of ada/calc");
    assert_eq!(
        (stage.pushes(), stage.fixes()),
        (0, (0, 0)),
        "{:#?}",
        play.events()
    );
    // During the fix.
    stage.forge.set_default_branch("main");
    play.fixer(HALF_THEN_WAITS);
    play.world.remand(&["retry", "c1"]).ok();
    let daemon = play.daemon();
    play.until("the fix begins", || !play.noted("began").is_empty());
    stage.forge.set_default_branch("feature");
    play.let_go("go");
    play.wait_for_state("escalated");
    assert!(daemon.stop().success());
    play.is_escalated("feature is the default branch of ada/calc");
    assert_eq!(
        (stage.pushes(), stage.fixes()),
        (0, (1, 0)),
        "{:#?}",
        play.events()
    );
    // The commit waits for its push.
    stage.forge.set_default_branch("main");
    play.world.remand(&["retry", "c1"]).ok();
    stage.tick();
    stage.is_ready(1);
    assert_eq!(stage.pushes(), 1);
}
