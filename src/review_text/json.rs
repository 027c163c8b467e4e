//! JSON as a reviewer wrote it, independent of reviews.
//!
//! Repeated keys are all kept, where `serde_json::Value` keeps the last, and values are found
//! inside other text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

/// JSON value with every key of an object, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

/// JSON values found in a text.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) values: Vec<Located>,
    /// Set if the search was abandoned: the text opens far more brackets than it closes.
    pub(super) gave_up: bool,
}

#[derive(Debug)]
pub(super) struct Located {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) node: Node,
}

/// Finds all objects and lists in a text, outermost first.
///
/// Every bracket is tried, because a value may follow any number of brackets that open none. The
/// total work is limited to a multiple of the length.
pub(super) fn find(text: &str) -> Found {
    const WORK_PER_BYTE: usize = 8;
    let mut work_left = text
        .len()
        .saturating_mul(WORK_PER_BYTE)
        .saturating_add(1 << 16);
    let mut found = Found::default();
    let mut at = 0;
    while let Some(start) = text
        .get(at..)
        .and_then(|rest| rest.find(['{', '[']))
        .map(|ahead| at + ahead)
    {
        let rest = text.get(start..).unwrap_or_default();
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Node>();
        let read = match values.next() {
            Some(Ok(node)) => {
                let length = values.byte_offset().max(1);
                found.values.push(Located {
                    start,
                    end: start + length,
                    node,
                });
                at = start + length;
                length
            }
            Some(Err(error)) => {
                at = start + 1;
                position(rest, &error)
            }
            None => break,
        };
        work_left = work_left.saturating_sub(read.max(1));
        if work_left == 0 {
            found.gave_up = true;
            break;
        }
    }
    found
}

/// Returns the values of a text that contains nothing but JSON, one or several.
pub(super) fn whole(text: &str) -> Option<Vec<Node>> {
    let values: Result<Vec<Node>, _> = serde_json::Deserializer::from_str(text)
        .into_iter::<Node>()
        .collect();
    values.ok().filter(|values| !values.is_empty())
}

fn position(text: &str, error: &serde_json::Error) -> usize {
    let before: usize = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    before + error.column()
}

impl Node {
    /// Returns the values of all keys that match one of `keys`, ignoring case and punctuation, in
    /// the order of `keys`.
    pub(super) fn all<'a>(&'a self, keys: &'a [&str]) -> impl Iterator<Item = &'a Self> {
        keys.iter().flat_map(|key| {
            let same = move |(name, _): &&(String, Self)| squashed(name) == *key;
            self.fields().iter().filter(same).map(|(_, value)| value)
        })
    }

    /// Returns the first non-null value under one of the keys.
    pub(super) fn first<'a>(&'a self, keys: &'a [&str]) -> Option<&'a Self> {
        self.all(keys).find(|value| **value != Self::Null)
    }

    /// Returns the first non-empty text under one of the keys.
    pub(super) fn text(&self, keys: &[&str]) -> Option<String> {
        self.all(keys)
            .filter_map(Self::as_text)
            .map(|text| text.trim().to_owned())
            .find(|text| !text.is_empty())
    }

    pub(super) fn fields(&self) -> &[(String, Self)] {
        match self {
            Self::Object(fields) => fields,
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::List(_) => &[],
        }
    }

    pub(super) fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::Object(_) => &[],
        }
    }

    /// Returns a string, or a number as text.
    pub(super) fn as_text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Number(number) => Some(number.to_string()),
            Self::Null | Self::Bool(_) | Self::List(_) | Self::Object(_) => None,
        }
    }

    pub(super) fn is_zero(&self) -> bool {
        matches!(self, Self::Number(number) if number.as_f64() == Some(0.0))
    }

    /// Returns an integer that fits.
    pub(super) fn as_u32(&self) -> Option<u32> {
        match self {
            Self::Number(number) => number
                .as_u64()
                .and_then(|number| u32::try_from(number).ok()),
            Self::Null | Self::Bool(_) | Self::Text(_) | Self::List(_) | Self::Object(_) => None,
        }
    }
}

/// Removes case and punctuation from a word, and cuts it at a length that no known key has.
pub(super) fn squashed(word: &str) -> String {
    word.chars()
        .filter(|c| c.is_alphanumeric())
        .take(40)
        .flat_map(char::to_lowercase)
        .collect()
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(Self::to_string).collect();
                write!(f, "[{}]", items.join(","))
            }
            Self::Object(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(key, value)| format!("{}:{value}", quoted(key)))
                    .collect();
                write!(f, "{{{}}}", fields.join(","))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Number::from_f64(value).map_or(Node::Null, Node::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Node, E> {
        Ok(Node::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = object.next_entry()? {
            fields.push(field);
        }
        Ok(Node::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_key_is_kept() {
        let node = whole(r#"{"a": 1, "A_": [2], "a": {"b": null}}"#).unwrap();
        assert_eq!(node[0].all(&["a"]).count(), 3);
        assert_eq!(node[0].to_string(), r#"{"a":1,"A_":[2],"a":{"b":null}}"#);
        assert_eq!(node[0].first(&["b", "a"]).and_then(Node::as_u32), Some(1));
    }

    #[test]
    fn values_are_found_behind_brackets_that_open_none() {
        let found = find("{ a } [x](y) {\"b\": [ {\"c\": 1} and [2] {");
        let values: Vec<String> = found
            .values
            .iter()
            .map(|value| value.node.to_string())
            .collect();
        assert_eq!(values, [r#"{"c":1}"#, "[2]"]);
        assert!(!found.gave_up);
        assert!(find(&"[".repeat(1 << 15)).gave_up);
    }
}
