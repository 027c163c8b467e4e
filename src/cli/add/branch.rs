//! Branch and worktree of a task: chosen here, made when the work starts.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::blackboard::{self as bb, Conn, Project};
use crate::branch_name::{SLUG, check_branch_name, slug};
use crate::change::ChangeId;
use crate::cli::frame::{CommandContext, CommandError};
use crate::git::{self, Git, Listed};
use crate::project_settings::ProjectSettings;

/// Number of names that are tried.
const NAMES: u32 = 1_000;

/// What a branch is chosen for.
pub(crate) struct Wanted<'a> {
    pub(crate) title: &'a str,
    /// Branch that the person named.
    pub(crate) named: Option<&'a str>,
    pub(crate) base: &'a str,
    pub(crate) rules: &'a ProjectSettings,
    pub(crate) project: &'a Project,
    /// Change that has the branch already, if its task is edited.
    pub(crate) own: Option<&'a ChangeId>,
}

/// Branch of a task, and its worktree.
pub(crate) struct Chosen {
    pub(crate) name: String,
    pub(crate) worktree: String,
    /// Set if remand creates the worktree.
    pub(crate) is_own: bool,
    /// Commit that the branch is at, or will probably start from.
    pub(crate) head: String,
}

impl Chosen {
    /// True if a live change has the branch or the worktree.
    pub(crate) fn is_taken(&self, conn: &Conn, project: &Project) -> bb::Result<bool> {
        let on = bb::live_change_on(conn, &project.project_id, &self.name)?;
        Ok(on.is_some() || bb::live_change_at(conn, &self.worktree)?.is_some())
    }
}

pub(crate) async fn choose(git: &Git, wanted: &Wanted<'_>, ctx: &CommandContext) -> Result<Chosen> {
    let found = git.project_at(Path::new(&wanted.project.path)).await?;
    if found.common_dir != Path::new(&wanted.project.common_dir) {
        return CommandError::new(format!(
            "{} is not the repository that was added",
            wanted.project.path
        ))
        .fail_with_hint("see `remand project list`");
    }
    if let Err(refused) = check_branch_name(wanted.base) {
        return CommandError::usage(format!("--base: {refused}")).fail();
    }
    let repository = found.repository();
    let Some(base_head) = git.base_head(&repository, wanted.base).await? else {
        if git.resolve(&repository, "HEAD").await?.is_none() {
            return CommandError::new(format!("{} has no commits yet", wanted.project.path))
                .fail_with_hint("commit something first: a task starts from a commit");
        }
        return CommandError::not_found(format!("the base branch {} does not exist", wanted.base))
            .fail_with_hint(format!(
                "choose another one with --base, or fetch it: `git -C {} fetch origin {}`",
                wanted.project.path, wanted.base
            ));
    };
    let worktrees = git.worktrees(&found).await?;
    let Some(name) = wanted.named else {
        let name = wanted.free_name(git, &found, ctx).await?;
        return wanted.new_worktree(name, base_head);
    };
    wanted.check_named(name, ctx)?;
    if let Some(other) = wanted.in_the_way(git, &found, name, ctx).await? {
        return CommandError::usage(format!(
            "--branch: {name} cannot exist beside the branch {other}: one is a directory of the other"
        ))
        .fail_with_hint("choose another name, or leave it out");
    }
    let tip = git
        .resolve(&repository, &format!("refs/heads/{name}"))
        .await?;
    let fetched = format!("refs/remotes/origin/{name}");
    if tip.is_none() && git.resolve(&repository, &fetched).await?.is_some() {
        let path = &wanted.project.path;
        return CommandError::new(format!("--branch: {name} exists on the remote, but not in {path}"))
            .fail_with_hint(format!(
                "to continue it, run `git -C {path} branch {name} origin/{name}`; otherwise choose another name"
            ));
    }
    if let Some(listed) = worktrees
        .iter()
        .find(|one| one.branch.as_deref() == Some(name) && !one.prunable)
    {
        return wanted.existing(name, listed, &found, tip.unwrap_or(base_head));
    }
    wanted.new_worktree(name.to_owned(), tip.unwrap_or(base_head))
}

