//! GitHub, asked through the `gh` program that the user is logged in with. It answers with values or with an error that
//! says what to do next; it must never decide who is trusted, and it repeats nothing: whoever asked does, later.
//!
//! Only `gh api` with REST is used, the same on every version of gh. What an answer is worth is read from its HTTP head
//! (`-i`) and not from the exit status alone: gh leaves with 1 on "not modified", and with 0 on a page that was cut.
//! A read that fails anywhere returns nothing, never the first pages of a list. After a write that ends with
//! [`GithubError::Transient`] or [`GithubError::Broken`] nobody knows whether it was done: look before doing it again.
//!
//! gh makes control characters harmless before we see them (`\u001b` arrives as `^[`, and versions differ in which), so
//! a text is not to the byte what was written, and a `Content-Length` need not fit.

mod call;
mod classify;
mod endpoint;
mod error;
mod fetch;
mod model;
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

pub(crate) use error::GithubError;
pub(crate) use fetch::{Fetch, KeptPages};
pub(crate) use pagination::Marks;
use read::KnownAccount;
pub(crate) use read::{Account, Answer, KnownPull};
pub(crate) use write::{NewInline, NewReview, Posted, ReviewEvent};

/// Set for every call: nothing may wait for a person, colour the answer or add to it.
const ENVIRONMENT: &[(&str, &str)] = &[
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

/// Stronger than the above, or writes the token and all traffic to stderr.
const NOT_THESE: &[&str] = &["GH_DEBUG", "DEBUG", "GH_FORCE_TTY", "CLICOLOR_FORCE"];

/// Of the limit: the moment that it ends at must exist.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How GitHub is asked. Clones share what was last seen of the rate, and who is logged in.
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

/// How much may still be asked until the count starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) reset: Time,
}

impl Github {
    /// `argv` is the program and its leading words, `env` its complete environment, `limit` the time for one question
    /// with all of its pages, `cwd` any folder that exists. A `GH_HOST` in `env` stays: then everything goes to that
    /// host, which is what its owner wants on a GitHub Enterprise Server and nowhere else.
    pub(crate) fn new(
        argv: Vec<String>,
        env: BTreeMap<String, String>,
        limit: Duration,
        cwd: PathBuf,
    ) -> Self {
        let mut env: BTreeMap<OsString, OsString> = env
            .into_iter()
            .filter(|(name, _)| !NOT_THESE.contains(&name.as_str()))
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let limit = limit.min(LONGEST);
        env.extend(
            ENVIRONMENT
                .iter()
                .map(|(name, value)| (name.into(), value.into())),
        );
        Self {
            shared: Arc::new(Shared {
                argv,
                env,
                limit,
                cwd,
                rate: watch::Sender::new(None),
                account: watch::Sender::new(None),
            }),
        }
    }

    /// The version of gh, as `2.102.0`.
    pub(crate) async fn version(&self) -> Result<String, GithubError> {
        let output = self.run(&["--version".into()], None, self.deadline()).await;
        let output = output.map_err(|error| self.not_run("--version", &error))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let version = said
            .split_whitespace()
            .skip_while(|word| *word != "version")
            .nth(1);
        let broken = || GithubError::Broken {
            path: "--version".to_owned(),
            what: classify::said(&output.stdout),
        };
        version.map(str::to_owned).ok_or_else(broken)
    }

    /// The newest that an answer said.
    pub(crate) fn rate(&self) -> Option<Rate> {
        *self.shared.rate.borrow()
    }
}

/// Without the environment: it may hold a token.
impl fmt::Debug for Github {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Github")
            .field("argv", &self.shared.argv)
            .field("limit", &self.shared.limit)
            .finish()
    }
}
