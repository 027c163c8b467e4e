//! Intents: effects outside of remand, with their kinds, typed payloads and results.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::check::RerunCall;
use crate::closed_enum::closed_enum;
use crate::finding::{Finding, ReviewId};
use crate::proposal::Bound;
use crate::work::{ItemId, LeftOut, Source};

closed_enum! {
    "intent" IntentKind {
        Push = "push",
        /// Our review of the pull request.
        Review = "review",
        /// A reply to one comment.
        Answer = "answer",
        /// A comment by remand.
        Note = "note",
        /// A request for another review.
        Ask = "ask",
        /// A request to run checks again.
        Rerun = "rerun",
    }
}

closed_enum! {
    /// Result of an intent.
    "intent result" IntentResult {
        Done = "done",
        /// Not retried.
        GivenUp = "given_up",
        /// The forge refused it. Not retried unless a person requests it.
        Refused = "refused",
        /// A push that was not made because the remote had moved.
        Moved = "moved",
        /// A push that a person reverted.
        TakenBack = "taken_back",
        NotNeeded = "not_needed",
        /// The form in which the forge accepted our review.
        RequestChanges = "request_changes",
        Comment = "comment",
        IssueComment = "issue_comment",
        /// We dismissed our review.
        Dismissed = "dismissed",
    }
}

closed_enum! {
    /// Answer of an agent to a piece of feedback.
    "answer" Stance {
        Fixed = "fixed",
        CannotFix = "cannot_fix",
        Disagree = "disagree",
    }
}

/// Content of an intent. The JSON has no tag: the kind of the intent selects the variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Payload {
    Push(Push),
    Review(PostedReview),
    Answer(Reply),
    Note(Note),
    Ask(Ask),
    Rerun(RerunRequest),
}

/// A push of one commit to one branch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Push {
    pub(crate) item_id: Option<ItemId>,
    pub(crate) branch: String,
    /// Commit on the remote before the push. `to` is the pushed commit.
    pub(crate) from: String,
    pub(crate) to: String,
}

/// A review with its findings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PostedReview {
    pub(crate) review_id: Option<ReviewId>,
    pub(crate) findings: Vec<Finding>,
}

/// Finding that was given to a fix, with the agent's answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Reply {
    /// Inline comment to reply to; `None` if the reply is listed in a note.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) comment: Option<i64>,
    pub(crate) answer: Option<Stance>,
    pub(crate) reason: Option<String>,
    pub(crate) sha: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) line: Option<u32>,
    pub(crate) text: Option<String>,
}

/// Comment by remand on a pull request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(crate) enum Note {
    /// A fix was pushed.
    Fixed {
        #[serde(default)]
        cycle: i64,
        #[serde(default)]
        sha: String,
        #[serde(default)]
        done: Vec<Reply>,
        /// Number of comments that got a reply in their own thread.
        #[serde(default)]
        answered: usize,
        #[serde(default)]
        left_out: Vec<LeftOut>,
    },
    /// The pull request is ready for a person.
    Ready {
        #[serde(default)]
        head: String,
        /// Set if the allowed fixes were used up before a review passed.
        #[serde(default)]
        is_unfinished: bool,
        /// Set if the last review did not approve it, and a person or a setting went on.
        #[serde(default)]
        is_unapproved: bool,
        /// Set if no fix was made.
        #[serde(default)]
        is_unfixed: bool,
    },
    /// A person is needed.
    Escalated {
        #[serde(default, deserialize_with = "known_or_none")]
        kind: Option<EscalatedFor>,
    },
}

/// The part of an escalation's reason that may be published on a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EscalatedFor {
    /// A limit was reached.
    Bound(Bound),
    /// A review requests a discussion.
    Discussion,
    /// An item of this source failed.
    Failed(Source),
}

const DISCUSSION: &str = "discussion";

impl EscalatedFor {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Bound(bound) => bound.as_str(),
            Self::Discussion => DISCUSSION,
            Self::Failed(source) => source.as_str(),
        }
    }
}

impl Serialize for EscalatedFor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Reads the kind of a stored note. A value from another version becomes `None`.
fn known_or_none<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<EscalatedFor>, D::Error> {
    let Some(word) = Option::<String>::deserialize(deserializer)? else {
        return Ok(None);
    };
    if word == DISCUSSION {
        return Ok(Some(EscalatedFor::Discussion));
    }
    let bound = word.parse().map(EscalatedFor::Bound);
    Ok(bound
        .or_else(|_| word.parse().map(EscalatedFor::Failed))
        .ok())
}

impl Default for Note {
    fn default() -> Self {
        Self::Fixed {
            cycle: 0,
            sha: String::new(),
            done: Vec::new(),
            answered: 0,
            left_out: Vec::new(),
        }
    }
}

/// Logins whose review is requested again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Ask {
    pub(crate) logins: Vec<String>,
}

/// Check runs of a commit that run again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RerunRequest {
    pub(crate) head: String,
    /// Their numbers on the forge, before they run again.
    pub(crate) checks: Vec<i64>,
    pub(crate) names: Vec<String>,
    pub(crate) call: Option<RerunCall>,
}

