//! Operator commands on a change: `retry refine comment pause resume post cancel`. Each finds the
//! change, writes one decision to the blackboard and shows the consequences. They share a file
//! because they differ by only a line.

use anyhow::Result;
use clap::Args;

use super::Named;
use crate::blackboard::{self as bb, BoardError, Guidance};
use crate::cli::frame::{CommandContext, ExitCode, TextArgs, refused_for, running_daemon};
use crate::cli::view::print_change::{told, told_progress};
use crate::text::count;

/// Retry the failed step of an escalated change
#[derive(Debug, Args)]
#[command(
    after_help = "Requeues the failed item and resets its failure counts.\n\n\
Example:\n  remand retry c3"
)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    named: Named,

    /// Trust the git settings that were found in the worktree
    #[arg(long)]
    accept_git_settings: bool,
}

pub(crate) fn retry(args: &RetryArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let change = ctx.change(&args.named.change)?;
    let id = change.change_id.clone();
    let tried = ctx.write("retry", |conn, step| {
        if args.accept_git_settings && !bb::accept_git_settings(conn, &id, &step.actor, step.now)? {
            let what = "no git settings are waiting for a decision";
            let hint = format!("`remand retry {id}` retries what failed");
            return Err(BoardError::refused_with_hint(what, hint));
        }
        bb::retry(conn, &id, &step.actor, step.now)
    });
    refused_for(&change, tried)?;
    told(ctx, &id, "will be retried")
}

/// Start a new round of fixes for the open findings
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  remand refine c3 'use the retry policy of http.rs, do not write a second one'"
)]
pub(crate) struct RefineArgs {
    #[command(flatten)]
    named: Named,

    #[command(flatten)]
    text: TextArgs,
}

pub(crate) fn refine(args: &RefineArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let change = ctx.change(&args.named.change)?;
    let id = change.change_id.clone();
    let question = format!(
        "Guidance for the agent in addition to the open findings of {id} ({}); may be empty.",
        change.title
    );
    let text = args.text.optional(ctx, &question)?;
    let refined = ctx.write_and_judge("refine", |conn, step| {
        bb::refine(conn, &id, text.as_deref(), &step.actor, step.now).map(|_| ())
    });
    refused_for(&change, refined)?;
    told(ctx, &id, "will be refined")
}

/// Add guidance for the next fix, without starting one
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  remand comment c3 'the flaky test is known: leave it alone'")]
pub(crate) struct CommentArgs {
    #[command(flatten)]
    named: Named,

    #[command(flatten)]
    text: TextArgs,
}

pub(crate) fn comment(args: &CommentArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let change = ctx.change(&args.named.change)?;
    let id = change.change_id;
    let question = format!("Guidance for the next fix of {id} ({}).", change.title);
    let body = args.text.required(ctx, &question)?;
    ctx.write("comment", |conn, step| {
        let author = step.actor.clone();
        bb::add_guidance(conn, &id, &Guidance { author, body }, step.now)
    })?;
    told(ctx, &id, "will get your comment with its next fix")
}

/// Pause a change until `remand resume`
#[derive(Debug, Args)]
#[command(
    after_help = "A running agent is allowed to finish, but until `remand resume` nothing new is started and nothing is pushed."
)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    named: Named,

    /// Reason, recorded in the event log
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

pub(crate) fn pause(args: &PauseArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let id = ctx.change(&args.named.change)?.change_id;
    ctx.write("pause", |conn, step| {
        bb::pause(conn, &id, args.why.as_deref(), &step.actor, step.now)
    })?;
    told(ctx, &id, "is paused")
}

/// Resume a change that is paused or held
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    named: Named,
}

pub(crate) fn resume(args: &ResumeArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let before = ctx.change(&args.named.change)?;
    let id = before.change_id;
    let after = ctx.write("resume", |conn, step| {
        bb::resume(conn, &id, &step.actor, step.now)
    })?;
    let waited = before.paused || before.held_until.is_some();
    let what = match (after.paused, waited) {
        (true, _) if after.taken_over => "is still taken over",
        (true, _) if after.stopped => "will continue after `remand start`",
        (true, _) if after.shadow && !after.paused_by_rules => "is still in shadow",
        (true, _) => "is still paused",
        (false, true) => "is resumed",
        (false, false) => "was neither paused nor held",
    };
    told(ctx, &id, what)
}

/// Retry posts that GitHub refused or that are waiting for a retry
#[derive(Debug, Args)]
#[command(
    after_help = "Posts that failed because of network, login or rate-limit errors are retried automatically with \
increasing delays; this command skips the remaining delay. The daemon or `remand tick` posts them. \
The exit code is 5 if the change is held or needs a person."
)]
pub(crate) struct PostArgs {
    #[command(flatten)]
    named: Named,
}

pub(crate) fn post(args: &PostArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let id = ctx.change(&args.named.change)?.change_id;
    let opened = ctx.write("post", |conn, step| {
        bb::post(conn, &id, &step.actor, step.now)
    })?;
    if opened > 0 && !ctx.out.is_json() {
        running_daemon::absence(ctx)?;
    }
    let outcome = match opened {
        0 => "has no posts to retry".to_owned(),
        n => format!("has {} to retry", count(n, "post")),
    };
    told_progress(ctx, &id, &outcome)
}

/// Cancel a change and close it
#[derive(Debug, Args)]
#[command(after_help = "The branch, its worktree and its commits are kept.")]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    named: Named,

    /// Reason, recorded in the event log
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

pub(crate) fn cancel(args: &CancelArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let id = ctx.change(&args.named.change)?.change_id;
    ctx.write("cancel", |conn, step| {
        bb::cancel_change(conn, &id, args.why.as_deref(), &step.actor, step.now)
    })?;
    told(ctx, &id, "is cancelled")
}
