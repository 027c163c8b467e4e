//! Program that the daemon starts for its own children (`remand __shim`).
//!
//! It is always the running version, even after the file was replaced: both sides of the shim's
//! pipe must use the same format, and the old path may no longer exist.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

#[cfg(not(target_os = "linux"))]
use crate::wake::beside;

/// Name of the running file itself, valid even if the file no longer has a path.
#[cfg(target_os = "linux")]
const RUNNING: &str = "/proc/self/exe";

/// Returns the program for a command that ends by itself.
#[cfg(target_os = "linux")]
pub(super) fn running() -> anyhow::Result<PathBuf> {
    Ok(RUNNING.into())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn running() -> anyhow::Result<PathBuf> {
    path()
}

/// Returns the program for a daemon, which may outlive the file that it was started from. The
/// caller holds the daemon's lock.
#[cfg(target_os = "linux")]
#[expect(
    clippy::unnecessary_wraps,
    reason = "copying can fail on other systems"
)]
pub(super) fn kept(_blackboard: &Path) -> anyhow::Result<PathBuf> {
    Ok(RUNNING.into())
}

/// Copies the program beside the blackboard, since the running file has no name of its own here.
/// The next daemon replaces the copy.
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

/// Returns the path that this program was started from.
pub(super) fn path() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot determine the path of this program")
}
