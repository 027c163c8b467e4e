//! Cases for proposals of evaluators, which are applied once.

use serde_json::json;

use super::engine::Forbidden;
use super::story::{EVALUATOR, Story, escalation, finding, no_round, proposal};
use crate::blackboard::{self as bb, BoardError};
use crate::change::{FinalVerdict, OnMaxCycles, State};
use crate::event::EventType;
use crate::finding::Verdict;
use crate::proposal::Proposal;
use crate::work::{Priority, RejectionId, RejectionState, ReviewFixMetadata, Source, Status};

#[test]
fn a_fix_that_is_proposed_twice_is_one_item() {
    let mut story = Story::begin();
    let change = story.change();
    story.review(Verdict::ChangesRequested, &[finding("a.rs", "x")]);
    story
        .step(|conn, now| bb::take_in(conn, &[EventType::WorkRejected], 0, now))
        .unwrap();
    let proposed = story
        .engine
        .read(|conn| proposal(conn, &change.change_id))
        .unwrap();
    assert!(
        story
            .step(|conn, now| bb::apply_proposal(
                conn,
                EVALUATOR,
                &change.change_id,
                &proposed,
                now
            ))
            .unwrap()
    );
    let image = story.engine.image();
    assert!(
        !story
            .step(|conn, now| bb::apply_proposal(
                conn,
                EVALUATOR,
                &change.change_id,
                &proposed,
                now
            ))
            .unwrap()
    );
    assert_eq!(
        story.engine.changed_since(&image),
        [] as [String; 0],
        "nothing is written the second time"
    );
    story.check();
}

#[test]
fn a_fix_that_was_proposed_late_cancelled_the_next_review() {
    let mut story = Story::begin();
    let change = story.change();
    story.reject(&change.change_id, &json!({}));
    story.review(Verdict::ChangesRequested, &[finding("a.rs", "x")]);
    story
        .step(|conn, now| bb::take_in(conn, &[EventType::WorkRejected], 0, now))
        .unwrap();
    let proposed = story
        .engine
        .read(|conn| proposal(conn, &change.change_id))
        .unwrap();
    story
        .step(|conn, now| bb::apply_proposal(conn, EVALUATOR, &change.change_id, &proposed, now))
        .unwrap();
    story.fix();
    let image = story.engine.image();
    assert!(
        !story
            .step(|conn, now| bb::apply_proposal(
                conn,
                EVALUATOR,
                &change.change_id,
                &proposed,
                now
            ))
            .unwrap()
    );
    assert_eq!(story.engine.changed_since(&image), [] as [String; 0]);
    story.check();
}

#[test]
fn a_bound_that_is_proposed_twice_is_reached_once() {
    for on_max_cycles in [OnMaxCycles::Escalate, OnMaxCycles::PrAnyway] {
        let mut story = Story::begin();
        let change = story.change_with(|new| {
            new.bounds.max_fix_cycles = 0;
            new.bounds.on_max_cycles = on_max_cycles;
        });
        story.review(Verdict::ChangesRequested, &[finding("a.rs", "x")]);
        story
            .step(|conn, now| bb::take_in(conn, &[EventType::WorkRejected], 0, now))
            .unwrap();
        let bound = Proposal::Bound(escalation());
        assert!(
            story
                .step(|conn, now| bb::apply_proposal(
                    conn,
                    EVALUATOR,
                    &change.change_id,
                    &bound,
                    now
                ))
                .unwrap()
        );
        let image = story.engine.image();
        assert!(
            !story
                .step(|conn, now| bb::apply_proposal(
                    conn,
                    EVALUATOR,
                    &change.change_id,
                    &bound,
                    now
                ))
                .unwrap()
        );
        assert_eq!(story.engine.changed_since(&image), [] as [String; 0]);
    }
}

#[test]
fn several_pending_rejections_go_into_one_fix() {
    let mut story = Story::begin();
    let change = story.change();
    story.review(Verdict::ChangesRequested, &[finding("a.rs", "x")]);
    story.reject(&change.change_id, &no_round());
    story.reject(&change.change_id, &no_round());
    story.beat();
    let fixes = story.open_items(&change.change_id);
    assert_eq!(fixes.len(), 1);
    let rejections = story.rejections(&change.change_id);
    assert_eq!(rejections.len(), 3);
    assert!(
        rejections
            .iter()
            .all(|r| r.state == RejectionState::InFix
                && r.item_id.as_ref() == Some(&fixes[0].item_id))
    );
    assert_eq!(
        fixes[0].rejection_id.as_ref(),
        Some(&rejections[2].rejection_id),
        "the newest determines the key"
    );
    assert_eq!(fixes[0].source, Source::ReviewFix);
    assert_eq!(fixes[0].priority, Priority::P1);
    assert_eq!(story.at(&change.change_id).state, State::Refining);
    let metadata: ReviewFixMetadata = serde_json::from_value(fixes[0].metadata.clone()).unwrap();
    assert_eq!((metadata.fix_cycle, metadata.max_fix_cycles), (0, 2));
    let created = story.events(&change.change_id, EventType::FixCreated);
    assert_eq!(
        created[0].metadata["rejections"].as_array().unwrap().len(),
        3
    );
    story.check();
}

