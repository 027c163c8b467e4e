//! What can go wrong with GitHub, told apart by what a caller does next.

use crate::clock::Time;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GithubError {
    #[error("the program gh was not found or cannot be executed")]
    NoGh,
    /// No request was sent.
    #[error("gh is not logged in")]
    LoggedOut,
    /// Until a person does something, everything or this repository stays closed to us.
    #[error("GitHub does not let gh's account do this: {message}{}", authorize(url.as_deref()))]
    Auth {
        message: String,
        /// Where an organization's single sign-on is given.
        url: Option<String>,
    },
    /// GitHub says the same of what may not be seen.
    #[error("GitHub has no `{path}`, or gh's account may not see it")]
    NotFound { path: String },
    #[error("GitHub's rate limit is used up{}", until.map(|t| format!(" until {t}")).unwrap_or_default())]
    Limited {
        /// None: GitHub did not say.
        until: Option<Time>,
    },
    /// The same again will be refused again.
    #[error("GitHub refused this (HTTP {status}): {message}")]
    Refused { status: u16, message: String },
    /// It may work later.
    #[error("GitHub could not be asked for `{path}`: {what}")]
    Transient { path: String, what: String },
    /// An answer came, and it is not what GitHub says at this place.
    #[error("the answer to `{path}` cannot be read: {what}")]
    Broken { path: String, what: String },
}

impl GithubError {
    /// What a person can do about it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::NoGh => "install gh (https://cli.github.com), or name it in the setting `gh`",
            Self::LoggedOut => "`gh auth login`",
            Self::Auth { .. } => {
                "look at `gh auth status`; log in with `gh auth login`, or give the token what it lacks with `gh auth refresh`"
            }
            Self::NotFound { .. } => {
                "check the name and the number, and that the account of `gh auth status` can open it in a browser"
            }
            Self::Limited { .. } => "nothing is lost: it goes on when the limit is over",
            Self::Refused { .. } => "asking again will not help: change what the message names",
            Self::Transient { .. } => {
                "check the network and https://www.githubstatus.com; it is tried again by itself"
            }
            Self::Broken { .. } => {
                "try `gh api` with the same path by hand, and a newer gh; a proxy may answer in GitHub's place"
            }
        }
    }
}

fn authorize(url: Option<&str>) -> String {
    url.map(|url| format!(" (authorize it at {url})"))
        .unwrap_or_default()
}
