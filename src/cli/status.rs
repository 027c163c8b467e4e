//! `remand status`: one change in full, or how everything stands.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::approve::moved_to;
use super::reload;
use crate::agent::{self, Doing};
use crate::blackboard::{self as bb, OpenFinding, PastReview, WithoutCost};
use crate::change::{Budget, Change, ChangeId, State, dollars};
use crate::cli::frame::context::CommandContext;
use crate::cli::frame::error::ExitCode;
use crate::cli::frame::running_daemon::{self, RunningDaemon};
use crate::cli::frame::ui::{Line, TextStyle};
use crate::cli::view::print_change::{field, look_of, print_answer, short};
use crate::cli::view::redraw;
use crate::clock::Time;
use crate::explain::{ChangeView, not_in_force_command, stop_command, stop_sentence};
use crate::human_time::{ago, ahead, span};
use crate::pull_request::FeedbackOutcome;
use crate::pull_request::{Feedback, PullRow, Trust};
use crate::work::{ItemId, Run, RunId, Status};

/// Show how one change stands, or how many there are of each kind
#[derive(Debug, Args)]
#[command(
    after_help = "With --watch a terminal is drawn over; in a pipe a new block comes only when something has changed, \
and with --json each is one line.\n\nExamples:\n  remand status\n  remand status c1 --watch"
)]
pub(crate) struct StatusArgs {
    /// The change: its id (c1), its branch, the path of its worktree, or its PR (owner/repo#42)
    #[arg(value_name = "CHANGE")]
    change: Option<String>,

    /// Show it again whenever something changes, until you stop it
    #[arg(short, long)]
    watch: bool,
}

