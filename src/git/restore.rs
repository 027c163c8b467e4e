//! Reverts what an interrupted or failed run left in its worktree, after saving it or moving it
//! aside.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::bytes::lossy;
use super::cache::{ignore_patterns, is_cache};
use super::checkout::remove_all;
use super::command::{GitCommand, utf8};
use super::config_files::leads_to_common_dir;
use super::fs_nofollow::{FileKind, at, names, path_of, remove, replace_durably, thing};
use super::head_state::worktree;
use super::history::check_sha;
use super::moved_branches::head_log;
use super::repository::points_at;
use super::status::escaped;
use super::wip::{ScratchIndex, wip_ref};
use super::{Git, GitError, HeadAt, Place, Result, Uncommitted, Worktree, special};
use crate::files::{self, SMALL};

/// Commit and HEAD position to restore, and the run that left the worktree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RestorePoint<'a> {
    pub(crate) head_at: HeadAt<'a>,
    pub(crate) head_before: &'a str,
    pub(crate) run: &'a str,
}

impl<'a> RestorePoint<'a> {
    pub(crate) fn new(head_at: HeadAt<'a>, head_before: &'a str, run: &'a str) -> Self {
        Self {
            head_at,
            head_before,
            run,
        }
    }
}

/// State of a worktree after [`Git::unblock`].
#[derive(Debug, Clone)]
pub(crate) struct Unblocked {
    pub(crate) now: Worktree,
    /// Set if there are refs that [`Git::put_back`] has to deal with: of a bisect, of a move, or
    /// work of the same run that was saved before. `None` if that is not known.
    left_refs: Option<bool>,
}

/// Files and directories of operations that [`Git::put_back`] ends.
const STATE_FILES: [&str; 13] = [
    "rebase-merge",
    "rebase-apply",
    "sequencer",
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "MERGE_RR",
    "SQUASH_MSG",
    "MERGE_AUTOSTASH",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "AUTO_MERGE",
];

/// Work that was saved while restoring.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Restored {
    /// Commit on `refs/remand/wip/RUN`, if the run left anything.
    pub(crate) wip: Option<String>,
    /// New locations of repositories that the run had created inside the worktree.
    pub(crate) moved_aside: Vec<PathBuf>,
}

impl Git {
    /// Makes a worktree usable for git again after processes were killed in it, and reads its HEAD.
    ///
    /// Fixes the locks of its index, its HEAD and its branch, an unreadable HEAD or index, and a
    /// `.git` file or `commondir` that is gone or leads elsewhere. Nothing is lost by it. The first
    /// step of every recovery. The caller has verified that nobody is at work there.
    pub(crate) async fn unblock(&self, place: &Place, to: RestorePoint<'_>) -> Result<Unblocked> {
        mend_files(place, to)?;
        let wip = wip_ref(to.run)?;
        let patterns = ["refs/bisect/*", "refs/worktree/*", &exactly(&wip)];
        if let Some((head, refs)) = self.head_and_refs(place, &patterns).await? {
            return Ok(Unblocked {
                now: worktree(place, head),
                left_refs: Some(!refs.is_empty()),
            });
        }
        self.mend_index(place, to).await?;
        Ok(Unblocked {
            now: self.look(place).await?,
            left_refs: None,
        })
    }

    /// Like [`Git::unblock`] and [`Git::look_and_uncommitted`], by one process if nothing has to be
    /// fixed.
    pub(crate) async fn unblock_and_look(
        &self,
        place: &Place,
        to: RestorePoint<'_>,
    ) -> Result<(Worktree, Uncommitted)> {
        mend_files(place, to)?;
        match self.look_and_uncommitted(place).await {
            Err(GitError::Failed { .. }) => {
                self.mend_index(place, to).await?;
                self.look_and_uncommitted(place).await
            }
            looked => looked,
        }
    }

    /// Moves an unreadable index aside and reads another one from HEAD.
    async fn mend_index(&self, place: &Place, to: RestorePoint<'_>) -> Result<()> {
        let head = self.resolve(place, "HEAD").await?;
        // The cheapest command for which git must read the index.
        let index_check = GitCommand::at(place, "rev-parse --shared-index-path");
        match (self.run(index_check).await, head) {
            (Err(GitError::Failed { .. }), head) => {
                move_aside(place, to.run, &place.git_dir.join("index"))?;
                match head {
                    Some(head) => self.read_tree(place, &head, None).await,
                    None => Ok(()),
                }
            }
            (checked, _) => checked,
        }
    }

