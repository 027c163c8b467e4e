//! `remand status`: shows one change in full, or an overview.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::approve::moved_to;
use super::show::moment;
use super::{board, reload};
use crate::agent::{self, Doing};
use crate::blackboard::{self as bb, OpenFinding, WithoutCost};
use crate::change::{Budget, Change, ChangeId, State};
use crate::cli::frame::running_daemon::{self, RunningDaemon};
use crate::cli::frame::{CommandContext, ExitCode, Line, TextStyle};
use crate::cli::view::print_change::{look_of, print_answer_without};
use crate::cli::view::redraw;
use crate::cli::view::review_row::ReviewRow;
use crate::clock::Time;
use crate::event::EventType;
use crate::explain::{ChangeView, not_in_force_command, stop_command, stop_sentence};
use crate::human_time::{ago, ahead, span};
use crate::pull_request::FeedbackOutcome;
use crate::pull_request::{Feedback, PullRow, Trust};
use crate::sanitize;
use crate::text::{columns, dollars, joined, list, place, prefixed, short_sha, truncate};
use crate::work::{ItemId, Rejection, Run, RunId, Status};

/// Maximum number of fixes that `status` lists.
const MOST_FIXES: i64 = 20;

/// Maximum number of columns of a text by an agent; `show` prints all of it.
const MOST_COLUMNS: usize = 300;

/// Show one change in detail, or an overview of all
#[derive(Debug, Args)]
#[command(
    after_help = "With --watch, a terminal shows the output on its alternate screen until you press q or Ctrl-C; without CHANGE, that is the \
board, cut to the height of the screen. If the output is piped, a new block (with --json, a single line with the overview) is \
printed whenever something changes.\n\nExamples:\n  remand status\n  remand status --watch       the board, redrawn\n  remand status c1 --watch"
)]
pub(crate) struct StatusArgs {
    /// Change: id (c1), branch, worktree path, or PR (owner/repo#42, URL, or 42)
    #[arg(value_name = "CHANGE")]
    change: Option<String>,

    /// Update the output whenever something changes
    #[arg(short, long)]
    watch: bool,
}

pub(crate) fn status(args: &StatusArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    if !args.watch {
        return once(args, ctx);
    }
    let shows_board = args.change.is_none() && !ctx.out.is_json();
    redraw::follow(ctx, |ctx| match shows_board {
        true => board::list(&board::ListArgs::default(), ctx),
        false => once(args, ctx),
    })
}

fn once(args: &StatusArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    match &args.change {
        Some(change) => {
            let change = ctx.change(change)?;
            one(ctx, change)
        }
        None => all(ctx),
    }
}

/// A change with its reviews and open findings.
#[derive(Serialize)]
struct Detail {
    #[serde(flatten)]
    view: ChangeView,
    open_findings: Vec<OpenFinding>,
    reviews: Vec<ReviewRow>,
    /// Rejections, oldest first: those of reviews, of people and of gates.
    rejections: Vec<Rejection>,
    /// Descriptions of its fixes, oldest first.
    #[serde(skip)]
    fixes: Vec<String>,
    /// Feedback on its pull request, oldest first.
    feedback: Vec<Feedback>,
    /// Current activity of the running agent, if it reports it.
    doing: Option<Doing>,
}

/// Describes a finished change whose branch has moved since; also for `why`.
pub(crate) fn moved(ctx: &CommandContext, change: &Change) -> Result<Option<String>> {
    if !matches!(change.state, State::ReadyForHumanReview | State::Approved) {
        return Ok(None);
    }
    let moved = moved_to(ctx, change)?;
    Ok(moved.map(|head| {
        let (branch, head, advice) = (&change.branch, short_sha(&head), change.submit_advice());
        format!("{branch} is now at {head}, which has not been reviewed: {advice}")
    }))
}

