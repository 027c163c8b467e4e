//! One line per pull request of the demo, at the bottom of the terminal.

use crate::blackboard::BoardRow;
use crate::cli::frame::ui::Line;
use crate::clock::Time;
use crate::demo::{PARTS, Part};
use crate::text::columns;
use crate::work::{Source, Status};

/// Formats the line of one pull request: its current work, its cycle and the time of its run.
pub(super) fn line(part: &Part, row: &BoardRow, now: Time) -> Line {
    let widest = PARTS.iter().map(|part| columns(part.title)).max();
    let widest = widest.unwrap_or_default();
    let doing = match &row.open_item {
        Some(item) if item.status == Status::Claimed && item.source == Source::ReviewFix => {
            "fixing"
        }
        Some(item) if item.status == Status::Claimed && item.source == Source::Manual => {
            "implementing"
        }
        Some(item) if item.status == Status::Claimed && item.source == Source::PullRequest => {
            "opening the PR"
        }
        Some(item) if item.status == Status::Claimed => "reviewing",
        Some(_) => "queued",
        None => row.column,
    };
    let run = row.last_run.as_ref().filter(|run| run.ended_at.is_none());
    let name = match row.change.pr_number {
        Some(number) => format!("#{number}"),
        None => row.change.change_id.to_string(),
    };
    Line::new()
        .strong(format!("  {name}  {:<widest$}  ", part.title))
        .plain(format!("{doing:<18} {}", row.change.cycle_text()))
        .faint(
            run.map(|run| format!("  for {:.1} s", now.since(run.started_at).as_secs_f64()))
                .unwrap_or_default(),
        )
}
