//! Reads and replaces files in places that an agent can write: the worktree, its repository, the
//! directory of a run.
//!
//! Only regular files are read, up to a limit, and no symlink below the given root is followed: a
//! pipe would block the reader, and a link to a device would exhaust memory. Nothing here ever
//! writes into an existing file.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use tokio::runtime::{Handle, RuntimeFlavor};

/// Maximum size of a file that contains one name, id or path (`HEAD`, `gitdir`, `commondir`, …).
pub(crate) const SMALL: u64 = 64 * 1024;
/// Maximum size of a record that remand itself wrote.
pub(crate) const RECORD: u64 = 64 * 1024 * 1024;

/// Maximum number of names read from one directory. No directory that remand lists has nearly as
/// many.
const MOST_NAMES: usize = 200_000;

/// Reason for not reading something that exists. It is the inner error of an [`io::Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// A symlink, directory, pipe, socket or device; or a path that contains a symlink.
    #[error("not a regular file")]
    NotRegular,
    #[error("larger than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("more than {MOST_NAMES} entries in one directory")]
    TooManyNames,
}

impl Refused {
    /// Returns the refusal inside an error, if it has one.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<Self>())
            .copied()
    }
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        Self::new(io::ErrorKind::InvalidInput, refused)
    }
}

/// Reads a regular file of at most `limit` bytes. The last component of the path is never followed.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (folder, name) = split(path)?;
    read_below(folder, Path::new(name), limit)
}

/// Like [`read`], for text. Bytes that are not UTF-8 are an error.
pub(crate) fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let bytes = read(path, limit)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Reads a regular file at a relative path below `root`. No component below `root` may be a symlink.
pub(crate) fn read_below(root: &Path, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    aside(|| {
        let file = open_file_below(root, path)?;
        let size = fstat(&file)?.st_size;
        if u64::try_from(size).unwrap_or(u64::MAX) > limit {
            return Err(Refused::TooLarge { limit }.into());
        }
        let mut bytes = Vec::new();
        // The file may grow while it is being read.
        File::from(file)
            .take(limit.saturating_add(1))
            .read_to_end(&mut bytes)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
            return Err(Refused::TooLarge { limit }.into());
        }
        Ok(bytes)
    })
}

/// Opens a regular file for reading, without a size limit, for callers that read only a part of it.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let (folder, name) = split(path)?;
    aside(|| open_file_below(folder, Path::new(name)).map(File::from))
}

/// Puts a new file with these contents at `path`, replacing anything except a directory.
///
/// Once the caller has synced the directory, a power cut leaves either the old file or the new one,
/// complete.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    aside(|| {
        // A previous crash may have left a file here, or somebody may have created a pipe.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = create_private(Path::new(&new))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    })
}

/// Creates a file that only the user can read. Fails if the path exists.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// Creates a directory and its parents that only the user can enter.
pub(crate) fn make_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Returns the sorted names in a directory. The directory itself must not be a symlink.
pub(crate) fn names(path: &Path) -> io::Result<Vec<OsString>> {
    use std::os::unix::ffi::OsStrExt as _;
    aside(|| {
        let flags = OFlags::RDONLY
            | OFlags::DIRECTORY
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        let folder = openat(CWD, path, flags, Mode::empty()).map_err(not_followed)?;
        let mut names = Vec::new();
        for entry in Dir::new(folder)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if name == "." || name == ".." {
                continue;
            }
            if names.len() == MOST_NAMES {
                return Err(Refused::TooManyNames.into());
            }
            names.push(name);
        }
        names.sort();
        Ok(names)
    })
}

/// Space that a directory takes up on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskUse {
    pub(crate) bytes: u64,
    /// False if counting was stopped: there is more.
    pub(crate) is_complete: bool,
}

/// Adds up the space of the files below a directory, for a limited time and number of files.
/// Symlinks are not followed.
pub(crate) fn disk_use(path: &Path, most_files: usize, most_time: Duration) -> DiskUse {
    let begun = Instant::now();
    let mut used = DiskUse {
        bytes: 0,
        is_complete: true,
    };
    let (mut paths, mut files) = (vec![path.to_owned()], 0);
    while let Some(path) = paths.pop() {
        files += 1;
        if files > most_files || begun.elapsed() >= most_time {
            used.is_complete = false;
            break;
        }
        let Ok(meta) = path.symlink_metadata() else {
            continue;
        };
        used.bytes = used.bytes.saturating_add(meta.blocks().saturating_mul(512));
        if meta.is_dir() {
            match names(&path) {
                Ok(names) => paths.extend(names.iter().map(|name| path.join(name))),
                Err(_) => used.is_complete = false,
            }
        }
    }
    used
}

/// Runs a function that may wait for a disk, outside the threads on which the runtime runs its
/// tasks.
///
/// Even a `stat` can block, on a file system that an agent mounted. Other tasks continue meanwhile.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // A single-threaded runtime (the shim, a test) has no other task that could be delayed; a
        // command has no runtime.
        Ok(_) | Err(_) => work(),
    }
}

fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) if folder.as_os_str().is_empty() => Ok((Path::new("."), name)),
        (Some(folder), Some(name)) => Ok((folder, name)),
        (_, _) => Err(Refused::NotRegular.into()),
    }
}

