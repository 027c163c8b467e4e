//! Swaps agent configuration for the duration of a run.
//!
//! The agent sees the configuration and instructions of the base, never those of the branch under
//! work and never what an earlier run left in ignored files. The original files are restored
//! afterwards.
//!
//! Every step is recorded before it is carried out, so that a crash at any line can be undone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::agent_config_journal::{Before, Bytes, Content, LIMIT, Record, RecordFiles, SwapEntry};
use super::agent_config_paths::{Blob, config_on_disk, is_at_top, link_target, read_tree};
use super::bytes::{lossy, nul_ended};
use super::command::{GitCommand, utf8};
use super::fs_nofollow::{
    FileKind, first_non_folder, path_of, paths_in, remove, remove_empty_parents, replace_durably,
    thing,
};
use super::history::check_sha;
use super::{Git, GitError, Place, Result};
use crate::failpoint::crash_point;
use crate::files;

/// Environment that the agent needs while its configuration is swapped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Swapped {
    /// Hides files that exist only in the base from the agent's `git status` and `git add -A`.
    ///
    /// This is an ignore file that belongs to the run (and includes the user's), not an edit of one
    /// that other worktrees share.
    pub(crate) env: BTreeMap<String, String>,
}

impl Git {
    /// Replaces agent configuration with that of the commit `base`, until [`Git::put_back_config`].
    ///
    /// `record` is a file outside the worktree whose directory exists; copies are kept next to it.
    /// `clean_at` is the commit of HEAD if the index was just found to be the same, and nothing has
    /// run in the worktree since.
    ///
    /// Tracked files are marked skip-worktree, so that the agent neither sees nor commits the
    /// difference. A symlink in the base is replaced by the file that it resolves to in the base,
    /// or by nothing.
    pub(crate) async fn swap_in_base_config(
        &self,
        place: &Place,
        base: &str,
        record: &Path,
        clean_at: Option<&str>,
    ) -> Result<Swapped> {
        place.check()?;
        check_sha(base)?;
        let files = RecordFiles::new(record);
        files.begin()?;
        let mut record = Record {
            base: base.to_owned(),
            head: clean_at.map(str::to_owned),
            complete: false,
            entries: self.plan(place, base, clean_at, &files).await?,
        };
        let ignore = self.write_ignore(place, &record.entries, &files).await?;
        crash_point!("swap.record.before");
        files.store(&record)?;
        crash_point!("swap.record.after");
        let entries = record.entries.iter();
        let staged = entries.clone().filter(|entry| entry.index.is_some());
        self.hide(place, staged).await?;
        for entry in entries.clone().filter(|e| e.before != Before::Folder) {
            take_away(&place.path, &path_of(&entry.path.0))?;
            crash_point!("swap.taken_away");
        }
        for entry in entries {
            if entry.placed.is_some() {
                let content = self.content_of(place, entry.placed.as_ref()).await?;
                content.write(&place.path, &path_of(&entry.path.0))?;
                crash_point!("swap.placed");
            }
        }
        record.complete = true;
        files.store(&record)?;
        crash_point!("swap.complete");
        Ok(ignore)
    }

    async fn hide(&self, place: &Place, entries: impl Iterator<Item = &SwapEntry>) -> Result<()> {
        let paths = nul_ended(entries.map(|entry| entry.path.0.as_slice()));
        if !paths.is_empty() {
            let call = GitCommand::at(place, "update-index --skip-worktree -z --stdin");
            self.bytes(call.stdin(paths)).await?;
        }
        Ok(())
    }

