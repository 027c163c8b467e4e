//! `remand read-review`: how remand understands a review, without any change around it.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::cli::frame::context::{CommandContext, read_text};
use crate::cli::frame::error::ExitCode;
use crate::cli::frame::ui::{Line, TextStyle};
use crate::cli::view::print_change::field;
use crate::finding::{Finding, Outcome, Severity, Verdict};
use crate::review_text::{self, Dialect, Reading};

/// Say how remand reads the text of a review: verdict, findings, and why
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  remand read-review review.md\n  pbpaste | remand read-review - --json"
)]
pub(crate) struct ReadReviewArgs {
    /// The file with the text (`-`: stdin)
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The least finding that keeps it from being an approval: critical, high, medium, low, suggestion [default: loop.severity_threshold]
    #[arg(long, value_name = "SEVERITY", value_parser = |text: &str| text.parse::<Severity>())]
    threshold: Option<Severity>,
}

#[derive(Serialize)]
struct ReviewReading {
    verdict: Verdict,
    raw_verdict: Option<Verdict>,
    findings: Vec<Finding>,
    judged: Vec<Judged>,
    summary: Option<String>,
    dialect: Dialect,
    reason: String,
    missing: Vec<String>,
}

#[derive(Serialize)]
struct Judged {
    id: String,
    outcome: Outcome,
}

pub(crate) fn read_review(args: &ReadReviewArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let text = read_text(&args.file)?;
    let threshold = match args.threshold {
        Some(threshold) => threshold,
        None => ctx.settings()?.project("").severity_threshold,
    };
    let reading = review_text::read(&text, threshold);
    if ctx.out.is_json() {
        ctx.out.json(&ReviewReading::from(reading))?;
        return Ok(ExitCode::Done);
    }
    let look = match reading.verdict {
        Verdict::Approved => TextStyle::Good,
        Verdict::ChangesRequested | Verdict::NeedsDiscussion | Verdict::Unclear => {
            TextStyle::Notice
        }
    };
    ctx.out.line(
        Line::default()
            .faint(format!("{:<11}", "verdict"))
            .piece(look, reading.verdict.as_str()),
    )?;
    field(ctx, "reason", &reading.reason)?;
    field(ctx, "dialect", reading.dialect.as_str())?;
    field(
        ctx,
        "summary",
        reading.summary.as_deref().unwrap_or_default(),
    )?;
    for finding in &reading.findings {
        let line = finding
            .line
            .map(|line| format!(":{line}"))
            .unwrap_or_default();
        let place = finding
            .path
            .as_deref()
            .map(|path| format!(" {path}{line}"))
            .unwrap_or_default();
        field(
            ctx,
            "finding",
            format!(
                "{} {}{place} {}",
                finding.severity, finding.category, finding.text
            ),
        )?;
    }
    for judgment in &reading.judged {
        field(
            ctx,
            "earlier",
            format!("{} is {}", judgment.id, judgment.outcome),
        )?;
    }
    for missing in &reading.missing {
        field(ctx, "missing", missing)?;
    }
    Ok(ExitCode::Done)
}

impl From<Reading> for ReviewReading {
    fn from(reading: Reading) -> Self {
        let judged = reading.judged.into_iter().map(|judgment| Judged {
            id: judgment.id,
            outcome: judgment.outcome,
        });
        Self {
            verdict: reading.verdict,
            raw_verdict: reading.raw_verdict,
            findings: reading.findings,
            judged: judged.collect(),
            summary: reading.summary,
            dialect: reading.dialect,
            reason: reading.reason,
            missing: reading.missing,
        }
    }
}
