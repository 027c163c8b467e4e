//! What a swap of configuration did, written down before it is done, and the files that it took away.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::GitError;
use super::agent_config_paths::Blob;
use super::fs_nofollow::{
    self, FileKind, at, first_non_folder, path_of, replace_durably, sync_folder, thing,
};
use crate::files::{self, RECORD, Refused};

/// More configuration than this is something else.
pub(super) const LIMIT: u64 = 64 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    pub(super) base: String,
    /// The swap was finished, so an agent may have run since.
    pub(super) complete: bool,
    pub(super) entries: Vec<SwapEntry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SwapEntry {
    pub(super) path: Bytes,
    pub(super) head: Option<Blob>,
    pub(super) index: Option<Blob>,
    /// It was marked skip-worktree already.
    pub(super) was_hidden: bool,
    pub(super) before: Before,
    /// What the run sees: a regular file of the base, or nothing.
    pub(super) placed: Option<Blob>,
}

/// What stood on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Before {
    Absent,
    /// Left as it is: the folder of a submodule.
    Folder,
    File {
        mode: u32,
        /// Its name among the copies.
        copy: String,
    },
    Link {
        target: Bytes,
    },
}

/// Bytes that are text nearly always: as text in JSON, else as numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "TextOrBytes", into = "TextOrBytes")]
pub(super) struct Bytes(pub(super) Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum TextOrBytes {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<TextOrBytes> for Bytes {
    fn from(value: TextOrBytes) -> Self {
        match value {
            TextOrBytes::Text(text) => Self(text.into_bytes()),
            TextOrBytes::Bytes(bytes) => Self(bytes),
        }
    }
}

impl From<Bytes> for TextOrBytes {
    fn from(value: Bytes) -> Self {
        String::from_utf8(value.0).map_or_else(|error| Self::Bytes(error.into_bytes()), Self::Text)
    }
}

/// What is, or shall be, at a path of the worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    Absent,
    Folder,
    File {
        mode: u32,
        bytes: Vec<u8>,
    },
    Link {
        target: Vec<u8>,
    },
    /// What is never copied: a pipe, a socket, a file larger than configuration can be.
    Other,
}

impl Content {
    /// Never through a symlink: what lies behind one is not there.
    pub(super) fn on_disk(root: &Path, path: &Path) -> Result<Self, GitError> {
        if first_non_folder(root, path)?.is_some() {
            return Ok(Self::Absent);
        }
        let full = root.join(path);
        Ok(match thing(&full)? {
            FileKind::Absent => Self::Absent,
            FileKind::Folder => Self::Folder,
            FileKind::Other => Self::Other,
            FileKind::Link => {
                let target = fs::read_link(&full).map_err(at("read", &full))?;
                Self::Link {
                    target: target.as_os_str().as_bytes().to_vec(),
                }
            }
            FileKind::File { mode } => match files::read_below(root, path, LIMIT) {
                Ok(bytes) => Self::File { mode, bytes },
                Err(error) if Refused::of(&error).is_some() => Self::Other,
                Err(error) => return Err(at("read", &full)(error)),
            },
        })
    }

    /// As git sees it: of the mode only whether it can be executed counts.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { mode: a, bytes: x }, Self::File { mode: b, bytes: y }) => {
                a & 0o100 == b & 0o100 && x == y
            }
            _ => self == other,
        }
    }

    pub(super) fn write(&self, root: &Path, path: &Path) -> Result<(), GitError> {
        match self {
            Self::Absent | Self::Folder | Self::Other => Ok(()),
            Self::File { mode, bytes } => fs_nofollow::write_new(root, path, bytes, *mode),
            Self::Link { target } => fs_nofollow::link_new(root, path, target),
        }
    }
}

/// The record and what belongs to it: copies of the files taken away, an ignore file for the run, and afterwards the
/// list of what the run had edited.
#[derive(Debug)]
pub(super) struct RecordFiles {
    pub(super) record: PathBuf,
    pub(super) copies: PathBuf,
    pub(super) ignore: PathBuf,
    dropped: PathBuf,
}

