//! Cases for events: appended, read back, never changed.

use serde_json::json;

use super::engine::Forbidden;
use super::story::Story;
use crate::blackboard::{self as bb, BoardError};
use crate::event::{EventType, NewEvent, TargetType};

#[test]
fn an_event_is_read_back_as_it_was_appended() {
    let mut story = Story::begin();
    let change = story.change();
    let told = NewEvent {
        metadata: json!({ "reason": "é\n\"", "n": 1 }),
        ..NewEvent::about(&change.change_id, EventType::Skipped, "nothing → to do")
            .by("ann")
            .on(TargetType::Run, "r9")
    };
    let id = story
        .step(|conn, now| bb::append(conn, &told, now))
        .unwrap();
    let now = story.now();
    let read = story.engine.read(|conn| bb::event(conn, id));
    assert_eq!((read.id, read.timestamp), (id, now));
    let back = NewEvent {
        event_type: read.event_type,
        actor: read.actor_id,
        target_type: read.target_type,
        target_id: read.target_id,
        change_id: read.change_id,
        summary: read.summary,
        metadata: read.metadata,
    };
    assert_eq!(back, told);
    let missing = story
        .engine
        .write(|conn| bb::event(conn, id + 1_000))
        .unwrap_err();
    assert!(
        matches!(missing, BoardError::NotFound { kind: "event", .. }),
        "{missing}"
    );
}

#[test]
fn events_since_is_in_order_and_paged() {
    let mut story = Story::begin();
    let change = story.change();
    let before = story.engine.read(bb::newest_event);
    let ids: Vec<i64> = (0..5)
        .map(|_| story.reject(&change.change_id, &json!({})))
        .collect();
    let page = story.engine.read(|conn| bb::events_since(conn, before, 3));
    assert_eq!(
        page.iter().map(|event| event.id).collect::<Vec<_>>(),
        ids[..3]
    );
    let rest = story
        .engine
        .read(|conn| bb::events_since(conn, ids[2], 100));
    assert_eq!(
        rest.iter().map(|event| event.id).collect::<Vec<_>>(),
        ids[3..]
    );
    assert_eq!(story.engine.read(bb::newest_event), ids[4]);
}

#[test]
fn a_hand_made_event_gets_its_defaults() {
    let mut story = Story::begin();
    let change = story.change();
    let id = story.engine.by_hand(
        "work_rejected",
        ("change", change.change_id.as_str()),
        "it never ends",
    );
    let event = story.engine.read(|conn| bb::event(conn, id));
    assert_eq!(event.actor_id, "operator");
    assert_eq!(event.change_id, None);
    assert_eq!(event.metadata, json!({}));
    assert!(event.timestamp > crate::clock::Time::parse("2026-01-01T00:00:00.000Z").unwrap());
}

#[test]
fn the_events_of_a_change_include_those_by_hand() {
    let mut story = Story::begin();
    let (one, other) = (story.change(), story.change());
    let item = story.open_items(&one.change_id).remove(0);
    let named = story
        .engine
        .by_hand("skipped", ("change", one.change_id.as_str()), "by name");
    let by_item = story.engine.by_hand(
        "work_rejected",
        ("work_item", item.item_id.as_str()),
        "by its item",
    );
    let others = story.engine.by_hand(
        "work_rejected",
        ("change", other.change_id.as_str()),
        "the other",
    );
    story.beat();
    let ids: Vec<i64> = story
        .engine
        .read(|conn| bb::events_of(conn, &one.change_id, 100))
        .iter()
        .map(|event| event.id)
        .collect();
    assert!(
        ids.contains(&named) && ids.contains(&by_item) && !ids.contains(&others),
        "{ids:?}"
    );
    assert!(ids.is_sorted());
    let newest = story
        .engine
        .read(|conn| bb::events_of(conn, &one.change_id, 2));
    assert_eq!(
        newest.iter().map(|event| event.id).collect::<Vec<_>>(),
        ids[ids.len() - 2..]
    );
    let about = story
        .engine
        .read(|conn| bb::events_about(conn, TargetType::WorkItem, item.item_id.as_str(), 100));
    assert!(about.iter().any(|event| event.id == by_item));
}

#[test]
fn events_are_never_changed_and_never_deleted() {
    let mut story = Story::begin();
    story.change();
    for forbidden in [
        Forbidden::ChangeAnEvent,
        Forbidden::DeleteAnEvent,
        Forbidden::UnknownEventType,
    ] {
        story.engine.refuses(forbidden);
    }
}

#[test]
fn the_newest_events_of_a_type_are_found() {
    let mut story = Story::begin();
    let change = story.change();
    let id = &change.change_id;
    for event_type in [EventType::Skipped, EventType::WorkApproved] {
        for text in ["first", "second"] {
            let event = NewEvent::about(id, event_type, text);
            story
                .step(|conn, now| bb::append(conn, &event, now))
                .unwrap();
        }
    }
    for event_type in [EventType::Skipped, EventType::WorkApproved] {
        let found = story
            .engine
            .read(|conn| bb::events_of_type(conn, id, event_type, 1));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].event_type, event_type);
        assert_eq!(found[0].summary, "second");
    }
}
