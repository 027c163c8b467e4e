//! `remand config`: the settings as they hold, and where each comes from.

use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::blackboard as bb;
use crate::cli::frame::context::CommandContext;
use crate::cli::frame::error::ExitCode;
use crate::cli::frame::ui::{Line, Table, TextStyle};
use crate::config::{self, Loaded};
use crate::daemon::InForce;
use crate::prompt::Prompts;

/// The settings: what holds, and where it comes from
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    Show(ShowArgs),
    Check(NoArgs),
    Path(PathArgs),
    Defaults(DefaultsArgs),
}

/// Show every setting that holds, and where it comes from
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Only those whose name begins with KEY, such as `loop`
    #[arg(value_name = "KEY")]
    key: Option<String>,
}

/// Check the settings, the evaluators and the prompts, without using them
#[derive(Debug, Args)]
pub(crate) struct NoArgs {}

/// Show where the config file is, or would be
#[derive(Debug, Args)]
pub(crate) struct PathArgs {}

/// Print every setting with its default and what it means, as a config file
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  remand config defaults > ~/.config/remand/config.toml")]
pub(crate) struct DefaultsArgs {}

#[derive(Serialize)]
struct SettingsView {
    key: String,
    /// As TOML.
    value: String,
    origin: String,
    /// As TOML, in the running daemon; none: no daemon runs with this file.
    in_force: Option<String>,
}

#[derive(Serialize)]
struct Where {
    /// None where nothing names one and HOME is not set.
    config: Option<String>,
    exists: bool,
    /// None where it cannot be told from a file that is broken.
    blackboard: Option<String>,
}

#[derive(Serialize)]
struct Text<'a> {
    text: &'a str,
}

#[derive(Serialize)]
struct Checked {
    ok: bool,
    config: Option<String>,
    /// What may be meant otherwise, and stops nothing.
    warnings: Vec<String>,
    /// Whether the running daemon uses them; none: no daemon runs.
    in_force: Option<bool>,
}

pub(crate) fn settings(command: ConfigCommand, ctx: &mut CommandContext) -> Result<ExitCode> {
    match command {
        ConfigCommand::Show(args) => show(&args, ctx),
        ConfigCommand::Check(_) => check(ctx),
        ConfigCommand::Path(_) => path(ctx),
        ConfigCommand::Defaults(_) => defaults(ctx),
    }
}

fn show(args: &ShowArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let wanted = |key: &str| {
        args.key.as_deref().is_none_or(|start| {
            key == start
                || key
                    .strip_prefix(start)
                    .is_some_and(|rest| rest.starts_with('.'))
        })
    };
    let settings = ctx.settings()?;
    let (in_force, row) = in_force(ctx, &settings);
    let known = row
        .filter(|_| matches!(in_force, InForce::Yes { .. } | InForce::No { .. }))
        .map(|row| row.settings);
    let shown: Vec<SettingsView> = settings
        .explain()
        .into_iter()
        .filter(|setting| wanted(&setting.key))
        .map(|setting| SettingsView {
            in_force: known
                .as_ref()
                .and_then(|known| known.get(&setting.key).cloned()),
            key: setting.key,
            value: setting.value,
            origin: setting.origin.to_string(),
        })
        .collect();
    if let (Some(key), true) = (&args.key, shown.is_empty()) {
        let fail = crate::cli::frame::error::CommandError::not_found(format!(
            "there is no setting `{key}`"
        ));
        return Err(fail.hint("`remand config show` lists them all").into());
    }
    if ctx.out.is_json() {
        ctx.out.json(&shown)?;
        return Ok(ExitCode::Done);
    }
    let mut table = Table::new(&["KEY", "VALUE", "FROM"]);
    for setting in &shown {
        table.row([&setting.key, &setting.value, &setting.origin]);
    }
    ctx.out.table(&table)?;
    tell_in_force(ctx, &in_force)?;
    for setting in shown.iter().filter(|setting| {
        setting
            .in_force
            .as_ref()
            .is_some_and(|value| *value != setting.value)
    }) {
        let value = setting.in_force.as_deref().unwrap_or_default();
        ctx.out
            .note(format!("  in force: {} = {value}", setting.key))?;
    }
    Ok(ExitCode::Done)
}

