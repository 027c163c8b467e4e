//! One line of a review as `KEY: value`, in the many ways people and models decorate that. Only a line that *begins*
//! with its key has one: a verdict in the middle of a sentence is prose.

/// The keys this room knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    ReviewResult,
    Verdict,
    Decision,
    FindingsCount,
    Severity,
    Summary,
}

/// Spelled without case and without what stands between the words.
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

/// The key the line begins with and the value after it; the value of a key that stands alone is empty.
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

/// The line without bullets, numbers, headings, emphasis and pictures in front.
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

/// The longest run of words at the start that `table` knows, and what stands after it. The words may be
/// separated by spaces, underscores and hyphens, or by nothing.
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

/// What may stand around a word without changing it.
pub(super) fn is_emphasis(c: char) -> bool {
    c.is_whitespace() || matches!(c, '*' | '_' | '`')
}

/// Marks and pictures, but no bracket, quotation mark or strike-through: those change what a line says. A minus or plus
/// without a space after it is no bullet but a line of a diff.
pub(super) fn is_decoration(c: char) -> bool {
    is_emphasis(c) || c == '#' || is_picture(c)
}

pub(super) fn is_picture(c: char) -> bool {
    !c.is_ascii() && !c.is_alphanumeric() && !"“”„‘’‚«»‹›「」『』：–—…→".contains(c)
}