    /// Restores a worktree to the commit at which its run started.
    ///
    /// Saves everything ([`Git::save_wip`]), quits the operation in progress, sets HEAD to its
    /// expected position (recreating a deleted branch), resets, and removes untracked files.
    /// Ignored files (`node_modules`) and caches stay. Swapped configuration must have been
    /// restored before.
    ///
    /// A repository inside the worktree is moved to `remand-kept/RUN` in the common dir: since a
    /// run only starts in a clean worktree, the run created it, and `clean -ffd` would destroy
    /// commits in it that exist nowhere else. A linked worktree of this repository stays where it
    /// is: it may be a person's.
    ///
    /// Idempotent, also after a crash at any point.
    pub(crate) async fn put_back(&self, place: &Place, to: RestorePoint<'_>) -> Result<Restored> {
        let found = self.unblock(place, to).await?;
        self.put_back_unblocked(to, &found).await
    }

    /// Like [`Git::put_back`], in a worktree that was just unblocked.
    pub(crate) async fn put_back_unblocked(
        &self,
        to: RestorePoint<'_>,
        found: &Unblocked,
    ) -> Result<Restored> {
        let place = &found.now.place;
        check_sha(to.head_before)?;
        // A look that fails proves nothing: everything is saved then.
        if matches!(self.is_untouched(to, found).await, Ok(true)) {
            return Ok(Restored::default());
        }
        let mut wip = self.save_wip(place, to).await?;
        let mut moved_aside = self.move_repositories_aside(place, to).await?;
        self.quit_operations(place).await?;
        self.set_head(place, to.head_at, to.head_before).await?;
        self.reset_hard(place, to.head_before).await?;
        // With the old ignore rules restored, files may appear that were ignored, and not saved,
        // before.
        moved_aside.extend(self.move_repositories_aside(place, to).await?);
        if self.has_unkept(place, wip.as_deref()).await? {
            wip = self.save_wip(place, to).await?;
        }
        let mut clean = GitCommand::at(place, "clean --quiet -f -d");
        for path in self.passed_over() {
            clean = clean.arg(format!("--exclude=/{}", escaped(&lossy(&path))));
        }
        for pattern in ignore_patterns() {
            clean = clean.arg(format!("--exclude={pattern}"));
        }
        self.bytes(clean).await?;
        let left = self.status(place).await?;
        if !left.is_clean() {
            return Err(GitError::StillDirty {
                paths: [left.changed, left.untracked].concat(),
            });
        }
        // Any move that was in progress here has ended now.
        self.end_moving(place).await?;
        Ok(Restored { wip, moved_aside })
    }

    /// Makes sure that a worktree is exactly as its run found it. Returns false if something may
    /// have to be saved or reverted first.
    ///
    /// The index of the worktree says what is staged and which files were written. The contents are
    /// compared by an index that is read from HEAD for the purpose: neither file times nor flags
    /// that hide files can hide a change from it. Files that were written and still have the content
    /// of HEAD are written again, since attributes such as `text` and `ident` let different bytes
    /// count as the same content.
    async fn is_untouched(&self, to: RestorePoint<'_>, found: &Unblocked) -> Result<bool> {
        let Worktree {
            place,
            branch,
            head,
            operation,
            ..
        } = &found.now;
        let is_there = head.as_deref() == Some(to.head_before)
            && to.head_at.fits(branch.as_deref())
            && operation.is_none()
            && found.left_refs == Some(false)
            && !has_state_files(place)?;
        if !is_there {
            return Ok(false);
        }
        if let HeadAt::Detached(_) = to.head_at {
            let kept = self.resolve(place, &to.head_at.ref_name()?).await?;
            if kept.as_deref() != Some(to.head_before) {
                return Ok(false);
            }
        }
        let call = "diff-index --raw -z --no-renames --ignore-submodules=dirty --end-of-options";
        let call = GitCommand::at(place, call).arg(to.head_before).arg("--");
        let Some(written) = only_written(&self.bytes(call).await?) else {
            return Ok(false);
        };
        let index = ScratchIndex::new(place, to.run);
        index.remove()?;
        let path = Some(index.path.as_path());
        let looked = match self.read_tree(place, to.head_before, path).await {
            Ok(()) => self.look_by(place, path).await,
            Err(error) => Err(error),
        };
        index.remove()?;
        let (now, left) = looked?;
        if !left.is_only_caches() || now.head != *head || now.branch != *branch {
            return Ok(false);
        }
        if written > 0 {
            self.reset_hard(place, to.head_before).await?;
        }
        Ok(true)
    }

