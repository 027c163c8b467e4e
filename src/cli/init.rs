//! `remand init`: writes a config file with only the settings that differ from the defaults, and
//! adds the first projects. It asks on a terminal; elsewhere a missing value is its default, or a
//! usage error that names the flag.

mod ask;
mod catalog;
mod choice;
mod detect;
mod ecosystem;
mod one_project;
mod top;
mod trial;
mod write;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::project;
use crate::blackboard::{self as bb, Project};
use crate::cli::frame::{
    CommandContext, CommandError, ExitCode, Line, TextStyle, refuse_agents, wait,
};
use crate::config;
use crate::git::GitError;
pub(super) use ask::Ask;
use choice::{AgentChoice, Choices, ProjectChoice, SetupChoice, words};
pub(crate) use one_project::{NewProject, ProjectFlags, first_file, write_settings};
use trial::Tried;

/// Write a config file and add the first projects
///
/// On a terminal, it asks for values that were not given and shows the file before writing it; Ctrl-D aborts.
/// Otherwise, and with --yes, missing values are detected (claude in PATH, the current repository, its set-up and tests)
/// or left out.
///
/// Finally, the set-up and gates of each new project run once on its default branch, in a separate checkout, to see
/// whether they pass: while they fail on the base of a change, no agent is started for that change.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  remand init\n  remand init --yes --agent claude --project ~/src/website --gate 'npm test' \
--label remand\n  remand init --yes --agent 'my-agent --batch' --review-agent claude"
)]
pub(crate) struct InitArgs {
    /// Agent that fixes and reviews: `claude`, or a command that reads a prompt from stdin
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    /// Agent that reviews [default: the same agent]
    #[arg(long, value_name = "AGENT")]
    review_agent: Option<String>,

    /// Command that must pass before a fix is pushed, such as 'cargo test' (repeatable; '' for none)
    #[arg(long = "gate", value_name = "COMMAND")]
    gates: Vec<String>,

    /// Command that prepares a fresh worktree, such as 'npm ci' ('' for none) [default: detected]
    #[arg(long, value_name = "COMMAND")]
    setup: Option<String>,

    /// Skip the final trial run of the set-up and the gates
    #[arg(long)]
    no_try: bool,

    /// Repository to add (repeatable) [default: the current one]
    #[arg(long = "project", value_name = "PATH")]
    projects: Vec<PathBuf>,

    /// Name of the project [default: the name of its directory]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Automatically take over open PRs with this label [default: only PRs given to `remand watch`]
    #[arg(long, value_name = "LABEL")]
    label: Option<String>,

    /// Start in shadow mode: agents review, but nothing is fixed, pushed or posted
    #[arg(long)]
    shadow: bool,

    /// Do not ask questions
    #[arg(long, short)]
    yes: bool,

    /// Replace an existing config file, keeping a copy of it
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct InitReport<'a> {
    config: Cow<'a, str>,
    /// Path of the copy of the previous file.
    backup: Option<Cow<'a, str>>,
    projects: &'a [Project],
    /// Result of running the set-up and gates of each project once.
    tried: &'a [Tried],
    next: Vec<String>,
}

pub(crate) fn init(args: &InitArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    refuse_agents()?;
    ctx.may_begin();
    let Some(file) = config::file_to_write(ctx.place()) else {
        return CommandError::new("cannot determine the path of the config file: HOME is not set")
            .fail_with_hint("use --config FILE");
    };
    if file.exists() && !args.force {
        let hint = "`remand project add PATH` adds a repository to it; --force replaces it and keeps a copy";
        return CommandError::new(format!("the config file {} already exists", file.display()))
            .fail_with_hint(hint);
    }
    let mut ask = Ask::new(args.yes || ctx.out.is_json());
    let choices = choose(args, ctx, &mut ask)?;
    let text = write::render(&choices);
    if ask.is_asking() {
        ctx.out.blank()?;
        ctx.out.block(&text, 2)?;
        ctx.out.blank()?;
        if !ask.agrees(&mut ctx.out, &format!("Write this to {}?", file.display()))? {
            return ask::stopped().fail();
        }
    }
    let backup = write::put(ctx.place(), &file, &text)?;
    let projects = add(&choices, ctx)?;
    if !ctx.out.is_json() {
        tell_written(ctx, &file, backup.as_deref(), &projects)?;
    }
    for project in &choices.projects {
        let not_found = if ask.is_asking() {
            Vec::new()
        } else {
            not_found(args, project, &choices, &file)
        };
        for note in not_found.into_iter().chain(not_used(project)) {
            ctx.out.note(format!("note: {note}"))?;
        }
    }
    let tried = try_out(args, ctx, &projects)?;
    let next = next(&projects, &choices);
    let report = InitReport {
        config: file.to_string_lossy(),
        backup: backup.as_deref().map(Path::to_string_lossy),
        projects: &projects,
        tried: &tried,
        next: next.iter().map(|(command, _)| command.clone()).collect(),
    };
    ctx.show(&report, |ctx, report| print(ctx, report, &next))
}

