//! Tracked files of a repository, for detecting set-up and tests. Untracked files are ignored: a
//! fresh worktree does not have them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(super) struct Top {
    path: PathBuf,
    tracked: BTreeSet<String>,
}

impl Top {
    /// Creates the list; `tracked` has paths relative to the top of the worktree.
    pub(super) fn new(path: &Path, tracked: impl IntoIterator<Item = String>) -> Self {
        Self {
            path: path.to_owned(),
            tracked: tracked.into_iter().collect(),
        }
    }

    /// True if the top directory has this file.
    pub(super) fn has(&self, name: &str) -> bool {
        self.tracked.contains(name)
    }

    pub(super) fn has_folder(&self, name: &str) -> bool {
        self.tracked.iter().any(|path| {
            path.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('/'))
        })
    }

    /// Returns the first file in the top directory that matches one of these names.
    pub(super) fn first_of(&self, wanted: &[&str]) -> Option<&str> {
        let at_top = self.tracked.iter().filter(|path| !path.contains('/'));
        at_top
            .map(String::as_str)
            .find(|name| wanted.iter().any(|one| matches(one, name)))
    }

    /// Returns the file names, in any directory, that match one of these names.
    pub(super) fn names_of(&self, wanted: &[&str]) -> BTreeSet<&str> {
        let names = self
            .tracked
            .iter()
            .map(|path| path.rsplit('/').next().unwrap_or(path));
        names
            .filter(|name| wanted.iter().any(|one| matches(one, name)))
            .collect()
    }

    /// Reads a file in the top directory; empty if it does not exist.
    pub(super) fn text(&self, name: &str) -> String {
        if self.has(name) {
            std::fs::read_to_string(self.path.join(name)).unwrap_or_default()
        } else {
            String::new()
        }
    }

    /// Returns a string from a JSON file in the top directory.
    pub(super) fn json_string(&self, name: &str, pointer: &str) -> Option<String> {
        let value: serde_json::Value = serde_json::from_str(&self.text(name)).ok()?;
        Some(value.pointer(pointer)?.as_str()?.to_owned())
    }
}

/// True if the name matches; a pattern that starts with `*` is a suffix.
fn matches(wanted: &str, name: &str) -> bool {
    match wanted.strip_prefix('*') {
        Some(end) => name.ends_with(end),
        None => name == wanted,
    }
}
