//! Cases for claims, the right to run an item: in order, one per worktree, for a limited time.

use std::time::Duration;

use super::engine::Forbidden;
use super::story::{LEASE, Story, holding};
use crate::blackboard::{self as bb, BoardError, Claimed, NewItem};
use crate::change::{Change, State};
use crate::event::EventType;
use crate::work::{Priority, Source, Status};

fn queue(story: &mut Story, change: &Change, source: Source, priority: Priority, key: &str) {
    let new = NewItem {
        rejection_id: None,
        title: key.into(),
        source,
        priority,
        idempotency_key: key.into(),
        fix_cycle: 0,
        metadata: serde_json::json!({}),
        actor: "tester".into(),
    };
    story
        .engine
        .write(|conn| bb::insert_item(conn, change, &new, crate::clock::Time::from_millis(0)))
        .unwrap();
}

fn bare(story: &mut Story) -> Change {
    let n = story
        .engine
        .read(|conn| bb::board(conn, bb::Show::All, 1_000))
        .len()
        + 1;
    story
        .step(|conn, now| bb::insert_change(conn, &super::story::new_change(n), now))
        .unwrap()
}

#[test]
fn claims_come_by_priority_then_age_then_id() {
    let mut story = Story::begin();
    let old = story.change();
    let (low, first, second, urgent) = (
        bare(&mut story),
        bare(&mut story),
        bare(&mut story),
        bare(&mut story),
    );
    queue(&mut story, &low, Source::CodeReview, Priority::P3, "low");
    queue(
        &mut story,
        &first,
        Source::CodeReview,
        Priority::P2,
        "first",
    );
    queue(
        &mut story,
        &second,
        Source::CodeReview,
        Priority::P2,
        "second",
    );
    queue(
        &mut story,
        &urgent,
        Source::CodeReview,
        Priority::P1,
        "urgent",
    );
    let order: Vec<_> = (0..5).map(|_| story.claim().change.change_id).collect();
    assert_eq!(
        order,
        [urgent, first, second, old, low].map(|change| change.change_id)
    );
    assert!(story.try_claim().is_none());
    story.check();
}

#[test]
fn a_fix_comes_before_an_older_review() {
    let mut story = Story::begin();
    let fixed = story.change_with_fix();
    story.change();
    assert_eq!(story.claim().change.change_id, fixed.change_id);
}

#[test]
fn a_claim_moves_the_change_and_says_so() {
    let mut story = Story::begin();
    let change = story.change();
    let claimed = story.claim();
    assert_eq!(claimed.change.state, State::SelfReviewing);
    assert_eq!((claimed.item.epoch, claimed.item.attempt), (1, 1));
    assert_eq!(claimed.item.claimed_by.as_deref(), Some("us"));
    assert_eq!(claimed.item.lease_expires_at, Some(story.now().plus(LEASE)));
    let told = story.events(&change.change_id, EventType::WorkClaimed);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].metadata["epoch"], 1);
}

#[test]
fn never_two_in_one_worktree() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let claimed = story.claim();
    queue(
        &mut story,
        &change,
        Source::CodeReview,
        Priority::P1,
        "beside",
    );
    assert!(
        story.try_claim().is_none(),
        "the other one waits for {}",
        claimed.item.item_id
    );
    story.engine.refuses(Forbidden::ClaimAllAtOnce);
    story
        .step(|conn, now| bb::give_back(conn, &claimed.claim(), None, now))
        .unwrap();
    assert!(story.try_claim().is_some());
}

#[test]
fn what_is_not_due_is_not_claimed_until_it_is() {
    let mut story = Story::begin();
    story.change();
    let claimed = story.claim();
    let due = story.now().plus(Duration::from_secs(600));
    story
        .step(|conn, now| bb::give_back(conn, &claimed.claim(), Some(due), now))
        .unwrap();
    assert!(story.try_claim().is_none());
    let now = story.now();
    assert!(!story.engine.read(|conn| bb::anything_ready(conn, now)));
    assert_eq!(story.engine.read(bb::next_moment), Some(due));
    assert_eq!(story.step(bb::ripen).unwrap(), 0);
    let now = story.pass(Duration::from_secs(600));
    assert!(story.engine.read(|conn| bb::anything_ready(conn, now)));
    let again = story.claim();
    assert_eq!(again.item.not_before, None);
    assert_eq!(
        (again.item.epoch, again.item.attempt),
        (2, 1),
        "the epoch is incremented, the attempt was not counted"
    );
    assert_eq!(
        again.change.state,
        State::SelfReviewing,
        "claiming again is not a transition"
    );
    assert_eq!(story.engine.read(bb::next_moment), None);
}