    async fn move_repositories_aside(
        &self,
        place: &Place,
        to: RestorePoint<'_>,
    ) -> Result<Vec<PathBuf>> {
        let mut moved = Vec::new();
        for path in self.nested_repositories(place).await? {
            let full = place.path.join(path_of(&path));
            if Place::find(&place.common_dir, &full).is_err() {
                moved.push(move_aside(place, to.run, &full)?);
            }
        }
        Ok(moved)
    }

    /// Quits a rebase, merge, cherry-pick, revert, am or bisect. `reset --hard` ends the others.
    pub(super) async fn quit_operations(&self, place: &Place) -> Result<()> {
        for folder in ["rebase-merge", "rebase-apply", "sequencer"] {
            remove_all(&place.git_dir.join(folder))?;
        }
        for name in names(&place.git_dir)? {
            if name.to_string_lossy().starts_with("BISECT_") {
                remove(&place.git_dir.join(name))?;
            }
        }
        for file in ["MERGE_AUTOSTASH", "REBASE_HEAD"] {
            remove(&place.git_dir.join(file))?;
        }
        let call = GitCommand::at(place, "for-each-ref")
            .args(["--format=delete %(refname)", "refs/bisect/"]);
        let deletions = self.text(call).await?;
        if !deletions.is_empty() {
            let call = GitCommand::at(place, "update-ref --no-deref --stdin");
            self.bytes(call.stdin(deletions.into_bytes())).await?;
        }
        Ok(())
    }

    /// Returns true if an untracked file is missing from the saved commit.
    async fn has_unkept(&self, place: &Place, wip: Option<&str>) -> Result<bool> {
        let mut untracked = self.untracked(place, None).await?;
        untracked.retain(|path| !path.ends_with(b"/") && !is_cache(path));
        let kept = match wip {
            Some(wip) => self.files_of(place, wip).await?,
            None => BTreeSet::new(),
        };
        Ok(!untracked.is_subset(&kept))
    }
}

/// Removes locks of killed processes, and restores the files without which git does not find the
/// worktree.
fn mend_files(place: &Place, to: RestorePoint<'_>) -> Result<()> {
    place.check()?;
    let name = to.head_at.ref_name()?;
    special::remove_own(place)?;
    for lock in ["index.lock", "HEAD.lock"] {
        remove(&place.git_dir.join(lock))?;
    }
    // A git that was killed while moving a ref leaves a lock that nobody else will ever remove.
    for name in [name, wip_ref(to.run)?] {
        remove(&place.common_dir.join(format!("{name}.lock")))?;
    }
    mend_head(place, to)?;
    mend_common_dir(place, to.run)?;
    mend_git_file(place, to.run)
}

/// Removes the lock of the index, if it was made by a second of the clock, given since 1970: the git
/// that made it was killed with its run. A later one is a person's.
pub(crate) fn remove_index_lock(place: &Place, until_s: u64) -> Result<()> {
    let lock = place.git_dir.join("index.lock");
    let modified = lock.symlink_metadata().and_then(|meta| meta.modified());
    let since = modified
        .ok()
        .and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    if since.is_some_and(|since| since.as_secs() <= until_s) {
        remove(&lock)?;
    }
    Ok(())
}

/// Returns a pattern that matches a ref and not those below it.
fn exactly(name: &str) -> String {
    let mut pattern = name.to_owned();
    match pattern.pop() {
        Some(last) => format!("{pattern}[{last}]"),
        None => pattern,
    }
}