impl RecordFiles {
    pub(super) fn new(record: &Path) -> Self {
        let beside = |ending: &str| {
            let mut name = record.file_name().unwrap_or_default().to_owned();
            name.push(ending);
            record.with_file_name(name)
        };
        Self {
            record: record.to_owned(),
            copies: beside(".files"),
            ignore: beside(".ignore"),
            dropped: beside(".dropped"),
        }
    }

    pub(super) fn load(&self) -> Result<Option<Record>, GitError> {
        let bytes = match files::read(&self.record, RECORD) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at("read", &self.record)(error)),
        };
        let bad = |source| GitError::BadRecord {
            path: self.record.clone(),
            source,
        };
        let record: Record = serde_json::from_slice(&bytes).map_err(bad)?;
        if let Some(outside) = record
            .entries
            .iter()
            .find(|entry| !fs_nofollow::is_inside(&path_of(&entry.path.0)))
        {
            let text = format!(
                "`{}` leaves the worktree",
                String::from_utf8_lossy(&outside.path.0)
            );
            return Err(bad(serde::de::Error::custom(text)));
        }
        Ok(Some(record))
    }

    pub(super) fn store(&self, record: &Record) -> Result<(), GitError> {
        let bad = |source| GitError::BadRecord {
            path: self.record.clone(),
            source,
        };
        replace_durably(
            &self.record,
            &serde_json::to_vec_pretty(record).map_err(bad)?,
        )
    }

    /// Makes an empty folder for copies; older ones without a record belong to a swap that never began.
    pub(super) fn begin(&self) -> Result<(), GitError> {
        if thing(&self.record)? != FileKind::Absent {
            return Err(GitError::RecordThere {
                path: self.record.clone(),
            });
        }
        self.remove_copies()?;
        fs_nofollow::remove(&self.dropped)?;
        fs::create_dir_all(&self.copies).map_err(at("make", &self.copies))
    }

    /// Copies what will be taken away.
    pub(super) fn copy(&self, content: &Content, number: usize) -> Result<Before, GitError> {
        Ok(match content {
            Content::Absent | Content::Other => Before::Absent,
            Content::Folder => Before::Folder,
            Content::Link { target } => Before::Link {
                target: Bytes(target.clone()),
            },
            Content::File { mode, bytes } => {
                let copy = number.to_string();
                replace_durably(&self.copies.join(&copy), bytes)?;
                Before::File { mode: *mode, copy }
            }
        })
    }

    pub(super) fn content(&self, before: &Before) -> Result<Content, GitError> {
        Ok(match before {
            Before::Absent => Content::Absent,
            Before::Folder => Content::Folder,
            Before::Link { target } => Content::Link {
                target: target.0.clone(),
            },
            Before::File { mode, copy } => {
                let path = self.copies.join(copy);
                Content::File {
                    mode: *mode,
                    bytes: files::read(&path, LIMIT).map_err(at("read", &path))?,
                }
            }
        })
    }

    /// What the run had edited, once that was looked at: it can't be seen any more when files were put back.
    pub(super) fn load_dropped(&self) -> Result<Option<Vec<String>>, GitError> {
        match files::read(&self.dropped, RECORD) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes)
                    .map(Some)
                    .map_err(|source| GitError::BadRecord {
                        path: self.dropped.clone(),
                        source,
                    })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at("read", &self.dropped)(error)),
        }
    }

    pub(super) fn store_dropped(&self, dropped: &[String]) -> Result<(), GitError> {
        let bad = |source| GitError::BadRecord {
            path: self.dropped.clone(),
            source,
        };
        replace_durably(&self.dropped, &serde_json::to_vec(dropped).map_err(bad)?)
    }

    /// The record goes first: copies without a record mean nothing, a record without copies is a loss.
    pub(super) fn finish(&self) -> Result<(), GitError> {
        fs_nofollow::remove(&self.record)?;
        if let Some(folder) = self.record.parent().filter(|folder| folder.is_dir()) {
            sync_folder(folder)?;
        }
        fs_nofollow::remove(&self.ignore)?;
        self.remove_copies()
    }

    fn remove_copies(&self) -> Result<(), GitError> {
        match fs::remove_dir_all(&self.copies) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(at("remove", &self.copies)(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
