//! Finds keys in a TOML document: maps the dotted path in an error to bytes of the file. For
//! documents that people write; it does not interpret their contents.

use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use serde_path_to_error::Segment;
use toml::de::{DeTable, DeValue};

/// Path of a key, such as `agents.claude.env[0]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeyPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

/// Byte ranges of a key and of its value. An element of a list has no key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spans {
    pub(crate) key: Option<Range<usize>>,
    pub(crate) value: Range<usize>,
    pub(crate) is_table: bool,
}

impl KeyPath {
    /// Parses a path of keys that contain no dots.
    pub(crate) fn dotted(text: &str) -> Self {
        Self(text.split('.').map(|key| Step::Key(key.into())).collect())
    }

    pub(crate) fn key(&self, key: impl Into<String>) -> Self {
        self.step(Step::Key(key.into()))
    }

    pub(crate) fn index(&self, index: usize) -> Self {
        self.step(Step::Index(index))
    }

    fn step(&self, step: Step) -> Self {
        Self(self.0.iter().cloned().chain([step]).collect())
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Returns the enclosing table or list, and the last step.
    pub(crate) fn split_last(&self) -> Option<(Self, &Step)> {
        self.0
            .split_last()
            .map(|(last, before)| (Self(before.to_vec()), last))
    }

    /// Finds the path in `document`.
    pub(crate) fn find(&self, document: &DeTable<'_>) -> Option<Spans> {
        let mut steps = self.0.iter();
        let Some(Step::Key(first)) = steps.next() else {
            return None;
        };
        let (key, mut value) = document.get_key_value(first.as_str())?;
        let mut key = Some(key.span());
        for step in steps {
            (key, value) = match (step, value.get_ref()) {
                (Step::Key(name), DeValue::Table(table)) => {
                    let (key, value) = table.get_key_value(name.as_str())?;
                    (Some(key.span()), value)
                }
                (Step::Index(index), DeValue::Array(array)) => (None, array.get(*index)?),
                _ => return None,
            };
        }
        Some(Spans {
            key,
            value: value.span(),
            is_table: matches!(value.get_ref(), DeValue::Table(_)),
        })
    }

    /// Returns the keys of the table at this path.
    pub(crate) fn keys_in<'d>(&self, document: &'d DeTable<'_>) -> Option<Vec<&'d str>> {
        let mut table = document;
        for step in &self.0 {
            let Step::Key(name) = step else { return None };
            let DeValue::Table(inner) = table.get(name.as_str())?.get_ref() else {
                return None;
            };
            table = inner;
        }
        Some(table.keys().map(|key| key.get_ref().as_ref()).collect())
    }

    /// Removes the key, or the whole list for a path into a list. Returns true if something was
    /// removed.
    pub(crate) fn take_from(&self, document: &mut DeTable<'_>) -> bool {
        let mut table = document;
        let mut steps = self.0.iter().peekable();
        while let Some(Step::Key(name)) = steps.next() {
            if !matches!(steps.peek(), Some(Step::Key(_))) {
                return table.remove(name.as_str()).is_some();
            }
            let Some(DeValue::Table(inner)) =
                table.get_mut(name.as_str()).map(|value| value.get_mut())
            else {
                return false;
            };
            table = inner;
        }
        false
    }
}

impl From<&serde_path_to_error::Path> for KeyPath {
    fn from(path: &serde_path_to_error::Path) -> Self {
        let step = |segment: &Segment| match segment {
            Segment::Seq { index } => Some(Step::Index(*index)),
            Segment::Map { key } => Some(Step::Key(key.clone())),
            Segment::Enum { variant } => Some(Step::Key(variant.clone())),
            Segment::Unknown => None,
        };
        Self(path.iter().map_while(step).collect())
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_bare = |key: &str| {
            !key.is_empty()
                && key
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        };
        for (i, step) in self.0.iter().enumerate() {
            let dot = if i == 0 { "" } else { "." };
            match step {
                Step::Key(key) if is_bare(key) => write!(f, "{dot}{key}")?,
                Step::Key(key) => write!(f, "{dot}{key:?}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Returns the field names of a struct as they are spelled in files, so that no list of them has to
/// be maintained.
pub(crate) fn fields_of<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    let mut fields: &'static [&'static str] = &[];
    // Always fails: a value is requested only to record the fields that the type asks for.
    drop(T::deserialize(FieldNames(&mut fields)));
    fields
}

struct FieldNames<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("only the names are wanted"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a = [1, [2, 3]]\n[t.\"x.y\"]\nk = 'v'\n";

    fn shown(path: &KeyPath) -> Option<(Option<&'static str>, &'static str)> {
        let document = DeTable::parse(TEXT).unwrap();
        let spans = path.find(document.get_ref())?;
        Some((
            spans.key.and_then(|span| TEXT.get(span)),
            TEXT.get(spans.value)?,
        ))
    }

    #[test]
    fn a_path_finds_its_bytes() {
        let inner = KeyPath::dotted("t").key("x.y").key("k");
        assert_eq!(inner.to_string(), "t.\"x.y\".k");
        assert_eq!(shown(&inner), Some((Some("k"), "'v'")));
        assert_eq!(
            shown(&KeyPath::dotted("a").index(1).index(0)),
            Some((None, "2"))
        );
        assert_eq!(
            KeyPath::dotted("a").index(1).index(0).to_string(),
            "a[1][0]"
        );
        for nowhere in [
            KeyPath::dotted("b"),
            KeyPath::dotted("a.b"),
            KeyPath::dotted("a").index(7),
            KeyPath::default(),
        ] {
            assert_eq!(shown(&nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn a_path_is_taken_out() {
        let mut document = DeTable::parse(TEXT).unwrap().into_inner();
        let element = KeyPath::dotted("a").index(1);
        assert!(element.take_from(&mut document));
        assert!(!element.take_from(&mut document), "it is gone");
        assert!(!KeyPath::default().take_from(&mut document));
        let key = KeyPath::dotted("t").key("x.y").key("k");
        assert!(key.take_from(&mut document));
        assert_eq!(
            KeyPath::dotted("t").key("x.y").keys_in(&document),
            Some(vec![])
        );
        assert_eq!(KeyPath::default().keys_in(&document), Some(vec!["t"]));
    }

    #[test]
    fn the_fields_of_a_struct() {
        #[derive(Deserialize)]
        #[expect(dead_code, reason = "only the names count")]
        struct Sample {
            one: u8,
            #[serde(rename = "second")]
            two: Option<String>,
        }
        assert_eq!(fields_of::<Sample>(), ["one", "second"]);
        assert!(fields_of::<u8>().is_empty());
    }
}
