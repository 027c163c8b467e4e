//! `remand add`: a change from a task.

use std::path::Path;

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::wait::{self, Waiting};
use crate::blackboard::{self as bb, NewChange, NewTask, Project};
use crate::change::{Bounds, ChangeId, ReviewRules, ReviewStage, State};
use crate::cli::frame::pr_ref::project_here;
use crate::cli::frame::{
    CommandContext, CommandError, ExitCode, read_text, refuse_agents, wait as wait_for,
};
use crate::cli::view::print_change::told;
use crate::config::Loaded;
use crate::daemon;
use crate::evaluator::definition::max_fix_cycles;
use crate::project_settings::ProjectSettings;
use crate::sanitize;
use crate::task::TaskRow;
use crate::work::Priority;

pub(crate) mod branch;
pub(crate) mod issue;
pub(crate) mod spec;

use branch::{Chosen, Wanted};

/// Maximum number of characters of a title.
const TITLE_CHARS: usize = 200;

/// Number of times that a branch is chosen if other tasks take it at the same time.
const TRIES: u32 = 100;

/// Maximum number of bytes of a description, and of a specification.
const TEXT_BYTES: usize = 1_000_000;

/// Implement a task on a new branch, and open its pull request
#[derive(Debug, Args)]
#[command(
    after_help = "An agent implements the task in a worktree of its own. With -a, remand then reviews and fixes the result, runs \
the gates, opens the pull request and watches it; without it, each review and each fix waits for `remand review` or \
`remand refine`. `remand run` or `remand tick` does the work; --wait follows it, and does it itself if no daemon is running.\n\n\
Defaults are in [implement] and [projects.NAME.implement] of the settings.\n\n\
Examples:\n  remand add 'Detect leap years' -a --wait\n  \
remand add 'Add a login page' -a --spec .specify/specs/001-login --draft\n  \
remand add 'Fix the crash on empty input' --issue 42 -a\n  \
git log -1 --format=%b | remand add 'Port the retry policy' --body - --after c3"
)]
pub(crate) struct AddArgs {
    /// Title: the task in one line
    #[arg(value_name = "TITLE")]
    title: String,

    /// Project [default: that of the current directory, or the only one]
    #[arg(long, value_name = "NAME")]
    project: Option<String>,

    /// Type of task
    #[arg(short = 't', long = "type", value_enum, default_value_t = TaskType::Implement)]
    task_type: TaskType,

    /// Description: text, or - for stdin
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    body: Option<String>,

    /// File or directory that describes the task; its present contents are given to the agents
    #[arg(long, value_name = "PATH")]
    spec: Option<std::path::PathBuf>,

    /// Issue that describes the task; its present text is given to the agents
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    issue: Option<i64>,

    /// Review and fix the result without waiting for a person
    #[arg(short = 'a', long)]
    auto_review: bool,

    /// Do not review it with an agent
    #[arg(long, conflicts_with = "auto_review")]
    no_review: bool,

    /// Maximum number of fixes per round, 0 to 100 [default: as configured]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..=100))]
    max_cycles: Option<i64>,

    /// Agent that implements and fixes [default: as configured]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,

    /// Agent that reviews [default: as configured]
    #[arg(long, value_name = "NAME")]
    review_agent: Option<String>,

    /// Model of the agent that implements [default: as configured]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,

    /// Priority: P1, P2 or P3 [default: as configured]
    #[arg(long, value_name = "P", value_parser = |text: &str| text.parse::<Priority>())]
    priority: Option<Priority>,

    /// Start only when this change is merged
    #[arg(long, value_name = "CHANGE")]
    after: Option<String>,

    /// Branch that the work is merged into [default: that of the project]
    #[arg(long, value_name = "B")]
    base: Option<String>,

    /// Branch to work on; an existing one is continued [default: made from the title]
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    branch: Option<String>,

    /// Open the pull request as a draft
    #[arg(long, conflicts_with = "local")]
    draft: bool,

    /// Open no pull request: end with a branch that is ready
    #[arg(long)]
    local: bool,

