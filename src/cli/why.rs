//! `remand why`: prints the answer first, then the events that led to it.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::shadow;
use super::show::{Thing, find};
use super::status::moved;
use crate::blackboard::{self as bb, Conn};
use crate::change::{Change, ChangeId, FixBound};
use crate::check::Check;
use crate::cli::frame::{
    CommandContext, CommandError, ExitCode, Line, Table, TextStyle, find_change, running_daemon,
    wait,
};
use crate::cli::view::print_change::print_answer_without;
use crate::event::Event;
use crate::explain::{self, Around, ChangeView, Daemon, Explanation, led_here};
use crate::human_time::ago;
use crate::sanitize;
use crate::text::truncate;

/// Maximum number of events that are shown.
const EVENTS: usize = 12;

/// Maximum width of the summary of an event: the answer above the events must stay on the screen.
/// `events` and JSON have all of it.
const SUMMARY: usize = 100;

/// Explain what a change is waiting for and what you can do
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  remand why c3               what a change is waiting for\n  \
remand why                  the same for the change of the current worktree\n  \
remand why w7               why an item does not run\n  remand why 118              what an event led to\n  \
remand why ada/engine#7     why a PR is not taken over\n\n\
The summaries of events are shortened; `remand events` and --json show them in full."
)]
pub(crate) struct WhyArgs {
    /// Change (id, branch, worktree path or PR), or the id of an item, run, review, rejection, finding or event
    /// [default: the change of the current worktree]
    #[arg(value_name = "ID")]
    id: Option<String>,
}

#[derive(Serialize)]
struct WhyReport {
    id: String,
    daemon_running: bool,
    #[serde(flatten)]
    answer: Explanation,
    /// Answer for the change, if the id names something else.
    change: Option<OfChange>,
    /// Maximum number of fixes per round of the change.
    fix_bound: Option<FixBound>,
    /// Checks of the head of the change's pull request.
    checks: Vec<Check>,
    events: Vec<Event>,
}

#[derive(Serialize)]
struct OfChange {
    change_id: ChangeId,
    #[serde(flatten)]
    answer: Explanation,
}

pub(crate) fn why(args: &WhyArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let thing = match &args.id {
        Some(id) => find(ctx, id)?,
        None => Thing::Change(change_here(ctx)?),
    };
    let around = ctx.around()?;
    let report = ctx.read(|conn| report(conn, &thing, around))?;
    ctx.out.wrap_in_pipe();
    ctx.show(&report, |ctx, report| print(ctx, &thing, report))?;
    let of_change = report
        .change
        .as_ref()
        .map_or(&report.answer, |of| &of.answer);
    Ok(ExitCode::of_change(of_change.because))
}

/// Returns the change of the worktree that contains the current directory.
fn change_here(ctx: &CommandContext) -> Result<Change> {
    let git = ctx.git(&ctx.settings()?);
    // Outside of any worktree, there is no change either.
    let top = wait(git.top_of(Path::new(".")))?.ok();
    let change = match top.as_deref().and_then(Path::to_str) {
        Some(top) => ctx.read(|conn| find_change(conn, top))?,
        None => None,
    };
    change.map_or_else(
        || {
            CommandError::usage(
                "no ID given, and the current directory is not in the worktree of a change",
            )
            .fail_with_hint(
                "give a change (c1, its branch, worktree path or PR), or the id of an item (w1), run (r1), review (v1), \
                 rejection (j1), finding (f1) or event (118); `remand list` lists the changes",
            )
        },
        Ok,
    )
}

