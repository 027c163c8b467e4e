//! Finds the verdicts that a review claims, line by line.
//!
//! It never guesses: text that is not certainly a verdict is unreadable, and an approval has to be
//! plainer than a rejection, because only an approval ends the loop.

use super::Dialect;
use super::html;
use super::key_value::{Key, is_decoration, is_emphasis, is_picture, keyed, phrase, undecorated};
use super::markdown::{BlockKind, Document};
use crate::finding::Verdict;

/// A place where the review states its conclusion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) verdict: ClaimedVerdict,
    pub(super) dialect: Dialect,
    pub(super) at: usize,
    is_under_heading: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ClaimedVerdict {
    Verdict(Verdict),
    /// The key of a verdict with another value, such as "not approved".
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

/// Words in brackets. Fewer words count: `[pass]` is typical of test runners.
const BRACKETED: &[(&str, Verdict)] = &[
    ("approved", Verdict::Approved),
    ("rejected", Verdict::ChangesRequested),
    ("changesrequested", Verdict::ChangesRequested),
    ("needsdiscussion", Verdict::NeedsDiscussion),
];

/// Words that are a verdict even without a key before them.
const BARE: &[(&str, Verdict)] = &[
    ("approved", Verdict::Approved),
    ("notapproved", Verdict::ChangesRequested),
    ("changesrequested", Verdict::ChangesRequested),
    ("changesrequired", Verdict::ChangesRequested),
    ("needschanges", Verdict::ChangesRequested),
    ("needswork", Verdict::ChangesRequested),
    ("rejected", Verdict::ChangesRequested),
    ("requestchanges", Verdict::ChangesRequested),
    ("requestingchanges", Verdict::ChangesRequested),
    ("needsdiscussion", Verdict::NeedsDiscussion),
];

/// Other keys after which people write a verdict. It counts only against another verdict.
const LOOSE_KEYS: &[(&str, ())] = &[
    ("assessment", ()),
    ("conclusion", ()),
    ("decision", ()),
    ("finalassessment", ()),
    ("finaldecision", ()),
    ("finalrecommendation", ()),
    ("finalresult", ()),
    ("finalstatus", ()),
    ("judgement", ()),
    ("judgment", ()),
    ("outcome", ()),
    ("overall", ()),
    ("overallassessment", ()),
    ("overallresult", ()),
    ("recommendation", ()),
    ("result", ()),
    ("review", ()),
    ("reviewoutcome", ()),
    ("reviewstatus", ()),
    ("status", ()),
];

/// An explanation that starts with one of these withdraws the approval.
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

/// Returns all claims in the reviewer's own words, in order. The prompt's template is not one.
pub(super) fn claims(page: &Document<'_>) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut heading: Option<Dialect> = None;
    for (at, line) in page.body() {
        let keyed = keyed(&line.text).and_then(|(key, value)| Some((dialect(key)?, value)));
        let (dialect, claimed) = match (keyed, heading) {
            (Some((dialect, "")), _) => {
                heading = Some(dialect);
                continue;
            }
            (Some((dialect, value)), _) => {
                let claimed = value_of(value, PHRASES, line.ended);
                (
                    dialect,
                    claimed
                        .filter(|claimed| dialect != Dialect::Bracket || claimed.names_a_verdict()),
                )
            }
            (None, _) if line.text.trim().is_empty() => continue,
            (None, None) => (Dialect::Bracket, bracketed(&line.text)),
            // "## Verdict", and the verdict alone on the next line. Prose there is a justification.
            (None, Some(dialect)) => {
                let claimed = value_of(&line.text, PHRASES, line.ended);
                let goes_on = claims
                    .last()
                    .is_some_and(|last: &Claim| last.is_under_heading);
                let is_section = goes_on && line.text.trim_start().starts_with('#');
                (
                    dialect,
                    claimed.filter(|claimed| {
                        matches!(claimed, ClaimedVerdict::Verdict(_)) && !is_section
                    }),
                )
            }
        };
        // Each following line that is a verdict is one more.
        let is_under_heading = keyed.is_none() && heading.is_some() && claimed.is_some();
        heading = heading.filter(|_| is_under_heading);
        claims.extend(claimed.map(|claimed| Claim {
            verdict: claimed,
            dialect,
            at,
            is_under_heading,
        }));
    }
    claims
}

/// Returns verdicts that stand alone on a line, or in a form that is not a claim. None of them
/// decides anything, but a review with a different verdict in one of them is not clear.
pub(super) fn bystanders(page: &Document<'_>) -> Vec<(usize, Verdict)> {
    let mut found = Vec::new();
    let mut before = Before::Break;
    for (at, line) in page.lines.iter().enumerate() {
        let claimed = (line.place == BlockKind::Body)
            .then(|| loose_verdict(&line.text, before))
            .flatten();
        found.extend(claimed.map(|verdict| (at, verdict)));
        let text = line.text.trim_start();
        let is_prose = !text.is_empty()
            && !text.starts_with('#')
            && keyed(text).is_none()
            && claimed.is_none();
        before = if is_prose && line.place == BlockKind::Body {
            Before::Prose
        } else {
            Before::Break
        };
    }
    found
}

/// Type of the preceding line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Break,
    Prose,
}

