//! `remand evaluators`: shows the evaluators that turn events into work, and the progress of each.

mod run_evaluator;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;

use crate::blackboard::{self as bb, EvaluatorRow, RequestError};
use crate::cli::frame::{CommandContext, CommandError, ExitCode, Line, Table, TextStyle};
use crate::clock::Time;
use crate::config;
use crate::diagnostic::nearest;
use crate::evaluator::{Config, Definition, definition};
use crate::human_time::{ago, ahead};
use crate::process;
use crate::text;

/// Number of firings of a schedule that `check` shows.
const FIRINGS: usize = 3;

/// Manage evaluators, the rules that turn events into work
#[derive(Debug, Subcommand)]
pub(crate) enum EvaluatorsCommand {
    /// List the active evaluators and the last event that each has read
    List,
    Show(ShowArgs),
    Check(CheckArgs),
    Run(run_evaluator::RunArgs),
}

/// Show one evaluator
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Name of the evaluator: its file name without `.toml`
    #[arg(value_name = "NAME")]
    name: String,
}

/// Check evaluator files and print when their schedules fire next
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Files to check, in any directory [default: all evaluators]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Serialize)]
struct EvaluatorView {
    name: String,
    kind: String,
    on: Vec<String>,
    needs: Vec<String>,
    schedule: Option<String>,
    /// Command line; only command evaluators have one.
    command: Option<Vec<String>>,
    limit_s: Option<u64>,
    origin: String,
    /// Id of the newest event that it has read.
    cursor: i64,
    last_run: Option<Time>,
    next_run: Option<Time>,
    /// Error of its last passes.
    trouble: Option<RequestError>,
}

pub(crate) fn evaluators(command: EvaluatorsCommand, ctx: &mut CommandContext) -> Result<ExitCode> {
    let settings = ctx.settings()?;
    if let EvaluatorsCommand::Check(CheckArgs { files }) = &command
        && !files.is_empty()
    {
        return check(&read_files(files, ctx)?, ctx);
    }
    let definitions = ctx.evaluators(&settings)?;
    match command {
        EvaluatorsCommand::Check(_) => check(&definitions, ctx),
        EvaluatorsCommand::Run(args) => run_evaluator::run(&args, &settings, &definitions, ctx),
        EvaluatorsCommand::List => {
            let all = shown(&definitions, ctx)?;
            ctx.show(&all, |ctx, all| print_list(ctx, all))
        }
        EvaluatorsCommand::Show(args) => one(&args.name, &shown(&definitions, ctx)?, ctx),
    }
}

fn shown(definitions: &[Definition], ctx: &CommandContext) -> Result<Vec<EvaluatorView>> {
    let (rows, troubles) = ctx.read(|conn| Ok((bb::evaluator_rows(conn)?, bb::troubles(conn)?)))?;
    let of = |definition: &Definition| {
        let mut troubles = troubles.iter();
        let trouble = troubles.find(|trouble| trouble.name == definition.name);
        EvaluatorView {
            trouble: trouble.cloned(),
            ..shown_one(definition, &rows, ctx.now)
        }
    };
    Ok(definitions.iter().map(of).collect())
}
fn shown_one(definition: &Definition, rows: &[EvaluatorRow], now: Time) -> EvaluatorView {
    let command = match &definition.config {
        Config::Command(command) => Some(command),
        Config::ReviewFeedback(_) | Config::PrFeedback => None,
    };
    let row = rows.iter().find(|row| row.name == definition.name);
    let schedule = definition.schedule.as_ref();
    let next = schedule.and_then(|schedule| schedule.next_after(now));
    EvaluatorView {
        name: definition.name.clone(),
        kind: definition.kind().to_string(),
        on: definition.on.iter().map(ToString::to_string).collect(),
        needs: definition.needs.iter().map(ToString::to_string).collect(),
        schedule: schedule.map(|one| format!("{} ({})", one.text(), one.zone())),
        command: command.map(|command| command.argv.clone()),
        limit_s: command.map(|command| command.limit.as_secs()),
        origin: definition.origin.to_string(),
        cursor: row.map_or(0, |row| row.cursor),
        last_run: row.and_then(|row| row.last_run),
        next_run: row.and_then(|row| row.next_run).or(next),
        trouble: None,
    }
}

fn read_files(files: &[PathBuf], ctx: &mut CommandContext) -> Result<Vec<Definition>> {
    let mut all = Vec::new();
    for file in files {
        match definition::load_file(file, ctx.now)? {
            Some(one) => all.push(one),
            None => ctx.out.note(format!("{} is disabled", file.display()))?,
        }
    }
    Ok(all)
}

