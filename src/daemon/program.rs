//! The program that the daemon starts for its own children (`remand __shim`).
//!
//! It is always the version that is running, also after the file was replaced: the two sides of the shim's pipe must
//! speak the same format, and the old path may not exist any more.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

#[cfg(not(target_os = "linux"))]
use crate::wake::beside;

/// Names the running file itself, also when it has no path any more.
#[cfg(target_os = "linux")]
const RUNNING: &str = "/proc/self/exe";

/// The program for a command that ends by itself.
#[cfg(target_os = "linux")]
pub(super) fn running() -> anyhow::Result<PathBuf> {
    Ok(RUNNING.into())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn running() -> anyhow::Result<PathBuf> {
    path()
}

/// The program for a daemon, which may outlive the file that it was started from. The caller holds the daemon's lock.
#[cfg(target_os = "linux")]
#[expect(clippy::unnecessary_wraps, reason = "copying fails elsewhere")]
pub(super) fn kept(_blackboard: &Path) -> anyhow::Result<PathBuf> {
    Ok(RUNNING.into())
}

/// Without a name for the running file a copy is kept beside the blackboard. The next daemon replaces it.
#[cfg(not(target_os = "linux"))]
pub(super) fn kept(blackboard: &Path) -> anyhow::Result<PathBuf> {
    let (copy, new) = (
        beside(blackboard, "program"),
        beside(blackboard, "program.new"),
    );
    let copied = std::fs::copy(path()?, &new).and_then(|_| std::fs::rename(&new, &copy));
    copied.with_context(|| format!("cannot copy this program to {}", copy.display()))?;
    Ok(copy)
}

/// Where this program was started from.
pub(super) fn path() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("the path of this program is not known")
}
