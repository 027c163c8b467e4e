//! `remand stats`: totals of what agents spent, and of what shadow mode withheld.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::blackboard::{self as bb, ShadowSum, Spend, SpendSums};
use crate::change::ProjectId;
use crate::cli::frame::{CommandContext, ExitCode, Table};
use crate::clock::{self, Zone};
use crate::config::Loaded;
use crate::text::{dollars, prefixed};

/// Maximum number of days and of changes in the tables; JSON has all of them.
const DAYS: usize = 14;
const CHANGES: usize = 20;

/// Show cost, tokens and time by project, agent, day and change
///
/// Cost and tokens are as reported by the agents. Runs of agents that do not report their cost are counted separately:
/// only the limits on time and fixes apply to them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  remand stats\n  remand stats --json\n  remand stats --shadow")]
pub(crate) struct StatsArgs {
    /// Show only changes in shadow mode: what was withheld, with an estimate of its cost
    #[arg(long)]
    shadow: bool,
}

pub(crate) fn stats(args: &StatsArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    // An invalid setting must not hide the numbers.
    let settings = ctx.settings().ok();
    let zone = settings.as_ref().map_or(Zone::Local, Loaded::timezone);
    let today = settings.map(|settings| today(ctx, &settings)).transpose()?;
    let today = today.unwrap_or_default();
    let (projects, spend) =
        ctx.read(|conn| Ok((bb::shadow_sums(conn)?, bb::spend_sums(conn, zone)?)))?;
    let none = ShadowSum::default();
    let all = projects.iter().fold(none, |all, one| add(&all, one));
    let value = json!({ "projects": projects, "all": all, "spend": spend, "today": today });
    if ctx.out.is_json() {
        ctx.out.json(&value)?;
        return Ok(ExitCode::Done);
    }
    if !args.shadow {
        print_spend(ctx, &spend)?;
        for one in &today {
            let on = prefixed(" on ", one.project_id.as_ref());
            let (spent, most) = (dollars(one.cost_micros), dollars(one.max_cost_micros));
            ctx.out.note(format!(
                "spent{on} today: {spent} of {most} (`{}`)",
                one.setting
            ))?;
        }
    }
    if projects.is_empty() {
        if args.shadow {
            ctx.out
                .note("no change is or was in shadow (`remand shadow CHANGE review`)")?;
        }
        return Ok(ExitCode::Done);
    }
    if !args.shadow {
        ctx.out.blank()?;
    }
    print_shadow(ctx, &projects, &all)
}

/// A limit on the cost per day, and the cost of today.
#[derive(Serialize)]
struct Today {
    /// `None` for all projects together.
    project_id: Option<ProjectId>,
    cost_micros: i64,
    max_cost_micros: i64,
    setting: String,
}

fn today(ctx: &CommandContext, settings: &Loaded) -> Result<Vec<Today>> {
    let start = clock::day(ctx.now, settings.timezone()).start;
    ctx.read(|conn| {
        let mut bounds = Vec::new();
        if let Some(max_cost_micros) = settings.max_day_micros() {
            bounds.push(Today {
                project_id: None,
                cost_micros: bb::spent_since(conn, start)?,
                max_cost_micros,
                setting: "loop.max_cost_usd_per_day".to_owned(),
            });
        }
        for project in bb::list_projects(conn)? {
            let id = project.project_id;
            if let Some(day) = settings.project(id.as_str()).max_day {
                bounds.push(Today {
                    cost_micros: bb::spent_on_project_since(conn, &id, start)?,
                    max_cost_micros: day.most_micros,
                    setting: day.key,
                    project_id: Some(id),
                });
            }
        }
        Ok(bounds)
    })
}

