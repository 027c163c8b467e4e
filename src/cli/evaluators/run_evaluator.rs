//! `remand evaluators run`: one pass of one evaluator, for real or as a dry run.

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::blackboard::{self as bb, SyncDb};
use crate::cli::evaluators::no_such;
use crate::cli::frame::{CommandContext, CommandError, ExitCode, Line, refuse_agents, wait};
use crate::clock;
use crate::config::Loaded;
use crate::evaluator::{Config, Definition};
use crate::explain::{stop_command, stop_sentence};
use crate::heartbeat::{self, Beat, command};
use crate::process::ProcessId;
use crate::{daemon, wake};

/// Maximum number of events of one pass that are shown.
const MOST_EVENTS: i64 = 1_000;

/// Run one evaluator now, regardless of its schedule
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  remand evaluators run old_prs --dry-run")]
pub(crate) struct RunArgs {
    /// Name of the evaluator: its file name without `.toml`
    #[arg(value_name = "NAME")]
    name: String,

    /// Show what it would do, without writing anything
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(
    args: &RunArgs,
    settings: &Loaded,
    all: &[Definition],
    ctx: &mut CommandContext,
) -> Result<ExitCode> {
    let Some(definition) = all.iter().find(|definition| definition.name == args.name) else {
        return no_such(&args.name, all.iter().map(|one| one.name.as_str())).fail();
    };
    if !args.dry_run {
        refuse_agents()?;
    }
    if !args.dry_run && matches!(definition.config, Config::Command(_)) {
        let stops = ctx.read(bb::stops)?;
        if let Some(stop) = stops.iter().find(|stop| stop.project_id.is_none()) {
            return CommandError::needs_person(format!(
                "{}: programs cannot be started",
                stop_sentence(stop)
            ))
            .fail_with_hint(format!(
                "`{}` lifts the stop; --dry-run works despite it",
                stop_command(stop)
            ));
        }
    }
    let mut board = if args.dry_run && settings.blackboard.exists() {
        SyncDb::copy_of(&settings.blackboard, ctx.now)?
    } else {
        ctx.board()?
    };
    let before = board.read(bb::newest_event)?;
    let (beat, trouble) = pass(&mut board, definition, settings)?;
    let events = board.read(|conn| bb::events_since(conn, before, MOST_EVENTS))?;
    if !args.dry_run && !board.is_nowhere() {
        wake::poke(board.path());
    }
    if let Some(reason) = trouble {
        let fail = CommandError::new(format!(
            "evaluator {} failed, and its output was discarded: {reason}",
            definition.name
        ));
        return fail.fail_with_hint("docs/evaluators.md describes its input and its output");
    }
    let value = json!({
        "evaluator": definition.name,
        "dry_run": args.dry_run,
        "taken_in": beat.taken_in,
        "applied": beat.applied,
        "events": events,
    });
    ctx.show(&value, |ctx, _| {
        if events.is_empty() {
            ctx.out
                .line(format!("{} proposes nothing new", definition.name))?;
        }
        for event in &events {
            let about = format!("  {} {}  ", event.target_type, event.target_id);
            let line = Line::new().strong(event.event_type).faint(about);
            ctx.out.line(line.plain(&event.summary))?;
        }
        if args.dry_run {
            ctx.out.note("dry run: nothing was written")?;
        }
        Ok(())
    })
}

fn pass(
    board: &mut SyncDb,
    definition: &Definition,
    settings: &Loaded,
) -> Result<(Beat, Option<String>)> {
    let Config::Command(program) = &definition.config else {
        let one = std::slice::from_ref(definition);
        return Ok((
            board.write("heartbeat", |conn| heartbeat::beat(conn, one, clock::now()))?,
            None,
        ));
    };
    let kit = daemon::kit(
        settings,
        ProcessId::own()?.to_string(),
        std::env::current_exe()?,
    );
    wait(kit.end_left())?;
    let view = board.read(|conn| command::look(conn, definition, clock::now()))?;
    let printed = wait(command::ask(program, &view, &kit))?;
    let seen = (&view, &printed);
    let beat = board.write("evaluator", |conn| {
        command::settle(conn, definition, seen, &kit, clock::now())
    })?;
    Ok((beat, printed.err()))
}
