//! Fingerprint of the main checkout and of everything that worktrees share, taken before a run and
//! compared afterwards.
//!
//! Agents can write there by absolute path, and what they leave in hooks or configuration runs
//! later with the user's rights.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::bytes::lossy;
use super::command::GitCommand;
use super::fs_nofollow::{FileKind, at, names, path_of, thing};
use super::status::Entry;
use super::{Git, Place, Project, Result};
use crate::files::{self, Refused};
use crate::fingerprint::fingerprint;

/// Fingerprint of a checkout. Safe to store: it has no contents, only their ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckoutFingerprint {
    head: String,
    /// Changed and untracked files of the main checkout: git's status letters, size and change
    /// time.
    files: BTreeMap<String, String>,
    /// Configuration, hooks and similar files in the common dir, by their path in it.
    ///
    /// The name of the stored field changes with the hash: fingerprints with different hashes
    /// cannot be compared.
    #[serde(rename = "shared_sha256")]
    shared: BTreeMap<String, String>,
}

impl CheckoutFingerprint {
    /// Describes the differences; empty if there are none.
    pub(crate) fn differs(&self, later: &Self) -> Vec<String> {
        let mut words = Vec::new();
        if self.head != later.head {
            words.push(format!(
                "HEAD of the main checkout moved from {} to {}",
                self.head, later.head
            ));
        }
        compare(
            &self.files,
            &later.files,
            ["became dirty in", "was changed in", "became clean in"],
            " the main checkout",
            &mut words,
        );
        compare(
            &self.shared,
            &later.shared,
            ["was added", "was changed", "was removed"],
            "",
            &mut words,
        );
        words
    }
}

fn compare(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
    [added, changed, removed]: [&str; 3],
    place: &str,
    words: &mut Vec<String>,
) {
    for (path, state) in after {
        match before.get(path) {
            None => words.push(format!("{path} {added}{place}")),
            Some(old) if old != state => words.push(format!("{path} {changed}{place}")),
            Some(_) => {}
        }
    }
    let gone = before.keys().filter(|path| !after.contains_key(*path));
    words.extend(gone.map(|path| format!("{path} {removed}{place}")));
}

/// Files besides the hooks in which commands, filters, objects or other repositories can be named.
const SHARED: &[&str] = &[
    "commondir",
    "config",
    "config.worktree",
    "info/attributes",
    "info/exclude",
    "info/grafts",
    "objects/info/alternates",
];

/// Maximum size of files that are hashed; larger ones are compared by size and time.
const MOST_HASHED: u64 = 8 * 1024 * 1024;

impl Git {
    /// Takes the fingerprint of a project's main checkout.
    ///
    /// A person at work in the main checkout changes it too, so the caller decides what a
    /// difference means.
    pub(crate) async fn checkout_mark(&self, project: &Project) -> Result<CheckoutFingerprint> {
        let place = Place::with_git_dir(project.path.clone(), project.common_dir.clone());
        let mut files = BTreeMap::new();
        let head = if project.bare {
            self.head_state(&place).await?
        } else {
            let (head, left) = self.head_and_uncommitted(&place, None).await?;
            for entry in self.shown_entries(left) {
                let (letters, path) = match entry {
                    Entry::Changed { letters, path } => (letters, path),
                    Entry::Untracked { path } => ("??".to_owned(), path),
                };
                let state = format!("{letters} {}", stamp(&place.path, &path)?);
                files.insert(lossy(&path), state);
            }
            head
        };
        let branch = head.name.as_deref().unwrap_or("detached");
        let commit = head.commit.as_deref().unwrap_or("no commit");
        Ok(CheckoutFingerprint {
            head: format!("{branch} {commit}"),
            files,
            shared: shared_files(&place)?,
        })
    }

    /// Returns git's object id of some bytes: a cryptographic hash without another dependency.
    pub(crate) async fn id_of(&self, place: &Place, bytes: Vec<u8>) -> Result<String> {
        let call = GitCommand::at(place, "hash-object --no-filters --stdin");
        self.line(call.stdin(bytes)).await
    }
}

fn shared_files(place: &Place) -> Result<BTreeMap<String, String>> {
    let mut paths: Vec<PathBuf> = SHARED.iter().map(PathBuf::from).collect();
    for name in names(&place.common_dir.join("hooks"))? {
        // Git never runs the samples.
        if name.extension().is_none_or(|ending| ending != "sample") {
            paths.push(Path::new("hooks").join(name));
        }
    }
    for name in names(&place.common_dir.join("worktrees"))? {
        paths.push(Path::new("worktrees").join(name).join("config.worktree"));
    }
    let mut shared = BTreeMap::new();
    for path in paths {
        let full = place.common_dir.join(&path);
        let state = match thing(&full)? {
            FileKind::Absent => continue,
            FileKind::Folder => "folder".to_owned(),
            FileKind::Other => "special file".to_owned(),
            FileKind::Link => {
                let target = fs::read_link(&full).map_err(at("read", &full))?;
                format!("link {}", fingerprint(&[], target.as_os_str().as_bytes()))
            }
            FileKind::File { mode } => {
                match files::read(&full, MOST_HASHED) {
                    Ok(bytes) => format!("{mode:o} {}", fingerprint(&[], &bytes)),
                    // Size and times distinguish one endless file from another.
                    Err(error) if Refused::of(&error).is_some() => {
                        let path = path.as_os_str().as_bytes();
                        format!("{mode:o} {}", stamp(&place.common_dir, path)?)
                    }
                    Err(error) => return Err(at("read", &full)(error)),
                }
            }
        };
        shared.insert(path.to_string_lossy().into_owned(), state);
    }
    Ok(shared)
}

/// Returns size and inode change time, which unlike the modification time cannot be set back.
///
/// For a nested repository, which may be a worktree where an agent is at work, only its presence
/// counts.
fn stamp(root: &Path, path: &[u8]) -> Result<String> {
    let full = root.join(path_of(path));
    if path.ends_with(b"/") || thing(&full)? == FileKind::Absent {
        return Ok("-".to_owned());
    }
    let meta = full.symlink_metadata().map_err(at("inspect", &full))?;
    let (size, seconds, nanos) = (meta.size(), meta.ctime(), meta.ctime_nsec());
    Ok(format!("{size} {seconds}.{nanos}"))
}
