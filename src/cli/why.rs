//! `remand why`: one answer first, then the events that led there.

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::shadow;
use super::show::{Thing, find};
use super::status::moved;
use crate::blackboard::{self as bb, Conn};
use crate::change::{Change, ChangeId, FixBound};
use crate::cli::frame::context::CommandContext;
use crate::cli::frame::error::ExitCode;
use crate::cli::frame::running_daemon;
use crate::cli::frame::ui::{Line, Table, TextStyle};
use crate::cli::view::print_change::print_answer;
use crate::event::Event;
use crate::explain::{self, Around, ChangeView, Explanation, led_here};
use crate::human_time::ago;

/// How many events are shown.
const EVENTS: usize = 12;

/// Say what something waits for, or why it stopped, since when, and what to type
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  remand why c3       a change: what is it waiting for?\n  \
remand why w7       an item: why does it not run?\n  remand why 118      an event: what came of it?\n  \
remand why ada/engine#7       a PR: why is it not taken over?"
)]
pub(crate) struct WhyArgs {
    /// The id: of a change (or its branch, worktree or PR), a PR (owner/repo#7), an item, a run, a review, a rejection, a finding, an event
    #[arg(value_name = "ID")]
    id: String,
}

#[derive(Serialize)]
struct WhyReport {
    id: String,
    #[serde(flatten)]
    answer: Explanation,
    /// The change's own answer, when the id names something else.
    change: Option<OfChange>,
    /// How many fixes a round of the change may take.
    fix_bound: Option<FixBound>,
    events: Vec<Event>,
}

#[derive(Serialize)]
struct OfChange {
    change_id: ChangeId,
    #[serde(flatten)]
    answer: Explanation,
}

pub(crate) fn why(args: &WhyArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let thing = find(ctx, &args.id)?;
    let around = ctx.around()?;
    let report = ctx.read(|conn| report(conn, &thing, around))?;
    if ctx.out.is_json() {
        ctx.out.json(&report)?;
        return Ok(ExitCode::Done);
    }
    ctx.out.line(Line::default().strong(&report.id))?;
    print_answer(ctx, &report.answer)?;
    if let Thing::Change(change) = &thing
        && let Some(moved) = moved(ctx, change)?
    {
        ctx.out
            .line(Line::default().plain("  ").piece(TextStyle::Notice, moved))?;
    }
    if let Some(rest) = &report.change {
        ctx.out
            .line(Line::default().strong(rest.change_id.as_str()))?;
        print_answer(ctx, &rest.answer)?;
    }
    let about = match (&thing, &report.change) {
        (Thing::Change(change), _) => Some(change.change_id.clone()),
        (_, rest) => rest.as_ref().map(|rest| rest.change_id.clone()),
    };
    if let Some(id) = about
        && let Some(unread) = shadow::unread(ctx, &ctx.read(|conn| bb::change(conn, &id))?)?
    {
        ctx.out
            .line(Line::default().plain("  ").piece(TextStyle::Notice, unread))?;
    }
    if let Some(bound) = &report.fix_bound {
        let text = format!("fixes per round: at most {} ({})", bound.most, bound.from);
        ctx.out.line(Line::default().plain("  ").faint(text))?;
    }
    running_daemon::elsewhere_note(ctx)?;
    if !report.events.is_empty() {
        ctx.out.blank()?;
        let mut table = Table::new(&["EVENT", "WHEN", "TYPE", "BY", "WHAT"]);
        for event in &report.events {
            let (id, when) = (event.id.to_string(), ago(event.timestamp, ctx.now));
            table.row([
                &id,
                &when,
                event.event_type.as_str(),
                &event.actor_id,
                &event.summary,
            ]);
        }
        ctx.out.table(&table)?;
    }
    Ok(ExitCode::Done)
}

fn report(conn: &Conn, thing: &Thing, around: Around) -> bb::Result<WhyReport> {
    let (id, own, change_id) = match thing {
        Thing::Change(change) => {
            let id = &change.change_id;
            let view = view(conn, id, around)?;
            return Ok(WhyReport {
                id: id.to_string(),
                fix_bound: fix_bound(conn, view.change())?,
                answer: view.why,
                change: None,
                events: led_here(conn, id, EVENTS)?,
            });
        }
        Thing::Item(item) => (
            item.item_id.to_string(),
            explain::item(item),
            item.change_id.clone(),
        ),
        Thing::Run(run) => (
            run.run_id.to_string(),
            explain::run(run),
            Some(run.change_id.clone()),
        ),
        Thing::Review(change_id, review) => (
            review.review_id.to_string(),
            explain::review(review),
            Some(change_id.clone()),
        ),
        Thing::Finding(change_id, finding) => (
            finding.finding_id.to_string(),
            explain::finding(finding),
            Some(change_id.clone()),
        ),
        Thing::Rejection(rejection) => (
            rejection.rejection_id.to_string(),
            explain::rejection(rejection),
            Some(rejection.change_id.clone()),
        ),
        Thing::Event(event) => {
            let (own, change_id) = explain::event(conn, event)?;
            (format!("event {}", event.id), own, change_id)
        }
        Thing::Project(project) => (
            project.project_id.to_string(),
            explain::project(project),
            None,
        ),
        Thing::Pull(pull) => (pull.pr.clone(), pull.explain(around), None),
    };
    let mut report = WhyReport {
        id,
        answer: own,
        change: None,
        fix_bound: None,
        events: Vec::new(),
    };
    if let Some(change_id) = change_id {
        let view = view(conn, &change_id, around)?;
        report.fix_bound = fix_bound(conn, view.change())?;
        report.events = led_here(conn, &change_id, EVENTS)?;
        report.change = Some(OfChange {
            change_id,
            answer: view.why,
        });
    }
    Ok(report)
}

/// Only for a change that may still be fixed.
fn fix_bound(conn: &Conn, change: &Change) -> bb::Result<Option<FixBound>> {
    (!change.state.is_over())
        .then(|| bb::fix_bound(conn, change))
        .transpose()
}

fn view(conn: &Conn, id: &ChangeId, around: Around) -> bb::Result<ChangeView> {
    ChangeView::gather(conn, bb::board_row(conn, bb::change(conn, id)?)?, around)
}
