//! `remand show`: shows anything that has an id, in full.

use std::fmt::Display;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::diff::objects_of;
use super::status::{finding_line, one};
use crate::blackboard::{self as bb, Conn, OpenFinding, PastReview, Project};
use crate::change::{Change, ChangeId, ProjectId};
use crate::cli::frame::{
    CommandContext, CommandError, ExitCode, Line, PrRef, find_change, found, no_such,
    similar_changes, wait,
};
use crate::cli::view::print_change::print_answer;
use crate::cli::view::review_row::ReviewRow;
use crate::clock::Time;
use crate::dispatch::{existing_review_file, review_markdown};
use crate::event::Event;
use crate::explain::UnwatchedPr;
use crate::finding::{Finding, FindingId, ReviewId};
use crate::human_time::{ago, span};
use crate::pull_request::Feedback;
use crate::task::TaskRow;
use crate::text::{dollars, place, prefixed, short_sha};
use crate::work::{Item, ItemId, LoopStep, Rejection, RejectionId, Run, RunId};

/// Show all details of anything that has an id
#[derive(Debug, Args)]
#[command(
    after_help = "Ids: c1 change, w1 work item, r1 run, v1 review, j1 rejection, f1 finding, g1 feedback. A number is an event, \
or a PR of the current project. You can also refer to a change by its branch, worktree path or PR (owner/repo#42), and to a \
project by its name.\n\n\
Examples:\n  remand show v2      the text of a review\n  remand show v2 --markdown      its file, as it would be written now\n  remand show 118     an event with its metadata"
)]
pub(crate) struct ShowArgs {
    /// Id, branch, worktree path, PR or project name
    #[arg(value_name = "ID")]
    id: String,

    /// Print a review as Markdown, with the present outcome of each finding
    #[arg(long)]
    markdown: bool,
}

/// Anything that has an id.
pub(crate) enum Thing {
    Change(Change),
    Item(Item),
    Run(Run),
    Review(ChangeId, PastReview),
    Rejection(Rejection),
    Finding(ChangeId, OpenFinding),
    Feedback(Feedback),
    Event(Event),
    Project(Project),
    /// A pull request without a change.
    Pull(Box<UnwatchedPr>),
}

/// Finds a thing by its id. The first letter gives its kind; a branch may look like an id, so a
/// change with that branch is tried last.
pub(crate) fn find(ctx: &CommandContext, text: &str) -> Result<Thing> {
    let name = ctx.pull_name(text)?;
    let text = name.as_deref().unwrap_or(text);
    let thing = ctx.read(|conn| {
        if let Some(thing) = by_id(conn, text)? {
            return Ok(Some(thing));
        }
        if let Some(project) = found(bb::project(conn, &ProjectId::new(text)))? {
            return Ok(Some(Thing::Project(project)));
        }
        Ok(find_change(conn, text)?.map(Thing::Change))
    })?;
    if let Some(thing) = thing {
        return Ok(thing);
    }
    // A short name without a project may be a branch or a typo.
    if let Some(name) = PrRef::parse(text)
        && !(name.is_short() && name.project(ctx).is_err())
    {
        return Ok(Thing::Pull(Box::new(unwatched(ctx, &name)?)));
    }
    let near = ctx.read(|conn| similar_changes(conn, text))?;
    let pruned = ctx.pruned(text)?;
    Err(pruned.unwrap_or_else(|| not_there(text, &near)).into())
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
        return found(bb::event(conn, number)).map(|event| event.map(Thing::Event));
    }
    let (letter, number) = text.split_at_checked(1).unwrap_or_default();
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    Ok(match letter {
        "w" => found(bb::item(conn, &ItemId::new(text)))?.map(Thing::Item),
        "r" => found(bb::run(conn, &RunId::new(text)))?.map(Thing::Run),
        "v" => {
            let review = found(bb::review(conn, &ReviewId::new(text)))?;
            review.map(|(change, review)| Thing::Review(change, review))
        }
        "j" => found(bb::rejection(conn, &RejectionId::new(text)))?.map(Thing::Rejection),
        "f" => {
            let finding = found(bb::finding(conn, &FindingId::new(text)))?;
            finding.map(|(change, finding)| Thing::Finding(change, finding))
        }
        "g" => found(bb::feedback(conn, text))?.map(Thing::Feedback),
        _ => None,
    })
}