/// Shows one change; also for `show`.
pub(crate) fn one(ctx: &mut CommandContext, change: Change) -> Result<ExitCode> {
    let around = ctx.around()?;
    let mut detail = ctx.read(|conn| {
        let id = change.change_id.clone();
        Ok(Detail {
            view: ChangeView::gather(conn, bb::board_row(conn, change)?, around)?,
            open_findings: bb::open_findings(conn, &id)?,
            reviews: ReviewRow::numbered(bb::reviews_of(conn, &id)?),
            rejections: bb::rejections_of(conn, &id, None)?,
            fixes: fixes(conn, &id)?,
            feedback: bb::said_of(conn, &id)?,
            doing: None,
        })
    })?;
    detail.doing = match &detail.view.row.last_run {
        Some(run) if run.ended.is_none() => agent::doing(Path::new(&run.dir))?,
        Some(_) | None => None,
    };
    ctx.show(&detail, print_one)?;
    Ok(ExitCode::of_change(detail.view.why.because))
}

fn print_one(ctx: &mut CommandContext, detail: &Detail) -> Result<()> {
    let change = detail.view.change();
    let why = &detail.view.why;
    let mut printed = Vec::new();
    if running_daemon::absence(ctx)? {
        printed.push(running_daemon::START.to_owned());
    }
    let heading = Line::new().strong(&change.change_id).plain("  ");
    ctx.out.line(heading.strong(&change.title))?;
    print_answer_without(ctx, why, &mut printed)?;
    if let Some(doing) = &detail.doing {
        ctx.out.line(format!("  {}", doing_line(doing, ctx.now)))?;
    }
    ctx.out.blank()?;
    let state = Line::label("state").piece(look_of(change.state), change.state);
    let (column, cycle) = (detail.view.row.column, change.cycle_text());
    ctx.out.line(state.plain(format!(", {column} ({cycle})")))?;
    let ended = change.completed_at;
    ctx.field_if("ended", ended.map(|ended| moment(ended, ctx.now)))?;
    ctx.field("project", &change.project_id)?;
    ctx.field("branch", format!("{} → {}", change.branch, change.base))?;
    ctx.field("head", short_sha(&change.head))?;
    ctx.field_if("moved", moved(ctx, change)?)?;
    ctx.field("worktree", &change.worktree)?;
    ctx.field_if("PR", detail.view.pr.as_deref())?;
    if let Some(pull) = &detail.view.pull {
        ctx.field("URL", &pull.url)?;
        ctx.field("read", read(pull, ctx.now))?;
        ctx.field_if("checks", pull.checks_trouble.as_deref())?;
    }
    for check in &detail.view.checks {
        ctx.field("check", check.line())?;
    }
    let silent = ctx.read(|conn| bb::agents_without_cost(conn, &change.change_id))?;
    let without = without_cost(&change.budget, &silent);
    ctx.field("spent", format!("{}{without}", spent(&change.budget)))?;
    for row in &detail.reviews {
        let (review, reviewer) = (&row.review, row.reviewer());
        let (id, head) = (&review.review_id, short_sha(&review.head));
        let summary = review.summary.as_deref().unwrap_or(&review.reason);
        let summary = start_of(summary, id);
        let text = format!(
            "{id} of {head} by {reviewer}: {}, {summary}",
            review.verdict
        );
        ctx.field("review", text)?;
    }
    // Those of a review are listed with it.
    for rejection in detail.rejections.iter().filter(|one| one.by != "remand") {
        let (id, by, state) = (&rejection.rejection_id, &rejection.by, rejection.state);
        let text = format!("{id} by {by} ({state}): {}", rejection.summary);
        ctx.field("rejection", text)?;
    }
    for fix in &detail.fixes {
        ctx.field("fix", fix)?;
    }
    for open in &detail.open_findings {
        let text = start_of(&open.finding.titled_text(), &open.finding_id);
        ctx.field("finding", finding_line(open, &text))?;
    }
    for said in &detail.feedback {
        ctx.field("feedback", said_line(said))?;
    }
    Ok(())
}

/// Returns the summaries of the events about finished fixes, oldest first.
fn fixes(conn: &bb::Conn, id: &ChangeId) -> bb::Result<Vec<String>> {
    let of = |event_type| bb::events_of_type(conn, id, event_type, MOST_FIXES);
    let mut events = of(EventType::FixCommitted)?;
    events.extend(of(EventType::FixPushed)?);
    events.sort_by_key(|event| event.id);
    Ok(events.into_iter().map(|event| event.summary).collect())
}

/// Describes the activity of an agent and its duration.
fn doing_line(doing: &Doing, now: Time) -> String {
    let time = span(now.since(doing.since));
    format!("doing: {}, for {time}", doing.what)
}