    async fn plan(
        &self,
        place: &Place,
        base: &str,
        clean_at: Option<&str>,
        files: &RecordFiles,
    ) -> Result<Vec<SwapEntry>> {
        let index = self.config_in_index(place).await?;
        let head = match clean_at {
            Some(_) => index
                .iter()
                .filter_map(|(path, staged)| Some((path.clone(), staged.as_ref()?.blob.clone())))
                .collect(),
            None => self.config_in_head(place).await?,
        };
        let mut base_files = self.config_in_commit(place, base).await?;
        base_files.retain(|path, _| can_be_placed(place, path));
        let mut paths: BTreeSet<Vec<u8>> = config_on_disk(&place.path)?;
        paths.extend(head.keys().chain(index.keys()).cloned());
        paths.extend(base_files.keys().cloned());
        let mut entries = Vec::new();
        for (number, path) in paths.into_iter().enumerate() {
            let content = Content::on_disk(&place.path, &path_of(&path))?;
            let full = place.path.join(path_of(&path));
            if content == Content::Other && matches!(thing(&full)?, FileKind::File { .. }) {
                let (path, limit) = (full, LIMIT);
                return Err(GitError::ConfigTooBig { path, limit });
            }
            let placed = match base_files.get(&path) {
                Some(blob) => self.file_behind(place, base, &path, blob).await?,
                None => None,
            };
            let staged = index.get(&path).cloned().flatten();
            entries.push(SwapEntry {
                head: head.get(&path).cloned(),
                was_hidden: staged.as_ref().is_some_and(|staged| staged.hidden),
                index: staged.map(|staged| staged.blob),
                before: files.copy(&content, number)?,
                placed,
                path: Bytes(path),
            });
        }
        Ok(entries)
    }

    /// Returns the regular file at a path of a commit, following symlinks within the commit.
    async fn file_behind(
        &self,
        place: &Place,
        commit: &str,
        path: &[u8],
        blob: &Blob,
    ) -> Result<Option<Blob>> {
        let (mut path, mut blob) = (path.to_vec(), blob.clone());
        for _ in 0..5 {
            if blob.is_file() {
                return Ok(Some(blob));
            }
            if !blob.is_link() {
                return Ok(None);
            }
            let Some(target) = link_target(&path, &self.blob(place, &blob.sha).await?) else {
                return Ok(None);
            };
            let call = GitCommand::at(place, "ls-tree -z --full-tree --end-of-options")
                .args([commit, "--"]);
            let found = read_tree(&self.bytes(call.arg(path_of(&target))).await?)?;
            let Some(next) = found.into_iter().find(|file| file.path == target) else {
                return Ok(None);
            };
            (path, blob) = (next.path, next.blob);
        }
        Ok(None)
    }

    async fn content_of(&self, place: &Place, blob: Option<&Blob>) -> Result<Content> {
        let Some(blob) = blob else {
            return Ok(Content::Absent);
        };
        if !blob.is_file() && !blob.is_link() {
            return Ok(Content::Folder);
        }
        let bytes = self.blob(place, &blob.sha).await?;
        Ok(if blob.is_link() {
            Content::Link { target: bytes }
        } else {
            Content::File {
                mode: if blob.mode & 0o100 == 0 { 0o644 } else { 0o755 },
                bytes,
            }
        })
    }

    async fn write_ignore(
        &self,
        place: &Place,
        entries: &[SwapEntry],
        files: &RecordFiles,
    ) -> Result<Swapped> {
        let is_only_base = |entry: &&SwapEntry| entry.placed.is_some() && entry.index.is_none();
        if !entries.iter().any(|entry| is_only_base(&entry)) {
            return Ok(Swapped::default());
        }
        let mut text = match self.users_ignore_file(place).await? {
            // Most users have none.
            Some(path) => files::read(&path, LIMIT).unwrap_or_default(),
            None => Vec::new(),
        };
        text.push(b'\n');
        let paths = entries.iter().filter(is_only_base);
        let paths = paths.map(|entry| &entry.path.0);
        for path in paths.filter(|path| !path.contains(&b'\n')) {
            text.push(b'/');
            for byte in path {
                if b"\\*?[ !#".contains(byte) {
                    text.push(b'\\');
                }
                text.push(*byte);
            }
            text.push(b'\n');
        }
        replace_durably(&files.ignore, &text)?;
        let env = BTreeMap::from([
            ("GIT_CONFIG_COUNT".to_owned(), "1".to_owned()),
            (
                "GIT_CONFIG_KEY_0".to_owned(),
                "core.excludesFile".to_owned(),
            ),
            ("GIT_CONFIG_VALUE_0".to_owned(), utf8(&files.ignore)?),
        ]);
        Ok(Swapped { env })
    }