fn not_there(text: &str, near: &[String]) -> CommandError {
    let kind = match text.chars().next() {
        Some('w') => "work item",
        Some('r') => "run",
        Some('v') => "review",
        Some('j') => "rejection",
        Some('f') => "finding",
        Some('g') => "feedback",
        Some(c) if c.is_ascii_digit() => "event",
        Some(_) | None => return no_such(text, near),
    };
    if text.chars().skip(1).any(|c| !c.is_ascii_digit()) {
        return no_such(text, near);
    }
    CommandError::not_found(format!("no such {kind}: `{text}`"))
        .hint("ids: c1 change, w1 work item, r1 run, v1 review, j1 rejection, f1 finding, g1 feedback; a number is an event, or a PR of the current project; `remand list --all` lists the changes")
}

pub(crate) fn show(args: &ShowArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let thing = find(ctx, &args.id)?;
    if args.markdown && !matches!(thing, Thing::Review(..)) {
        let what = format!("--markdown needs a review, and `{}` is none", args.id);
        return CommandError::usage(what)
            .fail_with_hint("`remand status CHANGE` lists the reviews of a change");
    }
    match thing {
        Thing::Change(change) => one(ctx, change),
        Thing::Item(item) => show_item(ctx, item),
        Thing::Run(run) => ctx.show(&run, print_run),
        Thing::Review(id, review) => show_review(ctx, &id, review, args.markdown),
        Thing::Rejection(rejection) => ctx.show(&rejection, print_rejection),
        Thing::Finding(id, finding) => ctx.show(&Of::new(&id, &finding), print_finding),
        Thing::Feedback(feedback) => ctx.show(&feedback, print_feedback),
        Thing::Event(event) => ctx.show(&event, print_event),
        Thing::Project(project) => ctx.show(&project, print_project),
        Thing::Pull(pull) => ctx.show(&pull, |ctx, pull| print_unwatched(ctx, pull)),
    }
}

/// A thing and the change it belongs to.
#[derive(Serialize)]
struct Of<'a, T> {
    change_id: &'a ChangeId,
    #[serde(flatten)]
    thing: &'a T,
}

impl<'a, T> Of<'a, T> {
    fn new(change_id: &'a ChangeId, thing: &'a T) -> Self {
        Self { change_id, thing }
    }
}

#[derive(Serialize)]
struct ItemDetail {
    #[serde(flatten)]
    item: Item,
    runs: Vec<Run>,
    rejections: Vec<Rejection>,
    /// The task, of the item that implements it.
    task: Option<TaskRow>,
    /// The run that was not started because the change is in shadow.
    shadow: Option<bb::Shadowed>,
    /// Result of a review in shadow.
    shadow_review: Option<bb::ShadowReview>,
}

/// Shows an item; also for `item show`.
pub(crate) fn item(ctx: &mut CommandContext, id: &ItemId) -> Result<ExitCode> {
    let item = ctx.read(|conn| bb::item(conn, id))?;
    show_item(ctx, item)
}

fn show_item(ctx: &mut CommandContext, item: Item) -> Result<ExitCode> {
    let detail = ctx.read(|conn| {
        Ok(ItemDetail {
            runs: bb::runs_of(conn, &item.item_id)?,
            rejections: bb::rejections_in(conn, &item.item_id)?,
            task: match (item.step(), &item.change_id) {
                (Some(LoopStep::Implement), Some(id)) => bb::task(conn, id)?,
                _ => None,
            },
            shadow: bb::shadow_of(conn, &item.item_id)?,
            shadow_review: bb::shadow_review_of(conn, &item.item_id)?,
            item,
        })
    })?;
    ctx.show(&detail, print_item)
}

