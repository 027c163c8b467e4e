//! One request, taken apart.

use serde_json::Value;

#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: String,
    /// As it came: with its query, with or without a slash in front, or the whole address.
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// Every address of GitHub's API begins with it.
pub(super) const API: &str = "https://api.github.com";

impl Request {
    /// Path and query, without the host and the slash.
    pub(super) fn path_and_query(&self) -> &str {
        self.target
            .strip_prefix(API)
            .unwrap_or(&self.target)
            .trim_start_matches('/')
    }

    pub(super) fn segments(&self) -> Vec<String> {
        let path = self.path_and_query().split('?').next().unwrap_or_default();
        path.split('/')
            .filter(|part| !part.is_empty())
            .map(decode)
            .collect()
    }

    pub(super) fn query(&self) -> Vec<(String, String)> {
        let (_, query) = self.path_and_query().split_once('?').unwrap_or_default();
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decode(name), decode(&value.replace('+', " ")))
        };
        query
            .split('&')
            .filter(|part| !part.is_empty())
            .map(pair)
            .collect()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(super) fn is_write(&self) -> bool {
        self.method != "GET"
    }

    /// Null when it is not JSON.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// `%5B` is `[`. What is no such thing stays as it is.
fn decode(text: &str) -> String {
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
    fn an_address_is_taken_apart() {
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
        assert_eq!(decode("100%"), "100%");
        assert_eq!(decode("%zz%41"), "%zzA");
    }
}