    async fn users_ignore_file(&self, place: &Place) -> Result<Option<PathBuf>> {
        let call = GitCommand::at(place, "config --type=path --get core.excludesFile");
        if let Some(path) = self.maybe_line(call).await? {
            return Ok(Some(place.path.join(path)));
        }
        let path = |name: &str| self.env.get(name).map(PathBuf::from);
        let folder = path("XDG_CONFIG_HOME").or_else(|| Some(path("HOME")?.join(".config")));
        Ok(folder.map(|folder| folder.join("git/ignore")))
    }

    /// Undoes [`Git::swap_in_base_config`], however far it got, and returns the paths that the
    /// agent had edited.
    ///
    /// `head` is the commit of HEAD if it was just read. The edits are discarded. Configuration that
    /// the agent *committed* is in HEAD and is left to the checks of the diff. Without a record there is nothing to do. Idempotent, also after a
    /// crash at any point: a second call has the same effect and the same result.
    pub(crate) async fn put_back_config(
        &self,
        place: &Place,
        record: &Path,
        head: Option<&str>,
    ) -> Result<Vec<String>> {
        place.check()?;
        let files = RecordFiles::new(record);
        let Some(record) = files.load()? else {
            files.finish()?;
            return Ok(files.load_dropped()?.unwrap_or_default());
        };
        let (goals, index) = self.goals(place, &record, head, &files).await?;
        let dropped = match files.load_dropped()? {
            Some(dropped) => dropped,
            None => {
                let mut dropped = Vec::new();
                if record.complete {
                    dropped = edited(place, &goals)?;
                }
                files.store_dropped(&dropped)?;
                dropped
            }
        };
        crash_point!("config_back.dropped");
        if !index.is_empty() {
            let call = GitCommand::at(place, "update-index -z --index-info");
            self.run(call.stdin(index)).await?;
        }
        // A sparse checkout or a person may have hidden them before.
        if record.entries.iter().any(|entry| entry.was_hidden) {
            let staged = self.config_in_index(place).await?;
            let is_hidden = |e: &&SwapEntry| e.was_hidden && staged.contains_key(&e.path.0);
            let hidden = record.entries.iter().filter(is_hidden);
            self.hide(place, hidden).await?;
        }
        let mut changed = Vec::new();
        // In reverse order: the contents of a directory are removed before the directory.
        for goal in goals.iter().rev() {
            let path = path_of(&goal.path);
            if goal.disk != Content::Folder && Content::on_disk(&place.path, &path)? != goal.disk {
                take_away(&place.path, &path)?;
                crash_point!("config_back.taken_away");
                changed.push(goal);
            }
        }
        for goal in changed {
            goal.disk.write(&place.path, &path_of(&goal.path))?;
            crash_point!("config_back.placed");
        }
        files.finish()?;
        crash_point!("config_back.record_gone");
        Ok(dropped)
    }