fn print_item(ctx: &mut CommandContext, detail: &ItemDetail) -> Result<()> {
    let item = &detail.item;
    heading(ctx, &item.item_id, &item.title)?;
    ctx.field("source", item.source)?;
    ctx.field("status", item.status)?;
    ctx.field("priority", item.priority)?;
    ctx.field_if("change", item.change_id.as_ref())?;
    ctx.field("created", moment(item.created_at, ctx.now))?;
    ctx.field_if("claimed by", item.claimed_by.as_ref())?;
    ctx.field_if("lease", item.lease_expires_at.map(Time::local))?;
    ctx.field_if("not before", item.not_before.map(Time::local))?;
    let attempt = format!("{} (epoch {})", item.attempt, item.epoch);
    ctx.field("attempt", attempt)?;
    ctx.field_if("failed", item.failure_reason.as_ref())?;
    if let Some(shadow) = &detail.shadow {
        let told = bb::shadow_told(item, shadow);
        ctx.field("shadow", format!("would have run {told}"))?;
        ctx.field_if("prompt", shadow.prompt.as_ref())?;
    }
    if let Some(review) = &detail.shadow_review {
        ctx.field("in shadow", review.text())?;
        for one in &review.findings {
            print_own_finding(ctx, one)?;
        }
    }
    if let Some(task) = &detail.task {
        print_task(ctx, task)?;
    }
    for run in &detail.runs {
        let ended = run.ended.map_or("running", |ended| ended.as_str());
        let status = prefixed(", status ", run.exit_status);
        let text = format!("{} by {}: {ended}{status}", run.run_id, run.agent);
        ctx.field("run", text)?;
    }
    for rejection in &detail.rejections {
        let (id, state) = (&rejection.rejection_id, rejection.state);
        let text = format!("{id} ({state}): {}", rejection.summary);
        ctx.field("rejection", text)?;
    }
    metadata(ctx, &item.metadata)
}

fn print_task(ctx: &mut CommandContext, task: &TaskRow) -> Result<()> {
    ctx.field("task", &task.text)?;
    let spec = task.spec.as_ref();
    ctx.field_if(
        "spec",
        spec.map(|spec| format!("{} ({} bytes)", spec.path, spec.text.len())),
    )?;
    let issue = task.issue.as_ref();
    ctx.field_if(
        "issue",
        issue.map(|issue| format!("#{} {}", issue.number, issue.title)),
    )?;
    ctx.field_if("agent", task.agent.as_ref())?;
    ctx.field_if("reviewer", task.review_agent.as_ref())?;
    ctx.field_if("model", task.model.as_ref())?;
    ctx.field("draft", if task.draft { "yes" } else { "" })
}

fn print_run(ctx: &mut CommandContext, run: &Run) -> Result<()> {
    heading(ctx, &run.run_id, format!("by {}", run.agent))?;
    ctx.field("item", &run.item_id)?;
    ctx.field("change", &run.change_id)?;
    ctx.field_if("model", run.model.as_ref())?;
    ctx.field_if("session", run.session.as_ref())?;
    ctx.field("started", moment(run.started_at, ctx.now))?;
    let ended = run.ended.map_or("not yet", |ended| ended.as_str());
    let status = prefixed(", status ", run.exit_status);
    let took = run.ended_at.map(|at| span(at.since(run.started_at)));
    let took = prefixed(", after ", took);
    ctx.field("ended", format!("{ended}{status}{took}"))?;
    ctx.field("before", short_sha(&run.head_before))?;
    ctx.field_if("after", run.head_after.as_deref().map(short_sha))?;
    ctx.field_if("discarded", discarded(ctx, run)?)?;
    ctx.field_if("gates", run.gates)?;
    ctx.field_if("tokens", run.tokens)?;
    ctx.field_if("cost", run.cost_micros.map(dollars))?;
    ctx.field("files", &run.dir)?;
    body(ctx, run.gate_output.as_deref().unwrap_or_default())
}

/// Describes what became of the work of a discarded run.
fn discarded(ctx: &CommandContext, run: &Run) -> Result<Option<String>> {
    if !run.discarded {
        return Ok(None);
    }
    let project = ctx.read(|conn| {
        let change = bb::change(conn, &run.change_id)?;
        bb::project(conn, &change.project_id)
    })?;
    let (git, id) = (ctx.git(&ctx.settings()?), &run.run_id);
    let kept = wait(git.wip(&objects_of(project), id.as_str()))?;
    Ok(Some(match kept {
        Ok(Some(_)) => format!("its work was kept, but not on the branch: `remand diff {id}`"),
        Ok(None) => "it left no work to keep".to_owned(),
        Err(error) => format!("cannot find out whether its work was kept: {error}"),
    }))
}