fn choose(args: &InitArgs, ctx: &mut CommandContext, ask: &mut Ask) -> Result<Choices> {
    let agent = agent(args, ctx, ask)?;
    let review_agent = match &args.review_agent {
        Some(text) => from_flag(text, "--review-agent", ctx)?,
        None if ask.is_asking() => ask.until(
            &mut ctx.out,
            "Which agent reviews?",
            Some("the same"),
            |text| {
                if text == "the same" {
                    Ok(agent.clone())
                } else {
                    AgentChoice::installed(text)
                }
            },
        )?,
        None => agent.clone(),
    };
    let mut projects = projects(args, ctx, ask)?;
    let gates = args
        .gates
        .iter()
        .map(|gate| words(gate, "--gate"))
        .collect::<Result<Vec<_>>>()?;
    let gates: Vec<Vec<String>> = gates.into_iter().filter(|gate| !gate.is_empty()).collect();
    for project in &mut projects {
        project.setup = project_setup(args.setup.as_deref(), project, ctx, ask)?;
        if args.gates.is_empty() {
            project.gates = project_gates(project, ctx, ask)?;
        }
    }
    let label = match &args.label {
        Some(label) => Some(label.clone()),
        None if ask.is_asking() && projects.iter().any(|project| project.repo.is_some()) => {
            ask_label(ctx, ask)?
        }
        None => None,
    };
    if label.is_some() && !projects.iter().any(|project| project.repo.is_some()) {
        ctx.out
            .note("note: --label has no effect: none of the projects is on GitHub")?;
    }
    let shadow = args.shadow || (ask.is_asking() && ask_shadow(ctx, ask)?);
    Ok(Choices {
        agent,
        review_agent,
        gates,
        projects,
        label: label.filter(|label| !label.is_empty()),
        shadow,
    })
}

fn ask_label(ctx: &mut CommandContext, ask: &mut Ask) -> Result<Option<String>> {
    let question = "Label of open PRs to take over automatically, such as `remand`";
    let label = ask.line(&mut ctx.out, question, Some("none"))?;
    Ok(Some(label).filter(|label| label != "none"))
}

fn ask_shadow(ctx: &mut CommandContext, ask: &mut Ask) -> Result<bool> {
    let question = "Start in shadow mode: agents review, but nothing is fixed, pushed or posted?";
    ask.agrees(&mut ctx.out, question)
}

fn agent(args: &InitArgs, ctx: &mut CommandContext, ask: &mut Ask) -> Result<AgentChoice> {
    if let Some(text) = &args.agent {
        return from_flag(text, "--agent", ctx);
    }
    let found = detect::on_path("claude").then_some("claude");
    if ask.is_asking() {
        let question =
            "Which agent fixes and reviews? `claude`, or a command that reads a prompt from stdin";
        return ask.until(&mut ctx.out, question, found, AgentChoice::installed);
    }
    let missing = || {
        CommandError::usage("no agent given, and `claude` was not found in PATH")
            .hint("use --agent claude, or --agent 'COMMAND ARGS'")
    };
    AgentChoice::read(found.ok_or_else(missing)?, "--agent")
}

/// Reads an agent that was given by a flag. It may be installed later, so a missing one is only
/// reported.
fn from_flag(text: &str, flag: &str, ctx: &mut CommandContext) -> Result<AgentChoice> {
    let agent = AgentChoice::read(text, flag)?;
    if let Some(missing) = agent.missing() {
        let text =
            format!("the agent `{missing}` was not found in PATH; install it before `remand run`");
        ctx.out.warning(text)?;
    }
    Ok(agent)
}

