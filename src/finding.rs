//! What a review says: a verdict, and findings with a severity and a place. Words only; reading them is `review`'s work.

use serde::{Deserialize, Serialize};

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

/// One thing to fix, as a reviewer wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) category: Category,
    /// Relative to the top of the worktree.
    pub(crate) path: Option<String>,
    pub(crate) line: Option<u32>,
    pub(crate) text: String,
    pub(crate) suggestion: Option<String>,
}

impl Finding {
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
            suggestion: None,
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