/// A review with its number and its file.
#[derive(Serialize)]
struct ReviewDetail<'a> {
    change_id: &'a ChangeId,
    #[serde(flatten)]
    row: ReviewRow,
    /// Its file, if it has been written.
    file: Option<PathBuf>,
    /// Set with `--markdown`.
    markdown: Option<String>,
}

fn show_review(
    ctx: &mut CommandContext,
    change_id: &ChangeId,
    review: PastReview,
    is_markdown: bool,
) -> Result<ExitCode> {
    let settings = ctx.settings()?;
    let (report, numbered) = ctx.read(|conn| {
        let report = bb::review_report(conn, &review.review_id)?;
        Ok((report, bb::numbered_reviews_of(conn, change_id)?))
    })?;
    let dir = settings.state_folder().join("reviews");
    let its = numbered
        .iter()
        .find(|one| one.review_id == review.review_id);
    let detail = ReviewDetail {
        change_id,
        row: ReviewRow::new(review, report.number),
        file: its.and_then(|its| existing_review_file(&dir, its)),
        markdown: is_markdown.then(|| review_markdown(&report, settings.timezone())),
    };
    ctx.show(&detail, |ctx, detail| match &detail.markdown {
        Some(text) => Ok(ctx.out.raw(text)?),
        None => print_review(ctx, detail),
    })
}

fn print_review(ctx: &mut CommandContext, detail: &ReviewDetail<'_>) -> Result<()> {
    let (change_id, review, number) = (detail.change_id, &detail.row.review, detail.row.number);
    let title = format!("review {number} of {change_id}, {}", review.verdict);
    heading(ctx, &review.review_id, title)?;
    ctx.field_if("summary", review.summary.as_ref())?;
    let parsed = format!("{}: {}", review.dialect, review.reason);
    ctx.field("parsed as", parsed)?;
    ctx.field("reviewer", detail.row.reviewer())?;
    let (head, base) = (short_sha(&review.head), short_sha(&review.base));
    ctx.field("commit", format!("{head} against {base}"))?;
    ctx.field("item", &review.item_id)?;
    ctx.field("when", moment(review.created_at, ctx.now))?;
    let file = detail.file.as_ref().map(|file| file.display().to_string());
    let none = "not written yet: `remand tick` writes it";
    ctx.field("file", file.as_deref().unwrap_or(none))?;
    body(ctx, &review.body)
}

fn print_rejection(ctx: &mut CommandContext, rejection: &Rejection) -> Result<()> {
    heading(ctx, &rejection.rejection_id, &rejection.summary)?;
    ctx.field("state", rejection.state)?;
    ctx.field_if("reason", rejection.reason.as_ref())?;
    ctx.field("change", &rejection.change_id)?;
    ctx.field_if("fix", rejection.item_id.as_ref())?;
    ctx.field("event", rejection.event_id)?;
    for finding in &rejection.rejected.findings {
        print_own_finding(ctx, finding)?;
    }
    body(ctx, &rejection.rejected.body)
}

/// Prints a finding of a rejection or of a review in shadow.
fn print_own_finding(ctx: &mut CommandContext, finding: &Finding) -> Result<()> {
    let id = finding.id.as_ref().map(|id| format!("{id} "));
    let place = prefixed(" ", finding.place());
    let (severity, text) = (finding.severity, finding.titled_text());
    let id = id.unwrap_or_default();
    ctx.field("finding", format!("{id}{severity}{place} {text}"))?;
    ctx.field_if("fails with", finding.failure.as_ref())?;
    ctx.field_if("suggestion", finding.suggestion.as_ref())
}

fn print_finding(ctx: &mut CommandContext, of: &Of<'_, OpenFinding>) -> Result<()> {
    let finding = of.thing;
    ctx.out
        .line(finding_line(finding, &finding.finding.titled_text()))?;
    ctx.field("change", of.change_id)?;
    ctx.field("category", finding.finding.category)?;
    ctx.field_if("fails with", finding.finding.failure.as_ref())?;
    ctx.field_if("suggestion", finding.finding.suggestion.as_ref())?;
    ctx.field_if("note", finding.note.as_ref())?;
    ctx.field_if("resolution", finding.resolution)
}