    /// Wait until it is ready or needs a person, and print each step
    #[arg(long)]
    wait: bool,
}

/// Types of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TaskType {
    Implement,
}

pub(crate) fn add(args: &AddArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    refuse_agents()?;
    let TaskType::Implement = args.task_type;
    let title = title(&args.title)?;
    let body = body(args.body.as_deref())?;
    let settings = ctx.settings()?;
    let project = project(args.project.as_deref(), ctx)?;
    let rules = settings.project(project.project_id.as_str());
    check_agents(
        &settings,
        &rules,
        args.agent.as_deref(),
        args.review_agent.as_deref(),
    )?;
    let after = match &args.after {
        Some(after) => Some(ctx.change(after)?.change_id),
        None => None,
    };
    let spec = match &args.spec {
        Some(path) => Some(spec::read(path, Path::new(&project.path))?),
        None => None,
    };
    let issue = match args.issue {
        Some(number) => Some(issue::read(number, &project, &settings)?),
        None => None,
    };
    let has_remote = project.repo.is_some() && project.remote_url.is_some();
    let opens_pr = rules.implement.open_pr && !args.local && has_remote;
    let wanted = Wanted {
        title: &title,
        named: args.branch.as_deref(),
        base: args.base.as_deref().unwrap_or(&project.default_branch),
        rules: &rules,
        project: &project,
        own: None,
    };
    let task = TaskRow {
        text: body,
        spec,
        issue,
        agent: args.agent.clone(),
        review_agent: args.review_agent.clone(),
        model: args.model.clone(),
        draft: args.draft || rules.implement.draft,
    };
    let evaluators = ctx.evaluators(&settings)?;
    let most_fixes =
        settings.max_fix_cycles(project.project_id.as_str(), max_fix_cycles(&evaluators));
    let stage = match rules.review.stage {
        _ if args.no_review => ReviewStage::Off,
        // There is no pull request to review it on.
        ReviewStage::OnPr if !opens_pr => ReviewStage::BeforePr,
        stage @ (ReviewStage::BeforePr | ReviewStage::OnPr | ReviewStage::Off) => stage,
    };
    let new = |branch: &Chosen, actor: &str| NewTask {
        change: NewChange {
            project_id: project.project_id.clone(),
            title: title.clone(),
            branch: branch.name.clone(),
            base: wanted.base.to_owned(),
            head: branch.head.clone(),
            worktree: branch.worktree.clone(),
            host: daemon::host(),
            state: State::Queued,
            bounds: Bounds {
                max_fix_cycles: most_fixes.most,
                ..rules.bounds
            },
            review: ReviewRules {
                stage,
                ..rules.review
            },
            own_max_fix_cycles: args.max_cycles,
            shadow: None,
            actor: actor.to_owned(),
        },
        task: task.clone(),
        priority: args.priority.unwrap_or(rules.implement.priority),
        own_worktree: branch.is_own,
        auto_review: args.auto_review || rules.implement.auto_review || stage == ReviewStage::Off,
        opens_pr,
        after: after.clone(),
    };
    let git = ctx.git(&settings);
    let mut tries = TRIES;
    let (id, branch) = loop {
        let branch = wait_for(branch::choose(&git, &wanted, ctx))??;
        tries -= 1;
        let may_choose_again = wanted.named.is_none() && tries > 0;
        let added = ctx.write("add_task", |conn, step| {
            // Another task may have taken the name since it was chosen.
            if may_choose_again && branch.is_taken(conn, &project)? {
                return Ok(None);
            }
            let new = new(&branch, &step.actor);
            Ok(Some(bb::add_task(conn, &new, step.now)?.change_id))
        })?;
        if let Some(id) = added {
            break (id, branch);
        }
    };
    if !opens_pr && rules.implement.open_pr && !args.local {
        let name = &project.project_id;
        let what = format!(
            "note: {name} has no repository on GitHub, so no pull request will be opened; `remand project add PATH --repo OWNER/NAME --url URL` sets one"
        );
        ctx.out.note(what)?;
    }
    finish(args, ctx, &id, &branch.name)
}

