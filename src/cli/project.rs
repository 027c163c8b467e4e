//! `remand project`: `add` and `list`; the other subcommands have separate files.

mod remove;
mod show;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};

use super::init::{NewProject, ProjectFlags, first_file, init, write_settings};
use super::service;
use crate::blackboard::{self as bb, BoardError, Project};
use crate::change::ProjectId;
use crate::cli::frame::remote_url::{self, Unfit};
use crate::cli::frame::{
    CommandContext, CommandError, ExitCode, Line, Table, found, refuse_agents, wait,
};
use crate::config::{self, Loaded};
use crate::diagnostic::nearest;
use crate::git;

/// Manage the repositories that remand works on
#[derive(Debug, Subcommand)]
pub(crate) enum ProjectCommand {
    Add(AddArgs),
    /// List the projects
    List,
    Show(show::ShowArgs),
    Remove(remove::RemoveArgs),
}

/// Add a repository
#[derive(Debug, Args)]
#[command(
    after_help = "Then use `remand watch` for its pull requests and `remand review` for its worktrees. remand never works in \
the main checkout.\n\nWithout a config file, it asks the questions of `remand init` on a terminal; in a pipe, it only adds the \
repository. If there is a config file, the set-up, gates, label and shadow mode are written to [projects.NAME]: from the \
options, from your answers on a terminal, or as detected. For a known repository, `--url` alone replaces the push URL.\n\n\
Example:\n  remand project add ~/src/website"
)]
pub(crate) struct AddArgs {
    /// Main checkout of the repository, or any directory in it
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// Name of the project [default: the name of its directory]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Repository on GitHub, as owner/name [default: from the remote `origin`]
    #[arg(long, value_name = "OWNER/NAME")]
    repo: Option<String>,

    /// Push URL, pinned even if the repository's configuration changes later [default: that of the remote `origin`]
    #[arg(long, value_name = "URL", allow_hyphen_values = true)]
    url: Option<String>,

    /// Branch that work is merged into [default: that of `origin`, or else main or master]
    #[arg(long, value_name = "BRANCH")]
    default_branch: Option<String>,

    #[command(flatten)]
    flags: ProjectFlags,
}

impl AddArgs {
    /// Arguments for a repository for which everything is detected.
    pub(crate) fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            name: None,
            repo: None,
            url: None,
            default_branch: None,
            flags: ProjectFlags::default(),
        }
    }

    pub(crate) fn named(self, name: Option<&str>) -> Self {
        Self {
            name: name.map(str::to_owned),
            ..self
        }
    }

    /// True if only the location is given: that is also allowed for a known repository, such as a
    /// renamed one.
    fn moves_only(&self) -> bool {
        (self.url.is_some() || self.repo.is_some())
            && self.name.is_none()
            && self.default_branch.is_none()
            && !self.flags.is_given()
    }
}

pub(crate) fn project(command: ProjectCommand, ctx: &mut CommandContext) -> Result<ExitCode> {
    match command {
        ProjectCommand::Add(args) => add(&args, ctx),
        ProjectCommand::List => list(ctx),
        ProjectCommand::Show(args) => show::show(&args, ctx),
        ProjectCommand::Remove(args) => remove::remove(&args, ctx),
    }
}

/// Finds a project by name, even if it was removed.
fn known(ctx: &CommandContext, name: &str) -> Result<Project> {
    let project = ctx.read(|conn| found(bb::project(conn, &ProjectId::new(name))))?;
    if let Some(project) = project {
        return Ok(project);
    }
    let all = ctx.read(bb::list_projects)?;
    let names: Vec<&str> = all.iter().map(|one| one.project_id.as_str()).collect();
    let hint = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => {
            "there are no projects yet: `remand project add PATH`".to_owned()
        }
        None => format!("projects: {}", names.join(", ")),
    };
    CommandError::not_found(format!("no such project: `{name}`")).fail_with_hint(hint)
}

fn add(args: &AddArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    refuse_agents()?;
    ctx.may_begin();
    let new = NewProject {
        path: &args.path,
        name: args.name.as_deref(),
        repo: args.repo.as_deref(),
    };
    if args.url.is_none()
        && args.default_branch.is_none()
        && let Some(first) = first_file(&args.flags, &new, ctx)?
    {
        let what = "There is no config file yet. These are the questions of `remand init`:";
        ctx.out.line(what)?;
        return init(&first, ctx);
    }
    write_settings(&args.flags, &new, ctx)?;
    let settings = ctx.settings()?;
    let project = put(args, &settings, ctx)?;
    ctx.show(&project, |ctx, project| {
        print_added(ctx, project, &settings)
    })
}

