//! `remand check`

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::desk::Desk;
use super::fail::Code;
use super::out::{Line, Look};
use crate::blackboard::{self as bb, Violation};

/// Check the blackboard: its file, and what must hold between its rows
#[derive(Debug, Args)]
#[command(after_help = "Nothing is changed. 0: all is well; 1: something is not, and is listed.")]
pub(crate) struct CheckArgs {}

#[derive(Serialize)]
struct Shown {
    blackboard: String,
    ok: bool,
    violations: Vec<Violation>,
}

pub(crate) fn check(_args: &CheckArgs, desk: &mut Desk) -> Result<Code> {
    let blackboard = desk.settings()?.blackboard.display().to_string();
    let violations = desk.read(bb::check)?;
    let code = if violations.is_empty() {
        Code::Done
    } else {
        Code::Failed
    };
    if desk.out.is_json() {
        desk.out.json(&Shown {
            blackboard,
            ok: violations.is_empty(),
            violations,
        })?;
        return Ok(code);
    }
    for violation in &violations {
        desk.out.line(
            Line::default()
                .piece(Look::Bad, violation.invariant)
                .plain("  ")
                .plain(&violation.what),
        )?;
    }
    if violations.is_empty() {
        desk.out.line(
            Line::default()
                .piece(Look::Good, "ok")
                .plain(format!("  {blackboard}")),
        )?;
    }
    Ok(code)
}
