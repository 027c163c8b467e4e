//! Cases for effects outside of remand: intended once, claimed by one process, ended once.

use std::time::Duration;

use super::pulls::{adopted, read, review};
use super::story::{Story, escalation};
use crate::blackboard::{self as bb, Intent, IntentKind, NewIntent};
use crate::change::Change;
use crate::event::EventType;
use crate::intent::{IntentResult, Payload, Push};
use crate::pull_request::{ReviewState, Trust};

/// Creates the note on the pull request that its change is waiting for a person.
fn noted(story: &mut Story) -> (Change, Intent) {
    let change = adopted(story);
    story
        .step(|conn, now| bb::escalate(conn, &change.change_id, &escalation(), now))
        .unwrap();
    let now = story.now();
    let mut open = story.engine.read(|conn| bb::open_posts(conn, now));
    assert_eq!(open.len(), 1);
    (change, open.remove(0))
}

fn posted(forge_id: &str) -> bb::PostDone {
    bb::PostDone {
        result: IntentResult::Done,
        forge_id: Some(forge_id.into()),
        url: None,
        summary: "the note was posted".into(),
    }
}

#[test]
fn a_post_has_one_holder_and_one_end() {
    let mut story = Story::begin();
    let (change, note) = noted(&mut story);
    let id = &change.change_id;
    let claim = |story: &mut Story, from: Option<&'static str>, holder: &'static str| {
        story
            .step(|conn, _| bb::claim_post(conn, &note.key, from, holder))
            .unwrap()
    };
    assert!(claim(&mut story, None, "us"));
    assert!(!claim(&mut story, None, "them"));
    assert!(claim(&mut story, Some("us"), "them"));
    let later = story.now().plus(Duration::from_secs(60));
    story
        .step(|conn, _| bb::put_off_post(conn, &note.key, "503", later))
        .unwrap();
    let now = story.now();
    story.engine.read(|conn| {
        assert_eq!(bb::open_posts(conn, now)?, []);
        assert_eq!(bb::next_post(conn)?, Some(later));
        assert_eq!(
            bb::waiting_posts(conn, id)?[0].trouble.as_deref(),
            Some("503")
        );
        Ok(())
    });
    // The post was read back before its result was stored.
    read(
        &mut story,
        &change,
        &[review(9, ReviewState::Commented, "it waits")],
    );
    for _ in 0..2 {
        story
            .step(|conn, now| bb::post_done(conn, &note, &posted("review:9"), now))
            .unwrap();
    }
    assert_eq!(story.events(id, EventType::Posted).len(), 1);
    story.engine.read(|conn| {
        let ours = bb::our_posts(conn, id)?;
        assert_eq!(ours.forge_ids, ["review:9"]);
        assert_eq!(ours.markers, [note.marker.clone().unwrap()]);
        assert_eq!(bb::said_of(conn, id)?[0].trust, Trust::Ours);
        assert_eq!(bb::reviews_on_pull(conn, id)?, []);
        assert_eq!(bb::intents_of(conn, id, IntentKind::Note)?.len(), 1);
        Ok(())
    });
    story.check();
}

#[test]
fn a_post_that_was_refused_is_tried_again_when_a_person_says_so() {
    let mut story = Story::begin();
    let (change, note) = noted(&mut story);
    let id = &change.change_id;
    story
        .step(|conn, now| bb::refused_post(conn, &note, "403", now))
        .unwrap();
    let refused = story.engine.read(|conn| bb::refused_posts(conn, id));
    assert_eq!(refused[0].key, note.key);
    assert_eq!(refused[0].result, Some(IntentResult::Refused));
    assert_eq!(
        story
            .step(|conn, now| bb::post(conn, id, "ann", now))
            .unwrap(),
        1
    );
    assert_eq!(story.engine.read(|conn| bb::refused_posts(conn, id)), []);
    story.check();
}

#[test]
fn a_push_without_an_end_is_found_when_its_item_is_over() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let claimed = story.claim();
    let push = NewIntent {
        key: "push:1".into(),
        change_id: change.change_id.clone(),
        payload: Payload::Push(Push {
            item_id: Some(claimed.item.item_id.clone()),
            ..Push::default()
        }),
        epoch: claimed.item.epoch,
    };
    let intended = story.step(|conn, now| bb::intend_push(conn, &claimed.claim(), &push, now));
    assert!(intended.unwrap());
    assert_eq!(story.engine.read(bb::orphaned_pushes), []);
    story.fail(&claimed.claim());
    assert_eq!(story.engine.read(bb::orphaned_pushes).len(), 1);
    story
        .step(|conn, now| {
            bb::end_intent(conn, "push:1", IntentResult::Done, None, now)?;
            bb::stop_fixing(conn, &change.change_id, &["push:1".into()], now)
        })
        .unwrap();
    let push = story
        .engine
        .read(|conn| bb::intent(conn, "push:1"))
        .unwrap();
    assert_eq!(push.result, Some(IntentResult::TakenBack));
    story.check();
}