impl Payload {
    /// Reads a stored payload. Malformed content yields an empty payload, never an error, which
    /// would make everything else of its change unreadable.
    pub(crate) fn read(kind: IntentKind, stored: &str) -> Self {
        fn read<T: serde::de::DeserializeOwned + Default>(stored: &str) -> T {
            serde_json::from_str(stored).unwrap_or_default()
        }
        match kind {
            IntentKind::Push => Self::Push(read(stored)),
            IntentKind::Review => Self::Review(read(stored)),
            IntentKind::Answer => Self::Answer(read(stored)),
            IntentKind::Note => Self::Note(read(stored)),
            IntentKind::Ask => Self::Ask(read(stored)),
            IntentKind::Rerun => Self::Rerun(read(stored)),
        }
    }

    pub(crate) fn kind(&self) -> IntentKind {
        match self {
            Self::Push(_) => IntentKind::Push,
            Self::Review(_) => IntentKind::Review,
            Self::Answer(_) => IntentKind::Answer,
            Self::Note(_) => IntentKind::Note,
            Self::Ask(_) => IntentKind::Ask,
            Self::Rerun(_) => IntentKind::Rerun,
        }
    }

    pub(crate) fn push(&self) -> Option<&Push> {
        match self {
            Self::Push(push) => Some(push),
            Self::Review(_) | Self::Answer(_) | Self::Note(_) | Self::Ask(_) | Self::Rerun(_) => {
                None
            }
        }
    }

    /// Returns all texts in the payload, one per line.
    pub(crate) fn texts(&self) -> String {
        fn texts(value: &Value) -> String {
            match value {
                Value::String(text) => text.clone(),
                Value::Array(list) => list.iter().map(texts).collect::<Vec<_>>().join("\n"),
                Value::Object(keys) => keys.values().map(texts).collect::<Vec<_>>().join("\n"),
                Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
            }
        }
        serde_json::to_value(self)
            .map(|value| texts(&value))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Every variant with every key: a new field does not compile here without its value.
    fn samples() -> [Payload; 8] {
        let reply = Reply {
            comment: Some(7),
            answer: Some(Stance::Fixed),
            reason: None,
            sha: None,
            path: None,
            line: None,
            text: None,
        };
        [
            Payload::Push(Push {
                item_id: None,
                branch: String::new(),
                from: String::new(),
                to: String::new(),
            }),
            Payload::Review(PostedReview {
                review_id: None,
                findings: Vec::new(),
            }),
            Payload::Answer(reply),
            Payload::Note(Note::Fixed {
                cycle: 1,
                sha: String::new(),
                done: Vec::new(),
                answered: 0,
                left_out: Vec::new(),
            }),
            Payload::Note(Note::Ready {
                head: String::new(),
                is_unfinished: false,
                is_unapproved: false,
                is_unfixed: false,
            }),
            Payload::Note(Note::Escalated { kind: None }),
            Payload::Ask(Ask { logins: Vec::new() }),
            Payload::Rerun(RerunRequest {
                head: String::new(),
                checks: Vec::new(),
                names: Vec::new(),
                call: Some(RerunCall::Job(7)),
            }),
        ]
    }

    fn keys(payload: &Payload) -> BTreeSet<String> {
        let value = serde_json::to_value(payload).unwrap();
        value.as_object().unwrap().keys().cloned().collect()
    }

    /// `schema.sql` lists the keys of every kind; it follows the types.
    #[test]
    fn the_schema_lists_exactly_the_keys_of_each_payload() {
        let schema = include_str!("../schema.sql");
        let (_, listed) = schema.split_once("-- Keys of `payload`").unwrap();
        let (listed, _) = listed.split_once("CREATE TABLE intents").unwrap();
        let lines = listed.lines().filter_map(|line| {
            let (kind, keys) = line.strip_prefix("--   ")?.split_once('{')?;
            let kind: IntentKind = kind.trim_end().parse().ok()?;
            let keys = keys.split_once('}').unwrap().0.split(", ");
            Some((kind, keys.map(str::to_owned).collect()))
        });
        let listed: BTreeMap<IntentKind, BTreeSet<String>> = lines.collect();

        let mut all: BTreeMap<IntentKind, BTreeSet<String>> = BTreeMap::new();
        let mut always = all.clone();
        let without_comment = Payload::Answer(Reply::default());
        for payload in samples().into_iter().chain([without_comment]) {
            let (kind, keys) = (payload.kind(), keys(&payload));
            let common = always.entry(kind).or_insert_with(|| keys.clone());
            common.retain(|key| keys.contains(key));
            all.entry(kind).or_default().extend(keys);
        }
        let marked = all.into_iter().map(|(kind, keys)| {
            let is_optional = |key: &str| !always[&kind].contains(key);
            let keys = keys.into_iter();
            let keys = keys.map(|key| if is_optional(&key) { key + "?" } else { key });
            (kind, keys.collect())
        });
        assert_eq!(listed, marked.collect());
        assert_eq!(listed.len(), IntentKind::ALL.len());
    }

    #[test]
    fn a_payload_is_read_back_as_it_was_written() {
        for payload in samples() {
            let stored = serde_json::to_string(&payload).unwrap();
            assert_eq!(Payload::read(payload.kind(), &stored), payload);
        }
    }
}
