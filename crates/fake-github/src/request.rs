//! HTTP requests.

use serde_json::Value;

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path with query, with or without a leading slash, or the complete URL.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Base URL of GitHub's API.
pub(crate) const API: &str = "https://api.github.com";

impl Request {
    /// Returns path and query without the host and the leading slash.
    pub(crate) fn path_and_query(&self) -> &str {
        self.target
            .strip_prefix(API)
            .unwrap_or(&self.target)
            .trim_start_matches('/')
    }

    pub(crate) fn segments(&self) -> Vec<String> {
        let path = self.path_and_query().split('?').next().unwrap_or_default();
        path.split('/')
            .filter(|part| !part.is_empty())
            .map(percent_decode)
            .collect()
    }

    pub(crate) fn query(&self) -> Vec<(String, String)> {
        let (_, query) = self.path_and_query().split_once('?').unwrap_or_default();
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (
                percent_decode(name),
                percent_decode(&value.replace('+', " ")),
            )
        };
        query
            .split('&')
            .filter(|part| !part.is_empty())
            .map(pair)
            .collect()
    }

    /// Returns the value of a query parameter; of repeated ones, the last.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        self.query()
            .into_iter()
            .rfind(|(known, _)| known == name)
            .map(|(_, value)| value)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_write(&self) -> bool {
        self.method != "GET"
    }

    /// Returns the body, or null if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Decodes `%5B` to `[`. Invalid escapes are kept.
fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|two| std::str::from_utf8(two).ok());
        let (byte, next) = match hex.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => (byte, after.get(2..).unwrap_or_default()),
            None => (*first, after),
        };
        bytes.push(byte);
        rest = next;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_split_and_decoded() {
        let target =
            "https://api.github.com/repos/o/r/collaborators/a%5Bbot%5D/permission?x=1&y=a%20b+c&z";
        let request = Request {
            method: "GET".into(),
            target: target.into(),
            headers: Vec::new(),
            body: Vec::new(),
        };
        assert_eq!(
            request.segments(),
            ["repos", "o", "r", "collaborators", "a[bot]", "permission"]
        );
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            request.query(),
            [pair("x", "1"), pair("y", "a b c"), pair("z", "")]
        );
        assert_eq!(percent_decode("100%"), "100%");
        assert_eq!(percent_decode("%zz%41"), "%zzA");
    }
}