fn loose_verdict(line: &str, before: Before) -> Option<Verdict> {
    let dressed = html::without_tags(line);
    let text = match dressed.trim().strip_prefix('|') {
        Some(row) => {
            let cells: Vec<&str> = row
                .split('|')
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .take(3)
                .collect();
            (cells.len() < 3).then(|| cells.join(": "))?
        }
        None => dressed,
    };
    let keyed_verdict = keyed(&text)
        .filter(|(key, _)| dialect(*key).is_some())
        .and_then(|(_, value)| of_word(value));
    if let Some(ClaimedVerdict::Verdict(verdict)) = keyed_verdict {
        return Some(verdict);
    }
    let plain = undecorated(&text);
    let behind_key = phrase(plain, LOOSE_KEYS).and_then(|(_, rest)| {
        let value = rest
            .trim_start_matches(is_emphasis)
            .strip_prefix([':', '=', '–', '—'])?;
        alone(
            value
                .trim()
                .trim_end_matches(['.', '!'])
                .trim_matches(['[', ']']),
            BARE,
        )
    });
    behind_key.or_else(|| bare(&text, before))
}

/// Parses `CHANGES_REQUESTED`, `Rejected.` A title like "Changes requested" is the name of a
/// section, and the last word of a paragraph may be on a line by itself.
fn bare(line: &str, before: Before) -> Option<Verdict> {
    let line = line.trim();
    let plain = undecorated(line);
    let (verdict, rest) = phrase(plain, BARE)?;
    let words = plain.get(..plain.len() - rest.len()).unwrap_or_default();
    let is_token = words.contains('_') || !words.contains(char::is_lowercase);
    let is_title = line.starts_with('#')
        || line.ends_with(':')
        || (line.starts_with("**") && line.ends_with("**"));
    let rest = rest.trim_matches(|c: char| is_decoration(c) || is_quotation(c));
    if rest.trim_matches(['.', '!']).is_empty() {
        let is_one_word = verdict != Verdict::Approved && words.eq_ignore_ascii_case("rejected");
        return (is_token || (before == Before::Break && (!is_title || is_one_word)))
            .then_some(verdict);
    }
    let is_explained =
        is_token && verdict != Verdict::Approved && rest.starts_with([':', '-', '–', '—', '(']);
    is_explained.then_some(verdict)
}

/// Parses the verdict of a JSON object, which has no line.
pub(super) fn of_word(word: &str) -> Option<ClaimedVerdict> {
    value_of(word, PHRASES, true)
}

/// Returns true if there is a verdict where none counts, so that this can be reported.
pub(super) fn stands_elsewhere(page: &Document<'_>) -> bool {
    let elsewhere = page
        .lines
        .iter()
        .filter(|line| line.place != BlockKind::Body);
    elsewhere
        .map(|line| line.text.trim_start().trim_start_matches('>'))
        .any(is_verdict_like)
}

/// Returns true if a line is about the verdict, whatever its context.
pub(super) fn is_verdict_like(line: &str) -> bool {
    let is_keyed =
        keyed(line).is_some_and(|(key, value)| dialect(key).is_some() && of_word(value).is_some());
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

impl ClaimedVerdict {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Verdict(verdict) => verdict.as_str(),
            Self::Unreadable(text) => text,
        }
    }

    pub(super) fn is_rejection(&self) -> bool {
        matches!(self, Self::Verdict(verdict) if *verdict != Verdict::Approved)
    }

    fn unreadable(text: &str) -> Self {
        Self::Unreadable(text.trim().chars().take(80).collect())
    }

    /// Returns false for "Decision: use a map", which is about the code.
    fn names_a_verdict(&self) -> bool {
        match self {
            Self::Verdict(_) => true,
            Self::Unreadable(text) => ["approv", "reject"]
                .iter()
                .any(|stem| text.to_lowercase().contains(stem)),
        }
    }
}

