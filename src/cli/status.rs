//! `remand status`: one change in full, or how everything stands.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::age::span;
use super::approve::moved_to;
use super::desk::Desk;
use super::fail::Code;
use super::out::{Line, Look};
use super::picture::{Picture, field, look_of, print_answer, short};
use crate::blackboard::{self as bb, OpenFinding, PastReview, Show};
use crate::change::{Budget, Change, State};
use crate::work::Status;

/// Show how one change stands, or how many there are of each kind
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The change: its id (c1), its branch, or the path of its worktree
    #[arg(value_name = "CHANGE")]
    change: Option<String>,
}

pub(crate) fn status(args: &StatusArgs, desk: &mut Desk) -> Result<Code> {
    match &args.change {
        Some(change) => {
            let change = desk.change(change)?;
            one(desk, change)
        }
        None => all(desk),
    }
}

/// A change with its reviews and what is open in it.
#[derive(Serialize)]
struct Detail {
    #[serde(flatten)]
    picture: Picture,
    open_findings: Vec<OpenFinding>,
    reviews: Vec<PastReview>,
}

/// For `why` too: a change that is done, but not with what its branch has now.
pub(crate) fn moved(desk: &Desk, change: &Change) -> Result<Option<String>> {
    if !matches!(change.state, State::ReadyForHumanReview | State::Approved) {
        return Ok(None);
    }
    let moved = moved_to(desk, change)?;
    Ok(moved.map(|head| {
        let (branch, head) = (&change.branch, short(&head));
        format!("{branch} is at {head} now, which is not reviewed: `remand review --worktree {}`", change.worktree)
    }))
}

/// For `show` too.
pub(crate) fn one(desk: &mut Desk, change: Change) -> Result<Code> {
    let around = desk.around()?;
    let detail = desk.read(|conn| {
        let id = change.change_id.clone();
        Ok(Detail {
            picture: Picture::take(conn, change, around)?,
            open_findings: bb::open_findings(conn, &id)?,
            reviews: bb::reviews_of(conn, &id)?,
        })
    })?;
    if desk.out.is_json() {
        desk.out.json(&detail)?;
        return Ok(Code::Done);
    }
    let change = detail.picture.change().clone();
    desk.out.line(Line::default().strong(change.change_id.as_str()).plain("  ").strong(&change.title))?;
    print_answer(desk, &detail.picture.why)?;
    desk.out.blank()?;
    let state = Line::default().faint(format!("{:<11}", "state")).piece(look_of(change.state), change.state.as_str());
    desk.out.line(state.plain(format!(", {} ({})", detail.picture.row.column, change.cycle_text())))?;
    field(desk, "project", change.project_id.as_str())?;
    field(desk, "branch", format!("{} → {}", change.branch, change.base))?;
    field(desk, "head", short(&change.head))?;
    if let Some(moved) = moved(desk, &change)? {
        field(desk, "moved", moved)?;
    }
    field(desk, "worktree", &change.worktree)?;
    field(desk, "PR", change.pr_number.map(|number| format!("#{number}")).unwrap_or_default())?;
    field(desk, "spent", spent(&change.budget))?;
    for review in &detail.reviews {
        let summary = review.summary.as_deref().unwrap_or(&review.reason);
        field(
            desk,
            "review",
            format!("{} of {}: {}, {summary}", review.review_id, short(&review.head), review.verdict),
        )?;
    }
    for open in &detail.open_findings {
        field(desk, "finding", finding_line(open))?;
    }
    Ok(Code::Done)
}

/// A finding in one line.
pub(crate) fn finding_line(open: &OpenFinding) -> String {
    let finding = &open.finding;
    let line = finding.line.map(|line| format!(":{line}")).unwrap_or_default();
    let place = finding.path.as_deref().map(|path| format!(" {path}{line}")).unwrap_or_default();
    format!("{} [{}] {}{place} {}", open.finding_id, open.outcome, finding.severity, finding.text)
}

fn spent(budget: &Budget) -> String {
    let time = |ms: i64| span(std::time::Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
    let mut said = vec![
        format!("{} of {} fixes", budget.total_fixes, budget.max_total_fixes),
        format!("{} of {} agents' time", time(budget.run_ms), time(budget.max_run_ms)),
    ];
    let of = |max: Option<String>| max.map(|max| format!(" of {max}")).unwrap_or_default();
    if budget.tokens > 0 || budget.max_tokens.is_some() {
        said.push(format!("{}{} tokens", budget.tokens, of(budget.max_tokens.map(|max| max.to_string()))));
    }
    if budget.cost_micros > 0 || budget.max_cost_micros.is_some() {
        said.push(format!("{}{}", dollars(budget.cost_micros), of(budget.max_cost_micros.map(dollars))));
    }
    said.join(", ")
}

fn dollars(micros: i64) -> String {
    format!("${}.{:02}", micros / 1_000_000, micros % 1_000_000 / 10_000)
}

/// How everything stands.
#[derive(Serialize)]
struct Overall {
    blackboard: String,
    projects: usize,
    /// How many changes are in each column of the board.
    columns: BTreeMap<&'static str, usize>,
    items: BTreeMap<Status, usize>,
    needs_you: Vec<String>,
}

fn all(desk: &mut Desk) -> Result<Code> {
    let blackboard = desk.settings()?.blackboard.display().to_string();
    let overall = desk.read(|conn| {
        let rows = bb::board(conn, Show::All, i64::MAX)?;
        let mut columns = BTreeMap::new();
        for row in &rows {
            *columns.entry(row.column).or_insert(0) += 1;
        }
        let mut items = BTreeMap::new();
        for status in [Status::Available, Status::Claimed, Status::Blocked] {
            items.insert(status, bb::list_items(conn, Some(status), i64::MAX)?.len());
        }
        let needs_you = rows.iter().filter(|row| row.column == "Needs you").map(|row| row.change.change_id.to_string());
        let (projects, needs_you) = (bb::list_projects(conn)?.len(), needs_you.collect());
        Ok(Overall { blackboard, projects, columns, items, needs_you })
    })?;
    if desk.out.is_json() {
        desk.out.json(&overall)?;
        return Ok(Code::Done);
    }
    let counted: Vec<String> =
        overall.columns.iter().map(|(column, n)| format!("{n} {}", column.to_lowercase())).collect();
    let counted = if counted.is_empty() { "none".to_owned() } else { counted.join(", ") };
    let items: Vec<String> = overall.items.iter().map(|(status, n)| format!("{n} {status}")).collect();
    field(desk, "changes", counted)?;
    field(desk, "items", items.join(", "))?;
    field(desk, "projects", overall.projects.to_string())?;
    field(desk, "blackboard", &overall.blackboard)?;
    for id in &overall.needs_you {
        let line = Line::default().piece(Look::Bad, id).plain(" needs you: ").command(format!("remand why {id}"));
        desk.out.line(line)?;
    }
    Ok(Code::Done)
}
