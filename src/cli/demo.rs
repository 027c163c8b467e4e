//! `remand demo`: the whole loop, live, on throw-away pull requests.

mod narration;
mod summary;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use tokio_util::sync::CancellationToken;

use super::board;
use crate::blackboard::{self as bb, BoardRow, Show};
use crate::change::{AdoptedBy, ChangeId};
use crate::cli::frame::context::CommandContext;
use crate::cli::frame::error::{CommandError, ExitCode};
use crate::cli::frame::ui::{Line, Ui};
use crate::clock;
use crate::config::ConfigLocation;
use crate::daemon::{self, Daemon};
use crate::demo::{Grace, ME, PARTS, Part, Stage};
use crate::intake::Ask;

/// How long the three may take altogether; they need about ten seconds.
const PATIENCE: Duration = Duration::from_secs(90);
const FRAME: Duration = Duration::from_millis(150);

/// Show the whole loop on throw-away pull requests with scripted agents, offline
///
/// Makes a git remote with three pull requests on a stand-in for GitHub, all in a temporary folder, and runs the daemon
/// on it: one is rejected by the reviewer, fixed, pushed, and passes; one passes, is sent back by a person, fixed, and
/// approved by her; one never satisfies its reviewer and is handed to a person after two fixes. Needs git and sh,
/// nothing else. Ends with 0 only if all three ended so.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Leave the repositories and the blackboard of the demo in place, to look at
    #[arg(long)]
    keep: bool,

    /// Make them in DIR, which must be empty or not there yet (and is kept)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn demo(args: &DemoArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let folder = Folder::make(args)?;
    let runtime = daemon::runtime()?;
    let (stage, ends) = runtime.block_on(play(&folder.path, &mut ctx.out))?;
    if ctx.out.is_json() {
        ctx.move_to(ConfigLocation {
            config: stage.loaded.file.clone(),
            db: Some(stage.loaded.blackboard.clone()),
        });
        board::list(&board::ListArgs::default(), ctx)?;
    } else {
        runtime.block_on(summary::pages(&mut ctx.out, &stage, &ends))?;
        summary::words(&mut ctx.out, &folder.path, folder.is_kept)?;
    }
    if ends.iter().all(|end| *end == Some(true)) {
        Ok(ExitCode::Done)
    } else {
        Err(CommandError::new("the demo did not end as it should")
            .hint("run it with --keep and look at the folder")
            .into())
    }
}

/// Whether each of `PARTS` ended, and if so, whether as it should.
type Ended = Vec<Option<bool>>;

/// Where the demo plays.
struct Folder {
    path: PathBuf,
    is_kept: bool,
}

impl Folder {
    fn make(args: &DemoArgs) -> Result<Self> {
        let name: String = uuid::Uuid::new_v4()
            .simple()
            .to_string()
            .chars()
            .take(8)
            .collect();
        let path = match &args.dir {
            Some(dir) => dir.clone(),
            None => std::env::temp_dir().join(format!("remand-demo-{name}")),
        };
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        let path = path
            .canonicalize()
            .with_context(|| format!("cannot find {}", path.display()))?;
        let mut inside =
            std::fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))?;
        if inside.next().is_some() {
            return Err(
                CommandError::usage(format!("{} is not empty", path.display()))
                    .hint("give --dir another folder")
                    .into(),
            );
        }
        Ok(Self {
            path,
            is_kept: args.keep || args.dir.is_some(),
        })
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

/// Sets the stage and runs the daemon on it until all three have ended.
async fn play(folder: &Path, out: &mut Ui) -> Result<(Stage, Ended)> {
    let started = Instant::now();
    if !out.is_json() {
        out.line("Setting the stage: a git remote, three pull requests on a stand-in for GitHub, and shell scripts")?;
        out.line("for agents. Nothing leaves this machine.")?;
        out.blank()?;
    }
    let stage = Stage::set(folder).await?;
    let changes = watch_all(&stage).await?;
    let daemon = Daemon::assemble(&stage.loaded)?;
    let stop = CancellationToken::new();
    let mut show = ShowState {
        changes,
        grace: Grace::default(),
        seen: 0,
        started,
    };
    let playing = async {
        let watched = tokio::select! {
            watched = show.watch(&daemon, &stage, out) => watched,
            _ = tokio::signal::ctrl_c() => Err(CommandError::new("the demo was interrupted").into()),
        };
        stop.cancel();
        watched
    };
    let ((), watched) = tokio::join!(daemon.run(stop.clone()), playing);
    Ok((stage, watched?))
}

/// As `remand watch` does it; the changes come in the order of `PARTS`.
async fn watch_all(stage: &Stage) -> Result<Vec<ChangeId>> {
    let intake = daemon::intake(&stage.loaded)?;
    let mut changes = Vec::new();
    for part in &PARTS {
        let ask = Ask {
            project: stage.project.clone(),
            number: part.number,
            by: AdoptedBy::Watch,
            actor: ME.into(),
            seen: None,
            worktree: None,
            max_fix_cycles: None,
            title: None,
            shadow: None,
        };
        changes.push(intake.adopt(&ask).await?.change.change_id);
    }
    Ok(changes)
}

struct ShowState {
    /// In the order of `PARTS`.
    changes: Vec<ChangeId>,
    grace: Grace,
    /// The newest event that was shown.
    seen: i64,
    started: Instant,
}

impl ShowState {
    async fn watch(&mut self, daemon: &Daemon, stage: &Stage, out: &mut Ui) -> Result<Ended> {
        loop {
            let seen = self.seen;
            let (events, rows, posts) = daemon
                .db()
                .read(move |conn| {
                    let posts = bb::open_posts(conn, clock::now())?;
                    Ok((
                        bb::events_since(conn, seen, 1000)?,
                        bb::board(conn, Show::All, 10)?,
                        posts,
                    ))
                })
                .await?;
            self.seen = events.last().map_or(self.seen, |event| event.id);
            let parts: Vec<(&Part, Option<&BoardRow>)> = PARTS
                .iter()
                .zip(&self.changes)
                .map(|(part, id)| (part, rows.iter().find(|row| row.change.change_id == *id)))
                .collect();
            let ends: Ended = parts
                .iter()
                .map(|(part, row)| part.ended(&(*row)?.change))
                .collect();
            if !out.is_json() {
                out.erase_live()?;
                for event in &events {
                    let part = PARTS
                        .iter()
                        .zip(&self.changes)
                        .find(|(_, id)| event.change_id.as_ref() == Some(*id));
                    if let Some(line) = part
                        .and_then(|(part, _)| narration::line(event, part, self.started.elapsed()))
                    {
                        out.line(line)?;
                    }
                }
                if ends.iter().any(Option::is_none) {
                    let lines = parts.iter().filter_map(|(part, row)| {
                        Some(narration::live(part, (*row)?, clock::now()))
                    });
                    out.live(
                        &std::iter::once(Line::default())
                            .chain(lines)
                            .collect::<Vec<_>>(),
                    )?;
                }
            }
            let is_over = ends.iter().all(Option::is_some) && posts.is_empty();
            if is_over || self.started.elapsed() > PATIENCE {
                return Ok(ends);
            }
            // She reads what was posted before she speaks.
            let hers = parts
                .iter()
                .find(|(part, _)| Some(part.number) == Grace::part().map(|part| part.number));
            if let Some((_, Some(row))) = hers
                && posts
                    .iter()
                    .all(|post| post.change_id != row.change.change_id)
            {
                self.grace.look(stage, &row.change).await?;
            }
            tokio::time::sleep(FRAME).await;
        }
    }
}
