//! GitHub client, through the `gh` program that the user is logged in with.
//!
//! It returns values, or errors that determine what to do next. It must never decide who is
//! trusted, and it never retries: the caller does, later.
//!
//! Only `gh api` with REST is used, which is the same in every version of gh. The result of a call
//! is read from the HTTP head (`-i`) and not from the exit status alone: gh exits with 1 on "not
//! modified", and with 0 on a truncated page. A read that fails anywhere returns nothing, never the
//! first pages of a list. After a write that ends with [`GithubError::Transient`] or
//! [`GithubError::Broken`] it is unknown whether it was done: check before doing it again.
//!
//! gh replaces control characters before we see them (`\u001b` arrives as `^[`, and versions differ
//! in which), so a text is not byte for byte what was written, and a `Content-Length` need not
//! match.

mod call;
mod checks;
mod classify;
mod endpoint;
mod error;
mod fetch;
mod model;
mod new_pull;
mod pagination;
mod read;
mod response;
mod write;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Time;
use crate::process::os_variables;

pub(crate) use checks::RequiredChecks;
pub(crate) use error::{GithubError, Result};
pub(crate) use fetch::{Fetch, KeptPages};
pub(crate) use new_pull::{NewPull, Opened, PullRefusal, RefusalCause};
pub(crate) use pagination::Marks;
use read::KnownAccount;
pub(crate) use read::{Account, Answer, CommentList};
pub(crate) use write::{NewInline, NewReview, Posted, ReviewEvent};

/// Variables set for every call: gh must not prompt, use colour or print anything else.
const ENVIRONMENT: [(&str, &str); 9] = [
    ("GH_PROMPT_DISABLED", "1"),
    ("GH_NO_UPDATE_NOTIFIER", "1"),
    ("GH_NO_EXTENSION_UPDATE_NOTIFIER", "1"),
    ("GH_SPINNER_DISABLED", "1"),
    ("GH_TELEMETRY", "false"),
    ("GH_PAGER", "cat"),
    ("PAGER", "cat"),
    ("NO_COLOR", "1"),
    ("CLICOLOR", "0"),
];

/// Variables to remove: they override the above, or write the token and all traffic to stderr.
const NOT_THESE: &[&str] = &["GH_DEBUG", "DEBUG", "GH_FORCE_TTY", "CLICOLOR_FORCE"];

/// Maximum time limit of a call, so that its deadline can be represented.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// GitHub client. Clones share the last known rate limit and the login.
#[derive(Clone)]
pub(crate) struct Github {
    shared: Arc<Shared>,
}

struct Shared {
    argv: Vec<String>,
    env: BTreeMap<OsString, OsString>,
    limit: Duration,
    cwd: PathBuf,
    rate: watch::Sender<Option<Rate>>,
    account: watch::Sender<Option<KnownAccount>>,
}

/// Remaining number of requests until the rate limit resets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) reset: Time,
}

impl Github {
    /// Creates a client.
    ///
    /// `argv` is the program and its leading arguments, `env` its complete environment, `limit` the
    /// time for one request with all of its pages, `cwd` any existing directory. A `GH_HOST` in
    /// `env` is kept: then all requests go to that host, which is what the owner of a GitHub
    /// Enterprise Server wants, and nobody else.
    pub(crate) fn new(
        argv: Vec<String>,
        env: BTreeMap<String, String>,
        limit: Duration,
        cwd: PathBuf,
    ) -> Self {
        let ours = ENVIRONMENT.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut env = env;
        env.retain(|name, _| !NOT_THESE.contains(&name.as_str()));
        env.extend(ours);
        Self {
            shared: Arc::new(Shared {
                argv,
                env: os_variables(env),
                limit: limit.min(LONGEST),
                cwd,
                rate: watch::Sender::new(None),
                account: watch::Sender::new(None),
            }),
        }
    }

    /// Returns the version of gh, such as `2.102.0`.
    pub(crate) async fn version(&self) -> Result<String> {
        let output = self.run(&["--version".into()], None, self.deadline()).await;
        let output = output.map_err(|error| self.not_run("--version", &error))?;
        let stdout = String::from_utf8_lossy(&output.stdout);
        let mut words = stdout.split_whitespace();
        let version = words.find(|word| *word == "version").and(words.next());
        let broken = || GithubError::broken("--version", classify::excerpt(&output.stdout));
        version.map(str::to_owned).ok_or_else(broken)
    }

    /// Returns the rate limit from the latest response.
    pub(crate) fn rate(&self) -> Option<Rate> {
        *self.shared.rate.borrow()
    }
}

/// Omits the environment, which may hold a token.
impl fmt::Debug for Github {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Github")
            .field("argv", &self.shared.argv)
            .field("limit", &self.shared.limit)
            .finish()
    }
}
