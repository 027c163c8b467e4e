//! Files in a run's directory that record who holds it and how the run ended.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::OFlags;

use super::{Exit, ProcessError, ProcessId};
use crate::files::{self, Refused, SMALL};

/// Returns how the run in this directory ended; `None` while it runs, or if its shim died before it
/// could record the end.
pub(crate) fn read_exit(dir: &Path) -> Result<Option<Exit>, ProcessError> {
    let path = exit_path(dir);
    // A shim writes a regular file: anything else was put there by someone else and means nothing.
    let Some(text) = if_readable(&path, files::read(&path, SMALL))? else {
        return Ok(None);
    };
    let exit = serde_json::from_slice(&text);
    exit.map(Some)
        .map_err(|source| ProcessError::BadExit { path, source })
}

/// Returns what was read from a file; `None` if there is no regular file of a sensible size.
pub(super) fn if_readable<T>(path: &Path, read: io::Result<T>) -> Result<Option<T>, ProcessError> {
    match read {
        Err(error) if Refused::of(&error).is_some() => Ok(None),
        read => if_there(read).map_err(ProcessError::file("read", path)),
    }
}

/// Turns the error for a missing file into `None`.
pub(super) fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

pub(super) fn exists(path: &Path) -> Result<bool, ProcessError> {
    let exists = path.try_exists();
    exists.map_err(ProcessError::file("inspect", path))
}

/// Holds the run's lock until it is dropped or the process is gone.
pub(super) struct Lock {
    _file: File,
}

/// Creates the directory of a run that is about to start.
pub(super) fn make(dir: &Path) -> Result<(), ProcessError> {
    files::make_private_dir(dir).map_err(ProcessError::file("make", dir))?;
    if is_over(dir)? || exists(&shim_path(dir))? {
        return Err(ProcessError::FolderUsed {
            dir: dir.to_owned(),
        });
    }
    Ok(())
}

/// Creates the directory; `false` if the name is already taken.
pub(super) fn make_new(dir: &Path) -> Result<bool, ProcessError> {
    if let Some(parent) = dir.parent() {
        files::make_private_dir(parent).map_err(ProcessError::file("make", parent))?;
    }
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(ProcessError::file("make", dir)(error)),
    }
}

/// Renames a directory to the first free name of `<dir>.old-1`, `<dir>.old-2`, …
pub(super) fn move_aside(dir: &Path) -> Result<(), ProcessError> {
    let mut n = 1_u64;
    loop {
        let mut aside = dir.as_os_str().to_owned();
        aside.push(format!(".old-{n}"));
        if meta_of(Path::new(&aside))?.is_none() {
            return fs::rename(dir, &aside).map_err(ProcessError::file("move aside", dir));
        }
        n += 1;
    }
}

/// Returns facts about a file, without following a symlink; `None` if it does not exist.
pub(super) fn meta_of(path: &Path) -> Result<Option<Metadata>, ProcessError> {
    let meta = if_there(fs::symlink_metadata(path));
    meta.map_err(ProcessError::file("inspect", path))
}

/// Removes the directory of a run with its contents; `false` if a process of the run still holds
/// its lock.
pub(crate) fn remove_folder(dir: &Path) -> Result<bool, ProcessError> {
    // `runs/..` is inside `runs` only textually.
    if dir.file_name().is_none() {
        let error = io::Error::new(ErrorKind::InvalidInput, "it has no file name");
        return Err(ProcessError::file("remove", dir)(error));
    }
    let Some(meta) = meta_of(dir)? else {
        return Ok(true);
    };
    if !meta.is_dir() {
        fs::remove_file(dir).map_err(ProcessError::file("remove", dir))?;
        return Ok(true);
    }
    let Some(_lock) = try_lock(dir)? else {
        return Ok(false);
    };
    fs::remove_dir_all(dir).map_err(ProcessError::file("remove", dir))?;
    Ok(true)
}

