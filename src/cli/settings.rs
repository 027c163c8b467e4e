//! `remand config`: shows the settings in effect, and the origin of each.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::blackboard as bb;
use crate::cli::frame::{CommandContext, CommandError, ExitCode, Line, Table, TextStyle};
use crate::config::{self, Loaded};
use crate::daemon::InForce;
use crate::prompt::Prompts;

/// Show and check the settings
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    Show(ShowArgs),
    /// Check the settings, the evaluators and the prompts
    Check,
    /// Print the path of the config file
    Path,
    /// Print all settings with their defaults and descriptions, as a config file
    #[command(after_help = "Example:\n  remand config defaults > ~/.config/remand/config.toml")]
    Defaults,
}

/// Show all settings in effect and the origin of each
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Show only settings whose names start with KEY, such as `loop`
    #[arg(value_name = "KEY")]
    key: Option<String>,
}

#[derive(Serialize)]
struct SettingsView {
    key: String,
    /// Value as TOML.
    value: String,
    origin: String,
    /// Value in the running daemon, as TOML; `None` if no daemon runs with this file.
    in_force: Option<String>,
}

#[derive(Serialize)]
struct Where {
    /// `None` if nothing names one and HOME is not set.
    config: Option<String>,
    exists: bool,
    /// `None` if it cannot be determined because the file is invalid.
    blackboard: Option<String>,
}

#[derive(Serialize)]
struct Checked {
    ok: bool,
    config: Option<String>,
    /// Likely mistakes that are not errors.
    warnings: Vec<String>,
    /// True if the running daemon uses these settings; `None` if no daemon is running.
    in_force: Option<bool>,
}

pub(crate) fn settings(command: ConfigCommand, ctx: &mut CommandContext) -> Result<ExitCode> {
    match command {
        ConfigCommand::Show(args) => show(&args, ctx),
        ConfigCommand::Check => check(ctx),
        ConfigCommand::Path => path(ctx),
        ConfigCommand::Defaults => defaults(ctx),
    }
}

fn show(args: &ShowArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let wanted = |key: &str| {
        let rest = |start: &String| key.strip_prefix(start.as_str());
        let start = args.key.as_ref();
        start.is_none_or(|start| {
            rest(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let settings = ctx.settings()?;
    let (in_force, row) = in_force(ctx, &settings);
    let known = row
        .filter(|_| matches!(in_force, InForce::Yes { .. } | InForce::No { .. }))
        .map_or_else(BTreeMap::new, |row| row.settings);
    let settings = settings.explain().into_iter();
    let shown: Vec<SettingsView> = settings
        .filter(|setting| wanted(&setting.key))
        .map(|setting| SettingsView {
            in_force: known.get(&setting.key).cloned(),
            key: setting.key,
            value: setting.value,
            origin: setting.origin.to_string(),
        })
        .collect();
    if let (Some(key), true) = (&args.key, shown.is_empty()) {
        return CommandError::not_found(format!("no such setting: `{key}`"))
            .fail_with_hint("`remand config show` lists all settings");
    }
    ctx.show(&shown, |ctx, shown| print(ctx, shown, &in_force))
}

fn print(ctx: &mut CommandContext, shown: &[SettingsView], in_force: &InForce) -> Result<()> {
    let mut table = Table::new(&["KEY", "VALUE", "FROM"]);
    for setting in shown {
        table.row([&setting.key, &setting.value, &setting.origin]);
    }
    ctx.out.table(&table)?;
    tell_in_force(ctx, in_force)?;
    for setting in shown {
        let other = setting.in_force.as_ref();
        if let Some(value) = other.filter(|value| **value != setting.value) {
            ctx.out
                .note(format!("  in effect: {} = {value}", setting.key))?;
        }
    }
    Ok(())
}

/// Compares the settings with those of the running daemon. An unreadable blackboard is not an error
/// in the settings.
fn in_force(ctx: &CommandContext, settings: &Loaded) -> (InForce, Option<bb::Configuration>) {
    let row = ctx.read_there(settings, bb::configuration);
    let row = row.unwrap_or_default();
    (InForce::of(settings, row.as_ref()), row)
}

fn tell_in_force(ctx: &mut CommandContext, in_force: &InForce) -> Result<()> {
    // The next daemon reads them, so there is nothing to report.
    if *in_force == InForce::NoDaemon {
        return Ok(());
    }
    let look = match in_force.is_in_force() {
        Some(false) => TextStyle::Notice,
        Some(true) | None => TextStyle::Plain,
    };
    let mut line = Line::new().piece(look, in_force.sentence());
    if let Some(command) = in_force.command() {
        line = line.plain(": ").command(command);
    }
    Ok(ctx.out.note(line)?)
}

fn check(ctx: &mut CommandContext) -> Result<ExitCode> {
    let settings = ctx.settings()?;
    ctx.evaluators(&settings)?;
    Prompts::load(settings.prompts.as_deref())?;
    let config = settings.file_text();
    // An unreadable blackboard is not an error in the settings: `check` and `doctor` report it.
    let strays = known_projects(ctx, &settings)
        .map(|known| settings.strays(&known))
        .unwrap_or_default();
    let (in_force, _) = in_force(ctx, &settings);
    let warnings = strays.iter();
    let warnings = warnings.map(|stray| format!("{}: {}", stray.what, stray.hint));
    let checked = Checked {
        ok: true,
        config,
        warnings: warnings.collect(),
        in_force: in_force.is_in_force(),
    };
    ctx.show(&checked, |ctx, checked| {
        for stray in &strays {
            ctx.out.warning(&stray.what)?;
            ctx.out.hint(&stray.hint)?;
        }
        let config = checked.config.as_deref();
        ctx.out
            .ok(config.unwrap_or("no config file: using the defaults"))?;
        tell_in_force(ctx, &in_force)
    })
}

fn known_projects(ctx: &CommandContext, settings: &Loaded) -> Result<Vec<String>> {
    let known = ctx.read_there(settings, bb::list_projects)?.into_iter();
    Ok(known.map(|known| known.project_id.to_string()).collect())
}

/// Prints the path. This also works for an invalid file: people who have to edit it must find it.
fn path(ctx: &mut CommandContext) -> Result<ExitCode> {
    let loaded = ctx.settings();
    let file = config::file_to_write(ctx.place());
    let exists = file.as_ref().is_some_and(|file| file.is_file());
    let config = file.map(|file| file.display().to_string());
    let blackboard = match &loaded {
        Ok(settings) => Some(settings.blackboard.clone()),
        Err(_) => config::blackboard_despite(ctx.place()),
    };
    let value = Where {
        config,
        exists,
        blackboard: blackboard.map(|path| path.display().to_string()),
    };
    ctx.show(&value, |ctx, value| {
        ctx.out.line(value.config.as_deref().unwrap_or_default())?;
        let note = match (exists, loaded.is_ok()) {
            (true, true) => return Ok(()),
            (true, false) => "it is invalid; `remand config check` shows the error",
            (false, true) => "it does not exist, so the defaults apply; `remand init` creates it",
            (false, false) => "it does not exist; `remand init` creates it",
        };
        Ok(ctx.out.note(format!("note: {note}"))?)
    })
}

fn defaults(ctx: &mut CommandContext) -> Result<ExitCode> {
    let text = config::default_text();
    let value = serde_json::json!({ "text": text });
    ctx.show(&value, |ctx, _| Ok(ctx.out.block(text, 0)?))
}
