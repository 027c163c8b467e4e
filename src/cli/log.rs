//! `remand log`: what an agent wrote.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::desk::{Desk, wait};
use super::fail::{Code, Fail};
use super::show::{Thing, find};
use crate::blackboard as bb;
use crate::process::{self, Follow, Stream};
use crate::work::{Run, RunId};

/// How often a follower looks.
const LOOK: Duration = Duration::from_millis(200);

/// Show what an agent wrote in a run
#[derive(Debug, Args)]
#[command(
    after_help = "Control characters are made visible, so that nothing an agent prints can touch your terminal.\n\n\
Examples:\n  remand log r4\n  remand log c1 -f     the run under way, or the last one, of a change"
)]
pub(crate) struct LogArgs {
    /// The run (r1); or an item or a change, for its last run
    #[arg(value_name = "RUN")]
    run: String,

    /// Go on until the run ends
    #[arg(short, long, conflicts_with = "json")]
    follow: bool,

    /// What it wrote to stderr
    #[arg(long)]
    stderr: bool,

    /// Byte for byte, for another program
    #[arg(long, conflicts_with_all = ["follow", "json"])]
    raw: bool,
}

#[derive(Serialize)]
struct Shown<'a> {
    run_id: &'a RunId,
    stream: &'static str,
    text: &'a str,
    bytes_seen: u64,
    bytes_left_out: u64,
}

pub(crate) fn log(args: &LogArgs, desk: &mut Desk) -> Result<Code> {
    let run = which(desk, &args.run)?;
    let (stream, name) = if args.stderr { (Stream::Stderr, "stderr") } else { (Stream::Stdout, "stdout") };
    let dir = Path::new(&run.dir);
    if args.follow {
        return follow(desk, &run, stream);
    }
    if !dir.is_dir() {
        return Err(Fail::not_found(format!("the files of {} are gone: {}", run.run_id, run.dir)).into());
    }
    let kept = process::read_output(dir, stream)?;
    if desk.out.is_json() {
        desk.out.json(&Shown {
            run_id: &run.run_id,
            stream: name,
            text: &kept.text,
            bytes_seen: kept.bytes_seen,
            bytes_left_out: kept.bytes_left_out,
        })?;
    } else if args.raw {
        desk.out.raw(&kept.text)?;
    } else {
        desk.out.stream(&kept.text)?;
        if kept.text.is_empty() {
            desk.out.note(format!("{} wrote nothing to {name}", run.run_id))?;
        } else if !kept.text.ends_with('\n') {
            desk.out.blank()?;
        }
    }
    Ok(Code::Done)
}

fn which(desk: &Desk, text: &str) -> Result<Run> {
    let thing = find(desk, text)?;
    let found = match &thing {
        Thing::Run(run) => return Ok(run.clone()),
        Thing::Item(item) => desk.read(|conn| bb::last_run(conn, &item.item_id))?,
        Thing::Change(change) => desk.read(|conn| {
            let last = bb::last_run_of_change(conn, &change.change_id)?;
            last.map(|id| bb::run(conn, &id)).transpose()
        })?,
        Thing::Review(_, review) => desk.read(|conn| bb::last_run(conn, &review.item_id))?,
        Thing::Rejection(_) | Thing::Finding(..) | Thing::Event(_) | Thing::Project(_) => {
            return Err(Fail::usage(format!("`{text}` is not a run"))
                .hint("give a run (r1), an item (w1) or a change (c1)")
                .into());
        }
    };
    found.ok_or_else(|| {
        Fail::not_found(format!("`{text}` has no run yet"))
            .hint(format!("`remand why {text}` says what it waits for"))
            .into()
    })
}

fn follow(desk: &mut Desk, run: &Run, stream: Stream) -> Result<Code> {
    let mut board = desk.board()?;
    let dir = Path::new(&run.dir);
    let mut output = Follow::new(dir, stream);
    wait(async move {
        loop {
            // Whether it has ended is asked before the output is read, so that its last words are not missed.
            let is_over = board.read(|conn| bb::run(conn, &run.run_id))?.ended.is_some();
            if dir.is_dir() {
                desk.out.stream(&output.more()?)?;
            }
            if is_over {
                return Ok(Code::Done);
            }
            tokio::time::sleep(LOOK).await;
        }
    })?
}
