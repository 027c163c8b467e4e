//! Findings in a review that has no JSON: bullets and headings that carry a severity.
//!
//! Only forms that are certainly findings are parsed; the rest stays in the body, which the fix
//! agent gets in full.

use super::key_value::{is_emphasis, keyed, undecorated};
use super::markdown::{BlockKind, Document, TextLine, after_markers};
use super::raw_finding::{self, Draft, Place as Spot};

pub(super) fn drafts(page: &Document<'_>) -> Vec<Draft> {
    let mut reader = Reader::default();
    for line in &page.lines {
        match line.place {
            BlockKind::Body | BlockKind::Folded => reader.read(line),
            BlockKind::Fence => reader.read_code(&line.text),
            BlockKind::Quote | BlockKind::Code | BlockKind::Comment | BlockKind::Html => {}
        }
    }
    reader.go_on_with(None);
    let mut drafts = reader.done;
    drafts.retain(|draft| !raw_finding::is_nothing(&draft.text));
    drafts
}

/// Returns true if the text of a finding ends with "(resolved)" or similar: a re-review that goes
/// through earlier findings.
pub(super) fn is_settled(draft: &Draft) -> bool {
    let text = draft
        .text
        .trim_end_matches(|c: char| !c.is_alphanumeric())
        .to_lowercase();
    ["resolved", "fixed", "addressed"].iter().any(|word| {
        let before = text
            .strip_suffix(word)
            .map(|before| before.trim_end_matches(is_emphasis));
        before.is_some_and(|before| before.ends_with(['(', '[', '—', '–', ':', '-', '→', '✅']))
    })
}

#[derive(Default)]
struct Reader {
    done: Vec<Draft>,
    current: Option<Open>,
}

/// Finding whose lines are still being read.
struct Open {
    draft: Draft,
    shape: Shape,
    part: Part,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// `- **[CODE]** - error: …`, and indented lines.
    Bullet,
    /// `### [ERROR] Code: … (file:line)`, and everything up to the next heading or rule.
    Heading,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Text,
    Suggestion,
    CurrentCode,
}

impl Reader {
    fn read(&mut self, line: &TextLine<'_>) {
        if let Some(open) = opened_by(&line.text) {
            self.go_on_with(Some(open));
            return;
        }
        let Some(open) = &mut self.current else {
            return;
        };
        let text = line.text.trim();
        let is_indented = line.text.starts_with([' ', '\t']);
        let is_rule = !text.is_empty() && text.chars().all(|c| matches!(c, '-' | '*' | '_'));
        let ends = text.starts_with('#') || is_rule || (keyed(text).is_some() && !is_indented);
        if ends || (open.shape == Shape::Bullet && !text.is_empty() && !is_indented) {
            self.go_on_with(None);
        } else if !text.is_empty() {
            open.go_on(text);
        }
    }

    /// Ends the current finding.
    fn go_on_with(&mut self, next: Option<Open>) {
        let before = std::mem::replace(&mut self.current, next);
        self.done.extend(before.map(|before| before.draft));
    }

    fn read_code(&mut self, line: &str) {
        let is_marker =
            line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        let open = self.current.as_mut().filter(|_| !is_marker);
        if let Some(open) = open.filter(|open| open.part == Part::Suggestion) {
            append(&mut open.draft.suggestion, line, "\n");
        }
    }
}

impl Open {
    fn go_on(&mut self, text: &str) {
        let (name, value) = named(text).unwrap_or_default();
        match name.as_str() {
            "file" | "path" | "location" => self.draft.path = value.into(),
            "line" | "lines" => {
                let (line, line_end) = raw_finding::lines(value).unzip();
                self.draft.line = line;
                self.draft.line_end = line_end.flatten();
            }
            "suggestion" | "fix" | "suggested fix" => {
                self.part = Part::Suggestion;
                append(&mut self.draft.suggestion, value, "\n");
            }
            "description" => {
                self.part = Part::Text;
                append(&mut self.draft.text, value, ": ");
            }
            "current code" => self.part = Part::CurrentCode,
            _ => match self.part {
                Part::Text => append(&mut self.draft.text, text, "\n"),
                Part::Suggestion => append(&mut self.draft.suggestion, text, "\n"),
                Part::CurrentCode => {}
            },
        }
    }
}

fn append(to: &mut String, text: &str, between: &str) {
    if !to.is_empty() && !text.is_empty() {
        to.push_str(between);
    }
    to.push_str(text);
}

