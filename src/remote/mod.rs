//! Git with credentials: looks at the remote, fetches from it, judges what is to be pushed, and pushes it. It works only in
//! a bare clone of remand's own and only with the URL that was pinned when the project was added. It must never run in,
//! or read the configuration of, a repository that an agent can write: the finished commit is taken out of the worktree
//! by [`Remote::take`], which runs with the agent's closed environment.
//!
//! Whatever needs no credentials (history, differences, contents) is asked of the `git` room, in the same clone.

mod classify;
mod clone;
mod command;
mod content_scan;
mod error;
mod fetch;
mod glob;
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

pub(crate) use error::RemoteError;
pub(crate) use push::{Push, Pushed};
pub(crate) use push_policy::{Objection, Wrong};
pub(crate) use reverts::{Ours, Undone};

/// How a remote is reached, and from where.
#[derive(Clone)]
pub(crate) struct NetworkAccess {
    /// `<state>/repos/<project>.git`.
    pub(crate) git_dir: PathBuf,
    /// Pinned when the project was added.
    pub(crate) url: String,
    /// The user's environment, for git with credentials: HOME, SSH_AUTH_SOCK, GH_TOKEN and the like.
    pub(crate) env: BTreeMap<String, String>,
    /// The agent's closed environment, for everything else.
    pub(crate) closed: BTreeMap<String, String>,
    /// Confines git in the repository of a worktree.
    pub(crate) sandbox: Arc<Sandbox>,
    /// For each call.
    pub(crate) limit: Duration,
    /// How `gh` is called: it knows the password of an https URL if nobody else does. Empty: it is not asked.
    pub(crate) gh: Vec<String>,
}

#[derive(Clone)]
pub(crate) struct Remote {
    reach: Arc<NetworkAccess>,
    /// Without credentials, in the same clone.
    git: Git,
    place: Place,
}

/// Whether a text that is about to leave has a secret in it: one that is known, or one that looks like one.
pub(crate) fn tells_a_secret(text: &str, known: &[Secret]) -> bool {
    crate::secret_scan::has_any(text.as_bytes())
        || known_secrets::KnownSecrets::new(known)
            .find(text.as_bytes())
            .is_some()
}

impl Remote {
    pub(crate) fn new(reach: NetworkAccess) -> Self {
        let dir = reach.git_dir.clone();
        let place = Place {
            path: dir.clone(),
            git_dir: dir.clone(),
            common_dir: dir,
        };
        let git = Git::for_own_clone(&reach.closed, reach.limit, &reach.sandbox);
        Self {
            git,
            reach: Arc::new(reach),
            place,
        }
    }

    /// The same, with what every git of its own carries in its environment.
    pub(crate) fn marked(self, mark: &str) -> Self {
        let mut reach = NetworkAccess::clone(&self.reach);
        for env in [&mut reach.env, &mut reach.closed] {
            env.insert(process::MARK.to_owned(), mark.to_owned());
        }
        Self::new(reach)
    }

    /// The bare clone.
    pub(crate) fn path(&self) -> &Path {
        &self.place.path
    }
}
