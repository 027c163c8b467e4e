//! A dismissed review: its requests are not carried out, and approvals that it blocked count.

use super::people::HALF_THEN_WAITS;
use crate::support::play::Script;
use crate::support::pull_play::{PullPlay, quiet};

#[test]
fn a_review_that_is_dismissed_during_its_fix_ends_the_agent_and_pushes_nothing() {
    let stage = PullPlay::new(&Script {
        fixer: HALF_THEN_WAITS,
        ..quiet()
    });
    let play = &stage.play;
    stage.tick();
    stage.is_ready(0);
    let review = stage.review("bob", "CHANGES_REQUESTED", "say fixed", &[]);
    stage.due();
    let daemon = play.daemon();
    play.until("the fix begins", || !play.noted("began").is_empty());
    stage.forge.dismiss(1, review);
    stage.due();
    play.wait_for_state("ready_for_human_review");
    play.until("the agent is ended", || play.alive().is_empty());
    let run = play.world.sqlite(
        "SELECT run_id FROM runs JOIN work_items USING (item_id) WHERE source = 'review_fix'",
    );
    play.until("its work is kept", || {
        play.world
            .git(&play.repo, &["for-each-ref", "refs/remand/wip"])
            .contains(&run)
    });
    assert!(play.kept(&run, "work.txt").contains("half"));
    assert!(daemon.stop().success());
    assert_eq!(
        (stage.pushes(), stage.fixes()),
        (0, (1, 0)),
        "{:#?}",
        play.events()
    );
    assert_eq!(play.world.sqlite("SELECT state FROM rejections"), "skipped");
    assert!(
        stage
            .passed_over()
            .contains("dismissed while its fix was in progress"),
        "{}",
        stage.passed_over()
    );
    play.check();
}

/// Requests that others also made, and fixes that are being pushed, continue; that is reported.
#[test]
fn a_fix_for_others_too_goes_on_and_the_dismissal_is_told() {
    let stage = PullPlay::new(&Script {
        fixer: HALF_THEN_WAITS,
        ..quiet()
    });
    let play = &stage.play;
    stage.tick();
    let review = stage.review("bob", "CHANGES_REQUESTED", "say fixed", &[]);
    stage.review("carol", "CHANGES_REQUESTED", "say it loud", &[]);
    stage.due();
    let daemon = play.daemon();
    play.until("the fix begins", || !play.noted("began").is_empty());
    stage.forge.dismiss(1, review);
    stage.due();
    play.until("it is told", || {
        stage
            .passed_over()
            .contains("dismissed; the fix that includes it continues")
    });
    play.let_go("go");
    play.wait_for_state("ready_for_human_review");
    assert!(daemon.stop().success());
    stage.is_ready(1);
}

#[test]
fn an_approval_that_an_objection_stood_against_counts_once_that_is_dismissed() {
    let stage = PullPlay::new(&quiet());
    let play = &stage.play;
    stage.forge.add_user("dave", "write");
    stage.tick();
    stage.is_ready(0);
    play.world.remand(&["pause", "c1"]).ok();
    let objection = stage.review("bob", "CHANGES_REQUESTED", "say fixed", &[]);
    stage.tick();
    stage.review("dave", "APPROVED", "", &[]);
    stage.tick();
    assert!(
        stage.passed_over().contains("bob still requests changes"),
        "{}",
        stage.passed_over()
    );
    stage.forge.dismiss(1, objection);
    stage.tick();
    play.world.remand(&["resume", "c1"]).ok();
    stage.tick();
    assert_eq!(
        (play.state().as_str(), stage.fixes()),
        ("approved", (0, 0)),
        "{:#?}",
        play.events()
    );
    assert!(
        play.answer().contains("approved by github:dave"),
        "{}",
        play.answer()
    );
}
