//! `remand item edit`: changes a task before it is implemented, and afterwards what still has an effect.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::blackboard::{self as bb, Project, TaskEdit, TaskPlace};
use crate::change::Change;
use crate::cli::add::branch::{self, Wanted};
use crate::cli::add::{self, issue, spec};
use crate::cli::frame::{
    CommandContext, CommandError, ExitCode, Line, found, refused_for, wait as wait_for,
};
use crate::cli::view::print_change::print_answer;
use crate::config::Loaded;
use crate::explain::ChangeView;
use crate::project_settings::ProjectSettings;
use crate::sanitize;
use crate::task::EditedField;
use crate::text::truncate;
use crate::work::{ItemId, LoopStep, Priority};

/// Value that removes what was set.
const NONE: &str = "none";

/// Maximum number of characters of a value on the screen.
const SHOWN: usize = 60;

/// Edit a task
///
/// While it is queued, everything can be changed. Once its branch exists, its base and branch stay; once its pull request
/// is open, its title is edited there.
#[derive(Debug, Args)]
#[command(
    after_help = "Of a task whose implementation failed, everything but the branch can be changed; then use `remand retry`.\n\n\
Examples:\n  remand item edit c3 --title 'Add a login page' --priority P1\n  remand item edit w7 --after c2\n  \
remand item edit c3 --spec none --body - <task.md"
)]
#[group(id = "edit", required = true, multiple = true, args = [
    "title", "body", "spec", "issue", "agent", "review_agent", "model", "priority", "after", "base", "branch", "max_cycles",
    "draft", "no_draft",
])]
pub(crate) struct EditArgs {
    #[command(flatten)]
    named: NamedTask,

    /// Title: the task in one line
    #[arg(long, value_name = "TITLE")]
    title: Option<String>,

    /// Description: text, or - for stdin
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    body: Option<String>,

    /// File or directory that describes the task, read now; none removes it
    #[arg(long, value_name = "PATH")]
    spec: Option<PathBuf>,

    /// Issue that describes the task, read now; none removes it
    #[arg(long, value_name = "N", value_parser = issue_number)]
    issue: Option<IssueArg>,

    /// Agent that implements and fixes
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,

    /// Agent that reviews
    #[arg(long, value_name = "NAME")]
    review_agent: Option<String>,

    /// Model of the agent that implements
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,

    /// Priority of its open items: P1, P2 or P3
    #[arg(long, value_name = "P", value_parser = |text: &str| text.parse::<Priority>())]
    priority: Option<Priority>,

    /// Start only when this change is merged; none starts it as soon as possible
    #[arg(long, value_name = "CHANGE")]
    after: Option<String>,

    /// Branch that the work is merged into
    #[arg(long, value_name = "B", allow_hyphen_values = true)]
    base: Option<String>,

    /// Branch to work on; an existing one is continued
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    branch: Option<String>,

    /// Maximum number of fixes per round, 0 to 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..=100))]
    max_cycles: Option<i64>,

    /// Open the pull request as a draft
    #[arg(long, conflicts_with = "no_draft")]
    draft: bool,

    /// Open the pull request as a normal one
    #[arg(long)]
    no_draft: bool,
}

/// Argument that names a task. Not a member of the group of edits.
#[derive(Debug, Args)]
struct NamedTask {
    /// Item that implements the task (w1), or its change: id (c1), branch, worktree path, or PR
    #[arg(value_name = "ITEM|CHANGE")]
    id: String,
}

/// Number of an issue, or no issue.
#[derive(Debug, Clone, Copy)]
struct IssueArg(Option<i64>);

fn issue_number(text: &str) -> Result<IssueArg, String> {
    if text == NONE {
        return Ok(IssueArg(None));
    }
    let number = text.parse().ok().filter(|number| *number > 0);
    number
        .map(|number| IssueArg(Some(number)))
        .ok_or_else(|| "expected the number of an issue, or none".to_owned())
}

/// Result of an edit.
#[derive(Serialize)]
struct Edited {
    #[serde(flatten)]
    view: ChangeView,
    changed: Vec<EditedField>,
}

pub(crate) fn edit(args: &EditArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let change = change(&args.named.id, ctx)?;
    let id = change.change_id.clone();
    let settings = ctx.settings()?;
    let project = ctx.read(|conn| bb::project(conn, &change.project_id))?;
    let rules = settings.project(project.project_id.as_str());
    let edit = TaskEdit {
        place: place(args, ctx, &change, (&project, &settings))?,
        ..read(args, ctx, &project, (&settings, &rules))?
    };
    let changed = ctx.write("edit_task", |conn, step| {
        bb::edit_task(conn, &id, &edit, &step.actor, step.now)
    });
    let changed = refused_for(&change, changed)?;
    let around = ctx.around()?;
    let view = ctx.read(|conn| ChangeView::of(conn, &id, around))?;
    ctx.show(&Edited { view, changed }, |ctx, edited| {
        let what = match edited.changed.as_slice() {
            [] => " is as before: nothing to change",
            _ => " is edited",
        };
        ctx.out.line(Line::new().strong(&id).plain(what))?;
        for one in &edited.changed {
            let (from, to) = (shown(one.from.as_deref()), shown(one.to.as_deref()));
            let label = one.field.as_str().replace('_', " ");
            ctx.field(&label, format!("{from} → {to}"))?;
        }
        print_answer(ctx, &edited.view.why)
    })
}