/// Opens component by component, so that nobody can replace a directory with a symlink between
/// check and open.
fn open_file_below(root: &Path, path: &Path) -> io::Result<OwnedFd> {
    let folder_flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut folder = openat(CWD, root, folder_flags, Mode::empty())?;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else {
            return Err(Refused::NotRegular.into());
        };
        if parts.peek().is_some() {
            folder = openat(
                &folder,
                name,
                folder_flags | OFlags::NOFOLLOW,
                Mode::empty(),
            )
            .map_err(not_followed)?;
            continue;
        }
        // Check the type first, since merely opening a device can have side effects.
        let stat = rustix::fs::statat(&folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Refused::NotRegular.into());
        }
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(&folder, name, flags, Mode::empty()).map_err(not_followed)?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(Refused::NotRegular.into());
        }
        return Ok(file);
    }
    Err(Refused::NotRegular.into())
}

/// Converts the error for a component that cannot be followed. On Linux a symlink in place of a
/// directory is `ENOTDIR`, like anything else that is not a directory.
fn not_followed(error: Errno) -> io::Error {
    match error {
        Errno::LOOP | Errno::NOTDIR => Refused::NotRegular.into(),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    fn refused<T: std::fmt::Debug>(result: io::Result<T>) -> Refused {
        let error = result.unwrap_err();
        Refused::of(&error).unwrap_or_else(|| panic!("{error:?}"))
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        (folder, path)
    }

    #[test]
    fn only_a_small_regular_file_is_read() {
        let (_kept, folder) = folder();
        fs::write(folder.join("file"), "text").unwrap();
        assert_eq!(read(&folder.join("file"), 4).unwrap(), b"text");
        assert_eq!(read_text(&folder.join("file"), 4).unwrap(), "text");
        assert_eq!(
            refused(read(&folder.join("file"), 3)),
            Refused::TooLarge { limit: 3 }
        );
        assert_eq!(
            read(&folder.join("none"), 4).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert_eq!(refused(read(&folder, 4)), Refused::NotRegular);
        symlink("/dev/zero", folder.join("zero")).unwrap();
        symlink("file", folder.join("link")).unwrap();
        #[cfg(target_os = "linux")]
        rustix::fs::mknodat(
            CWD,
            folder.join("pipe"),
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        #[cfg(not(target_os = "linux"))]
        symlink("/dev/null", folder.join("pipe")).unwrap();
        for name in ["zero", "link", "pipe"] {
            assert_eq!(
                refused(read(&folder.join(name), 4)),
                Refused::NotRegular,
                "{name}"
            );
            assert_eq!(
                refused(open(&folder.join(name))),
                Refused::NotRegular,
                "{name}"
            );
        }
        let sparse = File::create(folder.join("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        assert_eq!(
            refused(read(&folder.join("sparse"), SMALL)),
            Refused::TooLarge { limit: SMALL }
        );
        assert_eq!(
            refused(read(Path::new("/dev/zero"), 4)),
            Refused::NotRegular
        );
    }

    #[test]
    fn a_file_is_replaced_and_never_written_through() {
        let (_kept, folder) = folder();
        let path = folder.join("file");
        fs::write(folder.join("other"), "other").unwrap();
        for planted in [&path, &folder.join("file.new")] {
            symlink(folder.join("other"), planted).unwrap();
            replace(&path, b"new").unwrap();
            assert_eq!(read(&path, 9).unwrap(), b"new");
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(fs::read(folder.join("other")).unwrap(), b"other");
    }

    #[test]
    fn no_symlink_below_the_root_is_followed() {
        let (_kept, folder) = folder();
        let (_other, outside) = self::folder();
        fs::write(outside.join("file"), "secret").unwrap();
        fs::create_dir(folder.join("real")).unwrap();
        fs::write(folder.join("real/file"), "text").unwrap();
        symlink(&outside, folder.join("away")).unwrap();
        assert_eq!(
            read_below(&folder, Path::new("real/file"), 9).unwrap(),
            b"text"
        );
        for path in [
            "away/file",
            "../file",
            "real/../real/file",
            "/etc/hostname",
            "",
        ] {
            assert_eq!(
                refused(read_below(&folder, Path::new(path), 9)),
                Refused::NotRegular,
                "{path}"
            );
        }
        assert_eq!(names(&folder).unwrap(), ["away", "real"]);
        assert_eq!(refused(names(&folder.join("away"))), Refused::NotRegular);
        assert_eq!(
            refused(names(&folder.join("real/file"))),
            Refused::NotRegular
        );
    }

    #[test]
    fn the_use_of_a_disk_is_counted_within_limits() {
        let (_kept, folder) = folder();
        let (_other, outside) = self::folder();
        fs::write(outside.join("file"), vec![7; 100_000]).unwrap();
        let tree = folder.join("tree");
        fs::create_dir_all(tree.join("deep")).unwrap();
        fs::write(tree.join("deep/file"), vec![7; 10_000]).unwrap();
        symlink(&outside, tree.join("away")).unwrap();
        let all = disk_use(&tree, 100, Duration::from_secs(60));
        assert!(
            all.is_complete && (10_000..100_000).contains(&all.bytes),
            "{all:?}"
        );
        assert!(!disk_use(&tree, 3, Duration::from_secs(60)).is_complete);
        assert!(!disk_use(&tree, 100, Duration::ZERO).is_complete);
    }
}