fn read(pull: &PullRow, now: Time) -> String {
    let last = pull.read_at.map(|read| ago(read, now));
    let last = last.as_deref().unwrap_or("not yet");
    let next = pull
        .next_read
        .map(|next| format!("next {}", ahead(next, now)));
    let next = next.as_deref().unwrap_or("not read again");
    let trouble = prefixed("; ", pull.trouble.as_ref());
    format!("{last}, {next}{trouble}")
}

/// Formats feedback on a pull request in one line: author, trust and outcome.
fn said_line(said: &Feedback) -> String {
    let kind = format!("{}{}", said.kind, prefixed(" ", said.state));
    let place = place(said.path.as_deref(), said.line);
    let trust = match (said.trust, &said.trust_reason) {
        (Trust::ShownOnly, Some(reason)) => format!("{}: {reason}", said.trust),
        (trust, _) => trust.to_string(),
    };
    let outcome = match (said.outcome, &said.outcome_reason) {
        (None, _) => "; not evaluated yet".to_owned(),
        // Already stated by the trust.
        (Some(FeedbackOutcome::Ours | FeedbackOutcome::NotTrusted), _) => String::new(),
        (Some(_), Some(reason)) => format!("; {reason}"),
        (Some(outcome), None) => format!("; {outcome}"),
    };
    // Text that the forge does not show, such as remand's markers, is not shown here either.
    let body = said.body.split("<!--").next().unwrap_or_default();
    let body: String = body.trim().chars().take(100).collect();
    let (id, author) = (&said.feedback_id, &said.author);
    format!("{id} by {author} ({trust}{outcome}) {kind}{place} {body}")
}

/// Returns the start of a text, and the command that prints the rest.
fn start_of(text: &str, id: impl Display) -> String {
    let text = text.trim();
    let start = truncate(&sanitize::line(text), MOST_COLUMNS);
    if columns(&sanitize::line(text)) <= MOST_COLUMNS {
        return text.to_owned();
    }
    format!("{start} (`remand show {id}`)")
}

/// Formats a finding in one line, with its text or the start of it.
pub(crate) fn finding_line(open: &OpenFinding, text: &str) -> String {
    let finding = &open.finding;
    let place = prefixed(" ", finding.place());
    let severity = finding.severity;
    let (id, outcome) = (&open.finding_id, open.outcome);
    format!("{id} [{outcome}] {severity}{place} {text}")
}

/// Note for agents that do not report their cost: a limit on money does not apply to them.
fn without_cost(budget: &Budget, agents: &[WithoutCost]) -> String {
    if budget.max_cost_micros.is_none() || agents.is_empty() {
        return String::new();
    }
    let runs = |one: &WithoutCost| match (one.without_cost, one.runs) {
        (1, 1) => format!("the run of {}", one.agent),
        (without, all) if without == all => format!("the {all} runs of {}", one.agent),
        (without, all) => format!("{without} of {all} runs of {}", one.agent),
    };
    let named = joined(agents.iter().map(runs), " and ");
    format!(" ({named} reported no cost: only the limits on time and fixes apply)")
}