/// Formats a value on one line.
fn shown(value: Option<&str>) -> String {
    match value.map(sanitize::line) {
        None => "not set".to_owned(),
        Some(value) if value.is_empty() => "empty".to_owned(),
        Some(value) => truncate(&value, SHOWN),
    }
}

/// Returns the change of an item, or the named change.
fn change(text: &str, ctx: &CommandContext) -> Result<Change> {
    let is_item = text
        .strip_prefix('w')
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit()));
    let item = match is_item {
        true => ctx.read(|conn| found(bb::item(conn, &ItemId::new(text))))?,
        false => None,
    };
    let Some(item) = item else {
        return ctx.change(text);
    };
    match (item.step(), &item.change_id) {
        (Some(LoopStep::Implement | LoopStep::OpenPull), Some(id)) => {
            ctx.read(|conn| bb::change(conn, id))
        }
        (_, Some(id)) => CommandError::usage(format!("{text} is a {}, not a task", item.source))
            .fail_with_hint(format!(
                "to edit the task of {id}, use `remand item edit {id}`"
            )),
        (_, None) => CommandError::usage(format!("{text} is a {}, not a task", item.source)).fail(),
    }
}

/// Reads the new values, with the checks of `remand add`.
fn read(
    args: &EditArgs,
    ctx: &CommandContext,
    project: &Project,
    (settings, rules): (&Loaded, &ProjectSettings),
) -> Result<TaskEdit> {
    let (agent, review_agent) = (args.agent.as_deref(), args.review_agent.as_deref());
    if agent.or(review_agent).is_some() {
        add::check_agents(settings, rules, agent, review_agent)?;
    }
    let after = match args.after.as_deref() {
        None => None,
        Some(NONE) => Some(None),
        Some(after) => Some(Some(ctx.change(after)?.change_id)),
    };
    let spec = match args.spec.as_deref() {
        None => None,
        Some(path) if path == Path::new(NONE) => Some(None),
        Some(path) => Some(Some(spec::read(path, Path::new(&project.path))?)),
    };
    let issue = match args.issue {
        None => None,
        Some(IssueArg(None)) => Some(None),
        Some(IssueArg(Some(number))) => Some(Some(issue::read(number, project, settings)?)),
    };
    Ok(TaskEdit {
        title: args.title.as_deref().map(add::title).transpose()?,
        text: match &args.body {
            Some(body) => Some(add::body(Some(body))?),
            None => None,
        },
        spec,
        issue,
        agent: args.agent.clone(),
        review_agent: args.review_agent.clone(),
        model: args.model.clone(),
        priority: args.priority,
        after,
        place: None,
        max_cycles: args.max_cycles,
        draft: match (args.draft, args.no_draft) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            (false, false) => None,
        },
    })
}

/// Chooses the branch and the worktree again, if either branch is to change.
fn place(
    args: &EditArgs,
    ctx: &CommandContext,
    change: &Change,
    (project, settings): (&Project, &Loaded),
) -> Result<Option<TaskPlace>> {
    let base = args.base.as_deref().unwrap_or(&change.base);
    let name = args.branch.as_deref().unwrap_or(&change.branch);
    if (base, name) == (&change.base, &change.branch) {
        return Ok(None);
    }
    let unchanged = TaskPlace {
        base: base.to_owned(),
        branch: name.to_owned(),
        worktree: change.worktree.clone(),
        own_worktree: change.own_worktree,
        head: change.head.clone(),
    };
    // The blackboard refuses it with the reason; the present branch would only be in the way here.
    if ctx.read(|conn| bb::is_begun(conn, change))? {
        return Ok(Some(unchanged));
    }
    let rules = settings.project(project.project_id.as_str());
    let wanted = Wanted {
        title: &change.title,
        named: Some(name),
        base,
        rules: &rules,
        project,
        own: Some(&change.change_id),
    };
    let chosen = wait_for(branch::choose(&ctx.git(settings), &wanted, ctx))??;
    Ok(Some(TaskPlace {
        worktree: chosen.worktree,
        own_worktree: chosen.is_own,
        head: chosen.head,
        ..unchanged
    }))
}
