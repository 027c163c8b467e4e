//! Saves what a run left in its worktree as a commit on `refs/remand/wip/RUN`, without changing the
//! worktree.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::bytes::lossy;
use super::command::GitCommand;
use super::commit::add_all;
use super::fs_nofollow::{FileKind, first_non_folder, path_of, paths_in, remove, thing};
use super::history::check_sha;
use super::{Git, GitError, HeadAt, Place, RestorePoint, Result};
use crate::files::{self, SMALL};

/// Start of the message of a commit that saves leftovers.
const LEFT: &str = "Left in the worktree by run ";

impl Git {
    /// The commit that keeps the work of a run, if any was kept.
    pub(crate) async fn wip(&self, place: &Place, run: &str) -> Result<Option<String>> {
        self.resolve(place, &wip_ref(run)?).await
    }

    /// Saves tracked changes, untracked files, and commits that only HEAD, the branch or an
    /// unfinished operation leads to.
    ///
    /// Returns `None` if everything matches `head_before`. Ignored files and caches are not saved,
    /// as nothing here removes them; repositories inside the worktree are kept by
    /// [`Git::put_back`], as directories.
    ///
    /// Works with a locked or broken index and in the middle of a rebase, since it uses a separate
    /// index. A second call keeps both: the existing commit becomes a parent. Swapped configuration
    /// must be restored first.
    pub(crate) async fn save_wip(
        &self,
        place: &Place,
        RestorePoint {
            head_at,
            head_before,
            run,
        }: RestorePoint<'_>,
    ) -> Result<Option<String>> {
        check_sha(head_before)?;
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
        let mut call = GitCommand::at(place, "commit-tree --no-gpg-sign -F -");
        for parent in &parents {
            call = call.arg("-p").arg(parent);
        }
        let message = format!("{LEFT}{run}\n\nIt began at {head_before}.\n");
        let identity = self.identity(place).await?;
        let call = call.arg(&tree).stdin(message.into_bytes()).env(&identity);
        let sha = self.line(call).await?;
        // Only from the value just read: a second writer for the same run must not lose the work of
        // the first.
        let old = kept.unwrap_or_else(|| "0".repeat(sha.len()));
        self.move_ref(place, &name, &sha, &old).await?;
        Ok(Some(sha))
    }

    /// Returns the commit on a ref and those below it, on no branch, that save what a run left.
    ///
    /// Commits of any run count, since another run of the same name finds the ref there and keeps
    /// both.
    pub(crate) async fn kept_on(&self, place: &Place, name: &str) -> Result<Vec<String>> {
        let Some(tip) = self.resolve(place, name).await? else {
            return Ok(Vec::new());
        };
        let grep = format!("--grep=^{LEFT}");
        let others = ["--not", "--branches", "--remotes", "--tags"];
        let below = GitCommand::at(place, "rev-list").args([&grep, &tip]);
        let mut kept = self.lines(below.args(others)).await?;
        kept.retain(|sha| *sha != tip);
        kept.insert(0, tip);
        Ok(kept)
    }

