//! `remand prompts`: shows the prompts for agents.

use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::cli::frame::{CommandContext, ExitCode, Table};
use crate::prompt::{Name, Prompts, Variable};

/// Show and check the prompts for agents
#[derive(Debug, Subcommand)]
pub(crate) enum PromptsCommand {
    /// List the prompts and the origin of each
    List,
    Show(ShowArgs),
    /// Check the templates of all prompts
    Check,
}

/// Print the template of a prompt
#[derive(Debug, Args)]
#[command(
    after_help = "Example, to customize a prompt:\n  remand prompts show fix > ~/.config/remand/prompts/fix.md"
)]
pub(crate) struct ShowArgs {
    /// Prompt: review, fix or again
    #[arg(value_name = "NAME", value_parser = |text: &str| text.parse::<Name>())]
    name: Name,

    /// List the variables of the template instead
    #[arg(long)]
    variables: bool,
}

#[derive(Serialize)]
struct PromptView<'a> {
    name: Name,
    origin: String,
    variables: &'a [Variable],
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

pub(crate) fn prompts(command: PromptsCommand, ctx: &mut CommandContext) -> Result<ExitCode> {
    let prompts = Prompts::load(ctx.settings()?.prompts.as_deref())?;
    match command {
        PromptsCommand::List => list(&prompts, ctx),
        PromptsCommand::Show(args) => one(&args, &prompts, ctx),
        PromptsCommand::Check => check(&prompts, ctx),
    }
}

fn shown(prompts: &Prompts) -> Vec<PromptView<'_>> {
    prompts
        .list()
        .map(|(name, origin, variables)| PromptView {
            name,
            origin: origin.to_string(),
            variables,
            text: None,
        })
        .collect()
}

fn list(prompts: &Prompts, ctx: &mut CommandContext) -> Result<ExitCode> {
    let all = shown(prompts);
    ctx.show(&all, |ctx, all| {
        let mut table = Table::new(&["PROMPT", "FROM"]);
        for one in all {
            table.row([one.name.as_str(), &one.origin]);
        }
        Ok(ctx.out.table(&table)?)
    })
}

fn one(args: &ShowArgs, prompts: &Prompts, ctx: &mut CommandContext) -> Result<ExitCode> {
    let text = prompts.source(args.name);
    for one in shown(prompts)
        .into_iter()
        .filter(|one| one.name == args.name)
    {
        if ctx.out.is_json() {
            ctx.out.json(&PromptView {
                text: Some(text),
                ..one
            })?;
        } else if args.variables {
            let mut table = Table::new(&["VARIABLE", "FIELDS", "DESCRIPTION"]);
            for variable in one.variables {
                table.row([variable.name, &variable.fields.join(" "), variable.says]);
            }
            ctx.out.table(&table)?;
        } else {
            ctx.out.block(text, 0)?;
        }
    }
    Ok(ExitCode::Done)
}

fn check(prompts: &Prompts, ctx: &mut CommandContext) -> Result<ExitCode> {
    let names: Vec<&str> = prompts.list().map(|(name, ..)| name.as_str()).collect();
    let value = serde_json::json!({ "ok": true, "prompts": names });
    ctx.show(&value, |ctx, _| Ok(ctx.out.ok(names.join(", "))?))
}
