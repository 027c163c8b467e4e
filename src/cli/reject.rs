//! `remand reject`: turns a rejection from outside into the same event as every other rejection.

use anyhow::Result;
use clap::Args;

use super::Named;
use crate::blackboard as bb;
use crate::cli::frame::{CommandContext, CommandError, ExitCode, TextArgs, refuse_agents};
use crate::cli::view::print_change::told;
use crate::event::body::WorkRejected;
use crate::finding::Verdict;
use crate::review_text;

/// Maximum length of a rejection's text in the summary of its event; the metadata has all of it.
const SUMMARY_CAP: usize = 200;

/// Reject a change and have an agent fix it
#[derive(Debug, Args)]
#[command(
    after_help = "The text can be a complete review: its findings are parsed, including their locations (see \
`remand read-review`). A rejection starts a new round of fixes, even if the change is waiting for a person.\n\n\
Examples:\n  remand reject c1 'the retry loop never ends when the server answers 503'\n  \
gh pr view 42 --comments | remand reject feature/login --file -"
)]
pub(crate) struct RejectArgs {
    #[command(flatten)]
    named: Named,

    #[command(flatten)]
    text: TextArgs,
}

pub(crate) fn reject(args: &RejectArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    refuse_agents()?;
    let change = ctx.change(&args.named.change)?;
    if change.state.is_over() {
        let what = format!("{} is already {}", change.change_id, change.state);
        return CommandError::new(what).fail();
    }
    let question = format!(
        "What is wrong with {} ({})?",
        change.change_id, change.title
    );
    let body = args.text.required(ctx, &question)?;
    let threshold = ctx
        .settings()?
        .project(change.project_id.as_str())
        .severity_threshold;
    let findings = review_text::read(&body, threshold).findings;
    let id = change.change_id.clone();
    ctx.write_and_judge("reject", |conn, step| {
        let rejected = WorkRejected {
            verdict: Some(Verdict::ChangesRequested),
            head: Some(change.head.clone()),
            body: body.clone(),
            findings,
            begins_round: Some(true),
            ..Default::default()
        };
        let summary = summary(&body);
        bb::reject_change(conn, &id, &step.actor, &summary, &rejected, step.now).map(drop)
    })?;
    told(ctx, &id, "was rejected")
}

/// Returns the first line that is not empty.
pub(crate) fn summary(body: &str) -> String {
    let line = body
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    let mut summary: String = line.chars().take(SUMMARY_CAP).collect();
    if summary.len() < line.len() {
        summary.push('…');
    }
    summary
}
