//! Validation and display of the pinned URL.

use crate::secret_scan;

/// Transport of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Https,
    Ssh,
    /// A path on this machine.
    Path,
}

/// Returns the transport of a URL.
///
/// Refused are URLs that git would read as an option or run as a command, that send a password in
/// the clear, or that contain a password: it would be visible in the process list.
pub(super) fn way(url: &str) -> Result<Way, &'static str> {
    if url.is_empty() || url.starts_with('-') {
        return Err("it is empty or looks like an option");
    }
    if url.contains(|c: char| c.is_control() || c.is_whitespace() && c != ' ') {
        return Err("it contains control characters");
    }
    if url.starts_with('/') {
        return Ok(Way::Path);
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return scp_like(url);
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unzip();
    let host = host.unwrap_or(authority);
    if user.is_some_and(|user| user.contains(':') || secret_scan::has_any(user.as_bytes())) {
        return Err("it contains a password; use a credential helper instead");
    }
    let has_host = !host.is_empty() && !host.starts_with('-') && !host.contains(' ');
    match scheme.to_ascii_lowercase().as_str() {
        "https" if has_host => Ok(Way::Https),
        "ssh" | "git+ssh" | "ssh+git"
            if has_host && !user.is_some_and(|user| user.starts_with('-')) =>
        {
            Ok(Way::Ssh)
        }
        "file" if rest.starts_with('/') => Ok(Way::Path),
        "http" | "git" => Err("it is not encrypted; use https or ssh"),
        _ => Err("only https, ssh and local paths are allowed"),
    }
}

/// Parses `[user@]host:path`, which means ssh.
fn scp_like(url: &str) -> Result<Way, &'static str> {
    let unknown = Err("only https, ssh and absolute local paths are allowed");
    let Some((host, path)) = url.split_once(':') else {
        return unknown;
    };
    let is_helper = path.starts_with(':');
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-@[]".contains(c);
    if is_helper
        || path.is_empty()
        || host.is_empty()
        || host.contains("@-")
        || !host.chars().all(plain)
    {
        return unknown;
    }
    Ok(Way::Ssh)
}

/// Removes the user and the password from every URL in a text.
pub(super) fn without_userinfo(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        cleaned.push_str(before);
        cleaned.push_str("://");
        let ends = |c: char| c == '/' || c.is_whitespace() || "'\"`<>()".contains(c);
        let authority = after.split(ends).next().unwrap_or_default();
        rest = match authority.rsplit_once('@') {
            Some((userinfo, _)) => after
                .strip_prefix(userinfo)
                .and_then(|at| at.strip_prefix('@'))
                .unwrap_or_default(),
            None => after,
        };
    }
    cleaned.push_str(rest);
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways() {
        for (url, expected) in [
            ("https://github.com/o/r.git", Way::Https),
            ("https://ada@github.com/o/r", Way::Https),
            ("HTTPS://github.com/o/r", Way::Https),
            ("ssh://git@github.com:22/o/r.git", Way::Ssh),
            ("git@github.com:o/r.git", Way::Ssh),
            ("host:o/r", Way::Ssh),
            ("/srv/git/a b.git", Way::Path),
            ("file:///srv/git/r.git", Way::Path),
        ] {
            assert_eq!(way(url), Ok(expected), "{url}");
        }
    }

    #[test]
    fn what_is_no_way() {
        for url in [
            "",
            "-u",
            "--upload-pack=sh",
            "ext::sh -c x",
            "EXT::sh -c x",
            "ext::sh",
            "fd::3",
            "http://github.com/o/r",
            "git://github.com/o/r",
            "ftp://x/y",
            "https://",
            "https:///x",
            "ssh://-oProxyCommand=x/y",
            "ssh://-oProxyCommand=x@host/y",
            "-oProxyCommand=x:y",
            "git@-oProxyCommand=x:y",
            "https://ada:password@github.com/o/r",
            "https://ghp_0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R@github.com/o/r",
            "relative/path",
            "../x",
            "file://relative",
            "https://github.com/o/r\nx",
            "https://github.com/\0",
        ] {
            assert!(way(url).is_err(), "{url:?}");
        }
    }

    #[test]
    fn userinfo_is_not_shown() {
        for (text, cleaned) in [
            (
                "fatal: 'https://u:p@h/x' and ssh://git@h:22/y",
                "fatal: 'https://h/x' and ssh://h:22/y",
            ),
            ("https://a@b@h/x", "https://h/x"),
            ("https://user:p@ss", "https://ss"),
            ("git@github.com:o/r a://b", "git@github.com:o/r a://b"),
            ("://@", "://"),
        ] {
            assert_eq!(without_userinfo(text), cleaned);
        }
    }
}
