//! `remand stop` and `remand start`: for everything, or for one project. The stop is recorded on
//! the blackboard and applies to every process that works on it, now and after a restart.

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::blackboard::{self as bb, Order, Stopped, SyncDb, UnderWay};
use crate::change::ProjectId;
use crate::cli::frame::{CommandContext, CommandError, ExitCode, Line, TextStyle, wait};
use crate::config::{self, ConfigLocation};
use crate::diagnostic::title;
use crate::explain::{stop_command, stop_sentence};
use crate::process::ProcessId;
use crate::text::list;

/// Interval between two checks for work in progress.
const LOOK: Duration = Duration::from_millis(200);

/// Stop all work, or the work on one project, until `remand start`
///
/// From then on, nothing is started, pushed or posted by `run`, `tick` or `work`, even after a restart; pull requests are
/// still read. A running agent is allowed to finish. Its work stays in the worktree; after `start`, it goes through the
/// gates, is pushed and is reviewed. The command waits until nothing is running.
#[derive(Debug, Args)]
#[command(
    after_help = "With --now, running agents, gates and set-ups are ended immediately. An agent's unfinished work is saved \
on refs/remand/wip/RUN, its worktree is reset, no attempt is counted, and the agent runs again after `start`.\n\n\
Ctrl-C ends only the wait; the stop remains in effect. To stop the daemon itself, send it SIGTERM.\n\n\
Examples:\n  remand stop --reason 'deploying'       everything\n  remand stop website --now              one project, immediately"
)]
pub(crate) struct StopArgs {
    /// Project [default: everything]
    #[arg(value_name = "PROJECT")]
    project: Option<String>,

    /// End running agents instead of letting them finish
    #[arg(long)]
    now: bool,

    /// Reason, recorded in the event log
    #[arg(long, value_name = "TEXT", visible_alias = "why")]
    reason: Option<String>,

    /// Do not wait for running work to end
    #[arg(long)]
    no_wait: bool,
}

/// Start work again after `remand stop`
#[derive(Debug, Args)]
#[command(
    after_help = "Without PROJECT, this lifts a stop that applies to everything. Projects that were stopped by name stay stopped, unless \
--all is given. A stop that applies to everything also stops projects that were started by name."
)]
pub(crate) struct StartArgs {
    /// Project [default: everything]
    #[arg(value_name = "PROJECT")]
    project: Option<String>,

    /// Lift all stops, including those of individual projects
    #[arg(long, conflicts_with = "project")]
    all: bool,
}

pub(crate) fn stop(args: &StopArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    whatever_the_settings_say(ctx)?;
    let project = known(ctx, args.project.as_deref())?;
    let order = Order {
        reason: args
            .reason
            .as_deref()
            .filter(|reason| !reason.trim().is_empty()),
        at_once: args.now,
    };
    let changed = ctx.write("stop", |conn, step| {
        bb::stop(conn, project.as_ref(), order, &step.actor, step.now)
    })?;
    let mut board = ctx.board()?;
    if !ctx.out.is_json() {
        let stops = board.read(bb::stops)?;
        let own = stops.iter().find(|stop| stop.project_id == project);
        let what = match (changed, own) {
            (false, Some(own)) => format!("nothing to do: {}", stop_sentence(own)),
            (_, own) => own.map(stop_sentence).unwrap_or_default(),
        };
        ctx.out.line(Line::new().piece(TextStyle::Notice, what))?;
    }
    let under_way = if args.no_wait {
        running(&mut board, project.as_ref())?
    } else {
        wait_out(ctx, board, project)?
    };
    if ctx.out.is_json() {
        return told(ctx, changed, &under_way);
    }
    ctx.out.line(match under_way.as_slice() {
        [] => "nothing is running".to_owned(),
        [..] => format!("still running: {}", named(&under_way)),
    })?;
    Ok(ExitCode::Done)
}

