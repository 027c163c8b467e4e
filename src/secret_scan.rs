//! Secrets by their pattern. This is hygiene and no boundary: who wants to hide one from it can.

use std::ops::Range;

/// What was found, by its kind: the text itself is never kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretHit {
    pub(crate) kind: &'static str,
    pub(crate) at: Range<usize>,
}

/// A prefix that gives a secret away, and what follows it.
struct Shape {
    kind: &'static str,
    prefix: &'static str,
    /// Of the rest.
    least: usize,
    letters: fn(u8) -> bool,
    /// Upper and lower case and digits: words with dashes between them have not all three.
    is_mixed: bool,
    /// Exactly `least`, and no letter or digit on either side.
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

/// The text with every secret in it covered.
pub(crate) fn hide(text: &str) -> String {
    let mut shown = String::new();
    let mut from = 0;
    for SecretHit { at, .. } in find(text.as_bytes()) {
        shown.push_str(text.get(from..at.start).unwrap_or_default());
        shown.push_str("***");
        from = at.end;
    }
    shown.push_str(text.get(from..).unwrap_or_default());
    shown
}

/// All that look like secrets, in order, none inside another. Placeholders are passed over.
pub(crate) fn find(bytes: &[u8]) -> Vec<SecretHit> {
    let mut found: Vec<SecretHit> = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let here = match byte {
            b'g' | b's' | b'x' | b'A' => SHAPES.iter().find_map(|shape| shape.at(bytes, at)),
            b'-' => private_key(bytes, at),
            b'e' => web_token(bytes, at),
            b':' => password_in_url(bytes, at),
            _ => None,
        };
        at = here.as_ref().map_or(at + 1, |here| here.at.end.max(at + 1));
        found.extend(here);
    }
    found
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

/// `-----BEGIN … PRIVATE KEY-----` with a key behind it: the line alone is in every program that reads keys.
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

/// Three parts of base64 with dots between them, the first two being JSON.
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

/// `://user:password@host`.
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

/// Where a text stands first.
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

/// What people write where a secret would stand: few letters, the alphabet, or a word that says so.
fn is_placeholder(value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    let mut letters: Vec<u8> = lower.clone();
    letters.sort_unstable();
    letters.dedup();
    let steps = lower
        .windows(2)
        .filter(|pair| matches!(pair, [a, b] if b.wrapping_sub(*a) <= 1))
        .count();
    let says_so = [
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
        || says_so.iter().any(|said| position(&lower, said).is_some())
}

#[cfg(test)]
#[path = "secret_tests.rs"]
mod tests;
