//! Check before a review: finds the worktree and its project, and whether it has anything to
//! review.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::ReviewArgs;
use crate::blackboard::{self as bb, Project};
use crate::cli::frame::{CommandContext, CommandError, wait};
use crate::cli::project::plain_project;
use crate::config::Loaded;
use crate::git::{Git, Worktree, check_branch_name};

/// Maximum number of files of a dirty worktree that are named.
const NAMED: usize = 8;

/// Work that can be reviewed.
pub(super) struct CheckedWorktree {
    pub(super) project: Project,
    /// Set if the project has to be added with the change.
    pub(super) is_new_project: bool,
    pub(super) path: String,
    pub(super) branch: String,
    pub(super) base: String,
    pub(super) head: String,
    pub(super) title: String,
}

pub(super) fn look(
    args: &ReviewArgs,
    settings: &Loaded,
    ctx: &CommandContext,
) -> Result<CheckedWorktree> {
    wait(look_with(&ctx.git(settings), args, settings, ctx))?
}

async fn look_with(
    git: &Git,
    args: &ReviewArgs,
    settings: &Loaded,
    ctx: &CommandContext,
) -> Result<CheckedWorktree> {
    let top = which_worktree(git, args).await?;
    let worktree = git.worktree_at(&top).await?;
    let (project, is_new_project) = which_project(git, args, &worktree, ctx).await?;
    let path = worktree.place.path.clone();
    let shown = path.display().to_string();
    let Some(path_text) = path.to_str() else {
        return CommandError::new(format!("the path {shown} is not UTF-8")).fail();
    };
    let branch = own_branch(&worktree, &project, args, &shown)?;
    if let Err(refused) = check_branch_name(&branch) {
        let hint = format!(
            "rename it with `git -C {shown} branch -m NAME`, using only letters, digits and . _ / -"
        );
        return CommandError::new(refused.to_string()).fail_with_hint(hint);
    }
    if !worktree.place.is_linked() {
        let what = format!("{shown} is the project's main checkout, where agents do not work");
        let hint = format!(
            "run `git switch {}` and `git worktree add ../{} {branch}`, then review that worktree",
            project.default_branch,
            folder_for(&branch)
        );
        return CommandError::new(what).fail_with_hint(hint);
    }
    inside_roots(&path, &project, settings)?;
    clean(git, &worktree, &shown).await?;
    let Some(head) = worktree.head.clone() else {
        return CommandError::new(format!("branch {branch} has no commits yet")).fail();
    };
    let base = args
        .base
        .clone()
        .unwrap_or_else(|| project.default_branch.clone());
    let title = something_to_review(
        git,
        &worktree,
        &Range {
            base: &base,
            head: &head,
            branch: &branch,
        },
    )
    .await?;
    let title = args.title.clone().unwrap_or(title);
    if title.trim().is_empty() {
        return CommandError::usage("the title is empty").fail();
    }
    Ok(CheckedWorktree {
        project,
        is_new_project,
        path: path_text.to_owned(),
        branch,
        base,
        head,
        title,
    })
}

async fn which_worktree(git: &Git, args: &ReviewArgs) -> Result<PathBuf> {
    let from = args.worktree.clone().unwrap_or_else(|| PathBuf::from("."));
    let Some(branch) = &args.branch else {
        return Ok(git.top_of(&from).await?);
    };
    let project = git.project_at(&from).await?;
    let all = git.worktrees(&project).await?;
    if let Some(listed) = all
        .iter()
        .find(|listed| listed.branch.as_ref() == Some(branch) && !listed.prunable)
    {
        return Ok(listed.path.clone());
    }
    let hint = format!(
        "create one with `git worktree add ../{} {branch}`",
        folder_for(branch)
    );
    CommandError::not_found(format!(
        "no worktree of {} is on branch {branch}",
        project.path.display()
    ))
    .fail_with_hint(hint)
}

async fn which_project(
    git: &Git,
    args: &ReviewArgs,
    worktree: &Worktree,
    ctx: &CommandContext,
) -> Result<(Project, bool)> {
    let common_dir = worktree.place.common_dir.display().to_string();
    if let Some(project) = ctx.read(|conn| bb::project_by_common_dir(conn, &common_dir))? {
        return Ok((project, false));
    }
    let found = git.project_at(&worktree.place.path).await?;
    if args.add_project {
        return Ok((plain_project(&found, ctx)?, true));
    }
    let what = format!(
        "{} belongs to {}, which is not a project yet",
        worktree.place.path.display(),
        found.path.display()
    );
    let hint = format!(
        "add it with `remand project add {}`, or use --add-project",
        found.path.display()
    );
    CommandError::new(what).fail_with_hint(hint)
}

