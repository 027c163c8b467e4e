//! Classifies failures of git calls to a remote.
//!
//! Git has one status (128) for most of them, so they are distinguished by messages, which are
//! stable under `LC_ALL=C`. Lines written by the remote itself do not count: it could send
//! anything.

use super::{RemoteError, url};
use crate::text::joined;
use crate::{sanitize, secret_scan};

/// Messages by kind. The order matters: ssh ends every failure with "Could not read from remote
/// repository".
const WORDS: &[(Kind, &[&str])] = &[
    // A git that git itself started, such as index-pack.
    (Kind::Killed, &["died of signal"]),
    (
        Kind::NoSpace,
        &["No space left on device", "Disk quota exceeded"],
    ),
    (Kind::Locked, &[".lock': File exists"]),
    (
        Kind::Protocol,
        &[
            "not allowed",
            "is not supported",
            "unable to find remote helper",
            "strange hostname",
            "strange pathname",
            "unknown transport",
            "no host in",
        ],
    ),
    (
        Kind::Auth,
        &[
            "Authentication failed",
            "could not read Username",
            "could not read Password",
            "terminal prompts disabled",
            "Permission denied (",
            "Permission to ",
            "Host key verification failed",
            "Too many authentication failures",
            "error: 401",
            "error: 403",
            "HTTP 401",
            "HTTP 403",
            "Write access to repository not granted",
            "Invalid username or",
        ],
    ),
    (
        Kind::NotFound,
        &[
            "Repository not found",
            "' not found",
            "error: 404",
            "does not appear to be a git repository",
            "does not exist",
            "not a git repository",
        ],
    ),
    (
        Kind::Unreachable,
        &[
            "Could not resolve",
            "Couldn't resolve",
            "Connection refused",
            "Connection reset",
            "Connection closed",
            "Connection timed out",
            "Operation timed out",
            "Operation too slow",
            "Failed to connect",
            "Couldn't connect",
            "Network is unreachable",
            "No route to host",
            "hung up unexpectedly",
            "unexpected disconnect",
            "early EOF",
            "Empty reply",
            "Broken pipe",
            "RPC failed",
            "error: 429",
            "error: 50",
            "error: 52",
            "SSL",
            "TLS",
            "gnutls",
            "certificate",
            "Could not read from remote repository",
            "[remote failure]",
        ],
    ),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Killed,
    NoSpace,
    Locked,
    Protocol,
    Auth,
    NotFound,
    Unreachable,
}

/// Returns the error for a failed call.
pub(super) fn of(failure: &Failure<'_>) -> RemoteError {
    let own = failure.stderr.lines();
    let own = own.filter(|line| !line.starts_with("remote:"));
    let has = |word: &&str| own.clone().any(|line| line.contains(word));
    let kind = WORDS.iter().find(|(_, words)| words.iter().any(has));
    let (args, url) = (failure.args, url::without_userinfo(failure.url));
    let message = message(failure.stderr, failure.hidden);
    match kind.map(|(kind, _)| kind) {
        Some(Kind::Killed) => RemoteError::Killed { args },
        Some(Kind::NoSpace) => RemoteError::NoSpace,
        Some(Kind::Locked) => RemoteError::Locked { message },
        Some(Kind::Protocol) => RemoteError::Protocol { url, message },
        Some(Kind::Auth) => RemoteError::Auth { url, message },
        Some(Kind::NotFound) => RemoteError::NotFound { url, message },
        Some(Kind::Unreachable) => RemoteError::Unreachable { url, message },
        None => RemoteError::Failed { args, message },
    }
}

pub(super) struct Failure<'a> {
    pub(super) args: &'static str,
    pub(super) url: &'a str,
    pub(super) stderr: &'a str,
    /// Values that must not be shown.
    pub(super) hidden: &'a [String],
}