/// How they relate to those of the running daemon. A blackboard that can't be read is no fault of the settings.
fn in_force(ctx: &CommandContext, settings: &Loaded) -> (InForce, Option<bb::Configuration>) {
    let read = || -> Result<Option<bb::Configuration>> {
        let Some(mut board) = ctx.board_there(settings)? else {
            return Ok(None);
        };
        Ok(board.read(bb::configuration)?)
    };
    let row = read().unwrap_or_default();
    (InForce::of(settings, row.as_ref()), row)
}

fn tell_in_force(ctx: &mut CommandContext, in_force: &InForce) -> Result<()> {
    // The next daemon reads them: there is nothing to report.
    if *in_force == InForce::NoDaemon {
        return Ok(());
    }
    let look = if in_force.is_in_force() == Some(false) {
        TextStyle::Notice
    } else {
        TextStyle::Plain
    };
    let line = Line::default().piece(look, in_force.sentence());
    let line = in_force
        .command()
        .map_or(line.clone(), |command| line.plain(": ").command(command));
    ctx.out.note(line)?;
    Ok(())
}

fn check(ctx: &mut CommandContext) -> Result<ExitCode> {
    let settings = ctx.settings()?;
    ctx.evaluators(&settings)?;
    Prompts::load(settings.prompts.as_deref())?;
    let config = settings
        .file
        .as_ref()
        .map(|file| file.display().to_string());
    // A blackboard that can't be read is no fault of the settings: `check` and `doctor` say what is wrong with it.
    let strays = known_projects(ctx, &settings)
        .map(|known| settings.strays(&known))
        .unwrap_or_default();
    let (in_force, _) = in_force(ctx, &settings);
    if ctx.out.is_json() {
        let warnings = strays
            .iter()
            .map(|stray| format!("{}: {}", stray.what, stray.hint))
            .collect();
        let in_force = in_force.is_in_force();
        ctx.out.json(&Checked {
            ok: true,
            config,
            warnings,
            in_force,
        })?;
        return Ok(ExitCode::Done);
    }
    for stray in &strays {
        ctx.out.note(
            Line::default()
                .piece(TextStyle::Notice, "warning:")
                .plain(" ")
                .plain(&stray.what),
        )?;
        ctx.out.note(
            Line::default()
                .piece(TextStyle::Command, "hint:")
                .plain(" ")
                .plain(&stray.hint),
        )?;
    }
    let what = config.unwrap_or_else(|| "there is no config file: the defaults hold".into());
    ctx.out.line(
        Line::default()
            .piece(TextStyle::Good, "ok")
            .plain(format!("  {what}")),
    )?;
    tell_in_force(ctx, &in_force)?;
    Ok(ExitCode::Done)
}

fn known_projects(ctx: &CommandContext, settings: &Loaded) -> Result<Vec<String>> {
    let Some(mut board) = ctx.board_there(settings)? else {
        return Ok(Vec::new());
    };
    let known = board.read(bb::list_projects)?;
    Ok(known
        .into_iter()
        .map(|project| project.project_id.to_string())
        .collect())
}

/// Works with a file that cannot be used too: whoever has to edit it must find it.
fn path(ctx: &mut CommandContext) -> Result<ExitCode> {
    let loaded = ctx.settings();
    let file = config::file_to_write(ctx.place());
    let exists = file.as_ref().is_some_and(|file| file.is_file());
    let config = file.map(|file| file.display().to_string());
    if ctx.out.is_json() {
        let blackboard = match &loaded {
            Ok(settings) => Some(settings.blackboard.clone()),
            Err(_) => config::blackboard_despite(ctx.place()),
        };
        let blackboard = blackboard.map(|path| path.display().to_string());
        ctx.out.json(&Where {
            config,
            exists,
            blackboard,
        })?;
        return Ok(ExitCode::Done);
    }
    ctx.out.line(config.unwrap_or_default())?;
    match (exists, loaded.is_ok()) {
        (true, true) => {}
        (true, false) => ctx
            .out
            .note("note: it cannot be used; `remand config check` says why")?,
        (false, true) => {
            ctx.out
                .note("note: it is not there, and the defaults hold; `remand init` writes one")?;
        }
        (false, false) => ctx
            .out
            .note("note: it is not there; `remand init` writes one")?,
    }
    Ok(ExitCode::Done)
}

fn defaults(ctx: &mut CommandContext) -> Result<ExitCode> {
    if ctx.out.is_json() {
        ctx.out.json(&Text {
            text: config::default_text(),
        })?;
    } else {
        ctx.out.block(config::default_text(), 0)?;
    }
    Ok(ExitCode::Done)
}
