//! `remand run`, `tick` and `work`: start the loops.

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::project::how_to_set_agent;
use super::{narration, service, stop};
use crate::blackboard as bb;
use crate::cli::frame::{
    CommandContext, CommandError, ExitCode, Format, Line, TextStyle, Ui, error, found, logging,
};
use crate::cli::view::print_change::style_of;
use crate::config::{self, Loaded};
use crate::daemon::{self, AlreadyRunning, Files, Followed, Front};
use crate::explain::ChangeView;
use crate::text::{count, list, prefixed};
use crate::wake::Watch;
use crate::work::LoopStep;

/// Maximum time between two checks for new events.
const LOOK: Duration = Duration::from_secs(1);

/// Run the daemon that reviews and fixes changes
///
/// Prints one line on stdout when it is ready. On a terminal, it then prints one line per step on stdout and only
/// warnings on stderr; -v adds the log. Otherwise, and with --json, it logs to stderr.
///
/// SIGTERM or Ctrl-C stops it: running agents get `dispatch.stop_grace_s` seconds to finish. Then they are ended and
/// their items are requeued, without counting a failure. A second signal stops it immediately. There can be only one daemon
/// per blackboard; all other commands can be used while it is running.
///
/// It loads changed settings, evaluators and prompts automatically if they are valid and have been stable for 2 seconds.
/// A file that removes a safeguard needs `remand reload` or SIGHUP. Running agents are not interrupted; their gates and
/// pushes use the new settings. Nothing is pushed while a changed file is not in effect. If a file is invalid, the old
/// settings remain in effect, and the log and `remand status` show the error. The path of the blackboard, the log settings
/// and `heartbeat.look_s` take effect only after a restart. Under systemd, it supports readiness notification and the watchdog.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {}

/// Do all work that is due, then exit (for cron and scripts)
///
/// Reads pull requests once, then runs items until none is due. The exit code is 5 if a change that it worked on is then
/// held or needs a person.
#[derive(Debug, Args)]
pub(crate) struct TickArgs {}

/// Run the queued items in the foreground, then exit
///
/// Does not read pull requests, and does not turn new rejections into fixes. The exit code is 5 if a change that it
/// worked on is then held or needs a person.
#[derive(Debug, Args)]
pub(crate) struct WorkArgs {}

pub(crate) fn run(_args: &RunArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let settings = ctx.settings()?;
    let is_watched = ctx.out.is_watched();
    let talk = if is_watched {
        logging::Talk::Narrated
    } else {
        logging::Talk::Log
    };
    logging::begin(&settings.config.log, ctx.verbose, talk);
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
            tracing::warn!(error = ?error, "cannot print the ready line");
        }
    };
    let load = || Ok(config::load(&place)?);
    for what in missing {
        tracing::warn!("{what}");
    }
    let front = Front {
        ready: Box::new(ready),
        follow: match is_watched {
            true => |followed| Box::pin(narrate(followed)),
            false => |followed| Box::pin(log_stop(followed)),
        },
        write_remedy: service::write_remedy(&settings.blackboard),
        files: Files {
            load: Box::new(load),
            words: error::words,
        },
    };
    match daemon::serve(settings.clone(), front) {
        Ok(()) => Ok(ExitCode::Done),
        Err(error) => match error.downcast::<AlreadyRunning>() {
            Ok(running) => CommandError::needs_person(running.to_string())
                .fail_with_hint(
                    "there can be only one daemon per blackboard; all other commands, including `remand tick`, work while it runs",
                ),
            Err(error) => Err(error),
        },
    }
}

/// Prints the events of the blackboard until the daemon has ended.
async fn narrate(followed: Followed) {
    let mut out = Ui::new(Format::Text);
    if let Err(error) = narrate_to(&mut out, &followed).await {
        tracing::warn!(error = ?error, "cannot print events");
    }
}

async fn narrate_to(out: &mut Ui, followed: &Followed) -> Result<()> {
    let mut watch = Watch::new(followed.db.path(), LOOK);
    let mut seen = followed.db.read(bb::newest_event).await?;
    let mut is_stopping = false;
    loop {
        let has_ended = tokio::select! {
            () = watch.next() => false,
            () = followed.stop.cancelled(), if !is_stopping => {
                is_stopping = true;
                let waits = followed.db.read(waits_for).await?;
                let line = stopping(&waits, followed.grace_s());
                tokio::task::block_in_place(|| {
                    out.return_to_left()?;
                    out.hanging(Line::new(), 2, TextStyle::Strong, &line)
                })?;
                false
            }
            () = followed.ended.cancelled() => true,
        };
        let read = move |conn: &bb::Conn| narration::read(conn, seen);
        let (steps, newest) = followed.db.read(read).await?;
        seen = newest;
        tokio::task::block_in_place(|| {
            let mut steps = steps.iter();
            steps.try_for_each(|step| step.print(out, &step.at.local_time()))
        })?;
        if has_ended {
            return Ok(());
        }
    }
}

