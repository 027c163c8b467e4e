//! Undoes what a cut or failed run left in its worktree. What is undone is kept first, or moved aside.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::cache::{ignore_patterns, is_cache};
use super::command::{GitCommand, text, utf8};
use super::fs_nofollow::{FileKind, at, names, path_of, remove, replace_durably, thing};
use super::history::check_sha;
use super::status::escaped;
use super::wip::wip_ref;
use super::{Git, GitError, HeadAt, Place, special};
use crate::files::{self, SMALL};

/// Where a worktree is to be put back to, and the run that left it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RestorePoint<'a> {
    pub(crate) head_at: HeadAt<'a>,
    pub(crate) head_before: &'a str,
    pub(crate) run: &'a str,
}

/// Bytes of a log of HEAD that are read.
const LOG: u64 = 4 * 1024 * 1024;

/// What was kept on the way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Restored {
    /// The commit on `refs/remand/wip/RUN`, if that run left anything.
    pub(crate) wip: Option<String>,
    /// Repositories that the run made inside the worktree, where they are now.
    pub(crate) moved_aside: Vec<PathBuf>,
}

impl Git {
    /// Makes a worktree fit for git again after processes were killed in it: the locks of its index, its HEAD and its
    /// branch, a HEAD or an index that cannot be read, a `.git` file or a `commondir` that is gone or leads elsewhere.
    /// Nothing is lost by it.
    /// The caller has proven that nobody is at work there. First of all in a recovery.
    pub(crate) async fn unblock(
        &self,
        place: &Place,
        to: RestorePoint<'_>,
    ) -> Result<(), GitError> {
        place.check()?;
        let name = to.head_at.ref_name()?;
        special::remove_own(place)?;
        for lock in ["index.lock", "HEAD.lock"] {
            remove(&place.git_dir.join(lock))?;
        }
        // A git that was killed while it moved a ref leaves a lock that nobody else will ever remove.
        for name in [name, wip_ref(to.run)?] {
            remove(&place.common_dir.join(format!("{name}.lock")))?;
        }
        mend_head(place, to)?;
        mend_common_dir(place, to.run)?;
        mend_git_file(place, to.run)?;
        let head = self.resolve(place, "HEAD").await?;
        // The one cheap question for which git must read the index.
        let asked = self
            .bytes(GitCommand::at(place, ["rev-parse", "--shared-index-path"]))
            .await;
        if let Err(GitError::Failed { .. }) = asked {
            let index = place.git_dir.join("index");
            move_aside(place, to.run, &index)?;
            if let Some(head) = head {
                self.bytes(GitCommand::at(place, ["read-tree", &head]))
                    .await?;
            }
            return Ok(());
        }
        asked.map(drop)
    }

