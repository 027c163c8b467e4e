//! Output that is redrawn whenever it changes: `status --watch`. A terminal shows it on its
//! alternate screen, until `q` or Ctrl-C.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cli::frame::screen::{Request, Screen};
use crate::cli::frame::{CommandContext, ExitCode, Format, runtime};
use crate::clock::{self, Time};
use crate::wake::Watch;

/// Maximum time between two updates without a wake-up: ages change by themselves, and the activity
/// of an agent is not on the blackboard.
const LOOK: Duration = Duration::from_secs(1);

/// Minimum time between two updates.
const LEAST: Duration = Duration::from_millis(250);

/// Redraws the output of `once` until the user quits or the reader exits.
pub(crate) fn follow(
    ctx: &mut CommandContext,
    once: impl Fn(&mut CommandContext) -> Result<ExitCode>,
) -> Result<ExitCode> {
    let board = ctx.board()?;
    // Drawing is not part of the waiting: what is drawn may itself wait for a process.
    let runtime = runtime()?;
    let is_screen = ctx.out.is_screen();
    let (mut watch, screen) = runtime.block_on(async {
        let screen = is_screen.then(Screen::enter).transpose();
        (Watch::new(board.path(), LOOK), screen)
    });
    let (mut screen, mut shown) = (screen?, None::<(String, Time)>);
    loop {
        let begun = Instant::now();
        if is_another(ctx, &once, shown.as_ref())? {
            let now = clock::now();
            let key = kept(ctx, &once, Format::Text, now)?;
            let picture = if ctx.out.is_json() {
                one_line(ctx, &once, now)?
            } else {
                key.clone()
            };
            ctx.out.draw(&picture, shown.is_none())?;
            shown = Some((key, now));
        }
        let request = runtime.block_on(async {
            let pause = async {
                watch.next().await;
                tokio::time::sleep(LEAST.saturating_sub(begun.elapsed())).await;
            };
            tokio::select! {
                () = pause => None,
                request = requested(&mut screen) => Some(request),
            }
        });
        match request {
            Some(Request::Quit) => return Ok(ExitCode::Done),
            Some(Request::Resize) => {
                ctx.out.measure();
                shown = None;
            }
            None => {}
        }
        if ctx.out.is_deserted() {
            return Ok(ExitCode::Done);
        }
    }
}

async fn requested(screen: &mut Option<Screen>) -> Request {
    match screen {
        Some(screen) => screen.request().await,
        None => std::future::pending().await,
    }
}

/// True if the output has changed. On a terminal, changed ages count too. In a pipe only events
/// count: the output is compared at the time of the previous one.
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
    Ok(kept(ctx, once, Format::Text, moment)? != *text)
}

fn one_line(
    ctx: &mut CommandContext,
    once: &impl Fn(&mut CommandContext) -> Result<ExitCode>,
    now: Time,
) -> Result<String> {
    // Line breaks inside texts are escaped: the remaining ones are only layout.
    let text = kept(ctx, once, Format::Json, now)?;
    Ok(text.lines().map(str::trim_start).collect::<String>() + "\n")
}

fn kept(
    ctx: &mut CommandContext,
    once: &impl Fn(&mut CommandContext) -> Result<ExitCode>,
    format: Format,
    now: Time,
) -> Result<String> {
    let before = std::mem::replace(&mut ctx.out.format, format);
    ctx.now = now;
    ctx.out.keep_for_screen();
    let printed = once(ctx);
    let text = ctx.out.take();
    ctx.out.format = before;
    printed.map(|_| text)
}
