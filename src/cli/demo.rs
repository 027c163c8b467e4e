//! `remand demo`: the whole loop, live, on a throw-away repository.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use tokio_util::sync::CancellationToken;

use super::board;
use super::desk::Desk;
use super::fail::{Code, Fail};
use super::out::{Line, Look, Out};
use crate::blackboard::{self as bb, BoardRow, Show};
use crate::clock::{self, Time};
use crate::config::Place;
use crate::daemon::{self, Daemon};
use crate::demo::{self, Ends, PARTS, Stage};
use crate::event::{Event, EventType};
use crate::work::{Source, Status};

/// How long the three changes may take altogether; they need about seven seconds.
const PATIENCE: Duration = Duration::from_secs(90);
const FRAME: Duration = Duration::from_millis(150);

/// Show the whole loop on a throw-away repository with scripted agents, offline
///
/// Makes a git repository with three worktrees in a temporary folder and runs the daemon on it: one change is
/// rejected, fixed and approved, one is approved at once, and one never satisfies its reviewer and is handed to a
/// person after two fixes. Needs git and sh, nothing else. Ends with 0 only if all three ended so.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Leave the repository and the blackboard of the demo in place, to look at
    #[arg(long)]
    keep: bool,

    /// Make them in DIR, which must be empty or not there yet (and is kept)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn demo(args: &DemoArgs, desk: &mut Desk) -> Result<Code> {
    let folder = Folder::make(args)?;
    let played = daemon::runtime()?.block_on(play(&folder.path, &mut desk.out));
    let (stage, all_well) = played?;
    desk.move_to(Place { config: stage.loaded.file.clone(), db: Some(stage.loaded.blackboard.clone()) });
    if desk.out.is_json() {
        board::list(&board::ListArgs::default(), desk)?;
    } else {
        desk.out.blank()?;
        board::list(&board::ListArgs::default(), desk)?;
        closing_words(&mut desk.out, &stage, folder.is_kept)?;
    }
    if all_well {
        Ok(Code::Done)
    } else {
        Err(Fail::new("the demo did not end as it should").hint("run it with --keep and look at the folder").into())
    }
}

/// Where the demo plays.
struct Folder {
    path: PathBuf,
    is_kept: bool,
}

impl Folder {
    fn make(args: &DemoArgs) -> Result<Self> {
        let name: String = uuid::Uuid::new_v4().simple().to_string().chars().take(8).collect();
        let path = match &args.dir {
            Some(dir) => dir.clone(),
            None => std::env::temp_dir().join(format!("remand-demo-{name}")),
        };
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let path = path.canonicalize().with_context(|| format!("cannot find {}", path.display()))?;
        let mut inside = std::fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))?;
        if inside.next().is_some() {
            return Err(Fail::usage(format!("{} is not empty", path.display()))
                .hint("give --dir another folder")
                .into());
        }
        Ok(Self { path, is_kept: args.keep || args.dir.is_some() })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_kept {
            // However the demo ended. What can't be removed is in the folder for temporary things.
            drop(std::fs::remove_dir_all(&self.path));
        }
    }
}

/// Sets the stage and runs the daemon on it until all three changes have ended.
async fn play(folder: &Path, out: &mut Out) -> Result<(Stage, bool)> {
    let started = Instant::now();
    if !out.is_json() {
        out.line(
            "Setting the stage: a repository with three worktrees, a reviewer and a fixer that are shell scripts.",
        )?;
        out.blank()?;
    }
    let stage = demo::set(folder).await?;
    let daemon = Daemon::assemble(&stage.loaded)?;
    let stop = CancellationToken::new();
    let mut show = ShowState { seen: 0, started };
    let playing = async {
        let watched = tokio::select! {
            watched = watch(&daemon, &stage, out, &mut show) => watched,
            _ = tokio::signal::ctrl_c() => Err(Fail::new("the demo was interrupted").into()),
        };
        stop.cancel();
        watched
    };
    let ((), watched) = tokio::join!(daemon.run(stop.clone()), playing);
    Ok((stage, watched?))
}

struct ShowState {
    /// The newest event that was shown.
    seen: i64,
    started: Instant,
}

