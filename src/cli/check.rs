//! `remand check`: verifies the blackboard.

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::blackboard as bb;
use crate::cli::frame::{CommandContext, ExitCode, Line, TextStyle};

/// Check the integrity of the blackboard
#[derive(Debug, Args)]
#[command(
    after_help = "Checks the database file and the consistency of its rows. Changes nothing.\n\nExit codes: 0 no problems, 1 problems found and listed."
)]
pub(crate) struct CheckArgs {}

pub(crate) fn check(_args: &CheckArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let blackboard = ctx.settings()?.blackboard.display().to_string();
    let violations = ctx.read(bb::check)?;
    let ok = violations.is_empty();
    let value = json!({ "blackboard": blackboard, "ok": ok, "violations": violations });
    ctx.show(&value, |ctx, _| {
        for violation in &violations {
            let line = Line::new().piece(TextStyle::Bad, violation.invariant);
            ctx.out.line(line.plain("  ").plain(&violation.what))?;
        }
        if ok {
            ctx.out.ok(&blackboard)?;
        }
        Ok(())
    })?;
    Ok(if ok { ExitCode::Done } else { ExitCode::Failed })
}