    /// Puts a worktree back to the commit that its run began at: keeps everything ([`Git::save_wip`]), quits
    /// what was under way, puts HEAD where it belongs (on a branch that is made again if it was deleted), resets, removes what is
    /// untracked. Ignored files (`node_modules`) and caches stay. Swapped configuration must be back already.
    ///
    /// A repository inside the worktree is moved to `remand-kept/RUN` in the common dir: since a run only
    /// begins in a clean worktree it was made by that run, and `clean -ffd` would destroy commits in it that
    /// nobody has. A linked worktree of this repository stays where it is: it may be a person's.
    ///
    /// Said twice, or after a crash anywhere in it, it ends in the same place.
    pub(crate) async fn put_back(
        &self,
        place: &Place,
        to: RestorePoint<'_>,
    ) -> Result<Restored, GitError> {
        check_sha(to.head_before)?;
        self.unblock(place, to).await?;
        let mut wip = self
            .save_wip(place, to.head_at, to.head_before, to.run)
            .await?;
        let mut moved_aside = self.move_repositories_aside(place, to).await?;
        self.quit_operations(place).await?;
        self.set_head(place, to.head_at, to.head_before).await?;
        self.bytes(GitCommand::at(
            place,
            ["reset", "--quiet", "--hard", to.head_before, "--"],
        ))
        .await?;
        // With the old ignore rules back, files may show that were ignored, and not kept, before.
        moved_aside.extend(self.move_repositories_aside(place, to).await?);
        if self.has_unkept(place, wip.as_deref()).await? {
            wip = self
                .save_wip(place, to.head_at, to.head_before, to.run)
                .await?;
        }
        let mut clean = GitCommand::at(place, ["clean", "--quiet", "-f", "-d"]);
        for path in self.passed_over() {
            clean = clean.arg(format!(
                "--exclude=/{}",
                escaped(&String::from_utf8_lossy(&path))
            ));
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
        // Whatever move was under way here has ended now.
        self.end_moving(place).await?;
        Ok(Restored { wip, moved_aside })
    }

    async fn move_repositories_aside(
        &self,
        place: &Place,
        to: RestorePoint<'_>,
    ) -> Result<Vec<PathBuf>, GitError> {
        let mut moved = Vec::new();
        for path in self.nested_repositories(place).await? {
            let full = place.path.join(path_of(&path));
            if Place::find(&place.common_dir, &full).is_err() {
                moved.push(move_aside(place, to.run, &full)?);
            }
        }
        Ok(moved)
    }

    /// Forgets a rebase, merge, cherry-pick, revert, am or bisect. `reset --hard` forgets what is not here.
    pub(super) async fn quit_operations(&self, place: &Place) -> Result<(), GitError> {
        for folder in ["rebase-merge", "rebase-apply", "sequencer"] {
            let folder = place.git_dir.join(folder);
            match thing(&folder)? {
                FileKind::Folder => fs::remove_dir_all(&folder).map_err(at("remove", &folder))?,
                FileKind::Absent | FileKind::File { .. } | FileKind::Link | FileKind::Other => {
                    remove(&folder)?;
                }
            }
        }
        for name in names(&place.git_dir)? {
            if name.to_string_lossy().starts_with("BISECT_") {
                remove(&place.git_dir.join(name))?;
            }
        }
        for file in ["MERGE_AUTOSTASH", "REBASE_HEAD"] {
            remove(&place.git_dir.join(file))?;
        }
        let call = GitCommand::at(
            place,
            ["for-each-ref", "--format=delete %(refname)", "refs/bisect/"],
        );
        let deletions = text("for-each-ref", self.bytes(call).await?)?;
        if !deletions.is_empty() {
            let call = GitCommand::at(place, ["update-ref", "--no-deref", "--stdin"]);
            self.bytes(call.stdin(deletions.into_bytes())).await?;
        }
        Ok(())
    }

    /// Whether something untracked is not in what was kept.
    async fn has_unkept(&self, place: &Place, wip: Option<&str>) -> Result<bool, GitError> {
        let untracked = self
            .paths(GitCommand::at(
                place,
                ["ls-files", "-o", "-z", "--exclude-standard"],
            ))
            .await?;
        let kept = match wip {
            Some(wip) => {
                self.paths(GitCommand::at(
                    place,
                    ["ls-tree", "-r", "-z", "--name-only", "--full-tree", wip],
                ))
                .await?
            }
            None => BTreeSet::new(),
        };
        Ok(untracked
            .iter()
            .any(|path| !path.ends_with(b"/") && !is_cache(path) && !kept.contains(path)))
    }
}

/// Without a HEAD that it can read, git does not see a repository at all.
fn mend_head(place: &Place, to: RestorePoint<'_>) -> Result<(), GitError> {
    let head = place.git_dir.join("HEAD");
    let is_file = matches!(thing(&head)?, FileKind::File { .. });
    let text = if is_file {
        files::read(&head, SMALL).unwrap_or_default()
    } else {
        Vec::new()
    };
    let text = text.trim_ascii_end();
    let is_commit = std::str::from_utf8(text).is_ok_and(|text| check_sha(text).is_ok());
    if is_commit || text.starts_with(b"ref: refs/") {
        return Ok(());
    }
    if thing(&head)? == FileKind::Folder {
        fs::remove_dir_all(&head).map_err(at("remove", &head))?;
    }
    let text = match to.head_at {
        HeadAt::Branch(branch) => format!("ref: refs/heads/{branch}\n"),
        HeadAt::Detached(_) => format!(
            "{}\n",
            last_head(place).unwrap_or_else(|| to.head_before.to_owned())
        ),
    };
    replace_durably(&head, text.as_bytes())
}

/// The commit that HEAD was at last, as its log has it: commits of a run may be on nothing else.
fn last_head(place: &Place) -> Option<String> {
    let log = files::read_below(&place.git_dir, Path::new("logs/HEAD"), LOG).ok()?;
    let log = String::from_utf8_lossy(&log);
    let sha = log.lines().next_back()?.split(' ').nth(1)?;
    check_sha(sha).ok().map(|()| sha.to_owned())
}

/// For its refs git goes where this file says, whatever `GIT_COMMON_DIR` is.
fn mend_common_dir(place: &Place, run: &str) -> Result<(), GitError> {
    if !place.is_linked() {
        return Ok(());
    }
    let file = place.git_dir.join("commondir");
    if let FileKind::File { .. } = thing(&file)? {
        let text = files::read(&file, SMALL).unwrap_or_default();
        let target = place.git_dir.join(path_of(text.trim_ascii_end()));
        if target
            .canonicalize()
            .is_ok_and(|dir| dir == place.common_dir)
        {
            return Ok(());
        }
    }
    if thing(&file)? != FileKind::Absent {
        move_aside(place, run, &file)?;
    }
    replace_durably(&file, format!("{}\n", utf8(&place.common_dir)?).as_bytes())
}

/// The `.git` of a linked worktree is a file with one line. What an agent put in its place is moved aside.
fn mend_git_file(place: &Place, run: &str) -> Result<(), GitError> {
    if !place.is_linked() {
        return Ok(());
    }
    let file = place.path.join(".git");
    if let FileKind::File { .. } = thing(&file)? {
        let text = files::read(&file, SMALL).unwrap_or_default();
        let target = text
            .trim_ascii_end()
            .strip_prefix(b"gitdir: ")
            .map(|target| place.path.join(path_of(target)));
        if target.is_some_and(|target| target.canonicalize().is_ok_and(|dir| dir == place.git_dir))
        {
            return Ok(());
        }
    }
    if thing(&file)? != FileKind::Absent {
        move_aside(place, run, &file)?;
    }
    replace_durably(
        &file,
        format!("gitdir: {}\n", utf8(&place.git_dir)?).as_bytes(),
    )
}

/// Moves a file or folder to where nothing removes it: the common dir, or beside the worktree when that is
/// another disk.
fn move_aside(place: &Place, run: &str, path: &Path) -> Result<PathBuf, GitError> {
    let into = |folder: PathBuf| -> Result<Result<PathBuf, io::Error>, GitError> {
        fs::create_dir_all(&folder).map_err(at("make", &folder))?;
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let taken = names(&folder)?.len();
        let target = folder.join(format!("{taken}-{name}"));
        Ok(fs::rename(path, &target).map(|()| target))
    };
    let moved = match into(place.common_dir.join("remand-kept").join(run))? {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            let mut name = place.path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".remand-kept-{run}"));
            into(place.path.with_file_name(name))?
        }
        moved => moved,
    };
    moved.map_err(at("move aside", path))
}
