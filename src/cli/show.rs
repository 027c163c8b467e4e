//! `remand show`: anything that has an id, in full.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::status::{finding_line, one};
use crate::blackboard::{self as bb, BoardError, Conn, OpenFinding, PastReview, Project};
use crate::change::{Change, ChangeId, ProjectId, dollars};
use crate::cli::frame::context::{CommandContext, find_change, no_such};
use crate::cli::frame::error::{CommandError, ExitCode};
use crate::cli::frame::pr_ref::PrRef;
use crate::cli::frame::ui::Line;
use crate::cli::view::print_change::{field, print_answer, short};
use crate::event::Event;
use crate::explain::UnwatchedPr;
use crate::finding::{FindingId, Resolution, ReviewId};
use crate::human_time::{ago, span};
use crate::work::{Item, ItemId, Rejection, RejectionId, Run, RunId};

/// Show anything that has an id, in full
#[derive(Debug, Args)]
#[command(
    after_help = "Ids: c1 change, w1 work item, r1 run, v1 review, j1 rejection, f1 finding; a number is an event.\n\
A change is also found by its branch, worktree or PR (owner/repo#42), a project by its name.\n\n\
Examples:\n  remand show v2      what the reviewer wrote\n  remand show 118     an event with its metadata"
)]
pub(crate) struct ShowArgs {
    /// The id
    #[arg(value_name = "ID")]
    id: String,
}

/// Whatever has an id.
pub(crate) enum Thing {
    Change(Change),
    Item(Item),
    Run(Run),
    Review(ChangeId, PastReview),
    Rejection(Rejection),
    Finding(ChangeId, OpenFinding),
    Event(Event),
    Project(Project),
    /// A pull request that is no change.
    Pull(Box<UnwatchedPr>),
}

/// What a person means by an id. The letter in front says what it names; a branch may look like an id, so a change by
/// that name is the last guess.
pub(crate) fn find(ctx: &CommandContext, text: &str) -> Result<Thing> {
    let name = ctx.pull_name(text)?;
    let text = name.as_deref().unwrap_or(text);
    let found = ctx.read(|conn| {
        if let Some(thing) = by_id(conn, text)? {
            return Ok(Ok(thing));
        }
        if let Some(project) = maybe(bb::project(conn, &ProjectId::new(text)))? {
            return Ok(Ok(Thing::Project(project)));
        }
        Ok(find_change(conn, text)?.map(Thing::Change))
    })?;
    match (found, PrRef::parse(text)) {
        (Ok(thing), _) => Ok(thing),
        (Err(_), Some(name)) => Ok(Thing::Pull(Box::new(unwatched(ctx, &name)?))),
        (Err(near), None) => Err(ctx
            .pruned(text)?
            .unwrap_or_else(|| not_there(text, &near))
            .into()),
    }
}

fn unwatched(ctx: &CommandContext, name: &PrRef) -> Result<UnwatchedPr> {
    let project = name.project(ctx)?;
    let settings = ctx.settings()?;
    let settings = settings.project(project.project_id.as_str());
    let rules = settings.discover.as_ref();
    ctx.read(|conn| UnwatchedPr::gather(conn, &project, name.number, rules))
}

fn by_id(conn: &Conn, text: &str) -> bb::Result<Option<Thing>> {
    if let Ok(number) = text.parse::<i64>() {
        return maybe(bb::event(conn, number)).map(|found| found.map(Thing::Event));
    }
    let (letter, number) = text.split_at_checked(1).unwrap_or_default();
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    Ok(match letter {
        "w" => maybe(bb::item(conn, &ItemId::new(text)))?.map(Thing::Item),
        "r" => maybe(bb::run(conn, &RunId::new(text)))?.map(Thing::Run),
        "v" => maybe(bb::review(conn, &ReviewId::new(text)))?
            .map(|(change, review)| Thing::Review(change, review)),
        "j" => maybe(bb::rejection(conn, &RejectionId::new(text)))?.map(Thing::Rejection),
        "f" => maybe(bb::finding(conn, &FindingId::new(text)))?
            .map(|(change, finding)| Thing::Finding(change, finding)),
        _ => None,
    })
}

