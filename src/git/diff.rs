//! Difference between two commits: files, line counts, and the text that a reviewer reads.

use super::bytes::{lossy, split_once};
use super::command::GitCommand;
use super::history::check_shas;
use super::{Git, GitError, Place, Result};
use crate::closed_enum::closed_enum;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Diff {
    /// Text of the diff. Bytes that are not UTF-8 are replaced by `�`.
    pub(crate) text: String,
    /// Set if the text was cut; `files` never is.
    pub(crate) truncated: bool,
    pub(crate) files: Vec<FileChange>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileChange {
    pub(crate) path: String,
    /// Original path of a renamed or copied file.
    pub(crate) old_path: Option<String>,
    pub(crate) status: FileStatus,
    /// Mode as recorded by git: 0o100644, 0o100755, 0o120000 (symlink), 0o160000 (submodule); 0
    /// when deleted.
    pub(crate) mode: u32,
    pub(crate) added: u64,
    pub(crate) deleted: u64,
    /// Also set for a text file that the branch's `.gitattributes` declares binary: its lines are
    /// not in the text.
    pub(crate) binary: bool,
}

closed_enum! {
    "file status" FileStatus {
        Added = "added",
        Modified = "modified",
        Deleted = "deleted",
        Renamed = "renamed",
        Copied = "copied",
        TypeChanged = "type_changed",
    }
}

/// Plumbing command, so that the user's preferences for diffs (colours, prefixes, order, pager)
/// have no effect, and neither an external diff nor a text conversion of the repository runs.
const DIFF: &str = "diff-tree -r -M --no-ext-diff --no-textconv --no-color \
    --ignore-submodules=none --submodule=short --full-index";

/// Maximum number of bytes of the list of files that is read together with a text.
const LISTED: usize = 8 * 1024 * 1024;

impl Git {
    /// Returns the net difference between two commits, ignoring intermediate states. The text is
    /// cut at `cap` bytes.
    pub(crate) async fn diff(
        &self,
        place: &Place,
        from: &str,
        to: &str,
        cap: usize,
    ) -> Result<Diff> {
        check_shas([from, to])?;
        let call = GitCommand::at(place, DIFF)
            .args(["--raw", "--numstat", "-z", "-p", "--end-of-options"])
            .args([from, to]);
        let (bytes, is_cut) = self.head(call.cap(cap + LISTED)).await?;
        match read_start(&bytes) {
            Some((files, text)) => Ok(Diff {
                text: lossy(text.get(..cap).unwrap_or(text)),
                truncated: is_cut || text.len() > cap,
                files,
            }),
            None if is_cut => self.long_diff(place, from, to, cap).await,
            None => Err(GitError::output("diff-tree --raw --numstat -z -p", &bytes)),
        }
    }

    /// Like [`Git::diff`], of so many files that their list does not fit beside the text.
    async fn long_diff(&self, place: &Place, from: &str, to: &str, cap: usize) -> Result<Diff> {
        let files = self.changed_files(place, from, to).await?;
        let call = GitCommand::at(place, DIFF).args(["-p", "--end-of-options", from, to]);
        let (bytes, truncated) = self.head(call.cap(cap)).await?;
        Ok(Diff {
            text: lossy(&bytes),
            truncated,
            files,
        })
    }

    pub(crate) async fn changed_files(
        &self,
        place: &Place,
        from: &str,
        to: &str,
    ) -> Result<Vec<FileChange>> {
        check_shas([from, to])?;
        let call = GitCommand::at(place, DIFF)
            .args(["--raw", "--numstat", "-z", "--end-of-options"])
            .args([from, to]);
        let bytes = self.bytes(call).await?;
        read(&bytes).ok_or_else(|| GitError::output("diff-tree --raw --numstat -z", &bytes))
    }
}

/// Parses the list of files.
fn read(bytes: &[u8]) -> Option<Vec<FileChange>> {
    let (files, rest) = read_files(bytes)?;
    rest.is_empty().then_some(files)
}

/// Parses the list of files, and the text after it: a NUL separates the two.
fn read_start(bytes: &[u8]) -> Option<(Vec<FileChange>, &[u8])> {
    let (files, rest) = read_files(bytes)?;
    if files.is_empty() {
        return rest.is_empty().then_some((files, rest));
    }
    Some((files, rest.strip_prefix(b"\0")?))
}

/// Parses the list of files at the start of the output of [`DIFF`].
///
/// First come all raw records (`:modes ids letter NUL path NUL`), then, in the same order, the
/// counts (`added TAB deleted TAB path NUL`); a rename has both paths in both.
fn read_files(bytes: &[u8]) -> Option<(Vec<FileChange>, &[u8])> {
    let mut fields = Fields { rest: bytes };
    let mut files = Vec::new();
    while fields.rest.starts_with(b":") {
        let raw = std::str::from_utf8(fields.next()?).ok()?;
        let mut words = raw.split(' ');
        let mode = u32::from_str_radix(words.nth(1)?, 8).ok()?;
        let status = match words.nth(2)?.chars().next()? {
            'A' => FileStatus::Added,
            'M' => FileStatus::Modified,
            'D' => FileStatus::Deleted,
            'R' => FileStatus::Renamed,
            'C' => FileStatus::Copied,
            'T' => FileStatus::TypeChanged,
            _ => return None,
        };
        let first = lossy(fields.next()?);
        let (old_path, path) = match status {
            FileStatus::Renamed | FileStatus::Copied => (Some(first), lossy(fields.next()?)),
            FileStatus::Added
            | FileStatus::Modified
            | FileStatus::Deleted
            | FileStatus::TypeChanged => (None, first),
        };
        files.push(FileChange {
            path,
            old_path,
            status,
            mode,
            added: 0,
            deleted: 0,
            binary: false,
        });
    }
    for file in &mut files {
        let mut counts = fields.next()?.splitn(3, |b| *b == b'\t');
        let (added, deleted, path) = (counts.next()?, counts.next()?, counts.next()?);
        if path.is_empty() {
            fields.next()?;
            fields.next()?;
        }
        file.binary = added == b"-";
        if !file.binary {
            file.added = std::str::from_utf8(added).ok()?.parse().ok()?;
            file.deleted = std::str::from_utf8(deleted).ok()?.parse().ok()?;
        }
    }
    Some((files, fields.rest))
}

/// Fields that each end with a NUL.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let (field, rest) = split_once(self.rest, 0)?;
        self.rest = rest;
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_answer_is_no_answer() {
        let whole = b":000000 100644 0 a A\0new\0:100644 100644 a b R090\0old\0to\0\x31\t0\tnew\0\x32\t3\t\0old\0to\0";
        let files = read(whole).unwrap();
        assert_eq!(files.len(), 2);
        assert_eq!(
            (
                files[1].old_path.as_deref(),
                files[1].added,
                files[1].deleted
            ),
            (Some("old"), 2, 3)
        );
        for cut in 1..whole.len() {
            assert_eq!(read(&whole[..cut]), None, "cut at {cut}");
            assert_eq!(read_start(&whole[..cut]), None, "cut at {cut}");
        }
        let with_text = [whole, &b"\0diff --git a/new b/new\n"[..]].concat();
        let (listed, text) = read_start(&with_text).unwrap();
        assert_eq!(listed, files);
        assert_eq!(text, b"diff --git a/new b/new\n");
        assert_eq!(read_start(b"").unwrap(), (Vec::new(), &b""[..]));
        assert_eq!(read(&with_text), None);
    }
}