fn own_branch(
    worktree: &Worktree,
    project: &Project,
    args: &ReviewArgs,
    shown: &str,
) -> Result<String> {
    if let Some(operation) = worktree.operation {
        let what = format!("a {operation} is in progress in {shown}");
        return CommandError::new(what).fail_with_hint("finish or abort it, then review");
    }
    let Some(branch) = worktree.branch.clone() else {
        let what = format!("{shown} has a detached HEAD");
        return CommandError::new(what)
            .fail_with_hint("create a branch with `git switch -c BRANCH`");
    };
    if branch == project.default_branch || args.base.as_ref() == Some(&branch) {
        let what = format!("{shown} is on {branch}, the branch that work is merged into");
        return CommandError::new(what)
            .fail_with_hint("create a separate branch with `git switch -c BRANCH`");
    }
    Ok(branch)
}

fn inside_roots(path: &Path, project: &Project, settings: &Loaded) -> Result<()> {
    let rules = settings.project(project.project_id.as_str());
    let mut roots = rules.worktree_roots;
    if roots.is_empty() {
        roots.extend(Path::new(&project.path).parent().map(Path::to_owned));
    }
    let holds = |root: &PathBuf| root.canonicalize().is_ok_and(|root| path.starts_with(root));
    // A task's worktree is one of remand's own.
    if roots.iter().any(holds) || holds(&rules.own_worktrees) {
        return Ok(());
    }
    let roots: Vec<String> = roots
        .iter()
        .map(|root| root.display().to_string())
        .collect();
    let what = format!(
        "{} is not in an allowed directory for worktrees: {}",
        path.display(),
        roots.join(", ")
    );
    CommandError::new(what).fail_with_hint(
        "add its parent directory to `worktree_roots` in the settings, or move the worktree",
    )
}

async fn clean(git: &Git, worktree: &Worktree, shown: &str) -> Result<()> {
    let status = git.status(&worktree.place).await?;
    if status.is_clean() {
        return Ok(());
    }
    let files: Vec<&String> = status.changed.iter().chain(&status.untracked).collect();
    let mut named: Vec<&str> = files.iter().take(NAMED).map(|file| file.as_str()).collect();
    let more = format!("and {} more", files.len().saturating_sub(NAMED));
    if files.len() > NAMED {
        named.push(&more);
    }
    let what = format!("{shown} is not clean: {}", named.join(", "));
    CommandError::new(what).fail_with_hint(
        "only commits are reviewed: run `git add -A && git commit`, or `git stash -u`",
    )
}

struct Range<'a> {
    base: &'a str,
    head: &'a str,
    branch: &'a str,
}

/// Checks that there is a difference, and returns a title for the change.
async fn something_to_review(git: &Git, worktree: &Worktree, range: &Range<'_>) -> Result<String> {
    let Range { base, head, branch } = range;
    let place = &worktree.place;
    let Some(base_head) = git.base_head(place, base).await? else {
        return CommandError::not_found(format!("the base branch {base} does not exist"))
            .fail_with_hint("choose a base with --base");
    };
    let Some(merge_base) = git.merge_base(place, &base_head, head).await? else {
        return CommandError::new(format!("{branch} and {base} have no common history"))
            .fail_with_hint("choose another base with --base");
    };
    let empty = || {
        CommandError::new(format!(
            "nothing to review: {branch} has no changes that are not in {base}"
        ))
        .hint("commit the work first, or choose another base with --base")
    };
    if merge_base == *head
        || git
            .changed_files(place, &merge_base, head)
            .await?
            .is_empty()
    {
        return Err(empty().into());
    }
    let commits = git.log(place, &merge_base, head).await?;
    Ok(match commits.as_slice() {
        [only] if !only.subject.trim().is_empty() => only.subject.clone(),
        _ => (*branch).to_owned(),
    })
}

/// Returns a directory name for a branch.
fn folder_for(branch: &str) -> String {
    branch.replace('/', "-")
}