fn finish(
    args: &AddArgs,
    ctx: &mut CommandContext,
    id: &ChangeId,
    branch: &str,
) -> Result<ExitCode> {
    if args.wait {
        return wait::follow(ctx, &Waiting::of([id.clone()]));
    }
    told(ctx, id, &format!("will be implemented on {branch}"))
}

/// Checks a title, and removes what a terminal would interpret.
pub(crate) fn title(text: &str) -> Result<String> {
    let title = text.trim();
    if title.is_empty() {
        return CommandError::usage("the title is empty")
            .fail_with_hint("describe the task in one line");
    }
    let length = title.chars().count();
    if length > TITLE_CHARS {
        let what = format!("the title has {length} characters; the maximum is {TITLE_CHARS}");
        return CommandError::usage(what).fail_with_hint("put the details into --body or --spec");
    }
    if title.chars().any(char::is_control) {
        let what = "the title contains a line break or a control character";
        return CommandError::usage(what).fail_with_hint("put the details into --body or --spec");
    }
    Ok(sanitize::block(title))
}

pub(crate) fn body(given: Option<&str>) -> Result<String> {
    let text = match given {
        Some("-") => read_text(Path::new("-"))?,
        Some(text) => text.to_owned(),
        None => return Ok(String::new()),
    };
    if text.len() > TEXT_BYTES {
        let what = format!(
            "the description has {} bytes; the maximum is {TEXT_BYTES}",
            text.len()
        );
        return CommandError::usage(what).fail();
    }
    if text.contains('\0') {
        return CommandError::usage("the description is not text: it contains a NUL byte").fail();
    }
    Ok(text)
}

/// Returns the named project, that of the current directory, or the only one.
fn project(name: Option<&str>, ctx: &CommandContext) -> Result<Project> {
    let mut all = ctx.read(bb::list_projects)?;
    if let Some(name) = name {
        let known: Vec<String> = all.iter().map(|one| one.project_id.to_string()).collect();
        let found = all.into_iter().find(|one| one.project_id.as_str() == name);
        return found.ok_or_else(|| {
            let what = format!("no such project: `{name}`");
            let hint = match known.as_slice() {
                [] => "add it with `remand project add PATH`".to_owned(),
                known => format!("known projects: {}", known.join(", ")),
            };
            CommandError::not_found(what).hint(hint).into()
        });
    }
    if let Some(here) = project_here(ctx)? {
        return Ok(here);
    }
    match all.len() {
        1 => Ok(all.remove(0)),
        0 => CommandError::not_found("there are no projects yet")
            .fail_with_hint("add the repository with `remand project add PATH`"),
        _ => {
            let names: Vec<String> = all.iter().map(|one| one.project_id.to_string()).collect();
            CommandError::usage("cannot tell which project the task belongs to")
                .fail_with_hint(format!("use --project with one of: {}", names.join(", ")))
        }
    }
}

/// Checks that the agents exist: otherwise the task would only wait.
pub(crate) fn check_agents(
    settings: &Loaded,
    rules: &ProjectSettings,
    agent: Option<&str>,
    review_agent: Option<&str>,
) -> Result<()> {
    let mut chosen = rules.clone();
    chosen.choose_agents(agent, review_agent);
    for (name, option) in [(agent, "--agent"), (review_agent, "--review-agent")] {
        let Some(name) = name else { continue };
        if settings.agent(name).is_none() {
            let known: Vec<&str> = settings.config.agents.keys().map(String::as_str).collect();
            let hint = match known.as_slice() {
                [] => "there are none: add [agents.NAME] to the settings, or run `remand init`"
                    .to_owned(),
                known => format!("configured agents: {}", known.join(", ")),
            };
            return CommandError::not_found(format!("{option}: no agent is named `{name}`"))
                .fail_with_hint(hint);
        }
    }
    if chosen.agent.is_none() {
        let what = "no agent is configured that could implement the task";
        let hint = super::project::how_to_set_agent(settings);
        return CommandError::config(what).fail_with_hint(format!("{hint}, or run `remand init`"));
    }
    Ok(())
}