    /// Writes the worktree as a tree.
    ///
    /// It is read into an empty index, so that neither old file times nor flags that hide files
    /// (`assume-unchanged`) can hide a change.
    async fn worktree_tree(
        &self,
        place: &Place,
        head_before: &str,
        index: &Path,
    ) -> Result<String> {
        let head = self.resolve(place, "HEAD").await.ok().flatten();
        let head = head.as_deref().unwrap_or(head_before);
        let index = Some(index);
        self.read_tree(place, head, index).await?;
        let nested = self.untracked(place, index).await?;
        let nested = nested.iter().filter_map(|path| path.strip_suffix(b"/"));
        let nested: Vec<Vec<u8>> = nested.map(<[u8]>::to_vec).collect();
        let caches = self.untracked_caches(place, index).await?;
        let left_out = [nested.as_slice(), &caches].concat();
        self.run(add_all(place, &left_out).index(index)).await?;
        // A file that is ignored now but tracked by the worktree's index (`add -f`) or by
        // `head_before` would be overwritten or removed by the reset.
        let have = self.tracked(place, index).await?;
        let mut wanted = self.files_of(place, head_before).await?;
        // A broken index lists nothing; the files that it knew are on disk.
        wanted.extend(self.tracked(place, None).await.unwrap_or_default());
        wanted.retain(|path| !have.contains(path) && !nested.contains(path));
        let mut forced = BTreeSet::new();
        for path in wanted.iter().map(|path| path_of(path)) {
            // A file may be in the place of its former directory, or a directory in the place of
            // the file.
            let file = first_non_folder(&place.path, &path)?.unwrap_or(path);
            let bytes = file.as_os_str().as_bytes();
            if holds_files(&place.path.join(&file))? && !have.contains(bytes) {
                forced.insert([b":(top,literal)", bytes, b"\0"].concat());
            }
        }
        let forced: Vec<u8> = forced.into_iter().flatten().collect();
        if !forced.is_empty() {
            let call = GitCommand::at(place, "add -f --pathspec-from-file=- --pathspec-file-nul");
            self.bytes(call.stdin(forced).index(index)).await?;
        }
        let call = GitCommand::at(place, "write-tree");
        self.line(call.index(index)).await
    }

    /// Reads a commit into an index (that of the worktree, if none is given).
    pub(super) async fn read_tree(
        &self,
        place: &Place,
        commit: &str,
        index: Option<&Path>,
    ) -> Result<()> {
        let call = GitCommand::at(place, "read-tree");
        self.run(call.arg(commit).index(index)).await
    }

    /// Returns commits that the reset to `head_before` would leave to the garbage collector,
    /// nearest first.
    async fn leads(
        &self,
        place: &Place,
        head_at: HeadAt<'_>,
        head_before: &str,
    ) -> Result<Vec<String>> {
        let mut found = Vec::new();
        // A broken HEAD leads nowhere; the branch is read separately.
        found.extend(self.resolve(place, "HEAD").await.ok().flatten());
        found.extend(self.resolve(place, &head_at.ref_name()?).await?);
        for file in [
            "rebase-merge/orig-head",
            "rebase-merge/autostash",
            "rebase-apply/orig-head",
            "rebase-apply/autostash",
            "MERGE_HEAD",
            "MERGE_AUTOSTASH",
            "CHERRY_PICK_HEAD",
        ] {
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

    /// Returns the first commit that a file of the git dir names. An agent can write the file, so
    /// it may be nonsense.
    async fn commit_in(&self, place: &Place, file: &str) -> Option<String> {
        let text = lossy(&files::read_below(&place.git_dir, Path::new(file), SMALL).ok()?);
        let sha = text.lines().next()?.trim();
        check_sha(sha).ok()?;
        self.resolve(place, sha).await.ok().flatten()
    }

    async fn contains(&self, place: &Place, commit: &str, parts: &[String]) -> Result<bool> {
        for part in parts {
            if !self.is_ancestor(place, part, commit).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns true for a file, or a directory with one somewhere in it: git does not see empty
/// directories.
fn holds_files(path: &Path) -> Result<bool> {
    match thing(path)? {
        FileKind::File { .. } | FileKind::Link => return Ok(true),
        FileKind::Absent | FileKind::Other => return Ok(false),
        FileKind::Folder => {}
    }
    for path in paths_in(path)? {
        if holds_files(&path)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns `refs/remand/wip/RUN`.
pub(super) fn wip_ref(run: &str) -> Result<String> {
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

/// Index next to that of the worktree. One left by a crash is of no use to anyone.
pub(super) struct ScratchIndex {
    pub(super) path: PathBuf,
}

impl ScratchIndex {
    pub(super) fn new(place: &Place, run: &str) -> Self {
        Self {
            path: place.git_dir.join(format!("remand-{run}.index")),
        }
    }

    pub(super) fn remove(&self) -> Result<()> {
        remove(&self.path.with_extension("index.lock"))?;
        remove(&self.path)
    }
}
