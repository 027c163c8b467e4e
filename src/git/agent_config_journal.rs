//! Journal of a configuration swap, written ahead of each step, with copies of the removed files.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::agent_config_paths::Blob;
use super::checkout::remove_all;
use super::fs_nofollow::{
    self, FileKind, at, first_non_folder, path_of, replace_durably, sync_folder, thing,
};
use super::{GitError, Result};
use crate::files::{self, RECORD, Refused};

/// Maximum size of agent configuration; anything larger is not configuration.
pub(super) const LIMIT: u64 = 64 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    pub(super) base: String,
    /// Commit of HEAD before the swap, if the heads of the entries are all that it has.
    #[serde(default)]
    pub(super) head: Option<String>,
    /// Set once the swap is complete, so an agent may have run since.
    pub(super) complete: bool,
    pub(super) entries: Vec<SwapEntry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SwapEntry {
    pub(super) path: Bytes,
    pub(super) head: Option<Blob>,
    pub(super) index: Option<Blob>,
    /// Set if the path was already marked skip-worktree.
    pub(super) was_hidden: bool,
    pub(super) before: Before,
    /// Content placed for the run: a regular file of the base, or nothing.
    pub(super) placed: Option<Blob>,
}

/// State of a path on disk before the swap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Before {
    Absent,
    /// Directory of a submodule, left as it is.
    Folder,
    File {
        mode: u32,
        /// File name of the copy.
        copy: String,
    },
    Link {
        target: Bytes,
    },
}

/// Bytes that are nearly always text: serialized as a JSON string, otherwise as numbers.
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

/// Actual or intended content of a path in the worktree.
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
    /// Never copied: a pipe, a socket, or a file larger than configuration can be.
    Other,
}

impl Content {
    /// Reads the content of a path; a path behind a symlink counts as absent.
    pub(super) fn on_disk(root: &Path, path: &Path) -> Result<Self> {
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

    /// Compares content as git does: of the mode, only the executable bit counts.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { mode: a, bytes: x }, Self::File { mode: b, bytes: y }) => {
                a & 0o100 == b & 0o100 && x == y
            }
            _ => self == other,
        }
    }

    pub(super) fn write(&self, root: &Path, path: &Path) -> Result<()> {
        match self {
            Self::Absent | Self::Folder | Self::Other => Ok(()),
            Self::File { mode, bytes } => fs_nofollow::write_new(root, path, bytes, *mode),
            Self::Link { target } => fs_nofollow::link_new(root, path, target),
        }
    }
}

/// The record and its companion files: copies of the removed files, an ignore file for the run and,
/// after the run, the list of paths that the run had edited.
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

    pub(super) fn load(&self) -> Result<Option<Record>> {
        let record: Option<Record> = read_json(&self.record)?;
        let entries = record.iter().flat_map(|record| &record.entries);
        if let Some(outside) = entries
            .map(|entry| path_of(&entry.path.0))
            .find(|path| !fs_nofollow::is_inside(path))
        {
            let text = format!("`{}` is outside the worktree", outside.display());
            return Err(bad_record(&self.record)(serde::de::Error::custom(text)));
        }
        Ok(record)
    }

    pub(super) fn store(&self, record: &Record) -> Result<()> {
        write_json(&self.record, record)
    }

    /// Creates an empty directory for copies. Older copies without a record belong to a swap that
    /// never started.
    pub(super) fn begin(&self) -> Result<()> {
        if thing(&self.record)? != FileKind::Absent {
            return Err(GitError::RecordThere {
                path: self.record.clone(),
            });
        }
        self.remove_copies()?;
        fs_nofollow::remove(&self.dropped)?;
        fs::create_dir_all(&self.copies).map_err(at("make", &self.copies))
    }

    /// Copies a file that is about to be removed.
    pub(super) fn copy(&self, content: &Content, number: usize) -> Result<Before> {
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

    pub(super) fn content(&self, before: &Before) -> Result<Content> {
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

    /// Loads the list of edited paths, if it has been computed: it cannot be recomputed once files
    /// have been restored.
    pub(super) fn load_dropped(&self) -> Result<Option<Vec<String>>> {
        read_json(&self.dropped)
    }

    pub(super) fn store_dropped(&self, dropped: &[String]) -> Result<()> {
        write_json(&self.dropped, dropped)
    }

    /// Deletes the record and the copies.
    ///
    /// The record is deleted first: copies without a record are harmless, a record without copies
    /// is a loss.
    pub(super) fn finish(&self) -> Result<()> {
        fs_nofollow::remove(&self.record)?;
        if let Some(folder) = self.record.parent().filter(|folder| folder.is_dir()) {
            sync_folder(folder)?;
        }
        fs_nofollow::remove(&self.ignore)?;
        self.remove_copies()
    }

    fn remove_copies(&self) -> Result<()> {
        remove_all(&self.copies)
    }
}

/// Reads a JSON file. Returns `None` if the file does not exist.
fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match files::read(path, RECORD) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(bad_record(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at("read", path)(error)),
    }
}

fn write_json<T: Serialize + ?Sized>(path: &Path, value: &T) -> Result<()> {
    let bytes = serde_json::to_vec_pretty(value).map_err(bad_record(path))?;
    replace_durably(path, &bytes)
}

fn bad_record(path: &Path) -> impl FnOnce(serde_json::Error) -> GitError {
    move |source| GitError::BadRecord {
        path: path.to_owned(),
        source,
    }
}
