//! Prints a change: the few lines after somebody's word, its explanation, and the fields of `status` and `show`.

use anyhow::Result;

use crate::blackboard as bb;
use crate::change::{ChangeId, State};
use crate::cli::frame::context::CommandContext;
use crate::cli::frame::error::ExitCode;
use crate::cli::frame::ui::{Line, TextStyle};
use crate::explain::{Because, ChangeView, Explanation};
use crate::human_time::ago;
use crate::sanitize::cap;

/// Characters of one text: what others wrote may be megabytes, and JSON has all of them.
const TEXT_CAP: usize = 4_000;

/// What a person sees after a word on a change: where it is now, and what follows.
pub(crate) fn told(ctx: &mut CommandContext, id: &ChangeId, what: &str) -> Result<ExitCode> {
    let around = ctx.around()?;
    let view = ctx.read(|conn| {
        ChangeView::gather(conn, bb::board_row(conn, bb::change(conn, id)?)?, around)
    })?;
    if ctx.out.is_json() {
        ctx.out.json(&view)?;
        return Ok(ExitCode::Done);
    }
    ctx.out.line(
        Line::default()
            .strong(id.as_str())
            .plain(format!(" {what}")),
    )?;
    print_answer(ctx, &view.why)?;
    Ok(ExitCode::Done)
}

/// The sentence, since when, and what to type.
pub(crate) fn print_answer(ctx: &mut CommandContext, why: &Explanation) -> Result<()> {
    let style = style_of(why.because);
    let since = why
        .since
        .map(|since| format!("  ({})", ago(since, ctx.now)))
        .unwrap_or_default();
    ctx.out.line(
        Line::default()
            .plain("  ")
            .piece(style, cap(&why.answer(), TEXT_CAP))
            .faint(since),
    )?;
    for command in &why.commands {
        ctx.out
            .line(Line::default().plain("    ").command(command))?;
    }
    Ok(())
}

/// How an explanation stands out on a terminal.
fn style_of(because: Because) -> TextStyle {
    match because {
        Because::NeedsYou | Because::HolderDied | Because::NothingOpen => TextStyle::Bad,
        Because::Paused
        | Because::Stopped
        | Because::Shadow
        | Because::Held
        | Because::Blocked
        | Because::NotRun => TextStyle::Notice,
        Because::Approved | Because::Merged => TextStyle::Good,
        Because::Running
        | Because::Queued
        | Because::Delayed
        | Because::WaitsForSlot
        | Because::Waits
        | Because::WaitsForHeartbeat
        | Because::WaitsForApproval
        | Because::WaitsForFeedback
        | Because::NextStage
        | Because::Closed
        | Because::PassedOver
        | Because::NotSeen
        | Because::NotLookedFor
        | Because::Available
        | Because::Claimed
        | Because::Completed
        | Because::Failed
        | Because::Cancelled
        | Because::Pending
        | Because::InFix
        | Because::Fixed
        | Because::Superseded
        | Because::Escalated
        | Because::Skipped
        | Because::Run
        | Because::Review
        | Because::Finding
        | Because::Event
        | Because::Project => TextStyle::Plain,
    }
}

/// How the state stands out on a terminal.
pub(crate) fn look_of(state: State) -> TextStyle {
    match state {
        State::Escalated => TextStyle::Bad,
        State::ReadyForHumanReview | State::Approved | State::Merged => TextStyle::Good,
        State::Closed => TextStyle::Faint,
        State::Queued
        | State::Implementing
        | State::PendingSelfReview
        | State::SelfReviewing
        | State::SelfReviewPassed
        | State::SelfReviewFailed
        | State::Refining
        | State::PrCreated
        | State::AwaitingPrFeedback
        | State::ReviewingPr
        | State::AddressingFeedback => TextStyle::Plain,
    }
}

/// A label and its value, in the column layout of `status` and `show`.
pub(crate) fn field(ctx: &mut CommandContext, label: &str, value: impl AsRef<str>) -> Result<()> {
    let value = value.as_ref();
    if !value.is_empty() {
        ctx.out.line(
            Line::default()
                .faint(format!("{label:<11}"))
                .plain(cap(value, TEXT_CAP)),
        )?;
    }
    Ok(())
}

/// Enough of a commit's name for a person.
pub(crate) fn short(sha: &str) -> String {
    sha.chars().take(10).collect()
}