impl Wanted<'_> {
    /// Returns the first name of the template that nothing uses.
    async fn free_name(
        &self,
        git: &Git,
        found: &git::Project,
        ctx: &CommandContext,
    ) -> Result<String> {
        let template = &self.rules.implement.branch;
        let first = template.replace(SLUG, &slug(self.title));
        let repository = found.repository();
        for number in 1..NAMES {
            let name = match number {
                1 => first.clone(),
                n => format!("{first}-{n}"),
            };
            if let Err(refused) = check_branch_name(&name) {
                return CommandError::config(format!("implement.branch: {refused}")).fail();
            }
            let local = format!("refs/heads/{name}");
            let fetched = format!("refs/remotes/origin/{name}");
            let is_taken = git.resolve(&repository, &local).await?.is_some()
                || git.resolve(&repository, &fetched).await?.is_some()
                || self.folder(&name).symlink_metadata().is_ok()
                || self.is_live(&name, ctx)?
                || self.in_the_way(git, found, &name, ctx).await?.is_some();
            if !is_taken {
                return Ok(name);
            }
        }
        CommandError::new(format!("there are too many branches named like {first}"))
            .fail_with_hint("name one with --branch")
    }

    fn is_live(&self, name: &str, ctx: &CommandContext) -> Result<bool> {
        let id = &self.project.project_id;
        let folder = self.folder(name).display().to_string();
        ctx.read(|conn| {
            Ok(bb::live_change_on(conn, id, name)?.is_some()
                || bb::live_change_at(conn, &folder)?.is_some())
        })
    }

    /// Returns a branch that is a directory of this one, or of which this one is: git cannot have both. Branches of queued
    /// tasks count, although they do not exist yet.
    async fn in_the_way(
        &self,
        git: &Git,
        found: &git::Project,
        name: &str,
        ctx: &CommandContext,
    ) -> Result<Option<String>> {
        let mut parents: Vec<&str> = Vec::new();
        let mut rest = name;
        while let Some((parent, _)) = rest.rsplit_once('/') {
            parents.push(parent);
            rest = parent;
        }
        let is_in_the_way = |other: &str| {
            parents.contains(&other)
                || other
                    .strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with('/'))
        };
        let id = &self.project.project_id;
        let live = ctx.read(|conn| bb::live_changes_of(conn, id))?;
        let live = live
            .into_iter()
            .filter(|live| self.own != Some(&live.change_id));
        let mut others: Vec<String> = live.map(|live| live.branch).collect();
        let below = [&[name], parents.as_slice()].concat();
        others.extend(
            git.branch_tips(&found.repository(), &below)
                .await?
                .into_keys(),
        );
        Ok(others.into_iter().find(|other| is_in_the_way(other)))
    }

    fn check_named(&self, name: &str, ctx: &CommandContext) -> Result<()> {
        if let Err(refused) = check_branch_name(name) {
            return CommandError::usage(format!("--branch: {refused}")).fail();
        }
        if name == self.project.default_branch || name == self.base {
            return CommandError::usage(format!(
                "--branch: {name} is a branch that work is merged into"
            ))
            .fail_with_hint("choose another name, or leave it out");
        }
        let id = &self.project.project_id;
        let live = ctx.read(|conn| bb::live_change_on(conn, id, name))?;
        if let Some(live) = live.filter(|live| self.own != Some(&live.change_id)) {
            let (live, state) = (&live.change_id, live.state);
            return CommandError::new(format!(
                "--branch: {name} already belongs to {live} ({state})"
            ))
            .fail_with_hint(format!(
                "`remand status {live}` shows it, `remand cancel {live}` closes it"
            ));
        }
        Ok(())
    }

    /// Uses the worktree that is on the branch already.
    fn existing(
        &self,
        name: &str,
        listed: &Listed,
        found: &git::Project,
        head: String,
    ) -> Result<Chosen> {
        let path = listed
            .path
            .canonicalize()
            .unwrap_or_else(|_| listed.path.clone());
        let shown = path.display();
        if path == found.path {
            return CommandError::new(format!(
                "--branch: {name} is checked out in {shown}, the project's main checkout, where agents do not work"
            ))
            .fail_with_hint(format!("run `git -C {shown} switch {}`, or choose another branch", self.project.default_branch));
        }
        let mut roots = self.rules.worktree_roots.clone();
        if roots.is_empty() {
            roots.extend(Path::new(&self.project.path).parent().map(Path::to_owned));
        }
        roots.push(self.rules.own_worktrees.clone());
        let is_in = |root: &PathBuf| root.canonicalize().is_ok_and(|root| path.starts_with(root));
        if !roots.iter().any(is_in) {
            return CommandError::new(format!(
                "{shown} is not in an allowed directory for worktrees"
            ))
            .fail_with_hint("add its parent directory to `worktree_roots` in the settings");
        }
        Ok(Chosen {
            name: name.to_owned(),
            worktree: text(&path)?,
            is_own: false,
            head,
        })
    }

    fn new_worktree(&self, name: String, head: String) -> Result<Chosen> {
        let folder = self.folder(&name);
        if folder.symlink_metadata().is_ok() {
            return CommandError::new(format!("{} exists already", folder.display()))
                .fail_with_hint("move it out of the way, or choose another branch with --branch");
        }
        Ok(Chosen {
            worktree: text(&folder)?,
            name,
            is_own: true,
            head,
        })
    }

    fn folder(&self, name: &str) -> PathBuf {
        let root = &self.rules.own_worktrees;
        let root = root.canonicalize().unwrap_or_else(|_| root.clone());
        root.join(self.project.project_id.as_str())
            .join(name.replace('/', "-"))
    }
}

fn text(path: &Path) -> Result<String> {
    match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => CommandError::new(format!("the path {} is not UTF-8", path.display())).fail(),
    }
}