fn print_feedback(ctx: &mut CommandContext, feedback: &Feedback) -> Result<()> {
    let title = format!("{} by {}", feedback.kind, feedback.author);
    heading(ctx, &feedback.feedback_id, title)?;
    ctx.field("change", &feedback.change_id)?;
    ctx.field_if("state", feedback.state)?;
    ctx.field_if("commit", feedback.commit.as_deref().map(short_sha))?;
    let place = place(feedback.path.as_deref(), feedback.line);
    ctx.field("place", place.trim())?;
    let reason = prefixed(": ", feedback.trust_reason.as_deref());
    ctx.field("trust", format!("{}{reason}", feedback.trust))?;
    let reason = prefixed(": ", feedback.outcome_reason.as_deref());
    let outcome = feedback.outcome.map(|outcome| format!("{outcome}{reason}"));
    let outcome = outcome.as_deref().unwrap_or("not evaluated yet");
    ctx.field("outcome", outcome)?;
    ctx.field_if("event", feedback.event_id)?;
    ctx.field("read", moment(feedback.taken_in, ctx.now))?;
    ctx.field_if("URL", feedback.url.as_ref())?;
    body(ctx, &feedback.body)
}

fn print_event(ctx: &mut CommandContext, event: &Event) -> Result<()> {
    heading(ctx, event.id, event.local_summary())?;
    ctx.field("type", event.event_type)?;
    ctx.field("when", moment(event.timestamp, ctx.now))?;
    ctx.field("by", &event.actor_id)?;
    let about = format!("{} {}", event.target_type, event.target_id);
    ctx.field("about", about)?;
    ctx.field_if("change", event.change_id.as_ref())?;
    metadata(ctx, &event.metadata)
}

fn print_project(ctx: &mut CommandContext, project: &Project) -> Result<()> {
    heading(ctx, &project.project_id, "project")?;
    print_location(ctx, project)
}

/// Prints where a project is; also for `project show`.
pub(crate) fn print_location(ctx: &mut CommandContext, project: &Project) -> Result<()> {
    ctx.field("path", &project.path)?;
    ctx.field("branch", &project.default_branch)?;
    ctx.field_if("repo", project.repo.as_ref())?;
    let url = project.remote_url.as_deref();
    ctx.field("pushes to", url.unwrap_or("nowhere: no push URL is set"))
}

fn print_unwatched(ctx: &mut CommandContext, unwatched: &UnwatchedPr) -> Result<()> {
    let title = unwatched.pull.as_ref().map(|pull| pull.title.as_str());
    let title = title.unwrap_or("a PR that remand has not seen");
    heading(ctx, &unwatched.pr, title)?;
    print_answer(ctx, &unwatched.explain(ctx.around()?))?;
    if let Some(pull) = &unwatched.pull {
        let state = pull.state.as_str();
        ctx.field("state", if pull.draft { "open, draft" } else { state })?;
        ctx.field("author", pull.author.as_deref().unwrap_or("ghost"))?;
        ctx.field("branch", format!("{} → {}", pull.head_ref, pull.base_ref))?;
        ctx.field("labels", pull.labels.join(", "))?;
        ctx.field("URL", &pull.url)?;
    }
    Ok(())
}

fn heading(ctx: &mut CommandContext, id: impl Display, title: impl Display) -> Result<()> {
    let line = Line::new().strong(id).plain("  ").plain(title);
    Ok(ctx.out.line(line)?)
}

/// Formats a time and its age.
pub(crate) fn moment(at: Time, now: Time) -> String {
    format!("{} ({})", at.local(), ago(at, now))
}

/// Prints a multi-line text below the fields, unless it is empty.
fn body(ctx: &mut CommandContext, text: &str) -> Result<()> {
    if !text.trim().is_empty() {
        ctx.out.blank()?;
        ctx.out.block(text, 2)?;
    }
    Ok(())
}

fn metadata(ctx: &mut CommandContext, value: &Value) -> Result<()> {
    if value.as_object().is_some_and(|keys| !keys.is_empty()) {
        body(ctx, &serde_json::to_string_pretty(value)?)?;
    }
    Ok(())
}
