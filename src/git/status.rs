//! Differences between a worktree and HEAD.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::bytes::{lossy, nul_ended, records};
use super::cache::is_cache;
use super::command::GitCommand;
use super::fs_nofollow::path_of;
use super::{Git, GitError, Place, Result, Uncommitted};

/// Paths that git reports as changed or new. Names that are not UTF-8 are shown with `�`.
///
/// Changes *inside* a submodule do not count: nothing here could commit, save or revert them. Files
/// hidden from git (`update-index --skip-worktree`, `--assume-unchanged`) stay hidden: people use
/// that for local settings. Untracked caches are treated as ignored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Status {
    pub(crate) changed: Vec<String>,
    /// Untracked paths. A name that ends in `/` is a nested git repository.
    pub(crate) untracked: Vec<String>,
}

impl Status {
    pub(crate) fn is_clean(&self) -> bool {
        self.changed.is_empty() && self.untracked.is_empty()
    }
}

/// Answer of `git status`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Snapshot {
    pub(super) commit: Option<String>,
    /// Branch as status prints it.
    pub(super) branch: Option<String>,
    pub(super) entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// Tracked change: git's two status letters and the path.
    Changed {
        letters: String,
        path: Vec<u8>,
    },
    Untracked {
        path: Vec<u8>,
    },
}

impl Uncommitted {
    fn untracked(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Untracked { path } => Some(path.as_slice()),
            Entry::Changed { .. } => None,
        })
    }

    pub(super) fn has_caches(&self) -> bool {
        self.untracked().any(is_cache)
    }

    /// Returns true if there is nothing but caches.
    pub(super) fn is_only_caches(&self) -> bool {
        self.entries.len() == self.untracked().filter(|path| is_cache(path)).count()
    }
}

impl Git {
    /// Returns those of some paths below the worktree that git ignores.
    pub(crate) async fn ignored(
        &self,
        place: &Place,
        paths: &[&Path],
    ) -> Result<BTreeSet<PathBuf>> {
        if paths.is_empty() {
            return Ok(BTreeSet::new());
        }
        let bytes: Vec<&[u8]> = paths.iter().map(|p| p.as_os_str().as_bytes()).collect();
        let call = GitCommand::at(place, "check-ignore -z --stdin");
        let call = call.stdin(nul_ended(bytes.iter().copied()));
        // Status 1 means that none is ignored.
        let found = self.maybe_line(call).await?.unwrap_or_default();
        let caches = bytes.into_iter().filter(|path| is_cache(path));
        Ok(records(found.as_bytes())
            .chain(caches)
            .map(path_of)
            .collect())
    }

    pub(crate) async fn status(&self, place: &Place) -> Result<Status> {
        let entries = self.snapshot(place, None).await?.entries;
        Ok(self.shown(Uncommitted { entries }))
    }

    /// Returns the changes that count: neither caches nor ignored paths.
    pub(crate) fn shown(&self, left: Uncommitted) -> Status {
        let mut status = Status::default();
        for entry in self.shown_entries(left) {
            match entry {
                Entry::Changed { path, .. } => status.changed.push(lossy(&path)),
                Entry::Untracked { path } => status.untracked.push(lossy(&path)),
            }
        }
        status
    }

    pub(super) fn shown_entries(&self, left: Uncommitted) -> Vec<Entry> {
        let passed_over = self.passed_over();
        let is_shown = |entry: &Entry| match entry {
            Entry::Untracked { path } => !passed_over.contains(path) && !is_cache(path),
            Entry::Changed { .. } => true,
        };
        left.entries.into_iter().filter(is_shown).collect()
    }

    /// Compares HEAD, an index (that of the worktree, if none is given) and the files.
    pub(super) async fn snapshot(&self, place: &Place, index: Option<&Path>) -> Result<Snapshot> {
        let call = "status --porcelain=v2 --branch --no-ahead-behind -z --untracked-files=all --ignored=no --ignore-submodules=dirty --no-renames";
        let bytes = self.bytes(GitCommand::at(place, call).index(index)).await?;
        read(&bytes).ok_or_else(|| GitError::output("status --porcelain=v2 -z", &bytes))
    }

    /// Ignores untracked files at these paths from now on: they are not reported as new, committed
    /// or removed.
    ///
    /// A project command left them in a worktree that remand may not clean. Once tracked, they are
    /// ordinary files.
    pub(crate) fn pass_over(&self, paths: &[String]) {
        let all = self.passed_over.lock();
        let mut all = all.unwrap_or_else(PoisonError::into_inner);
        all.extend(paths.iter().map(|path| path.clone().into_bytes()));
    }

    pub(super) fn passed_over(&self) -> BTreeSet<Vec<u8>> {
        let all = self.passed_over.lock();
        all.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns those of the ignored paths that exist and are untracked.
    pub(super) fn untracked_passed_over(&self, left: &Uncommitted) -> Vec<Vec<u8>> {
        let passed_over = self.passed_over();
        let untracked = left.untracked().filter(|path| passed_over.contains(*path));
        untracked.map(<[u8]>::to_vec).collect()
    }

    /// Lists the tracked files with these names and the ids of their contents, in a form that is
    /// only meant for comparison. A name matches in every directory, a path from the top.
    pub(crate) async fn listed_files(&self, place: &Place, names: &[String]) -> Result<Vec<u8>> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = GitCommand::at(place, "ls-files --stage -z --");
        for name in names {
            let name = name.trim_start_matches("./");
            call = call.arg(if name.contains('/') {
                format!(":(top,literal){}", name.trim_start_matches('/'))
            } else {
                format!(":(top,glob)**/{}", escaped(name))
            });
        }
        self.bytes(call).await
    }

