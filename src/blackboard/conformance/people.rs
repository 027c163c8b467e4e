//! Cases for a person's decisions about a change.

use super::story::{Story, failure, finding, more_fixes};
use crate::blackboard::{self as bb, BoardError};
use crate::change::State;
use crate::event::EventType;
use crate::finding::Verdict;
use crate::work::{RejectionState, Source, Status};

fn refused<T: std::fmt::Debug>(result: bb::Result<T>) -> String {
    let BoardError::Refused { what, .. } = result.unwrap_err() else {
        panic!("refused for another reason")
    };
    what
}

#[test]
fn retry_opens_the_failed_fix_again() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let claimed = story.claim();
    story.fail(&claimed.claim());
    story.reject(&change.change_id, &super::story::no_round());
    story.beat();
    let after = story
        .step(|conn, now| bb::retry(conn, &change.change_id, "ann", now))
        .unwrap();
    assert_eq!((after.state, after.escalated_from), (State::Refining, None));
    assert!(!after.human_review_required);
    assert_eq!(after.decision, None);
    use RejectionState::{InFix, Pending};
    assert_eq!(story.rejection_states(&change.change_id), [InFix, Pending]);
    story.check();
    let again = story.claim();
    assert_eq!(again.item.item_id, claimed.item.item_id);
    assert_eq!(
        (again.item.epoch, again.item.attempt),
        (2, 2),
        "attempts never decrease"
    );
    story.check();
}

#[test]
fn retry_opens_the_failed_review_again() {
    let mut story = Story::begin();
    let change = story.change();
    let claimed = story.claim();
    story.fail(&claimed.claim());
    let after = story
        .step(|conn, now| bb::retry(conn, &change.change_id, "ann", now))
        .unwrap();
    assert_eq!(after.state, State::PendingSelfReview);
    let told = story
        .events(&change.change_id, EventType::Instructed)
        .remove(0);
    assert_eq!(
        (told.actor_id.as_str(), told.metadata["action"].as_str()),
        ("ann", Some("retry"))
    );
    story.check();
    assert_eq!(
        story.review(Verdict::Approved, &[]).state,
        State::ReadyForHumanReview
    );
    story.check();
}

#[test]
fn an_unclear_review_could_not_be_finished_after_a_retry() {
    let mut story = Story::begin();
    let change = story.change();
    story.review(Verdict::Unclear, &[finding("a.rs", "perhaps")]);
    story
        .step(|conn, now| bb::retry(conn, &change.change_id, "ann", now))
        .unwrap();
    let after = story.review(Verdict::ChangesRequested, &[finding("b.rs", "surely")]);
    assert_eq!(after.state, State::SelfReviewFailed);
    let reviews = story
        .engine
        .read(|conn| bb::reviews_of(conn, &change.change_id));
    assert_eq!(
        (reviews.len(), reviews[0].verdict),
        (1, Verdict::ChangesRequested)
    );
    let open = story
        .engine
        .read(|conn| bb::open_findings(conn, &change.change_id));
    assert_eq!(
        open.iter()
            .map(|f| f.finding.text.as_str())
            .collect::<Vec<_>>(),
        ["surely"]
    );
    story.check();
}

#[test]
fn there_is_nothing_to_retry_where_nothing_failed() {
    let mut story = Story::begin();
    let change = story.change();
    let image = story.engine.image();
    let what = refused(story.step(|conn, now| bb::retry(conn, &change.change_id, "ann", now)));
    assert!(what.contains("not escalated"), "{what}");
    assert_eq!(story.engine.changed_since(&image), [] as [String; 0]);
    let mut story = Story::begin();
    let change = story.change_at_its_bound();
    let what = refused(story.step(|conn, now| bb::retry(conn, &change.change_id, "ann", now)));
    assert!(what.contains("has no failed item to retry"), "{what}");
}

