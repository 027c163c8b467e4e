//! `remand watch`: takes over an existing pull request.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::project::say_who_works;
use super::shadow;
use crate::blackboard as bb;
use crate::change::AdoptedBy;
use crate::cli::frame::{CommandContext, CommandError, ExitCode, PrRef, refuse_agents, wait};
use crate::cli::view::print_change::told_progress;
use crate::explain::pr_name;
use crate::intake::Ask;
use crate::{config, daemon, wake};

/// Take over a pull request: review and fix it until it passes
#[derive(Debug, Args)]
#[command(
    after_help = "The pull request is read with `gh` once a minute, unless the evaluator `pr_feedback` sets another schedule. \
People with write permission can request changes. If a worktree is on the PR's branch, remand works there, but never in the main \
checkout; otherwise it creates one with a detached HEAD. Fixes are pushed to the branch; reviews and replies are posted on \
the PR. Pull requests that are merged, closed or from a fork are refused. The exit code is 5 if the change is held or \
needs a person.\n\n\
With [projects.NAME.discover] in the settings, pull requests are taken over automatically.\n\n\
Examples:\n  remand watch ada/engine#42\n  remand watch https://github.com/ada/engine/pull/42\n  \
remand watch 42 --max-cycles 3      a PR of the current project"
)]
pub(crate) struct WatchArgs {
    /// Pull request: owner/repo#42, its URL, or 42 in a checkout of the project
    #[arg(value_name = "PR")]
    pull: String,

    /// Worktree to work in; must be on the PR's branch [default: an existing one, or a new one]
    #[arg(long, value_name = "PATH")]
    worktree: Option<PathBuf>,

    /// Maximum number of fixes per round, 0 to 100 [default: as configured]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..=100))]
    max_cycles: Option<i64>,

    /// Title of the change [default: that of the PR]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// Start in shadow mode: show what would be done, until `remand shadow CHANGE off`
    #[arg(long)]
    shadow: bool,
}

pub(crate) fn watch(args: &WatchArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    refuse_agents()?;
    let Some(name) = PrRef::parse(&args.pull).or_else(|| PrRef::bare(&args.pull)) else {
        let what = format!("`{}` is not a pull request", args.pull);
        let hint =
            "use owner/repo#42, an https://github.com URL, or 42 in a checkout of the project";
        return CommandError::usage(what).fail_with_hint(hint);
    };
    if args
        .title
        .as_ref()
        .is_some_and(|title| title.trim().is_empty())
    {
        return CommandError::usage("the title is empty").fail();
    }
    let settings = ctx.settings()?;
    let project = name.project(ctx)?;
    let in_force = ctx.read(|conn| bb::project_shadow(conn, &project.project_id))?;
    let ask = Ask {
        project: project.clone(),
        number: name.number,
        by: AdoptedBy::Watch,
        actor: config::user_name(),
        seen: None,
        worktree: args.worktree.clone(),
        max_fix_cycles: args.max_cycles,
        title: args.title.clone(),
        shadow: shadow::word(args.shadow, &settings, &project.project_id, in_force),
    };
    let intake = daemon::intake(&settings)?;
    let adopted = wait(intake.adopt(&ask))??;
    wake::poke(&settings.blackboard);
    say_who_works(&settings, project.project_id.as_str(), ctx)?;
    let name = pr_name(&project, name.number);
    let given = [
        ("--worktree", args.worktree.is_some()),
        ("--max-cycles", args.max_cycles.is_some()),
        ("--title", args.title.is_some()),
        ("--shadow", args.shadow),
    ];
    let unused: Vec<&str> = given
        .iter()
        .filter(|(_, is)| *is && !adopted.is_new)
        .map(|(name, _)| *name)
        .collect();
    if !unused.is_empty() {
        let id = &adopted.change.change_id;
        let what = format!(
            "{name} is already watched as {id}: cannot change {} with this command",
            unused.join(", ")
        );
        return CommandError::new(what)
            .fail_with_hint(format!(
                "`remand budget {id} --fixes +N` allows more fixes; `remand shadow {id} review` turns on shadow mode"
            ));
    }
    let what = if adopted.is_new {
        "now watched"
    } else {
        "already watched"
    };
    told_progress(
        ctx,
        &adopted.change.change_id,
        &format!("is {name}, which is {what}"),
    )
}
