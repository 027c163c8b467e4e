//! The file of a review, as Markdown. Pure. Text by agents and others is escaped where it is part of
//! a line, and fenced everywhere else, so that it cannot look like a heading, an item or an outcome.

use crate::blackboard::{OpenFinding, ReviewReport};
use crate::clock::Zone;
use crate::finding::{Category, Outcome, Verdict};
use crate::sanitize::{markdown_line, posted};
use crate::text::{prefixed, truncate};

/// Maximum number of columns of a title.
const TITLE: usize = 120;

/// Returns the file of a review. Times are in this zone.
pub(crate) fn review_markdown(report: &ReviewReport, zone: Zone) -> String {
    let parts = [
        header(report, zone),
        format!("## Overall summary\n\n{}", summary(report)),
        format!("## Compliance review\n\n{}", compliance(report)),
        format!("## Findings\n\n{}", findings(report)),
        format!("## Action required\n\n{}", action(report)),
    ];
    format!("{}\n", parts.join("\n\n"))
}

fn header(report: &ReviewReport, zone: Zone) -> String {
    let (change, review) = (&report.change, &report.review);
    let model = prefixed(", model ", review.model.as_deref().map(markdown_line));
    let lines = [
        (
            "Change",
            format!(
                "{} of {}",
                change.change_id,
                markdown_line(change.project_id.as_str())
            ),
        ),
        (
            "Branch",
            format!(
                "{} → {}",
                markdown_line(&change.branch),
                markdown_line(&change.base)
            ),
        ),
        (
            "Review",
            format!("{} of the change ({})", report.number, review.review_id),
        ),
        ("Verdict", format!("**{}**", verdict(review.verdict))),
        ("Reviewed at", review.created_at.text(zone)),
        (
            "Reviewed by",
            format!("{}{model}", markdown_line(&review.agent)),
        ),
        ("Head", markdown_line(&review.head)),
        ("Base", markdown_line(&review.base)),
        (
            "Fix",
            format!("{}/{}", review.cycle, change.budget.max_fix_cycles),
        ),
    ];
    let lines = lines.map(|(label, value)| format!("- {label}: {value}"));
    format!(
        "# Code review: {}\n\n{}",
        title(&change.title),
        lines.join("\n")
    )
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Approved => "approved",
        Verdict::ChangesRequested => "changes requested",
        Verdict::NeedsDiscussion => "needs discussion",
        Verdict::Unclear => "unclear",
    }
}

fn summary(report: &ReviewReport) -> String {
    match report.review.summary.as_deref() {
        Some(summary) if !summary.trim().is_empty() => fenced(summary),
        Some(_) | None => "The review has no summary.".to_owned(),
    }
}

/// The findings about compliance: those that are settled are met, the others are not.
fn compliance(report: &ReviewReport) -> String {
    let about = |stored: &&OpenFinding| stored.finding.category == Category::Compliance;
    let all: Vec<_> = report.findings.iter().filter(about).collect();
    if all.is_empty() {
        return "The review has no finding of category compliance.".to_owned();
    }
    let list = |heading: &str, outcomes: &[Outcome]| {
        let those = all.iter().filter(|one| outcomes.contains(&one.outcome));
        let items: Vec<String> = those
            .map(|one| format!("- {}{}\n", name(one), place(one)))
            .collect();
        let none = || "- none\n".to_owned();
        let items = if items.is_empty() {
            none()
        } else {
            items.concat()
        };
        format!("{heading}:\n\n{items}")
    };
    let mut lists = vec![
        list("✓ Met", &[Outcome::Resolved]),
        list(
            "❌ Not met",
            &[Outcome::Open, Outcome::Addressed, Outcome::Disputed],
        ),
    ];
    if all.iter().any(|one| one.outcome == Outcome::Waived) {
        lists.push(list("Waived by a person", &[Outcome::Waived]));
    }
    lists.join("\n").trim_end().to_owned()
}

