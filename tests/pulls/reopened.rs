//! A pull request that is closed and reopened continues where it was: no feedback or decision is
//! lost.

use super::people::HALF_THEN_WAITS;
use crate::support::play::Script;
use crate::support::pull_play::{PullPlay, REPO, quiet, rejecting};

fn close(stage: &PullPlay) {
    stage.forge.close(1);
    stage.tick();
    assert_eq!(stage.play.state(), "closed", "{:#?}", stage.play.events());
}

fn reopen(stage: &PullPlay) {
    stage.forge.reopen(1);
    stage.tick();
}

#[test]
fn what_waited_for_a_person_waits_for_him_again() {
    let stage = PullPlay::new(&Script {
        tables: "[loop]\nmax_fix_cycles = 0\n",
        ..rejecting()
    });
    let play = &stage.play;
    stage.tick();
    play.is_escalated("exceeded max fix cycles (0)");
    let notes = stage.bodies("issues/1/comments");
    close(&stage);
    reopen(&stage);
    play.is_escalated("exceeded max fix cycles (0)");
    assert_eq!(
        stage.bodies("issues/1/comments"),
        notes,
        "it is not told twice"
    );
    play.world.remand(&["cycles", "c1", "1"]).ok();
    stage.tick();
    stage.is_ready(1);
}

#[test]
fn what_failed_can_still_be_tried_again() {
    let stage = PullPlay::new(&Script {
        fixer: "cat >/dev/null\n",
        ..rejecting()
    });
    let play = &stage.play;
    stage.tick();
    assert_eq!(play.state(), "escalated", "{:#?}", play.events());
    let answer = play.answer();
    close(&stage);
    reopen(&stage);
    assert_eq!(play.answer(), answer);
    play.fixer(crate::support::play::FIXES);
    play.world.remand(&["retry", "c1"]).ok();
    stage.tick();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    assert_eq!(
        play.world
            .sqlite("SELECT group_concat(state) FROM rejections"),
        "fixed"
    );
}

#[test]
fn a_fix_of_our_own_rejection_that_was_under_way_is_made_again() {
    let stage = PullPlay::new(&Script {
        fixer: HALF_THEN_WAITS,
        ..rejecting()
    });
    let play = &stage.play;
    let daemon = play.daemon();
    play.until("the fix begins", || !play.noted("began").is_empty());
    stage.forge.close(1);
    stage.due();
    play.wait_for_state("closed");
    stage.forge.reopen(1);
    stage.due();
    play.wait_for_state("addressing_feedback");
    play.let_go("go");
    play.wait_for_state("ready_for_human_review");
    assert!(daemon.stop().success());
    stage.tick();
    assert_eq!(
        (play.state().as_str(), stage.fixes().1),
        ("ready_for_human_review", 1),
        "{:#?}",
        play.events()
    );
    let work = play.world.git(&stage.remote, &["show", "feature:work.txt"]);
    assert_eq!(work.matches("half").count(), 1, "{work}");
    play.check();
}

#[test]
fn what_a_person_objects_to_is_fixed_once_it_is_open_again() {
    // In a fix that had not started.
    let stage = PullPlay::new(&quiet());
    let play = &stage.play;
    stage.tick();
    play.world.remand(&["pause", "c1"]).ok();
    stage.review("bob", "CHANGES_REQUESTED", "say fixed", &[]);
    stage.tick();
    close(&stage);
    assert_eq!(stage.fixes(), (0, 0));
    reopen(&stage);
    stage.is_ready(1);
    let soon = "SELECT next_read < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+5 minutes') FROM pulls";
    assert_eq!(play.world.sqlite(soon), "1", "it is read as often as any");
    // Read together with the close.
    stage.review(
        "bob",
        "CHANGES_REQUESTED",
        "say it again",
        &[("work.txt", 1, "here")],
    );
    close(&stage);
    reopen(&stage);
    stage.is_ready(2);
    assert!(stage.fix_prompt().contains("say it again"));
    // Written while it was closed.
    close(&stage);
    stage.review("bob", "CHANGES_REQUESTED", "say it once more", &[]);
    stage
        .forge
        .issue_comment(1, "carol", "mind the old clients");
    stage.tick();
    assert_eq!(play.state(), "closed");
    reopen(&stage);
    stage.is_ready(3);
    let prompt = stage.fix_prompt();
    assert!(
        prompt.contains("say it once more") && prompt.contains("mind the old clients"),
        "{prompt}"
    );
}

