//! Cases for pauses, set by a person, and holds, caused by the environment: available items are
//! blocked, running ones may finish.

use std::time::Duration;

use super::story::{Story, finding, fix_done};
use crate::blackboard::forge::outbox::intend;
use crate::blackboard::{self as bb, Hold, NewIntent};
use crate::change::{Change, HoldKind, State};
use crate::event::EventType;
use crate::finding::Verdict;
use crate::intent::{Note, Payload};
use crate::work::Status;

fn hold(story: &mut Story, seconds: u64) -> (Change, crate::clock::Time) {
    let claimed = story.claim();
    let until = story.now().plus(Duration::from_secs(seconds));
    let hold = Hold {
        kind: HoldKind::Environment,
        reason: "no network".into(),
        until,
    };
    let id = claimed.change.change_id.clone();
    story
        .step(|conn, now| bb::hold(conn, &claimed.claim(), &id, &hold, now))
        .unwrap();
    (story.at(&id), until)
}

#[test]
fn a_hold_spends_nothing_and_ends_by_itself() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let (held, until) = hold(&mut story, 60);
    assert_eq!(
        (held.held_until, held.hold_reason.as_deref()),
        (Some(until), Some("no network"))
    );
    assert_eq!((held.state, held.holds), (State::Refining, 1));
    let item = story.open_items(&change.change_id).remove(0);
    assert_eq!((item.status, item.attempt), (Status::Blocked, 0));
    assert_eq!(story.engine.read(bb::next_moment), Some(until));
    assert!(story.try_claim().is_none());
    assert_eq!(story.step(bb::resume_due).unwrap(), []);
    let now = story.now();
    assert!(
        !story
            .engine
            .read(|conn| bb::anything_held_is_due(conn, now))
    );
    story.pass(Duration::from_secs(60));
    let now = story.now();
    assert!(
        story
            .engine
            .read(|conn| bb::anything_held_is_due(conn, now))
    );
    assert_eq!(story.step(bb::resume_due).unwrap().len(), 1);
    assert_eq!(story.step(bb::resume_due).unwrap(), []);
    let resumed = story.at(&change.change_id);
    assert_eq!(
        (resumed.held_until, resumed.hold_reason, resumed.holds),
        (None, None, 1)
    );
    assert_eq!(story.events(&change.change_id, EventType::Held).len(), 1);
    assert_eq!(story.events(&change.change_id, EventType::Resumed).len(), 1);
    let again = story.claim();
    assert_eq!((again.item.epoch, again.item.attempt), (2, 1));
    story.check();
}

#[test]
fn holds_in_a_row_are_counted_until_something_goes_well() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    for n in 1..=3 {
        assert_eq!(hold(&mut story, 10).0.holds, n);
        story.pass(Duration::from_secs(10));
        story.step(bb::resume_due).unwrap();
    }
    story.fix();
    assert_eq!(story.at(&change.change_id).holds, 0);
    hold(&mut story, 10);
    story.pass(Duration::from_secs(10));
    story.step(bb::resume_due).unwrap();
    story.review(Verdict::Approved, &[]);
    assert_eq!(story.at(&change.change_id).holds, 0);
    story.check();
}

#[test]
fn a_pause_blocks_what_waits_and_what_comes() {
    let mut story = Story::begin();
    let change = story.change();
    let id = &change.change_id;
    let claimed = story.claim();
    story
        .step(|conn, now| bb::pause(conn, id, Some("let me look"), "ann", now))
        .unwrap();
    story
        .step(|conn, now| bb::pause(conn, id, None, "ann", now))
        .unwrap();
    assert_eq!(
        story.events(id, EventType::Instructed).len(),
        1,
        "pausing twice appends one event"
    );
    assert_eq!(
        story.statuses(id),
        [Status::Claimed],
        "a running item may finish"
    );
    let done = super::story::review_done(
        &change.head,
        Verdict::ChangesRequested,
        &[finding("a.rs", "x")],
    );
    story
        .step(|conn, now| bb::finish_review(conn, &claimed.claim(), &done, now))
        .unwrap();
    story.beat();
    assert_eq!(story.statuses(id), [Status::Completed, Status::Blocked]);
    assert!(story.try_claim().is_none());
    story.check();
    let after = story
        .step(|conn, now| bb::resume(conn, id, "ann", now))
        .unwrap();
    assert!(!after.paused);
    assert_eq!(story.fix().state, State::PendingSelfReview);
    story.check();
}

#[test]
fn what_a_fix_leaves_on_a_paused_change_waits_too() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let id = &change.change_id;
    let claimed = story.claim();
    story
        .step(|conn, now| bb::pause(conn, id, None, "ann", now))
        .unwrap();
    story
        .step(|conn, now| bb::finish_fix(conn, &claimed.claim(), &fix_done(&change.head), now))
        .unwrap();
    let review = story.open_items(id).remove(0);
    assert_eq!(review.status, Status::Blocked);
    story
        .step(|conn, now| bb::resume(conn, id, "ann", now))
        .unwrap();
    assert_eq!(story.claim().item.item_id, review.item_id);
}

