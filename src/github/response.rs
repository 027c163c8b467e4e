//! Parses the output of `gh api -i`: a status line, headers, an empty line, and the unchanged body.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::DateTime;

use super::{GithubError, Rate, Result};
use crate::clock::Time;

/// Head of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    /// Header values by lower-case name.
    headers: BTreeMap<String, String>,
}

/// Successful response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    New {
        head: Head,
        body: Vec<u8>,
    },
    /// The data has not changed since the last request.
    Unchanged {
        head: Head,
    },
}

impl Reply {
    /// Returns the response to an unconditional request, which must have a body.
    pub(super) fn new_answer(self, path: &str) -> Result<(Head, Vec<u8>)> {
        match self {
            Self::New { head, body } => Ok((head, body)),
            Self::Unchanged { .. } => Err(GithubError::broken(path, "not modified")),
        }
    }
}

/// Splits output into head and body; `None` if the head is incomplete. gh ends the status line with
/// LF and the headers with CRLF.
pub(super) fn split(stdout: &[u8]) -> Option<(Head, &[u8])> {
    let (first, mut rest) = line(stdout)?;
    let status = read_status(&first)?;
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    loop {
        let (text, after) = line(rest)?;
        rest = after;
        if text.is_empty() {
            return Some((Head { status, headers }, rest));
        }
        let (name, value) = text.split_once(':')?;
        let value = value.trim();
        headers
            .entry(name.trim().to_ascii_lowercase())
            .and_modify(|had| had.push_str(&format!(", {value}")))
            .or_insert_with(|| value.to_owned());
    }
}

impl Head {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(super) fn etag(&self) -> Option<String> {
        let etag = self.get("etag").filter(|etag| is_etag(etag));
        etag.map(str::to_owned)
    }

    /// True if there is a next page: `Link: <…page=2>; rel="next", <…page=5>; rel="last"`.
    pub(super) fn has_next(&self) -> bool {
        let mut links = self.get("link").unwrap_or_default().split(',');
        let is_next = |word: &str| word.trim() == "rel=\"next\"";
        links.any(|link| link.split(';').skip(1).any(is_next))
    }

    /// Returns the rate limit of ordinary requests. Search and others are counted separately.
    pub(super) fn rate(&self) -> Option<Rate> {
        match self.get("x-ratelimit-resource") {
            Some("core") | None => Some(Rate {
                limit: self.number("limit")?,
                remaining: self.number("remaining")?,
                reset: self.reset()?,
            }),
            Some(_) => None,
        }
    }

    /// Returns the scopes of a classic token, which may have none at all.
    pub(super) fn scopes(&self) -> Option<Vec<String>> {
        self.list("x-oauth-scopes")
    }

    /// Returns the words of a header that are separated by commas.
    pub(super) fn list(&self, name: &str) -> Option<Vec<String>> {
        let words = self.get(name)?.split(',').map(str::trim);
        let words = words.filter(|word| !word.is_empty());
        Some(words.map(str::to_owned).collect())
    }

    pub(super) fn date(&self) -> Option<Time> {
        self.get("date").and_then(date)
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.number("remaining") == Some(0)
    }

    /// Returns when to retry. `Retry-After` counts from the `Date` of the response, since our clock
    /// may differ.
    pub(super) fn retry_at(&self) -> Option<Time> {
        let after = self.get("retry-after").and_then(|text| match text.parse() {
            Ok(seconds) => Some(self.date()?.plus(Duration::from_secs(seconds))),
            Err(_) => date(text),
        });
        after.or_else(|| self.reset().filter(|_| self.is_used_up()))
    }

    fn reset(&self) -> Option<Time> {
        let seconds = i64::try_from(self.number("reset")?).ok()?;
        Some(Time::from_millis(seconds.saturating_mul(1_000)))
    }

    fn number(&self, of: &str) -> Option<u64> {
        self.get(&format!("x-ratelimit-{of}"))?.parse().ok()
    }
}

/// True for a valid ETag, which is passed back to gh as an argument.
pub(super) fn is_etag(text: &str) -> bool {
    !text.is_empty() && text.len() <= 200 && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Parses a status line: `HTTP/2.0 200 OK`.
fn read_status(line: &str) -> Option<u16> {
    let mut words = line.strip_prefix("HTTP/")?.split(' ');
    let code = words.nth(1)?;
    let status = code.parse().ok()?;
    (code.len() == 3 && (100..600).contains(&status)).then_some(status)
}

/// Parses a date: `Mon, 16 Nov 2026 02:29:53 GMT`.
fn date(text: &str) -> Option<Time> {
    let moment = DateTime::parse_from_rfc2822(text).ok()?;
    Some(Time::from_millis(moment.timestamp_millis()))
}

fn line(bytes: &[u8]) -> Option<(String, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (line, rest) = bytes.split_at_checked(end)?;
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    Some((String::from_utf8_lossy(line).into_owned(), rest.get(1..)?))
}
