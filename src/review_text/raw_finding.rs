//! A finding as written, in any vocabulary, and its conversion into remand's types.
//!
//! Nothing is dropped here: anything that is not understood is read as blocking, and noted.

use crate::finding::{Category, Finding, Severity};

const TEXT_BYTES: usize = 8 * 1024;
const PATH_BYTES: usize = 1024;

/// Text of a reviewer that has not been interpreted yet.
#[derive(Debug, Default, Clone)]
pub(super) struct Draft {
    pub(super) severity: String,
    pub(super) category: String,
    pub(super) path: String,
    pub(super) line: Option<u32>,
    pub(super) line_end: Option<u32>,
    pub(super) title: String,
    pub(super) text: String,
    pub(super) failure: String,
    pub(super) suggestion: String,
}

/// Notes for a person about how the findings were read.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) unknown_severities: Vec<String>,
    pub(super) odd_paths: usize,
    pub(super) cut_texts: usize,
}

impl Draft {
    pub(super) fn finish(self, threshold: Severity, notes: &mut Notes) -> Finding {
        let severity = severity(&self.severity).unwrap_or_else(|| {
            notes
                .unknown_severities
                .push(self.severity.chars().take(40).collect());
            Severity::Medium.min(threshold)
        });
        let mut text = self.text.trim().to_owned();
        let own_lines = self.line.map(|line| (line, self.line_end));
        let (path, lines) = match place(&self.path) {
            Place::Path(path, lines) => (Some(path), own_lines.or(lines)),
            Place::Nowhere => (None, own_lines),
            Place::Outside => {
                notes.odd_paths += 1;
                text = format!("{text} (at `{}`)", self.path.trim());
                (None, own_lines)
            }
        };
        let lines = lines.filter(|(line, _)| *line > 0);
        let line_end = lines.and_then(|(line, end)| end.filter(|end| *end > line));
        let mut optional = |text: &str| {
            let text = text.trim();
            (!text.is_empty()).then(|| capped(text, notes))
        };
        Finding {
            severity,
            category: category(&self.category).unwrap_or(Category::Logic),
            path,
            line: lines.map(|(line, _)| line),
            line_end,
            title: optional(&self.title),
            failure: optional(&self.failure),
            suggestion: optional(&self.suggestion),
            text: capped(&text, notes),
            ..Finding::default()
        }
    }
}

pub(super) fn severity(word: &str) -> Option<Severity> {
    match word.trim().to_lowercase().as_str() {
        "critical" | "blocker" => Some(Severity::Critical),
        "high" | "error" | "major" => Some(Severity::High),
        "medium" | "warning" | "warn" | "moderate" => Some(Severity::Medium),
        "low" | "info" | "minor" => Some(Severity::Low),
        "suggestion" | "nit" | "nitpick" => Some(Severity::Suggestion),
        _ => None,
    }
}

/// Returns true if a text only states that there is no finding.
pub(super) fn is_nothing(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "",
        "0",
        "na",
        "nil",
        "no",
        "none",
        "nonefound",
        "nofindings",
        "noissues",
        "noissuesfound",
        "nothing",
    ];
    WORDS.contains(&super::json::squashed(text).as_str())
}

/// Returns the category; its first word decides: "Code Quality", "Test Coverage".
pub(super) fn category(words: &str) -> Option<Category> {
    let first = words
        .split(|c: char| !c.is_alphabetic())
        .find(|word| !word.is_empty())?
        .to_lowercase();
    match first.as_str() {
        "compliance" => Some(Category::Compliance),
        "security" => Some(Category::Security),
        "architecture" | "design" => Some(Category::Architecture),
        "logic" | "code" | "bug" | "correctness" => Some(Category::Logic),
        "style" => Some(Category::Style),
        "performance" => Some(Category::Performance),
        "testing" | "test" | "tests" => Some(Category::Testing),
        "documentation" | "docs" => Some(Category::Documentation),
        _ => None,
    }
}

/// First and last line of a range.
pub(super) type Lines = (u32, Option<u32>);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    Path(String, Option<Lines>),
    Nowhere,
    /// Absolute, outside the worktree, or not a path at all.
    Outside,
}

/// Parses a location: `./src/a.rs:12-14` is `src/a.rs`, lines 12 to 14.
pub(super) fn place(text: &str) -> Place {
    let text = text.trim().trim_matches(['`', '*', '"', '\'']);
    if matches!(
        text.to_lowercase().as_str(),
        "" | "-" | "n/a" | "none" | "null" | "general"
    ) {
        return Place::Nowhere;
    }
    let (path, lines) = text
        .rsplit_once(':')
        .and_then(|(path, range)| Some((path, Some(lines(range)?))))
        .unwrap_or((text, None));
    let mut path = path.trim_matches(['`', '*']).replace('\\', "/");
    while let Some(rest) = path.strip_prefix("./") {
        path = rest.trim_start_matches('/').to_owned();
    }
    let is_odd = path.is_empty()
        || path.len() > PATH_BYTES
        || path.starts_with(['/', '~'])
        || path.contains(':')
        || path.contains(char::is_control)
        || path.split('/').any(|part| part == "..");
    if is_odd {
        Place::Outside
    } else {
        Place::Path(path, lines)
    }
}

/// Returns the 12 of `12`, `12-14`, `L12` and `12:5`, and the 14 of `12-14` and `L12-L14`.
pub(super) fn lines(text: &str) -> Option<Lines> {
    let last = text
        .rsplit_once(['-', '–'])
        .and_then(|(_, last)| first_number(last));
    Some((first_number(text)?, last))
}

fn first_number(text: &str) -> Option<u32> {
    let text = text
        .trim()
        .trim_start_matches(['L', 'l', '#', '[', '`', '*']);
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_range = rest
        .chars()
        .all(|c| c.is_ascii_digit() || " -–,:Ll]`*".contains(c));
    is_range.then(|| text.get(..text.len() - rest.len())?.parse().ok())?
}

/// Cuts a text at the limit, between characters.
pub(super) fn capped(text: &str, notes: &mut Notes) -> String {
    if text.len() <= TEXT_BYTES {
        return text.to_owned();
    }
    notes.cut_texts += 1;
    let end = text.floor_char_boundary(TEXT_BYTES - '…'.len_utf8());
    format!("{}…", text.get(..end).unwrap_or_default())
}

impl Notes {
    pub(super) fn sentences(&self) -> Vec<String> {
        let unknown = self.unknown_severities.first().map(|word| {
            let n = self.unknown_severities.len();
            format!("{n} findings with an unknown severity (`{word}`) count as blocking.")
        });
        let odd = (self.odd_paths > 0).then(|| {
            format!(
                "{} paths outside the worktree are kept as text.",
                self.odd_paths
            )
        });
        let cut = (self.cut_texts > 0)
            .then(|| format!("{} texts were cut at {TEXT_BYTES} bytes.", self.cut_texts));
        [unknown, odd, cut].into_iter().flatten().collect()
    }
}