    /// Computes the final state of each path: its state before the swap, or the version in HEAD if
    /// HEAD has changed it since (the agent merged or rebased).
    async fn goals(
        &self,
        place: &Place,
        record: &Record,
        head: Option<&str>,
        files: &RecordFiles,
    ) -> Result<(Vec<Goal>, Vec<u8>)> {
        let entries = record.entries.iter();
        let head = if head.is_some() && record.head.as_deref() == head {
            let of_head = |entry: &SwapEntry| Some((entry.path.0.clone(), entry.head.clone()?));
            entries.clone().filter_map(of_head).collect()
        } else {
            self.config_in_head(place).await?
        };
        let (index, untracked) = self.config_in_index_and_untracked(place).await?;
        let swapped: BTreeMap<&Vec<u8>, &SwapEntry> = entries.map(|e| (&e.path.0, e)).collect();
        let mut paths: BTreeSet<Vec<u8>> = swapped.keys().map(|path| path.to_vec()).collect();
        paths.extend(head.keys().chain(index.keys()).cloned());
        if record.complete {
            paths.extend(config_on_disk(&place.path)?);
            paths.extend(untracked);
        }
        let none = "0".repeat(record.base.len());
        let (mut goals, mut lines) = (Vec::new(), Vec::new());
        for path in paths {
            let entry = swapped.get(&path);
            let now = head.get(&path);
            let (disk, staged) = match entry {
                Some(entry) if entry.head.as_ref() == now => {
                    (files.content(&entry.before)?, entry.index.as_ref())
                }
                Some(_) | None => (self.content_of(place, now).await?, now),
            };
            let mut line = |words: String| {
                lines.extend([words.as_bytes(), b"\t", &path, b"\0"].concat());
            };
            if index.contains_key(&path) {
                line(format!("0 {none}"));
            }
            if let Some(blob) = staged {
                line(format!("{:o} {}", blob.mode, blob.sha));
            }
            let placed = entry.and_then(|entry| entry.placed.as_ref());
            let given = self.content_of(place, placed).await?;
            goals.push(Goal { path, disk, given });
        }
        Ok((goals, lines))
    }
}

/// Returns the configuration files that match neither what the agent was given nor what was there
/// before.
fn edited(place: &Place, goals: &[Goal]) -> Result<Vec<String>> {
    let mut edited = Vec::new();
    for goal in goals {
        let found = Content::on_disk(&place.path, &path_of(&goal.path))?;
        // Where the base has a directory and the branch a symlink, placing the files created the
        // directory.
        let is_ours = found == Content::Folder && holds_given(goals, &goal.path);
        if !found.is_like(&goal.given) && !found.is_like(&goal.disk) && !is_ours {
            edited.push(lossy(&goal.path));
        }
    }
    Ok(edited)
}

struct Goal {
    path: Vec<u8>,
    disk: Content,
    /// Content given to the agent; anything else there is the agent's edit.
    given: Content,
}

/// Returns true if any content given to the agent lies below a path.
fn holds_given(goals: &[Goal], path: &[u8]) -> bool {
    let is_below = |goal: &Goal| {
        let rest = goal.path.strip_prefix(path);
        rest.is_some_and(|rest| rest.starts_with(b"/"))
    };
    let mut given = goals.iter().filter(|goal| goal.given != Content::Absent);
    given.any(is_below)
}

/// Removes a file or symlink, never the target of a symlink, and the directories left empty by it.
fn take_away(root: &Path, path: &Path) -> Result<()> {
    if first_non_folder(root, path)?.is_some() {
        return Ok(());
    }
    if Content::on_disk(root, path)? == Content::Folder {
        // A directory where a file belongs. Its contents have been removed by now, except a
        // submodule's.
        return remove_empty_folders(&root.join(path));
    }
    remove(&root.join(path))?;
    remove_empty_parents(root, path);
    Ok(())
}

fn remove_empty_folders(path: &Path) -> Result<()> {
    for path in paths_in(path)? {
        remove_empty_folders(&path)?;
    }
    // Not empty or not a directory: writing the file in its place then reports the error.
    fs::remove_dir(path).ok();
    Ok(())
}

/// Returns false for instructions in a directory that the branch lacks or has as a symlink; those
/// are left out.
fn can_be_placed(place: &Place, path: &[u8]) -> bool {
    is_at_top(path)
        || first_non_folder(&place.path, &path_of(path)).is_ok_and(|found| found.is_none())
}
