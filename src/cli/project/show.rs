//! `remand project show`: the settings in effect, the changes and the worktrees of a project.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::blackboard::{self as bb, Project};
use crate::change::{Change, ChangeId};
use crate::cli::frame::{CommandContext, ExitCode, Line};
use crate::cli::show::print_location;
use crate::clock::Time;
use crate::project_settings::ProjectSettings;
use crate::text::list;

/// Show the settings, changes and worktrees of a project
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  remand project show website")]
pub(crate) struct ShowArgs {
    /// Name of the project
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Serialize)]
struct ProjectReport {
    #[serde(flatten)]
    project: Project,
    /// Null unless a person removed it.
    removed_at: Option<Time>,
    settings: SettingsInForce,
    /// Number of changes by state.
    changes: BTreeMap<String, i64>,
    /// Worktrees of the changes that are neither merged nor closed.
    worktrees: Vec<ChangeWorktree>,
}

#[derive(Serialize)]
struct SettingsInForce {
    agent: Option<String>,
    review_agent: Option<String>,
    setup: Vec<String>,
    gates: Vec<Vec<String>>,
    /// Label of open pull requests that are taken over automatically.
    label: Option<String>,
    /// `off`, `review` or `dry`.
    shadow: &'static str,
    max_fix_cycles: i64,
}

#[derive(Serialize)]
struct ChangeWorktree {
    change_id: ChangeId,
    branch: String,
    worktree: String,
    /// True if remand made the worktree.
    own_worktree: bool,
}

impl SettingsInForce {
    fn of(settings: ProjectSettings) -> Self {
        Self {
            agent: settings.agent,
            review_agent: settings.review_agent,
            setup: settings.setup,
            gates: settings.gates,
            label: settings.discover.and_then(|rules| rules.label),
            shadow: settings.shadow.map_or("off", |mode| mode.as_str()),
            max_fix_cycles: settings.bounds.max_fix_cycles,
        }
    }
}

impl ChangeWorktree {
    fn of(change: Change) -> Self {
        Self {
            change_id: change.change_id,
            branch: change.branch,
            worktree: change.worktree,
            own_worktree: change.own_worktree,
        }
    }
}

pub(super) fn show(args: &ShowArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let project = super::known(ctx, &args.name)?;
    let settings = ctx.settings()?.project(project.project_id.as_str());
    let report = ctx.read(|conn| {
        let id = &project.project_id;
        let counts = bb::count_changes(conn, id)?.into_iter();
        let live = bb::live_changes_of(conn, id)?.into_iter();
        Ok(ProjectReport {
            removed_at: bb::removed_at(conn, id)?,
            settings: SettingsInForce::of(settings),
            changes: counts.map(|(state, n)| (state.to_string(), n)).collect(),
            worktrees: live.map(ChangeWorktree::of).collect(),
            project,
        })
    })?;
    ctx.show(&report, print)
}

fn print(ctx: &mut CommandContext, report: &ProjectReport) -> Result<()> {
    let (project, settings) = (&report.project, &report.settings);
    ctx.out.line(Line::new().strong(&project.project_id))?;
    ctx.field_if("removed", report.removed_at.map(Time::local))?;
    print_location(ctx, project)?;
    ctx.field("agent", settings.agent.as_deref().unwrap_or("none"))?;
    ctx.field_if("reviewer", settings.review_agent.as_ref())?;
    ctx.field("setup", none_if_empty(settings.setup.join(" ")))?;
    let gates = list(settings.gates.iter().map(|gate| gate.join(" ")));
    ctx.field("gates", none_if_empty(gates))?;
    ctx.field_if("label", settings.label.as_ref())?;
    ctx.field("shadow", settings.shadow)?;
    let most = settings.max_fix_cycles;
    ctx.field("fixes", format!("at most {most} per round"))?;
    let counts = report.changes.iter();
    let counts = list(counts.map(|(state, n)| format!("{n} {state}")));
    ctx.field("changes", none_if_empty(counts))?;
    for one in &report.worktrees {
        let text = format!("{} ({}, {})", one.worktree, one.change_id, one.branch);
        ctx.field("worktree", text)?;
    }
    Ok(())
}

fn none_if_empty(text: String) -> String {
    if text.is_empty() {
        "none".to_owned()
    } else {
        text
    }
}