/// Takes the run's lock; `None` if another process holds it.
pub(super) fn try_lock(dir: &Path) -> Result<Option<Lock>, ProcessError> {
    let path = lock_path(dir);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        // Someone may have put a pipe or a symlink there.
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(&path)
        .map_err(ProcessError::file("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock { _file: file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(ProcessError::file("lock", &path)(error)),
    }
}

pub(super) fn lock_path(dir: &Path) -> PathBuf {
    dir.join("lock")
}

/// Returns true if this run has ended, or was abandoned before it started.
pub(super) fn is_over(dir: &Path) -> Result<bool, ProcessError> {
    Ok(exists(&exit_path(dir))? || exists(&settled_path(dir))?)
}

/// Prevents any shim from starting an agent in this directory from now on. Must be called with the
/// lock held.
pub(super) fn mark_settled(dir: &Path) -> Result<(), ProcessError> {
    let path = settled_path(dir);
    files::replace(&path, b"").map_err(ProcessError::file("write", &path))
}

pub(super) fn write_shim(dir: &Path, shim: &ProcessId) -> Result<(), ProcessError> {
    let path = shim_path(dir);
    files::replace(&path, shim.to_string().as_bytes()).map_err(ProcessError::file("write", &path))
}

pub(super) fn read_shim(dir: &Path) -> Result<Option<ProcessId>, ProcessError> {
    let path = shim_path(dir);
    let text = if_readable(&path, files::read_text(&path, SMALL))?;
    // It may be truncated by a power failure, or written by the agent: a file that does not name a
    // process must not prevent the run from being settled by its mark.
    Ok(text.and_then(|text| text.parse().ok()))
}

/// Returns when a run ended, in seconds since 1970.
///
/// This is the time at which its shim recorded the end or, if the machine went down with it, the
/// time of the next boot. `None` if unknown.
pub(crate) fn ended_at(dir: &Path) -> Result<Option<u64>, ProcessError> {
    if let Some(since) = modified(&exit_path(dir))? {
        return Ok(Some(since.as_secs()));
    }
    match read_shim(dir)? {
        Some(shim) if !shim.is_of_this_boot()? => Ok(came_up_at()),
        Some(_) | None => Ok(None),
    }
}

/// Returns when a file was modified, since 1970; `None` if it does not exist.
pub(super) fn modified(path: &Path) -> Result<Option<Duration>, ProcessError> {
    let Some(meta) = meta_of(path)? else {
        return Ok(None);
    };
    let time = meta
        .modified()
        .map_err(ProcessError::file("inspect", path))?;
    Ok(time.duration_since(UNIX_EPOCH).ok())
}

fn came_up_at() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let time = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    time.trim().parse().ok()
}

/// Writes `exit.json` atomically, also across a power failure: written to a temporary file, synced,
/// then renamed.
pub(super) fn write_exit(dir: &Path, exit: &Exit) -> Result<(), ProcessError> {
    let path = exit_path(dir);
    let text = serde_json::to_vec(exit).map_err(|source| ProcessError::BadExit {
        path: path.clone(),
        source,
    })?;
    let write = || {
        files::replace(&path, &text)?;
        File::open(dir)?.sync_all()
    };
    write().map_err(ProcessError::file("write", &path))
}

pub(super) fn complaints(dir: &Path) -> Result<File, ProcessError> {
    let path = dir.join("shim.err");
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&path)
        .map_err(ProcessError::file("open", &path))
}

fn exit_path(dir: &Path) -> PathBuf {
    dir.join("exit.json")
}

fn settled_path(dir: &Path) -> PathBuf {
    dir.join("settled")
}

fn shim_path(dir: &Path) -> PathBuf {
    dir.join("shim")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::Ended;

    fn exit() -> Exit {
        Exit {
            ended: Ended::Agent,
            status: Some(0),
            signal: None,
            stdout_bytes: 1,
            stderr_bytes: 2,
            leftovers: 3,
            survivors: 0,
            elapsed_ms: 4,
            detail: None,
        }
    }

    #[test]
    fn an_exit_is_read_as_it_was_written_and_closes_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_exit(dir.path()).unwrap(), None);
        make(dir.path()).unwrap();
        write_exit(dir.path(), &exit()).unwrap();
        assert_eq!(read_exit(dir.path()).unwrap(), Some(exit()));
        assert!(matches!(
            make(dir.path()),
            Err(ProcessError::FolderUsed { .. })
        ));
    }

    #[test]
    fn an_unknown_end_is_an_error_that_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("exit.json"), r#"{"ended":"bored"}"#).unwrap();
        let error = read_exit(dir.path()).unwrap_err();
        assert!(error.to_string().contains("exit.json"), "{error}");
    }

    #[test]
    fn the_folder_above_is_no_folder_of_a_run() {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join("runs");
        make(&runs.join("r1")).unwrap();
        assert!(remove_folder(&runs.join("..")).is_err());
        assert!(runs.join("r1").exists());
        assert!(remove_folder(&runs.join("r1")).unwrap());
        assert!(!runs.join("r1").exists());
    }

    #[test]
    fn one_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let lock = try_lock(dir.path()).unwrap();
        assert!(lock.is_some());
        assert!(try_lock(dir.path()).unwrap().is_none());
        drop(lock);
        assert!(try_lock(dir.path()).unwrap().is_some());
    }
}
