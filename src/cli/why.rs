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
use crate::cli::view::change_view::print_answer;
use crate::cli::view::event_filter::led_here;
use crate::cli::view::explain::{Explanation, answer};
use crate::cli::view::facts::{Around, Facts};
use crate::clock::Time;
use crate::event::{Event, EventType, TargetType};
use crate::human_time::ago;
use crate::work::{Item, Rejection, RejectionState, Status};

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
    change: Option<Rest>,
    /// How many fixes a round of the change may take.
    fix_bound: Option<FixBound>,
    events: Vec<Event>,
}

#[derive(Serialize)]
struct Rest {
    change_id: ChangeId,
    #[serde(flatten)]
    answer: Explanation,
}

pub(crate) fn why(args: &WhyArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let thing = find(ctx, &args.id)?;
    let around = ctx.around()?;
    let told = ctx.read(|conn| tell(conn, &thing, around))?;
    if ctx.out.is_json() {
        ctx.out.json(&told)?;
        return Ok(ExitCode::Done);
    }
    ctx.out.line(Line::default().strong(&told.id))?;
    print_answer(ctx, &told.answer)?;
    if let Thing::Change(change) = &thing
        && let Some(moved) = moved(ctx, change)?
    {
        ctx.out
            .line(Line::default().plain("  ").piece(TextStyle::Notice, moved))?;
    }
    if let Some(rest) = &told.change {
        ctx.out
            .line(Line::default().strong(rest.change_id.as_str()))?;
        print_answer(ctx, &rest.answer)?;
    }
    let about = match (&thing, &told.change) {
        (Thing::Change(change), _) => Some(change.change_id.clone()),
        (_, rest) => rest.as_ref().map(|rest| rest.change_id.clone()),
    };
    if let Some(id) = about
        && let Some(unread) = shadow::unread(ctx, &ctx.read(|conn| bb::change(conn, &id))?)?
    {
        ctx.out
            .line(Line::default().plain("  ").piece(TextStyle::Notice, unread))?;
    }
    if let Some(bound) = &told.fix_bound {
        let text = format!("fixes per round: at most {} ({})", bound.most, bound.from);
        ctx.out.line(Line::default().plain("  ").faint(text))?;
    }
    running_daemon::elsewhere_note(ctx)?;
    if !told.events.is_empty() {
        ctx.out.blank()?;
        let mut table = Table::new(&["EVENT", "WHEN", "TYPE", "BY", "WHAT"]);
        for event in &told.events {
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

fn tell(conn: &Conn, thing: &Thing, around: Around) -> bb::Result<WhyReport> {
    let of_change = |id: &ChangeId| Facts::gather(conn, bb::change(conn, id)?, around);
    let with_change =
        |id: String, own: Explanation, change: Option<&ChangeId>| -> bb::Result<WhyReport> {
            let Some(change_id) = change else {
                return Ok(WhyReport {
                    id,
                    answer: own,
                    change: None,
                    fix_bound: None,
                    events: Vec::new(),
                });
            };
            let facts = of_change(change_id)?;
            let rest = Rest {
                change_id: change_id.clone(),
                answer: answer(&facts),
            };
            let fix_bound = fix_bound(conn, &facts.row.change)?;
            Ok(WhyReport {
                id,
                answer: own,
                change: Some(rest),
                fix_bound,
                events: shown(&facts),
            })
        };
    match thing {
        Thing::Change(change) => {
            let facts = of_change(&change.change_id)?;
            Ok(WhyReport {
                id: change.change_id.to_string(),
                answer: answer(&facts),
                change: None,
                fix_bound: fix_bound(conn, &facts.row.change)?,
                events: shown(&facts),
            })
        }
        Thing::Item(item) => with_change(
            item.item_id.to_string(),
            of_item(item),
            item.change_id.as_ref(),
        ),
        Thing::Run(run) => {
            let ended = run.ended.map_or_else(
                || "it has not ended".to_owned(),
                |ended| format!("it ended: {ended}"),
            );
            let status = run
                .exit_status
                .map(|status| format!(", status {status}"))
                .unwrap_or_default();
            let own = plain(
                "run",
                format!("{ended}{status}"),
                run.ended_at.or(Some(run.started_at)),
            );
            let own = Explanation {
                commands: vec![format!("remand log {}", run.run_id)],
                ..own
            };
            with_change(run.run_id.to_string(), own, Some(&run.change_id))
        }
        Thing::Review(change, review) => {
            let own = plain(
                "review",
                format!("it was read as {}: {}", review.verdict, review.reason),
                Some(review.created_at),
            );
            with_change(review.review_id.to_string(), own, Some(change))
        }
        Thing::Finding(change, finding) => {
            let note = finding
                .note
                .as_deref()
                .map(|note| format!(": {note}"))
                .unwrap_or_default();
            let own = plain("finding", format!("it is {}{note}", finding.outcome), None);
            with_change(finding.finding_id.to_string(), own, Some(change))
        }
        Thing::Rejection(rejection) => with_change(
            rejection.rejection_id.to_string(),
            of_rejection(rejection),
            Some(&rejection.change_id),
        ),
        Thing::Event(event) => {
            let (own, change) = of_event(conn, event)?;
            with_change(format!("event {}", event.id), own, change.as_ref())
        }
        Thing::Project(project) => {
            let own = plain(
                "project",
                format!(
                    "it is a project at {}; projects wait for nothing",
                    project.path
                ),
                None,
            );
            with_change(project.project_id.to_string(), own, None)
        }
        Thing::Pull(pull) => with_change(pull.pr.clone(), pull.answer(around.now), None),
    }
}

/// Only for a change that may still be fixed.
fn fix_bound(conn: &Conn, change: &Change) -> bb::Result<Option<FixBound>> {
    (!change.state.is_over())
        .then(|| bb::fix_bound(conn, change))
        .transpose()
}

fn plain(because: &'static str, answer: impl Into<String>, since: Option<Time>) -> Explanation {
    Explanation {
        because,
        answer: answer.into(),
        since,
        until: None,
        commands: Vec::new(),
    }
}

fn shown(facts: &Facts) -> Vec<Event> {
    led_here(&facts.events, EVENTS)
        .into_iter()
        .cloned()
        .collect()
}

fn of_item(item: &Item) -> Explanation {
    let why = item
        .failure_reason
        .as_deref()
        .unwrap_or("no reason was recorded");
    match item.status {
        Status::Completed => plain("completed", "it is done", item.completed_at),
        Status::Failed => plain("failed", format!("it failed: {why}"), item.completed_at),
        Status::Cancelled => plain(
            "cancelled",
            format!("it was cancelled: {why}"),
            item.completed_at,
        ),
        Status::Available => plain("available", "it is queued", Some(item.created_at)),
        Status::Claimed => plain("claimed", "somebody runs it", None),
        Status::Blocked => plain(
            "blocked",
            "it is blocked, as its change is paused, stopped, held or in shadow",
            None,
        ),
    }
}

fn of_rejection(rejection: &Rejection) -> Explanation {
    let fix = rejection
        .item_id
        .as_ref()
        .map(|item| format!(" {item}"))
        .unwrap_or_default();
    let why = rejection
        .reason
        .as_deref()
        .unwrap_or("no reason was recorded");
    let said = match rejection.state {
        RejectionState::Pending => "it waits for its fix".to_owned(),
        RejectionState::InFix => format!("the fix{fix} is to answer it"),
        RejectionState::Fixed => format!("the fix{fix} answered it"),
        RejectionState::Superseded => format!("a newer one stands for it: {why}"),
        RejectionState::Escalated => format!("it went to a person: {why}"),
        RejectionState::Skipped => format!("nothing was done for it: {why}"),
    };
    plain(rejection.state.as_str(), said, None)
}

/// What came of an event: its answer, and the change that it led to.
fn of_event(conn: &Conn, event: &Event) -> bb::Result<(Explanation, Option<ChangeId>)> {
    if let Some(rejection) = bb::rejection_of_event(conn, event.id)? {
        let own = of_rejection(&rejection);
        let answer = format!("it became {}: {}", rejection.rejection_id, own.answer);
        return Ok((
            Explanation {
                answer,
                since: Some(event.timestamp),
                ..own
            },
            Some(rejection.change_id),
        ));
    }
    let about = bb::events_about(conn, TargetType::Event, &event.id.to_string(), 20)?;
    let own = match about
        .iter()
        .find(|told| told.event_type == EventType::Skipped)
    {
        Some(skipped) => {
            let told = plain(
                "skipped",
                format!("nothing was done: {}", skipped.summary),
                Some(skipped.timestamp),
            );
            Explanation {
                commands: vec!["remand list --all".into()],
                ..told
            }
        }
        None if event.event_type == EventType::WorkRejected => Explanation {
            commands: vec!["remand run".into(), "remand tick".into()],
            ..plain(
                "waits_for_heartbeat",
                "the next heartbeat takes it in",
                Some(event.timestamp),
            )
        },
        None => {
            let said = format!(
                "{} by {}: {}",
                event.event_type, event.actor_id, event.summary
            );
            plain("event", said, Some(event.timestamp))
        }
    };
    Ok((own, event.change_id.clone()))
}
