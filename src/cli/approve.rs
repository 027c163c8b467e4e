//! `remand approve`: approves a change.

use crate::text::short_sha;
use std::path::Path;

use anyhow::Result;
use clap::Args;

use super::Named;
use crate::blackboard as bb;
use crate::change::Change;
use crate::cli::frame::{CommandContext, CommandError, ExitCode, refused_for, wait};
use crate::cli::view::print_change::told;
use crate::work::Status;

/// Approve a change despite open findings
#[derive(Debug, Args)]
#[command(
    after_help = "Cancels the change's work items and skips its pending rejections, recording your approval as the \
reason. Approves the commit that `remand status` shows: if the branch has moved since, the command is refused. \
Later commits are reviewed again (without a PR, run `remand review`). Nothing is approved or merged on GitHub. A task \
that is approved before its PR stays without one, unless you run `remand skip`.\n\n\
Example:\n  remand approve c3"
)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    named: Named,
}

pub(crate) fn approve(args: &ApproveArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let change = ctx.change(&args.named.change)?;
    refuse_moved(ctx, &change)?;
    let id = change.change_id.clone();
    let approved = ctx.write("approve", |conn, step| {
        bb::approve_by_person(conn, &id, &step.actor, step.now)
    });
    let after = refused_for(&change, approved)?;
    told(ctx, &id, is_approved(&after))
}

/// Describes an approval, which before the pull request leaves the change without one.
pub(crate) fn is_approved(change: &Change) -> &'static str {
    match change.lacks_pr() {
        true => "is approved, without a PR: none will be opened",
        false => "is approved",
    }
}

/// Refuses to approve a head that the loop does not know. Commits that an agent makes during its
/// run are reset when the run ends.
pub(crate) fn refuse_moved(ctx: &CommandContext, change: &Change) -> Result<()> {
    let id = &change.change_id;
    let items = ctx.read(|conn| bb::items_of(conn, id))?;
    if change.state.is_over() || items.iter().any(|item| item.status == Status::Claimed) {
        return Ok(());
    }
    let Some(head) = moved_to(ctx, change)? else {
        return Ok(());
    };
    let what = format!(
        "{id} is at {}, but {} has moved to {}",
        short_sha(&change.head),
        change.branch,
        short_sha(&head)
    );
    let hint = format!(
        "{}, then approve it after the review",
        change.submit_advice()
    );
    CommandError::new(what).fail_with_hint(hint)
}

/// Current head of the branch if it differs from the judged one; `None` if it cannot be read.
pub(crate) fn moved_to(ctx: &CommandContext, change: &Change) -> Result<Option<String>> {
    let git = ctx.git(&ctx.settings()?);
    let head = wait(async {
        let worktree = git.worktree_at(Path::new(&change.worktree)).await.ok()?;
        let name = if change.detached {
            "HEAD".to_owned()
        } else {
            format!("refs/heads/{}", change.branch)
        };
        git.resolve(&worktree.place, &name).await.ok()?
    })?;
    Ok(head.filter(|head| *head != change.head))
}