/// Parses `**File**: src/a.rs`, `- File: src/a.rs`.
fn named(text: &str) -> Option<(String, &str)> {
    let (name, value) = undecorated(text).split_once(':')?;
    let name = name.trim_matches(is_emphasis);
    (name.len() <= 20).then(|| (name.to_lowercase(), value.trim_matches(is_emphasis)))
}

fn opened_by(line: &str) -> Option<Open> {
    let trimmed = line.trim_start();
    let titled = trimmed.trim_start_matches('#');
    if titled.len() < trimmed.len() {
        let (severity, rest) = tagged(titled.trim_start())?;
        raw_finding::severity(severity)?;
        let is_bracketed = titled.trim_start().trim_start_matches('*').starts_with('[');
        let parts = rest
            .split_once(':')
            .filter(|(words, _)| raw_finding::category(words).is_some());
        let (category, title) = parts.or_else(|| is_bracketed.then_some(("", rest)))?;
        let draft = Draft {
            severity: severity.into(),
            category: category.into(),
            ..located(title)
        };
        return Some(Open {
            draft,
            shape: Shape::Heading,
            part: Part::Text,
        });
    }
    let item = after_markers(trimmed);
    // Without a bullet, `[ERROR]` and `[WARNING]` are typical of tool logs.
    let is_plain = |word: &str| {
        matches!(
            word.to_lowercase().as_str(),
            "critical" | "blocker" | "high" | "major" | "medium"
        )
    };
    let is_item = item.len() < trimmed.len();
    let is_bracketed = item.trim_start_matches('*').starts_with('[');
    let (word, rest) =
        tagged(item).filter(|(word, _)| is_item || (is_bracketed && is_plain(word)))?;
    let (severity, category, text) = if raw_finding::severity(word).is_some() {
        let again = tagged(rest).filter(|(word, _)| raw_finding::category(word).is_some());
        again.map_or((word, "", rest), |(category, text)| (word, category, text))
    } else {
        raw_finding::category(word)?;
        let (severity, text) = rest.split_once(':')?;
        let severity = severity.trim_matches(is_emphasis);
        let is_word = !severity.is_empty() && severity.chars().all(char::is_alphabetic);
        is_word.then_some((severity, word, text))?
    };
    let draft = Draft {
        severity: severity.into(),
        category: category.into(),
        ..located(text)
    };
    (!draft.text.is_empty()).then_some(Open {
        draft,
        shape: Shape::Bullet,
        part: Part::Text,
    })
}

/// Parses `[WORD] rest`, `**[WORD]** - rest`, `**WORD**: rest`, `**WORD:** rest`.
fn tagged(text: &str) -> Option<(&str, &str)> {
    let bare = text.trim_start_matches('*');
    if let Some((word, rest)) = bare.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let rest = rest.trim_start_matches('*');
        return (!rest.starts_with('('))
            .then(|| (word.trim(), rest.trim_start_matches(is_between)));
    }
    let (word, rest) = text.strip_prefix("**")?.split_once("**")?;
    let is_separated = word.ends_with(':') || rest.trim_start().starts_with([':', '-', '–', '—']);
    let word = word.trim_end_matches(':').trim();
    is_separated.then(|| (word, rest.trim_start_matches(is_between)))
}

/// Returns true for characters between a label and its text.
fn is_between(c: char) -> bool {
    c.is_whitespace() || matches!(c, ':' | '-' | '–' | '—')
}

/// Parses a text with its location before (`src/a.rs:3 - …`) or after it (`… (src/a.rs:3)`).
fn located(text: &str) -> Draft {
    let text = text.trim();
    let is_edge = |c: char| matches!(c, '(' | ')' | '[' | ']' | ',' | ':' | '`' | '*');
    let looks_like_path = |word: &str| match raw_finding::place(word) {
        Spot::Path(path, line) => {
            path.contains(['.', '/']) && (line.is_some() || path.contains('/'))
        }
        Spot::Nowhere | Spot::Outside => false,
    };
    let (first, after) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let first = first.trim_matches(is_edge);
    let behind = || {
        let (title, place) = text.strip_suffix(')')?.rsplit_once('(')?;
        let is_path = !place.contains(char::is_whitespace) && looks_like_path(place);
        is_path.then(|| (place, title.trim()))
    };
    let (path, text) = if looks_like_path(first) {
        (first, after.trim_start_matches(is_between))
    } else {
        behind().unwrap_or(("", text))
    };
    Draft {
        path: path.into(),
        text: text.into(),
        ..Draft::default()
    }
}
