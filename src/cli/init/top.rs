//! The tracked files of a repository, as far as set-up and tests are found by them. Untracked files do not count: a fresh
//! worktree does not have them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(super) struct Top {
    path: PathBuf,
    tracked: BTreeSet<String>,
}

impl Top {
    /// `tracked` has paths from the top of the worktree.
    pub(super) fn new(path: &Path, tracked: impl IntoIterator<Item = String>) -> Self {
        Self {
            path: path.to_owned(),
            tracked: tracked.into_iter().collect(),
        }
    }

    /// Returns whether the top folder has such a file.
    pub(super) fn has(&self, name: &str) -> bool {
        self.tracked.contains(name)
    }

    pub(super) fn has_folder(&self, name: &str) -> bool {
        self.tracked.iter().any(|path| {
            path.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('/'))
        })
    }

    /// The first file at the top that has one of these names.
    pub(super) fn first_of(&self, wanted: &[&str]) -> Option<&str> {
        let at_top = self.tracked.iter().filter(|path| !path.contains('/'));
        at_top
            .map(String::as_str)
            .find(|name| wanted.iter().any(|one| matches(one, name)))
    }

    /// The names, in whichever folder, that one of these stands for.
    pub(super) fn names_of(&self, wanted: &[&str]) -> BTreeSet<&str> {
        let names = self
            .tracked
            .iter()
            .map(|path| path.rsplit('/').next().unwrap_or(path));
        names
            .filter(|name| wanted.iter().any(|one| matches(one, name)))
            .collect()
    }

    /// The text of a file at the top; empty where it is not there.
    pub(super) fn text(&self, name: &str) -> String {
        if self.has(name) {
            std::fs::read_to_string(self.path.join(name)).unwrap_or_default()
        } else {
            String::new()
        }
    }

    /// A string in a JSON file at the top.
    pub(super) fn json_string(&self, name: &str, pointer: &str) -> Option<String> {
        let value: serde_json::Value = serde_json::from_str(&self.text(name)).ok()?;
        Some(value.pointer(pointer)?.as_str()?.to_owned())
    }
}

/// A name that begins with `*` is the end of one.
fn matches(wanted: &str, name: &str) -> bool {
    match wanted.strip_prefix('*') {
        Some(end) => name.ends_with(end),
        None => name == wanted,
    }
}