/// Collects the projects. Each is checked before anything is written.
fn projects(
    args: &InitArgs,
    ctx: &mut CommandContext,
    ask: &mut Ask,
) -> Result<Vec<ProjectChoice>> {
    let mut chosen: Vec<ProjectChoice> = Vec::new();
    let mut name = args.name.as_deref();
    if name.is_some() && args.projects.len() > 1 {
        let hint =
            "use --project once, and add the others with `remand project add PATH --name NAME`";
        return CommandError::usage("--name cannot be used with more than one project")
            .fail_with_hint(hint);
    }
    for path in &args.projects {
        let project = ProjectChoice::at(path, name, ctx)?;
        project.join(&mut chosen)?;
    }
    if !args.projects.is_empty() {
        return Ok(chosen);
    }
    let here = match ProjectChoice::at(Path::new("."), name, ctx) {
        Ok(here) => Some(here),
        Err(error) if is_nowhere(&error) => None,
        Err(error) if ask.is_asking() => {
            ctx.out.line(Line::new().piece(
                TextStyle::Bad,
                format!("the current repository cannot be used: {error:#}"),
            ))?;
            None
        }
        Err(error) => return Err(error),
    };
    if !ask.is_asking() {
        return Ok(here.into_iter().collect());
    }
    let mut default = here.map(|here| here.path);
    loop {
        let question = if chosen.is_empty() {
            "Path of a repository"
        } else {
            "Path of another repository"
        };
        let shown = default
            .take()
            .map_or("none".to_owned(), |path| path.display().to_string());
        let text = ask.line(&mut ctx.out, question, Some(&shown))?;
        if text == "none" {
            return Ok(chosen);
        }
        let project = ProjectChoice::at(&detect::from_home(&text), name, ctx);
        match project.and_then(|project| project.join(&mut chosen)) {
            // The name was for the first project.
            Ok(()) => name = None,
            Err(error) => ctx
                .out
                .line(Line::new().piece(TextStyle::Bad, format!("  {error:#}")))?,
        }
    }
}

/// True if the directory is not in a repository, which is not an error.
fn is_nowhere(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref::<GitError>(),
        Some(GitError::NotARepository { .. })
    )
}

/// Chooses the set-up from the flag, the answer of the user, or the lock files.
fn project_setup(
    flag: Option<&str>,
    project: &ProjectChoice,
    ctx: &mut CommandContext,
    ask: &mut Ask,
) -> Result<Option<SetupChoice>> {
    let found = project.found.as_ref();
    let proposed = found.and_then(|found| found.setup);
    let usual = config::without_file(ctx.place())?
        .project(&project.name)
        .setup_again_on;
    let read = |text: &str, what: &str| -> Result<Option<SetupChoice>> {
        let command = words(text, what)?;
        let files = found
            .filter(|found| found.setup == Some(text))
            .map(|found| found.again_on.as_slice());
        let again_on = with_usual(&usual, files.unwrap_or_default());
        Ok((!command.is_empty()).then_some(SetupChoice { command, again_on }))
    };
    match flag {
        Some(setup) => read(setup, "--setup"),
        None if ask.is_asking() => {
            let question = format!("Command that prepares a fresh worktree of {}", project.name);
            ask.until(
                &mut ctx.out,
                &question,
                Some(proposed.unwrap_or("none")),
                |text| {
                    if text == "none" {
                        Ok(None)
                    } else {
                        read(text, "the command")
                    }
                },
            )
        }
        None => proposed.map_or(Ok(None), |proposed| read(proposed, "the set-up")),
    }
}

/// Adds the defaults: a list in the config file replaces the default list. Returns nothing if the
/// default list contains all files.
fn with_usual(usual: &[String], files: &[String]) -> Vec<String> {
    let more: Vec<String> = files
        .iter()
        .filter(|file| !usual.contains(file))
        .cloned()
        .collect();
    if more.is_empty() {
        more
    } else {
        [usual, &more].concat()
    }
}

fn project_gates(
    project: &ProjectChoice,
    ctx: &mut CommandContext,
    ask: &mut Ask,
) -> Result<Vec<Vec<String>>> {
    let found = project.found.as_ref().and_then(|found| found.gate);
    if !ask.is_asking() {
        return Ok(found
            .map(|gate| gate.split(' ').map(str::to_owned).collect())
            .into_iter()
            .collect());
    }
    let question = format!(
        "Command that must pass before a fix for {} is pushed",
        project.name
    );
    ask.until(
        &mut ctx.out,
        &question,
        Some(found.unwrap_or("none")),
        |text| {
            if text == "none" {
                Ok(Vec::new())
            } else {
                Ok(vec![words(text, "the command")?])
            }
        },
    )
}

/// Adds the projects the same way as `project add`; known ones are not changed.
fn add(choices: &Choices, ctx: &mut CommandContext) -> Result<Vec<Project>> {
    let settings = ctx.settings()?;
    let mut added = Vec::new();
    for choice in &choices.projects {
        added.push(match &choice.known {
            Some(id) => ctx.read(|conn| bb::project(conn, id))?,
            None => project::put(
                &project::AddArgs::at(&choice.path).named(Some(&choice.name)),
                &settings,
                ctx,
            )?,
        });
    }
    Ok(added)
}