#[test]
fn what_was_dismissed_while_it_was_closed_is_not_asked_for() {
    let stage = PullPlay::new(&quiet());
    stage.tick();
    stage.play.world.remand(&["pause", "c1"]).ok();
    let review = stage.review("bob", "CHANGES_REQUESTED", "say fixed", &[]);
    stage.tick();
    close(&stage);
    stage.forge.dismiss(1, review);
    stage.tick();
    reopen(&stage);
    stage.is_ready(0);
    assert_eq!(stage.play.count("reviews"), 1, "the verdict stands");
}

/// It is added between reads: by another program, or by remand's own review at the moment of the
/// close.
#[test]
fn what_is_rejected_while_it_is_closed_is_fixed_once_it_is_open_again() {
    let stage = PullPlay::new(&quiet());
    stage.tick();
    close(&stage);
    stage
        .play
        .insert("work_rejected", "change", "c1", "say fixed");
    stage.tick();
    assert_eq!(stage.play.state(), "closed");
    reopen(&stage);
    stage.is_ready(1);
}

#[test]
fn a_verdict_on_the_same_head_still_holds() {
    let stage = PullPlay::new(&quiet());
    let play = &stage.play;
    stage.tick();
    close(&stage);
    reopen(&stage);
    stage.is_ready(0);
    stage.review("bob", "APPROVED", "", &[]);
    stage.tick();
    close(&stage);
    reopen(&stage);
    assert_eq!(play.state(), "approved", "{:#?}", play.events());
    assert_eq!(play.count("reviews"), 1);
    // One on another head does not.
    close(&stage);
    let new = stage.push_from_elsewhere("feature", "more.txt", "more\n");
    reopen(&stage);
    stage.is_ready(0);
    play.worktree_is_at(&new);
    assert_eq!(play.count("reviews"), 2);
}

/// A push answers an escalation, also while it was closed.
#[test]
fn a_push_while_it_was_closed_is_reviewed_and_nothing_older_asked_for() {
    let stage = PullPlay::new(&Script {
        tables: "[loop]\nmax_fix_cycles = 0\n",
        ..rejecting()
    });
    let play = &stage.play;
    stage.tick();
    play.is_escalated("exceeded max fix cycles (0)");
    close(&stage);
    stage.push_from_elsewhere("feature", "work.txt", "fixed\n");
    reopen(&stage);
    stage.is_ready(0);
    assert_eq!(play.world.sqlite("SELECT state FROM rejections"), "skipped");
    close(&stage);
    reopen(&stage);
    stage.is_ready(0);
}

#[test]
fn what_a_person_cancelled_does_not_come_back() {
    let stage = PullPlay::new(&quiet());
    let play = &stage.play;
    stage.tick();
    close(&stage);
    play.world.remand(&["cancel", "c1"]).ok();
    reopen(&stage);
    assert_eq!(play.state(), "closed", "{:#?}", play.events());
    // First cancelled, then closed and reopened.
    play.world.remand(&["watch", &format!("{REPO}#1")]).ok();
    stage.tick();
    play.world.remand(&["cancel", "c2"]).ok();
    stage.forge.close(1);
    stage.tick();
    reopen(&stage);
    assert_eq!(
        play.world.sqlite("SELECT group_concat(state) FROM changes"),
        "closed,closed",
        "{:#?}",
        play.events()
    );
    play.check();
}