async fn watch(daemon: &Daemon, stage: &Stage, out: &mut Out, show: &mut ShowState) -> Result<bool> {
    loop {
        let seen = show.seen;
        let (events, rows) = daemon
            .door()
            .read(move |conn| Ok((bb::events_since(conn, seen, 1000)?, bb::board(conn, Show::All, 10)?)))
            .await?;
        show.seen = events.last().map_or(show.seen, |event| event.id);
        let ends: Vec<Option<bool>> = PARTS
            .iter()
            .zip(&stage.changes)
            .map(|(part, id)| part.ended(&rows.iter().find(|row| row.change.change_id == *id)?.change))
            .collect();
        if !out.is_json() {
            out.erase_live()?;
            for line in events.iter().filter_map(|event| told(event, &rows, show.started.elapsed())) {
                out.line(line)?;
            }
            if ends.iter().any(Option::is_none) {
                let mut rows: Vec<&BoardRow> = rows.iter().collect();
                rows.sort_by_key(|row| row.change.change_id.clone());
                let lines = rows.iter().map(|row| live_line(row, clock::now()));
                out.live(&std::iter::once(Line::default()).chain(lines).collect::<Vec<_>>())?;
            }
        }
        if ends.iter().all(Option::is_some) {
            return Ok(ends.iter().all(|end| *end == Some(true)));
        }
        if show.started.elapsed() > PATIENCE {
            return Ok(false);
        }
        tokio::time::sleep(FRAME).await;
    }
}

/// One line for what happened, if it is worth one.
fn told(event: &Event, rows: &[BoardRow], elapsed: Duration) -> Option<Line> {
    let id = event.change_id.as_ref()?;
    let title = rows.iter().find(|row| row.change.change_id == *id).map(|row| row.change.title.clone())?;
    let worth: &[(EventType, Look, &str, &str)] = &[
        (EventType::WorkRejected, Look::Notice, "", ""),
        (EventType::FixCommitted, Look::Plain, "", ", its tests pass, next review queued"),
        (EventType::WorkApproved, Look::Good, "", ""),
        (EventType::Escalated, Look::Bad, "to a person: ", ""),
        (EventType::GateFailed, Look::Notice, "", ""),
        (EventType::WorkClaimed, Look::Plain, "", ""),
    ];
    let (event_type, look, before, after) = *worth.iter().find(|(event_type, ..)| *event_type == event.event_type)?;
    let text = if event_type == EventType::WorkClaimed {
        let is_fix = event.summary.starts_with(Source::ReviewFix.as_str());
        if is_fix { "the fixer begins".to_owned() } else { "the reviewer begins".to_owned() }
    } else {
        format!("{before}{}{after}", event.summary)
    };
    let head = format!("{:5.1} s  {id}  {title:<16} ", elapsed.as_secs_f64());
    Some(Line::default().faint(head).piece(look, text))
}

/// What a change is doing now, for the block at the bottom of a terminal.
fn live_line(row: &BoardRow, now: Time) -> Line {
    let doing = match &row.open_item {
        Some(item) if item.status == Status::Claimed && item.source == Source::ReviewFix => "fixing",
        Some(item) if item.status == Status::Claimed => "under review",
        Some(_) => "waiting for a slot",
        None => row.column,
    };
    let run = row.last_run.as_ref().filter(|run| run.ended_at.is_none());
    Line::default()
        .strong(format!("  {}  {:<16} ", row.change.change_id, row.change.title))
        .plain(format!("{doing:<18} {}", row.change.cycle_text()))
        .faint(run.map(|run| format!("  for {:.1} s", now.since(run.started_at).as_secs_f64())).unwrap_or_default())
}

fn closing_words(out: &mut Out, stage: &Stage, is_kept: bool) -> Result<()> {
    let db = stage.loaded.blackboard.display();
    let repository = stage.repository.display();
    out.blank()?;
    let ends: Vec<String> = PARTS
        .iter()
        .map(|part| match part.ends {
            Ends::ApprovedAfter(0) => format!("`{}` was approved at once", part.title),
            Ends::ApprovedAfter(n) => format!("`{}` was rejected, fixed ({n}) and approved", part.title),
            Ends::EscalatedAfter(n) => {
                format!("`{}` never satisfied its reviewer and needs a person after {n} fixes", part.title)
            }
        })
        .collect();
    out.line(format!("So: {}.", ends.join("; ")))?;
    out.blank()?;
    if is_kept {
        out.line(format!("All of it is on the blackboard, {db}. Two things to try:"))?;
    } else {
        out.line(format!(
            "All of it was on the blackboard, {db}; `remand demo --keep` leaves it there. Two things to try then:"
        ))?;
    }
    let command = |text: String| Line::default().plain("  ").command(text);
    out.line(command(format!("sqlite3 -box {db} 'SELECT change_id, title, state, cycle FROM board'")))?;
    out.line(command(format!(
        "sqlite3 {db} \"SELECT timestamp, event_type, summary FROM timeline WHERE change_id = 'c1'\""
    )))?;
    if is_kept {
        out.line(command(format!("git -C {repository} log --oneline main..leap-years")))?;
    }
    out.blank()?;
    out.line("With your own repository and agent:")?;
    for line in [
        "remand config path                     # where to write which agent to use: [agents.NAME]",
        "remand project add ~/src/yours",
        "cd ~/src/yours-some-worktree && remand review",
        "remand run",
    ] {
        out.line(command(line.to_owned()))?;
    }
    Ok(())
}
