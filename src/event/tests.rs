use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;

use super::body::{self, Body as _, Cause, WorkRejected};
use super::*;

fn stored(event_type: EventType, metadata: Value) -> Event {
    Event {
        id: 1,
        timestamp: Time::from_millis(0),
        event_type,
        actor_id: "ann".into(),
        target_type: TargetType::Change,
        target_id: "c1".into(),
        change_id: None,
        summary: "no".into(),
        metadata,
    }
}

/// An INSERT by a person has no metadata, other programs add keys, and anyone makes mistakes.
#[test]
fn every_object_can_be_read() {
    let read = |metadata| {
        stored(EventType::WorkRejected, metadata)
            .body::<WorkRejected>()
            .unwrap()
    };
    assert_eq!(read(json!({})), WorkRejected::default());
    assert_eq!(read(json!({ "color": "red" })), WorkRejected::default());
    let odd =
        json!({ "findings": "none", "body": 3, "begins_round": "yes", "head": "ab", "gate": [] });
    let odd = read(odd);
    assert_eq!((odd.head.as_deref(), odd.body.as_str()), (Some("ab"), ""));
    assert_eq!((odd.findings.len(), odd.begins_round), (0, None));
    let findings = read(json!({ "findings": [
        "a text", { "description": "no bound", "line": "12", "severity": "high" }, { "text": "leaks", "color": 1 },
    ] }));
    let texts: Vec<&str> = findings
        .findings
        .iter()
        .map(|one| one.text.as_str())
        .collect();
    assert_eq!(texts, ["\"a text\"", "no bound", "leaks"]);
    assert_eq!(findings.findings[1].line, None);
}

#[test]
fn a_body_of_another_type_is_not_read() {
    assert!(
        stored(EventType::Held, json!({}))
            .body::<WorkRejected>()
            .is_none()
    );
}

#[test]
fn a_body_is_read_back_as_it_was_written() {
    let moved = body::StateChanged {
        from: None,
        to: Some(crate::change::State::Queued),
        on: Some(Cause::Entered),
    };
    let new = NewEvent::new(moved.clone(), "x");
    assert_eq!(
        new.metadata,
        json!({ "from": null, "to": "queued", "on": "entered" })
    );
    assert_eq!(stored(new.event_type, new.metadata).body(), Some(moved));
}

/// `schema.sql` and `docs/json.md` list the keys of every event type; both follow the structs.
#[test]
fn the_documents_list_exactly_the_keys_of_each_event() {
    let schema = listed_in_schema(include_str!("../../schema.sql"));
    let json = listed_in_table(include_str!("../../docs/json.md"));
    for (name, documented) in [("schema.sql", schema), ("docs/json.md", json)] {
        let expected: Vec<(String, Vec<String>)> = body::KEYS
            .iter()
            .map(|(event_type, keys)| {
                let keys = keys
                    .iter()
                    .map(|key| key.trim_start_matches("r#").to_owned());
                (event_type.to_string(), keys.collect())
            })
            .collect();
        assert_eq!(documented, expected, "{name}");
        assert_eq!(documented.len(), EventType::ALL.len(), "{name}");
    }
    assert_eq!(WorkRejected::TYPE, EventType::WorkRejected);
}

/// A key that is renamed in a struct would be missing from the results of a query without an error.
#[test]
fn queries_read_only_keys_that_exist() {
    let known: BTreeSet<&str> = body::KEYS
        .iter()
        .flat_map(|(_, keys)| keys.iter())
        .map(|key| key.trim_start_matches("r#"))
        // Of items.
        .chain(["evaluator"])
        .collect();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/blackboard")];
    let mut read = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for after in text.split("metadata ->> '").skip(1) {
                let key = after.split('\'').next().unwrap();
                let key = key.trim_start_matches("$.");
                assert!(known.contains(key), "{}: {key}", path.display());
                read += 1;
            }
        }
    }
    assert!(read > 10, "{read}");
}

#[cfg(feature = "failpoints")]
#[test]
fn sentences_are_in_known_keys() {
    for (event_type, paths) in body::PROSE {
        let (_, keys) = body::KEYS
            .iter()
            .find(|(known, _)| known == event_type)
            .unwrap();
        for path in *paths {
            let key = path.split('.').next().unwrap();
            assert!(keys.contains(&key), "{event_type}: {path}");
        }
    }
}

/// Parses lines like `--   work_failed        {item_id, source, wip?}   remark`, which may continue
/// on the next line.
fn listed_in_schema(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut is_open = false;
    for line in text.lines().filter_map(|line| line.strip_prefix("--   ")) {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim_start();
        let keys = match rest.strip_prefix('{') {
            Some(keys) if name.parse::<EventType>().is_ok() => {
                found.push((name.to_owned(), Vec::new()));
                keys
            }
            _ if is_open => line,
            _ => continue,
        };
        is_open = !keys.contains('}');
        let keys = keys.split('}').next().unwrap_or_default().split(',');
        let keys = keys.map(|key| key.trim().trim_end_matches('?').to_owned());
        if let Some((_, all)) = found.last_mut() {
            all.extend(keys.filter(|key| !key.is_empty()));
        }
    }
    found
}

/// Parses rows like ``| `work_failed` | `item_id source wip?` |``.
fn listed_in_table(text: &str) -> Vec<(String, Vec<String>)> {
    let rows = text.lines().filter_map(|line| {
        let (name, keys) = line.strip_prefix("| `")?.split_once("` | `")?;
        name.parse::<EventType>().ok()?;
        let keys = keys.trim_end_matches("` |").split(' ');
        let keys = keys.map(|key| key.trim_end_matches('?').to_owned());
        Some((name.to_owned(), keys.collect()))
    });
    rows.collect()
}
