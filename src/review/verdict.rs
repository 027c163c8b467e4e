//! The verdicts a review claims, line by line. It never guesses: what is not surely a verdict is unreadable, and an
//! approval has to be plainer than a rejection, because only an approval ends the loop.

use super::Dialect;
use super::line::{Key, is_decoration, is_emphasis, is_picture, keyed, phrase, undecorated};
use super::page::{Page, Place};
use crate::finding::Verdict;

/// One place where the review says what it concludes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) said: Said,
    pub(super) dialect: Dialect,
    pub(super) at: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    Verdict(Verdict),
    /// The key of a verdict with something else behind it, such as "not approved".
    Unreadable(String),
}

const PHRASES: &[(&str, Verdict)] = &[
    ("approved", Verdict::Approved),
    ("approve", Verdict::Approved),
    ("lgtm", Verdict::Approved),
    ("pass", Verdict::Approved),
    ("changesrequested", Verdict::ChangesRequested),
    ("changerequested", Verdict::ChangesRequested),
    ("requestchanges", Verdict::ChangesRequested),
    ("requestschanges", Verdict::ChangesRequested),
    ("requestingchanges", Verdict::ChangesRequested),
    ("changesrequired", Verdict::ChangesRequested),
    ("changesneeded", Verdict::ChangesRequested),
    ("needschanges", Verdict::ChangesRequested),
    ("needswork", Verdict::ChangesRequested),
    ("criticalissues", Verdict::ChangesRequested),
    ("rejected", Verdict::ChangesRequested),
    ("reject", Verdict::ChangesRequested),
    ("needsdiscussion", Verdict::NeedsDiscussion),
    ("needdiscussion", Verdict::NeedsDiscussion),
    ("discussionneeded", Verdict::NeedsDiscussion),
];

/// In brackets fewer words count: `[pass]` is how test runners speak.
const BRACKETED: &[(&str, Verdict)] = &[
    ("approved", Verdict::Approved),
    ("rejected", Verdict::ChangesRequested),
    ("changesrequested", Verdict::ChangesRequested),
    ("needsdiscussion", Verdict::NeedsDiscussion),
];

/// An explanation that begins with one of these takes the approval back.
const HEDGES: &[&str] = &[
    "after",
    "as long as",
    "assuming",
    "but",
    "conditional",
    "conditionally",
    "conditioned",
    "contingent",
    "except",
    "false",
    "however",
    "if",
    "not",
    "once",
    "only after",
    "only if",
    "only once",
    "only when",
    "pending",
    "provided",
    "subject",
    "though",
    "unless",
    "until",
    "when",
];

/// All claims in the reviewer's own words, in order. The prompt's template is not one.
pub(super) fn claims(page: &Page<'_>) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut heading: Option<Dialect> = None;
    for (at, line) in page.body() {
        let keyed = keyed(&line.text).and_then(|(key, value)| Some((dialect(key)?, value)));
        let (dialect, said) = match (keyed, heading) {
            (Some((dialect, "")), _) => {
                heading = Some(dialect);
                continue;
            }
            (Some((dialect, value)), _) => {
                let said = value_of(value, PHRASES, line.ended);
                (dialect, said.filter(|said| dialect != Dialect::Bracket || said.names_a_verdict()))
            }
            (None, _) if line.text.trim().is_empty() => continue,
            (None, None) => (Dialect::Bracket, bracketed(&line.text)),
            // "## Verdict", and the verdict alone on the next line. Prose there is a justification.
            (None, Some(dialect)) => {
                let said = value_of(&line.text, PHRASES, line.ended);
                (dialect, said.filter(|said| matches!(said, Said::Verdict(_))))
            }
        };
        heading = None;
        claims.extend(said.map(|said| Claim { said, dialect, at }));
    }
    claims
}

/// The verdict of a JSON object, which has no line of its own.
pub(super) fn of_word(word: &str) -> Option<Said> {
    value_of(word, PHRASES, true)
}

/// Whether a verdict stands where none counts, to say so to whoever looks for it.
pub(super) fn stands_elsewhere(page: &Page<'_>) -> bool {
    let elsewhere = page.lines.iter().filter(|line| line.place != Place::Body);
    elsewhere.map(|line| line.text.trim_start().trim_start_matches('>')).any(is_verdict_like)
}

/// Whether a line is about the verdict, wherever it stands.
pub(super) fn is_verdict_like(line: &str) -> bool {
    let is_keyed = keyed(line).is_some_and(|(key, value)| dialect(key).is_some() && of_word(value).is_some());
    is_keyed || bracketed(line).is_some()
}

