//! Git with credentials: reads the remote, fetches from it, checks what will be pushed, and pushes
//! it.
//!
//! It works only in remand's bare clone and only with the URL that was pinned when the project was
//! added. It must never run in, or read the configuration of, a repository that an agent can write:
//! the finished commit is imported from the worktree by [`Remote::take`], which runs with the
//! agent's closed environment.
//!
//! Operations that need no credentials (history, differences, contents) use the `git` module, in
//! the same clone.

mod classify;
mod clone;
mod command;
mod content_scan;
mod error;
mod fetch;
mod known_secrets;
mod push;
mod push_policy;
mod reverts;
mod settings;
mod url;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::git::{Git, Place};
use crate::process;
use crate::sandbox::Sandbox;
use crate::secret::Secret;

pub(crate) use error::{RemoteError, Result};
pub(crate) use push::{Expected, Push, Pushed, Rule};
pub(crate) use push_policy::{Objection, Wrong};
pub(crate) use reverts::{Ours, Undone};

/// Connection settings of a remote.
#[derive(Clone)]
pub(crate) struct NetworkAccess {
    /// `<state>/repos/<project>.git`.
    pub(crate) git_dir: PathBuf,
    /// URL, pinned when the project was added.
    pub(crate) url: String,
    /// The user's environment, for git with credentials: HOME, SSH_AUTH_SOCK, GH_TOKEN and the
    /// like.
    pub(crate) env: BTreeMap<String, String>,
    /// The agent's closed environment, for everything else.
    pub(crate) closed: BTreeMap<String, String>,
    /// Confines git in the repository of a worktree.
    pub(crate) sandbox: Arc<Sandbox>,
    /// Time limit of each call.
    pub(crate) limit: Duration,
    /// Command line of `gh`, which knows the password of an https URL if nothing else does. Empty:
    /// it is not used.
    pub(crate) gh: Vec<String>,
}

#[derive(Clone)]
pub(crate) struct Remote {
    reach: Arc<NetworkAccess>,
    /// Git without credentials, in the same clone.
    git: Git,
    place: Place,
}

/// Returns true if a text that is about to be published contains a secret: a known one, or
/// something that looks like one.
pub(crate) fn tells_a_secret(text: &str, known: &[Secret]) -> bool {
    crate::secret_scan::has_any(text.as_bytes())
        || known_secrets::KnownSecrets::new(known)
            .find_new(text.as_bytes(), b"")
            .is_some()
}

impl Remote {
    pub(crate) fn new(reach: NetworkAccess) -> Self {
        let place = Place::bare(reach.git_dir.clone());
        let git = Git::for_own_clone(&reach.closed, reach.limit, &reach.sandbox);
        Self {
            git,
            reach: Arc::new(reach),
            place,
        }
    }

    /// Adds a mark to the environment of every git that it starts.
    pub(crate) fn marked(self, mark: &str) -> Self {
        let mut reach = NetworkAccess::clone(&self.reach);
        for env in [&mut reach.env, &mut reach.closed] {
            env.insert(process::MARK.to_owned(), mark.to_owned());
        }
        Self::new(reach)
    }

    /// Path of the bare clone.
    pub(crate) fn path(&self) -> &Path {
        &self.place.path
    }
}
