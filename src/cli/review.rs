//! `remand review`: adds the work in a worktree to the loop.

use crate::text::short_sha;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::project::say_who_works;
use super::shadow;
use crate::blackboard::{self as bb, BoardError, Conn, NewChange, Project};
use crate::change::{Bounds, Change, ChangeId, ReviewRules, ReviewStage, Shadow, State};
use crate::cli::frame::{CommandContext, CommandError, ExitCode, found, refused_for};
use crate::cli::view::print_change::told;
use crate::config::Loaded;
use crate::daemon;
use crate::evaluator::definition::max_fix_cycles;
use crate::work::{Item, Source, Status};

mod worktree_check;

use worktree_check::CheckedWorktree;

/// Review and fix the work in a worktree until it passes
#[derive(Debug, Args)]
#[command(
    after_help = "The worktree must be clean, on its own branch, and have commits that are not in its base. \
This command adds the branch as a change; `remand run` or `remand tick` does the work.\n\n\
Examples:\n  remand review                                  the current worktree\n  \
remand review --worktree ~/worktrees/login\n  remand review --branch feature/login           wherever it is checked out"
)]
pub(crate) struct ReviewArgs {
    /// Change whose present head is reviewed again, or for the first time: id (c1), branch, or PR
    #[arg(value_name = "CHANGE", conflicts_with_all = ["worktree", "branch", "title", "base", "max_cycles", "add_project", "shadow"])]
    change: Option<String>,

    /// Worktree [default: the current one]
    #[arg(long, value_name = "PATH")]
    worktree: Option<PathBuf>,

    /// Use the worktree of the same repository that is on branch B
    #[arg(long, value_name = "B")]
    branch: Option<String>,

    /// Title of the change [default: the subject of its only commit, or else the branch name]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// Branch that the work is merged into [default: that of the project]
    #[arg(long, value_name = "B")]
    base: Option<String>,

    /// Maximum number of fixes per round, 0 to 100 [default: as configured]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..=100))]
    max_cycles: Option<i64>,

    /// Add the repository as a project if it is not one yet
    #[arg(long)]
    add_project: bool,

    /// Start in shadow mode: show what would be done, until `remand shadow CHANGE off`
    #[arg(long)]
    shadow: bool,
}

pub(crate) fn review(args: &ReviewArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    if let Some(name) = &args.change {
        return review_change(name, ctx);
    }
    ctx.may_begin();
    let settings = ctx.settings()?;
    let found = worktree_check::look(args, &settings, ctx)?;
    let live = ctx.read(|conn| bb::live_change_at(conn, &found.path))?;
    let (id, what) = match live {
        None => (enter(args, &settings, &found, ctx)?, "will be reviewed"),
        Some(change) => match standing(ctx, &change, &found)? {
            Standing::Known(what) => return told(ctx, &change.change_id, what),
            Standing::Moved => {
                let id = change.change_id;
                ctx.write("review", |conn, step| {
                    bb::review_new_head(conn, &id, &found.head, &step.actor, step.now)
                })?;
                (id, "has a new head, which will be reviewed")
            }
        },
    };
    say_who_works(&settings, found.project.project_id.as_str(), ctx)?;
    told(ctx, &id, what)
}

/// Queues a review of a known change.
fn review_change(name: &str, ctx: &mut CommandContext) -> Result<ExitCode> {
    let change = ctx.change(name)?;
    let id = change.change_id.clone();
    let queued = ctx.write("review", |conn, step| {
        let change = bb::change(conn, &id)?;
        super::item::refuse_useless_review(&change)?;
        super::item::refuse_second(conn, &change, Source::CodeReview)?;
        bb::queue_review(conn, &change, &step.actor, step.now)
    });
    refused_for(&change, queued)?;
    let settings = ctx.settings()?;
    say_who_works(&settings, change.project_id.as_str(), ctx)?;
    told(ctx, &id, "will be reviewed")
}

