//! `remand demo`: the whole loop, live, on temporary pull requests and a task.

mod live;
mod summary;
mod task;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use tokio_util::sync::CancellationToken;

use super::{board, narration};
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

/// Maximum time for all pull requests together; they need about ten seconds.
const PATIENCE: Duration = Duration::from_secs(90);
const FRAME: Duration = Duration::from_millis(150);

/// Demonstrate the whole loop using temporary pull requests and scripted agents
///
/// Creates a git remote with three pull requests on a local stand-in for GitHub, all in a temporary directory, adds a
/// task, and runs the daemon on it. The first is rejected by the reviewer, fixed and pushed, and then passes. The
/// second passes, is sent back by a person, fixed, and approved by that person. The third never satisfies the reviewer
/// and is escalated after two fixes. The task is implemented, rejected by the reviewer and fixed before its pull
/// request is opened. Works offline and needs only git and sh. The exit code is 0 only if all four end as described.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Keep the demo's repositories and blackboard
    #[arg(long)]
    keep: bool,

    /// Directory for the demo (must be empty or not exist); implies --keep
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
        CommandError::new("the demo did not end as expected")
            .hint("run `remand demo --keep` and inspect the directory")
            .fail()
    }
}

/// Result of each of `PARTS`: `None` until it has ended, then true if it ended as expected.
type Ended = Vec<Option<bool>>;

/// Directory in which the demo runs.
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
            .with_context(|| format!("cannot create {}", path.display()))?;
        let path = path
            .canonicalize()
            .with_context(|| format!("cannot find {}", path.display()))?;
        let mut inside =
            std::fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))?;
        if inside.next().is_some() {
            return CommandError::usage(format!("{} is not empty", path.display()))
                .hint("choose another directory with --dir")
                .fail();
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
            // Removed whatever the result; anything left over is in the temporary directory.
            drop(std::fs::remove_dir_all(&self.path));
        }
    }
}

/// Prepares the demo and runs the daemon on it until everything has ended.
async fn play(folder: &Path, out: &mut Ui) -> Result<(Stage, Ended)> {
    let started = Instant::now();
    if !out.is_json() {
        let begins = "Setting up a git remote, three pull requests on a local stand-in for GitHub, a task (`remand add 'Count words' \
                      -a`), and shell scripts as agents. Nothing leaves this machine.";
        out.paragraph(begins, 0)?;
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
            _ = tokio::signal::ctrl_c() => CommandError::new("the demo was interrupted").fail(),
        };
        stop.cancel();
        watched
    };
    let ((), watched) = tokio::join!(daemon.run(stop.clone()), playing);
    Ok((stage, watched?))
}

/// Watches all pull requests like `remand watch`, adds the task like `remand add`, and returns their changes in the order of `PARTS`.
async fn watch_all(stage: &Stage) -> Result<Vec<ChangeId>> {
    let intake = daemon::intake(&stage.loaded)?;
    let mut changes = Vec::new();
    for part in &PARTS {
        if part.is_task() {
            changes.push(task::add(stage, part)?);
            continue;
        }
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
    /// Changes in the order of `PARTS`.
    changes: Vec<ChangeId>,
    grace: Grace,
    /// Id of the newest event that was shown.
    seen: i64,
    started: Instant,
}

impl ShowState {
    async fn watch(&mut self, daemon: &Daemon, stage: &Stage, out: &mut Ui) -> Result<Ended> {
        loop {
            let seen = self.seen;
            let ((steps, seen), rows, posts) = daemon
                .db()
                .read(move |conn| {
                    let posts = bb::open_posts(conn, clock::now())?;
                    Ok((
                        narration::read(conn, seen)?,
                        bb::board(conn, Show::All, 10)?,
                        posts,
                    ))
                })
                .await?;
            self.seen = seen;
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
                let when = format!("{:5.1} s", self.started.elapsed().as_secs_f64());
                for step in &steps {
                    step.print(out, &when)?;
                }
                if ends.iter().any(Option::is_none) {
                    let lines = parts
                        .iter()
                        .filter_map(|(part, row)| Some(live::line(part, (*row)?, clock::now())));
                    out.live(
                        &std::iter::once(Line::new())
                            .chain(lines)
                            .collect::<Vec<_>>(),
                    )?;
                }
            }
            let is_over = ends.iter().all(Option::is_some) && posts.is_empty();
            if is_over || self.started.elapsed() > PATIENCE {
                return Ok(ends);
            }
            // Grace acts only after everything for her pull request has been posted.
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
