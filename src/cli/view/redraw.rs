//! A picture that is shown again whenever it is another one: `status --watch`.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cli::frame::context::{CommandContext, wait};
use crate::cli::frame::error::ExitCode;
use crate::cli::frame::ui::Format;
use crate::clock::{self, Time};
use crate::wake::Watch;

/// How often it is looked at although nothing told to: ages go on by themselves, and what an agent is doing is not on the
/// blackboard.
const LOOK: Duration = Duration::from_secs(1);

/// The least time between two pictures.
const LEAST: Duration = Duration::from_millis(250);

/// Draws what `once` prints, again and again, until nobody looks any more.
pub(crate) fn follow(
    ctx: &mut CommandContext,
    once: impl Fn(&mut CommandContext) -> Result<ExitCode>,
) -> Result<ExitCode> {
    let board = ctx.board()?;
    wait(async move {
        let mut watch = Watch::new(board.path(), LOOK);
        let mut shown: Option<(String, Time)> = None;
        loop {
            let begun = Instant::now();
            if is_another(ctx, &once, shown.as_ref())? {
                let now = clock::now();
                let key = text_at(ctx, &once, now)?;
                let picture = if ctx.out.is_json() {
                    one_line(ctx, &once, now)?
                } else {
                    key.clone()
                };
                ctx.out.draw(&picture, shown.is_none())?;
                shown = Some((key, now));
            }
            watch.next().await;
            tokio::time::sleep(LEAST.saturating_sub(begun.elapsed())).await;
            if ctx.out.is_deserted() {
                return Ok(ExitCode::Done);
            }
        }
    })?
}

/// On a terminal ages are drawn anew too. In a pipe only what happened counts: the old moment is looked at with new eyes.
fn is_another(
    ctx: &mut CommandContext,
    once: &impl Fn(&mut CommandContext) -> Result<ExitCode>,
    shown: Option<&(String, Time)>,
) -> Result<bool> {
    let Some((text, then)) = shown else {
        return Ok(true);
    };
    let moment = if ctx.out.is_screen() {
        clock::now()
    } else {
        *then
    };
    Ok(text_at(ctx, once, moment)? != *text)
}

fn text_at(
    ctx: &mut CommandContext,
    once: &impl Fn(&mut CommandContext) -> Result<ExitCode>,
    now: Time,
) -> Result<String> {
    kept(ctx, once, Format::Text, now)
}

fn one_line(
    ctx: &mut CommandContext,
    once: &impl Fn(&mut CommandContext) -> Result<ExitCode>,
    now: Time,
) -> Result<String> {
    // Line breaks inside texts are written as escapes: those that are left only set it out.
    let text = kept(ctx, once, Format::Json, now)?;
    Ok(text
        .lines()
        .map(str::trim_start)
        .collect::<Vec<_>>()
        .concat()
        + "\n")
}

fn kept(
    ctx: &mut CommandContext,
    once: &impl Fn(&mut CommandContext) -> Result<ExitCode>,
    format: Format,
    now: Time,
) -> Result<String> {
    let before = std::mem::replace(&mut ctx.out.format, format);
    ctx.now = now;
    ctx.out.keep();
    let printed = once(ctx);
    let text = ctx.out.take();
    ctx.out.format = before;
    printed.map(|_| text)
}
