//! Intents: effects outside of remand, with their kinds, typed payloads and results.

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    }
}

closed_enum! {
    /// Result of an intent.
    "intent result" IntentResult {
        Done = "done",
        /// Not retried unless a person requests it.
        GivenUp = "given_up",
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
        }
    }

    pub(crate) fn kind(&self) -> IntentKind {
        match self {
            Self::Push(_) => IntentKind::Push,
            Self::Review(_) => IntentKind::Review,
            Self::Answer(_) => IntentKind::Answer,
            Self::Note(_) => IntentKind::Note,
            Self::Ask(_) => IntentKind::Ask,
        }
    }

    pub(crate) fn push(&self) -> Option<&Push> {
        match self {
            Self::Push(push) => Some(push),
            Self::Review(_) | Self::Answer(_) | Self::Note(_) | Self::Ask(_) => None,
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
