//! Checks the machine: git, free disk space, a sandbox for agents.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{CALL, Check, Surroundings};

use crate::config;
use crate::daemon;
use crate::git::{Git, GitError, MINIMUM};
use crate::sandbox::{Backend, Unconfined};
use crate::text::bytes;

/// Free space below which nothing can be created any more.
const TOO_LITTLE: u64 = 100 * 1024 * 1024;
/// Free space that will soon be too little.
const LITTLE: u64 = 1024 * 1024 * 1024;

pub(super) fn closed_git(around: &Surroundings) -> Git {
    let sandbox = Arc::new(daemon::sandbox(&around.loaded));
    Git::new(&config::agent_environment(&[]), CALL, &sandbox)
}

pub(super) async fn git(around: Arc<Surroundings>) -> Vec<Check> {
    let git = closed_git(&around);
    let version = match git.version().await {
        Ok((major, minor)) => Check::ok("git", format!("{major}.{minor}")),
        Err(GitError::NoGit) => Check::fail("git", "not found", "install git, or add it to PATH"),
        Err(error @ GitError::TooOld { .. }) => {
            let r#do = format!("install git {}.{} or newer", MINIMUM.0, MINIMUM.1);
            Check::fail("git", error.to_string(), r#do)
        }
        Err(error) => Check::fail("git", error.to_string(), "run `git version` yourself"),
    };
    let is_there = version.state == super::State::Ok;
    let mut checks = vec![version];
    // A project may have its own identity for commits: that is checked there.
    if is_there && around.projects.is_empty() {
        checks.extend(nameless(git.knows_who(Path::new("/")).await.ok(), "git"));
    }
    checks
}

/// Reports a missing identity for commits.
pub(super) fn nameless(knows: Option<bool>, check: &str) -> Option<Check> {
    (knows == Some(false)).then(|| {
        Check::warn(
            check,
            "user.name and user.email are not set: fixes are committed as `remand <remand@localhost>`",
            "run `git config --global user.name NAME`, and the same for user.email",
        )
    })
}

/// Reports what an agent can read.
pub(super) async fn sandbox(around: Arc<Surroundings>) -> Vec<Check> {
    const OPEN: &str = "agents can read everything that you can read, including keys and tokens";
    let sandbox = daemon::sandbox(&around.loaded);
    let check = match sandbox.way().await {
        Ok(Backend::Bubblewrap(found)) if !found.can_cut_network => Check::warn(
            "sandbox",
            format!(
                "bubblewrap ({}), but git in worktrees has network access",
                found.program.display()
            ),
            "allow network namespaces: `bwrap --unshare-net --ro-bind / / true` shows the error",
        ),
        Ok(Backend::Bubblewrap(found)) => {
            let says = format!("bubblewrap ({})", found.program.display());
            Check::ok("sandbox", says)
        }
        Ok(Backend::Wrapper(words)) => {
            Check::ok("sandbox", format!("your own wrapper: {}", words.join(" ")))
        }
        Ok(Backend::Open(why @ Unconfined::Off)) => Check::warn(
            "sandbox",
            format!("none ({why}): {OPEN}"),
            "set `kind = \"auto\"` in [sandbox]",
        ),
        Ok(Backend::Open(why)) => {
            Check::warn("sandbox", format!("none ({why}): {OPEN}"), mend(why))
        }
        Err(why) => Check::fail(
            "sandbox",
            format!("required, but not available ({why}): no agent can run"),
            mend(why),
        ),
    };
    vec![check]
}

fn mend(why: &Unconfined) -> &'static str {
    if cfg!(target_os = "macos") {
        "set a wrapper in [sandbox], such as one around sandbox-exec"
    } else if *why == Unconfined::NotInstalled {
        "install it: `sudo apt install bubblewrap`, `sudo dnf install bubblewrap`, or set a wrapper in [sandbox]"
    } else {
        "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone, \
         kernel.apparmor_restrict_unprivileged_userns), or set a wrapper in [sandbox]"
    }
}

pub(super) async fn disk(around: Arc<Surroundings>) -> Vec<Check> {
    let mut places = vec![around.loaded.state_folder()];
    for project in &around.projects {
        let set = around.loaded.project(project.project_id.as_str());
        places.push(set.own_worktrees);
        places.extend(set.worktree_roots);
        places.push(project.path.clone().into());
    }
    // A disk that does not respond must not block the others.
    tokio::task::spawn_blocking(move || rooms(&places))
        .await
        .unwrap_or_default()
}

/// Checks each disk once.
fn rooms(places: &[PathBuf]) -> Vec<Check> {
    let mut seen = BTreeSet::new();
    let there = places.iter().filter_map(|place| existing(place));
    there
        .filter(|place| place.metadata().is_ok_and(|meta| seen.insert(meta.dev())))
        .map(room)
        .collect()
}

/// Returns the path, or its nearest existing parent directory.
pub(super) fn existing(place: &Path) -> Option<&Path> {
    place.ancestors().find(|path| path.exists())
}

fn room(place: &Path) -> Check {
    let path = place.display();
    let free = match rustix::fs::statvfs(place) {
        Ok(stat) => stat.f_bavail.saturating_mul(stat.f_frsize),
        Err(error) => return Check::warn("disk", format!("{path}: {error}"), "check it with `df`"),
    };
    let says = format!("{} free at {path}", bytes(free));
    let little = bytes(LITTLE);
    let r#do = format!("free some space: worktrees, builds and logs need at least {little}");
    if free < TOO_LITTLE {
        Check::fail("disk", says, r#do)
    } else if free < LITTLE {
        Check::warn("disk", says, r#do)
    } else {
        Check::ok("disk", says)
    }
}
