//! `remand doctor`: checks the environment.

use anyhow::Result;
use clap::Args;

use super::service;
use crate::cli::frame::{CommandContext, ExitCode, Line, TextStyle};
use crate::daemon;
use crate::doctor::{self, Check, Network, State};

/// Check git, gh, logins, agents, permissions and disk space
///
/// Prints one line per check: ok, warn or fail, followed by what to do about it. Changes nothing.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 no failures (there may be warnings), 1 a check failed, 3 the settings cannot be read \
(the other checks then use the defaults)."
)]
pub(crate) struct DoctorArgs {
    /// Do not use the network: skip GitHub and remotes
    #[arg(long)]
    offline: bool,
}

pub(crate) fn doctor(args: &DoctorArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let network = if args.offline {
        Network::LeaveAlone
    } else {
        Network::Ask
    };
    let (place, now) = (ctx.place().clone(), ctx.now);
    let runtime = daemon::runtime()?;
    let out = &mut ctx.out;
    let seen = runtime.block_on(doctor::look(&place, network, now, |waits_for| {
        out.progress(&waiting(waits_for));
    }));
    // A hanging disk blocks a thread; do not wait for it.
    runtime.shutdown_background();
    out.progress("");
    let mut seen = seen?;
    doctor::add_after_daemon(&mut seen.checks, service::checks(ctx));
    ctx.show(&seen.checks, |ctx, checks| print(ctx, checks))?;
    let fails = seen.checks.iter().any(|check| check.state == State::Fail);
    Ok(if seen.bad_settings.is_some() {
        ExitCode::Config
    } else if fails {
        ExitCode::Failed
    } else {
        ExitCode::Done
    })
}

fn waiting(names: &[&str]) -> String {
    if names.is_empty() {
        String::new()
    } else {
        format!("checking: {} …", names.join(", "))
    }
}

fn print(ctx: &mut CommandContext, checks: &[Check]) -> Result<()> {
    let wide = checks
        .iter()
        .map(|check| check.check.chars().count())
        .max()
        .unwrap_or(0);
    for check in checks {
        let look = match check.state {
            State::Ok => TextStyle::Good,
            State::Warn => TextStyle::Notice,
            State::Fail => TextStyle::Bad,
        };
        let (state, name) = (check.state.as_str(), &check.check);
        let head = Line::new()
            .piece(look, format!("{state:<4}"))
            .plain(format!("  {name:<wide$}  "));
        ctx.out.wrapped(head, 8 + wide, &check.says)?;
        if let Some(r#do) = &check.r#do {
            let head = Line::new()
                .plain(" ".repeat(8 + wide))
                .piece(TextStyle::Command, "→ ");
            ctx.out.wrapped(head, 10 + wide, r#do)?;
        }
    }
    let count = |state: State| checks.iter().filter(|check| check.state == state).count();
    let (ok, warned, failed) = (count(State::Ok), count(State::Warn), count(State::Fail));
    ctx.out.blank()?;
    ctx.out
        .line(Line::new().faint(format!("{ok} ok, {warned} with warnings, {failed} failed")))?;
    Ok(())
}
