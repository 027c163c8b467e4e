//! Files below a worktree, touched without following a symlink. Knows nothing of git. Contents are read by [`crate::files`].

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use super::GitError;
use crate::files;

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileKind {
    Absent,
    Folder,
    File {
        mode: u32,
    },
    Link,
    /// A socket, a pipe, a device: never read.
    Other,
}

/// Makes the error of an action on a path.
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

pub(super) fn thing(path: &Path) -> Result<FileKind, GitError> {
    let meta = match path.symlink_metadata() {
        Ok(meta) => meta,
        Err(error)
            if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) =>
        {
            return Ok(FileKind::Absent);
        }
        Err(error) => return Err(at("look at", path)(error)),
    };
    let kind = meta.file_type();
    Ok(if kind.is_dir() {
        FileKind::Folder
    } else if kind.is_symlink() {
        FileKind::Link
    } else if kind.is_file() {
        FileKind::File {
            mode: meta.permissions().mode() & 0o777,
        }
    } else {
        FileKind::Other
    })
}

/// The shortest prefix of `path` below `root` that is no folder: a symlink that would lead elsewhere, a
/// file, or nothing. None when all parents are folders.
pub(super) fn first_non_folder(root: &Path, path: &Path) -> Result<Option<PathBuf>, GitError> {
    let mut prefix = PathBuf::new();
    for part in path.parent().into_iter().flat_map(Path::components) {
        prefix.push(part);
        if thing(&root.join(&prefix))? != FileKind::Folder {
            return Ok(Some(prefix));
        }
    }
    Ok(None)
}

/// What is at `path` below `root`, or the file that stands where one of its folders must be; none when the way is free.
pub(super) fn standing(root: &Path, path: &Path) -> Result<Option<(PathBuf, FileKind)>, GitError> {
    let first = first_non_folder(root, path)?.unwrap_or_else(|| path.to_owned());
    let found = thing(&root.join(&first))?;
    Ok((found != FileKind::Absent).then_some((first, found)))
}

/// A path that stays below the folder that it is joined to.
pub(super) fn is_inside(path: &Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Removes a file, a symlink or an empty folder; nothing there is fine.
pub(super) fn remove(path: &Path) -> Result<(), GitError> {
    let result = match thing(path)? {
        FileKind::Absent => return Ok(()),
        FileKind::Folder => fs::remove_dir(path),
        FileKind::File { .. } | FileKind::Link | FileKind::Other => fs::remove_file(path),
    };
    result.map_err(at("remove", path))
}

/// Removes the folders above `path` that became empty, up to `root`.
pub(super) fn remove_empty_parents(root: &Path, path: &Path) {
    for parent in path
        .ancestors()
        .skip(1)
        .filter(|p| !p.as_os_str().is_empty())
    {
        // It is not empty, then: which is what stops us.
        if fs::remove_dir(root.join(parent)).is_err() {
            return;
        }
    }
}

/// Writes a file that must not be there yet, below folders that are made; never through a symlink.
pub(super) fn write_new(root: &Path, path: &Path, bytes: &[u8], mode: u32) -> Result<(), GitError> {
    make_parents(root, path)?;
    let full = root.join(path);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&full)
        .map_err(at("write", &full))?;
    file.write_all(bytes).map_err(at("write", &full))?;
    file.set_permissions(Permissions::from_mode(mode))
        .map_err(at("set the mode of", &full))
}

pub(super) fn link_new(root: &Path, path: &Path, target: &[u8]) -> Result<(), GitError> {
    make_parents(root, path)?;
    let full = root.join(path);
    symlink(path_of(target), &full).map_err(at("link", &full))
}

fn make_parents(root: &Path, path: &Path) -> Result<(), GitError> {
    while let Some(in_the_way) = first_non_folder(root, path)? {
        let full = root.join(in_the_way);
        remove(&full)?;
        fs::create_dir(&full).map_err(at("make", &full))?;
    }
    Ok(())
}

/// The names in a folder, sorted; what is no folder has none.
pub(super) fn names(path: &Path) -> Result<Vec<PathBuf>, GitError> {
    if thing(path)? != FileKind::Folder {
        return Ok(Vec::new());
    }
    Ok(files::names(path)
        .map_err(at("read", path))?
        .into_iter()
        .map(PathBuf::from)
        .collect())
}

/// Writes a file so that after a power cut there is the old one or the new one, whole.
pub(super) fn replace_durably(path: &Path, bytes: &[u8]) -> Result<(), GitError> {
    files::replace(path, bytes).map_err(at("replace", path))?;
    sync_folder(path.parent().unwrap_or(Path::new("/")))
}

pub(super) fn sync_folder(path: &Path) -> Result<(), GitError> {
    File::open(path)
        .and_then(|dir| dir.sync_all())
        .map_err(at("sync", path))
}