#[test]
fn retry_opened_an_item_that_had_failed_long_before() {
    let mut story = Story::begin();
    let change = story.change_with(|new| new.bounds.max_fix_cycles = 0);
    let id = &change.change_id;
    let claimed = story.claim();
    story.fail(&claimed.claim());
    story
        .step(|conn, now| bb::refine(conn, id, Some("x"), "ann", now))
        .unwrap();
    story.review(Verdict::ChangesRequested, &[finding("a.rs", "x")]);
    story.beat();
    assert_eq!(story.at(id).state, State::Escalated);
    let what = refused(story.step(|conn, now| bb::retry(conn, id, "ann", now)));
    assert!(what.contains("has no failed item to retry"), "{what}");
    story.check();
}

#[test]
fn retry_of_a_review_forgot_the_rejections_that_had_waited_beside_it() {
    let mut story = Story::begin();
    let change = story.change();
    let id = &change.change_id;
    let claimed = story.claim();
    story.reject(id, &super::story::no_round());
    story.beat();
    story.fail(&claimed.claim());
    assert_eq!(story.rejection_states(id), [RejectionState::Escalated]);
    story
        .step(|conn, now| bb::retry(conn, id, "ann", now))
        .unwrap();
    assert_eq!(story.rejection_states(id), [RejectionState::Pending]);
    story.check();
}

#[test]
fn retry_brought_back_a_rejection_that_a_person_had_answered() {
    let mut story = Story::begin();
    let change = story.change_at_its_bound();
    let id = &change.change_id;
    story
        .step(|conn, now| bb::approve_by_person(conn, id, "ann", now))
        .unwrap();
    use RejectionState::{Fixed, InFix, Skipped};
    assert_eq!(story.rejection_states(id), [Fixed, Skipped]);
    story
        .engine
        .by_hand("work_rejected", ("change", id.as_str()), "one more thing");
    story.beat();
    let claimed = story.claim();
    story.fail(&claimed.claim());
    story
        .step(|conn, now| bb::retry(conn, id, "ann", now))
        .unwrap();
    assert_eq!(story.rejection_states(id), [Fixed, Skipped, InFix]);
    story.check();
}

#[test]
fn a_cancelled_fix_left_its_change_waiting_for_ever() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let id = &change.change_id;
    let item = story.open_items(id).remove(0);
    let cancelled = story
        .step(|conn, now| bb::cancel_item(conn, &item.item_id, "no", "ann", now))
        .unwrap();
    assert_eq!(cancelled.status, Status::Cancelled);
    assert_eq!(story.at(id).state, State::Escalated);
    assert_eq!(story.rejection_states(id), [RejectionState::Escalated]);
    story.check();
    let again =
        refused(story.step(|conn, now| bb::cancel_item(conn, &item.item_id, "no", "ann", now)));
    assert!(again.contains("cannot cancel"), "{again}");
    story
        .step(|conn, now| bb::refine(conn, id, Some("differently"), "ann", now))
        .unwrap();
    story.beat();
    assert_eq!(story.fix().state, State::PendingSelfReview);
    story.check();
}

#[test]
fn an_item_was_queued_again_for_a_change_that_could_not_take_it() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let claimed = story.claim();
    let escalated = story.fail(&claimed.claim());
    let item = &claimed.item.item_id;
    let what = refused(story.step(|conn, now| bb::requeue_item(conn, Some(&escalated), item, now)));
    assert!(what.contains("cannot requeue"), "{what}");
    let change = story.at(&change.change_id);
    assert_eq!(change.state, State::Escalated);
    story.check();
}

#[test]
fn refine_asks_anew_with_what_is_open() {
    let mut story = Story::begin();
    let change = story.change_at_its_bound();
    let id = &change.change_id;
    let after = story
        .step(|conn, now| bb::refine(conn, id, Some("use a deadline"), "ann", now))
        .unwrap();
    assert_eq!(after.state, State::SelfReviewFailed);
    story.beat();
    let after = story.at(id);
    assert_eq!(after.state, State::Refining);
    assert_eq!(after.budget.fix_cycle, 0, "a new round");
    use RejectionState::{Fixed, InFix, Superseded};
    assert_eq!(story.rejection_states(id), [Fixed, Superseded, InFix]);
    let asked = story.rejections(id).remove(2);
    assert!(
        asked
            .rejected
            .body
            .starts_with("use a deadline\n\nREVIEW_RESULT")
    );
    assert_eq!(asked.rejected.findings.len(), 1);
    story.check();
    story.fix();
    story.review(Verdict::Approved, &[]);
    story.check();
}