/// Makes foreign output fit for display: one line, harmless, without secrets.
pub(super) fn message(text: &str, hidden: &[String]) -> String {
    let mut text = text.to_owned();
    for value in hidden {
        text = text.replace(value.as_str(), "***");
    }
    let text = secret_scan::hide(&url::without_userinfo(&text));
    let not_shown = [
        "",
        "Please make sure you have the correct access rights",
        "and the repository exists.",
    ];
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !not_shown.contains(line));
    let text = joined(lines.map(sanitize::line), "; ");
    text.chars().take(1_000).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(stderr: &str) -> &'static str {
        let failure = Failure {
            args: "x",
            url: "https://u:p@h/r",
            stderr,
            hidden: &["hidden-value".to_owned()],
        };
        let error = of(&failure);
        assert!(!error.to_string().contains("u:p"), "{error}");
        assert!(!error.to_string().contains("hidden-value"), "{error}");
        let kinds: [(&str, bool); 8] = [
            ("killed", matches!(error, RemoteError::Killed { .. })),
            ("locked", matches!(error, RemoteError::Locked { .. })),
            ("auth", matches!(error, RemoteError::Auth { .. })),
            (
                "unreachable",
                matches!(error, RemoteError::Unreachable { .. }),
            ),
            ("not found", matches!(error, RemoteError::NotFound { .. })),
            ("protocol", matches!(error, RemoteError::Protocol { .. })),
            ("no space", matches!(error, RemoteError::NoSpace)),
            ("failed", matches!(error, RemoteError::Failed { .. })),
        ];
        kinds
            .into_iter()
            .find(|(_, is)| *is)
            .map(|(name, _)| name)
            .unwrap()
    }

    #[test]
    fn what_git_says() {
        for (stderr, expected) in [
            (
                "fatal: Authentication failed for 'https://u:p@github.com/o/r/'",
                "auth",
            ),
            (
                "fatal: could not read Username for 'https://github.com': terminal prompts disabled",
                "auth",
            ),
            (
                "git@github.com: Permission denied (publickey).\nfatal: Could not read from remote repository.",
                "auth",
            ),
            (
                "Host key verification failed.\nfatal: Could not read from remote repository.",
                "auth",
            ),
            (
                "remote: Permission to o/r.git denied to ada.\n\
                 fatal: unable to access 'https://github.com/o/r/': The requested URL returned error: 403",
                "auth",
            ),
            (
                "ERROR: Permission to o/r.git denied to ada.\nfatal: Could not read from remote repository.",
                "auth",
            ),
            (
                "remote: Repository not found.\nfatal: repository 'https://github.com/o/r/' not found",
                "not found",
            ),
            (
                "ERROR: Repository not found.\nfatal: Could not read from remote repository.",
                "not found",
            ),
            (
                "fatal: '/srv/x' does not appear to be a git repository",
                "not found",
            ),
            (
                "fatal: unable to access 'https://h/': Could not resolve host: h",
                "unreachable",
            ),
            (
                "ssh: connect to host h port 22: Connection refused\nfatal: Could not read from remote",
                "unreachable",
            ),
            (
                "ssh: Could not resolve hostname h: Name or service not known",
                "unreachable",
            ),
            (
                "fatal: unable to access 'https://h/': The requested URL returned error: 503",
                "unreachable",
            ),
            (
                "error: RPC failed; curl 56 hidden-value\nfatal: the remote end hung up unexpectedly",
                "unreachable",
            ),
            (
                "fatal: unable to access 'https://h/': server certificate verification failed",
                "unreachable",
            ),
            (
                "error: index-pack died of signal 9\nfatal: fetch-pack: invalid index-pack output",
                "killed",
            ),
            (
                "remote: error: index-pack died of signal 9\nfatal: early EOF",
                "unreachable",
            ),
            ("fatal: transport 'ext' not allowed", "protocol"),
            ("fatal: write error: No space left on device", "no space"),
            (
                "error: cannot lock ref 'refs/x': Unable to create '/r/refs/x.lock': File exists.",
                "locked",
            ),
            (
                "remote: error: Unable to create '/r/refs/x.lock': File exists.",
                "failed",
            ),
            (
                "remote: fatal: No space left on device\nsomething else",
                "failed",
            ),
            (
                "remote: Authentication failed\n ! [remote rejected] x",
                "failed",
            ),
            ("", "failed"),
        ] {
            assert_eq!(named(stderr), expected, "{stderr}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_secret_is_in_an_error(before in ".{0,30}", kind in 0..6_usize, mid in "[A-Za-z0-9]{8,20}", after in ".{0,30}") {
            let words = ["Authentication failed", "' not found", "Connection refused", "not allowed", "x", "remote: x"];
            let token = format!("ghp_0a1B2c3D4e5F6g7H8i9J0k1L2m3N{mid}");
            let password = format!("pw-{mid}");
            let value = format!("value-{mid}");
            let stderr = format!("{before} {token} {}\nhttps://u:{password}@h/x {value}{after}", words[kind]);
            let url = format!("https://u:{password}@h/r");
            let error = of(&Failure { args: "x", url: &url, stderr: &stderr, hidden: std::slice::from_ref(&value) });
            let text = format!("{error} {error:?}");
            for secret in [&token, &password, &value] {
                assert!(!text.contains(secret.as_str()), "{text}");
            }
        }
    }
}
