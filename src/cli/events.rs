//! `remand events`: prints the event log.

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::blackboard as bb;
use crate::change::ChangeId;
use crate::cli::frame::{CommandContext, ExitCode, Line, id_or_dash, wait};
use crate::clock::{self, Time};
use crate::event::{Event, TargetType};
use crate::human_time::read_span;
use crate::sanitize::cap;
use crate::text::digits;
use crate::wake::Watch;

/// Maximum time between two reads of a follower that is not woken.
const LOOK: Duration = Duration::from_secs(1);

/// Maximum number of events per read of a follower.
const PAGE: i64 = 500;

/// Show the event log, oldest event first
#[derive(Debug, Args)]
#[command(
    after_help = "Times are local. With --json, times are in UTC and each event is one line.\n\n\
Examples:\n  remand events --change c1\n  remand events --since 2h\n  remand events -f --json | jq .summary"
)]
pub(crate) struct EventsArgs {
    /// Keep printing new events until interrupted
    #[arg(short, long)]
    follow: bool,

    /// Show only events for this change: id (c1), branch, worktree path, or PR
    #[arg(long, value_name = "CHANGE")]
    change: Option<String>,

    /// Show only events since a time (2h, 3d, 2026-11-18, '2026-11-18 14:30') or after an event id
    #[arg(long, value_name = "WHEN", value_parser = read_since)]
    since: Option<Since>,

    /// Maximum number of events to show: the newest, or with --since the oldest
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..))]
    limit: i64,
}

/// First event to show.
#[derive(Debug, Clone, Copy)]
enum Since {
    /// Id of the event before the first one.
    Event(i64),
    /// Time span before now.
    Span(Duration),
    Moment(Time),
}

fn read_since(text: &str) -> Result<Since, String> {
    if let Some(id) = digits(text) {
        return Ok(Since::Event(id));
    }
    if let Some(moment) = clock::read_moment(text) {
        return Ok(Since::Moment(moment));
    }
    // Minutes are useful when following a fix; other time spans do not accept them.
    let minutes = text.strip_suffix("min").and_then(|n| n.parse::<u32>().ok());
    if let Some(minutes) = minutes {
        return Ok(Since::Span(Duration::from_secs(u64::from(minutes) * 60)));
    }
    read_span(text).map(Since::Span).map_err(|_only_spans| {
        "expected a span (30min, 2h, 3d, 1w), a day (2026-11-18), a local time ('2026-11-18 14:30'), a time \
         as in --json, or an event id (118)"
            .to_owned()
    })
}

fn before(ctx: &CommandContext, moment: Time) -> Result<i64> {
    ctx.read(|conn| bb::event_before(conn, moment))
}

pub(crate) fn events(args: &EventsArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let change = args.change.as_deref().map(|text| ctx.change(text));
    let change = change.transpose()?.map(|change| change.change_id);
    let since = match args.since {
        Some(Since::Event(id)) => Some(id),
        Some(Since::Span(span)) => Some(before(ctx, ctx.now.minus(span))?),
        Some(Since::Moment(moment)) => Some(before(ctx, moment)?),
        None => None,
    };
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let events = ctx.read(|conn| match (&change, since) {
        (Some(id), None) => bb::events_of(conn, id, args.limit),
        (Some(id), Some(since)) => {
            let all = bb::events_of(conn, id, i64::MAX)?.into_iter();
            Ok(all.filter(|event| event.id > since).take(limit).collect())
        }
        (None, Some(since)) => bb::events_since(conn, since, args.limit),
        (None, None) => bb::newest_events(conn, args.limit),
    })?;
    if args.follow {
        return follow(ctx, &events, since.unwrap_or(0), change.as_ref());
    }
    if events.is_empty() && !ctx.out.is_json() {
        ctx.out.note("no events match")?;
        return Ok(ExitCode::Done);
    }
    events.iter().try_for_each(|event| print(ctx, event))?;
    Ok(ExitCode::Done)
}

fn follow(
    ctx: &mut CommandContext,
    first: &[Event],
    since: i64,
    change: Option<&ChangeId>,
) -> Result<ExitCode> {
    let (settings, mut board) = (ctx.settings()?, ctx.board()?);
    // With an event id that does not exist yet, follow from the newest event.
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

/// Columns by which the rest of a long event is indented on a terminal.
const EVENT_INDENT: usize = 8;

/// Maximum number of characters of a summary on its line; JSON has the full text.
const LINE_CAP: usize = 2_000;

fn concerns(event: &Event, id: &ChangeId) -> bool {
    event.change_id.as_ref() == Some(id)
        || (event.target_type == TargetType::Change && event.target_id == id.as_str())
}

fn print(ctx: &mut CommandContext, event: &Event) -> Result<()> {
    if ctx.out.is_json() {
        return Ok(ctx.out.json_line(event)?);
    }
    let line = Line::new()
        .faint(format!("{:>6}  {}  ", event.id, event.timestamp.local()))
        .plain(format!(
            "{:<4}  {:<17}  ",
            id_or_dash(event.change_id.as_ref()),
            event.event_type
        ))
        .faint(format!("{:<15}  ", event.actor_id))
        .plain(cap(&event.local_summary(), LINE_CAP));
    Ok(ctx.out.paragraph(line, EVENT_INDENT)?)
}
