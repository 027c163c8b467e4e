//! `remand verdict`: sets the verdict that the reviewer did not give.

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::Named;
use super::approve::{is_approved, refuse_moved};
use super::reject::summary;
use crate::blackboard::{self as bb, Conn};
use crate::change::{Change, FinalVerdict, State};
use crate::cli::frame::{CommandContext, CommandError, ExitCode, Step, refused_for, said};
use crate::cli::view::print_change::told;
use crate::event::{NewEvent, body};
use crate::finding::Verdict;
use crate::proposal::{Decision, Escalation, decision};
use crate::state::Trigger;

/// Set the verdict of a review, overriding the reviewer
#[derive(Debug, Args)]
#[command(
    after_help = "CHANGES_REQUESTED starts a fix based on the last review and your text, within the current round.\n\n\
Examples:\n  remand verdict c2 APPROVED\n  remand verdict c2 CHANGES_REQUESTED --text 'the second finding is right'"
)]
pub(crate) struct VerdictArgs {
    #[command(flatten)]
    named: Named,

    #[arg(value_name = "VERDICT", value_enum, ignore_case = true)]
    verdict: Said,

    /// Instructions for the fix, in addition to the last review; `-` reads them from stdin
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "SCREAMING_SNAKE_CASE")]
enum Said {
    /// The change is accepted
    Approved,
    /// The change must be fixed
    ChangesRequested,
    /// People must discuss it first: the change is escalated
    NeedsDiscussion,
}

pub(crate) fn verdict(args: &VerdictArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let text = args.text.as_deref().map(said).transpose()?;
    let change = ctx.change(&args.named.change)?;
    let id = change.change_id.clone();
    if change.state.is_over() {
        return CommandError::new(format!("{id} is already {}", change.state)).fail();
    }
    match args.verdict {
        Said::Approved => {
            refuse_moved(ctx, &change)?;
            let approved = ctx.write("verdict", |conn, step| {
                note(conn, &change, "APPROVED", step)?;
                bb::approve_by_person(conn, &id, &step.actor, step.now)
            });
            let after = refused_for(&change, approved)?;
            told(ctx, &id, is_approved(&after))
        }
        Said::ChangesRequested => {
            let asked = asked(ctx, &change, text.as_deref())?;
            ctx.write_and_judge("verdict", |conn, step| {
                request_changes(conn, &change, &asked, step)
            })?;
            told(ctx, &id, "will be fixed")
        }
        Said::NeedsDiscussion => {
            if change.state == State::Escalated {
                return told(ctx, &id, "is already waiting for you");
            }
            let reason = text.as_deref().map(summary);
            ctx.write("verdict", |conn, step| {
                discuss(conn, &change, reason.as_deref(), step)
            })?;
            told(ctx, &id, "is waiting for you")
        }
    }
}

/// Request for the fix.
struct VerdictRequest {
    body: String,
    /// Part of the request that was written by people.
    said: String,
    unanswered: bb::Unanswered,
}

/// Builds the request: text from people, now and since the last fix, then the last review that did
/// not approve.
fn asked(ctx: &CommandContext, change: &Change, text: Option<&str>) -> Result<VerdictRequest> {
    let review = ctx.read(|conn| bb::last_review(conn, &change.change_id))?;
    let review = review
        .filter(|review| review.verdict != Verdict::Approved)
        .map(|review| review.body);
    let unanswered = ctx.read(|conn| bb::unanswered(conn, &change.change_id))?;
    let said = unanswered.with(text);
    let body: Vec<String> = said.iter().cloned().chain(review).collect();
    if body.is_empty() {
        let what = format!("{} has no review that requests changes", change.change_id);
        return CommandError::new(what).fail_with_hint("describe the changes with --text");
    }
    Ok(VerdictRequest {
        body: body.join("\n\n"),
        said: said.join("\n\n"),
        unanswered,
    })
}

fn request_changes(
    conn: &Conn,
    change: &Change,
    asked: &VerdictRequest,
    step: &Step,
) -> bb::Result<()> {
    let id = &change.change_id;
    note(conn, change, "CHANGES_REQUESTED", step)?;
    // The head now has its verdict; no other one is needed.
    bb::end_reviews(conn, id, &step.actor, step.now)?;
    let rejected = body::WorkRejected {
        verdict: Some(Verdict::ChangesRequested),
        head: Some(change.head.clone()),
        body: asked.body.clone(),
        said: Some(asked.said.clone()),
        findings: asked.unanswered.findings.clone(),
        supersedes: true,
        supersedes_to: Some(asked.unanswered.to),
        begins_round: Some(false),
        ..Default::default()
    };
    if !matches!(
        change.state,
        State::SelfReviewFailed | State::Refining | State::AddressingFeedback
    ) {
        bb::advance(conn, id, Trigger::MarkReady, &step.actor, step.now)?;
    }
    let summary = summary(&asked.body);
    bb::reject_change(conn, id, &step.actor, &summary, &rejected, step.now).map(drop)
}

fn discuss(conn: &Conn, change: &Change, reason: Option<&str>, step: &Step) -> bb::Result<()> {
    let id = &change.change_id;
    note(conn, change, "NEEDS_DISCUSSION", step)?;
    let escalation = Escalation::new(
        reason.map_or_else(
            || format!("{} wants a discussion", step.actor),
            |reason| format!("{} wants a discussion: {reason}", step.actor),
        ),
        decision!(
            "continue ({refine}), accept it ({approve}), or close it ({cancel})",
            refine = Decision::refine(id),
            approve = Decision::accept(change),
            cancel = Decision::cancel(id),
        ),
    )
    .with_verdict(FinalVerdict::NeedsDiscussion);
    bb::escalate(conn, id, &escalation, step.now).map(|_| ())
}

fn note(conn: &Conn, change: &Change, verdict: &str, step: &Step) -> bb::Result<()> {
    let actor = &step.actor;
    let event = NewEvent::about(
        &change.change_id,
        body::Instructed::new(body::Action::Verdict, verdict, actor),
        format!("{actor} gives the verdict {verdict}"),
    )
    .by(actor);
    bb::append(conn, &event, step.now).map(|_| ())
}
