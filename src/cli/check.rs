//! `remand check`

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::blackboard::{self as bb, Violation};
use crate::cli::frame::context::CommandContext;
use crate::cli::frame::error::ExitCode;
use crate::cli::frame::ui::{Line, TextStyle};

/// Check the blackboard: its file, and what must hold between its rows
#[derive(Debug, Args)]
#[command(after_help = "Nothing is changed. 0: all is well; 1: something is not, and is listed.")]
pub(crate) struct CheckArgs {}

#[derive(Serialize)]
struct CheckReport {
    blackboard: String,
    ok: bool,
    violations: Vec<Violation>,
}

pub(crate) fn check(_args: &CheckArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let blackboard = ctx.settings()?.blackboard.display().to_string();
    let violations = ctx.read(bb::check)?;
    let code = if violations.is_empty() {
        ExitCode::Done
    } else {
        ExitCode::Failed
    };
    if ctx.out.is_json() {
        ctx.out.json(&CheckReport {
            blackboard,
            ok: violations.is_empty(),
            violations,
        })?;
        return Ok(code);
    }
    for violation in &violations {
        ctx.out.line(
            Line::default()
                .piece(TextStyle::Bad, violation.invariant)
                .plain("  ")
                .plain(&violation.what),
        )?;
    }
    if violations.is_empty() {
        ctx.out.line(
            Line::default()
                .piece(TextStyle::Good, "ok")
                .plain(format!("  {blackboard}")),
        )?;
    }
    Ok(code)
}