/// Checks that all programs exist; otherwise this would only fail when the evaluator runs.
fn programs_are_there(definitions: &[Definition]) -> Result<()> {
    let env = config::agent_environment(&[]);
    let path = env.get("PATH").map(OsString::from);
    for definition in definitions {
        let Config::Command(command) = &definition.config else {
            continue;
        };
        let program = command.program(config::home().as_deref());
        let found = process::find(program.as_os_str(), path.as_deref(), &command.folder);
        if found.is_none_or(|found| !definition::is_program(&found)) {
            let (origin, program) = (&definition.origin, program.display());
            let what =
                format!("{origin}: the program `{program}` was not found or is not executable");
            let hint = "paths are relative to the directory of the evaluator's file; names are looked up in $PATH";
            return CommandError::config(what).fail_with_hint(hint);
        }
    }
    Ok(())
}

fn check(definitions: &[Definition], ctx: &mut CommandContext) -> Result<ExitCode> {
    programs_are_there(definitions)?;
    let names: Vec<&str> = definitions.iter().map(|one| one.name.as_str()).collect();
    // Firing times show whether a schedule means what its author intended.
    let firings = |one: &Definition| Some(one.schedule.as_ref()?.next(ctx.now, FIRINGS));
    let named = names.iter().copied().zip(definitions);
    let firings: BTreeMap<&str, Vec<Time>> = named
        .filter_map(|(name, one)| Some((name, firings(one)?)))
        .collect();
    let value = json!({ "ok": true, "evaluators": names, "next": firings });
    ctx.show(&value, |ctx, _| {
        ctx.out.ok(names.join(", "))?;
        for (name, times) in &firings {
            let line = format!("    {name} next fires at {}", text::list(times));
            ctx.out.line(line)?;
        }
        Ok(())
    })
}

fn print_list(ctx: &mut CommandContext, all: &[EvaluatorView]) -> Result<()> {
    if all.is_empty() {
        let note = "all evaluators are disabled: rejected work is not fixed";
        return Ok(ctx.out.note(note)?);
    }
    let mut table = Table::new(&["EVALUATOR", "ON", "SCHEDULE", "READ UP TO", "LAST", "FROM"]);
    for one in all {
        let last = one.last_run.map(|last| ago(last, ctx.now));
        let last = last.as_deref().unwrap_or("never");
        let schedule = one.schedule.as_deref().unwrap_or("-");
        let on = one.on.join(" ");
        let on = if on.is_empty() { "-" } else { &on };
        let cursor = format!("event {}", one.cursor);
        table.row([&one.name, on, schedule, &cursor, last, &one.origin]);
    }
    Ok(ctx.out.table(&table)?)
}

fn no_such<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> CommandError {
    let names: Vec<&str> = all.collect();
    let fail = CommandError::not_found(format!("there is no evaluator `{name}`"));
    match nearest(name, names.iter().copied()) {
        Some(near) => fail.hint(format!("did you mean `{near}`?")),
        None => fail.hint(format!("evaluators: {}", names.join(", "))),
    }
}

fn one(name: &str, all: &[EvaluatorView], ctx: &mut CommandContext) -> Result<ExitCode> {
    let Some(one) = all.iter().find(|one| one.name == name) else {
        return no_such(name, all.iter().map(|one| one.name.as_str())).fail();
    };
    ctx.show(one, print_one)
}

fn print_one(ctx: &mut CommandContext, one: &EvaluatorView) -> Result<()> {
    ctx.out.line(Line::new().strong(&one.name))?;
    ctx.field("kind", &one.kind)?;
    ctx.field("on", one.on.join(", "))?;
    ctx.field("needs", one.needs.join(", "))?;
    ctx.field_if("schedule", one.schedule.as_ref())?;
    ctx.field_if("command", one.command.as_ref().map(|words| words.join(" ")))?;
    ctx.field_if("limit", one.limit_s.map(|limit| format!("{limit} s")))?;
    ctx.field("read up to", format!("event {}", one.cursor))?;
    ctx.field_if("last", one.last_run.map(|last| ago(last, ctx.now)))?;
    ctx.field_if("next", one.next_run.map(|next| ahead(next, ctx.now)))?;
    ctx.field("from", &one.origin)?;
    if let Some(trouble) = &one.trouble {
        let since = ago(trouble.since, ctx.now);
        let again = ahead(trouble.try_again, ctx.now);
        let told = format!("{} (since {since}, next attempt {again})", trouble.reason);
        let line = Line::new().plain("error      ").piece(TextStyle::Bad, told);
        ctx.out.line(line)?;
    }
    Ok(())
}