fn print(ctx: &mut CommandContext, thing: &Thing, report: &WhyReport) -> Result<()> {
    let mut printed = Vec::new();
    if running_daemon::absence(ctx)? {
        printed.push(running_daemon::START.to_owned());
    }
    ctx.out.line(Line::new().strong(&report.id))?;
    print_answer_without(ctx, &report.answer, &mut printed)?;
    if let Thing::Change(change) = thing
        && let Some(moved) = moved(ctx, change)?
    {
        notice(ctx, &moved)?;
    }
    if let Some(rest) = &report.change {
        ctx.out.line(Line::new().strong(rest.change_id.as_str()))?;
        print_answer_without(ctx, &rest.answer, &mut printed)?;
    }
    let about = match (thing, &report.change) {
        (Thing::Change(change), _) => Some(&change.change_id),
        (_, rest) => rest.as_ref().map(|rest| &rest.change_id),
    };
    if let Some(id) = about
        && let Some(unread) = shadow::unread(ctx, &ctx.read(|conn| bb::change(conn, id))?)?
    {
        notice(ctx, &unread)?;
    }
    for check in &report.checks {
        let head = Line::new().plain("  ");
        let text = format!("check {}", sanitize::line(&check.line()));
        ctx.out.hanging(head, 2, TextStyle::Faint, &text)?;
    }
    if let Some(bound) = &report.fix_bound {
        let text = format!("maximum fixes per round: {} ({})", bound.most, bound.from);
        let head = Line::new().plain("  ");
        ctx.out.hanging(head, 2, TextStyle::Faint, &text)?;
    }
    running_daemon::elsewhere_note(ctx)?;
    if !report.events.is_empty() {
        ctx.out.blank()?;
        let mut table = Table::new(&["EVENT", "WHEN", "TYPE", "BY", "WHAT"]);
        for event in &report.events {
            let (id, when) = (event.id.to_string(), ago(event.timestamp, ctx.now));
            let (what, by) = (event.event_type.as_str(), &event.actor_id);
            let summary = truncate(&sanitize::line(&event.local_summary()), SUMMARY);
            table.row([&id, &when, what, by, &summary]);
        }
        ctx.out.table(&table)?;
    }
    Ok(())
}

fn notice(ctx: &mut CommandContext, text: &str) -> Result<()> {
    let head = Line::new().plain("  ");
    Ok(ctx.out.hanging(head, 2, TextStyle::Notice, text)?)
}

fn report(conn: &Conn, thing: &Thing, around: Around) -> bb::Result<WhyReport> {
    let of = |change_id: &ChangeId| Some(change_id.clone());
    let (id, own, change_id) = match thing {
        Thing::Change(change) => {
            let id = &change.change_id;
            let view = ChangeView::of(conn, id, around)?;
            return Ok(WhyReport {
                id: id.to_string(),
                daemon_running: view.daemon_running,
                fix_bound: fix_bound(conn, view.change())?,
                answer: view.why,
                change: None,
                checks: view.checks,
                events: led_here(conn, id, EVENTS)?,
            });
        }
        Thing::Item(one) => (
            one.item_id.to_string(),
            explain::item(one),
            one.change_id.clone(),
        ),
        Thing::Run(one) => (
            one.run_id.to_string(),
            explain::run(one),
            of(&one.change_id),
        ),
        Thing::Review(id, one) => (one.review_id.to_string(), explain::review(one), of(id)),
        Thing::Finding(id, one) => (one.finding_id.to_string(), explain::finding(one), of(id)),
        Thing::Rejection(one) => {
            let id = one.rejection_id.to_string();
            (id, explain::rejection(one), of(&one.change_id))
        }
        Thing::Feedback(one) => {
            let id = one.feedback_id.clone();
            (id, explain::feedback(one), of(&one.change_id))
        }
        Thing::Event(one) => {
            let (own, change_id) = explain::event(conn, one)?;
            (format!("event {}", one.id), own, change_id)
        }
        Thing::Project(one) => (one.project_id.to_string(), explain::project(one), None),
        Thing::Pull(one) => (one.pr.clone(), one.explain(around), None),
    };
    let mut report = WhyReport {
        id,
        daemon_running: around.daemon == Daemon::Runs,
        answer: own,
        change: None,
        fix_bound: None,
        checks: Vec::new(),
        events: Vec::new(),
    };
    if let Some(change_id) = change_id {
        let view = ChangeView::of(conn, &change_id, around)?;
        report.fix_bound = fix_bound(conn, view.change())?;
        report.events = led_here(conn, &change_id, EVENTS)?;
        report.checks = view.checks;
        report.change = Some(OfChange {
            change_id,
            answer: view.why,
        });
    }
    Ok(report)
}

/// Returns the limit only for a change that may still be fixed.
fn fix_bound(conn: &Conn, change: &Change) -> bb::Result<Option<FixBound>> {
    (!change.state.is_over())
        .then(|| bb::fix_bound(conn, change))
        .transpose()
}
