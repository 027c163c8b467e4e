//! The demo as it goes on: a line for what happened, and one for each pull request at the bottom of a terminal.

use std::time::Duration;

use crate::blackboard::BoardRow;
use crate::cli::frame::ui::{Line, TextStyle};
use crate::clock::Time;
use crate::demo::Part;
use crate::event::body;
use crate::event::{Event, EventType};
use crate::intent::IntentKind;
use crate::work::{Source, Status};

/// One line for what happened, if it is worth one.
pub(super) fn line(event: &Event, part: &Part, elapsed: Duration) -> Option<Line> {
    let is_other_post = event
        .body::<body::Posted>()
        .is_some_and(|posted| posted.kind != Some(IntentKind::Ask));
    if is_other_post {
        return None;
    }
    let claimed = event.body::<body::WorkClaimed>();
    let is_fix = claimed.is_some_and(|claimed| claimed.source == Some(Source::ReviewFix));
    let begins = if is_fix {
        "the fixer begins"
    } else {
        "the reviewer begins"
    };
    let said = event.summary.clone();
    let worth = [
        (EventType::WorkClaimed, TextStyle::Plain, begins.to_owned()),
        (
            EventType::WorkRejected,
            TextStyle::Notice,
            ours(event, "changes requested", "the reviewer rejects it"),
        ),
        (
            EventType::WorkApproved,
            TextStyle::Good,
            ours(event, "approved", "the reviewer passes it"),
        ),
        (EventType::GateFailed, TextStyle::Notice, said.clone()),
        (
            EventType::FixPushed,
            TextStyle::Plain,
            format!("{said}, its tests pass"),
        ),
        (EventType::Posted, TextStyle::Plain, said.clone()),
        (EventType::Held, TextStyle::Notice, format!("held: {said}")),
        (
            EventType::Escalated,
            TextStyle::Bad,
            format!("to a person: {said}"),
        ),
    ];
    let (_, look, text) = worth
        .into_iter()
        .find(|(event_type, ..)| *event_type == event.event_type)?;
    let head = format!(
        "{:5.1} s  #{}  {:<16} ",
        elapsed.as_secs_f64(),
        part.number,
        part.title
    );
    Some(Line::default().faint(head).piece(look, text))
}

/// The reviewer's verdict is told in other words than a person's.
fn ours(event: &Event, verdict: &str, told: &str) -> String {
    match event.summary.strip_prefix(verdict) {
        Some(rest) if rest.starts_with(':') => format!("{told}{rest}"),
        Some(_) | None => event.summary.clone(),
    }
}

/// What is being done now.
pub(super) fn live(part: &Part, row: &BoardRow, now: Time) -> Line {
    let doing = match &row.open_item {
        Some(item) if item.status == Status::Claimed && item.source == Source::ReviewFix => {
            "being fixed"
        }
        Some(item) if item.status == Status::Claimed => "under review",
        Some(_) => "queued",
        None => row.column,
    };
    let run = row.last_run.as_ref().filter(|run| run.ended_at.is_none());
    Line::default()
        .strong(format!("  #{}  {:<16} ", part.number, part.title))
        .plain(format!("{doing:<18} {}", row.change.cycle_text()))
        .faint(
            run.map(|run| format!("  for {:.1} s", now.since(run.started_at).as_secs_f64()))
                .unwrap_or_default(),
        )
}
