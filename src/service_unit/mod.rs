//! What starts remand with the machine, as text: a unit for systemd, a property list for launchd. It writes no file and
//! asks nobody; secrets never stand in such a text, which anybody may read.

mod installed;
mod launchd;
mod systemd;

use std::path::{Path, PathBuf};

pub(crate) use installed::{Installed, installed};

/// In every text that we wrote: what is without it is somebody else's.
const MARK: &str = "Written by `remand service install`";

/// Who keeps it running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Systemd,
    Launchd,
}

/// For whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// For whoever installs it, as long as he is logged in.
    User,
    /// For the machine, run as this user.
    System { run_as: String },
}

/// What is to be run, and what it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnitSpec {
    pub(crate) scope: Scope,
    /// This program.
    pub(crate) program: PathBuf,
    /// What it is called with.
    pub(crate) args: Vec<String>,
    /// Where programs are looked for: git, gh, the agents.
    pub(crate) path: String,
    /// Variables for the daemon and its agents, read when it starts. Secrets belong there, not into the unit.
    pub(crate) environment: PathBuf,
    /// Beside the blackboard; the log goes there where nothing else takes it.
    pub(crate) state: PathBuf,
    /// What must be written: worktrees and their repositories, what agents keep in their home.
    pub(crate) writable: Vec<PathBuf>,
    /// What must be read, wherever it is: this program, the settings.
    pub(crate) readable: Vec<PathBuf>,
    /// How long a stop in good order may take.
    pub(crate) stop_s: u64,
}

impl UnitSpec {
    /// As it is from inside a file system that is at `root` now.
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

/// A path as it is from inside a file system that is at `root` now.
pub(crate) fn seen_from(root: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(root)
        .map_or_else(|_| path.to_owned(), |rest| Path::new("/").join(rest))
}

/// A path or a word that has no place in such a text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfit {
    #[error(
        "{what:?} can't be written into a unit: it has a control character in it, or is not UTF-8"
    )]
    Text { what: String },
    #[error("systemd starts no program with a quote or a backslash in its path, such as {}: move it elsewhere", program.display())]
    Program { program: PathBuf },
}

pub(crate) fn text(kind: Kind, wish: &UnitSpec) -> Result<String, Unfit> {
    match kind {
        Kind::Systemd => systemd::unit(wish),
        Kind::Launchd => launchd::plist(wish),
    }
}

/// Whether such a text was written by us.
pub(crate) fn is_ours(text: &str) -> bool {
    text.contains(MARK)
}

/// Whether two texts mean the same. Where programs are looked for is that of the shell it was installed from, and differs
/// from shell to shell.
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
    // What is not UTF-8 was turned into text with this in it.
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
