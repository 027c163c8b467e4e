//! Lines that look like blocking findings in a form that is not parsed as one.
//!
//! They do not become findings, as their meaning is a guess; but an approval next to one is not
//! trusted.

use super::key_value::is_decoration;
use super::markdown::{BlockKind, Document, after_markers};
use super::raw_finding;
use crate::finding::Severity;

/// Returns the first such line.
pub(super) fn first(page: &Document<'_>, threshold: Severity) -> Option<String> {
    let mut in_section = false;
    for line in page
        .lines
        .iter()
        .filter(|line| matches!(line.place, BlockKind::Body | BlockKind::Folded))
    {
        let text = line.text.trim();
        if text.starts_with('#') || is_bold_title(text) {
            in_section = is_section(text, threshold);
            continue;
        }
        let item = after_markers(text);
        let is_item = item.len() < text.len();
        let is_row = text.starts_with('|');
        let says = match labelled(item).filter(|_| is_item || is_row) {
            Some((severity, rest)) => severity.blocks_at(threshold).then_some(rest),
            None => (in_section && is_item).then_some(item),
        };
        if says.is_some_and(|says| !is_settled(says)) {
            return Some(text.chars().take(200).collect());
        }
        // "None." under the title.
        in_section &= text.is_empty() || is_item || !is_settled(text);
    }
    None
}

/// Returns true for `**Critical Issues**` alone on a line.
fn is_bold_title(text: &str) -> bool {
    text.len() > 4 && text.starts_with("**") && text.trim_end_matches(':').ends_with("**")
}

/// Returns true for `### Critical Issues`, `## 🔴 Blockers`: everything listed below is blocking.
fn is_section(title: &str, threshold: Severity) -> bool {
    let title = title.trim_matches(|c| is_decoration(c) || c == ':');
    let (word, rest) = first_word(title);
    let rest = rest
        .trim_matches(|c: char| is_decoration(c) || c == ':')
        .to_lowercase();
    severity(word).is_some_and(|severity| severity.blocks_at(threshold))
        && matches!(
            rest.as_str(),
            "" | "issues" | "issue" | "findings" | "problems" | "bugs"
        )
}

/// Parses `CRITICAL: …`, `🔴 **CRITICAL** …`, `(critical) …`, `[P0] …`, `| CRITICAL | …`; returns
/// the text after the label.
fn labelled(item: &str) -> Option<(Severity, &str)> {
    let is_front = |c: char| is_decoration(c) || matches!(c, '(' | '[' | '|');
    let (word, rest) = first_word(item.trim_start_matches(is_front));
    let is_closed = rest.starts_with([':', ')', ']', '*', '_', '`', '|'])
        || rest.trim_start().starts_with(['|', '-', '–', '—', ':'])
            && rest.starts_with(char::is_whitespace);
    severity(word)
        .filter(|_| is_closed)
        .map(|severity| (severity, rest))
}

fn first_word(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_alphanumeric())
        .unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

fn severity(word: &str) -> Option<Severity> {
    match word.to_lowercase().as_str() {
        "p0" | "blockers" => Some(Severity::Critical),
        "p1" => Some(Severity::High),
        other => raw_finding::severity(other),
    }
}

/// Returns true for a text that reports nothing, or that it is done.
fn is_settled(text: &str) -> bool {
    let text = text.trim_matches(|c: char| !c.is_alphanumeric() && c != '~');
    let is_struck = text.starts_with("~~");
    let lower = text.to_lowercase();
    let mut words = lower
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty());
    let first = words.clone().next().unwrap_or_default();
    let is_none =
        raw_finding::is_nothing(text) || matches!(first, "no" | "none" | "nothing" | "0" | "n");
    let is_done = words.clone().any(|word| {
        matches!(
            word,
            "resolved" | "fixed" | "addressed" | "verified" | "closed"
        )
    }) && !words.any(|word| {
        matches!(
            word,
            "not" | "isn't" | "wasn't" | "never" | "still" | "unresolved"
        )
    });
    is_struck || is_none || is_done
}

#[cfg(test)]
mod tests {
    use crate::finding::{Severity, Verdict};

    fn read_text(text: &str) -> Verdict {
        crate::review_text::read(text, Severity::Medium).verdict
    }

    #[test]
    fn an_approval_beside_a_line_that_reads_like_a_blocking_finding_is_unclear() {
        for line in [
            "- CRITICAL: src/a.rs:1 - drops the table",
            "* Critical: src/a.rs:1 drops the table",
            "- 🔴 **CRITICAL** src/a.rs:1 - drops the table",
            "- (critical) src/a.rs:1 - drops the table",
            "- [P0] src/a.rs:1 - drops the table",
            "### Critical Issues\n- src/a.rs:1 - drops the table",
            "**Critical Issues:**\n1. drops the table, not fixed",
            "| CRITICAL | a.rs:1 | drops the table |",
            "- High - src/a.rs:1 is still not fixed",
        ] {
            let verdict = read_text(&format!("**Verdict: APPROVED**\n\n{line}\n"));
            assert_ne!(verdict, Verdict::Approved, "{line}");
        }
    }

    #[test]
    fn an_honest_summary_beside_an_approval_is_none() {
        for line in [
            "- Critical: none",
            "- Critical: 0",
            "- Critical issues: 0",
            "- High: No issues found",
            "- The critical path is covered by tests",
            "- Critical sections are locked",
            "- ~~CRITICAL: drops the table~~",
            "- CRITICAL: src/a.rs:1 drops the table (resolved)",
            "- High: the missing lock is fixed",
            "### Critical Issues\n- None.",
            "### Critical Issues\nNone found.\n\n### Notes\n- nice work",
            "| Critical | 0 |\n| High | none |",
            "| Severity | Count |",
            "- High-level structure is good",
            "- Low: a typo in the README",
        ] {
            let verdict = read_text(&format!("**Verdict: APPROVED**\n\n{line}\n"));
            assert_eq!(verdict, Verdict::Approved, "{line}");
        }
    }
}
