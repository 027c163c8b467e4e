//! Validation of push URLs before they are pinned. The list is closed: git has transports that run
//! programs.

/// Reason for refusing a URL. Does not contain the URL, which may hold the secret it is refused
/// for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// Contains a password or a token.
    Secret,
    /// The URL, or a name in it, starts with `-`, which a program would parse as an option.
    Begins,
    /// A transport that is not on the list.
    Kind,
    /// The transport is allowed, but the URL is malformed.
    Form,
}

impl Unfit {
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Secret => "it contains a user name, a password or a token",
            Self::Begins => "one of its parts starts with `-`",
            Self::Kind => "its scheme is not supported",
            Self::Form => "it is malformed",
        }
    }

    pub(crate) fn hint(self) -> &'static str {
        match self {
            Self::Secret => {
                "remove the part before the `@`, and use a credential helper: `gh auth setup-git`"
            }
            Self::Begins | Self::Kind | Self::Form => {
                "use https://HOST/PATH, ssh://[USER@]HOST/PATH, USER@HOST:PATH, file:///PATH or /PATH"
            }
        }
    }
}

pub(crate) fn unfit(url: &str) -> Option<Unfit> {
    if url.starts_with('-') {
        return Some(Unfit::Begins);
    }
    if url.is_empty()
        || url
            .chars()
            .any(|c| c.is_control() || c.is_whitespace() && !url.starts_with('/'))
    {
        return Some(Unfit::Form);
    }
    if url.starts_with('/') {
        return None;
    }
    match url.split_once("://") {
        Some(("https", rest)) => of_parts(rest, |user| user.map(|_| Unfit::Secret)),
        Some(("ssh", rest)) => of_parts(rest, |user| user.and_then(of_user)),
        Some(("file", rest)) => (!rest.starts_with('/')).then_some(Unfit::Form),
        Some((scheme, rest)) if has_secret(scheme, rest) => Some(Unfit::Secret),
        Some(_) => Some(Unfit::Kind),
        None => of_scp(url),
    }
}

/// Checks `[USER@]HOST[:PORT]/PATH`.
fn of_parts(rest: &str, of_user: impl FnOnce(Option<&str>) -> Option<Unfit>) -> Option<Unfit> {
    let Some((authority, path)) = rest.split_once('/') else {
        return Some(Unfit::Form);
    };
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    // A password that contains `/`: its second part looks like the path.
    if path.contains('@') {
        return Some(Unfit::Secret);
    }
    // A query may also contain a token, and no repository URL has one.
    let well_formed = || (path.is_empty() || path.contains(['?', '#'])).then_some(Unfit::Form);
    of_user(user).or_else(|| of_host(host)).or_else(well_formed)
}

/// Checks `USER@HOST:PATH`. Without the user it would be indistinguishable from a transport.
fn of_scp(url: &str) -> Option<Unfit> {
    let Some((user, rest)) = url.split_once('@') else {
        return Some(Unfit::Kind);
    };
    let Some((host, path)) = rest.split_once(':') else {
        return Some(Unfit::Kind);
    };
    let of_path = || match path.chars().next() {
        Some('-') => Some(Unfit::Begins),
        None | Some(':') => Some(Unfit::Form),
        Some(_) => None,
    };
    of_user(user).or_else(|| of_host(host)).or_else(of_path)
}

fn of_user(user: &str) -> Option<Unfit> {
    if user.starts_with('-') {
        return Some(Unfit::Begins);
    }
    if user.contains("::") {
        return Some(Unfit::Kind);
    }
    if user.contains(':') {
        return Some(Unfit::Secret);
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
    (user.is_empty() || !user.chars().all(fits)).then_some(Unfit::Form)
}

fn of_host(host: &str) -> Option<Unfit> {
    if host.starts_with('-') {
        return Some(Unfit::Begins);
    }
    let (name, port) = match host.rsplit_once(':') {
        // Does not split an address such as [::1].
        Some((name, port)) if !port.ends_with(']') => (name, port),
        Some(_) | None => (host, "0"),
    };
    let inner = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let fits = |c: char| {
        c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c) || (c == ':' && inner.is_some())
    };
    let is_name = |name: &str| !name.is_empty() && name.chars().all(fits);
    (!is_name(inner.unwrap_or(name)) || port.parse::<u16>().is_err()).then_some(Unfit::Form)
}

/// True if the URL contains a secret. The scheme is not allowed anyway, but the secret must be
/// reported first.
fn has_secret(scheme: &str, rest: &str) -> bool {
    let authority = rest.split('/').next().unwrap_or_default();
    ["http", "https"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known))
        && authority.contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_pushed_to() {
        for url in [
            "https://github.com/ada/engine.git",
            "https://git.example.org:8443/ada/engine",
            "ssh://git@github.com/ada/engine",
            "ssh://git@[::1]:2222/ada/engine",
            "ssh://github.com/ada/engine",
            "git@github.com:ada/engine.git",
            "org-1234@github-work:ada/engine",
            "file:///srv/git/engine.git",
            "/srv/git/my engine.git",
        ] {
            assert_eq!(unfit(url), None, "{url}");
        }
    }

    #[test]
    fn what_may_not() {
        let cases = [
            ("https://ada:secret@github.com/ada/engine", Unfit::Secret),
            (
                "https://ghp_0123456789@github.com/ada/engine",
                Unfit::Secret,
            ),
            (
                "https://x-access-token:t@github.com/ada/engine",
                Unfit::Secret,
            ),
            ("https://ada:se/cret@github.com/ada/engine", Unfit::Secret),
            ("HTTPS://t@github.com/ada/engine", Unfit::Secret),
            ("http://t@github.com/ada/engine", Unfit::Secret),
            ("ssh://git:secret@github.com/ada/engine", Unfit::Secret),
            ("git:secret@github.com:ada/engine", Unfit::Secret),
            ("https://github.com/ada/engine?access_token=t", Unfit::Form),
            ("http://github.com/ada/engine", Unfit::Kind),
            ("git://github.com/ada/engine", Unfit::Kind),
            ("ext::sh -c whoami", Unfit::Form),
            ("ext::sh", Unfit::Kind),
            ("EXT::sh", Unfit::Kind),
            ("ext::ssh@h:x", Unfit::Kind),
            ("fd::17", Unfit::Kind),
            ("https::/x", Unfit::Kind),
            ("ext::https://github.com/a/b", Unfit::Kind),
            ("engine", Unfit::Kind),
            ("../engine.git", Unfit::Kind),
            ("github.com:ada/engine", Unfit::Kind),
            ("-oProxyCommand=x", Unfit::Begins),
            ("--upload-pack=x", Unfit::Begins),
            ("ssh://-oProxyCommand=x/y", Unfit::Begins),
            ("ssh://-x@h/y", Unfit::Begins),
            ("ssh://git@-h/y", Unfit::Begins),
            ("git@-h:y", Unfit::Begins),
            ("git@h:-y", Unfit::Begins),
            ("git@h:", Unfit::Form),
            ("git@h::x", Unfit::Form),
            ("file://host/x", Unfit::Form),
            ("https://github.com", Unfit::Form),
            ("https://github.com/", Unfit::Form),
            ("https:///x", Unfit::Form),
            ("https://h:x/y", Unfit::Form),
            ("https://h/a\nb", Unfit::Form),
            ("/srv/\u{1b}[31m", Unfit::Form),
            ("", Unfit::Form),
        ];
        for (url, expected) in cases {
            assert_eq!(unfit(url), Some(expected), "{url}");
        }
    }
}
