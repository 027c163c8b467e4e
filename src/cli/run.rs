//! `remand run`, `tick` and `work`: where the loops are started from.

use anyhow::Result;
use clap::Args;

use super::{service, stop};
use crate::blackboard as bb;
use crate::cli::frame::context::CommandContext;
use crate::cli::frame::error::{self, CommandError, ExitCode};
use crate::cli::frame::logging;
use crate::cli::frame::ui::Line;
use crate::config::{self, Loaded};
use crate::daemon::{self, AlreadyRunning, Files, Front};

/// Run the daemon: it reads pull requests, has rejected work fixed and reviewed again, until it is stopped
///
/// Prints one line on stdout when it is ready, and its log on stderr. SIGTERM or Ctrl-C stops it: agents at work get
/// `dispatch.stop_grace_s` to finish, then they are ended and their items go back, without a failure being counted.
/// A second signal stops at once. One daemon a blackboard; every other command is safe beside it.
///
/// It notices changed settings, evaluators and prompts, and loads what is valid and has been stable for 2 seconds. What
/// drops a safeguard waits for `remand reload` or SIGHUP. Agents at work are left alone; their gates and their push use
/// the new settings, and nothing is pushed while a changed file is not in force. If a file is invalid, the log and
/// `remand status` say where, and the old settings stay in force. Where the blackboard is, the log and
/// `heartbeat.look_s` only change with a restart. Under systemd it says when it is ready, and that it still works.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {}

/// Look once, at pull requests too, run what is due until nothing is left, and end (for cron and scripts)
#[derive(Debug, Args)]
pub(crate) struct TickArgs {}

/// Run what is queued, in the foreground, and end; nothing is read, and nothing new made from rejections
#[derive(Debug, Args)]
pub(crate) struct WorkArgs {}

pub(crate) fn run(_args: &RunArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let settings = ctx.settings()?;
    logging::begin(&settings.config.log, ctx.verbose, logging::Talk::Log);
    let missing = missing(&settings, ctx)?;
    let (place, out) = (ctx.place().clone(), &mut ctx.out);
    let ready = || {
        let pid = std::process::id();
        let said = if out.is_json() {
            out.json_line(&serde_json::json!({ "ready": true, "pid": pid, "blackboard": settings.blackboard }))
        } else {
            let line = format!(
                "remand is ready: pid {pid}, blackboard {}",
                settings.blackboard.display()
            );
            out.line(Line::from(line))
        };
        if let Err(error) = said {
            tracing::warn!(error = ?error, "nobody reads the ready line");
        }
    };
    let load = || Ok(config::load(&place)?);
    for what in missing {
        tracing::warn!("{what}");
    }
    let files = Files {
        load: Box::new(load),
        words: error::words,
    };
    let write_remedy = service::write_remedy(&settings.blackboard);
    let front = Front {
        ready: Box::new(ready),
        write_remedy,
        files,
    };
    match daemon::serve(settings.clone(), front) {
        Ok(()) => Ok(ExitCode::Done),
        Err(error) => match error.downcast::<AlreadyRunning>() {
            Ok(running) => Err(CommandError::needs_person(running.to_string())
                .hint(
                    "one daemon a blackboard; the other commands work beside it, `remand tick` too",
                )
                .into()),
            Err(error) => Err(error),
        },
    }
}

/// What a daemon lacks that would have nothing to do for ever.
fn missing(settings: &Loaded, ctx: &CommandContext) -> Result<Vec<String>> {
    let projects = match ctx.board_there(settings)? {
        Some(mut board) => board.read(bb::list_projects)?,
        None => Vec::new(),
    };
    let mut missing = Vec::new();
    if projects.is_empty() {
        missing.push(
            "no project is known, so nothing will happen: `remand project add PATH` adds one"
                .to_owned(),
        );
    }
    let lacks = |project: &str| settings.project(project).agent.is_none();
    let without: Vec<&str> = projects
        .iter()
        .map(|known| known.project_id.as_str())
        .filter(|id| lacks(id))
        .collect();
    if !without.is_empty() || (projects.is_empty() && lacks("")) {
        let file = settings
            .file
            .clone()
            .or_else(config::usual_file)
            .unwrap_or_default();
        let of = if without.is_empty() {
            String::new()
        } else {
            format!(" for {}", without.join(", "))
        };
        missing.push(format!(
            "no agent is set{of}: set `agent` and [agents.NAME] in {}",
            file.display()
        ));
    }
    Ok(missing)
}

pub(crate) fn tick(_args: &TickArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let settings = ctx.settings()?;
    logging::begin(&settings.config.log, ctx.verbose, logging::Talk::Warnings);
    let done = daemon::tick(&settings)?;
    told(ctx, done)
}

pub(crate) fn work(_args: &WorkArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let settings = ctx.settings()?;
    logging::begin(&settings.config.log, ctx.verbose, logging::Talk::Warnings);
    let done = daemon::work(&settings)?;
    told(ctx, done)
}

fn told(ctx: &mut CommandContext, done: daemon::Done) -> Result<ExitCode> {
    if ctx.out.is_json() {
        ctx.out
            .json(&serde_json::json!({ "applied": done.applied, "ran": done.ran }))?;
    } else {
        ctx.out.line(format!(
            "{} carried out, {} run",
            many(done.applied, "proposal"),
            many(done.ran, "item")
        ))?;
        stop::banner(ctx)?;
    }
    Ok(ExitCode::Done)
}

fn many(n: usize, what: &str) -> String {
    if n == 1 {
        format!("1 {what}")
    } else {
        format!("{n} {what}s")
    }
}
