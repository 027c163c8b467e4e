//! `remand --help` and `remand help`: the commands, grouped by purpose.

use anyhow::Result;
use clap::builder::styling::Styles;
use clap::{Args, Command, CommandFactory as _};
use serde_json::json;

use super::Cli;
use super::man::named;
use crate::cli::frame::{CommandContext, ExitCode, Format, Ui};

/// All commands, grouped, in the order in which they are usually needed.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Start",
        &[
            "demo", "init", "doctor", "project", "add", "wait", "watch", "review", "run", "tick",
            "work",
        ],
    ),
    (
        "Look",
        &[
            "list", "status", "why", "show", "diff", "log", "events", "stats",
        ],
    ),
    (
        "Decide",
        &[
            "approve", "reject", "refine", "comment", "waive", "verdict", "skip", "ready", "retry",
            "budget", "cycles", "cancel", "reopen",
        ],
    ),
    (
        "Stop and continue",
        &[
            "takeover", "handback", "pause", "resume", "stop", "start", "shadow", "post",
        ],
    ),
    (
        "Administer",
        &[
            "config",
            "reload",
            "service",
            "backup",
            "prune",
            "worktrees",
            "check",
            "item",
            "evaluators",
            "prompts",
            "read-review",
            "completions",
            "man",
            "help",
        ],
    ),
];

/// Width of the help without a terminal, and its maximum.
const WIDTH: usize = 100;

/// Print the help for a command
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  remand help\n  remand help project add")]
pub(crate) struct HelpArgs {
    /// Command, such as `status` or `item add` [default: list all commands]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn help(args: &HelpArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let mut root = command();
    // Sets the full names of the subcommands and adds the global options.
    root.build();
    let found = named(&root, &args.command)?;
    let name = found.get_display_name().unwrap_or("remand").to_owned();
    // Prints the same text as the option.
    let words = [
        &["remand".to_owned()],
        &args.command[..],
        &["--help".to_owned()],
    ]
    .concat();
    let Err(shown) = command().try_get_matches_from(words) else {
        return Ok(ExitCode::Done);
    };
    if ctx.out.is_json() {
        let text = shown.render().to_string();
        ctx.out.json(&json!({ "command": name, "text": text }))?;
    } else {
        shown.print()?;
    }
    Ok(ExitCode::Done)
}

/// Builds the command line with a help that groups the commands: clap does not support groups.
pub(crate) fn command() -> Command {
    let command = Cli::command();
    let width = Ui::new(Format::Text).width();
    let template = template(&command, width.unwrap_or(WIDTH).min(WIDTH));
    command.help_template(template)
}

fn template(command: &Command, width: usize) -> String {
    let styles = Styles::styled();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut text = String::from("{before-help}{about-with-newline}\n{usage-heading} {usage}\n\n");
    let names = GROUPS.iter().flat_map(|(_, names)| *names);
    let column = names.map(|name| name.len()).max().unwrap_or_default();
    let indent = format!("{:1$}", "", column + 4);
    for (group, names) in GROUPS {
        text.push_str(&format!("{header}{group}:{header:#}\n"));
        for name in *names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let room = width.saturating_sub(column + 4).max(20);
            let about = textwrap::wrap(&about, room).join(&format!("\n{indent}"));
            text.push_str(&format!("  {literal}{name:<column$}{literal:#}  {about}\n"));
        }
        text.push('\n');
    }
    text.push_str(&format!(
        "{header}Options:{header:#}\n{{options}}{{after-help}}"
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        grouped.sort_unstable();
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
        let mut known: Vec<&str> = shown.map(Command::get_name).collect();
        known.sort_unstable();
        assert_eq!(grouped, known);
    }
}
