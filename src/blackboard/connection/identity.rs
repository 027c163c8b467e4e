//! Identity of the blackboard's files.
//!
//! A database that was deleted or replaced can still be written through an open descriptor, by a
//! daemon that would run forever on a blackboard that nobody else sees.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::blackboard::{BoardError, Result};

/// Ways in which a file is no longer the one that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vanished {
    Removed,
    Replaced,
}

impl std::fmt::Display for Vanished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Removed => "removed",
            Self::Replaced => "replaced by another file",
        })
    }
}

/// Device and inode.
type FileId = (u64, u64);

/// Files of a blackboard as they were when it was opened.
#[derive(Debug)]
pub(crate) struct Identity {
    database: PathBuf,
    database_id: FileId,
    wal: PathBuf,
    /// SQLite creates the WAL with the first read, and keeps it while anyone has the database open.
    wal_id: OnceLock<FileId>,
}

impl Identity {
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let mut wal = path.as_os_str().to_owned();
        wal.push("-wal");
        let identity = Self {
            database: path.to_owned(),
            database_id: file_id(path)?,
            wal: PathBuf::from(wal),
            wal_id: OnceLock::new(),
        };
        identity.remember_wal();
        Ok(identity)
    }

    /// Fails if the database or its WAL was removed or replaced by another file.
    pub(crate) fn check(&self) -> Result<()> {
        check(&self.database, Some(&self.database_id))?;
        self.remember_wal();
        check(&self.wal, self.wal_id.get())
    }

    /// True if only the WAL is gone and nobody has created a new one: its contents can still be
    /// moved into the database.
    pub(crate) fn is_only_wal_removed(&self) -> bool {
        check(&self.database, Some(&self.database_id)).is_ok()
            && matches!(
                check(&self.wal, self.wal_id.get()),
                Err(BoardError::Vanished {
                    how: Vanished::Removed,
                    ..
                })
            )
    }

    fn remember_wal(&self) {
        if self.wal_id.get().is_none()
            && let Ok(id) = file_id(&self.wal)
        {
            self.wal_id.get_or_init(|| id);
        }
    }
}

fn check(path: &Path, known: Option<&FileId>) -> Result<()> {
    let Some(known) = known else { return Ok(()) };
    let how = match file_id(path) {
        Ok(now) if now == *known => return Ok(()),
        Ok(_) => Vanished::Replaced,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vanished::Removed,
        // A disk that does not respond proves nothing; the write itself will report the error.
        Err(_) => return Ok(()),
    };
    Err(BoardError::Vanished {
        path: path.to_owned(),
        how,
    })
}

fn file_id(path: &Path) -> io::Result<FileId> {
    fs::metadata(path).map(|meta| (meta.dev(), meta.ino()))
}
