//! One line of the stream.
//!
//! Missing or unexpected values count as absent: a line can be cut anywhere, come from another
//! version, or from a tool that wrote to the same pipe.

use serde_json::Value;

use crate::clock::Time;

/// Maximum length of one item in a line for people.
const SAID: usize = 200;

pub(super) struct StreamLine {
    value: Value,
}

/// One part of a message.
pub(super) enum Block<'a> {
    Text(&'a str),
    Call {
        id: &'a str,
        name: &'a str,
        input: &'a Value,
    },
    /// Result of a tool.
    Answer {
        id: &'a str,
        failed: bool,
        text: String,
    },
}

impl StreamLine {
    /// Parses a line; `None` if it is not one of the stream's.
    pub(super) fn read(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text.trim()).ok()?;
        value.get("type")?.as_str()?;
        Some(Self { value })
    }

    /// Returns `assistant`, or `system/init`.
    pub(super) fn kind(&self) -> String {
        match (self.text("type"), self.text("subtype")) {
            ("system", subtype) => format!("system/{subtype}"),
            (kind, _) => kind.to_owned(),
        }
    }

    /// Returns a text at the top of the line, or "".
    pub(super) fn text(&self, key: &str) -> &str {
        text_of(&self.value, key)
    }

    pub(super) fn number(&self, key: &str) -> Option<i64> {
        self.value.get(key)?.as_i64()
    }

    /// Returns a fraction at the top of the line, or 0.
    pub(super) fn fraction(&self, key: &str) -> f64 {
        let value = self.value.get(key).and_then(Value::as_f64);
        value.unwrap_or(0.0)
    }

    /// Returns a value by a path such as `/message/usage`.
    pub(super) fn at_path(&self, path: &str) -> Option<&Value> {
        self.value.pointer(path)
    }

    pub(super) fn time(&self) -> Option<Time> {
        Time::parse(self.text("timestamp")).ok()
    }

    pub(super) fn blocks(&self) -> Vec<Block<'_>> {
        let content = self.at_path("/message/content").and_then(Value::as_array);
        content.into_iter().flatten().filter_map(block).collect()
    }

    pub(super) fn into_value(self) -> Value {
        self.value
    }
}

fn block(value: &Value) -> Option<Block<'_>> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    match text("type")? {
        "text" => Some(Block::Text(text("text")?)),
        "tool_use" => Some(Block::Call {
            id: text("id")?,
            name: text("name")?,
            input: value.get("input")?,
        }),
        "tool_result" => Some(Block::Answer {
            id: text("tool_use_id")?,
            failed: value.get("is_error") == Some(&Value::Bool(true)),
            text: words_of(value.get("content")?),
        }),
        _ => None,
    }
}

/// Returns a text in a value, or "".
pub(super) fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    let text = value.get(key).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// Returns a time that is given in seconds.
pub(super) fn time_of(seconds: i64) -> Time {
    Time::from_millis(seconds.saturating_mul(1000))
}

/// Returns the text of a tool's result, which is a text or a list of parts of which some are texts.
fn words_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(pieces) => {
            let texts = pieces
                .iter()
                .filter_map(|piece| piece.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

/// Inputs that describe a call best; the first that is present is used.
const TELLING: [&str; 10] = [
    "file_path",
    "notebook_path",
    "command",
    "pattern",
    "path",
    "url",
    "query",
    "description",
    "skill",
    "prompt",
];

/// Describes a call for people: `Edit src/a.rs`, `Bash cargo test`. Paths below the working
/// directory are relative to it.
pub(super) fn call(name: &str, input: &Value, cwd: Option<&str>) -> String {
    let detail = TELLING.iter().find_map(|key| input.get(*key)?.as_str());
    let Some(detail) = detail else {
        return brief(name);
    };
    let detail = cwd
        .and_then(|cwd| detail.strip_prefix(cwd)?.strip_prefix('/'))
        .unwrap_or(detail);
    brief(&format!("{name} {detail}"))
}

/// Returns the first line, cut if it is too long.
pub(super) fn brief(text: &str) -> String {
    let mut lines = text.trim().lines();
    let first = lines.next().unwrap_or_default();
    let cut: String = first.chars().take(SAID).collect();
    if cut.len() < first.len() || lines.next().is_some() {
        format!("{cut} …")
    } else {
        cut
    }
}