pub(crate) fn start(args: &StartArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    whatever_the_settings_say(ctx)?;
    let project = known(ctx, args.project.as_deref())?;
    let changed = ctx.write("start", |conn, step| {
        let mut changed = bb::start(conn, project.as_ref(), &step.actor, step.now)?;
        for stop in bb::stops(conn)?.iter().filter(|_| args.all) {
            changed |= bb::start(conn, stop.project_id.as_ref(), &step.actor, step.now)?;
        }
        Ok(changed)
    })?;
    if ctx.out.is_json() {
        return told(ctx, changed, &[]);
    }
    let stops = ctx.read(bb::stops)?;
    let what = project.as_ref().map_or("everything", ProjectId::as_str);
    let left: Vec<&Stopped> = stops
        .iter()
        .filter(|stop| project.is_none() || stop.project_id.is_none())
        .collect();
    let said = match (changed, left.is_empty()) {
        (true, true) => format!("{what} can run again"),
        (true, false) => "this stop has ended".to_owned(),
        (false, true) => match &project {
            Some(project) => format!("nothing to do: {project} is not stopped"),
            None => "nothing to do: nothing is stopped".to_owned(),
        },
        (false, false) => "nothing to do".to_owned(),
    };
    ctx.out.line(said)?;
    for stop in left {
        let line = Line::new().plain("but ");
        ctx.out
            .line(line.remedy(stop_sentence(stop), stop_command(stop)))?;
    }
    Ok(ExitCode::Done)
}

/// Ignores invalid settings: a stop needs only the blackboard, and a mistyped setting must not
/// prevent it.
pub(super) fn whatever_the_settings_say(ctx: &mut CommandContext) -> Result<()> {
    let Err(error) = ctx.settings() else {
        return Ok(());
    };
    let Some(board) = config::blackboard_despite(ctx.place()).filter(|board| board.exists()) else {
        return Err(error);
    };
    let why = error.to_string();
    let why = title(&why);
    ctx.out.note(format!(
        "warning: the configuration is invalid ({why}); using the blackboard {}",
        board.display()
    ))?;
    ctx.move_to(ConfigLocation {
        config: Some("/dev/null".into()),
        db: Some(board),
    });
    Ok(())
}

/// Prints the active stops, before or after the output of a command.
pub(crate) fn banner(ctx: &mut CommandContext) -> Result<()> {
    for stop in ctx.read(bb::stops)? {
        ctx.out
            .note(Line::new().remedy(stop_sentence(&stop), stop_command(&stop)))?;
    }
    Ok(())
}

/// Finds the named project, if one was named.
fn known(ctx: &CommandContext, name: Option<&str>) -> Result<Option<ProjectId>> {
    let Some(name) = name else {
        return Ok(None);
    };
    let projects = ctx.read(bb::list_projects)?;
    let ids = projects.into_iter().map(|project| project.project_id);
    let known: Vec<ProjectId> = ids.collect();
    if let Some(found) = known.iter().find(|id| id.as_str() == name) {
        return Ok(Some(found.clone()));
    }
    let hint = match known.as_slice() {
        [] => "there are no projects yet: `remand project add PATH`".to_owned(),
        [..] => format!("projects: {}", list(&known)),
    };
    CommandError::not_found(format!("no such project: `{name}`")).fail_with_hint(hint)
}

fn wait_out(
    ctx: &mut CommandContext,
    mut board: SyncDb,
    project: Option<ProjectId>,
) -> Result<Vec<UnderWay>> {
    wait(async move {
        let mut said = String::new();
        loop {
            let under_way = running(&mut board, project.as_ref())?;
            if under_way.is_empty() {
                return Ok(under_way);
            }
            let now = named(&under_way);
            if now != said {
                ctx.out.note(format!("waiting for {now}"))?;
                said = now;
            }
            tokio::time::sleep(LOOK).await;
        }
    })?
}

/// Returns work held by a process that is alive, or that this machine cannot check.
pub(crate) fn running(board: &mut SyncDb, project: Option<&ProjectId>) -> Result<Vec<UnderWay>> {
    let mut found = board.read(|conn| bb::under_way(conn, project))?;
    found.retain(|one| {
        let alive = one
            .holder
            .parse::<ProcessId>()
            .and_then(|process| process.is_alive());
        !matches!(alive, Ok(false))
    });
    Ok(found)
}

fn named(under_way: &[UnderWay]) -> String {
    let each = under_way.iter();
    list(each.map(|one| format!("{} of {}", one.what, one.change_id)))
}

fn told(ctx: &mut CommandContext, changed: bool, under_way: &[UnderWay]) -> Result<ExitCode> {
    let stops = ctx.read(bb::stops)?;
    ctx.out
        .json(&serde_json::json!({ "changed": changed, "stops": stops, "under_way": under_way }))?;
    Ok(ExitCode::Done)
}
