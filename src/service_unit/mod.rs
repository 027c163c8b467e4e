//! Service definitions as text: a unit for systemd, a property list for launchd.
//!
//! This module writes no file and runs no program; secrets are never in such a text, which anyone
//! may read.

mod installed;
mod launchd;
mod systemd;

use std::path::{Path, PathBuf};

pub(crate) use installed::{Installed, installed};

/// Marker in every file that remand wrote: a file without it belongs to someone else.
const MARK: &str = "Written by `remand service install`";

/// Service manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Systemd,
    Launchd,
}

/// Scope of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// For the user who installs it, while they are logged in.
    User,
    /// For the machine, run as this user.
    System { run_as: String },
}

/// Program to run, and what it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnitSpec {
    pub(crate) scope: Scope,
    /// This program.
    pub(crate) program: PathBuf,
    /// Arguments of the program.
    pub(crate) args: Vec<String>,
    /// PATH for git, gh and the agents.
    pub(crate) path: String,
    /// File with variables for the daemon and its agents, read when it starts. Secrets belong
    /// there, not in the unit.
    pub(crate) environment: PathBuf,
    /// Directory of the blackboard; the log goes there if the service manager does not take it.
    pub(crate) state: PathBuf,
    /// Paths that must be writable: worktrees and their repositories, and what agents store in
    /// their home.
    pub(crate) writable: Vec<PathBuf>,
    /// Paths that must be readable, wherever they are: this program, the settings.
    pub(crate) readable: Vec<PathBuf>,
    /// Maximum duration of an orderly stop.
    pub(crate) stop_s: u64,
}

impl UnitSpec {
    /// Changes all paths to those seen from inside a file system that is currently mounted at
    /// `root`.
    pub(crate) fn seen_from(&mut self, root: &Path) {
        let seen = |path: &PathBuf| seen_from(root, path);
        self.program = seen(&self.program);
        self.state = seen(&self.state);
        self.environment = seen(&self.environment);
        for paths in [&mut self.writable, &mut self.readable] {
            *paths = paths.iter().map(seen).collect();
        }
        self.args = self
            .args
            .iter()
            .map(|arg| seen(&PathBuf::from(arg)).to_string_lossy().into_owned())
            .collect();
    }
}

/// Returns a path as seen from inside a file system that is currently mounted at `root`.
pub(crate) fn seen_from(root: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(root)
        .map_or_else(|_| path.to_owned(), |rest| Path::new("/").join(rest))
}

/// Path or word that cannot be written into such a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfit {
    #[error("cannot write {what:?} into a unit: it contains a control character or is not UTF-8")]
    Text { what: String },
    #[error("systemd cannot start a program with a quote or a backslash in its path: {}; move it elsewhere", program.display())]
    Program { program: PathBuf },
}

pub(crate) fn text(kind: Kind, wish: &UnitSpec) -> Result<String, Unfit> {
    match kind {
        Kind::Systemd => systemd::unit(wish),
        Kind::Launchd => launchd::plist(wish),
    }
}

/// Returns true if remand wrote the text.
pub(crate) fn is_ours(text: &str) -> bool {
    text.contains(MARK)
}

/// Returns true if two texts are equal except for PATH, which is that of the shell from which the
/// service was installed, and differs from shell to shell.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let rest = |text: &str| -> Vec<String> {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut is_after_path = false;
        lines.retain(|line| {
            let is_path = line.starts_with("Environment=\"PATH=") || is_after_path;
            is_after_path = line.trim() == "<key>PATH</key>";
            !is_path
        });
        lines
    };
    rest(one) == rest(other)
}

fn fit(text: &str) -> Result<&str, Unfit> {
    // A path that is not UTF-8 contains this character after its conversion to text.
    if text
        .chars()
        .any(|c| c.is_control() || c == char::REPLACEMENT_CHARACTER)
    {
        return Err(Unfit::Text {
            what: text.to_owned(),
        });
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
