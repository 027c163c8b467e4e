//! Cases for evaluators: their input, their requests, their errors, and implausible deadlines.

use std::time::Duration;

use super::pulls::adopted;
use super::story::{Story, escalation};
use crate::blackboard::{self as bb, BoardError, Hold, Latest, Looked};
use crate::change::{HoldKind, ProjectId, State};
use crate::event::EventType;
use crate::proposal::{EvaluatorRequest, RequestKind};
use crate::work::{Priority, RejectionState, Source};

const NAME: &str = "lint";

fn ask(story: &mut Story, key: &str, what: RequestKind) -> bool {
    let asked = EvaluatorRequest {
        key: key.into(),
        what,
    };
    story
        .step(|conn, now| bb::apply_request(conn, NAME, &asked, now))
        .unwrap()
}

#[test]
fn what_an_evaluator_asks_for_is_done_once() {
    let mut story = Story::begin();
    let change = story.change();
    let id = &change.change_id;
    let item = RequestKind::Item {
        change_id: None,
        project_id: Some(ProjectId::new("shop")),
        source: Source::Manual,
        priority: Priority::P3,
        title: "tidy".into(),
        description: "the whole of it".into(),
    };
    let reject = RequestKind::Reject {
        change_id: id.clone(),
        text: "no bound".into(),
    };
    for (key, what) in [("a", item), ("b", reject)] {
        assert!(ask(&mut story, key, what.clone()));
        assert!(!ask(&mut story, key, what));
    }
    assert_eq!(story.all_events(EventType::WorkRejected).len(), 1);
    let line = |story: &mut Story, text: &str| {
        story
            .step(|conn, now| bb::skip_line(conn, NAME, (3, text), "no JSON", now))
            .unwrap()
    };
    assert!(line(&mut story, "{"));
    assert!(!line(&mut story, "{"));
    let before = story.now().plus(Duration::from_secs(60));
    story.step(|conn, _| bb::forget_told(conn, before)).unwrap();
    assert!(line(&mut story, "{"), "it was forgotten");
    story.check();
}

#[test]
fn an_evaluator_is_shown_what_is_there() {
    let mut story = Story::begin();
    let change = adopted(&mut story);
    let now = story.now();
    story
        .step(|conn, now| bb::set_cursor(conn, NAME, 1, None, now))
        .unwrap();
    story.engine.read(|conn| {
        assert_eq!(bb::looks_after(conn, NAME)?, 1);
        assert!(bb::any_by_others(conn, EventType::PrAdopted, 0, NAME)?);
        let shown = bb::shown_events(conn, &[EventType::PrAdopted], 0, 10)?;
        assert_eq!(shown.len(), 1);
        assert_eq!(bb::live_changes(conn, 10)?[0].change_id, change.change_id);
        assert_eq!(bb::open_items(conn, 10)?.len(), 1);
        assert_eq!(bb::open_pulls(conn, 10)?.len(), 1);
        assert!(bb::any_read_due(conn, now)?);
        assert_eq!(bb::evaluator_rows(conn)?[0].name, NAME);
        Ok(())
    });
}

#[test]
fn an_evaluator_that_fails_is_told_once() {
    let mut story = Story::begin();
    for _ in 0..2 {
        let again = story.now().plus(Duration::from_secs(60));
        story
            .step(|conn, now| bb::count_trouble(conn, NAME, "status 1", again, now))
            .unwrap();
    }
    let known = story.engine.read(|conn| bb::trouble_of(conn, NAME));
    assert_eq!(known.as_ref().map(|known| known.failures), Some(2));
    assert_eq!(story.engine.read(bb::troubles), Vec::from_iter(known));
    assert_eq!(story.all_events(EventType::Skipped).len(), 1);
    for is_over in [true, false] {
        let ended = story.step(|conn, now| bb::end_trouble(conn, NAME, now));
        assert_eq!(ended.unwrap(), is_over);
    }
}

#[test]
fn deadlines_that_a_wrong_clock_stored_are_due_now() {
    let mut story = Story::begin();
    let change = adopted(&mut story);
    let id = &change.change_id;
    let far = story.now().plus(Duration::from_secs(400 * 24 * 3_600));
    let claimed = story.claim();
    let other = story.change();
    let held = story.claim();
    assert_eq!(held.change.change_id, other.change_id);
    let hold = Hold {
        kind: HoldKind::Environment,
        reason: "no network".into(),
        until: far,
    };
    story
        .step(|conn, now| {
            let row = bb::pull_of_change(conn, id)?.unwrap();
            let failed = bb::FailedRead {
                reason: "503".into(),
                kind: crate::pull_request::ReadTrouble::Transient,
                next_read: far,
                holds: false,
            };
            bb::fail_read(conn, &row, &failed, now)?;
            let looked = Looked {
                trouble: None,
                next_read: far,
                marks: None,
            };
            bb::set_discovery(conn, &change.project_id, &looked, now)?;
            bb::count_trouble(conn, NAME, "status 1", far, now)?;
            bb::give_back(conn, &claimed.claim(), Some(far), now)?;
            bb::hold(conn, &held.claim(), &other.change_id, &hold, now)
        })
        .unwrap();
    assert!(story.engine.read(bb::latest_stored) <= Some(story.now()));
    let latest = |story: &Story| {
        let soon = story.now().plus(Duration::from_secs(3_600));
        Latest {
            read: soon,
            closed_read: soon,
            retry: soon,
            now: story.now(),
        }
    };
    let at = latest(&story);
    assert_eq!(
        story
            .step(|conn, _| bb::void_implausible(conn, &at))
            .unwrap(),
        5
    );
    assert_eq!(
        story.engine.read(|conn| bb::implausible(conn, &at)).len(),
        0
    );
    // The same for the deadline of a post.
    story
        .step(|conn, now| {
            bb::escalate(conn, id, &escalation(), now)?;
            let note = bb::open_posts(conn, now)?.remove(0);
            bb::put_off_post(conn, &note.key, "503", far)
        })
        .unwrap();
    let at = latest(&story);
    assert_eq!(
        story
            .step(|conn, _| bb::void_implausible(conn, &at))
            .unwrap(),
        1
    );
    story.check();
}

#[test]
fn what_cannot_go_on_is_set_aside() {
    let mut story = Story::begin();
    let change = story.change();
    let id = &change.change_id;
    story.reject(id, &serde_json::json!({}));
    story
        .step(|conn, now| bb::take_in(conn, &[EventType::WorkRejected], 0, now))
        .unwrap();
    let refused = BoardError::Refused {
        what: "no luck".into(),
        hint: None,
    };
    for _ in 0..2 {
        story
            .step(|conn, now| bb::set_aside(conn, id, &refused, now))
            .unwrap();
    }
    assert_eq!(story.at(id).state, State::Escalated);
    assert_eq!(story.rejection_states(id), [RejectionState::Escalated]);
    story.check();
}
