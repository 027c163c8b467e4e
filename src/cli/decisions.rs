//! `remand skip`, `ready`, `waive` and `reopen`: decisions that end a stage of a change or start it
//! again.

use std::path::Path;

use anyhow::Result;
use clap::Args;

use super::Named;
use super::approve::{moved_to, refuse_moved};
use crate::blackboard as bb;
use crate::change::{Change, State};
use crate::cli::frame::{CommandContext, CommandError, ExitCode, refused_for, said};
use crate::cli::view::print_change::told;
use crate::finding::FindingId;
use crate::text::{list, typed};

/// Skip the review before the pull request
#[derive(Debug, Args)]
#[command(
    after_help = "Cancels the running review or fix. The PR is opened with the findings that are open, after the gates; \
a change that gets no PR is ready for you. A task that was approved or marked as ready before its PR gets it. On a PR, \
use `remand ready`.\n\n\
Example:\n  remand skip c3 --why 'the finding is wrong'"
)]
pub(crate) struct SkipArgs {
    #[command(flatten)]
    named: Named,

    /// Reason, recorded in the event log
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

pub(crate) fn skip(args: &SkipArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let change = ctx.change(&args.named.change)?;
    refuse_moved(ctx, &change)?;
    let id = change.change_id.clone();
    let skipped = ctx.write("skip", |conn, step| {
        bb::skip(conn, &id, args.why.as_deref(), &step.actor, step.now)
    });
    refused_for(&change, skipped)?;
    let is_left = matches!(change.state, State::ReadyForHumanReview | State::Approved);
    let what = match is_left {
        true => "will get its PR",
        false => "skips its review",
    };
    told(ctx, &id, what)
}

/// Mark a change as ready for your approval, without further reviews and fixes
#[derive(Debug, Args)]
#[command(
    after_help = "Cancels the running review or fix and skips pending rejections. Nothing is posted, and nothing is approved: \
`remand approve` does that. A change without a PR stays without one, unless you run `remand skip`. New \
feedback on the PR and new commits are handled as always.\n\n\
Example:\n  remand ready c3"
)]
pub(crate) struct ReadyArgs {
    #[command(flatten)]
    named: Named,

    /// Reason, recorded in the event log
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

pub(crate) fn ready(args: &ReadyArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let change = ctx.change(&args.named.change)?;
    refuse_moved(ctx, &change)?;
    let id = change.change_id.clone();
    let marked = ctx.write("ready", |conn, step| {
        bb::mark_ready(conn, &id, args.why.as_deref(), &step.actor, step.now)
    });
    let after = refused_for(&change, marked)?;
    let what = match after.lacks_pr() {
        true => "is marked as ready, without a PR: none will be opened",
        false => "is marked as ready",
    };
    told(ctx, &id, what)
}

/// Waive findings: no fix is made for them, and they do not prevent an approval
#[derive(Debug, Args)]
#[command(
    after_help = "A waived finding is not given to fixers, and reviewers are told that it is waived. A fix that is already \
running was given it. If a rejection asks for nothing else, it is skipped, and the change is reviewed again.\n\n\
Example:\n  remand waive f2 f3 --reason 'the old format is still needed'"
)]
pub(crate) struct WaiveArgs {
    /// Findings, such as f2; all of the same change
    #[arg(value_name = "FINDING", required = true)]
    findings: Vec<String>,

    /// Reason, shown to reviewers and in the pull request; `-` reads it from stdin
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub(crate) fn waive(args: &WaiveArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let reason = said(&args.reason)?;
    let ids: Vec<FindingId> = args.findings.iter().map(FindingId::new).collect();
    let change = ctx.write("waive", |conn, step| {
        bb::waive(conn, &ids, &reason, &step.actor, step.now)
    })?;
    let what = format!("continues without {}", list(&ids));
    told(ctx, &change.change_id, &what)
}

/// Reopen a closed change
#[derive(Debug, Args)]
#[command(
    after_help = "Its head is reviewed again, unless a review has approved that head; `remand approve` and `remand ready` do not count \
as reviews. A task that was cancelled before it was implemented is added again instead. A change that was closed with its PR is reopened \
on GitHub: remand notices that by itself.\n\n\
Example:\n  remand reopen c3"
)]
pub(crate) struct ReopenArgs {
    #[command(flatten)]
    named: Named,

    /// Reason, recorded in the event log
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

pub(crate) fn reopen(args: &ReopenArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let change = ctx.change(&args.named.change)?;
    let is_there = Path::new(&change.worktree).is_dir();
    if !is_there && !change.own_worktree && change.state.is_over() {
        return no_worktree(ctx, &change);
    }
    // The head of a pull request is read from GitHub.
    let head = match change.has_pr() {
        true => None,
        false => moved_to(ctx, &change)?,
    };
    let id = change.change_id;
    ctx.write("reopen", |conn, step| {
        let (head, why) = (head.as_deref(), args.why.as_deref());
        bb::reopen_change(conn, &id, (head, why), &step.actor, step.now)
    })?;
    told(ctx, &id, "is reopened")
}

fn no_worktree(ctx: &CommandContext, change: &Change) -> Result<ExitCode> {
    let project = ctx.read(|conn| bb::project(conn, &change.project_id))?;
    let what = format!("the worktree {} no longer exists", change.worktree);
    CommandError::new(what).fail_with_hint(format!(
        "restore it with `git -C {} worktree add {} {}`",
        typed(&project.path),
        typed(&change.worktree),
        typed(&change.branch)
    ))
}
