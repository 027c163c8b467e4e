//! A change as commands show it: one row of a table, or the few lines after somebody's word.

use anyhow::Result;
use serde::Serialize;

use super::board_cell::brief;
use super::explain::{Explanation, answer};
use super::facts::{Around, Facts};
use crate::blackboard::{self as bb, BoardRow, Conn};
use crate::change::{Change, ChangeId, State};
use crate::cli::frame::context::CommandContext;
use crate::cli::frame::error::ExitCode;
use crate::cli::frame::ui::{Line, TextStyle};
use crate::human_time::ago;
use crate::pull_request::PullRow;
use crate::sanitize::cap;

/// Characters of one text: what others wrote may be megabytes, and JSON has all of them.
const TEXT_CAP: usize = 4_000;

/// A change with what it waits for.
#[derive(Debug, Serialize)]
pub(crate) struct ChangeView {
    #[serde(flatten)]
    pub(crate) row: BoardRow,
    /// `fix 1/2`
    pub(crate) cycle: String,
    pub(crate) why: Explanation,
    /// The same in one clause, for a row.
    #[serde(skip)]
    pub(crate) brief: String,
    /// `owner/repo#42`
    pub(crate) pr: Option<String>,
    /// Its pull request, as it was last read.
    pub(crate) pull: Option<PullRow>,
}

impl ChangeView {
    pub(crate) fn take(conn: &Conn, change: Change, around: Around) -> bb::Result<Self> {
        let facts = Facts::gather(conn, change, around)?;
        let why = answer(&facts);
        let brief = brief(&facts, &why);
        Ok(Self {
            cycle: facts.row.change.cycle_text(),
            why,
            brief,
            pr: facts.pr,
            pull: facts.pull,
            row: facts.row,
        })
    }

    pub(crate) fn change(&self) -> &Change {
        &self.row.change
    }
}

/// What a person sees after a word on a change: where it is now, and what follows.
pub(crate) fn told(ctx: &mut CommandContext, id: &ChangeId, what: &str) -> Result<ExitCode> {
    let around = ctx.around()?;
    let picture = ctx.read(|conn| ChangeView::take(conn, bb::change(conn, id)?, around))?;
    if ctx.out.is_json() {
        ctx.out.json(&picture)?;
        return Ok(ExitCode::Done);
    }
    ctx.out.line(
        Line::default()
            .strong(id.as_str())
            .plain(format!(" {what}")),
    )?;
    print_answer(ctx, &picture.why)?;
    Ok(ExitCode::Done)
}

/// The sentence, since when, and what to type.
pub(crate) fn print_answer(ctx: &mut CommandContext, why: &Explanation) -> Result<()> {
    let look = match why.because {
        "needs_you" | "holder_died" | "nothing_open" => TextStyle::Bad,
        "paused" | "stopped" | "shadow" | "held" | "blocked" | "not_run" => TextStyle::Notice,
        "approved" | "merged" => TextStyle::Good,
        _ => TextStyle::Plain,
    };
    let since = why
        .since
        .map(|since| format!("  ({})", ago(since, ctx.now)))
        .unwrap_or_default();
    ctx.out.line(
        Line::default()
            .plain("  ")
            .piece(look, cap(&why.answer, TEXT_CAP))
            .faint(since),
    )?;
    for command in &why.commands {
        ctx.out
            .line(Line::default().plain("    ").command(command))?;
    }
    Ok(())
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