/// Runs the set-up and gates of each project that has gates, unless the user declines.
fn try_out(args: &InitArgs, ctx: &mut CommandContext, projects: &[Project]) -> Result<Vec<Tried>> {
    let settings = ctx.settings()?;
    let mut tried = Vec::new();
    for project in projects {
        let Some(commands) = trial::commands(&settings, project).filter(|_| !args.no_try) else {
            continue;
        };
        let (branch, name) = (&project.default_branch, &project.project_id);
        ctx.out.note(format!(
            "running {commands} once on {branch} of {name} (--no-try skips this)"
        ))?;
        tried.push(trial::run(&settings, project, commands)?);
    }
    Ok(tried)
}

/// Settings that were neither given nor found.
fn not_found(
    args: &InitArgs,
    project: &ProjectChoice,
    choices: &Choices,
    file: &Path,
) -> Vec<String> {
    let (name, file) = (&project.name, file.display());
    let mut notes = Vec::new();
    // A detected ecosystem may not need a set-up.
    if args.setup.is_none() && project.found.is_none() {
        notes.push(format!(
            "no set-up detected for {name}: set `setup` in {file} if a fresh checkout needs one"
        ));
    }
    if args.gates.is_empty() && project.gates.is_empty() && choices.gates.is_empty() {
        notes
            .push(format!("no tests detected for {name}: set `gates` in {file} to the commands that must pass before a fix is pushed"));
    }
    notes
}

/// Tools of other languages, which do not fit into a single set-up command.
fn not_used(project: &ProjectChoice) -> Vec<String> {
    let others = project.found.iter().flat_map(|found| &found.others);
    let note = |(tool, file): &(&str, String)| {
        format!(
            "{} also uses {tool} ({file}): add it to `setup` and `gates` if needed",
            project.name
        )
    };
    others.map(note).collect()
}

fn tell_written(
    ctx: &mut CommandContext,
    file: &Path,
    backup: Option<&Path>,
    projects: &[Project],
) -> Result<()> {
    ctx.out.line(
        Line::new()
            .piece(TextStyle::Good, "wrote")
            .plain(format!(" {}", file.display())),
    )?;
    if let Some(backup) = backup {
        ctx.out.line(format!(
            "the previous file was saved as {}",
            backup.display()
        ))?;
    }
    projects
        .iter()
        .try_for_each(|project| project::say(project, ctx))
}

fn print(ctx: &mut CommandContext, report: &InitReport<'_>, next: &[(String, &str)]) -> Result<()> {
    let (tried, projects) = (report.tried, report.projects);
    tried
        .iter()
        .try_for_each(|tried| tried.show(&mut ctx.out))?;
    if projects.iter().any(|project| project.repo.is_some()) {
        let login = wait(detect::login(ctx.settings()?.github()))?;
        ctx.out.line(login)?;
    }
    ctx.out.blank()?;
    ctx.out.line("Next:")?;
    let wide = next.iter().map(|(command, _)| command.len()).max();
    let wide = wide.unwrap_or(0);
    for (command, what) in next {
        let line = Line::new().plain("  ").command(format!("{command:<wide$}"));
        ctx.out.line(line.faint(format!("   {what}")))?;
    }
    Ok(())
}

/// First commands to type.
fn next(projects: &[Project], choices: &Choices) -> Vec<(String, &'static str)> {
    let repo = projects.iter().find_map(|project| project.repo.as_ref());
    let watch = |repo: &String| format!("remand watch {repo}#NUMBER");
    let review = "remand review".to_owned();
    let begin = match (repo, choices.shadow) {
        (Some(repo), true) => (watch(repo), "review a PR in shadow mode"),
        (Some(repo), false) => (watch(repo), "review and fix a PR until it passes"),
        (None, _) if projects.is_empty() => {
            ("remand project add PATH".to_owned(), "add a repository")
        }
        (None, true) => (review, "in a worktree: review its work in shadow mode"),
        (None, false) => (review, "in a worktree: review and fix its work"),
    };
    let run = match choices.shadow {
        true => "start the daemon; in shadow mode, agents only review",
        false => "start the daemon",
    };
    let doctor = "check what is still missing";
    let mut next = vec![
        ("remand doctor".to_owned(), doctor),
        begin,
        ("remand run".to_owned(), run),
    ];
    if choices.shadow {
        next.push((
            "remand stats --shadow".to_owned(),
            "show a summary of the results",
        ));
    }
    next
}