/// Parses the text after a key; `None` if that is empty or the prompt's template.
fn value_of(value: &str, table: &[(&str, Verdict)], ended: bool) -> Option<ClaimedVerdict> {
    let inner = value.trim_matches(|c: char| is_decoration(c) || is_quotation(c));
    if inner.is_empty() || inner.starts_with(['<', '{']) {
        return None;
    }
    if let Some((inside, after)) = inner
        .strip_prefix(['[', '('])
        .and_then(|rest| rest.split_once([']', ')']))
    {
        return match alone(inside, table) {
            Some(verdict) => with_tail(verdict, after, value),
            None if inside.contains(['|', '/', ',']) || inside.contains(" or ") => None,
            None => Some(ClaimedVerdict::unreadable(value)),
        };
    }
    match phrase(inner, table) {
        // The last letter may be missing because the output was cut here, and then the rest is
        // missing too.
        Some((Verdict::Approved, "")) if !ended && inner.eq_ignore_ascii_case("approve") => {
            Some(ClaimedVerdict::unreadable(value))
        }
        Some((verdict, tail)) => with_tail(verdict, tail, value),
        None => Some(ClaimedVerdict::unreadable(value)),
    }
}

/// Parses `**[APPROVED]**` at the start of a line, where it is not a link.
fn bracketed(line: &str) -> Option<ClaimedVerdict> {
    let (inside, after) = undecorated(line).strip_prefix('[')?.split_once(']')?;
    match alone(inside, BRACKETED) {
        // "**[APPROVED]** - if the implementation …" is the prompt that explains its words.
        Some(_)
            if after
                .trim_start_matches(|c: char| !c.is_alphanumeric())
                .starts_with("if ") =>
        {
            None
        }
        Some(verdict) if !after.starts_with(['(', ':', '[']) => with_tail(verdict, after, line),
        Some(_) | None => None,
    }
}

fn alone(text: &str, table: &[(&str, Verdict)]) -> Option<Verdict> {
    let text = text.trim_matches(|c: char| is_decoration(c) || is_quotation(c));
    phrase(text, table)
        .filter(|(_, rest)| rest.is_empty())
        .map(|(verdict, _)| verdict)
}

/// Interprets the text after a verdict, which may explain it, list the other choices (then it is
/// the template) or withdraw it.
fn with_tail(verdict: Verdict, tail: &str, whole: &str) -> Option<ClaimedVerdict> {
    let glued = tail
        .strip_prefix(['-', '_'])
        .is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
    let tail = tail.trim_matches(|c: char| is_emphasis(c) || is_quotation(c) || is_picture(c));
    let words = tail.trim_start_matches(|c: char| !c.is_alphanumeric());
    let start = words.chars().take(24).collect::<String>().to_lowercase();
    let next = phrase(words, PHRASES)
        .map(|(next, _)| next)
        .filter(|next| *next != verdict);
    if tail.starts_with(['|', '/'])
        || begins_with(&start, "or")
        || (tail.starts_with(',') && next.is_some())
    {
        return None;
    }
    if verdict != Verdict::Approved {
        return Some(ClaimedVerdict::Verdict(verdict));
    }
    let explained = tail.is_empty()
        || tail.starts_with([
            '.', '!', ',', ';', ':', '–', '—', '-', '(', '[', '…', ')', ']',
        ]);
    let is_denied = words
        .trim_end_matches(|c: char| !c.is_alphanumeric())
        .eq_ignore_ascii_case("no");
    if is_denied
        || glued
        || !explained
        || next.is_some()
        || HEDGES.iter().any(|hedge| begins_with(&start, hedge))
    {
        return Some(ClaimedVerdict::unreadable(whole));
    }
    Some(ClaimedVerdict::Verdict(verdict))
}

fn begins_with(text: &str, words: &str) -> bool {
    text.strip_prefix(words)
        .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

fn is_quotation(c: char) -> bool {
    matches!(c, '"' | '\'' | '“' | '”' | '‘' | '’')
}
