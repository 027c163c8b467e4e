//! Lines of the contract besides the verdict: number of findings, worst severity, and summary.

use super::json_block::Sheet;
use super::key_value::{Key, is_emphasis, keyed};
use super::markdown::{BlockKind, Document};
use super::raw_finding;
use crate::finding::Severity;

#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) count: Option<usize>,
    pub(super) severity: Option<Severity>,
    pub(super) summary: Option<String>,
}

impl Fields {
    /// Merges the values that the JSON gives next to its verdict, where they are worse.
    pub(super) fn with(self, sheet: &Sheet) -> Self {
        let severity = self.severity.into_iter().chain(sheet.severity).min();
        Self {
            count: self.count.max(sheet.count),
            severity,
            summary: self.summary,
        }
    }
}

/// Parses the contract lines. Among lines with the same key, the first after the verdict counts,
/// otherwise the last before it: findings in prose have severities too.
pub(super) fn fields(page: &Document<'_>, verdict_at: Option<usize>) -> Fields {
    let mut fields = Fields::default();
    let mut worst: Option<Option<Severity>> = None;
    let from = verdict_at.unwrap_or(0);
    let (mut count_after, mut severity_after, mut summary_after) = (false, false, false);
    for (at, line) in page.body() {
        let Some((key, value)) = keyed(&line.text) else {
            continue;
        };
        let after = at >= from;
        match key {
            Key::FindingsCount => {
                take(&mut fields.count, &mut count_after, after, || number(value));
            }
            Key::Severity => take(&mut worst, &mut severity_after, after, || severity(value)),
            Key::Summary => take(&mut fields.summary, &mut summary_after, after, || {
                paragraph(page, at, value)
            }),
            Key::ReviewResult | Key::Verdict | Key::Decision => {}
        }
    }
    fields.severity = worst.flatten();
    fields
}

fn take<T>(
    slot: &mut Option<T>,
    settled: &mut bool,
    after: bool,
    read: impl FnOnce() -> Option<T>,
) {
    if *settled {
        return;
    }
    if let Some(value) = read() {
        *slot = Some(value);
        *settled = after;
    }
}

/// Parses `critical`, optionally followed by an explanation, or `none`; not the choices of a
/// template.
fn severity(value: &str) -> Option<Option<Severity>> {
    let value = value.trim_matches(|c: char| is_emphasis(c) || c == '.');
    let (word, rest) = value
        .split_once(|c: char| !c.is_alphabetic())
        .unwrap_or((value, ""));
    if raw_finding::is_nothing(word) {
        return Some(None).filter(|_| !value.is_empty());
    }
    raw_finding::severity(word)
        .filter(|_| !rest.contains(['|', '/']))
        .map(Some)
}

fn number(value: &str) -> Option<usize> {
    let value = value.trim_start_matches(is_emphasis);
    let digits: String = value
        .chars()
        .take_while(char::is_ascii_digit)
        .take(9)
        .collect();
    if digits.is_empty() && value.to_lowercase().starts_with("none") {
        return Some(0);
    }
    digits.parse().ok()
}

/// Returns the value and its continuation lines, up to a blank line, a heading, a list or another
/// key.
fn paragraph(page: &Document<'_>, at: usize, value: &str) -> Option<String> {
    const LINES: usize = 20;
    let mut words: Vec<&str> = vec![value.trim_matches(is_emphasis)];
    for line in page.lines.iter().skip(at + 1).take(LINES) {
        let text = line.text.trim();
        if text.is_empty() && words.iter().all(|word| word.is_empty()) {
            continue;
        }
        let new_part =
            text.is_empty() || text.starts_with(['#', '-', '*', '|', '{']) || keyed(text).is_some();
        if new_part || line.place != BlockKind::Body {
            break;
        }
        words.push(text);
    }
    let text = words.join(" ").trim().to_owned();
    let is_template = text.starts_with('<') || text.starts_with('{');
    (!text.is_empty() && !is_template).then_some(text)
}
