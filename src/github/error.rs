//! GitHub errors, distinguished by what a caller does next.

use crate::clock::Time;
use crate::text::prefixed;

/// Result of a request to GitHub.
pub(crate) type Result<T, E = GithubError> = std::result::Result<T, E>;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GithubError {
    #[error("the program gh was not found or cannot be executed")]
    NoGh,
    /// Not logged in. No request was sent.
    #[error("gh is not logged in")]
    LoggedOut,
    /// Access is denied, to everything or to this repository, until a person acts.
    #[error("GitHub refused the request for the account that gh is logged in to: {message}{}", authorize(url.as_deref()))]
    Auth {
        message: String,
        /// URL for authorizing an organization's single sign-on.
        url: Option<String>,
    },
    /// Not found, or not visible: GitHub does not distinguish the two.
    #[error("GitHub has no `{path}`, or gh's account has no access to it")]
    NotFound { path: String },
    #[error("GitHub's rate limit is used up{}", prefixed(" until ", *until))]
    Limited {
        /// `None` if GitHub did not report it.
        until: Option<Time>,
    },
    /// Refused. The same request would be refused again.
    #[error("GitHub refused the request (HTTP {status}): {message}")]
    Refused {
        status: u16,
        message: String,
        /// Errors that GitHub listed. A 422 often has some, other refusals have none.
        details: Vec<RefusalDetail>,
    },
    /// Failed in a way that may succeed later.
    #[error("request to GitHub for `{path}` failed: {what}")]
    Transient { path: String, what: String },
    /// A response that is not what GitHub documents for this path.
    #[error("unexpected response to `{path}`: {what}")]
    Broken { path: String, what: String },
}

/// One of the errors in a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusalDetail {
    /// Field of the request, if it is about one.
    pub(crate) field: Option<String>,
    /// Kind of the error, such as `invalid` or `missing_field`; `custom` if only a text names it.
    pub(crate) code: String,
}

impl GithubError {
    pub(super) fn broken(path: &str, what: impl Into<String>) -> Self {
        Self::Broken {
            path: path.to_owned(),
            what: what.into(),
        }
    }

    pub(super) fn transient(path: &str, what: impl Into<String>) -> Self {
        Self::Transient {
            path: path.to_owned(),
            what: what.into(),
        }
    }

    /// Returns what a person can do about the error.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::NoGh => {
                "install gh (https://cli.github.com), or set its path with the `gh` setting"
            }
            Self::LoggedOut => "run `gh auth login`",
            Self::Auth { .. } => {
                "check `gh auth status`; log in with `gh auth login`, or add the missing scopes with `gh auth refresh`"
            }
            Self::NotFound { .. } => {
                "check the name and the number, and that the account shown by `gh auth status` can open it in a browser"
            }
            Self::Limited { .. } => "nothing is lost: work continues when the limit is reset",
            Self::Refused { .. } => {
                "retrying will not help: fix the problem that the message describes"
            }
            Self::Transient { .. } => {
                "check the network and https://www.githubstatus.com; the request is retried automatically"
            }
            Self::Broken { .. } => {
                "try `gh api` with the same path, and try a newer version of gh; a proxy may be responding instead of GitHub"
            }
        }
    }
}

fn authorize(url: Option<&str>) -> String {
    url.map(|url| format!(" (authorize it at {url})"))
        .unwrap_or_default()
}
