//! Finds secrets by their pattern. This is hygiene and not a security boundary: a secret can easily
//! be hidden from it.

use std::ops::Range;

/// Kind and position of a detected secret. The text itself is never kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretHit {
    pub(crate) kind: &'static str,
    pub(crate) at: Range<usize>,
}

/// Prefix that identifies a secret, and the form of the rest.
struct Shape {
    kind: &'static str,
    prefix: &'static str,
    /// Minimum length of the part after the prefix.
    least: usize,
    letters: fn(u8) -> bool,
    /// Requires upper case, lower case and digits. Words joined by dashes do not have all three.
    is_mixed: bool,
    /// Requires a length of exactly `least`, with no letter or digit on either side.
    is_exact: bool,
}

const fn shape(
    kind: &'static str,
    prefix: &'static str,
    least: usize,
    letters: fn(u8) -> bool,
) -> Shape {
    Shape {
        kind,
        prefix,
        least,
        letters,
        is_mixed: false,
        is_exact: false,
    }
}

const SHAPES: &[Shape] = &[
    shape("a GitHub token", "ghp_", 30, word),
    shape("a GitHub token", "gho_", 30, word),
    shape("a GitHub token", "ghu_", 30, word),
    shape("a GitHub token", "ghs_", 30, word),
    shape("a GitHub token", "ghr_", 30, word),
    shape("a GitHub token", "github_pat_", 30, word),
    shape("an Anthropic key", "sk-ant-", 20, word_or_dash),
    Shape {
        is_mixed: true,
        ..shape("an API key", "sk-", 32, word_or_dash)
    },
    shape("a Slack token", "xoxa-", 20, word_or_dash),
    shape("a Slack token", "xoxb-", 20, word_or_dash),
    shape("a Slack token", "xoxe-", 20, word_or_dash),
    shape("a Slack token", "xoxp-", 20, word_or_dash),
    shape("a Slack token", "xoxr-", 20, word_or_dash),
    shape("a Slack token", "xoxs-", 20, word_or_dash),
    Shape {
        is_exact: true,
        ..shape("an AWS key", "AKIA", 16, upper)
    },
    Shape {
        is_exact: true,
        ..shape("an AWS key", "ASIA", 16, upper)
    },
];

pub(crate) fn has_any(bytes: &[u8]) -> bool {
    !find(bytes).is_empty()
}

/// Returns the text with every secret masked.
pub(crate) fn hide(text: &str) -> String {
    let mut masked = String::new();
    let mut from = 0;
    for SecretHit { at, .. } in find(text.as_bytes()) {
        masked.push_str(text.get(from..at.start).unwrap_or_default());
        masked.push_str("***");
        from = at.end;
    }
    masked.push_str(text.get(from..).unwrap_or_default());
    masked
}

/// Returns everything that looks like a secret, in order and without overlaps. Placeholders are
/// skipped.
pub(crate) fn find(bytes: &[u8]) -> Vec<SecretHit> {
    let mut hits: Vec<SecretHit> = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let hit = match byte {
            b'g' | b's' | b'x' | b'A' => SHAPES.iter().find_map(|shape| shape.at(bytes, at)),
            b'-' => private_key(bytes, at),
            b'e' => web_token(bytes, at),
            b':' => password_in_url(bytes, at),
            _ => None,
        };
        at = hit.as_ref().map_or(at + 1, |hit| hit.at.end.max(at + 1));
        hits.extend(hit);
    }
    hits
}

impl Shape {
    fn at(&self, bytes: &[u8], at: usize) -> Option<SecretHit> {
        let rest = bytes.get(at..)?.strip_prefix(self.prefix.as_bytes())?;
        let length = run(rest, self.letters);
        let value = rest.get(..length)?;
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        let stands_alone = !before.is_some_and(|b| b.is_ascii_alphanumeric());
        let is_mixed = value.iter().any(u8::is_ascii_uppercase)
            && value.iter().any(u8::is_ascii_lowercase)
            && value.iter().any(u8::is_ascii_digit);
        if length < self.least
            || (self.is_mixed && !(is_mixed && stands_alone))
            || is_placeholder(value)
        {
            return None;
        }
        let after = rest.get(length);
        if self.is_exact
            && (length != self.least
                || !stands_alone
                || after.is_some_and(u8::is_ascii_alphanumeric))
        {
            return None;
        }
        Some(SecretHit {
            kind: self.kind,
            at: at..at + self.prefix.len() + length,
        })
    }
}