pub(super) fn dialect(key: Key) -> Option<Dialect> {
    match key {
        Key::ReviewResult => Some(Dialect::Contract),
        Key::Verdict => Some(Dialect::VerdictLine),
        Key::Decision => Some(Dialect::Bracket),
        Key::FindingsCount | Key::Severity | Key::Summary => None,
    }
}

impl Said {
    fn unreadable(text: &str) -> Self {
        Self::Unreadable(text.trim().chars().take(80).collect())
    }

    /// "Decision: use a map" is about the code.
    fn names_a_verdict(&self) -> bool {
        match self {
            Self::Verdict(_) => true,
            Self::Unreadable(text) => ["approv", "reject"].iter().any(|stem| text.to_lowercase().contains(stem)),
        }
    }
}

/// What stands behind a key; nothing when that is empty or the prompt's own template.
fn value_of(value: &str, table: &[(&str, Verdict)], ended: bool) -> Option<Said> {
    let inner = value.trim_matches(|c: char| is_decoration(c) || is_quotation(c));
    if inner.is_empty() || inner.starts_with(['<', '{']) {
        return None;
    }
    if let Some((inside, after)) = inner.strip_prefix(['[', '(']).and_then(|rest| rest.split_once([']', ')'])) {
        return match alone(inside, table) {
            Some(verdict) => with_tail(verdict, after, value),
            None if inside.contains(['|', '/', ',']) || inside.contains(" or ") => None,
            None => Some(Said::unreadable(value)),
        };
    }
    match phrase(inner, table) {
        // The last letter may be missing because the output was cut here, and then the rest is missing too.
        Some((Verdict::Approved, "")) if !ended && inner.eq_ignore_ascii_case("approve") => {
            Some(Said::unreadable(value))
        }
        Some((verdict, tail)) => with_tail(verdict, tail, value),
        None => Some(Said::unreadable(value)),
    }
}

/// `**[APPROVED]**` at the start of a line, where it is no link.
fn bracketed(line: &str) -> Option<Said> {
    let (inside, after) = undecorated(line).strip_prefix('[')?.split_once(']')?;
    match alone(inside, BRACKETED) {
        // "**[APPROVED]** - if the implementation …" is the prompt that explains its words.
        Some(_) if after.trim_start_matches(|c: char| !c.is_alphanumeric()).starts_with("if ") => None,
        Some(verdict) if !after.starts_with(['(', ':', '[']) => with_tail(verdict, after, line),
        Some(_) | None => None,
    }
}

fn alone(text: &str, table: &[(&str, Verdict)]) -> Option<Verdict> {
    let text = text.trim_matches(|c: char| is_decoration(c) || is_quotation(c));
    phrase(text, table).filter(|(_, rest)| rest.is_empty()).map(|(verdict, _)| verdict)
}

/// What follows the verdict may explain it, list the other choices (then it is the template) or take it back.
fn with_tail(verdict: Verdict, tail: &str, whole: &str) -> Option<Said> {
    let glued = tail.strip_prefix(['-', '_']).is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
    let tail = tail.trim_matches(|c: char| is_emphasis(c) || is_quotation(c) || is_picture(c));
    let words = tail.trim_start_matches(|c: char| !c.is_alphanumeric());
    let start = words.chars().take(24).collect::<String>().to_lowercase();
    let next = phrase(words, PHRASES).map(|(next, _)| next).filter(|next| *next != verdict);
    if tail.starts_with(['|', '/']) || begins_with(&start, "or") || (tail.starts_with(',') && next.is_some()) {
        return None;
    }
    if verdict != Verdict::Approved {
        return Some(Said::Verdict(verdict));
    }
    let explained =
        tail.is_empty() || tail.starts_with(['.', '!', ',', ';', ':', '–', '—', '-', '(', '[', '…', ')', ']']);
    let is_denied = words.trim_end_matches(|c: char| !c.is_alphanumeric()).eq_ignore_ascii_case("no");
    if is_denied || glued || !explained || next.is_some() || HEDGES.iter().any(|hedge| begins_with(&start, hedge)) {
        return Some(Said::unreadable(whole));
    }
    Some(Said::Verdict(verdict))
}

fn begins_with(text: &str, words: &str) -> bool {
    text.strip_prefix(words).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

fn is_quotation(c: char) -> bool {
    matches!(c, '"' | '\'' | '“' | '”' | '‘' | '’')
}
