//! One line of a review as `KEY: value`, in the many ways in which people and models decorate it.
//!
//! Only a line that *starts* with its key has one: a verdict in the middle of a sentence is prose.

/// Known keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    ReviewResult,
    Verdict,
    Decision,
    FindingsCount,
    Severity,
    Summary,
}

/// Keys in lower case, without separators between the words.
const KEYS: &[(&str, Key)] = &[
    ("reviewresult", Key::ReviewResult),
    ("verdict", Key::Verdict),
    ("reviewverdict", Key::Verdict),
    ("finalverdict", Key::Verdict),
    ("overallverdict", Key::Verdict),
    ("decision", Key::Decision),
    ("approvaldecision", Key::Decision),
    ("reviewdecision", Key::Decision),
    ("findingscount", Key::FindingsCount),
    ("severity", Key::Severity),
    ("summary", Key::Summary),
];

/// Returns the key at the start of a line and the value after it; empty for a key that stands
/// alone.
pub(super) fn keyed(line: &str) -> Option<(Key, &str)> {
    let (key, rest) = phrase(undecorated(line), KEYS)?;
    let rest = rest.trim_start_matches(is_emphasis);
    if rest.is_empty() {
        return Some((key, rest));
    }
    let value = rest.strip_prefix([':', '：', '–', '—', '→']).or_else(|| {
        let dash = rest.strip_prefix("->").or_else(|| rest.strip_prefix("- "));
        dash.or_else(|| rest.strip_prefix("=>"))
            .or_else(|| rest.strip_prefix('='))
    })?;
    Some((key, value.trim()))
}

/// Removes leading bullets, numbers, headings, emphasis and emoji from a line.
pub(super) fn undecorated(line: &str) -> &str {
    let mut rest = line;
    loop {
        let plain = super::markdown::after_markers(rest).trim_start_matches(is_decoration);
        if plain.len() == rest.len() {
            return rest;
        }
        rest = plain;
    }
}

/// Returns the longest sequence of words at the start that is in `table`, and the text after it.
/// The words may be separated by spaces, underscores and hyphens, or by nothing.
pub(super) fn phrase<'a, T: Copy>(text: &'a str, table: &[(&str, T)]) -> Option<(T, &'a str)> {
    const WORDS: usize = 3;
    let mut squashed = String::new();
    let mut rest = text;
    let mut best = None;
    for _ in 0..WORDS {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let length = rest.len() - after.len();
        if length == 0 || squashed.len() + length > 40 || after.starts_with(char::is_alphanumeric) {
            break;
        }
        squashed.extend(rest.chars().take(length).map(|c| c.to_ascii_lowercase()));
        if let Some((_, meaning)) = table.iter().find(|(spelling, _)| *spelling == squashed) {
            best = Some((*meaning, after));
        }
        rest = after.trim_start_matches([' ', '_', '-', '\\']);
    }
    best
}

/// Returns true for characters that may surround a word without changing it.
pub(super) fn is_emphasis(c: char) -> bool {
    c.is_whitespace() || matches!(c, '*' | '_' | '`')
}

/// Returns true for marks and emoji, but not for brackets, quotation marks or strike-through: those
/// change the meaning of a line. A minus or plus without a space after it is not a bullet but a
/// line of a diff.
pub(super) fn is_decoration(c: char) -> bool {
    is_emphasis(c) || c == '#' || is_picture(c)
}

pub(super) fn is_picture(c: char) -> bool {
    !c.is_ascii() && !c.is_alphanumeric() && !"“”„‘’‚«»‹›「」『』：–—…→".contains(c)
}
