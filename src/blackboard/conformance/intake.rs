//! Cases for turning `work_rejected` events into rows: each exactly once, none lost.

use serde_json::json;

use super::story::{EVALUATOR, Story, finding, no_round};
use crate::blackboard::{self as bb, TakenIn};
use crate::change::State;
use crate::event::body;
use crate::event::{EventType, NewEvent};
use crate::finding::Verdict;
use crate::work::RejectionState;

const TYPES: [EventType; 2] = [EventType::WorkRejected, EventType::WorkApproved];

#[test]
fn a_rejection_is_found_by_its_change_and_by_its_item() {
    let mut story = Story::begin();
    let change = story.change();
    let item = story.open_items(&change.change_id).remove(0);
    story.engine.by_hand(
        "work_rejected",
        ("change", change.change_id.as_str()),
        "by change",
    );
    story.engine.by_hand(
        "work_rejected",
        ("work_item", item.item_id.as_str()),
        "by item",
    );
    assert_eq!(story.beat(), [TakenIn::Pending, TakenIn::Pending]);
    let rejections = story.rejections(&change.change_id);
    assert_eq!(
        rejections
            .iter()
            .map(|r| r.summary.as_str())
            .collect::<Vec<_>>(),
        ["by change", "by item"]
    );
    assert!(
        rejections
            .iter()
            .all(|r| r.state == RejectionState::Pending && r.by_person)
    );
    story.check();
}

#[test]
fn an_unknown_target_gives_one_skipped_event() {
    let mut story = Story::begin();
    for target in [
        ("change", "c99"),
        ("work_item", "w99"),
        ("run", "r1"),
        ("blackboard", "x"),
    ] {
        let id = story.engine.by_hand("work_rejected", target, "whose?");
        assert_eq!(story.beat(), [TakenIn::Skipped]);
        assert_eq!(story.beat(), []);
        let skipped = story.all_events(EventType::Skipped);
        let about: Vec<_> = skipped
            .iter()
            .filter(|event| event.target_id == id.to_string())
            .collect();
        assert_eq!(about.len(), 1, "{target:?}");
        assert_eq!(about[0].metadata["event_id"], json!(id));
    }
    story.check();
}

#[test]
fn a_rejection_of_a_change_that_waits_for_a_person_waits_with_it() {
    let mut story = Story::begin();
    let change = story.change();
    let claimed = story.claim();
    story.fail(&claimed.claim());
    story.reject(&change.change_id, &json!({}));
    assert_eq!(story.beat(), [TakenIn::Skipped]);
    assert_eq!(
        story.rejection_states(&change.change_id),
        [RejectionState::Escalated]
    );
    assert_eq!(story.events(&change.change_id, EventType::Skipped).len(), 1);
    story.check();
}

#[test]
fn a_rejection_of_a_change_that_is_over_is_skipped() {
    for over in [State::Closed, State::Merged] {
        let mut story = Story::begin();
        let change = story.change();
        let id = change.change_id.clone();
        story
            .step(|conn, now| bb::cancel_change(conn, &id, None, "ann", now))
            .unwrap();
        if over == State::Merged {
            story
                .step(|conn, now| bb::advance(conn, &id, crate::state::Trigger::Merged, "ann", now))
                .unwrap();
        }
        story.reject(&id, &json!({}));
        assert_eq!(story.beat(), [TakenIn::Skipped]);
        let rejection = story.rejections(&id).remove(0);
        assert_eq!(rejection.state, RejectionState::Skipped);
        assert!(rejection.reason.unwrap().contains(over.as_str()));
        assert_eq!(story.at(&id).state, over);
        story.check();
    }
}

#[test]
fn taking_in_twice_from_the_same_cursor_broke_the_heartbeat() {
    let mut story = Story::begin();
    let (rejected, over, approved) = (story.change(), story.change(), story.change());
    story
        .step(|conn, now| bb::cancel_change(conn, &over.change_id, None, "ann", now))
        .unwrap();
    for target in [rejected.change_id.as_str(), over.change_id.as_str(), "c99"] {
        story
            .engine
            .by_hand("work_rejected", ("change", target), "no");
    }
    story.engine.by_hand(
        "work_approved",
        ("change", approved.change_id.as_str()),
        "fine",
    );
    let (cursor, taken) = story
        .step(|conn, now| bb::take_in(conn, &TYPES, 0, now))
        .unwrap();
    assert_eq!(
        taken,
        [
            TakenIn::Pending,
            TakenIn::Skipped,
            TakenIn::Skipped,
            TakenIn::Approved
        ]
    );
    let image = story.engine.image();
    assert_eq!(
        story
            .step(|conn, now| bb::take_in(conn, &TYPES, 0, now))
            .unwrap(),
        (cursor, vec![])
    );
    assert_eq!(story.engine.changed_since(&image), [] as [String; 0]);
}

#[test]
fn an_approval_of_another_head_approved_the_one_that_nobody_saw() {
    let mut story = Story::begin();
    let change = story.change();
    let told = |head: &str| {
        let approved = body::WorkApproved {
            head: Some(head.to_owned()),
            ..Default::default()
        };
        NewEvent::about(&change.change_id, approved, "fine").by("ann")
    };
    story
        .step(|conn, now| bb::append(conn, &told("abcdef"), now))
        .unwrap();
    assert_eq!(story.beat(), [TakenIn::Skipped]);
    assert_eq!(story.at(&change.change_id).state, State::PendingSelfReview);
    story
        .step(|conn, now| bb::append(conn, &told(change.head.get(..12).unwrap()), now))
        .unwrap();
    assert_eq!(story.beat(), [TakenIn::Approved]);
    story.check();
}