/// Counts the files that were written since the index was, from the output of `diff-index --raw
/// -z`; `None` if anything else is different.
fn only_written(output: &[u8]) -> Option<usize> {
    let output = std::str::from_utf8(output).ok()?;
    let mut fields = output.split_terminator('\0');
    let mut count = 0;
    while let Some(header) = fields.next() {
        fields.next()?;
        let [old_mode, mode, _, id, "M"] = header.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        let is_unread = id.bytes().all(|digit| digit == b'0');
        if old_mode.strip_prefix(':') != Some(mode) || !is_unread {
            return None;
        }
        count += 1;
    }
    Some(count)
}

/// Returns true if there are files of an operation that is not finished.
fn has_state_files(place: &Place) -> Result<bool> {
    let is_state = |name: &PathBuf| {
        let name = name.to_string_lossy();
        name.starts_with("BISECT_") || STATE_FILES.contains(&name.as_ref())
    };
    Ok(names(&place.git_dir)?.iter().any(is_state))
}

/// Restores an unreadable HEAD, without which git does not recognize a repository at all.
fn mend_head(place: &Place, to: RestorePoint<'_>) -> Result<()> {
    let head = place.git_dir.join("HEAD");
    let text = files::read(&head, SMALL).unwrap_or_default();
    let text = text.trim_ascii_end();
    let is_commit = std::str::from_utf8(text).is_ok_and(|text| check_sha(text).is_ok());
    if is_commit || text.starts_with(b"ref: refs/") {
        return Ok(());
    }
    if thing(&head)? == FileKind::Folder {
        fs::remove_dir_all(&head).map_err(at("remove", &head))?;
    }
    let text = match to.head_at {
        HeadAt::Branch(branch) => format!("ref: refs/heads/{branch}"),
        HeadAt::Detached(_) => last_head(place).unwrap_or_else(|| to.head_before.to_owned()),
    };
    replace_durably(&head, format!("{text}\n").as_bytes())
}

/// Returns the last commit of HEAD from its reflog: commits of a run may not be reachable
/// otherwise.
fn last_head(place: &Place) -> Option<String> {
    let log = lossy(&head_log(place));
    let sha = log.lines().next_back()?.split(' ').nth(1)?;
    check_sha(sha).ok().map(|()| sha.to_owned())
}

/// Restores `commondir`, which git uses to find refs, whatever `GIT_COMMON_DIR` is. Only a linked
/// worktree has one.
fn mend_common_dir(place: &Place, run: &str) -> Result<()> {
    if leads_to_common_dir(place) {
        return Ok(());
    }
    let file = place.git_dir.join("commondir");
    if thing(&file)? != FileKind::Absent {
        move_aside(place, run, &file)?;
    }
    if !place.is_linked() {
        return Ok(());
    }
    replace_durably(&file, format!("{}\n", utf8(&place.common_dir)?).as_bytes())
}

/// Restores the `.git` of a linked worktree, a file with one line. Anything that an agent put in
/// its place is moved aside.
fn mend_git_file(place: &Place, run: &str) -> Result<()> {
    if !place.is_linked() {
        return Ok(());
    }
    if points_at(&place.path, &place.git_dir) {
        return Ok(());
    }
    let file = place.path.join(".git");
    if thing(&file)? != FileKind::Absent {
        move_aside(place, run, &file)?;
    }
    let text = format!("gitdir: {}\n", utf8(&place.git_dir)?);
    replace_durably(&file, text.as_bytes())
}

/// Moves a file or directory to a place where nothing deletes it: the common dir, or next to the
/// worktree if the common dir is on another disk.
fn move_aside(place: &Place, run: &str, path: &Path) -> Result<PathBuf> {
    // `None` if the folder is on another disk.
    let into = |folder: PathBuf| -> Result<Option<PathBuf>> {
        fs::create_dir_all(&folder).map_err(at("make", &folder))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let taken = names(&folder)?.len();
        let target = folder.join(format!("{taken}-{name}"));
        match fs::rename(path, &target) {
            Ok(()) => Ok(Some(target)),
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => Ok(None),
            Err(error) => Err(at("move aside", path)(error)),
        }
    };
    if let Some(target) = into(place.common_dir.join("remand-kept").join(run))? {
        return Ok(target);
    }
    let mut name = place.path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".remand-kept-{run}"));
    let beside = place.path.with_file_name(name);
    into(beside)?.ok_or_else(|| at("move aside", path)(io::ErrorKind::CrossesDevices.into()))
}
