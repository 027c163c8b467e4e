//! `remand reload`: applies a changed configuration now. Also prints warnings about one that is not
//! in effect.

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};

use super::stop::whatever_the_settings_say;
use crate::blackboard as bb;
use crate::cli::frame::{CommandContext, CommandError, ExitCode, Line, TextStyle, wait};
use crate::config::explain::Difference;
use crate::daemon;
use crate::diagnostic::title;
use crate::event::{Event, EventType};
use crate::explain::not_in_force_command;

/// Maximum time to wait for the answer of the daemon.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// Apply a changed configuration now
///
/// The daemon loads changed settings, evaluators and prompts automatically if they are valid and have been stable for
/// 2 seconds. A file that is now empty, or that removes a gate, a forbidden path, secret scanning or the sandbox,
/// is applied only by this command. Until then, the old settings remain in effect and nothing is pushed.
#[derive(Debug, Args)]
#[command(
    after_help = "Prints what changed and the daemon's answer. Running agents are not interrupted; their gates and pushes use the \
new settings.\n\nExit codes: 0 applied, 1 no daemon is running or the daemon does not answer, 3 refused."
)]
pub(crate) struct ReloadArgs {}

/// Answer of the daemon, as recorded in its event.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct ReloadReport {
    applied: bool,
    config: Option<String>,
    changed: Vec<Difference>,
    /// Number of further changed settings.
    more: usize,
    files: Vec<String>,
    /// Changed settings that need a restart.
    kept: Vec<String>,
    /// Safeguards that were removed.
    weaker: Vec<String>,
    /// Reason for refusing the configuration.
    reason: Option<String>,
}

pub(crate) fn reload(_args: &ReloadArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    whatever_the_settings_say(ctx)?;
    let blackboard = ctx.settings()?.blackboard;
    if daemon::holder(&blackboard).is_none() {
        let what = format!("no daemon is running on {}", blackboard.display());
        return CommandError::new(what)
            .fail_with_hint("`remand run` reads the configuration when it starts");
    }
    let request = ctx.write("reload", |conn, step| {
        bb::request_reload(conn, &step.actor, step.now)
    })?;
    let Some(event) = answer(ctx, request)? else {
        let what = format!("the daemon has not answered within {} s", LIMIT.as_secs());
        return CommandError::new(what)
            .fail_with_hint("`remand status` shows whether it is running");
    };
    let told = told(&event);
    ctx.show(&told, print)?;
    Ok(if told.applied {
        ExitCode::Done
    } else {
        ExitCode::Config
    })
}

fn answer(ctx: &CommandContext, request: i64) -> Result<Option<Event>> {
    let mut board = ctx.board()?;
    wait(async {
        let begun = Instant::now();
        loop {
            let answer = board.read(|conn| bb::reload_answer(conn, request))?;
            if answer.is_some() || begun.elapsed() > LIMIT {
                return Ok(answer);
            }
            tokio::time::sleep(LOOK).await;
        }
    })?
}

fn told(event: &Event) -> ReloadReport {
    let mut told: ReloadReport = serde_json::from_value(event.metadata.clone()).unwrap_or_default();
    told.applied = event.event_type == EventType::Reloaded;
    if !told.applied && told.reason.is_none() {
        told.reason = Some(event.summary.clone());
    }
    told
}

fn print(ctx: &mut CommandContext, told: &ReloadReport) -> Result<()> {
    if let Some(reason) = &told.reason {
        ctx.out.line(
            Line::new()
                .piece(TextStyle::Bad, "refused")
                .plain("  the old settings remain in effect"),
        )?;
        ctx.out.block(reason, 2)?;
        return Ok(());
    }
    let file = told
        .config
        .as_deref()
        .unwrap_or("no config file: using the defaults");
    ctx.out.line(
        Line::new()
            .piece(TextStyle::Good, "applied")
            .plain(format!("  {file}")),
    )?;
    if told.changed.is_empty() && told.files.is_empty() {
        ctx.out.line("  nothing changed")?;
    }
    for one in &told.changed {
        let value = |text: &Option<String>| text.clone().unwrap_or_else(|| "(not set)".to_owned());
        ctx.out.line(format!(
            "  {}: {} → {}",
            one.key,
            value(&one.from),
            value(&one.to)
        ))?;
    }
    if told.more > 0 {
        ctx.out.line(format!("  and {} more", told.more))?;
    }
    for name in told.files.iter().filter(|name| name.contains('/')) {
        ctx.out.line(format!("  {name}"))?;
    }
    for one in &told.weaker {
        ctx.out
            .line(Line::new().piece(TextStyle::Notice, "  note: ").plain(one))?;
    }
    if !told.kept.is_empty() {
        ctx.out.line(format!(
            "  takes effect after a restart of the daemon: {}",
            told.kept.join(", ")
        ))?;
    }
    Ok(())
}

/// Returns a changed configuration that the daemon does not use, for the board and `status`.
pub(crate) fn not_in_force(ctx: &CommandContext) -> Result<Option<bb::Changed>> {
    let is_running = daemon::holder(&ctx.settings()?.blackboard).is_some();
    let row = ctx.read(bb::configuration)?;
    Ok(row.and_then(|row| row.changed).filter(|_| is_running))
}

/// Prints that a changed configuration is not in effect, before the output of a command.
pub(crate) fn banner(ctx: &mut CommandContext) -> Result<()> {
    if let Some(changed) = not_in_force(ctx)? {
        let line = Line::new().remedy(sentence(&changed), not_in_force_command(&changed));
        ctx.out.note(line)?;
    }
    Ok(())
}

pub(crate) fn sentence(changed: &bb::Changed) -> String {
    format!(
        "a changed configuration is not in effect, and nothing is pushed: {}",
        title(&changed.reason)
    )
}