#[test]
fn refine_of_an_unreviewed_head_has_it_reviewed_first() {
    let mut story = Story::begin();
    let change = story.change();
    let claimed = story.claim();
    story.fail(&claimed.claim());
    let id = &change.change_id;
    let what = refused(story.step(|conn, now| bb::refine(conn, id, None, "ann", now)));
    assert!(what.contains("there is nothing to refine"), "{what}");
    let after = story
        .step(|conn, now| bb::refine(conn, id, Some("split it"), "ann", now))
        .unwrap();
    assert_eq!(after.state, State::PendingSelfReview);
    story.beat();
    let open = story.open_items(id);
    assert_eq!((open.len(), open[0].source), (1, Source::CodeReview));
    assert_eq!(story.rejection_states(id), [RejectionState::Pending]);
    story.check();
    story.review(Verdict::ChangesRequested, &[finding("a.rs", "x")]);
    story.beat();
    assert_eq!(
        story.rejection_states(id),
        [RejectionState::InFix, RejectionState::InFix]
    );
    story.check();
}

#[test]
fn refine_never_passes_the_fixes_of_a_life() {
    let mut story = Story::begin();
    let change =
        story.change_with(|new| (new.bounds.max_fix_cycles, new.bounds.max_total_fixes) = (1, 1));
    story.review(Verdict::ChangesRequested, &[finding("a.rs", "x")]);
    story.beat();
    story.fix();
    story.review(Verdict::ChangesRequested, &[finding("a.rs", "x")]);
    story.beat();
    let id = &change.change_id;
    assert_eq!(story.at(id).state, State::Escalated);
    let what = refused(story.step(|conn, now| bb::refine(conn, id, Some("again"), "ann", now)));
    assert!(what.contains("all of its fixes (1)"), "{what}");
    story
        .step(|conn, now| more_fixes(conn, id, 1, now))
        .unwrap();
    story.beat();
    assert_eq!(story.at(id).state, State::Refining);
    story.fix();
    assert_eq!(story.at(id).budget.total_fixes, 2);
    story.check();
}

#[test]
fn more_cycles_go_on_with_the_round() {
    let mut story = Story::begin();
    let change = story.change_at_its_bound();
    let id = &change.change_id;
    story
        .step(|conn, now| more_fixes(conn, id, 1, now))
        .unwrap();
    story.beat();
    let after = story.at(id);
    assert_eq!(
        (
            after.state,
            after.budget.fix_cycle,
            after.budget.max_fix_cycles
        ),
        (State::Refining, 1, 2)
    );
    story.fix();
    assert_eq!(story.at(id).budget.fix_cycle, 2);
    story.review(Verdict::ChangesRequested, &[finding("a.rs", "no bound")]);
    story.beat();
    assert_eq!(story.at(id).state, State::Escalated, "exactly one more fix");
    story.check();
}

#[test]
fn more_cycles_before_the_bound_only_raise_it() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let after = story
        .step(|conn, now| more_fixes(conn, &change.change_id, 3, now))
        .unwrap();
    assert_eq!(
        (after.state, after.budget.max_fix_cycles),
        (State::Refining, 5)
    );
    assert_eq!(
        story
            .events(&change.change_id, EventType::WorkRejected)
            .len(),
        1
    );
    story.check();
}

#[test]
fn fewer_cycles_are_refused() {
    let mut story = Story::begin();
    let change = story.change();
    for n in [0, -1] {
        let what = refused(story.step(|conn, now| more_fixes(conn, &change.change_id, n, now)));
        assert!(what.contains("nothing to add to the limits"), "{what}");
    }
}

