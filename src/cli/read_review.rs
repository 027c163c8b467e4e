//! `remand read-review`: shows how remand parses a review, without a change.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::cli::frame::{CommandContext, ExitCode, Line, TextStyle, read_text};
use crate::finding::{Severity, Verdict};
use crate::review_text::{self, Reading};
use crate::text::prefixed;

/// Show how remand parses a review: verdict, findings and reasons
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  remand read-review review.md\n  pbpaste | remand read-review - --json"
)]
pub(crate) struct ReadReviewArgs {
    /// File with the text of a review; `-` means stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Lowest severity that prevents an approval: critical, high, medium, low or suggestion [default: loop.severity_threshold]
    #[arg(long, value_name = "SEVERITY", value_parser = |text: &str| text.parse::<Severity>())]
    threshold: Option<Severity>,
}

pub(crate) fn read_review(args: &ReadReviewArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let text = read_text(&args.file)?;
    let threshold = match args.threshold {
        Some(threshold) => threshold,
        None => ctx.settings()?.project("").severity_threshold,
    };
    ctx.show(&review_text::read(&text, threshold), print)
}

fn print(ctx: &mut CommandContext, reading: &Reading) -> Result<()> {
    let style = match reading.verdict {
        Verdict::Approved => TextStyle::Good,
        Verdict::ChangesRequested | Verdict::NeedsDiscussion | Verdict::Unclear => {
            TextStyle::Notice
        }
    };
    ctx.out
        .line(Line::label("verdict").piece(style, reading.verdict))?;
    ctx.field("reason", &reading.reason)?;
    ctx.field("dialect", reading.dialect)?;
    ctx.field_if("summary", reading.summary.as_ref())?;
    for finding in &reading.findings {
        let place = prefixed(" ", finding.place());
        let (severity, category) = (finding.severity, &finding.category);
        let text = format!("{severity} {category}{place} {}", finding.titled_text());
        ctx.field("finding", text)?;
        ctx.field_if("fails with", finding.failure.as_ref())?;
    }
    for judgment in &reading.judged {
        let text = format!("{}: {}", judgment.id, judgment.outcome);
        ctx.field("earlier", text)?;
    }
    for missing in &reading.missing {
        ctx.field("missing", missing)?;
    }
    Ok(())
}
