//! `remand check`: verifies the blackboard.

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::blackboard as bb;
use crate::cli::frame::context::CommandContext;
use crate::cli::frame::error::ExitCode;
use crate::cli::frame::ui::{Line, TextStyle};

/// Check the blackboard: its file, and what must hold between its rows
#[derive(Debug, Args)]
#[command(after_help = "Nothing is changed. 0: all is well; 1: something is not, and is listed.")]
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
