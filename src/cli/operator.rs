//! Operator commands on a change: `retry refine comment pause resume post cancel`. Each finds the
//! change, writes one decision to the blackboard and shows the consequences. They share a file
//! because they differ by only a line.

use anyhow::Result;
use clap::Args;

use super::Named;
use crate::blackboard as bb;
use crate::blackboard::{BoardError, Guidance};
use crate::cli::frame::context::CommandContext;
use crate::cli::frame::error::{ExitCode, refused_for};
use crate::cli::frame::text_source::TextArgs;
use crate::cli::view::print_change::told;
use crate::text::count;

/// Try again what failed, after an escalation
#[derive(Debug, Args)]
#[command(
    after_help = "The item that failed is opened again, with its counts of trouble at zero.\n\n\
Example:\n  remand retry c3"
)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    named: Named,

    /// The settings of git that were asked about are yours
    #[arg(long)]
    accept_git_settings: bool,
}

pub(crate) fn retry(args: &RetryArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let change = ctx.change(&args.named.change)?;
    let id = change.change_id.clone();
    let tried = ctx.write("retry", |conn, step| {
        if args.accept_git_settings && !bb::accept_git_settings(conn, &id, &step.actor, step.now)? {
            return Err(BoardError::Refused {
                what: "no settings of git wait for a decision".to_owned(),
                hint: Some(format!("`remand retry {id}` tries again what failed")),
            });
        }
        bb::retry(conn, &id, &step.actor, step.now)
    });
    refused_for(&change, tried)?;
    told(ctx, &id, "is tried again")
}

/// Have the open findings fixed now, in a new round, perhaps with your guidance
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
        "What should the agent know besides the open findings of {id} ({})? It may be empty.",
        change.title
    );
    let text = args.text.optional(ctx, &question)?;
    let refined = ctx.write_and_judge("refine", |conn, step| {
        bb::refine(conn, &id, text.as_deref(), &step.actor, step.now).map(|_| ())
    });
    refused_for(&change, refined)?;
    told(ctx, &id, "is to be refined")
}

/// Tell the next fix something, without starting one
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
    let question = format!("What should the next fix of {id} ({}) know?", change.title);
    let body = args.text.required(ctx, &question)?;
    ctx.write("comment", |conn, step| {
        bb::add_guidance(
            conn,
            &id,
            &Guidance {
                author: step.actor.clone(),
                body,
            },
            step.now,
        )
    })?;
    told(ctx, &id, "has your comment for its next fix")
}

/// Stop a change where it is, until `resume`
#[derive(Debug, Args)]
#[command(
    after_help = "An agent that runs may finish; nothing new begins and nothing is pushed until then."
)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    named: Named,

    /// Why, for those who wonder
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

/// Go on with a change that is paused or held
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
        (true, _) if after.stopped => "goes on when it is started",
        (true, _) if after.shadow && !after.paused_by_rules => "stays in shadow",
        (true, _) => "stays paused",
        (false, true) => "goes on",
        (false, false) => "was neither paused nor held",
    };
    told(ctx, &id, what)
}

/// Post now what GitHub refused, or what waits for its next try
#[derive(Debug, Args)]
#[command(
    after_help = "Posts that failed for want of a network, a login or a budget are tried again on their own, after a \
growing delay; this ends the delay. The daemon posts them, or `remand tick`."
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
    let outcome = match opened {
        0 => "has no post that was refused or waits for another try".to_owned(),
        n => format!("has {} to be tried again", count(n, "post")),
    };
    told(ctx, &id, &outcome)
}

/// Close a change: nothing more is done for it
#[derive(Debug, Args)]
#[command(
    after_help = "Branch, worktree and commits stay as they are: remand deletes none of them."
)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    named: Named,

    /// Why, for those who wonder
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
