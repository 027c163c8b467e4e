//! `remand approve`

use anyhow::Result;
use clap::Args;

use super::Named;
use super::desk::Desk;
use super::fail::Code;
use super::picture::told;
use crate::blackboard as bb;

/// Approve a change, whatever is still open in it
#[derive(Debug, Args)]
#[command(after_help = "What runs or waits for the change is cancelled, and its pending rejections are skipped with\n\
your name as the reason. A later commit on the branch takes the approval back.\n\n\
Example:\n  remand approve c3")]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    named: Named,
}

pub(crate) fn approve(args: &ApproveArgs, desk: &mut Desk) -> Result<Code> {
    let id = desk.change(&args.named.change)?.change_id;
    desk.write("approve", |conn, step| bb::approve_by_person(conn, &id, &step.actor, step.now))?;
    told(desk, &id, "is approved")
}