/// Creates a change and its review in one transaction, and its project if that is new too.
fn enter(
    args: &ReviewArgs,
    settings: &Loaded,
    found: &CheckedWorktree,
    ctx: &CommandContext,
) -> Result<ChangeId> {
    let id = &found.project.project_id;
    let own = settings.project(id.as_str());
    let evaluators = ctx.evaluators(settings)?;
    let most_fixes = settings.max_fix_cycles(id.as_str(), max_fix_cycles(&evaluators));
    let new = |actor: &str, in_force: Shadow| NewChange {
        project_id: id.clone(),
        title: found.title.clone(),
        branch: found.branch.clone(),
        base: found.base.clone(),
        head: found.head.clone(),
        worktree: found.path.clone(),
        host: daemon::host(),
        state: State::PendingSelfReview,
        bounds: Bounds {
            max_fix_cycles: most_fixes.most,
            ..own.bounds
        },
        // It was asked for, whatever the settings say.
        review: ReviewRules {
            stage: ReviewStage::BeforePr,
            ..own.review
        },
        own_max_fix_cycles: args.max_cycles,
        shadow: shadow::word(args.shadow, settings, id, in_force),
        actor: actor.to_owned(),
    };
    ctx.write("review", |conn, step| {
        if found.is_new_project {
            let stored = bb::insert_project(conn, &found.project)?;
            if stored.project_id != *id {
                let id = stored.project_id;
                let what = format!("this repository is the project `{id}`, which was removed");
                let hint = "`remand project add .` adds it again";
                return Err(BoardError::refused_with_hint(what, hint));
            }
            bb::set_project_shadow(conn, id, own.shadow, step.now)?;
        }
        let in_force = bb::project_shadow(conn, id)?;
        refuse_twin(conn, &found.project, &found.branch)?;
        let change = bb::insert_change(conn, &new(&step.actor, in_force), step.now)?;
        bb::queue_review(conn, &change, &step.actor, step.now)?;
        Ok(change.change_id)
    })
}

/// Refuses a branch that already has a change: its worktree may have been removed and made again
/// elsewhere.
fn refuse_twin(conn: &Conn, project: &Project, branch: &str) -> bb::Result<()> {
    let Some(twin) = found(bb::find_change(conn, branch))? else {
        return Ok(());
    };
    if twin.project_id != project.project_id || twin.branch != branch || twin.state.is_over() {
        return Ok(());
    }
    let (id, worktree) = (&twin.change_id, &twin.worktree);
    let what = format!("branch {branch} already belongs to {id}, in {worktree}");
    let hint = format!("`remand status {id}` shows it, `remand cancel {id}` closes it");
    Err(BoardError::refused_with_hint(what, hint))
}

/// Situation of a worktree that already has a change.
enum Standing {
    /// Nothing to do, with a description of the state.
    Known(&'static str),
    /// The branch is at a commit other than the judged one.
    Moved,
}

fn standing(ctx: &CommandContext, change: &Change, found: &CheckedWorktree) -> Result<Standing> {
    let id = &change.change_id;
    let (items, review) = ctx.read(|conn| {
        let items = bb::items_of(conn, id)?;
        Ok((items, bb::review_of_head(conn, id, &found.head)?))
    })?;
    let open = items.iter().find(|item| item.status.is_open());
    if change.branch != found.branch {
        let what = format!(
            "{} is the worktree of {id} for branch {}, but is now on {}",
            found.path, change.branch, found.branch
        );
        return CommandError::new(what).fail_with_hint(format!(
            "run `git switch {}`, or cancel the change with `remand cancel {id}`",
            change.branch
        ));
    }
    if change.head == found.head {
        return same_head(change, open, review.is_some());
    }
    if let Some(item) =
        open.filter(|item| item.status == Status::Claimed || item.source == Source::ReviewFix)
    {
        let (source, item) = (item.source, &item.item_id);
        let what = format!(
            "{id} moved to {} while {source} {item} is in progress for {}",
            short_sha(&found.head),
            short_sha(&change.head)
        );
        return CommandError::new(what).fail_with_hint(format!(
            "wait for it (`remand why {id}`), or cancel it with `remand item cancel {item}`"
        ));
    }
    if matches!(
        change.state,
        State::ReadyForHumanReview | State::Approved | State::Escalated | State::PendingSelfReview
    ) {
        return Ok(Standing::Moved);
    }
    let (state, head) = (change.state, short_sha(&found.head));
    let what = format!("{id} is {state}, but its head has moved to {head}");
    let hint = format!("`remand why {id}` explains what it is waiting for");
    CommandError::new(what).fail_with_hint(hint)
}

fn same_head(change: &Change, open: Option<&Item>, is_judged: bool) -> Result<Standing> {
    let id = &change.change_id;
    if change.state == State::Escalated {
        let decide = change.decision.clone();
        let decide = decide.unwrap_or_else(|| format!("`remand why {id}`"));
        return CommandError::needs_person(format!("{id} needs you, and its head has not changed"))
            .fail_with_hint(decide);
    }
    Ok(Standing::Known(match open.map(|item| item.source) {
        Some(Source::CodeReview) => "already has a review in progress",
        Some(_) => "already has a fix in progress",
        None if is_judged => "already has a verdict for this head",
        None => "is already in progress",
    }))
}
