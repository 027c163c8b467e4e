//! Prints a change: the short answer to an operator command, its explanation, and the fields of
//! `status` and `show`.

use anyhow::Result;

use crate::change::{ChangeId, State};
use crate::cli::frame::{CommandContext, ExitCode, FIELD_CAP, Line, TextStyle};
use crate::explain::{Because, ChangeView, Explanation};
use crate::human_time::ago;
use crate::sanitize::cap;

/// Prints the answer to an operator command: the change as it is now, and its explanation.
pub(crate) fn told(ctx: &mut CommandContext, id: &ChangeId, what: &str) -> Result<ExitCode> {
    print_told(ctx, id, what).map(|_| ExitCode::Done)
}

/// Like `told`, for a command after which the change should make progress: the exit code is 5 if
/// it is held or needs a person.
pub(crate) fn told_progress(
    ctx: &mut CommandContext,
    id: &ChangeId,
    what: &str,
) -> Result<ExitCode> {
    print_told(ctx, id, what).map(ExitCode::of_change)
}

fn print_told(ctx: &mut CommandContext, id: &ChangeId, what: &str) -> Result<Because> {
    let around = ctx.around()?;
    let view = ctx.read(|conn| ChangeView::of(conn, id, around))?;
    ctx.show(&view, |ctx, view| {
        let line = Line::new().strong(id).plain(format!(" {what}"));
        ctx.out.line(line)?;
        print_answer(ctx, &view.why)
    })?;
    Ok(view.why.because)
}

/// Prints the explanation, its age, and the commands to type.
pub(crate) fn print_answer(ctx: &mut CommandContext, why: &Explanation) -> Result<()> {
    print_answer_without(ctx, why, &mut Vec::new())
}

/// Like `print_answer`, but omits the commands in `printed` and adds those that it prints.
pub(crate) fn print_answer_without(
    ctx: &mut CommandContext,
    why: &Explanation,
    printed: &mut Vec<String>,
) -> Result<()> {
    let whole = why.answer();
    let answer = cap(&whole, FIELD_CAP);
    let since = why.since.map(|since| ago(since, ctx.now));
    let since = since.map_or_else(String::new, |since| format!("  ({since})"));
    let (head, style) = (Line::new().plain("  "), style_of(why.because));
    ctx.out
        .hanging(head, 2, style, &format!("{answer}{since}"))?;
    for command in &why.commands {
        // A sentence that was cut may have lost its commands.
        let is_in_sentence = why.is_in_sentence(command) && answer == whole;
        let is_printed = printed.contains(command) || is_in_sentence;
        if !is_printed {
            ctx.out.line(Line::new().plain("    ").command(command))?;
        }
        printed.push(command.clone());
    }
    Ok(())
}

/// Style of an explanation on a terminal.
pub(crate) fn style_of(because: Because) -> TextStyle {
    match because {
        Because::NeedsYou | Because::HolderDied | Because::NothingOpen => TextStyle::Bad,
        Because::TakenOver
        | Because::Paused
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
        | Because::WaitsForChange
        | Because::WaitsForStart
        | Because::Waits
        | Because::WaitsForHeartbeat
        | Because::WaitsForApproval
        | Because::WaitsForFeedback
        | Because::WaitsForChecks
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
        | Because::Feedback
        | Because::Event
        | Because::Project => TextStyle::Plain,
    }
}

/// Style of the state on a terminal.
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
