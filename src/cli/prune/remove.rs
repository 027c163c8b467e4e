//! Removal of the files and refs of pruned changes. They are removed after the commit that recorded
//! them, and their records are deleted only when they are gone or turn out not to belong to the
//! changes: the next prune continues with the rest, and reports it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use super::{Broom, Left};
use crate::blackboard::{self as bb, Remnant, Where};
use crate::dispatch::is_review_of;
use crate::failpoint::crash_point;
use crate::git::{HeadAt, Project, REVIEWED, Sweep};
use crate::{process, sanitize};

/// Result of removing one remnant.
enum Outcome {
    Removed,
    /// Already gone.
    Gone,
    /// Does not belong to the change, with the reason; it is not checked again.
    Foreign(String),
    /// Still there, with the reason.
    Stays(String),
}

impl Broom {
    /// Removes the remnants. One that cannot be removed does not stop the others.
    pub(super) async fn remove(&mut self, remnants: &[Remnant]) -> Result<()> {
        let mut gone = Vec::new();
        for remnant in remnants {
            crash_point!("prune.remnant");
            let (is_over, reason) = match self.remove_one(remnant).await? {
                Outcome::Removed => {
                    self.count(remnant);
                    (true, None)
                }
                Outcome::Gone => (true, None),
                Outcome::Foreign(reason) => (true, Some(reason)),
                Outcome::Stays(reason) => (false, Some(reason)),
            };
            if is_over {
                gone.push(remnant.clone());
            }
            self.shown.left.extend(reason.map(|reason| Left {
                path: remnant.path.clone(),
                reason,
            }));
        }
        if !gone.is_empty() {
            self.board.write("swept", |conn| bb::swept(conn, &gone))?;
        }
        Ok(())
    }