fn print_added(ctx: &mut CommandContext, project: &Project, settings: &Loaded) -> Result<()> {
    say(project, ctx)?;
    say_who_works(settings, project.project_id.as_str(), ctx)?;
    if let Some((what, remedy)) =
        service::outside_of_unit(&settings.blackboard, Path::new(&project.common_dir))
    {
        ctx.out.note(format!("note: {what}"))?;
        ctx.out.note(format!("hint: {remedy}"))?;
    }
    Ok(())
}

/// Adds a repository to the blackboard, or updates its location.
pub(crate) fn put(args: &AddArgs, settings: &Loaded, ctx: &CommandContext) -> Result<Project> {
    let found = wait(ctx.git(settings).project_at(&args.path))??;
    let project = described(&found, args, ctx)?;
    ctx.write("project_add", |conn, step| match bb::project_by_common_dir(
        conn,
        &project.common_dir,
    )? {
        Some(known) if args.moves_only() => bb::move_project(
            conn,
            &known.project_id,
            args.url.as_deref(),
            args.repo.as_deref(),
        ),
        Some(_) | None => {
            let stored = bb::insert_project(conn, &project)?;
            let id = &stored.project_id;
            if args.name.is_some() && *id != project.project_id {
                let what =
                    format!("this repository was the project `{id}`, and a project keeps its name");
                return Err(BoardError::refused_with_hint(what, "omit --name"));
            }
            let shadow = settings.project(id.as_str()).shadow;
            bb::set_project_shadow(conn, id, shadow, step.now)?;
            Ok(stored)
        }
    })
}

/// Prints the project as it is now known.
pub(crate) fn say(project: &Project, ctx: &mut CommandContext) -> Result<()> {
    let name = project.project_id.as_str();
    let (path, branch) = (&project.path, &project.default_branch);
    let what = format!(" is {path}; work is merged into {branch}");
    ctx.out.line(Line::new().strong(name).plain(what))?;
    if let Some(url) = &project.remote_url {
        ctx.out.line(format!("pushes go to {url}"))?;
    } else if let Some(repo) = &project.repo {
        let what = format!("note: cannot push to pull requests of {repo}: no push URL is set");
        ctx.out.note(what)?;
        ctx.out.note(format!(
            "hint: `remand project add {} --url URL`",
            project.path
        ))?;
    }
    Ok(())
}

/// Prints a note if the project has no agent: without one, nothing would ever happen.
pub(crate) fn say_who_works(
    settings: &Loaded,
    project: &str,
    ctx: &mut CommandContext,
) -> Result<()> {
    if settings.project(project).agent.is_none() {
        let set = how_to_set_agent(settings);
        ctx.out
            .note(format!("note: `{project}` has no agent yet: {set}"))?;
    }
    Ok(())
}

pub(crate) fn how_to_set_agent(settings: &Loaded) -> String {
    let init = match settings.file {
        Some(_) => "",
        None => "run `remand init`, or ",
    };
    let file = settings.file.clone().or_else(config::usual_file);
    let file = file.unwrap_or_default();
    format!("{init}set `agent` and [agents.NAME] in {}", file.display())
}

/// Returns the project that would be added; also for `review --add-project`.
pub(crate) fn plain_project(found: &git::Project, ctx: &CommandContext) -> Result<Project> {
    named_project(found, None, ctx)
}

/// Like `plain_project`, with an explicit name.
pub(crate) fn named_project(
    found: &git::Project,
    name: Option<&str>,
    ctx: &CommandContext,
) -> Result<Project> {
    described(found, &AddArgs::at(&found.path).named(name), ctx)
}

fn described(found: &git::Project, args: &AddArgs, ctx: &CommandContext) -> Result<Project> {
    let name = match &args.name {
        Some(name) => name.clone(),
        None => folder_name(&found.path),
    };
    let fits = |c: char| c.is_alphanumeric() || ['-', '_', '.'].contains(&c);
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) || name.starts_with(['-', '.'])
    {
        let what = format!("invalid project name `{name}`");
        let hint = "use letters, digits, `-`, `_` and `.`, at most 64 bytes, not starting with `-` or `.`; `remand init` and \
                    `remand project add` accept --name NAME";
        return CommandError::usage(what).fail_with_hint(hint);
    }
    let repo = match &args.repo {
        Some(repo) => Some(checked_repo(repo)?),
        None => found.origin.as_deref().and_then(repo_of_url),
    };
    let Some(default_branch) = args
        .default_branch
        .clone()
        .or_else(|| found.default_branch.clone())
    else {
        let what = format!(
            "cannot determine the default branch of {}",
            found.path.display()
        );
        return CommandError::new(what)
            .fail_with_hint("use `remand project add PATH --default-branch BRANCH`; the repository needs at least one commit");
    };
    git::check_branch_name(&default_branch)
        .map_err(|error| CommandError::usage(error.to_string()))?;
    Ok(Project {
        project_id: ProjectId::new(name),
        path: text(&found.path)?,
        common_dir: text(&found.common_dir)?,
        repo,
        remote_url: remote_url(found, args)?,
        default_branch,
        created_at: ctx.now,
    })
}

