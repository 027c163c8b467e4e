//! Keeps what a run left in its worktree, as a commit on `refs/remand/wip/RUN`, and changes nothing there.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::command::{GitCommand, text};
use super::commit::add_all;
use super::fs_nofollow::{FileKind, first_non_folder, names, path_of, remove, thing};
use super::history::check_sha;
use super::{Git, GitError, HeadAt, Place};
use crate::files::{self, SMALL};

/// How the message of a commit that keeps something begins.
const LEFT: &str = "Left in the worktree by run ";

impl Git {
    /// Keeps the tracked changes, the untracked files, and the commits that only HEAD, the branch or an
    /// unfinished operation lead to. None when all is as `head_before` has it. Ignored files and caches are not kept, as
    /// nothing here removes them; repositories inside the worktree are kept by [`Git::put_back`], as folders.
    ///
    /// Works with an index that is locked or broken and in the middle of a rebase: it has an index of its own.
    /// Said twice, it keeps both: what is there already becomes a parent. Put swapped configuration back first.
    pub(crate) async fn save_wip(
        &self,
        place: &Place,
        head_at: impl Into<HeadAt<'_>>,
        head_before: &str,
        run: &str,
    ) -> Result<Option<String>, GitError> {
        check_sha(head_before)?;
        let head_at = head_at.into();
        let name = wip_ref(run)?;
        let index = ScratchIndex::new(place, run);
        index.remove()?;
        let tree = self.worktree_tree(place, head_before, &index.path).await;
        index.remove()?;
        let tree = tree?;
        let kept = self.resolve(place, &name).await?;
        let mut parents = self.leads(place, head_at, head_before).await?;
        let is_same_tree = tree == self.tree_of(place, head_before).await?;
        if is_same_tree && parents.is_empty() {
            return Ok(kept);
        }
        if let Some(kept) = &kept {
            if tree == self.tree_of(place, kept).await?
                && self.contains(place, kept, &parents).await?
            {
                return Ok(Some(kept.clone()));
            }
            parents.push(kept.clone());
        }
        if parents.is_empty() {
            parents.push(head_before.to_owned());
        }
        let mut call = GitCommand::at(place, ["commit-tree", "--no-gpg-sign", "-F", "-"]);
        for parent in &parents {
            call = call.arg("-p").arg(parent);
        }
        let message = format!("{LEFT}{run}\n\nIt began at {head_before}.\n");
        let identity = self.identity(place).await?;
        let sha = self
            .line(call.arg(&tree).stdin(message.into_bytes()).env(&identity))
            .await?;
        // Only from what we saw: a second keeper of the same run must not lose the first one's work.
        let old = kept.unwrap_or_else(|| "0".repeat(sha.len()));
        self.bytes(GitCommand::at(
            place,
            ["update-ref", "--no-deref", &name, &sha, &old],
        ))
        .await?;
        Ok(Some(sha))
    }

    /// The commit on a ref, and those below it, on no branch, that keep what a run left: of whichever run, since another
    /// one of the same name finds the ref there and keeps both.
    pub(crate) async fn kept_on(&self, place: &Place, name: &str) -> Result<Vec<String>, GitError> {
        let Some(tip) = self.resolve(place, name).await? else {
            return Ok(Vec::new());
        };
        let grep = format!("--grep=^{LEFT}");
        let below = GitCommand::at(
            place,
            [
                "rev-list",
                &grep,
                &tip,
                "--not",
                "--branches",
                "--remotes",
                "--tags",
            ],
        );
        let below = text("rev-list", self.bytes(below).await?)?;
        let others = below.lines().filter(|sha| *sha != tip).map(str::to_owned);
        Ok([tip.clone()]
            .into_iter()
            .chain(others.collect::<Vec<_>>())
            .collect())
    }

    /// The worktree as a tree. Read into an empty index, so that neither old file times nor flags that
    /// hide files (`assume-unchanged`) can make a change look like none.
    async fn worktree_tree(
        &self,
        place: &Place,
        head_before: &str,
        index: &Path,
    ) -> Result<String, GitError> {
        let head = self
            .resolve(place, "HEAD")
            .await
            .ok()
            .flatten()
            .unwrap_or_else(|| head_before.to_owned());
        self.bytes(GitCommand::at(place, ["read-tree", &head]).index(index))
            .await?;
        let nested = self.nested_repositories_by(place, index).await?;
        let caches = self.untracked_caches(place, Some(index)).await?;
        self.bytes(add_all(place, &[nested.as_slice(), &caches].concat()).index(index))
            .await?;
        // A file that is ignored now but tracked by the worktree's index (`add -f`) or by `head_before` would
        // be overwritten or removed by the reset.
        let have = self
            .paths(GitCommand::at(place, ["ls-files", "-z"]).index(index))
            .await?;
        let before = GitCommand::at(
            place,
            [
                "ls-tree",
                "-r",
                "-z",
                "--name-only",
                "--full-tree",
                head_before,
            ],
        );
        let mut wanted = self.paths(before).await?;
        // A broken index has nothing to tell; what it knew is on the disk.
        wanted.extend(
            self.paths(GitCommand::at(place, ["ls-files", "-z"]))
                .await
                .unwrap_or_default(),
        );
        let mut forced = BTreeSet::new();
        for path in wanted
            .difference(&have)
            .filter(|path| !nested.contains(path))
        {
            // A file may stand in the place of the folder that it was in, and a folder in the place of the file.
            let file =
                first_non_folder(&place.path, &path_of(path))?.unwrap_or_else(|| path_of(path));
            let bytes = file.as_os_str().as_bytes();
            if holds_files(&place.path.join(&file))? && !have.contains(bytes) {
                forced.insert([b":(top,literal)", bytes, b"\0"].concat());
            }
        }
        let forced: Vec<u8> = forced.into_iter().flatten().collect();
        if !forced.is_empty() {
            let call = GitCommand::at(
                place,
                ["add", "-f", "--pathspec-from-file=-", "--pathspec-file-nul"],
            );
            self.bytes(call.stdin(forced).index(index)).await?;
        }
        self.line(GitCommand::at(place, ["write-tree"]).index(index))
            .await
    }