fn findings(report: &ReviewReport) -> String {
    if report.findings.is_empty() {
        return "The review has no findings.".to_owned();
    }
    let all: Vec<String> = report.findings.iter().map(finding).collect();
    all.join("\n\n---\n\n")
}

fn finding(stored: &OpenFinding) -> String {
    let (finding, id) = (&stored.finding, &stored.finding_id);
    let severity = finding.severity.as_str().to_uppercase();
    let category = capitalized(finding.category.as_str());
    let mut lines = vec![
        format!(
            "### [{severity}] {category}: {}{}\n",
            name(stored),
            place(stored)
        ),
        format!("- Finding: {id}"),
        format!("- Outcome now: {}", stored.outcome),
    ];
    if let Some(path) = &finding.path {
        lines.push(format!("- File: {}", markdown_line(path)));
    }
    if let Some(line) = finding.line {
        let end = prefixed("-", finding.line_end);
        lines.push(format!("- Line: {line}{end}"));
    }
    if let Some(note) = stored.note.as_deref() {
        lines.push(format!("- Note: {}", markdown_line(note)));
    }
    lines.push(format!("\n{}", fenced(&finding.text)));
    for (label, text) in [
        ("Failure scenario", &finding.failure),
        ("Suggestion", &finding.suggestion),
    ] {
        if let Some(text) = text.as_deref().filter(|text| !text.trim().is_empty()) {
            lines.push(format!("\n{label}:\n\n{}", fenced(text)));
        }
    }
    lines.join("\n")
}

fn action(report: &ReviewReport) -> String {
    let open: Vec<String> = report
        .findings
        .iter()
        .filter(|one| !matches!(one.outcome, Outcome::Resolved | Outcome::Waived))
        .map(|one| {
            let severity = one.finding.severity;
            format!(
                "- {} ({severity}): {}{}",
                one.finding_id,
                name(one),
                place(one)
            )
        })
        .collect();
    let lead = match report.review.verdict {
        Verdict::Approved if open.is_empty() => "None.",
        Verdict::Approved => "None. These findings do not prevent the approval:",
        Verdict::ChangesRequested if open.is_empty() => {
            "None any more: all findings are resolved or waived."
        }
        Verdict::ChangesRequested => "Resolve these findings:",
        Verdict::NeedsDiscussion => "A person has to decide: the review asks for a discussion.",
        Verdict::Unclear => "A person has to read the review: its verdict is not clear.",
    };
    let list = open.join("\n");
    format!("{lead}\n\n{list}").trim_end().to_owned()
}

/// Title of a finding; without one, the first line of its text.
fn name(stored: &OpenFinding) -> String {
    let finding = &stored.finding;
    let text = finding.title.as_deref().unwrap_or(&finding.text);
    title(text.trim().lines().next().unwrap_or_default())
}

/// File and line in parentheses, with a leading space.
fn place(stored: &OpenFinding) -> String {
    let place = stored.finding.place();
    place.map_or_else(String::new, |place| format!(" ({})", markdown_line(&place)))
}

fn title(text: &str) -> String {
    markdown_line(&truncate(text.trim(), TITLE))
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Puts text between fences that are longer than any in it.
fn fenced(text: &str) -> String {
    let text = posted(text.trim_end());
    let (mut longest, mut run) = (2, 0);
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    format!("{fence}text\n{text}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_by_others_cannot_end_its_place() {
        assert_eq!(
            fenced("a\n```\n# Verdict: approved\n````\u{1b}[2J"),
            "`````text\na\n```\n# Verdict: approved\n````␛[2J\n`````"
        );
        assert_eq!(
            markdown_line("a\n## b <!-- [x](y) `z` \\"),
            "a \\#\\# b \\<\\!-- \\[x\\](y) \\`z\\` \\\\"
        );
        assert_eq!(markdown_line("a\r\nb\rc"), "a b␍c");
    }

    #[test]
    fn a_word_begins_with_a_capital() {
        assert_eq!([capitalized("logic"), capitalized("")], ["Logic", ""]);
    }
}