    /// Lists all tracked files of the worktree with this top directory. Names that are not UTF-8
    /// are left out.
    pub(crate) async fn tracked_files(&self, top: &Path) -> Result<Vec<String>> {
        let paths = self.paths(GitCommand::anywhere(top, "ls-files -z")).await?;
        let paths = paths.into_iter().map(String::from_utf8);
        Ok(paths.filter_map(Result::ok).collect())
    }

    /// Lists the tracked files of an index (that of the worktree, if none is given).
    pub(super) async fn tracked(
        &self,
        place: &Place,
        index: Option<&Path>,
    ) -> Result<BTreeSet<Vec<u8>>> {
        let call = GitCommand::at(place, "ls-files -z");
        self.paths(call.index(index)).await
    }

    /// Lists the untracked files that are not ignored, by an index (that of the worktree, if none
    /// is given). A name that ends in `/` is a nested git repository.
    pub(super) async fn untracked(
        &self,
        place: &Place,
        index: Option<&Path>,
    ) -> Result<BTreeSet<Vec<u8>>> {
        let call = GitCommand::at(place, "ls-files -o -z --exclude-standard");
        self.paths(call.index(index)).await
    }

    /// Lists the files of a commit.
    pub(super) async fn files_of(&self, place: &Place, commit: &str) -> Result<BTreeSet<Vec<u8>>> {
        let call = GitCommand::at(place, "ls-tree -r -z --name-only --full-tree");
        self.paths(call.arg(commit)).await
    }

    async fn paths(&self, call: GitCommand) -> Result<BTreeSet<Vec<u8>>> {
        let bytes = self.bytes(call).await?;
        Ok(records(&bytes).map(<[u8]>::to_vec).collect())
    }

    /// Lists untracked repositories inside the worktree, without the slash. They cannot be saved in
    /// a commit.
    pub(super) async fn nested_repositories(&self, place: &Place) -> Result<Vec<Vec<u8>>> {
        let entries = self.snapshot(place, None).await?.entries;
        Ok(nested(&self.shown_entries(Uncommitted { entries })))
    }
}

/// Returns the untracked repositories among some changes, without the slash.
pub(super) fn nested(entries: &[Entry]) -> Vec<Vec<u8>> {
    let nested = |entry: &Entry| match entry {
        Entry::Untracked { path } => path.strip_suffix(b"/").map(<[u8]>::to_vec),
        Entry::Changed { .. } => None,
    };
    entries.iter().filter_map(nested).collect()
}

/// Escapes a name so that it matches only itself in a pattern.
pub(super) fn escaped(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if "*?[\\".contains(c) {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

fn read(bytes: &[u8]) -> Option<Snapshot> {
    let mut found = Snapshot::default();
    let entries = &mut found.entries;
    let mut records = bytes.split(|b| *b == 0);
    while let Some(record) = records.next() {
        let fields_before_path = match record.first() {
            None | Some(b'!') => continue,
            Some(b'#') => {
                let header = String::from_utf8_lossy(record);
                if let Some(commit) = header.strip_prefix("# branch.oid ") {
                    found.commit = Some(commit.to_owned()).filter(|commit| commit != "(initial)");
                } else if let Some(branch) = header.strip_prefix("# branch.head ") {
                    found.branch = Some(branch.to_owned());
                }
                continue;
            }
            Some(b'?') => {
                entries.push(Entry::Untracked {
                    path: record.get(2..)?.to_vec(),
                });
                continue;
            }
            Some(b'1') => 8,
            Some(b'2') => 9,
            Some(b'u') => 10,
            Some(_) => return None,
        };
        let fields: Vec<&[u8]> = record
            .splitn(fields_before_path + 1, |b| *b == b' ')
            .collect();
        let letters = String::from_utf8(fields.get(1)?.to_vec()).ok()?;
        let path = fields.get(fields_before_path)?.to_vec();
        if path.is_empty() {
            return None;
        }
        if record.starts_with(b"2") {
            records.next()?;
        }
        entries.push(Entry::Changed { letters, path });
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_each_kind_of_record() {
        let recorded = b"# branch.oid abc\0# branch.head a b\0\
            1 .M N... 100644 100644 100644 aa bb a file with  spaces\0\
            2 R. N... 100644 100644 100644 aa bb R100 new\0old\0\
            u UU N... 100644 100644 100644 100644 aa bb cc both\0\
            ? -x\n\xff\0? repo/\0";
        let changed = |letters: &str, path: &[u8]| Entry::Changed {
            letters: letters.to_owned(),
            path: path.to_vec(),
        };
        let found = read(recorded).unwrap();
        assert_eq!(found.commit.as_deref(), Some("abc"));
        assert_eq!(found.branch.as_deref(), Some("a b"));
        assert_eq!(
            found.entries,
            [
                changed(".M", b"a file with  spaces"),
                changed("R.", b"new"),
                changed("UU", b"both"),
                Entry::Untracked {
                    path: b"-x\n\xff".to_vec()
                },
                Entry::Untracked {
                    path: b"repo/".to_vec()
                },
            ]
        );
    }

    #[test]
    fn a_name_is_no_pattern() {
        assert_eq!(escaped(r"a[1]*?\.lock"), r"a\[1]\*\?\\.lock");
    }

    #[test]
    fn what_is_cut_or_unknown_is_not_clean() {
        assert_eq!(read(b"1 .M N... 100644\0"), None);
        assert_eq!(read(b"fatal: something\0"), None);
        assert_eq!(read(b""), Some(Snapshot::default()));
        assert_eq!(read(b"# branch.oid (initial)\0"), Some(Snapshot::default()));
    }
}