/// Name of the main checkout's directory; for a bare repository its own, without `.git`.
fn folder_name(path: &Path) -> String {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    name.strip_suffix(".git")
        .filter(|rest| !rest.is_empty())
        .map_or(name.clone(), str::to_owned)
}

fn text(path: &Path) -> Result<String> {
    let text = path
        .to_str()
        .ok_or_else(|| CommandError::new(format!("the path {} is not UTF-8", path.display())))?;
    Ok(text.to_owned())
}

fn checked_repo(text: &str) -> Result<String> {
    if is_repo(text) {
        return Ok(text.to_owned());
    }
    CommandError::usage(format!("invalid repository name `{text}`"))
        .fail_with_hint("use owner/name, such as rust-lang/rust")
}

fn is_repo(text: &str) -> bool {
    let fits = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c))
    };
    text.split_once('/')
        .is_some_and(|(owner, name)| fits(owner) && fits(name))
}

/// Extracts `owner/name` from `https://github.com/owner/name.git`, `git@github.com:owner/name` and
/// similar URLs.
fn repo_of_url(url: &str) -> Option<String> {
    let rest = url
        .split_once("github.com")?
        .1
        .trim_start_matches([':', '/']);
    let rest = rest.trim_end_matches('/');
    let rest = rest.strip_suffix(".git").unwrap_or(rest);
    is_repo(rest).then(|| rest.to_owned())
}

/// Returns the URL to pin. A given URL must be valid for pushing; an invalid URL of the remote is
/// ignored, unless it contains a secret.
fn remote_url(found: &git::Project, args: &AddArgs) -> Result<Option<String>> {
    if let Some(url) = &args.url {
        return match remote_url::unfit(url) {
            None => Ok(Some(url.clone())),
            Some(unfit) => CommandError::usage(format!("cannot use --url: {}", unfit.what()))
                .fail_with_hint(unfit.hint()),
        };
    }
    match found
        .origin
        .as_deref()
        .map(|url| (url, remote_url::unfit(url)))
    {
        Some((url, None)) => Ok(Some(url.to_owned())),
        // Everyone who works in the repository can read it, including agents.
        Some((_, Some(unfit @ Unfit::Secret))) => {
            let what = format!(
                "cannot use the URL of the remote `origin` of {}: {}",
                found.path.display(),
                unfit.what()
            );
            CommandError::new(what).fail_with_hint(unfit.hint())
        }
        Some((_, Some(Unfit::Begins | Unfit::Kind | Unfit::Form))) | None => Ok(None),
    }
}

fn list(ctx: &mut CommandContext) -> Result<ExitCode> {
    let projects = ctx.read(bb::list_projects)?;
    ctx.show(&projects, |ctx, projects| {
        if projects.is_empty() {
            ctx.note_nothing_known();
            return Ok(());
        }
        let mut table = Table::new(&["PROJECT", "PATH", "BRANCH", "REPO"]);
        for project in projects {
            let (id, branch) = (project.project_id.as_str(), &project.default_branch);
            let repo = project.repo.as_deref().unwrap_or("-");
            table.row([id, &project.path, branch, repo]);
        }
        Ok(ctx.out.table(&table)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forge_name_is_read_from_urls() {
        for (url, expected) in [
            ("https://github.com/ada/engine.git", Some("ada/engine")),
            ("https://github.com/ada/engine/", Some("ada/engine")),
            ("git@github.com:ada/engine.git", Some("ada/engine")),
            ("ssh://git@github.com/ada/engine", Some("ada/engine")),
            ("https://x:secret@github.com/ada/engine", Some("ada/engine")),
            ("https://example.org/ada/engine", None),
            ("/srv/git/engine.git", None),
            ("https://github.com/ada", None),
            ("https://github.com/ada/engine/../x", None),
        ] {
            assert_eq!(repo_of_url(url).as_deref(), expected, "{url}");
        }
    }
}
