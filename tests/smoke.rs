//! The loop in its simplest form, through the binary.

use crate::support::play::{NEVER_SATISFIED, Play, Script};

#[test]
fn rejected_fixed_and_approved_by_one_tick() {
    let play = Play::new(&Script::default());
    play.tick().report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    assert_eq!(
        play.world
            .git(&play.worktree, &["log", "-1", "--format=%s"]),
        "Address review feedback (cycle 1)"
    );
    play.check();
}

#[test]
fn never_satisfied_is_handed_to_a_person_by_the_daemon() {
    let play = Play::new(&Script {
        reviewer: NEVER_SATISFIED,
        ..Script::default()
    });
    let daemon = play.daemon();
    play.wait_for_state("escalated");
    assert!(daemon.stop().success());
    assert_eq!(play.count("work_items WHERE source = 'review_fix'"), 2);
    play.check();
}