#[test]
fn a_given_back_item_of_a_paused_change_is_blocked() {
    let mut story = Story::begin();
    let change = story.change();
    let claimed = story.claim();
    story
        .step(|conn, now| bb::pause(conn, &change.change_id, None, "ann", now))
        .unwrap();
    story
        .step(|conn, now| bb::give_back(conn, &claimed.claim(), None, now))
        .unwrap();
    assert_eq!(story.statuses(&change.change_id), [Status::Blocked]);
    story.check();
}

#[test]
fn a_hold_that_ends_does_not_end_a_pause() {
    let mut story = Story::begin();
    let change = story.change();
    let id = &change.change_id;
    hold(&mut story, 10);
    story
        .step(|conn, now| bb::pause(conn, id, None, "ann", now))
        .unwrap();
    story.pass(Duration::from_secs(10));
    story.step(bb::resume_due).unwrap();
    assert_eq!(story.statuses(id), [Status::Blocked]);
    assert!(story.try_claim().is_none());
    story
        .step(|conn, now| bb::resume(conn, id, "ann", now))
        .unwrap();
    story.claim();
}

#[test]
fn a_person_who_says_go_on_ends_a_hold_too() {
    let mut story = Story::begin();
    let change = story.change();
    let id = &change.change_id;
    hold(&mut story, 3_600);
    story
        .step(|conn, now| bb::pause(conn, id, None, "ann", now))
        .unwrap();
    let after = story
        .step(|conn, now| bb::resume(conn, id, "ann", now))
        .unwrap();
    assert_eq!((after.paused, after.held_until), (false, None));
    assert_eq!(story.engine.read(bb::next_moment), None);
    story.claim();
    story.check();
}

#[test]
fn a_delayed_item_keeps_its_time_through_a_pause() {
    let mut story = Story::begin();
    let change = story.change();
    let claimed = story.claim();
    let due = story.now().plus(Duration::from_secs(600));
    story
        .step(|conn, now| bb::give_back(conn, &claimed.claim(), Some(due), now))
        .unwrap();
    story
        .step(|conn, now| bb::pause(conn, &change.change_id, None, "ann", now))
        .unwrap();
    assert_eq!(
        story.engine.read(bb::next_moment),
        None,
        "a blocked item does not become due"
    );
    story
        .step(|conn, now| bb::resume(conn, &change.change_id, "ann", now))
        .unwrap();
    assert_eq!(story.engine.read(bb::next_moment), Some(due));
    assert!(story.try_claim().is_none());
}

#[test]
fn the_next_moment_is_the_earliest_of_all() {
    let mut story = Story::begin();
    assert_eq!(story.engine.read(bb::next_moment), None);
    let scheduled = story.now().plus(Duration::from_secs(5));
    story
        .step(|conn, now| bb::set_cursor(conn, "nightly", 0, Some(scheduled), now))
        .unwrap();
    assert_eq!(
        story.engine.read(bb::next_moment),
        None,
        "a schedule makes no item due"
    );
    story.change();
    let (_, until) = hold(&mut story, 1_000);
    assert_eq!(story.engine.read(bb::next_moment), Some(until));
    story.change();
    let claimed = story.claim();
    let due = story.now().plus(Duration::from_secs(10));
    story
        .step(|conn, now| bb::give_back(conn, &claimed.claim(), Some(due), now))
        .unwrap();
    assert_eq!(story.engine.read(bb::next_moment), Some(due));
}

#[test]
fn an_end_by_a_person_ends_the_hold() {
    let mut story = Story::begin();
    let change = story.change();
    hold(&mut story, 3_600);
    let id = &change.change_id;
    let after = story
        .step(|conn, now| bb::approve_by_person(conn, id, "ann", now))
        .unwrap();
    assert_eq!((after.state, after.held_until), (State::Approved, None));
    assert_eq!(story.engine.read(bb::next_moment), None);
    story.check();
}

#[test]
fn what_a_paused_or_held_change_has_to_post_keeps_nobody_awake() {
    let mut story = Story::begin();
    let (free, paused) = (story.change().change_id, story.change().change_id);
    let early = story.now();
    let late = early.plus(Duration::from_secs(3_600));
    for (id, not_before) in [(&free, late), (&paused, early)] {
        let note = NewIntent {
            key: format!("note:{id}"),
            change_id: id.clone(),
            payload: Payload::Note(Note::Escalated { kind: None }),
            epoch: 0,
        };
        story.step(|conn, now| intend(conn, &note, now)).unwrap();
        story
            .step(|conn, _| bb::put_off_post(conn, &note.key, "no network", not_before))
            .unwrap();
    }
    assert_eq!(story.engine.read(bb::next_post), Some(early));
    story
        .step(|conn, now| bb::pause(conn, &paused, None, "ann", now))
        .unwrap();
    assert_eq!(story.engine.read(bb::next_post), Some(late));
    story
        .step(|conn, now| bb::resume(conn, &paused, "ann", now))
        .unwrap();
    assert_eq!(story.engine.read(bb::next_post), Some(early));
    for _ in [&free, &paused] {
        hold(&mut story, 60);
    }
    assert_eq!(
        story.engine.read(bb::next_post),
        None,
        "the next due time is the end of the hold"
    );
}