/// Logs what the daemon waits for when it is asked to stop.
async fn log_stop(followed: Followed) {
    tokio::select! {
        () = followed.stop.cancelled() => {}
        () = followed.ended.cancelled() => return,
    }
    match followed.db.read(waits_for).await {
        Ok(waits) if waits.is_empty() => {}
        Ok(waits) => tracing::info!("{}", stopping(&waits, followed.grace_s())),
        Err(error) => tracing::warn!(error = ?error, "cannot read the running items"),
    }
}

/// Describes the current runs: `r3 (claude, fix of c2)`.
pub(crate) fn waits_for(conn: &bb::Conn) -> bb::Result<Vec<String>> {
    let runs = bb::open_runs(conn)?.into_iter().map(|run| {
        let work = match bb::item(conn, &run.item_id)?.step() {
            Some(LoopStep::Implement) => "implementation",
            Some(LoopStep::Fix) => "fix",
            Some(LoopStep::Review) => "review",
            Some(LoopStep::OpenPull) | None => "run",
        };
        let (id, agent, change) = (&run.run_id, &run.agent, &run.change_id);
        Ok(format!("{id} ({agent}, {work} of {change})"))
    });
    runs.collect()
}

fn stopping(waits: &[String], grace_s: u64) -> String {
    if waits.is_empty() {
        return "stopping".to_owned();
    }
    let waits = list(waits);
    format!(
        "stopping: waiting up to {grace_s} s for {waits}; press Ctrl-C again to stop immediately"
    )
}

/// Lists missing settings or projects without which the daemon would never have anything to do.
fn missing(settings: &Loaded, ctx: &CommandContext) -> Result<Vec<String>> {
    let projects = ctx.read_there(settings, bb::list_projects)?;
    let mut missing = Vec::new();
    if projects.is_empty() {
        let what = "there are no projects, so there is nothing to do: add one with `remand project add PATH`";
        missing.push(what.to_owned());
    }
    let lacks = |project: &str| settings.project(project).agent.is_none();
    let without: Vec<&str> = projects
        .iter()
        .map(|known| known.project_id.as_str())
        .filter(|id| lacks(id))
        .collect();
    if !without.is_empty() || (projects.is_empty() && lacks("")) {
        let names = Some(without.join(", ")).filter(|names| !names.is_empty());
        let (of, set) = (prefixed(" for ", names), how_to_set_agent(settings));
        missing.push(format!("no agent is set{of}: {set}"));
    }
    Ok(missing)
}

pub(crate) fn tick(_args: &TickArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let settings = ctx.settings()?;
    logging::begin(&settings.config.log, ctx.verbose, logging::Talk::Warnings);
    told(ctx, &daemon::tick(&settings)?)
}

pub(crate) fn work(_args: &WorkArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let settings = ctx.settings()?;
    logging::begin(&settings.config.log, ctx.verbose, logging::Talk::Warnings);
    told(ctx, &daemon::work(&settings)?)
}

fn told(ctx: &mut CommandContext, done: &daemon::Done) -> Result<ExitCode> {
    let around = ctx.around()?;
    let waiting = ctx.read(|conn| {
        let changes = done.changes.iter();
        let views = changes.map(|id| found(ChangeView::of(conn, id, around)));
        let views = views.collect::<bb::Result<Vec<_>>>()?.into_iter().flatten();
        Ok(views
            .filter(|view| view.why.because.needs_person())
            .collect::<Vec<_>>())
    })?;
    let ids: Vec<_> = waiting
        .iter()
        .map(|view| view.change().change_id.clone())
        .collect();
    let value = serde_json::json!({ "applied": done.applied, "ran": done.ran, "needs_you": ids });
    ctx.show(&value, |ctx, _| {
        let (applied, ran) = (count(done.applied, "proposal"), count(done.ran, "item"));
        ctx.out.line(format!("applied {applied}, ran {ran}"))?;
        for view in &waiting {
            let head = Line::new().strong(&view.change().change_id).plain(" ");
            let style = style_of(view.why.because);
            ctx.out.hanging(head, 2, style, &view.why.short)?;
        }
        stop::banner(ctx)
    })?;
    Ok(match waiting.is_empty() {
        true => ExitCode::Done,
        false => ExitCode::NeedsPerson,
    })
}