/// Formats the used part of the limits of a change.
pub(crate) fn spent(budget: &Budget) -> String {
    let time = |ms: i64| span(Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
    let (used, most) = (time(budget.run_ms), time(budget.max_run_ms));
    let mut parts = vec![
        format!("{} of {} fixes", budget.total_fixes, budget.max_total_fixes),
        format!("{used} of {most} run time"),
    ];
    if budget.tokens > 0 || budget.max_tokens.is_some() {
        let of = prefixed(" of ", budget.max_tokens);
        parts.push(format!("{}{of} tokens", budget.tokens));
    }
    if budget.cost_micros > 0 || budget.max_cost_micros.is_some() {
        let of = prefixed(" of ", budget.max_cost_micros.map(dollars));
        parts.push(format!("{}{of}", dollars(budget.cost_micros)));
    }
    parts.join(", ")
}

/// Overview of all changes, the stops and the daemon.
#[derive(Serialize)]
struct Overall {
    blackboard: String,
    projects: usize,
    /// Active stops, the stop of everything first.
    stops: Vec<bb::Stopped>,
    /// Number of changes in each column of the board.
    columns: BTreeMap<&'static str, usize>,
    items: BTreeMap<Status, usize>,
    needs_you: Vec<String>,
    running: Vec<Running>,
    /// Daemon on this blackboard, however it was started.
    daemon: Option<RunningDaemon>,
    daemon_running: bool,
    /// GitHub's rate limit, as last seen.
    rate: Option<bb::Rate>,
    /// Configuration of the running daemon; `None` if no daemon is running.
    configuration: Option<bb::Configuration>,
}

/// A run in progress.
#[derive(Serialize)]
struct Running {
    run_id: RunId,
    item_id: ItemId,
    change_id: ChangeId,
    agent: String,
    started_at: Time,
    doing: Option<Doing>,
    #[serde(skip)]
    dir: String,
}

impl Running {
    fn of(run: Run) -> Self {
        Self {
            run_id: run.run_id,
            item_id: run.item_id,
            change_id: run.change_id,
            agent: run.agent,
            started_at: run.started_at,
            doing: None,
            dir: run.dir,
        }
    }
}

fn all(ctx: &mut CommandContext) -> Result<ExitCode> {
    let path = ctx.settings()?.blackboard;
    let (blackboard, daemon) = (path.display().to_string(), RunningDaemon::of(&path));
    let mut overall = ctx.read(|conn| {
        let counted = bb::counted(conn)?;
        Ok(Overall {
            daemon_running: daemon.is_some(),
            blackboard,
            projects: bb::list_projects(conn)?.len(),
            stops: bb::stops(conn)?,
            columns: counted.columns,
            items: counted.items,
            needs_you: counted.needs_you,
            running: bb::open_runs(conn)?.into_iter().map(Running::of).collect(),
            rate: bb::rate(conn)?,
            configuration: bb::configuration(conn)?.filter(|_| daemon.is_some()),
            daemon,
        })
    })?;
    for running in &mut overall.running {
        running.doing = agent::doing(Path::new(&running.dir))?;
    }
    ctx.show(&overall, print_all)
}

fn print_all(ctx: &mut CommandContext, overall: &Overall) -> Result<()> {
    running_daemon::absence(ctx)?;
    for stop in &overall.stops {
        let (what, command) = (stop_sentence(stop), stop_command(stop));
        ctx.field("stopped", format!("{what} (`{command}`)"))?;
    }
    let configuration = overall.configuration.as_ref();
    if let Some(changed) = configuration.and_then(|row| row.changed.as_ref()) {
        let (what, command) = (reload::sentence(changed), not_in_force_command(changed));
        ctx.field("config", format!("{what} (`{command}`)"))?;
    }
    let columns = overall.columns.iter();
    let columns = list(columns.map(|(column, n)| format!("{n} {}", column.to_lowercase())));
    let columns = Some(columns).filter(|columns| !columns.is_empty());
    ctx.field("changes", columns.as_deref().unwrap_or("none"))?;
    let items = overall.items.iter();
    let items = list(items.map(|(status, n)| format!("{n} {status}")));
    ctx.field("items", items)?;
    ctx.field("projects", overall.projects)?;
    ctx.field("blackboard", &overall.blackboard)?;
    let daemon = overall.daemon.as_ref().map(RunningDaemon::sentence);
    ctx.field("daemon", daemon.as_deref().unwrap_or("not running"))?;
    running_daemon::elsewhere_note(ctx)?;
    if let Some(rate) = &overall.rate {
        let (allowed, resets_at) = (rate.allowed, rate.resets_at.local());
        let left = rate.remaining;
        let text = if rate.resets_at > ctx.now {
            format!("{left} of {allowed} API calls left until {resets_at}")
        } else {
            format!("{allowed} API calls per hour, none since {resets_at}")
        };
        ctx.field("GitHub", text)?;
    }
    for running in &overall.running {
        let doing = running.doing.as_ref().map_or_else(
            || format!("for {}", span(ctx.now.since(running.started_at))),
            |doing| doing_line(doing, ctx.now),
        );
        let text = format!(" {} by {}, {doing}", running.run_id, running.agent);
        let line = Line::new().strong(&running.change_id).plain(text);
        ctx.out.line(line)?;
    }
    for id in &overall.needs_you {
        let line = Line::new().piece(TextStyle::Bad, id).plain(" needs you: ");
        ctx.out.line(line.command(format!("remand why {id}")))?;
    }
    Ok(())
}
