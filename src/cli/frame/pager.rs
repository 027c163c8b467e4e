//! Runs the user's pager for long output on a terminal.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};

use anstream::{AutoStream, ColorChoice};
use anyhow::Result;

use super::context::CommandContext;
use crate::{config, process};

const DEFAULT: &str = "less -FRX";

/// Exit status of a shell that did not find the command.
const NOT_FOUND: Option<i32> = Some(127);

/// Runs `print` and shows its output in the pager, if stdout is a terminal.
pub(crate) fn paged(
    ctx: &mut CommandContext,
    print: impl FnOnce(&mut CommandContext) -> Result<()>,
) -> Result<()> {
    if !io::stdout().is_terminal() || ctx.out.is_json() {
        return print(ctx);
    }
    ctx.out.keep();
    let printed = print(ctx);
    let text = ctx.out.take();
    printed?;
    let shows_styles = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
    let styled = if shows_styles {
        text
    } else {
        anstream::adapter::strip_str(&text).to_string()
    };
    let pager = config::pager().unwrap_or_else(|| DEFAULT.to_owned());
    let mut env = config::terminal_environment();
    if !env.iter().any(|(name, _)| name == "LESS") {
        // Same as git: exit if everything fits on the screen, and keep colours.
        env.push((OsString::from("LESS"), OsString::from("FRX")));
    }
    match process::foreground(&pager, &[], env, Some(&styled)) {
        Ok(NOT_FOUND) | Err(_) => Ok(ctx.out.raw(&styled)?),
        Ok(_) => Ok(()),
    }
}