    async fn nested_repositories_by(
        &self,
        place: &Place,
        index: &Path,
    ) -> Result<Vec<Vec<u8>>, GitError> {
        let others =
            GitCommand::at(place, ["ls-files", "-o", "-z", "--exclude-standard"]).index(index);
        let others = self.paths(others).await?;
        Ok(others
            .iter()
            .filter_map(|path| path.strip_suffix(b"/").map(<[u8]>::to_vec))
            .collect())
    }

    pub(super) async fn paths(&self, call: GitCommand) -> Result<BTreeSet<Vec<u8>>, GitError> {
        let bytes = self.bytes(call).await?;
        Ok(bytes
            .split(|b| *b == 0)
            .filter(|path| !path.is_empty())
            .map(<[u8]>::to_vec)
            .collect())
    }

    /// Commits that the reset to `head_before` would leave to the garbage collector, nearest first.
    async fn leads(
        &self,
        place: &Place,
        head_at: HeadAt<'_>,
        head_before: &str,
    ) -> Result<Vec<String>, GitError> {
        let mut found = Vec::new();
        // A HEAD that is broken leads nowhere; the branch is asked by itself.
        found.extend(self.resolve(place, "HEAD").await.ok().flatten());
        found.extend(self.resolve(place, &head_at.ref_name()?).await?);
        for file in [
            "rebase-merge/orig-head",
            "rebase-merge/autostash",
            "rebase-apply/orig-head",
            "rebase-apply/autostash",
        ] {
            found.extend(self.commit_in(place, file).await);
        }
        for file in ["MERGE_HEAD", "MERGE_AUTOSTASH", "CHERRY_PICK_HEAD"] {
            found.extend(self.commit_in(place, file).await);
        }
        let mut leads: Vec<String> = Vec::new();
        for sha in found {
            let mut known = self.is_ancestor(place, &sha, head_before).await?;
            for lead in &leads {
                known = known || self.is_ancestor(place, &sha, lead).await?;
            }
            if !known {
                leads.push(sha);
            }
        }
        Ok(leads)
    }

    /// The first commit that a file of the git dir names; the file is the agent's to write, so it may be nonsense.
    async fn commit_in(&self, place: &Place, file: &str) -> Option<String> {
        let text = files::read_below(&place.git_dir, Path::new(file), SMALL).ok()?;
        let text = String::from_utf8_lossy(&text);
        let sha = text.lines().next()?.trim();
        check_sha(sha).ok()?;
        self.resolve(place, sha).await.ok().flatten()
    }

    async fn contains(
        &self,
        place: &Place,
        commit: &str,
        parts: &[String],
    ) -> Result<bool, GitError> {
        for part in parts {
            if !self.is_ancestor(place, part, commit).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A file, or a folder with one somewhere in it: git does not see empty folders.
fn holds_files(path: &Path) -> Result<bool, GitError> {
    match thing(path)? {
        FileKind::File { .. } | FileKind::Link => return Ok(true),
        FileKind::Absent | FileKind::Other => return Ok(false),
        FileKind::Folder => {}
    }
    for name in names(path)? {
        if holds_files(&path.join(name))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `refs/remand/wip/RUN`.
pub(super) fn wip_ref(run: &str) -> Result<String, GitError> {
    let plain = !run.is_empty()
        && run.len() <= 100
        && run
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    if !plain || run.starts_with('-') {
        return Err(GitError::BadRunName {
            text: run.chars().take(80).collect(),
        });
    }
    Ok(format!("refs/remand/wip/{run}"))
}

/// An index beside the worktree's own. One that a crash left there is of no use to anyone.
struct ScratchIndex {
    path: PathBuf,
}

impl ScratchIndex {
    fn new(place: &Place, run: &str) -> Self {
        Self {
            path: place.git_dir.join(format!("remand-{run}.index")),
        }
    }

    fn remove(&self) -> Result<(), GitError> {
        remove(&self.path.with_extension("index.lock"))?;
        remove(&self.path)
    }
}
