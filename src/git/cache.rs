//! Caches that tools leave wherever they run and that nobody commits.
//!
//! While untracked they count as ignored, even if no `.gitignore` names them: the agent that ran
//! the tests did not write them. Tracked ones are ordinary files.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Git, Place, Result};

const FOLDERS: [&str; 4] = ["__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"];
const FILES: [&str; 1] = [".DS_Store"];

/// Returns true if an untracked path is a file of a cache. A name that ends in `/` is a nested git
/// repository and never a cache.
pub(super) fn is_cache(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    !name.is_empty()
        && (folder_of(path).is_some() || FILES.iter().any(|file| file.as_bytes() == name))
}

/// Returns the outermost cache directory that contains a path.
fn folder_of(path: &[u8]) -> Option<&[u8]> {
    let mut from = 0;
    while let Some(length) = path.get(from..)?.iter().position(|byte| *byte == b'/') {
        let name = path.get(from..from + length)?;
        if FOLDERS.iter().any(|folder| folder.as_bytes() == name) {
            return path.get(..from + length);
        }
        from += length + 1;
    }
    None
}

/// Returns patterns for all caches in `.gitignore` syntax.
pub(super) fn ignore_patterns() -> impl Iterator<Item = String> {
    FOLDERS
        .iter()
        .map(|name| format!("{name}/"))
        .chain(FILES.iter().map(|name| (*name).to_owned()))
}

impl Git {
    /// Lists the untracked caches of a worktree: directories, and single files in directories that
    /// also contain tracked files. `index` is used instead of the worktree's index.
    pub(super) async fn untracked_caches(
        &self,
        place: &Place,
        index: Option<&Path>,
    ) -> Result<Vec<Vec<u8>>> {
        let mut others = self.untracked(place, index).await?;
        others.retain(|path| is_cache(path));
        if others.is_empty() {
            return Ok(Vec::new());
        }
        let tracked = self.tracked(place, index).await?;
        let mixed: BTreeSet<&[u8]> = tracked.iter().filter_map(|path| folder_of(path)).collect();
        let whole = |path: &[u8]| {
            let folder = folder_of(path).filter(|folder| !mixed.contains(folder));
            folder.unwrap_or(path).to_vec()
        };
        let found: BTreeSet<Vec<u8>> = others.iter().map(|path| whole(path)).collect();
        Ok(found.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_known_caches_are_caches() {
        for path in [
            "__pycache__/x.pyc",
            "a/__pycache__/b/x",
            ".DS_Store",
            "a/.DS_Store",
            ".ruff_cache/0/x",
        ] {
            assert!(is_cache(path.as_bytes()), "{path}");
        }
        for path in [
            "x.pyc",
            "__pycache__",
            "a/my__pycache__/x",
            "__pycache__/repository/",
            "x.DS_Store",
            "a/",
            "",
        ] {
            assert!(!is_cache(path.as_bytes()), "{path}");
        }
        assert_eq!(
            folder_of(b"a/__pycache__/.mypy_cache/x"),
            Some(&b"a/__pycache__"[..])
        );
    }
}
