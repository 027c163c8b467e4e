//! File operations below a worktree that never follow a symlink.
//!
//! Independent of git. Contents are read by [`crate::files`].

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use super::{GitError, Result};
use crate::files;

/// Type of the file at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    Absent,
    Folder,
    File {
        mode: u32,
    },
    Link,
    /// Socket, pipe or device: never read.
    Other,
}

/// Creates the error for an action on a path.
pub(super) fn at<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl Fn(io::Error) -> GitError + use<'a> {
    move |source| {
        let full =
            [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&source.kind());
        if full {
            return GitError::NoSpace {
                args: format!("({action} {})", path.display()),
            };
        }
        GitError::File {
            action,
            path: path.to_owned(),
            source,
        }
    }
}

pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Removes line ends from the end of a file that names a path, as git does. Spaces belong to the
/// path.
pub(super) fn without_line_end(mut bytes: &[u8]) -> &[u8] {
    while let [rest @ .., b'\n' | b'\r'] = bytes {
        bytes = rest;
    }
    bytes
}

pub(super) fn thing(path: &Path) -> Result<FileKind> {
    const ABSENT: [io::ErrorKind; 2] = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
    match path.symlink_metadata() {
        Ok(meta) => Ok(FileKind::of(&meta)),
        Err(error) if ABSENT.contains(&error.kind()) => Ok(FileKind::Absent),
        Err(error) => Err(at("inspect", path)(error)),
    }
}

impl FileKind {
    pub(super) fn of(meta: &Metadata) -> Self {
        let kind = meta.file_type();
        if kind.is_dir() {
            Self::Folder
        } else if kind.is_symlink() {
            Self::Link
        } else if kind.is_file() {
            let mode = meta.permissions().mode() & 0o777;
            Self::File { mode }
        } else {
            Self::Other
        }
    }
}

/// Returns the shortest prefix of `path` below `root` that is not a directory: a symlink that would
/// lead elsewhere, a file, or nothing. `None` if all parents are directories.
pub(super) fn first_non_folder(root: &Path, path: &Path) -> Result<Option<PathBuf>> {
    let mut prefix = PathBuf::new();
    for part in path.parent().into_iter().flat_map(Path::components) {
        prefix.push(part);
        if thing(&root.join(&prefix))? != FileKind::Folder {
            return Ok(Some(prefix));
        }
    }
    Ok(None)
}

/// Returns the file at `path` below `root`, or the file that occupies one of its parent
/// directories; `None` if the path is free.
pub(super) fn standing(root: &Path, path: &Path) -> Result<Option<(PathBuf, FileKind)>> {
    let first = first_non_folder(root, path)?.unwrap_or_else(|| path.to_owned());
    let found = thing(&root.join(&first))?;
    Ok((found != FileKind::Absent).then_some((first, found)))
}

/// Returns true if a path stays below the directory that it is joined to.
pub(super) fn is_inside(path: &Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Removes a file, a symlink or an empty directory. A missing path is not an error.
pub(super) fn remove(path: &Path) -> Result<()> {
    let result = match thing(path)? {
        FileKind::Absent => return Ok(()),
        FileKind::Folder => fs::remove_dir(path),
        FileKind::File { .. } | FileKind::Link | FileKind::Other => fs::remove_file(path),
    };
    result.map_err(at("remove", path))
}

/// Removes the parent directories of `path` that have become empty, up to `root`.
pub(super) fn remove_empty_parents(root: &Path, path: &Path) {
    let parents = path.ancestors().skip(1);
    for parent in parents.filter(|p| !p.as_os_str().is_empty()) {
        // It is not empty, which ends the loop.
        if fs::remove_dir(root.join(parent)).is_err() {
            return;
        }
    }
}

/// Writes a file that must not exist yet and creates its parent directories; never through a
/// symlink.
pub(super) fn write_new(root: &Path, path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    make_parents(root, path)?;
    let full = root.join(path);
    let mut file = files::create_private(&full).map_err(at("write", &full))?;
    file.write_all(bytes).map_err(at("write", &full))?;
    file.set_permissions(Permissions::from_mode(mode))
        .map_err(at("set the mode of", &full))
}

pub(super) fn link_new(root: &Path, path: &Path, target: &[u8]) -> Result<()> {
    make_parents(root, path)?;
    let full = root.join(path);
    symlink(path_of(target), &full).map_err(at("link", &full))
}

fn make_parents(root: &Path, path: &Path) -> Result<()> {
    while let Some(in_the_way) = first_non_folder(root, path)? {
        let full = root.join(in_the_way);
        remove(&full)?;
        fs::create_dir(&full).map_err(at("make", &full))?;
    }
    Ok(())
}

/// Returns true if a path exists and is this canonical directory.
pub(super) fn leads_to(path: &Path, dir: &Path) -> bool {
    path.canonicalize().is_ok_and(|found| found == dir)
}

/// Returns the sorted paths of the entries of a directory; empty if the path is not a directory.
pub(super) fn paths_in(dir: &Path) -> Result<Vec<PathBuf>> {
    Ok(names(dir)?.iter().map(|name| dir.join(name)).collect())
}

/// Returns the sorted names in a directory; empty if the path is not a directory.
pub(super) fn names(path: &Path) -> Result<Vec<PathBuf>> {
    if thing(path)? != FileKind::Folder {
        return Ok(Vec::new());
    }
    let names = files::names(path).map_err(at("read", path))?;
    Ok(names.into_iter().map(PathBuf::from).collect())
}

/// Replaces a file atomically: after a power failure either the old or the new one is there,
/// complete.
pub(super) fn replace_durably(path: &Path, bytes: &[u8]) -> Result<()> {
    files::replace(path, bytes).map_err(at("replace", path))?;
    sync_folder(path.parent().unwrap_or(Path::new("/")))
}

pub(super) fn sync_folder(path: &Path) -> Result<()> {
    File::open(path)
        .and_then(|dir| dir.sync_all())
        .map_err(at("sync", path))
}
