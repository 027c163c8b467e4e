//! `remand log`: prints the output of an agent.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::show::{Thing, find};
use crate::agent::{self, Doing, Reader};
use crate::blackboard as bb;
use crate::cli::frame::{CommandContext, CommandError, ExitCode, wait};
use crate::clock;
use crate::human_time::span;
use crate::process::{self, Follow, Stream};
use crate::work::{Run, RunId};

/// Interval between two reads of a follower.
const LOOK: Duration = Duration::from_millis(200);
/// Time without output after which a follower shows the agent's activity; doubled each time.
const SILENCE: Duration = Duration::from_secs(5);

/// Show the output of an agent
#[derive(Debug, Args)]
#[command(
    after_help = "An agent's structured output is shown as text, one line per action. Control characters are made visible, so \
that an agent cannot send escape codes to your terminal.\n\n\
Examples:\n  remand log r4\n  remand log c1 -f     the current or last run of a change"
)]
pub(crate) struct LogArgs {
    /// Run (r1), or an item or change whose last run is shown
    #[arg(value_name = "RUN")]
    run: String,

    /// Follow the output until the run ends
    #[arg(short, long, conflicts_with = "json")]
    follow: bool,

    /// Show stderr instead of stdout
    #[arg(long)]
    stderr: bool,

    /// Print the output unmodified, for other programs
    #[arg(long, conflicts_with = "json")]
    raw: bool,
}

#[derive(Serialize)]
struct LogView<'a> {
    run_id: &'a RunId,
    stream: &'static str,
    text: &'a str,
    bytes_seen: u64,
    bytes_left_out: u64,
    /// Current activity; `None` if the run has ended or has not reported anything yet.
    doing: Option<Doing>,
}

/// Output mode.
enum Manner {
    Raw,
    /// Byte for byte, except for terminal control codes.
    AsWritten,
    ForPeople(Reader),
}

impl Manner {
    fn of(args: &LogArgs, dir: &Path) -> Self {
        match (args.raw, args.stderr) {
            (true, _) => Self::Raw,
            (false, true) => Self::AsWritten,
            (false, false) => Self::ForPeople(Reader::of(dir)),
        }
    }

    fn print(&mut self, ctx: &mut CommandContext, text: &str) -> Result<()> {
        match self {
            Self::Raw => ctx.out.raw(text)?,
            Self::AsWritten => ctx.out.stream(text)?,
            Self::ForPeople(reader) => ctx.out.stream(&reader.more(text))?,
        }
        Ok(())
    }

    /// Prints the remaining output at the end of the stream.
    fn end(&mut self, ctx: &mut CommandContext) -> Result<()> {
        if let Self::ForPeople(reader) = self {
            ctx.out.stream(&reader.end())?;
        }
        Ok(())
    }
}

pub(crate) fn log(args: &LogArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let run = which(ctx, &args.run)?;
    let (stream, name) = if args.stderr {
        (Stream::Stderr, "stderr")
    } else {
        (Stream::Stdout, "stdout")
    };
    let dir = Path::new(&run.dir);
    let mut manner = Manner::of(args, dir);
    if args.follow {
        return follow(ctx, &run, stream, manner);
    }
    if !dir.is_dir() {
        let what = format!("the output of {} was deleted: {}", run.run_id, run.dir);
        return CommandError::not_found(what).fail();
    }
    let kept = process::read_output(dir, stream)?;
    let view = LogView {
        run_id: &run.run_id,
        stream: name,
        text: &kept.text,
        bytes_seen: kept.bytes_seen,
        bytes_left_out: kept.bytes_left_out,
        doing: match run.ended {
            None => agent::doing(dir)?,
            Some(_) => None,
        },
    };
    ctx.show(&view, |ctx, view| {
        manner.print(ctx, view.text)?;
        manner.end(ctx)?;
        if !args.raw && view.text.is_empty() {
            let note = format!("{} has written nothing to {name}", run.run_id);
            ctx.out.note(note)?;
        } else if !args.raw && !view.text.ends_with('\n') {
            ctx.out.blank()?;
        }
        Ok(())
    })
}

fn which(ctx: &CommandContext, text: &str) -> Result<Run> {
    let found = match find(ctx, text)? {
        Thing::Run(run) => return Ok(run),
        Thing::Item(item) => ctx.read(|conn| bb::last_run(conn, &item.item_id))?,
        Thing::Change(change) => ctx.read(|conn| {
            let last = bb::last_run_of_change(conn, &change.change_id)?;
            last.map(|id| bb::run(conn, &id)).transpose()
        })?,
        Thing::Review(_, review) => ctx.read(|conn| bb::last_run(conn, &review.item_id))?,
        Thing::Rejection(_)
        | Thing::Finding(..)
        | Thing::Feedback(_)
        | Thing::Event(_)
        | Thing::Project(_)
        | Thing::Pull(_) => {
            return CommandError::usage(format!("`{text}` is not a run"))
                .fail_with_hint("use the id of a run (r1), an item (w1) or a change (c1)");
        }
    };
    match found {
        Some(run) => Ok(run),
        None => CommandError::not_found(format!("`{text}` has no run yet")).fail_with_hint(
            format!("`remand why {text}` explains what it is waiting for"),
        ),
    }
}

fn follow(
    ctx: &mut CommandContext,
    run: &Run,
    stream: Stream,
    mut manner: Manner,
) -> Result<ExitCode> {
    let mut board = ctx.board()?;
    let dir = Path::new(&run.dir);
    let mut output = Follow::new(dir, stream);
    let mut silence = SILENCE;
    wait(async move {
        loop {
            // The end of the run is checked before reading, so that its last output is not missed.
            let now = board.read(|conn| bb::run(conn, &run.run_id))?;
            let is_over = now.ended.is_some();
            if dir.is_dir() {
                let more = output.more()?;
                silence = match more.is_empty() {
                    true => say_silent(ctx, dir, silence)?,
                    false => SILENCE,
                };
                manner.print(ctx, &more)?;
            }
            if is_over {
                manner.end(ctx)?;
                return Ok(ExitCode::Done);
            }
            tokio::time::sleep(LOOK).await;
        }
    })?
}

/// Prints the activity of a silent agent after enough time; returns the time until the next
/// message.
fn say_silent(ctx: &mut CommandContext, dir: &Path, silence: Duration) -> Result<Duration> {
    let written = process::written_at(dir, Stream::Stdout)?;
    if written.is_none_or(|written| clock::now().since(written) < silence) {
        return Ok(silence);
    }
    if let Some(doing) = agent::doing(dir)? {
        let time = span(clock::now().since(doing.since));
        ctx.out.note(format!("[{}, for {time}]", doing.what))?;
    }
    Ok(silence.saturating_mul(2))
}
