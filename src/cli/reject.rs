//! `remand reject`: a no from outside becomes the same event as every other no.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::Named;
use crate::blackboard as bb;
use crate::cli::frame::context::{CommandContext, read_text, said};
use crate::cli::frame::error::{CommandError, ExitCode};
use crate::cli::view::print_change::told;
use crate::event::body::WorkRejected;
use crate::finding::Verdict;
use crate::review_text;
use crate::work::NewRejection;

/// How much of a rejection's text stands in its event's summary; the whole is in the metadata.
const SUMMARY_CAP: usize = 200;

/// Reject a change: what you say goes to an agent that fixes it
#[derive(Debug, Args)]
#[command(
    after_help = "The text may be a whole review: findings that remand can read in it (see `remand read-review`)\n\
are taken over with their places. Your word begins a new round of fixes, also for a change\nthat waits for a person.\n\n\
Examples:\n  remand reject c1 --text 'the retry loop never ends when the server answers 503'\n  \
gh pr view 42 --comments | remand reject feature/login --file -"
)]
pub(crate) struct RejectArgs {
    #[command(flatten)]
    named: Named,

    /// Read what is wrong from FILE (`-`: from stdin)
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "text",
        conflicts_with = "text"
    )]
    file: Option<PathBuf>,

    /// What is wrong, in your words (`-`: from stdin)
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
}

pub(crate) fn reject(args: &RejectArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let body = match (&args.file, &args.text) {
        (Some(file), _) => read_text(file)?,
        (None, Some(text)) => said(text)?,
        (None, None) => String::new(),
    };
    if body.trim().is_empty() {
        return Err(CommandError::usage("the rejection says nothing")
            .hint("say what is to be fixed")
            .into());
    }
    let change = ctx.change(&args.named.change)?;
    if change.state.is_over() {
        let what = format!(
            "{} is {}: nothing more is done for it",
            change.change_id, change.state
        );
        return Err(CommandError::new(what).into());
    }
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
        let rejection = NewRejection::new(&step.actor, summary(&body), rejected);
        bb::reject_change(conn, &id, &rejection, step.now).map(|_| ())
    })?;
    told(ctx, &id, "is rejected")
}

/// The first line that says something.
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
