//! A project's rules for a pull request and a person's decision on its change are independent.

use crate::support::play::Script;
use crate::support::pull_play::{PullPlay, quiet};

/// Creates a change that was adopted by its label and reviewed, with nothing to do.
fn labelled() -> PullPlay {
    let stage = PullPlay::unwatched(&Script {
        tables: "[projects.calc.discover]\n",
        ..quiet()
    });
    stage.forge.label(1, "remand");
    stage.tick();
    stage.is_ready(0);
    stage
}

/// Asserts that an objection does not start an agent.
#[track_caller]
fn rests(stage: &PullPlay, says: &str) {
    stage.tick();
    let play = &stage.play;
    assert_eq!(stage.fixes(), (0, 0), "{:#?}", play.events());
    assert!(
        play.answer().contains(says),
        "{says:?} is not in {}",
        play.answer()
    );
    assert_eq!(play.count("work_items WHERE status = 'available'"), 0);
    play.check();
}

#[test]
fn a_label_that_is_put_back_does_not_end_a_persons_pause() {
    let stage = labelled();
    let play = &stage.play;
    stage.forge.unlabel(1, "remand");
    stage.review("bob", "CHANGES_REQUESTED", "say fixed", &[]);
    rests(&stage, "it has no label `remand`");
    play.world
        .remand(&["pause", "c1", "--why", "hands off"])
        .ok();
    rests(&stage, "hands off");
    assert!(
        play.answer().contains("it has no label `remand`"),
        "{}",
        play.answer()
    );
    stage.forge.label(1, "remand");
    rests(&stage, "it was paused by ada: hands off");
    assert!(!play.answer().contains("label"), "{}", play.answer());
    play.world.remand(&["resume", "c1"]).ok();
    stage.tick();
    stage.is_ready(1);
}

#[test]
fn a_label_that_is_taken_off_during_a_persons_pause_counts_when_he_goes_on() {
    let stage = labelled();
    let play = &stage.play;
    play.world.remand(&["pause", "c1"]).ok();
    stage.forge.unlabel(1, "remand");
    stage.review("bob", "CHANGES_REQUESTED", "say fixed", &[]);
    rests(&stage, "it was paused by ada");
    let told = play.world.remand(&["resume", "c1"]).ok().stdout;
    assert!(
        told.contains("is still paused") && told.contains("it has no label `remand`"),
        "{told}"
    );
    rests(&stage, "it has no label `remand`");
    stage.forge.label(1, "remand");
    stage.tick();
    stage.is_ready(1);
}

/// The rules do not affect the reason for the hold.
#[test]
fn a_label_that_is_put_back_ends_no_hold() {
    let stage = labelled();
    let play = &stage.play;
    stage.review("bob", "CHANGES_REQUESTED", "say fixed", &[]);
    stage.forge.unlabel(1, "remand");
    rests(&stage, "it has no label `remand`");
    play.world
        .sqlite("UPDATE changes SET held_until = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+1 day'), hold_reason = 'no network', holds = 1");
    stage.forge.label(1, "remand");
    play.world
        .sqlite("UPDATE pulls SET next_read = '2020-01-01T00:00:00.000Z'");
    play.tick().report();
    assert!(play.answer().contains("held until"), "{}", play.answer());
    assert_eq!(stage.fixes(), (0, 0));
    play.check();
}
