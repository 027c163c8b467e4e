//! What a review says: a verdict, and findings with a severity and a place. Words only; reading them is `review`'s work.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::closed_enum::{closed_enum, id};

id!(
    /// `f12`
    FindingId
);
id!(
    /// `v3`
    ReviewId
);

closed_enum! {
    /// What a review concludes.
    "verdict" Verdict {
        Approved = "approved",
        ChangesRequested = "changes_requested",
        NeedsDiscussion = "needs_discussion",
        Unclear = "unclear",
    }
}

closed_enum! {
    /// How bad, worst first: the derived order makes `Critical` the smallest.
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
    /// What became of a finding.
    "outcome" Outcome {
        Open = "open",
        Addressed = "addressed",
        Disputed = "disputed",
        Waived = "waived",
        Resolved = "resolved",
    }
}

closed_enum! {
    /// Why a finding counts as resolved.
    "resolution" Resolution {
        /// A reviewer judged it by its id.
        Judged = "judged",
        /// A later review that cannot judge findings one by one did not raise it again.
        NotRaisedAgain = "not_raised_again",
    }
}

closed_enum! {
    /// The origin of a finding.
    "raised_by" RaisedBy {
        Review = "review",
        Person = "person",
        Check = "check",
        Analysis = "analysis",
        Message = "message",
    }
}

/// One thing to fix: the same from the reviewer or the comment to the prompt and the reply.
///
/// In events it may come from another program: what is not as expected is still feedback, so reading never fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "serde_json::Value")]
pub(crate) struct Finding {
    /// Its id on the blackboard; none: it is not recorded there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<FindingId>,
    pub(crate) severity: Severity,
    pub(crate) category: Category,
    /// Relative to the top of the worktree.
    pub(crate) path: Option<String>,
    pub(crate) line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line_end: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    pub(crate) text: String,
    /// The input or the sequence of events that makes it fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
    pub(crate) suggestion: Option<String>,
    pub(crate) raised_by: RaisedBy,
    /// The review that raised it first; none: it is not from a review.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_review: Option<ReviewId>,
    /// The lines of the diff that a comment stands under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<String>,
    /// The comment that it is: our id, and its kind and number on the forge.
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
    /// The file, with the line where there is one.
    pub(crate) fn place(&self) -> Option<String> {
        let path = self.path.as_ref()?;
        Some(match self.line {
            Some(line) => format!("{path}:{line}"),
            None => path.clone(),
        })
    }

    /// The number of the inline comment that it is, on the forge.
    pub(crate) fn inline_comment(&self) -> Option<i64> {
        let number = self.forge_id.as_ref()?.strip_prefix("review_comment:")?;
        number.parse().ok()
    }

    /// Whether an answer to `id` is about this finding, which is `piece` of its rejection.
    pub(crate) fn is_called(&self, id: &str, piece: &str) -> bool {
        id == piece || self.id.as_ref().is_some_and(|own| own.as_str() == id)
    }

    /// What makes two findings of different reviews the same: where and what, without line numbers,
    /// digits, case and punctuation, which move with every edit.
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
    /// Whether a finding of this severity keeps a change from being approved.
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
