//! Differences between a worktree and HEAD.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::cache::is_cache;
use super::command::GitCommand;
use super::{Git, GitError, Place};

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

impl Git {
    /// Returns those of some paths below the worktree that git ignores.
    pub(crate) async fn ignored(
        &self,
        place: &Place,
        paths: &[&Path],
    ) -> Result<BTreeSet<PathBuf>, GitError> {
        if paths.is_empty() {
            return Ok(BTreeSet::new());
        }
        let stdin = paths
            .iter()
            .flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat())
            .collect();
        let call = GitCommand::at(place, "check-ignore -z --stdin").stdin(stdin);
        // Status 1 means that none is ignored.
        let found = self.maybe_line(call).await?.unwrap_or_default();
        let caches = paths
            .iter()
            .filter(|path| is_cache(path.as_os_str().as_bytes()))
            .map(|path| path.to_path_buf());
        Ok(found
            .split('\0')
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
            .chain(caches)
            .collect())
    }

    pub(crate) async fn status(&self, place: &Place) -> Result<Status, GitError> {
        let mut status = Status::default();
        for entry in self.status_entries(place).await? {
            match entry {
                Entry::Changed { path, .. } => status
                    .changed
                    .push(String::from_utf8_lossy(&path).into_owned()),
                Entry::Untracked { path } => status
                    .untracked
                    .push(String::from_utf8_lossy(&path).into_owned()),
            }
        }
        Ok(status)
    }

    pub(super) async fn status_entries(&self, place: &Place) -> Result<Vec<Entry>, GitError> {
        let call = GitCommand::at(
            place,
            "status --porcelain=v2 -z --untracked-files=all --ignored=no --ignore-submodules=dirty --no-renames",
        );
        let passed_over = self.passed_over();
        let is_shown = |entry: &Entry| match entry {
            Entry::Untracked { path } => !passed_over.contains(path) && !is_cache(path),
            Entry::Changed { .. } => true,
        };
        let bytes = self.bytes(call).await?;
        let entries = read(&bytes).map(|entries| entries.into_iter().filter(is_shown).collect());
        entries.ok_or_else(|| GitError::output("status --porcelain=v2 -z", &bytes))
    }

    /// Ignores untracked files at these paths from now on: they are not reported as new, committed
    /// or removed.
    ///
    /// A project command left them in a worktree that remand may not clean. Once tracked, they are
    /// ordinary files.
    pub(crate) fn pass_over(&self, paths: &[String]) {
        let mut all = self
            .passed_over
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.extend(paths.iter().map(|path| path.clone().into_bytes()));
    }

    pub(super) fn passed_over(&self) -> BTreeSet<Vec<u8>> {
        self.passed_over
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns those of the ignored paths that exist and are untracked.
    pub(super) async fn untracked_passed_over(
        &self,
        place: &Place,
    ) -> Result<Vec<Vec<u8>>, GitError> {
        let passed_over = self.passed_over();
        if passed_over.is_empty() {
            return Ok(Vec::new());
        }
        let untracked = self
            .paths(GitCommand::at(place, "ls-files -o -z --exclude-standard"))
            .await?;
        Ok(untracked
            .into_iter()
            .filter(|path| passed_over.contains(path))
            .collect())
    }

    /// Lists the tracked files with these names and the ids of their contents, in a form that is
    /// only meant for comparison. A name matches in every directory, a path from the top.
    pub(crate) async fn listed_files(
        &self,
        place: &Place,
        names: &[String],
    ) -> Result<Vec<u8>, GitError> {
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
    pub(crate) async fn tracked_files(&self, top: &Path) -> Result<Vec<String>, GitError> {
        let paths = self.paths(GitCommand::anywhere(top, "ls-files -z")).await?;
        Ok(paths
            .into_iter()
            .filter_map(|path| String::from_utf8(path).ok())
            .collect())
    }

    /// Lists untracked repositories inside the worktree, without the slash. They cannot be saved in
    /// a commit.
    pub(super) async fn nested_repositories(
        &self,
        place: &Place,
    ) -> Result<Vec<Vec<u8>>, GitError> {
        let nested = |entry| match entry {
            Entry::Untracked { path } => path.strip_suffix(b"/").map(<[u8]>::to_vec),
            Entry::Changed { .. } => None,
        };
        Ok(self
            .status_entries(place)
            .await?
            .into_iter()
            .filter_map(nested)
            .collect())
    }
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

fn read(bytes: &[u8]) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut records = bytes.split(|b| *b == 0);
    while let Some(record) = records.next() {
        let fields_before_path = match record.first() {
            None | Some(b'#' | b'!') => continue,
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
        let path = fields
            .get(fields_before_path)
            .filter(|path| !path.is_empty())?
            .to_vec();
        if record.starts_with(b"2") {
            records.next()?;
        }
        entries.push(Entry::Changed { letters, path });
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_each_kind_of_record() {
        let recorded = b"# branch.oid abc\0\
            1 .M N... 100644 100644 100644 aa bb a file with  spaces\0\
            2 R. N... 100644 100644 100644 aa bb R100 new\0old\0\
            u UU N... 100644 100644 100644 100644 aa bb cc both\0\
            ? -x\n\xff\0? repo/\0";
        let changed = |letters: &str, path: &[u8]| Entry::Changed {
            letters: letters.to_owned(),
            path: path.to_vec(),
        };
        assert_eq!(
            read(recorded).unwrap(),
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
        assert_eq!(read(b"").map(|e| e.len()), Some(0));
    }
}
