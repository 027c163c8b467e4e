//! Results of a review: a verdict, and findings with a severity and a location. Types only;
//! `review_text` parses them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::closed_enum::{closed_enum, id};

id!(
    /// Id of a finding, such as `f12`.
    FindingId
);
id!(
    /// Id of a review, such as `v3`.
    ReviewId
);

closed_enum! {
    /// Conclusion of a review.
    "verdict" Verdict {
        Approved = "approved",
        ChangesRequested = "changes_requested",
        NeedsDiscussion = "needs_discussion",
        Unclear = "unclear",
    }
}

closed_enum! {
    /// Severity of a finding, worst first: the derived order makes `Critical` the smallest.
    "severity" Severity {
        Critical = "critical",
        High = "high",
        Medium = "medium",
        Low = "low",
        Suggestion = "suggestion",
    }
}

closed_enum! {
    "category" Category {
        Compliance = "compliance",
        Security = "security",
        Architecture = "architecture",
        Logic = "logic",
        Style = "style",
        Performance = "performance",
        Testing = "testing",
        Documentation = "documentation",
    }
}

closed_enum! {
    /// Current status of a finding.
    "outcome" Outcome {
        Open = "open",
        Addressed = "addressed",
        Disputed = "disputed",
        Waived = "waived",
        Resolved = "resolved",
    }
}

closed_enum! {
    /// Reason for counting a finding as resolved.
    "resolution" Resolution {
        /// A reviewer judged the finding by its id.
        Judged = "judged",
        /// A later review that cannot judge findings individually did not raise it again.
        NotRaisedAgain = "not_raised_again",
    }
}

closed_enum! {
    /// Origin of a finding.
    "raised_by" RaisedBy {
        Review = "review",
        Person = "person",
        Check = "check",
        Analysis = "analysis",
        Message = "message",
    }
}

/// One thing to fix, represented by the same type from the reviewer or the comment to the prompt
/// and the reply.
///
/// In events it may come from another program. Malformed input is still feedback, so deserializing
/// never fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "serde_json::Value")]
pub(crate) struct Finding {
    /// Id on the blackboard; `None` if it is not recorded there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<FindingId>,
    pub(crate) severity: Severity,
    pub(crate) category: Category,
    /// Path relative to the top of the worktree.
    pub(crate) path: Option<String>,
    pub(crate) line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line_end: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    pub(crate) text: String,
    /// Input or sequence of events that makes the code fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
    pub(crate) suggestion: Option<String>,
    pub(crate) raised_by: RaisedBy,
    /// Review that first raised it; `None` if it does not come from a review.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_review: Option<ReviewId>,
    /// Lines of the diff above a comment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<String>,
    /// Id of the comment on the blackboard, if the finding is a comment. `forge_id` is its kind and
    /// number on the forge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) feedback_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) forge_id: Option<String>,
}

impl Default for Finding {
    fn default() -> Self {
        Self {
            id: None,
            severity: Severity::Medium,
            category: Category::Logic,
            path: None,
            line: None,
            line_end: None,
            title: None,
            text: String::new(),
            failure: None,
            suggestion: None,
            raised_by: RaisedBy::Review,
            first_review: None,
            context: None,
            feedback_id: None,
            forge_id: None,
        }
    }
}

impl From<Value> for Finding {
    fn from(value: Value) -> Self {
        fn read<T: serde::de::DeserializeOwned>(value: &Value, key: &str) -> Option<T> {
            serde_json::from_value(value.get(key)?.clone()).ok()
        }
        let text = |key: &str| read::<String>(&value, key);
        let default = Self::default();
        Self {
            id: read(&value, "id"),
            severity: read(&value, "severity").unwrap_or(default.severity),
            category: read(&value, "category").unwrap_or(default.category),
            path: text("path"),
            line: read(&value, "line"),
            line_end: read(&value, "line_end"),
            title: text("title"),
            text: text("text")
                .or_else(|| text("description"))
                .unwrap_or_else(|| value.to_string()),
            failure: text("failure"),
            suggestion: text("suggestion"),
            raised_by: read(&value, "raised_by").unwrap_or(default.raised_by),
            first_review: read(&value, "first_review"),
            context: text("context"),
            feedback_id: text("feedback_id"),
            forge_id: text("forge_id"),
        }
    }
}

impl Finding {
    /// Returns the file, with the line or the range of lines if there is one.
    pub(crate) fn place(&self) -> Option<String> {
        let path = self.path.as_ref()?;
        Some(match (self.line, self.line_end) {
            (Some(line), Some(end)) => format!("{path}:{line}-{end}"),
            (Some(line), None) => format!("{path}:{line}"),
            (None, _) => path.clone(),
        })
    }

    /// Returns the text, after the title if there is one.
    pub(crate) fn titled_text(&self) -> String {
        match &self.title {
            Some(title) => format!("{title}: {}", self.text),
            None => self.text.clone(),
        }
    }

    /// Returns the number of the inline comment on the forge, if the finding is one.
    pub(crate) fn inline_comment(&self) -> Option<i64> {
        let number = self.forge_id.as_ref()?.strip_prefix("review_comment:")?;
        number.parse().ok()
    }

    /// True if an answer to `id` is about this finding, which is `piece` of its rejection.
    pub(crate) fn is_called(&self, id: &str, piece: &str) -> bool {
        id == piece || self.id.as_ref().is_some_and(|own| own.as_str() == id)
    }

    /// Returns the key that identifies the same finding in different reviews.
    ///
    /// It covers path and message without line numbers, digits, case and punctuation, which change
    /// with every edit.
    pub(crate) fn fingerprint(&self) -> String {
        let words: Vec<String> = self
            .text
            .split(|c: char| !c.is_alphabetic())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        format!(
            "{}|{}",
            self.path.as_deref().unwrap_or("-"),
            words.join(" ")
        )
    }
}

impl Severity {
    /// True if a finding of this severity prevents approval.
    pub(crate) fn blocks_at(self, threshold: Self) -> bool {
        self <= threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(path: &str, text: &str) -> Finding {
        Finding {
            severity: Severity::High,
            category: Category::Logic,
            path: Some(path.into()),
            line: Some(3),
            text: text.into(),
            ..Finding::default()
        }
    }

    #[test]
    fn the_same_finding_is_known_after_its_line_moved() {
        let before = finding("a.rs", "Off by one in line 12.");
        let after = finding("a.rs", "off-by-one in line 40");
        assert_eq!(before.fingerprint(), after.fingerprint());
        assert_ne!(
            before.fingerprint(),
            finding("b.rs", "Off by one in line 12.").fingerprint()
        );
    }

    #[test]
    fn severity_threshold() {
        assert!(Severity::Critical.blocks_at(Severity::Medium));
        assert!(Severity::Medium.blocks_at(Severity::Medium));
        assert!(!Severity::Low.blocks_at(Severity::Medium));
    }
}
