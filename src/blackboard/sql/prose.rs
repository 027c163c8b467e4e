//! Switch for tests: all text for people is stored as random words, so that a decision that depends
//! on wording becomes visible.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use serde_json::Value;

use super::value::Param;
use crate::event::NewEvent;
use crate::event::body::PROSE;
use crate::failpoint;

/// Names of the parameters that contain sentences. No code and no id is bound to any of these
/// names.
const NAMES: &[&str] = &[
    ":basis",
    ":decision",
    ":note",
    ":passed_over",
    ":reason",
    ":summary",
    ":trouble",
    ":trust_reason",
];

/// Returns the value to bind: random words in place of a sentence, otherwise the value itself.
pub(super) fn scrambled<'a>(sql: &str, name: &str, value: Param<'a>) -> Param<'a> {
    match value {
        Param::Text(text)
            if !text.is_empty()
                && NAMES.contains(&name)
                && is_write(sql)
                && failpoint::scrambles_prose() =>
        {
            Param::Text(random_words().into())
        }
        Param::Null | Param::Integer(_) | Param::Text(_) => value,
    }
}

/// Returns the event to append: with random words in place of the sentences in its metadata.
pub(in crate::blackboard) fn scrambled_event(event: &NewEvent) -> NewEvent {
    let mut event = event.clone();
    if failpoint::scrambles_prose() {
        let of_type = PROSE
            .iter()
            .filter(|(event_type, _)| *event_type == event.event_type);
        for path in of_type.flat_map(|(_, paths)| *paths) {
            scramble_at(&mut event.metadata, path);
        }
    }
    event
}

fn scramble_at(value: &mut Value, path: &str) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| scramble_at(item, path)),
        Value::Object(fields) => {
            let (key, rest) = path.split_once('.').unwrap_or((path, ""));
            if let Some(field) = fields.get_mut(key) {
                scramble_at(field, rest);
            }
        }
        Value::String(text) if path.is_empty() && !text.is_empty() => *text = random_words(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_write(sql: &str) -> bool {
    let verb = sql.split_whitespace().next().unwrap_or_default();
    ["INSERT", "UPDATE"].contains(&verb)
}

/// Returns three words of letters, never the same twice.
fn random_words() -> String {
    let words: Vec<String> = (0..3).map(|_| random_word()).collect();
    words.join(" ")
}

fn random_word() -> String {
    // Every `RandomState` has its own keys.
    let random = RandomState::new().build_hasher().finish();
    random
        .to_le_bytes()
        .iter()
        .map(|byte| char::from(b'a' + byte % 26))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_writes_are_scrambled() {
        assert!(is_write("UPDATE changes SET x = 1"));
        assert!(is_write("\n  INSERT INTO changes"));
        assert!(!is_write("SELECT 1"));
        assert_ne!(random_words(), random_words());
    }

    #[test]
    fn sentences_in_lists_and_objects_are_scrambled() {
        let mut value = serde_json::json!({ "answers": [{ "id": "f1", "reason": "why" }], "missing": ["a verdict"] });
        scramble_at(&mut value, "answers.reason");
        scramble_at(&mut value, "missing");
        scramble_at(&mut value, "absent");
        assert_eq!(value["answers"][0]["id"], "f1");
        assert_ne!(value["answers"][0]["reason"], "why");
        assert_ne!(value["missing"][0], "a verdict");
    }
}
