//! `remand evaluators`: what turns events into work, and how far each of them is.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;

use super::age::{ago, ahead};
use super::desk::Desk;
use super::fail::{Code, Fail};
use super::out::{Line, Look, Table};
use super::picture::field;
use crate::blackboard::{self as bb, EvaluatorRow};
use crate::clock::Time;
use crate::evaluator::Definition;
use crate::snippet::nearest;

/// How many firings of a schedule `check` shows.
const FIRINGS: usize = 3;

/// The evaluators: what turns events into work
#[derive(Debug, Subcommand)]
pub(crate) enum EvaluatorsCommand {
    List(ListArgs),
    Show(ShowArgs),
    Check(CheckArgs),
}

/// Show the evaluators in force and how far each is
#[derive(Debug, Args)]
pub(crate) struct ListArgs {}

/// Show one evaluator
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Its name, which is its file's without `.toml`
    #[arg(value_name = "NAME")]
    name: String,
}

/// Check the files of all evaluators
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {}

#[derive(Serialize)]
struct Shown {
    name: String,
    kind: String,
    on: Vec<String>,
    needs: Vec<String>,
    schedule: Option<String>,
    origin: String,
    /// The newest event that it took in.
    cursor: i64,
    last_run: Option<Time>,
    next_run: Option<Time>,
}

pub(crate) fn evaluators(command: EvaluatorsCommand, desk: &mut Desk) -> Result<Code> {
    let settings = desk.settings()?;
    let definitions = desk.evaluators(&settings)?;
    match command {
        EvaluatorsCommand::Check(_) => check(&definitions, desk),
        EvaluatorsCommand::List(_) => list(&shown(definitions, desk)?, desk),
        EvaluatorsCommand::Show(args) => one(&args.name, &shown(definitions, desk)?, desk),
    }
}

fn shown(definitions: Vec<Definition>, desk: &Desk) -> Result<Vec<Shown>> {
    let rows = desk.read(bb::evaluator_rows)?;
    let now = desk.now;
    Ok(definitions.into_iter().map(|definition| shown_one(&definition, &rows, now)).collect())
}

fn shown_one(definition: &Definition, rows: &[EvaluatorRow], now: Time) -> Shown {
    let row = rows.iter().find(|row| row.name == definition.name);
    let next = definition.schedule.as_ref().and_then(|schedule| schedule.next_after(now));
    Shown {
        name: definition.name.clone(),
        kind: definition.kind().to_string(),
        on: definition.on.iter().map(ToString::to_string).collect(),
        needs: definition.needs.iter().map(ToString::to_string).collect(),
        schedule: definition.schedule.as_ref().map(|schedule| format!("{} ({})", schedule.text(), schedule.zone())),
        origin: definition.origin.to_string(),
        cursor: row.map_or(0, |row| row.cursor),
        last_run: row.and_then(|row| row.last_run),
        next_run: row.and_then(|row| row.next_run).or(next),
    }
}

fn check(definitions: &[Definition], desk: &mut Desk) -> Result<Code> {
    let names: Vec<&str> = definitions.iter().map(|definition| definition.name.as_str()).collect();
    // A schedule that does not mean what its author meant shows in when it fires.
    let firings: BTreeMap<&str, Vec<Time>> = definitions
        .iter()
        .filter_map(|definition| {
            Some((definition.name.as_str(), definition.schedule.as_ref()?.next(desk.now, FIRINGS)))
        })
        .collect();
    if desk.out.is_json() {
        desk.out.json(&serde_json::json!({ "ok": true, "evaluators": names, "next": firings }))?;
        return Ok(Code::Done);
    }
    desk.out.line(Line::default().piece(Look::Good, "ok").plain(format!("  {}", names.join(", "))))?;
    for (name, times) in firings {
        let times: Vec<String> = times.iter().map(ToString::to_string).collect();
        desk.out.line(format!("    {name} fires next at {}", times.join(", ")))?;
    }
    Ok(Code::Done)
}

fn list(all: &[Shown], desk: &mut Desk) -> Result<Code> {
    if desk.out.is_json() {
        desk.out.json(&all)?;
        return Ok(Code::Done);
    }
    if all.is_empty() {
        desk.out.note("every evaluator is switched off: rejected work goes nowhere")?;
        return Ok(Code::Done);
    }
    let mut table = Table::new(&["EVALUATOR", "ON", "SCHEDULE", "TAKEN IN", "LAST", "FROM"]);
    for one in all {
        let last = one.last_run.map_or_else(|| "never".to_owned(), |last| ago(last, desk.now));
        let schedule = one.schedule.as_deref().unwrap_or("-");
        let on = if one.on.is_empty() { "-".to_owned() } else { one.on.join(" ") };
        table.row([&one.name, &on, schedule, &format!("event {}", one.cursor), &last, &one.origin]);
    }
    desk.out.table(&table)?;
    Ok(Code::Done)
}

fn one(name: &str, all: &[Shown], desk: &mut Desk) -> Result<Code> {
    let Some(one) = all.iter().find(|one| one.name == name) else {
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        let fail = Fail::not_found(format!("there is no evaluator `{name}`"));
        return Err(match nearest(name, names.iter().copied()) {
            Some(near) => fail.hint(format!("did you mean `{near}`?")),
            None => fail.hint(format!("evaluators: {}", names.join(", "))),
        }
        .into());
    };
    if desk.out.is_json() {
        desk.out.json(one)?;
        return Ok(Code::Done);
    }
    desk.out.line(Line::default().strong(&one.name))?;
    field(desk, "kind", &one.kind)?;
    field(desk, "on", one.on.join(", "))?;
    field(desk, "needs", one.needs.join(", "))?;
    field(desk, "schedule", one.schedule.as_deref().unwrap_or_default())?;
    field(desk, "taken in", format!("event {}", one.cursor))?;
    field(desk, "last", one.last_run.map(|last| ago(last, desk.now)).unwrap_or_default())?;
    field(desk, "next", one.next_run.map(|next| ahead(next, desk.now)).unwrap_or_default())?;
    field(desk, "from", &one.origin)?;
    Ok(Code::Done)
}