#[test]
fn a_person_approves_despite_what_is_open() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let claimed = story.claim();
    let id = &change.change_id;
    let after = story
        .step(|conn, now| bb::approve_by_person(conn, id, "ann", now))
        .unwrap();
    assert_eq!(after.state, State::Approved);
    assert_eq!(story.open_items(id), []);
    assert_eq!(story.rejection_states(id), [RejectionState::Skipped]);
    assert_eq!(
        story
            .engine
            .read(|conn| bb::item(conn, &claimed.item.item_id))
            .epoch,
        2
    );
    let moved = story.events(id, EventType::StateChanged).pop().unwrap();
    assert_eq!(moved.actor_id, "ann");
    story.check();
}

#[test]
fn a_rejection_after_the_approval_goes_back_into_the_loop() {
    let mut story = Story::begin();
    let change = story.change();
    let id = &change.change_id;
    story
        .step(|conn, now| bb::approve_by_person(conn, id, "ann", now))
        .unwrap();
    story
        .engine
        .by_hand("work_rejected", ("change", id.as_str()), "wait");
    story.beat();
    assert_eq!(story.at(id).state, State::Refining);
    story.check();
}

#[test]
fn cancelling_closes_the_change_and_fences_its_run() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let claimed = story.claim();
    let id = &change.change_id;
    let after = story
        .step(|conn, now| bb::cancel_change(conn, id, Some("not wanted"), "ann", now))
        .unwrap();
    assert_eq!(after.state, State::Closed);
    let item = story
        .engine
        .read(|conn| bb::item(conn, &claimed.item.item_id));
    assert_eq!((item.status, item.epoch), (Status::Cancelled, 2));
    let rejection = story.rejections(id).remove(0);
    assert_eq!(rejection.state, RejectionState::Skipped);
    assert_eq!(
        rejection.reason.as_deref(),
        Some("cancelled by ann: not wanted")
    );
    let what = refused(story.step(|conn, now| bb::refine(conn, id, Some("x"), "ann", now)));
    assert!(what.contains("closed"), "{what}");
    story.check();
    // The worktree and the branch are free for another change.
    story.change_with(|new| {
        new.worktree.clone_from(&change.worktree);
        new.branch.clone_from(&change.branch);
    });
}

#[test]
fn one_live_change_a_worktree() {
    let mut story = Story::begin();
    let change = story.change();
    let mut second = super::story::new_change(2);
    second.worktree.clone_from(&change.worktree);
    let what = refused(story.step(|conn, now| bb::insert_change(conn, &second, now)));
    assert!(what.contains("already"), "{what}");
}

#[test]
fn a_change_is_found_by_id_branch_and_worktree() {
    let mut story = Story::begin();
    let change = story.change();
    for text in [change.change_id.as_str(), &change.branch, &change.worktree] {
        assert_eq!(
            story
                .engine
                .read(|conn| bb::find_change(conn, text))
                .change_id,
            change.change_id
        );
    }
    let missing = story
        .engine
        .write(|conn| bb::find_change(conn, "nobody"))
        .unwrap_err();
    assert!(matches!(missing, BoardError::NotFound { .. }));
}

#[test]
fn the_board_shows_what_needs_a_person_first() {
    let mut story = Story::begin();
    let (first, second) = (story.change(), story.change());
    let claimed = story.claim();
    assert_eq!(claimed.change.change_id, first.change_id);
    story
        .step(|conn, now| bb::give_back(conn, &claimed.claim(), None, now))
        .unwrap();
    let other = story.claim();
    story
        .step(|conn, now| bb::cancel_change(conn, &other.change.change_id, None, "ann", now))
        .unwrap();
    let third = story.change();
    let rest = story.claim();
    story
        .step(|conn, now| bb::fail(conn, &rest.claim(), &failure(), now))
        .unwrap();
    let live = story
        .engine
        .read(|conn| bb::board(conn, bb::Show::Live, 10));
    assert_eq!(live[0].column, "Needs you");
    assert_eq!(live.len(), 2);
    assert_eq!(
        story
            .engine
            .read(|conn| bb::board(conn, bb::Show::All, 10))
            .len(),
        3
    );
    assert!(
        live.iter()
            .any(|row| row.change.change_id == third.change_id
                || row.change.change_id == second.change_id)
    );
}
