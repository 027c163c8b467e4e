//! `remand run`, `tick`, `work` and `demo`: the places where the loops are started from.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::desk::Desk;
use super::fail::{Code, Fail};
use crate::daemon;

/// Run the daemon: it looks for rejected work, has it fixed and reviewed again, until it is stopped
#[derive(Debug, Args)]
pub(crate) struct RunArgs {}

/// Look once, run what is due until nothing is left, and end (for cron, scripts and tests)
#[derive(Debug, Args)]
pub(crate) struct TickArgs {}

/// Run what is queued, in the foreground, and end
#[derive(Debug, Args)]
pub(crate) struct WorkArgs {}

/// Show the whole loop on a throw-away repository with scripted agents, offline
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Leave the repository and the blackboard of the demo in place
    #[arg(long)]
    pub(crate) keep: bool,

    /// Make them in DIR, which must be empty or not there yet
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

pub(crate) fn run(_args: &RunArgs, _desk: &mut Desk) -> Result<Code> {
    Err(Fail::new("`remand run` is not built yet").into())
}

pub(crate) fn tick(_args: &TickArgs, desk: &mut Desk) -> Result<Code> {
    let done = daemon::tick(&desk.settings()?)?;
    told(desk, done)
}

pub(crate) fn work(_args: &WorkArgs, desk: &mut Desk) -> Result<Code> {
    let done = daemon::work(&desk.settings()?)?;
    told(desk, done)
}

pub(crate) fn demo(_args: &DemoArgs, _desk: &mut Desk) -> Result<Code> {
    Err(Fail::new("`remand demo` is not built yet").into())
}

fn told(desk: &mut Desk, done: daemon::Done) -> Result<Code> {
    if desk.out.is_json() {
        desk.out.json(&serde_json::json!({ "applied": done.applied, "ran": done.ran }))?;
    } else {
        desk.out.line(format!("{} proposals carried out, {} items run", done.applied, done.ran))?;
    }
    Ok(Code::Done)
}