#[test]
fn a_rejection_that_supersedes_stands_for_the_older_ones() {
    let mut story = Story::begin();
    let change = story.change();
    let other = story.change();
    story.reject(&change.change_id, &no_round());
    story.reject(&other.change_id, &no_round());
    story.beat();
    story.reject(&change.change_id, &json!({ "supersedes": true }));
    story.reject(&change.change_id, &json!({}));
    story.beat();
    use RejectionState::{Pending, Superseded};
    assert_eq!(
        story.rejection_states(&change.change_id),
        [Superseded, Pending, Pending]
    );
    assert_eq!(story.rejection_states(&other.change_id), [Pending]);
    story.check();
}

#[test]
fn what_is_in_a_fix_is_not_superseded() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    story.reject(&change.change_id, &json!({ "supersedes": true }));
    story.beat();
    assert_eq!(
        story.rejection_states(&change.change_id),
        [RejectionState::InFix, RejectionState::Pending]
    );
}

#[test]
fn only_a_person_begins_a_round() {
    let mut story = Story::begin();
    let change = story.change();
    story.review(Verdict::ChangesRequested, &[finding("a.rs", "x")]);
    let by =
        |actor: &str| NewEvent::about(&change.change_id, EventType::WorkRejected, "no").by(actor);
    let told = NewEvent {
        metadata: json!({ "begins_round": true }),
        ..by("ann")
    };
    for event in [by("ci"), told, by("operator")] {
        story
            .step(|conn, now| bb::append(conn, &event, now))
            .unwrap();
    }
    story
        .step(|conn, now| bb::take_in(conn, &TYPES, 0, now))
        .unwrap();
    assert_eq!(
        story
            .rejections(&change.change_id)
            .iter()
            .map(|r| r.by_person)
            .collect::<Vec<_>>(),
        [false, false, true, true]
    );
}

#[test]
fn an_approval_from_outside_approves() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    story.engine.by_hand(
        "work_approved",
        ("change", change.change_id.as_str()),
        "fine by me",
    );
    assert_eq!(story.beat(), [TakenIn::Approved]);
    assert_eq!(story.at(&change.change_id).state, State::Approved);
    assert_eq!(story.open_items(&change.change_id), []);
    assert_eq!(
        story.rejection_states(&change.change_id),
        [RejectionState::Skipped]
    );
    story
        .engine
        .by_hand("work_approved", ("change", "c99"), "whose?");
    assert_eq!(story.beat(), [TakenIn::Skipped]);
    story.check();
}

#[test]
fn a_rejection_is_pending_as_soon_as_it_is_written() {
    let mut story = Story::begin();
    let change = story.change();
    story.review(Verdict::ChangesRequested, &[finding("a.rs", "x")]);
    assert_eq!(
        story.rejection_states(&change.change_id),
        [RejectionState::Pending]
    );
    assert_eq!(story.beat(), [], "nothing is left to take in");
    assert_eq!(
        story.rejection_states(&change.change_id),
        [RejectionState::InFix]
    );
    story.check();
}

#[test]
fn an_approval_that_is_older_than_a_rejection_does_not_end_it() {
    let mut story = Story::begin();
    let change = story.change();
    let id = change.change_id.clone();
    story.reject(&id, &no_round());
    story.beat();
    story
        .engine
        .by_hand("work_approved", ("change", id.as_str()), "fine by me");
    let rejected = body::WorkRejected::default();
    story
        .step(|conn, now| bb::reject_change(conn, &id, "ann", "no", &rejected, now))
        .unwrap();
    assert_eq!(story.beat(), [TakenIn::Approved]);
    assert_eq!(
        story.rejection_states(&id),
        [RejectionState::Skipped, RejectionState::InFix]
    );
    story.check();
}

#[test]
fn the_probe_sees_what_take_in_would_take() {
    let mut story = Story::begin();
    let change = story.change();
    let any = |story: &mut Story| {
        let types = [EventType::WorkApproved, EventType::WorkRejected];
        story
            .engine
            .read(|conn| bb::any_event(conn, EVALUATOR, &types))
    };
    let any_pending = |story: &mut Story, states: &[State]| {
        let now = story.now();
        story
            .engine
            .read(|conn| bb::any_pending(conn, states, true, now))
    };
    assert!(!any(&mut story));
    story.reject(&change.change_id, &json!({}));
    assert!(any(&mut story));
    assert_eq!(story.engine.read(bb::pending_changes), []);
    assert!(!any_pending(&mut story, State::ALL));
    story.beat();
    assert!(!any(&mut story));
    let pending = story.engine.read(bb::pending_changes);
    assert_eq!(pending, std::slice::from_ref(&change.change_id));
    assert!(any_pending(&mut story, State::ALL));
    let state = story.at(&change.change_id).state;
    assert!(any_pending(&mut story, &[state]));
    assert!(!any_pending(&mut story, &[State::Merged]));
}

#[test]
fn a_cursor_never_goes_back() {
    let mut story = Story::begin();
    assert_eq!(story.engine.read(|conn| bb::cursor(conn, "other")), 0);
    for (told, kept) in [(7, 7), (3, 7), (9, 9)] {
        story
            .step(|conn, now| bb::set_cursor(conn, "other", told, None, now))
            .unwrap();
        assert_eq!(story.engine.read(|conn| bb::cursor(conn, "other")), kept);
    }
    let next_run = |story: &mut Story| story.engine.read(|conn| bb::next_run(conn, "other"));
    assert_eq!(next_run(&mut story), None);
    let next = story.later();
    story
        .step(|conn, now| bb::set_cursor(conn, "other", 9, Some(next), now))
        .unwrap();
    assert_eq!(next_run(&mut story), Some(next));
}
