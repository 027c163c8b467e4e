//! Git in a worktree that an agent can write.
//!
//! Inspects the worktree, commits what is uncommitted, saves and reverts what an interrupted run
//! left behind, and moves the worktree to the remote's head. It has no credentials and must never
//! reach the network: nothing here pushes, commits are imported only from a path on this machine,
//! and every other transport is refused.
//!
//! An agent can write the `.git` that its worktree shares, so nothing is discovered: each call
//! names the git dir, the common dir and the work tree, and runs with the agent's closed
//! environment and confined like the agent, without network, hooks, fsmonitor, external diffs, or
//! the repository's filters and merge drivers. A failed inspection is an error, never "nothing
//! there".

mod agent_config;
mod agent_config_journal;
mod agent_config_paths;
mod branch_tips;
mod bytes;
mod cache;
mod checkout;
mod checkout_fingerprint;
mod command;
mod commit;
mod config_files;
mod convert;
mod diff;
mod drivers;
mod error;
mod fast_forward;
mod fs_nofollow;
mod gate_view;
mod head_at;
mod head_state;
mod history;
mod import_commit;
mod lock;
mod move_marker;
mod moved_branches;
mod net_diff;
mod path_access;
mod prose_only;
mod pull_template;
mod rebase;
mod repository;
mod restore;
mod reviewed_refs;
mod setup_product;
mod special;
mod status;
mod wip;
mod work_size;
mod worktree_add;
mod worktree_remove;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use command::GitCommand;
use drivers::KnownDrivers;
use tokio::sync::OnceCell;

use crate::sandbox::Sandbox;

pub(crate) use crate::branch_name::check_branch_name;
pub(crate) use agent_config_paths::is_agent_config;
pub(crate) use checkout::{Checkout, Kept};
pub(crate) use checkout_fingerprint::CheckoutFingerprint;
pub(crate) use command::{is_older, utf8};
pub(crate) use diff::{Diff, FileChange, FileStatus};
pub(crate) use error::{GitError, Result};
pub(crate) use gate_view::GateView;
pub(crate) use head_at::HeadAt;
pub(crate) use head_state::Uncommitted;
pub(crate) use history::check_sha;
pub(crate) use moved_branches::{FreeBranches, MovedBranch};
pub(crate) use net_diff::NetFile;
pub(crate) use prose_only::only_prose_about_review;
pub(crate) use rebase::{Rebase, Rebased};
pub(crate) use repository::{Listed, Operation, Place, Project, Worktree};
pub(crate) use restore::{RestorePoint, Restored, remove_index_lock};
pub(crate) use reviewed_refs::{REVIEWED, reviewed_ref};
pub(crate) use setup_product::Product;
pub(crate) use status::Status;
pub(crate) use worktree_add::Made;
pub(crate) use worktree_remove::{Sweep, before_removal, replaced};

/// Oldest git that this module was tested with (Debian 12).
pub(crate) const MINIMUM: (u32, u32) = (2, 39);

/// Runs git with a closed environment and a time limit.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    env: BTreeMap<String, String>,
    limit: Duration,
    sandbox: Arc<Sandbox>,
    whose: ConfigOwner,
    user_files: Arc<OnceCell<Vec<PathBuf>>>,
    /// Answer of git about drivers, and the configuration files that it was about.
    drivers: Arc<Mutex<Option<KnownDrivers>>>,
    /// Untracked files that are treated as ignored: see [`Git::pass_over`].
    passed_over: Arc<Mutex<BTreeSet<Vec<u8>>>>,
}

/// Owner of the repositories in which git is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConfigOwner {
    Agents,
    /// Written by remand alone: only the other side of a fetch has to be confined.
    Own,
}

impl Git {
    /// Creates a caller for repositories that agents can write.
    ///
    /// `env` is the agent's environment: PATH, HOME and the like, no secrets. Of its `GIT_*`
    /// variables, only those that locate the user's configuration and identity are kept: the others
    /// could redirect git to another repository.
    pub(crate) fn new(
        env: &BTreeMap<String, String>,
        limit: Duration,
        sandbox: &Arc<Sandbox>,
    ) -> Self {
        let kept = |name: &str| {
            !name.starts_with("GIT_")
                || name.starts_with("GIT_AUTHOR_")
                || name.starts_with("GIT_COMMITTER_")
                || [
                    "GIT_CONFIG_GLOBAL",
                    "GIT_CONFIG_SYSTEM",
                    "GIT_CONFIG_NOSYSTEM",
                ]
                .contains(&name)
        };
        let env = env
            .iter()
            .filter(|(name, _)| kept(name))
            .map(|(n, v)| (n.clone(), v.clone()))
            .collect();
        let sandbox = Arc::clone(sandbox);
        Self {
            env,
            limit,
            sandbox,
            whose: ConfigOwner::Agents,
            user_files: Arc::default(),
            drivers: Arc::default(),
            passed_over: Arc::default(),
        }
    }

    /// Creates a caller for repositories that no agent can write: remand's bare clones and
    /// checkouts.
    pub(crate) fn for_own_clone(
        env: &BTreeMap<String, String>,
        limit: Duration,
        sandbox: &Arc<Sandbox>,
    ) -> Self {
        Self {
            whose: ConfigOwner::Own,
            ..Self::new(env, limit, sandbox)
        }
    }

    /// Returns the version of git; an error if it is older than [`MINIMUM`].
    pub(crate) async fn version(&self) -> Result<(u32, u32)> {
        let call = GitCommand::anywhere("/".as_ref(), "version");
        let text = self.line(call).await?;
        let found =
            read_version(&text).ok_or_else(|| GitError::output("version", text.as_bytes()))?;
        if found < MINIMUM {
            Err(GitError::TooOld {
                found: text,
                minimum: MINIMUM,
            })
        } else {
            Ok(found)
        }
    }
}

/// Parses `git version 2.39.5 (Apple Git-154)`.
fn read_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix("git version ")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}