/// Matches `-----BEGIN … PRIVATE KEY-----` followed by a key. The line alone occurs in every
/// program that reads keys.
fn private_key(bytes: &[u8], at: usize) -> Option<SecretHit> {
    let rest = bytes.get(at..)?.strip_prefix(b"-----BEGIN ")?;
    let title = rest.get(..rest.len().min(60))?;
    let name_end = position(title, b"PRIVATE KEY")? + b"PRIVATE KEY".len();
    let behind = rest.get(name_end..)?;
    let near = behind.get(..behind.len().min(600))?;
    let mut runs = near.split(|b| !(b.is_ascii_alphanumeric() || b"+/=".contains(b)));
    let key = runs.find(|run| run.len() >= 40 && !is_placeholder(run))?;
    let end = near.windows(key.len()).position(|window| window == key)? + key.len();
    Some(SecretHit {
        kind: "a private key",
        at: at..at + b"-----BEGIN ".len() + name_end + end,
    })
}

/// Matches three parts of base64 separated by dots, the first two of which are JSON.
fn web_token(bytes: &[u8], at: usize) -> Option<SecretHit> {
    let rest = bytes.get(at..)?;
    let head = run(rest, word_or_dash);
    let second = rest.get(head..)?.strip_prefix(b".")?;
    let body = run(second, word_or_dash);
    let third = second.get(body..)?.strip_prefix(b".")?;
    let tail = run(third, word_or_dash);
    let is_json = rest.starts_with(b"eyJ") && second.starts_with(b"eyJ");
    if !is_json
        || head < 12
        || body < 12
        || tail < 20
        || third.get(..tail).is_some_and(is_placeholder)
    {
        return None;
    }
    Some(SecretHit {
        kind: "a JSON web token",
        at: at..at + head + body + tail + 2,
    })
}

/// Matches `://user:password@host`.
fn password_in_url(bytes: &[u8], at: usize) -> Option<SecretHit> {
    let rest = bytes.get(at..)?.strip_prefix(b"://")?;
    let authority = rest.get(
        ..run(rest, |b| {
            b.is_ascii_graphic() && !b"/\"'`<>()\\,;".contains(&b)
        }),
    )?;
    let split = authority.iter().rposition(|b| *b == b'@')?;
    let (userinfo, host) = (authority.get(..split)?, authority.get(split + 1..)?);
    let colon = userinfo.iter().position(|b| *b == b':')?;
    let (user, password) = (userinfo.get(..colon)?, userinfo.get(colon + 1..)?);
    let is_local = [
        &b"localhost"[..],
        b"127.",
        b"[::1]",
        b"0.0.0.0",
        b"example.",
    ]
    .iter()
    .any(|h| host.starts_with(h))
        || position(host, b".example").is_some();
    let is_word = password.iter().all(u8::is_ascii_lowercase) && password.len() < 12;
    let is_variable = password.iter().any(|b| b"${}%*[]".contains(b));
    if password.len() < 6
        || is_local
        || is_word
        || is_variable
        || user == password
        || is_placeholder(password)
    {
        return None;
    }
    Some(SecretHit {
        kind: "a URL with a password",
        at: at..at + b"://".len() + split,
    })
}

/// Returns the position of the first occurrence of a text.
pub(crate) fn position(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    let first = needle.first()?;
    let mut from = 0;
    loop {
        let at = from + bytes.get(from..)?.iter().position(|b| b == first)?;
        if bytes.get(at..)?.starts_with(needle) {
            return Some(at);
        }
        from = at + 1;
    }
}

fn run(bytes: &[u8], letters: fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|b| letters(**b)).count()
}

fn word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

fn word_or_dash(b: u8) -> bool {
    word(b) || b == b'-'
}

fn upper(b: u8) -> bool {
    b.is_ascii_uppercase() || b.is_ascii_digit()
}

/// True for text that people write in place of a secret: few distinct letters, the alphabet, or a
/// word that marks a placeholder.
fn is_placeholder(value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    let mut letters: Vec<u8> = lower.clone();
    letters.sort_unstable();
    letters.dedup();
    let steps = lower
        .windows(2)
        .filter(|pair| matches!(pair, [a, b] if b.wrapping_sub(*a) <= 1))
        .count();
    let markers = [
        &b"example"[..],
        b"placeholder",
        b"redacted",
        b"xxxxxx",
        b"your_",
        b"your-",
        b"dummy",
        b"changeme",
    ];
    letters.len() <= 4
        || steps * 2 > lower.len()
        || markers
            .iter()
            .any(|marker| position(&lower, marker).is_some())
}

#[cfg(test)]
#[path = "secret_tests.rs"]
mod tests;
