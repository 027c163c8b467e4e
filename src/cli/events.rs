//! `remand events`: the facts, as they were appended.

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::blackboard as bb;
use crate::change::ChangeId;
use crate::cli::frame::context::{CommandContext, id_or_dash, wait};
use crate::cli::frame::error::ExitCode;
use crate::cli::frame::ui::{Line, Table};
use crate::event::{Event, TargetType};
use crate::human_time::ago;
use crate::sanitize::cap;
use crate::wake::Watch;

/// How often a follower looks although nothing told it to.
const LOOK: Duration = Duration::from_secs(1);

/// Events that one look of a follower takes.
const PAGE: i64 = 500;

/// Show what happened, oldest first
#[derive(Debug, Args)]
#[command(
    after_help = "With --json every event is one line, also while following, which ends with Ctrl-C or when nobody reads it any more.\n\n\
Examples:\n  remand events --change c1\n  remand events -f --json | jq .summary"
)]
pub(crate) struct EventsArgs {
    /// Go on with what happens from now on, until you stop it
    #[arg(short, long)]
    follow: bool,

    /// Only those of a change: its id (c1), its branch, the path of its worktree, or its PR
    #[arg(long, value_name = "CHANGE")]
    change: Option<String>,

    /// Only those after the event ID
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(i64).range(0..))]
    since: Option<i64>,

    /// At most N of them: the newest, or with --since the first after it
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..))]
    limit: i64,
}

pub(crate) fn events(args: &EventsArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let change = args
        .change
        .as_deref()
        .map(|text| ctx.change(text))
        .transpose()?
        .map(|change| change.change_id);
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let events = ctx.read(|conn| match (&change, args.since) {
        (Some(id), None) => bb::events_of(conn, id, args.limit),
        (Some(id), Some(since)) => {
            let all = bb::events_of(conn, id, i64::MAX)?;
            Ok(all
                .into_iter()
                .filter(|event| event.id > since)
                .take(limit)
                .collect())
        }
        (None, Some(since)) => bb::events_since(conn, since, args.limit),
        (None, None) => bb::newest_events(conn, args.limit),
    })?;
    if args.follow {
        return follow(ctx, &events, args.since.unwrap_or(0), change.as_ref());
    }
    if ctx.out.is_json() {
        for event in &events {
            ctx.out.json_line(event)?;
        }
        return Ok(ExitCode::Done);
    }
    if events.is_empty() {
        ctx.out.note("no such event")?;
        return Ok(ExitCode::Done);
    }
    let mut table = Table::new(&["EVENT", "WHEN", "CHANGE", "TYPE", "BY", "WHAT"]);
    for event in &events {
        table.row([
            &event.id.to_string(),
            &ago(event.timestamp, ctx.now),
            id_or_dash(event.change_id.as_ref()),
            event.event_type.as_str(),
            &event.actor_id,
            &event.summary,
        ]);
    }
    ctx.out.table(&table)?;
    Ok(ExitCode::Done)
}

fn follow(
    ctx: &mut CommandContext,
    first: &[Event],
    since: i64,
    change: Option<&ChangeId>,
) -> Result<ExitCode> {
    let (settings, mut board) = (ctx.settings()?, ctx.board()?);
    // Whoever begins after an event that is not there yet wants what comes next.
    let newest = board.read(bb::newest_event)?;
    let mut seen = first.last().map_or(since.min(newest), |event| event.id);
    for event in first {
        print(ctx, event)?;
    }
    wait(async move {
        let mut watch = Watch::new(board.path(), LOOK);
        loop {
            let page = board.read(|conn| bb::events_since(conn, seen, PAGE))?;
            for event in &page {
                seen = event.id;
                if change.is_none_or(|id| concerns(event, id)) {
                    print(ctx, event)?;
                }
            }
            if page.is_empty() {
                watch.next().await;
                if ctx.out.is_deserted() {
                    return Ok(ExitCode::Done);
                }
                if board.is_nowhere()
                    && let Some(begun) = ctx.board_there(&settings)?
                {
                    board = begun;
                    watch = Watch::new(board.path(), LOOK);
                }
            }
        }
    })?
}

/// Characters of a summary on its line; JSON has all of them.
const LINE_CAP: usize = 2_000;

fn concerns(event: &Event, id: &ChangeId) -> bool {
    event.change_id.as_ref() == Some(id)
        || (event.target_type == TargetType::Change && event.target_id == id.as_str())
}

fn print(ctx: &mut CommandContext, event: &Event) -> Result<()> {
    if ctx.out.is_json() {
        return Ok(ctx.out.json_line(event)?);
    }
    let line = Line::default()
        .faint(format!("{:>6}  {}  ", event.id, event.timestamp))
        .plain(format!(
            "{:<4}  {:<16}  ",
            id_or_dash(event.change_id.as_ref()),
            event.event_type
        ))
        .plain(cap(&event.summary, LINE_CAP));
    Ok(ctx.out.line(line)?)
}
