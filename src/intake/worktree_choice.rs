//! The worktree for a pull request: the existing one on its branch, or a managed one, which is only planned here.
//! Nothing is created.

use std::path::{Path, PathBuf};

use super::{IntakeError, Result};
use crate::blackboard::Project;
use crate::git::{Git, GitError, Listed};
use crate::project_settings::ProjectSettings;
use crate::text::list;

/// Number of names that are tried for a managed worktree.
const NAMES: u32 = 100;

/// Requirements for the worktree.
pub(super) struct Wanted<'a> {
    pub(super) project: &'a Project,
    pub(super) rules: &'a ProjectSettings,
    pub(super) branch: &'a str,
    pub(super) number: i64,
}

#[derive(Debug)]
pub(super) struct WorktreeChoice {
    pub(super) path: String,
    /// Set if remand creates it, or created it.
    pub(super) is_own: bool,
}

/// Returns the worktree on the branch if there is one, else the path for a new one.
pub(super) async fn found_or_planned(git: &Git, wanted: &Wanted<'_>) -> Result<WorktreeChoice> {
    let found = git.project_at(Path::new(&wanted.project.path)).await?;
    if found.common_dir != Path::new(&wanted.project.common_dir) {
        let path = &wanted.project.path;
        let what = format!("{path} is not the repository that was added");
        return Err(IntakeError::refused(what, "see `remand project list`"));
    }
    let all = git.worktrees(&found).await?;
    // The main checkout belongs to the user, on any branch.
    let is_fit = |one: &&Listed| {
        one.branch.as_deref() == Some(wanted.branch) && !one.prunable && one.path != found.path
    };
    let Some(listed) = all.iter().find(is_fit) else {
        return planned(wanted, &all);
    };
    let path = listed.path.canonicalize();
    wanted.checked(&path.unwrap_or_else(|_| listed.path.clone()), &found.path)
}

/// Returns the worktree that somebody named, which must belong to the project and be on the branch.
pub(super) async fn named(git: &Git, wanted: &Wanted<'_>, path: &Path) -> Result<WorktreeChoice> {
    let worktree = git.worktree_at(&git.top_of(path).await?).await?;
    let shown = worktree.place.path.display();
    let project = wanted.project;
    if worktree.place.common_dir != Path::new(&project.common_dir) {
        let what = format!("{shown} is not a worktree of {}", project.path);
        let hint = format!("`git -C {} worktree list` lists them", project.path);
        return Err(IntakeError::refused(what, hint));
    }
    if worktree.branch.as_deref() != Some(wanted.branch) {
        let (on, branch) = (worktree.branch.as_deref(), wanted.branch);
        let on = on.unwrap_or("no branch");
        let what = format!("{shown} is on {on}, but the branch of the PR is {branch}");
        let hint = format!("`git -C {shown} switch {branch}`");
        return Err(IntakeError::refused(what, hint));
    }
    wanted.checked(&worktree.place.path, Path::new(&project.path))
}

impl Wanted<'_> {
    fn checked(&self, path: &Path, main: &Path) -> Result<WorktreeChoice> {
        let shown = path.display();
        if path == main {
            let branch = self.branch;
            let what = format!(
                "{shown} is the project's main checkout (on {branch}), which remand does not use"
            );
            let hint = "without --worktree, remand creates a worktree";
            return Err(IntakeError::refused(what, hint));
        }
        let is_in = |root: &PathBuf| root.canonicalize().is_ok_and(|root| path.starts_with(root));
        let is_own = is_in(&self.rules.own_worktrees);
        let mut roots = self.rules.worktree_roots.clone();
        if roots.is_empty() {
            roots.extend(Path::new(&self.project.path).parent().map(Path::to_owned));
        }
        if !is_own && !roots.iter().any(is_in) {
            let roots = list(roots.iter().map(|root| root.display()));
            let what = format!("{shown} is not in an allowed directory for worktrees: {roots}");
            let hint =
                "add its directory to `worktree_roots` in the configuration, or move the worktree";
            return Err(IntakeError::refused(what, hint));
        }
        Ok(WorktreeChoice {
            path: text(path)?,
            is_own,
        })
    }
}

/// A path where nothing exists, or where a managed worktree of an earlier change of the same pull request is left.
fn planned(wanted: &Wanted<'_>, all: &[Listed]) -> Result<WorktreeChoice> {
    let folder = settled(&wanted.rules.own_worktrees).join(wanted.project.project_id.as_str());
    let first = format!("pr-{}", wanted.number);
    let others = (2..NAMES).map(|n| format!("{first}-{n}"));
    let free = std::iter::once(first.clone())
        .chain(others)
        .map(|name| folder.join(name));
    let is_ours = |path: &Path| {
        all.iter()
            .any(|one| one.path == path && one.branch.is_none() && !one.prunable)
    };
    let is_free = |path: &PathBuf| path.symlink_metadata().is_err() || is_ours(path);
    let Some(path) = free.into_iter().find(is_free) else {
        let what = format!("{} has too many worktrees for this PR", folder.display());
        let hint = "remove unused ones: `git worktree remove PATH`";
        return Err(IntakeError::refused(what, hint));
    };
    Ok(WorktreeChoice {
        path: text(&path)?,
        is_own: true,
    })
}

/// Resolves a path that may not exist yet: symlinks in its existing part are followed.
fn settled(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let Ok(there) = above.canonicalize()
            && let Ok(rest) = path.strip_prefix(above)
        {
            return there.join(rest);
        }
    }
    path.to_owned()
}

fn text(path: &Path) -> Result<String> {
    let text = path.to_str().ok_or_else(|| GitError::NotUtf8 {
        path: path.to_owned(),
    })?;
    Ok(text.to_owned())
}