#[test]
fn an_item_that_its_change_has_no_use_for_does_not_stand_in_the_way() {
    let mut story = Story::begin();
    let change = story.change();
    story
        .step(|conn, now| bb::approve_by_person(conn, &change.change_id, "ann", now))
        .unwrap();
    queue(
        &mut story,
        &change,
        Source::CodeReview,
        Priority::P1,
        "too late",
    );
    let other = story.change();
    assert_eq!(story.claim().change.change_id, other.change_id);
    assert_eq!(
        story.statuses(&change.change_id),
        [Status::Cancelled, Status::Cancelled]
    );
    story.check();
}

#[test]
fn a_lease_is_renewed_by_its_holder_only() {
    let mut story = Story::begin();
    story.change();
    let claimed = story.claim();
    let claim = claimed.claim();
    story
        .step(|conn, now| bb::renew(conn, &claim, LEASE, now))
        .unwrap();
    let until = story.now().plus(LEASE);
    assert_eq!(
        story
            .engine
            .read(|conn| bb::item(conn, &claim.item_id))
            .lease_expires_at,
        Some(until)
    );
    story
        .step(|conn, now| bb::cancel_change(conn, &claimed.change.change_id, None, "ann", now))
        .unwrap();
    let late = story
        .step(|conn, now| bb::renew(conn, &claim, LEASE, now))
        .unwrap_err();
    assert!(matches!(late, BoardError::Stale { .. }), "{late}");
    let item = story.engine.read(|conn| bb::item(conn, &claim.item_id));
    assert_eq!(
        (item.status, item.epoch),
        (Status::Cancelled, 2),
        "cancelling increments the epoch"
    );
}

#[test]
fn what_the_dead_held_is_taken_once() {
    let mut story = Story::begin();
    story.change();
    let claimed: Claimed = story
        .step(|conn, now| bb::claim(conn, &holding("dead"), now))
        .unwrap()
        .unwrap();
    assert_eq!(
        story.engine.read(|conn| bb::foreign_claims(conn, "dead")),
        []
    );
    let found = story.engine.read(|conn| bb::foreign_claims(conn, "us"));
    assert_eq!(found, [(claimed.claim(), "dead".to_owned())]);
    let claim = claimed.claim();
    assert!(
        story
            .step(|conn, now| bb::take_from_dead(conn, &claim, now))
            .unwrap()
    );
    assert!(
        !story
            .step(|conn, now| bb::take_from_dead(conn, &claim, now))
            .unwrap()
    );
    let ours = story.claim();
    assert_eq!((ours.item.epoch, ours.item.attempt), (2, 1));
    assert!(
        !story
            .step(|conn, now| bb::take_from_dead(conn, &claim, now))
            .unwrap(),
        "and never from the next holder"
    );
    assert_eq!(
        story
            .engine
            .read(|conn| bb::item(conn, &claim.item_id))
            .claimed_by
            .as_deref(),
        Some("us")
    );
    story.check();
}

#[test]
fn runs_that_vanish_are_counted_in_a_row() {
    let mut story = Story::begin();
    story.change();
    let claim = story.claim().claim();
    assert_eq!(story.step(|conn, _| bb::lose_run(conn, &claim)).unwrap(), 1);
    assert_eq!(story.step(|conn, _| bb::lose_run(conn, &claim)).unwrap(), 2);
}

#[test]
fn items_of_sources_that_nobody_runs_are_left_alone_with_one_event() {
    let mut story = Story::begin();
    let change = bare(&mut story);
    let source = Source::FeedbackAnalysis;
    queue(&mut story, &change, source, Priority::P1, "an analysis");
    assert!(story.try_claim().is_none());
    assert!(story.engine.read(bb::any_unknown_source));
    assert_eq!(story.step(bb::skip_unknown_sources).unwrap(), 1);
    assert!(!story.engine.read(bb::any_unknown_source));
    assert_eq!(story.step(bb::skip_unknown_sources).unwrap(), 0);
    assert_eq!(story.events(&change.change_id, EventType::Skipped).len(), 1);
}