#[test]
fn creating_a_fix_cancels_the_open_review_of_that_head() {
    let mut story = Story::begin();
    let change = story.change_with(|new| new.state = State::AwaitingPrFeedback);
    story.engine.with_pr(42);
    story.reject(&change.change_id, &json!({}));
    story.beat();
    let after = story.at(&change.change_id);
    assert_eq!(after.state, State::AddressingFeedback);
    let items = story.items(&change.change_id);
    assert_eq!(
        (items[0].source, items[0].status),
        (Source::CodeReview, Status::Cancelled)
    );
    assert_eq!(
        (items[1].source, items[1].status),
        (Source::ReviewFix, Status::Available)
    );
    story.check();
}

#[test]
fn a_second_open_fix_of_a_change_is_refused() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let second = Proposal::Fix {
        rejections: vec![RejectionId::new("j999")],
        begins_round: false,
    };
    let image = story.engine.image();
    let refused = story
        .step(|conn, now| bb::apply_proposal(conn, EVALUATOR, &change.change_id, &second, now))
        .unwrap_err();
    assert!(matches!(refused, BoardError::Sqlite(_)), "{refused}");
    assert_eq!(story.engine.changed_since(&image), [] as [String; 0]);
}

#[test]
fn a_person_begins_a_round_and_the_life_goes_on() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    story.fix();
    assert_eq!(story.at(&change.change_id).budget.fix_cycle, 1);
    story.review(Verdict::Approved, &[]);
    story.engine.by_hand(
        "work_rejected",
        ("change", change.change_id.as_str()),
        "one more thing",
    );
    story.beat();
    let after = story.at(&change.change_id);
    assert_eq!((after.budget.fix_cycle, after.budget.total_fixes), (0, 1));
    assert_eq!(after.state, State::Refining);
    story.fix();
    let after = story.at(&change.change_id);
    assert_eq!((after.budget.fix_cycle, after.budget.total_fixes), (1, 2));
    story.check();
}

#[test]
fn the_bound_hands_the_change_to_a_person() {
    let mut story = Story::begin();
    let change = story.change_at_its_bound();
    assert_eq!(
        (change.state, change.escalated_from),
        (State::Escalated, Some(State::SelfReviewFailed))
    );
    assert!(change.human_review_required);
    assert_eq!(change.decision.as_deref(), Some("accept it or go on"));
    assert_eq!(change.final_verdict, Some(FinalVerdict::MaxCyclesReached));
    assert_eq!(story.open_items(&change.change_id), []);
    assert_eq!(
        story.rejection_states(&change.change_id),
        [RejectionState::Fixed, RejectionState::Escalated]
    );
    assert_eq!(
        story.events(&change.change_id, EventType::Escalated).len(),
        1
    );
    story.check();
}

#[test]
fn the_bound_goes_on_to_the_next_stage_where_the_change_says_so() {
    let mut story = Story::begin();
    let change = story.change_with(|new| {
        new.bounds.max_fix_cycles = 0;
        new.bounds.on_max_cycles = OnMaxCycles::PrAnyway;
    });
    story.review(Verdict::ChangesRequested, &[finding("a.rs", "x")]);
    story.beat();
    let after = story.at(&change.change_id);
    assert_eq!(after.state, State::ReadyForHumanReview);
    assert_eq!(after.final_verdict, Some(FinalVerdict::MaxCyclesReached));
    assert!(!after.human_review_required);
    assert_eq!(
        story.rejection_states(&change.change_id),
        [RejectionState::Skipped]
    );
    assert_eq!(
        story.events(&change.change_id, EventType::Escalated).len(),
        0
    );
    story.check();
}

#[test]
fn the_rejected_review_is_marked_for_a_person_too() {
    let mut story = Story::begin();
    let change = story.change_with(|new| new.bounds.max_fix_cycles = 0);
    story.review(Verdict::ChangesRequested, &[finding("a.rs", "x")]);
    story
        .step(|conn, now| bb::take_in(conn, &[EventType::WorkRejected], 0, now))
        .unwrap();
    let item = story.items(&change.change_id).remove(0);
    let mut escalation = escalation();
    escalation.rejected_item = Some(item.item_id.clone());
    let bound = Proposal::Bound(escalation);
    assert!(
        story
            .step(|conn, now| bb::apply_proposal(conn, EVALUATOR, &change.change_id, &bound, now))
            .unwrap()
    );
    let marked = story.engine.read(|conn| bb::item(conn, &item.item_id));
    assert_eq!(marked.metadata["human_review_required"], json!(true));
    assert_eq!(
        marked.metadata["branch"],
        json!(change.branch),
        "and nothing else of it is changed"
    );
}

#[test]
fn one_key_makes_one_item_and_takes_one_id() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    story.fix();
    let before = story.items(&change.change_id).len();
    let image = story.engine.image();
    let key = format!("code_review:{}:{}", change.change_id, change.head);
    let again = story.step(|conn, now| {
        let change = bb::change(conn, &change.change_id)?;
        bb::insert_item(conn, &change, &bb::review_item(&change, key, "tester"), now)
    });
    assert_eq!(again.unwrap(), None);
    assert_eq!(story.items(&change.change_id).len(), before);
    assert_eq!(story.engine.changed_since(&image), [] as [String; 0]);
}

#[test]
fn a_change_cannot_have_more_fixes_than_it_may() {
    let mut story = Story::begin();
    story.change();
    story.engine.refuses(Forbidden::MoreFixesInARound);
    story.engine.refuses(Forbidden::MoreFixesInALife);
}