    /// Counts the remnants that would be removed without `--dry-run`.
    pub(super) fn would_go<'a>(&mut self, remnants: impl Iterator<Item = &'a Remnant>) {
        for remnant in remnants {
            if remnant.kind == Where::Review {
                let folder = self.folder_of_reviews(remnant).unwrap_or_default();
                self.shown.review_files += review_names(&folder, &remnant.proof).len();
            }
            let is_there = match remnant.kind {
                Where::Run | Where::Prompt => matches!(self.own(remnant), Ok(Some(_))),
                Where::Worktree => true,
                // Refs are counted only when they have been removed.
                Where::Review | Where::Ref => false,
            };
            if is_there {
                self.count(remnant);
            }
        }
    }

    fn count(&mut self, remnant: &Remnant) {
        match remnant.kind {
            Where::Run => self.shown.folders += 1,
            Where::Prompt => self.shown.prompts += 1,
            Where::Worktree => self.shown.worktrees.push(remnant.path.clone()),
            Where::Review => {}
            // It kept what `remand diff --review` shows, not work.
            Where::Ref if remnant.path.starts_with(REVIEWED) => {}
            Where::Ref => self.shown.wip_refs_removed += 1,
        }
    }

    async fn remove_one(&mut self, remnant: &Remnant) -> Result<Outcome> {
        match remnant.kind {
            Where::Run | Where::Prompt => Ok(self.remove_own(remnant)),
            Where::Worktree => self.remove_worktree(remnant).await,
            Where::Review => Ok(self.remove_reviews(remnant)),
            Where::Ref => Ok(self.remove_ref(remnant).await),
        }
    }

    fn remove_own(&self, remnant: &Remnant) -> Outcome {
        let path = match self.own(remnant) {
            Ok(Some(path)) => path,
            Ok(None) => return Outcome::Gone,
            Err(outcome) => return outcome,
        };
        let removed = match remnant.kind {
            Where::Run => process::remove_folder(&path).map_err(|error| sanitize::chain(&error)),
            Where::Prompt | Where::Review | Where::Worktree | Where::Ref => fs::remove_file(&path)
                .map(|()| true)
                .map_err(|error| error.to_string()),
        };
        match removed {
            Ok(true) => Outcome::Removed,
            Ok(false) => Outcome::Stays("a process is still running in it".into()),
            Err(reason) => Outcome::Stays(reason),
        }
    }

    /// Removes the files of a change's reviews: only those with the name of one, and only where
    /// remand writes them.
    fn remove_reviews(&mut self, remnant: &Remnant) -> Outcome {
        let Some(folder) = self.folder_of_reviews(remnant) else {
            let reason = format!("it is not in {}", self.reviews_dir.display());
            return Outcome::Foreign(reason);
        };
        for name in review_names(&folder, &remnant.proof) {
            match fs::remove_file(folder.join(name)) {
                Ok(()) => self.shown.review_files += 1,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Outcome::Stays(error.to_string()),
            }
        }
        Outcome::Gone
    }

    /// Returns the directory with the files of a change's reviews. The row has the path
    /// `REVIEWS/PROJECT/CHANGE`, so that each change has its own.
    pub(super) fn folder_of_reviews(&self, remnant: &Remnant) -> Option<PathBuf> {
        let path = Path::new(&remnant.path);
        let folder = path.parent()?;
        let is_ours = path.file_name()? == remnant.proof.as_str()
            && folder.parent() == Some(&self.reviews_dir)
            && folder.symlink_metadata().ok()?.is_dir();
        is_ours.then(|| folder.to_owned())
    }

    /// Returns the path of a remnant, if it exists under its expected name in remand's directory.
    /// The row alone does not justify removing anything else: anybody may have written it.
    fn own(&self, remnant: &Remnant) -> Result<Option<PathBuf>, Outcome> {
        let room = if remnant.kind == Where::Run {
            &self.runs_dir
        } else {
            &self.shadow_dir
        };
        let (path, own) = (Path::new(&remnant.path), room.join(&remnant.proof));
        if !is_file_name(&remnant.proof) || path.file_name() != own.file_name() {
            let reason = format!("it does not match its record: {}", remnant.proof);
            return Err(Outcome::Foreign(reason));
        }
        match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // The whole directory was moved: the file with this name is probably the right one,
                // but that is not enough.
                if own.symlink_metadata().is_ok() {
                    let own = own.display();
                    let reason = format!("it was moved, perhaps to {own}: delete it yourself");
                    return Err(Outcome::Stays(reason));
                }
                return Ok(None);
            }
            Err(error) => return Err(Outcome::Stays(error.to_string())),
            Ok(_) => {}
        }
        let real = |path: &Path| path.canonicalize().ok();
        let parent = path.parent().and_then(real);
        if parent.is_none() || parent != real(room) {
            let reason = format!("it is not in {}: delete it yourself", room.display());
            return Err(Outcome::Stays(reason));
        }
        Ok(Some(path.to_owned()))
    }

    async fn remove_worktree(&mut self, remnant: &Remnant) -> Result<Outcome> {
        let (project, path) = (project_of(remnant), Path::new(&remnant.path));
        let head_at = HeadAt::parse(&remnant.proof);
        match self.sweepable(&project, path, head_at).await {
            Sweep::Gone => return Ok(Outcome::Gone),
            Sweep::Stays(why) => return Ok(Outcome::Stays(why)),
            Sweep::Clean => {}
        }
        let is_used = |conn: &bb::Conn| bb::worktree_is_used(conn, &remnant.path);
        if self.board.read(is_used)? {
            return Ok(Outcome::Foreign("another change uses it now".into()));
        }
        match self.git.remove_worktree(&project, path).await {
            Ok(Sweep::Gone | Sweep::Clean) => {}
            Ok(Sweep::Stays(why)) => return Ok(Outcome::Stays(why)),
            Err(error) => return Ok(Outcome::Stays(sanitize::chain(&error))),
        }
        crash_point!("prune.worktree.removed");
        Ok(Outcome::Removed)
    }

    async fn remove_ref(&self, remnant: &Remnant) -> Outcome {
        let place = project_of(remnant).repository();
        match self.git.resolve(&place, &remnant.path).await {
            Ok(None) => return Outcome::Gone,
            Ok(Some(sha)) if sha != remnant.proof => {
                return Outcome::Foreign("it was updated since".into());
            }
            Ok(Some(_)) => {}
            Err(error) => return Outcome::Stays(sanitize::chain(&error)),
        }
        let (name, sha) = (&remnant.path, &remnant.proof);
        match self.git.forget_ref_at(&place, name, sha).await {
            Ok(()) => Outcome::Removed,
            Err(error) => Outcome::Stays(sanitize::chain(&error)),
        }
    }

    /// Checks whether a worktree can be removed; one that cannot be read is kept.
    pub(super) async fn sweepable(
        &self,
        project: &Project,
        path: &Path,
        head_at: HeadAt<'_>,
    ) -> Sweep {
        let found = self.git.sweepable(project, path, head_at).await;
        found.unwrap_or_else(|error| Sweep::Stays(sanitize::chain(&error)))
    }
}

/// Returns the names of the files of a change's reviews.
pub(super) fn review_names(folder: &Path, change: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_review_of(name, change)).collect()
}

/// True if the name is that of a file or a directory, and not a path.
pub(crate) fn is_file_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let first_two = (parts.next(), parts.next());
    matches!(first_two, (Some(Component::Normal(_)), None))
}

fn project_of(remnant: &Remnant) -> Project {
    let common_dir = PathBuf::from(&remnant.repository);
    Project {
        path: common_dir.clone(),
        common_dir,
        bare: true,
        default_branch: None,
        origin: None,
    }
}
