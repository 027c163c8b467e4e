//! Switch for tests: all text for people is stored as random words, so that a decision that depends
//! on wording becomes visible.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use super::value::Param;
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
}