pub(crate) fn status(args: &StatusArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    if args.watch {
        redraw::follow(ctx, |ctx| once(args, ctx))
    } else {
        once(args, ctx)
    }
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

/// A change with its reviews and what is open in it.
#[derive(Serialize)]
struct Detail {
    #[serde(flatten)]
    view: ChangeView,
    open_findings: Vec<OpenFinding>,
    reviews: Vec<PastReview>,
    /// What was said on its pull request, oldest first.
    feedback: Vec<Feedback>,
    /// What the agent of the run under way is doing, as far as it says so.
    doing: Option<Doing>,
}

/// For `why` too: a change that is done, but not with what its branch has now.
pub(crate) fn moved(ctx: &CommandContext, change: &Change) -> Result<Option<String>> {
    if !matches!(change.state, State::ReadyForHumanReview | State::Approved) {
        return Ok(None);
    }
    let moved = moved_to(ctx, change)?;
    Ok(moved.map(|head| {
        let (branch, head) = (&change.branch, short(&head));
        format!(
            "{branch} is at {head} now, which is not reviewed: {}",
            change.submit_advice()
        )
    }))
}

/// For `show` too.
pub(crate) fn one(ctx: &mut CommandContext, change: Change) -> Result<ExitCode> {
    let around = ctx.around()?;
    let mut detail = ctx.read(|conn| {
        let id = change.change_id.clone();
        Ok(Detail {
            view: ChangeView::gather(conn, bb::board_row(conn, change)?, around)?,
            open_findings: bb::open_findings(conn, &id)?,
            reviews: bb::reviews_of(conn, &id)?,
            feedback: bb::said_of(conn, &id)?,
            doing: None,
        })
    })?;
    detail.doing = match &detail.view.row.last_run {
        Some(run) if run.ended.is_none() => agent::doing(Path::new(&run.dir))?,
        Some(_) | None => None,
    };
    if ctx.out.is_json() {
        ctx.out.json(&detail)?;
        return Ok(ExitCode::Done);
    }
    let change = detail.view.change().clone();
    ctx.out.line(
        Line::default()
            .strong(change.change_id.as_str())
            .plain("  ")
            .strong(&change.title),
    )?;
    print_answer(ctx, &detail.view.why)?;
    if let Some(doing) = &detail.doing {
        ctx.out
            .line(Line::default().plain(format!("  {}", doing_line(doing, ctx.now))))?;
    }
    ctx.out.blank()?;
    let state = Line::default()
        .faint(format!("{:<11}", "state"))
        .piece(look_of(change.state), change.state.as_str());
    ctx.out.line(state.plain(format!(
        ", {} ({})",
        detail.view.row.column,
        change.cycle_text()
    )))?;
    field(ctx, "project", change.project_id.as_str())?;
    field(
        ctx,
        "branch",
        format!("{} → {}", change.branch, change.base),
    )?;
    field(ctx, "head", short(&change.head))?;
    if let Some(moved) = moved(ctx, &change)? {
        field(ctx, "moved", moved)?;
    }
    field(ctx, "worktree", &change.worktree)?;
    field(ctx, "PR", detail.view.pr.as_deref().unwrap_or_default())?;
    if let Some(pull) = &detail.view.pull {
        field(ctx, "URL", &pull.url)?;
        field(ctx, "read", read(pull, ctx.now))?;
    }
    let silent = ctx.read(|conn| bb::agents_without_cost(conn, &change.change_id))?;
    field(
        ctx,
        "spent",
        format!(
            "{}{}",
            spent(&change.budget),
            without_cost(&change.budget, &silent)
        ),
    )?;
    for review in &detail.reviews {
        let summary = review.summary.as_deref().unwrap_or(&review.reason);
        field(
            ctx,
            "review",
            format!(
                "{} of {}: {}, {summary}",
                review.review_id,
                short(&review.head),
                review.verdict
            ),
        )?;
    }
    for open in &detail.open_findings {
        field(ctx, "finding", finding_line(open))?;
    }
    for said in &detail.feedback {
        field(ctx, "said", said_line(said))?;
    }
    Ok(ExitCode::Done)
}

/// What an agent is doing, and for how long it has been.
fn doing_line(doing: &Doing, now: Time) -> String {
    format!(
        "doing: {}, for {}",
        doing.what,
        span(now.since(doing.since))
    )
}

fn read(pull: &PullRow, now: Time) -> String {
    let last = pull
        .read_at
        .map_or_else(|| "not yet".to_owned(), |read| ago(read, now));
    let next = pull.next_read.map_or_else(
        || "no more".to_owned(),
        |next| format!("again {}", ahead(next, now)),
    );
    let trouble = pull
        .trouble
        .as_ref()
        .map(|trouble| format!("; {trouble}"))
        .unwrap_or_default();
    format!("{last}, {next}{trouble}")
}

/// What somebody said on a pull request, in one line: who, what may come of it and what did.
fn said_line(said: &Feedback) -> String {
    let kind = said.state.map_or_else(
        || said.kind.to_string(),
        |state| format!("{} {state}", said.kind),
    );
    let line = said.line.map(|line| format!(":{line}")).unwrap_or_default();
    let place = said
        .path
        .as_deref()
        .map(|path| format!(" {path}{line}"))
        .unwrap_or_default();
    let trust = match (said.trust, &said.trust_reason) {
        (Trust::ShownOnly, Some(reason)) => format!("{}: {reason}", said.trust),
        (trust, _) => trust.to_string(),
    };
    let outcome = match (said.outcome, &said.outcome_reason) {
        (None, _) => "; not judged yet".to_owned(),
        // What the trust says already is not said twice.
        (Some(FeedbackOutcome::Ours | FeedbackOutcome::NotTrusted), _) => String::new(),
        (Some(_), Some(reason)) => format!("; {reason}"),
        (Some(outcome), None) => format!("; {outcome}"),
    };
    // What a forge does not show, such as our own marks, is not shown here either.
    let body = said.body.split("<!--").next().unwrap_or_default();
    let body: String = body.trim().chars().take(100).collect();
    format!(
        "{} by {} ({trust}{outcome}) {kind}{place} {body}",
        said.feedback_id, said.author
    )
}

/// A finding in one line.
pub(crate) fn finding_line(open: &OpenFinding) -> String {
    let finding = &open.finding;
    let line = finding
        .line
        .map(|line| format!(":{line}"))
        .unwrap_or_default();
    let place = finding
        .path
        .as_deref()
        .map(|path| format!(" {path}{line}"))
        .unwrap_or_default();
    format!(
        "{} [{}] {}{place} {}",
        open.finding_id, open.outcome, finding.severity, finding.text
    )
}

/// A bound on money holds only for agents that report what they cost.
fn without_cost(budget: &Budget, agents: &[WithoutCost]) -> String {
    if budget.max_cost_micros.is_none() || agents.is_empty() {
        return String::new();
    }
    let runs = |one: &WithoutCost| match (one.without_cost, one.runs) {
        (1, 1) => format!("the run of {}", one.agent),
        (without, all) if without == all => format!("the {all} runs of {}", one.agent),
        (without, all) => format!("{without} of {all} runs of {}", one.agent),
    };
    let named: Vec<String> = agents.iter().map(runs).collect();
    format!(
        " ({} reported no cost: time and fixes bound those)",
        named.join(" and ")
    )
}

/// What a change used of its bounds.
pub(crate) fn spent(budget: &Budget) -> String {
    let time = |ms: i64| {
        span(std::time::Duration::from_millis(
            u64::try_from(ms).unwrap_or(0),
        ))
    };
    let mut said = vec![
        format!("{} of {} fixes", budget.total_fixes, budget.max_total_fixes),
        format!(
            "{} of {} agents' time",
            time(budget.run_ms),
            time(budget.max_run_ms)
        ),
    ];
    let of = |max: Option<String>| max.map(|max| format!(" of {max}")).unwrap_or_default();
    if budget.tokens > 0 || budget.max_tokens.is_some() {
        said.push(format!(
            "{}{} tokens",
            budget.tokens,
            of(budget.max_tokens.map(|max| max.to_string()))
        ));
    }
    if budget.cost_micros > 0 || budget.max_cost_micros.is_some() {
        said.push(format!(
            "{}{}",
            dollars(budget.cost_micros),
            of(budget.max_cost_micros.map(dollars))
        ));
    }
    said.join(", ")
}

/// How everything stands.
#[derive(Serialize)]
struct Overall {
    blackboard: String,
    projects: usize,
    /// What is stopped, that of everything first.
    stops: Vec<bb::Stopped>,
    /// How many changes are in each column of the board.
    columns: BTreeMap<&'static str, usize>,
    items: BTreeMap<Status, usize>,
    needs_you: Vec<String>,
    running: Vec<Running>,
    /// The daemon on this blackboard, however it was started.
    daemon: Option<RunningDaemon>,
    /// GitHub's budget of calls, as it was last seen.
    rate: Option<bb::Rate>,
    /// What the running daemon has in force; none: no daemon runs.
    configuration: Option<bb::Configuration>,
}

/// A run under way.
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
        let Run {
            run_id,
            item_id,
            change_id,
            agent,
            started_at,
            dir,
            ..
        } = run;
        Self {
            run_id,
            item_id,
            change_id,
            agent,
            started_at,
            doing: None,
            dir,
        }
    }
}