fn maybe<T>(found: bb::Result<T>) -> bb::Result<Option<T>> {
    match found {
        Ok(thing) => Ok(Some(thing)),
        Err(BoardError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn not_there(text: &str, near: &[String]) -> CommandError {
    let kind = match text.chars().next() {
        Some('w') => "work item",
        Some('r') => "run",
        Some('v') => "review",
        Some('j') => "rejection",
        Some('f') => "finding",
        Some(c) if c.is_ascii_digit() => "event",
        Some(_) | None => return no_such(text, near),
    };
    if text.chars().skip(1).any(|c| !c.is_ascii_digit()) {
        return no_such(text, near);
    }
    CommandError::not_found(format!("there is no {kind} `{text}`"))
        .hint("ids: c1 change, w1 work item, r1 run, v1 review, j1 rejection, f1 finding, 1 event; `remand list --all` shows the changes")
}

pub(crate) fn show(args: &ShowArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    match find(ctx, &args.id)? {
        Thing::Change(change) => one(ctx, change),
        Thing::Item(item) => show_item(ctx, item),
        Thing::Run(run) => show_run(ctx, &run),
        Thing::Review(change, review) => show_review(ctx, &change, &review),
        Thing::Rejection(rejection) => show_rejection(ctx, &rejection),
        Thing::Finding(change, finding) => show_finding(ctx, &change, &finding),
        Thing::Event(event) => show_event(ctx, &event),
        Thing::Project(project) => show_project(ctx, &project),
        Thing::Pull(pull) => show_unwatched(ctx, &pull),
    }
}

/// A thing with the change that it belongs to.
#[derive(Serialize)]
struct Of<'a, T> {
    change_id: &'a ChangeId,
    #[serde(flatten)]
    thing: &'a T,
}

#[derive(Serialize)]
struct ItemDetail {
    #[serde(flatten)]
    item: Item,
    runs: Vec<Run>,
    rejections: Vec<Rejection>,
    /// What would have run, where its change is in shadow.
    shadow: Option<bb::Shadowed>,
    /// What a review in shadow said.
    shadow_review: Option<bb::ShadowReview>,
}

/// For `item show` too.
pub(crate) fn item(ctx: &mut CommandContext, id: &ItemId) -> Result<ExitCode> {
    let item = ctx.read(|conn| bb::item(conn, id))?;
    show_item(ctx, item)
}

fn show_item(ctx: &mut CommandContext, item: Item) -> Result<ExitCode> {
    let detail = ctx.read(|conn| {
        let (runs, rejections) = (
            bb::runs_of(conn, &item.item_id)?,
            bb::rejections_in(conn, &item.item_id)?,
        );
        let (shadow, shadow_review) = (
            bb::shadow_of(conn, &item.item_id)?,
            bb::shadow_review_of(conn, &item.item_id)?,
        );
        Ok(ItemDetail {
            shadow,
            shadow_review,
            item,
            runs,
            rejections,
        })
    })?;
    if ctx.out.is_json() {
        ctx.out.json(&detail)?;
        return Ok(ExitCode::Done);
    }
    let item = &detail.item;
    heading(ctx, item.item_id.as_str(), &item.title)?;
    field(ctx, "source", item.source.as_str())?;
    field(ctx, "status", item.status.as_str())?;
    field(ctx, "priority", item.priority.as_str())?;
    field(
        ctx,
        "change",
        item.change_id.as_ref().map_or("", ChangeId::as_str),
    )?;
    field(
        ctx,
        "made",
        format!("{} ({})", item.created_at, ago(item.created_at, ctx.now)),
    )?;
    field(
        ctx,
        "claimed by",
        item.claimed_by.as_deref().unwrap_or_default(),
    )?;
    field(
        ctx,
        "lease",
        item.lease_expires_at
            .map(|lease| lease.to_string())
            .unwrap_or_default(),
    )?;
    field(
        ctx,
        "not before",
        item.not_before
            .map(|moment| moment.to_string())
            .unwrap_or_default(),
    )?;
    field(
        ctx,
        "attempt",
        format!("{} (epoch {})", item.attempt, item.epoch),
    )?;
    field(
        ctx,
        "failed",
        item.failure_reason.as_deref().unwrap_or_default(),
    )?;
    if let Some(shadow) = &detail.shadow {
        field(
            ctx,
            "shadow",
            format!("would have run {}", bb::shadow_told(item, shadow)),
        )?;
        field(ctx, "prompt", shadow.prompt.as_deref().unwrap_or_default())?;
    }
    if let Some(review) = &detail.shadow_review {
        field(ctx, "in shadow", review.text())?;
        for one in &review.findings {
            let line = one.line.map(|line| format!(":{line}")).unwrap_or_default();
            let place = one
                .path
                .as_deref()
                .map(|path| format!(" {path}{line}"))
                .unwrap_or_default();
            field(
                ctx,
                "finding",
                format!("{}{place} {}", one.severity, one.text),
            )?;
        }
    }
    for run in &detail.runs {
        field(ctx, "run", run_line(run))?;
    }
    for rejection in &detail.rejections {
        field(
            ctx,
            "rejection",
            format!(
                "{} ({}): {}",
                rejection.rejection_id, rejection.state, rejection.summary
            ),
        )?;
    }
    metadata(ctx, &item.metadata)?;
    Ok(ExitCode::Done)
}

fn run_line(run: &Run) -> String {
    let ended = run.ended.map_or("still runs", |ended| ended.as_str());
    let status = run
        .exit_status
        .map(|status| format!(", status {status}"))
        .unwrap_or_default();
    format!("{} by {}: {ended}{status}", run.run_id, run.agent)
}

fn show_run(ctx: &mut CommandContext, run: &Run) -> Result<ExitCode> {
    if ctx.out.is_json() {
        ctx.out.json(run)?;
        return Ok(ExitCode::Done);
    }
    heading(ctx, run.run_id.as_str(), &format!("by {}", run.agent))?;
    field(ctx, "item", run.item_id.as_str())?;
    field(ctx, "change", run.change_id.as_str())?;
    field(ctx, "model", run.model.as_deref().unwrap_or_default())?;
    field(ctx, "session", run.session.as_deref().unwrap_or_default())?;
    field(
        ctx,
        "started",
        format!("{} ({})", run.started_at, ago(run.started_at, ctx.now)),
    )?;
    let ended = run.ended.map(|ended| ended.as_str()).unwrap_or("not yet");
    let status = run
        .exit_status
        .map(|status| format!(", status {status}"))
        .unwrap_or_default();
    let took = run
        .ended_at
        .map(|at| format!(", after {}", span(at.since(run.started_at))))
        .unwrap_or_default();
    field(ctx, "ended", format!("{ended}{status}{took}"))?;
    field(ctx, "before", short(&run.head_before))?;
    field(
        ctx,
        "after",
        run.head_after.as_deref().map(short).unwrap_or_default(),
    )?;
    field(
        ctx,
        "discarded",
        if run.discarded {
            "its work is on a wip ref, not on the branch"
        } else {
            ""
        },
    )?;
    field(
        ctx,
        "gates",
        run.gates.map(|gates| gates.as_str()).unwrap_or_default(),
    )?;
    field(
        ctx,
        "tokens",
        run.tokens
            .map(|tokens| tokens.to_string())
            .unwrap_or_default(),
    )?;
    field(
        ctx,
        "cost",
        run.cost_micros.map(dollars).unwrap_or_default(),
    )?;
    field(ctx, "files", &run.dir)?;
    if let Some(output) = run
        .gate_output
        .as_deref()
        .filter(|output| !output.trim().is_empty())
    {
        ctx.out.blank()?;
        ctx.out.block(output, 2)?;
    }
    Ok(ExitCode::Done)
}

fn show_review(
    ctx: &mut CommandContext,
    change_id: &ChangeId,
    review: &PastReview,
) -> Result<ExitCode> {
    if ctx.out.is_json() {
        ctx.out.json(&Of {
            change_id,
            thing: review,
        })?;
        return Ok(ExitCode::Done);
    }
    heading(
        ctx,
        review.review_id.as_str(),
        &format!("of {change_id}, {}", review.verdict),
    )?;
    field(
        ctx,
        "summary",
        review.summary.as_deref().unwrap_or_default(),
    )?;
    field(
        ctx,
        "read as",
        format!("{}: {}", review.dialect, review.reason),
    )?;
    field(
        ctx,
        "commit",
        format!("{} against {}", short(&review.head), short(&review.base)),
    )?;
    field(ctx, "item", review.item_id.as_str())?;
    field(
        ctx,
        "when",
        format!(
            "{} ({})",
            review.created_at,
            ago(review.created_at, ctx.now)
        ),
    )?;
    ctx.out.blank()?;
    ctx.out.block(&review.body, 2)?;
    Ok(ExitCode::Done)
}

fn show_rejection(ctx: &mut CommandContext, rejection: &Rejection) -> Result<ExitCode> {
    if ctx.out.is_json() {
        ctx.out.json(rejection)?;
        return Ok(ExitCode::Done);
    }
    heading(ctx, rejection.rejection_id.as_str(), &rejection.summary)?;
    field(ctx, "state", rejection.state.as_str())?;
    field(
        ctx,
        "reason",
        rejection.reason.as_deref().unwrap_or_default(),
    )?;
    field(ctx, "change", rejection.change_id.as_str())?;
    field(
        ctx,
        "fix",
        rejection.item_id.as_ref().map_or("", ItemId::as_str),
    )?;
    field(ctx, "event", rejection.event_id.to_string())?;
    if !rejection.rejected.body.is_empty() {
        ctx.out.blank()?;
        ctx.out.block(&rejection.rejected.body, 2)?;
    }
    Ok(ExitCode::Done)
}

fn show_finding(
    ctx: &mut CommandContext,
    change_id: &ChangeId,
    finding: &OpenFinding,
) -> Result<ExitCode> {
    if ctx.out.is_json() {
        ctx.out.json(&Of {
            change_id,
            thing: finding,
        })?;
        return Ok(ExitCode::Done);
    }
    ctx.out.line(finding_line(finding))?;
    field(ctx, "change", change_id.as_str())?;
    field(ctx, "category", finding.finding.category.as_str())?;
    field(
        ctx,
        "suggestion",
        finding.finding.suggestion.as_deref().unwrap_or_default(),
    )?;
    field(ctx, "note", finding.note.as_deref().unwrap_or_default())?;
    field(
        ctx,
        "resolution",
        finding.resolution.map_or("", Resolution::as_str),
    )?;
    Ok(ExitCode::Done)
}

fn show_event(ctx: &mut CommandContext, event: &Event) -> Result<ExitCode> {
    if ctx.out.is_json() {
        ctx.out.json(event)?;
        return Ok(ExitCode::Done);
    }
    heading(ctx, &event.id.to_string(), &event.summary)?;
    field(ctx, "type", event.event_type.as_str())?;
    field(
        ctx,
        "when",
        format!("{} ({})", event.timestamp, ago(event.timestamp, ctx.now)),
    )?;
    field(ctx, "by", &event.actor_id)?;
    field(
        ctx,
        "about",
        format!("{} {}", event.target_type, event.target_id),
    )?;
    field(
        ctx,
        "change",
        event.change_id.as_ref().map_or("", ChangeId::as_str),
    )?;
    metadata(ctx, &event.metadata)?;
    Ok(ExitCode::Done)
}

fn show_project(ctx: &mut CommandContext, project: &Project) -> Result<ExitCode> {
    if ctx.out.is_json() {
        ctx.out.json(project)?;
        return Ok(ExitCode::Done);
    }
    heading(ctx, project.project_id.as_str(), "project")?;
    field(ctx, "path", &project.path)?;
    field(ctx, "branch", &project.default_branch)?;
    field(ctx, "repo", project.repo.as_deref().unwrap_or_default())?;
    field(
        ctx,
        "pushes to",
        project
            .remote_url
            .as_deref()
            .unwrap_or("nowhere: no URL is pinned"),
    )?;
    Ok(ExitCode::Done)
}

fn show_unwatched(ctx: &mut CommandContext, unwatched: &UnwatchedPr) -> Result<ExitCode> {
    if ctx.out.is_json() {
        ctx.out.json(unwatched)?;
        return Ok(ExitCode::Done);
    }
    let title = unwatched
        .pull
        .as_ref()
        .map_or("a PR that was never seen", |pull| &pull.title);
    heading(ctx, &unwatched.pr, title)?;
    print_answer(ctx, &unwatched.explain(ctx.around()?))?;
    if let Some(pull) = &unwatched.pull {
        field(
            ctx,
            "state",
            if pull.draft {
                "open, a draft"
            } else {
                pull.state.as_str()
            },
        )?;
        field(ctx, "author", pull.author.as_deref().unwrap_or("ghost"))?;
        field(
            ctx,
            "branch",
            format!("{} → {}", pull.head_ref, pull.base_ref),
        )?;
        field(ctx, "labels", pull.labels.join(", "))?;
        field(ctx, "URL", &pull.url)?;
    }
    Ok(ExitCode::Done)
}

fn heading(ctx: &mut CommandContext, id: &str, title: &str) -> Result<()> {
    Ok(ctx
        .out
        .line(Line::default().strong(id).plain("  ").plain(title))?)
}

fn metadata(ctx: &mut CommandContext, value: &Value) -> Result<()> {
    if value.as_object().is_some_and(|keys| !keys.is_empty()) {
        ctx.out.blank()?;
        ctx.out.block(&serde_json::to_string_pretty(value)?, 2)?;
    }
    Ok(())
}