fn print_spend(ctx: &mut CommandContext, sums: &SpendSums) -> Result<()> {
    if sums.all.runs == 0 {
        return Ok(ctx.out.note("no agent has run yet")?);
    }
    let projects = sums.projects.iter();
    let projects = projects.map(|one| spend_cells(one.project_id.as_str(), &one.spend));
    let mut by_project = spend_table("PROJECT", projects);
    if sums.projects.len() > 1 {
        by_project.row(spend_cells("all", &sums.all));
    }
    let agents = sums.agents.iter();
    let by_agent = spend_table(
        "AGENT",
        agents.map(|one| spend_cells(&one.agent, &one.spend)),
    );
    let days = sums.days.iter().take(DAYS);
    let by_day = spend_table("DAY", days.map(|one| spend_cells(&one.day, &one.spend)));
    let changes = sums.changes.iter().take(CHANGES);
    let changes = changes.map(|one| {
        let name = format!("{} {}", one.change_id, one.title);
        spend_cells(&name, &one.spend)
    });
    let by_change = spend_table("CHANGE", changes);
    ctx.out.table(&by_project)?;
    for table in [&by_agent, &by_day, &by_change] {
        ctx.out.blank()?;
        ctx.out.table(table)?;
    }
    let hidden = [
        (sums.days.len(), DAYS, "days"),
        (sums.changes.len(), CHANGES, "changes"),
    ];
    for (n, shown, what) in hidden.into_iter().filter(|(n, shown, _)| n > shown) {
        ctx.out
            .note(format!("{} more {what} with --json", n - shown))?;
    }
    if sums.all.without_cost > 0 {
        ctx.out.note(format!(
            "{} of {} runs did not report their cost",
            sums.all.without_cost, sums.all.runs
        ))?;
    }
    Ok(())
}

fn spend_table(by: &'static str, rows: impl Iterator<Item = [String; 5]>) -> Table {
    let mut table = Table::new(&[by, "RUNS", "TOKENS", "MONEY", "TIME"]);
    rows.for_each(|cells| table.row(cells));
    table
}

fn spend_cells(name: &str, sum: &Spend) -> [String; 5] {
    let money = if sum.without_cost == sum.runs {
        "-".to_owned()
    } else {
        dollars(sum.cost_micros)
    };
    [
        name.to_owned(),
        sum.runs.to_string(),
        sum.tokens.to_string(),
        money,
        format!("{} s", sum.run_ms.div_euclid(1000)),
    ]
}

fn print_shadow(
    ctx: &mut CommandContext,
    projects: &[ShadowSum],
    all: &ShadowSum,
) -> Result<ExitCode> {
    let mut table = Table::new(&[
        "PROJECT",
        "IN SHADOW",
        "REVIEWED",
        "REJECTED",
        "NOT REVIEWED",
        "FIXES",
        "PUSHES",
        "POSTS",
        "TOKENS",
        "MONEY",
        "TIME",
    ]);
    for sum in projects {
        let name = sum.project_id.as_ref().map_or("", |id| id.as_str());
        table.row(cells(name, sum));
    }
    if projects.len() > 1 {
        table.row(cells("all", all));
    }
    ctx.out.table(&table)?;
    let without = match all.not_estimated {
        0 => String::new(),
        n => format!("; there is no complete estimate for {n}"),
    };
    ctx.out.note(format!(
        "the columns from NOT REVIEWED onward show what was not done; tokens, money and time are estimates{without}"
    ))?;
    if all.reviewed > 0 {
        let passed = all.reviewed - all.rejected;
        let (were, they) = if all.reviewed == 1 {
            ("review", "it")
        } else {
            ("reviews", "they")
        };
        ctx.out.note(format!(
            "{} {were} in shadow: {passed} passed, {} rejected; `remand stats` shows what {they} cost",
            all.reviewed, all.rejected
        ))?;
    }
    if all.rejected > 0 {
        ctx.out.note(
            "each rejection would have led to a fix within the limits; FIXES counts only fixes that were already queued",
        )?;
    }
    Ok(ExitCode::Done)
}

fn add(all: &ShadowSum, one: &ShadowSum) -> ShadowSum {
    ShadowSum {
        project_id: None,
        changes: all.changes + one.changes,
        reviews: all.reviews + one.reviews,
        reviewed: all.reviewed + one.reviewed,
        rejected: all.rejected + one.rejected,
        fixes: all.fixes + one.fixes,
        pushes: all.pushes + one.pushes,
        posts: all.posts + one.posts,
        tokens: all.tokens + one.tokens,
        cost_micros: all.cost_micros + one.cost_micros,
        run_ms: all.run_ms + one.run_ms,
        not_estimated: all.not_estimated + one.not_estimated,
    }
}

fn cells(name: &str, sum: &ShadowSum) -> [String; 11] {
    let time = format!("{} s", sum.run_ms.div_euclid(1000));
    [
        name.to_owned(),
        sum.changes.to_string(),
        sum.reviewed.to_string(),
        sum.rejected.to_string(),
        sum.reviews.to_string(),
        sum.fixes.to_string(),
        sum.pushes.to_string(),
        sum.posts.to_string(),
        sum.tokens.to_string(),
        dollars(sum.cost_micros),
        time,
    ]
}
