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
    desk: &mut CommandContext,
    once: impl Fn(&mut CommandContext) -> Result<ExitCode>,
) -> Result<ExitCode> {
    let board = desk.board()?;
    wait(async move {
        let mut watch = Watch::new(board.path(), LOOK);
        let mut shown: Option<(String, Time)> = None;
        loop {
            let begun = Instant::now();
            if is_another(desk, &once, shown.as_ref())? {
                let now = clock::now();
                let key = text_at(desk, &once, now)?;
                let picture = if desk.out.is_json() {
                    one_line(desk, &once, now)?
                } else {
                    key.clone()
                };
                desk.out.draw(&picture, shown.is_none())?;
                shown = Some((key, now));
            }
            watch.next().await;
            tokio::time::sleep(LEAST.saturating_sub(begun.elapsed())).await;
            if desk.out.is_deserted() {
                return Ok(ExitCode::Done);
            }
        }
    })?
}

/// On a terminal ages are drawn anew too. In a pipe only what happened counts: the old moment is looked at with new eyes.
fn is_another(
    desk: &mut CommandContext,
    once: &impl Fn(&mut CommandContext) -> Result<ExitCode>,
    shown: Option<&(String, Time)>,
) -> Result<bool> {
    let Some((text, then)) = shown else {
        return Ok(true);
    };
    let moment = if desk.out.is_screen() {
        clock::now()
    } else {
        *then
    };
    Ok(text_at(desk, once, moment)? != *text)
}

fn text_at(
    desk: &mut CommandContext,
    once: &impl Fn(&mut CommandContext) -> Result<ExitCode>,
    now: Time,
) -> Result<String> {
    kept(desk, once, Format::Text, now)
}

fn one_line(
    desk: &mut CommandContext,
    once: &impl Fn(&mut CommandContext) -> Result<ExitCode>,
    now: Time,
) -> Result<String> {
    // Line breaks inside texts are written as escapes: those that are left only set it out.
    let text = kept(desk, once, Format::Json, now)?;
    Ok(text
        .lines()
        .map(str::trim_start)
        .collect::<Vec<_>>()
        .concat()
        + "\n")
}

fn kept(
    desk: &mut CommandContext,
    once: &impl Fn(&mut CommandContext) -> Result<ExitCode>,
    format: Format,
    now: Time,
) -> Result<String> {
    let before = std::mem::replace(&mut desk.out.format, format);
    desk.now = now;
    desk.out.keep();
    let printed = once(desk);
    let text = desk.out.take();
    desk.out.format = before;
    printed.map(|_| text)
}