fn all(ctx: &mut CommandContext) -> Result<ExitCode> {
    let path = ctx.settings()?.blackboard;
    let (blackboard, daemon) = (path.display().to_string(), RunningDaemon::of(&path));
    let mut overall = ctx.read(|conn| {
        let bb::Counted {
            columns,
            items,
            needs_you,
        } = bb::counted(conn)?;
        let projects = bb::list_projects(conn)?.len();
        let running = bb::open_runs(conn)?.into_iter().map(Running::of).collect();
        let (stops, rate) = (bb::stops(conn)?, bb::rate(conn)?);
        let configuration = bb::configuration(conn)?.filter(|_| daemon.is_some());
        Ok(Overall {
            blackboard,
            projects,
            stops,
            columns,
            items,
            needs_you,
            running,
            daemon,
            rate,
            configuration,
        })
    })?;
    for running in &mut overall.running {
        running.doing = agent::doing(Path::new(&running.dir))?;
    }
    if ctx.out.is_json() {
        ctx.out.json(&overall)?;
        return Ok(ExitCode::Done);
    }
    let counted: Vec<String> = overall
        .columns
        .iter()
        .map(|(column, n)| format!("{n} {}", column.to_lowercase()))
        .collect();
    let counted = if counted.is_empty() {
        "none".to_owned()
    } else {
        counted.join(", ")
    };
    let items: Vec<String> = overall
        .items
        .iter()
        .map(|(status, n)| format!("{n} {status}"))
        .collect();
    for stop in &overall.stops {
        field(
            ctx,
            "stopped",
            format!("{} (`{}`)", stop_sentence(stop), stop_command(stop)),
        )?;
    }
    if let Some(changed) = overall
        .configuration
        .as_ref()
        .and_then(|row| row.changed.as_ref())
    {
        field(
            ctx,
            "config",
            format!(
                "{} (`{}`)",
                reload::sentence(changed),
                not_in_force_command(changed)
            ),
        )?;
    }
    field(ctx, "changes", counted)?;
    field(ctx, "items", items.join(", "))?;
    field(ctx, "projects", overall.projects.to_string())?;
    field(ctx, "blackboard", &overall.blackboard)?;
    field(
        ctx,
        "daemon",
        overall
            .daemon
            .as_ref()
            .map_or("not running".to_owned(), RunningDaemon::sentence),
    )?;
    running_daemon::elsewhere_note(ctx)?;
    if let Some(rate) = &overall.rate {
        let left = if rate.resets_at > ctx.now {
            format!(
                "{} of {} calls left until {}",
                rate.remaining, rate.allowed, rate.resets_at
            )
        } else {
            format!(
                "{} calls an hour, none counted since {}",
                rate.allowed, rate.resets_at
            )
        };
        field(ctx, "GitHub", left)?;
    }
    for running in &overall.running {
        let Running {
            run_id,
            change_id,
            agent,
            started_at,
            doing,
            ..
        } = running;
        let doing = doing.as_ref().map_or_else(
            || format!("for {}", span(ctx.now.since(*started_at))),
            |doing| doing_line(doing, ctx.now),
        );
        let line = Line::default()
            .strong(change_id.as_str())
            .plain(format!(" {run_id} by {agent}, {doing}"));
        ctx.out.line(line)?;
    }
    for id in &overall.needs_you {
        let line = Line::default()
            .piece(TextStyle::Bad, id)
            .plain(" needs you: ")
            .command(format!("remand why {id}"));
        ctx.out.line(line)?;
    }
    Ok(ExitCode::Done)
}
