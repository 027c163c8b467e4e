//! Cases for upkeep: contents of the files of reviews, and worktrees of ended changes.

use super::story::{Story, finding};
use crate::blackboard as bb;
use crate::change::{ChangeId, State};
use crate::event::{EventType, NewEvent, body};
use crate::finding::{Outcome, ReviewId, Verdict};
use crate::state::Trigger;

fn finding_texts(story: &mut Story, review: &str) -> Vec<(String, Outcome)> {
    let id = ReviewId::new(review);
    let report = story.engine.read(|conn| bb::review_report(conn, &id));
    let findings = report.findings.into_iter();
    findings
        .map(|one| (one.finding.text, one.outcome))
        .collect()
}

#[test]
fn a_report_has_the_findings_of_its_review_with_their_present_outcomes() {
    let mut story = Story::begin();
    let id = story.change().change_id;
    assert_eq!(story.engine.read(bb::reviews_written), None);
    let begin = story.engine.read(bb::newest_event);
    assert_eq!(
        story.engine.read(|conn| bb::reviewed_since(conn, 0)),
        [],
        "not reviewed yet"
    );
    story.review(
        Verdict::ChangesRequested,
        &[finding("a.rs", "it is lost"), finding("b.rs", "it is slow")],
    );
    story.beat();
    story.fix();
    let raised = finding("b.rs", "it is slow");
    story.review(Verdict::ChangesRequested, &[raised]);
    let first = [
        ("it is lost".to_owned(), Outcome::Addressed),
        ("it is slow".to_owned(), Outcome::Open),
    ];
    let texts: Vec<_> = finding_texts(&mut story, "v1");
    assert_eq!(texts[1], first[1]);
    assert_eq!(texts[0].0, first[0].0);
    assert_ne!(texts[0].1, Outcome::Waived);
    assert_eq!(finding_texts(&mut story, "v2"), first[1..]);
    let other = story.change().change_id;
    story.review(Verdict::Approved, &[]);
    let all = story.engine.read(bb::numbered_reviews);
    let mut numbers: Vec<_> = all
        .iter()
        .map(|one| (one.change_id.as_str(), one.number, one.review_id.as_str()))
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [("c1", 1, "v1"), ("c1", 2, "v2"), ("c2", 1, "v3")]);
    let of_first = story.engine.read(|conn| bb::numbered_reviews_of(conn, &id));
    assert_eq!(of_first.len(), 2);
    let changed = |story: &mut Story, since: i64| {
        let mut ids = story.engine.read(|conn| bb::reviewed_since(conn, since));
        ids.sort();
        ids
    };
    assert_eq!(changed(&mut story, begin), [id.clone(), other]);
    let now = story.engine.read(bb::newest_event);
    assert_eq!(changed(&mut story, now), [] as [ChangeId; 0]);
    for event in [now, begin] {
        story
            .step(|conn, _| bb::set_reviews_written(conn, event))
            .unwrap();
        assert_eq!(story.engine.read(bb::reviews_written), Some(now));
    }
    story.check();
}

#[test]
fn an_ended_change_has_the_time_of_its_end_until_it_is_reopened() {
    let mut story = Story::begin();
    let id = story.change().change_id;
    assert_eq!(story.at(&id).completed_at, None);
    let advance = |story: &mut Story, trigger| {
        story
            .step(|conn, now| bb::advance(conn, &id, trigger, "ann", now))
            .unwrap()
    };
    let closed = advance(&mut story, Trigger::Closed);
    assert_eq!(closed.completed_at, Some(closed.updated_at));
    let again = advance(&mut story, Trigger::Reopened);
    assert_eq!(again.completed_at, None);
    let merged = advance(&mut story, Trigger::Merged);
    assert_eq!(merged.state, State::Merged);
    assert!(merged.completed_at > closed.completed_at);
}

#[test]
fn a_worktree_is_removed_once_and_only_if_nothing_uses_it() {
    let mut story = Story::begin();
    let id = story.task(|_| {}).unwrap().change_id;
    story.implement();
    let live = story.at(&id);
    let worktree = live.worktree.clone();
    let begin = |story: &mut Story| {
        let change = story.at(&id);
        story
            .step(|conn, _| bb::begin_removal(conn, &change))
            .unwrap()
    };
    let ended = |story: &mut Story| {
        let all = story.engine.read(bb::ended_worktrees);
        all.into_iter().map(|one| one.change_id).collect::<Vec<_>>()
    };
    assert!(!begin(&mut story), "it is live");
    assert_eq!(ended(&mut story), [] as [ChangeId; 0]);
    story
        .step(|conn, now| bb::cancel_change(conn, &id, None, "ann", now))
        .unwrap();
    assert_eq!(ended(&mut story), std::slice::from_ref(&id));
    let others = story.engine.read(|conn| bb::changes_at(conn, &worktree));
    assert_eq!(others.len(), 1);
    let is_busy = story
        .engine
        .read(|conn| bb::is_worktree_busy(conn, &worktree));
    assert!(!is_busy);
    assert!(begin(&mut story));
    assert_eq!(story.at(&id).setup_done.as_deref(), Some(bb::REMOVING));
    story.step(|conn, _| bb::end_removal(conn, &id)).unwrap();
    assert_eq!(story.at(&id).setup_done.as_deref(), Some(""));
    let removed = NewEvent::about(&id, body::WorktreeRemoved::default(), "removed");
    story
        .step(|conn, now| bb::worktree_removed(conn, &worktree, Some(&removed), now))
        .unwrap();
    assert_eq!(ended(&mut story), [] as [ChangeId; 0]);
    let events = story.events(&id, EventType::WorktreeRemoved);
    assert_eq!(events.len(), 1);
    story.check();
}
