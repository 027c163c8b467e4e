//! Detects pipes and devices where git opens a file: git would wait for their other end until its
//! time limit.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use super::fs_nofollow::{paths_in, remove};
use super::repository::admin_dirs;
use super::{GitError, Place, Result};
use crate::files;

/// Files in the git dir of a worktree.
const OWN: &[&str] = &[
    "HEAD",
    "index",
    "commondir",
    "gitdir",
    "config.worktree",
    "ORIG_HEAD",
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "SQUASH_MSG",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "AUTO_MERGE",
    "info/sparse-checkout",
];

/// Files in the git dir that all worktrees share.
const SHARED: &[&str] = &[
    "HEAD",
    "config",
    "config.worktree",
    "packed-refs",
    "shallow",
    "info/attributes",
    "info/exclude",
    "info/grafts",
    "objects/info/alternates",
];

/// Directories of the git dir that all worktrees share, with one file per remote: git reads the file
/// of the remote that a branch follows.
const REMOTES: &[&str] = &["remotes", "branches"];

/// Files in the worktree itself.
const TREE: &[&str] = &[".git", ".gitattributes", ".gitignore", ".mailmap"];

/// Files of each worktree that `git worktree` reads.
const ADMIN: &[&str] = &[
    "HEAD",
    "commondir",
    "gitdir",
    "locked",
    "index",
    "config.worktree",
];

/// Maximum number of names checked after a time-out.
const MOST_LOOKED_AT: usize = 50_000;

/// Refuses a git call that would block on one of the usual files.
pub(super) fn check(place: &Place) -> Result<()> {
    files::aside(|| {
        let own = OWN.iter().map(|name| place.git_dir.join(name));
        let shared = SHARED.iter().map(|name| place.common_dir.join(name));
        let tree = TREE.iter().map(|name| place.path.join(name));
        let mut remotes = Vec::new();
        for dir in REMOTES.iter().map(|name| place.common_dir.join(name)) {
            // Some people share these between repositories by symlinks.
            let dir = dir.canonicalize().unwrap_or(dir);
            remotes.extend(paths_in(&dir)?);
        }
        refuse(own.chain(shared).chain(tree).chain(remotes))
    })
}

/// Refuses a call that reads the files of all worktrees of a repository.
pub(super) fn check_admin_dirs(common_dir: &Path) -> Result<()> {
    files::aside(|| {
        let dirs = admin_dirs(common_dir)?.into_iter();
        refuse(dirs.flat_map(|dir| ADMIN.iter().map(move |name| dir.join(name))))
    })
}

/// Finds the file on which a git that timed out may have blocked: a ref or an ignore file.
pub(super) fn find(place: &Place) -> Option<PathBuf> {
    files::aside(|| {
        let mut left = MOST_LOOKED_AT;
        let is_any = |_: &Path| true;
        let is_rules =
            |path: &Path| path.ends_with(".gitignore") || path.ends_with(".gitattributes");
        let mut roots = [&place.git_dir, &place.common_dir].into_iter();
        let refs = roots.find_map(|dir| search(&dir.join("refs"), is_any, &mut left));
        refs.or_else(|| search(&place.path, is_rules, &mut left))
    })
}

/// Removes pipes and devices from the git dir of one worktree and from the top of the worktree.
///
/// They hold nothing that could be kept. Files that all worktrees share are left to a person.
pub(super) fn remove_own(place: &Place) -> Result<()> {
    let steps = ["rebase-merge", "rebase-apply", "sequencer"];
    let mut found: Vec<PathBuf> = TREE.iter().map(|name| place.path.join(name)).collect();
    if place.is_linked() {
        found.extend(paths_in(&place.git_dir)?);
    } else {
        found.extend(OWN.iter().map(|name| place.git_dir.join(name)));
    }
    for step in steps {
        found.extend(paths_in(&place.git_dir.join(step))?);
    }
    for path in found.iter().filter(|path| blocks(path)) {
        tracing::warn!(path = %path.display(), "removed a pipe or device that git would open");
        remove(path)?;
    }
    Ok(())
}

fn refuse(mut paths: impl Iterator<Item = PathBuf>) -> Result<()> {
    match paths.find(|path| blocks(path)) {
        Some(path) => Err(GitError::SpecialFile { path }),
        None => Ok(()),
    }
}

/// Returns true if a path resolves to a pipe or a device. Sockets cannot be opened, which does not
/// block.
fn blocks(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| {
        let kind = meta.file_type();
        kind.is_fifo() || kind.is_char_device() || kind.is_block_device()
    })
}

/// Searches for a file, never in another repository or through a symlink.
fn search(root: &Path, wanted: fn(&Path) -> bool, left: &mut usize) -> Option<PathBuf> {
    for path in paths_in(root).unwrap_or_default() {
        *left = left.checked_sub(1)?;
        let is_folder = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        if is_folder && !path.ends_with(".git") {
            if let Some(found) = search(&path, wanted, left) {
                return Some(found);
            }
        } else if wanted(&path) && blocks(&path) {
            return Some(path);
        }
    }
    None
}
