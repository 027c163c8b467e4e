//! `remand worktrees`: lists the worktrees that remand created, and removes those that are done.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::change::{Change, ChangeId, ProjectId, State};
use crate::cli::frame::{
    CommandContext, CommandError, ExitCode, Line, Table, TextStyle, find_change, refuse_agents,
    wait,
};
use crate::cli::init::Ask;
use crate::clock::Time;
use crate::config;
use crate::daemon;
use crate::dispatch::{OwnWorktree, Removal, Upkeep, WorktreeUse};
use crate::human_time::{ago, ahead};
use crate::text::{bytes, count};
use crate::wake;

/// List the worktrees that remand created, and remove those that are done
///
/// The daemon removes the worktree of a merged or closed change after `worktree_ttl_days`, if everything in it is committed
/// and kept on a ref; ignored files are not counted. `--remove` does not wait that long. It never removes work, a worktree
/// that is in use, or a worktree of yours. Branches stay.
#[derive(Debug, Args)]
#[command(
    after_help = "Without names, --remove removes the worktrees of all changes that ended; a worktree that no change knows is \
removed only if it is named.\n\n\
Examples:\n  remand worktrees\n  remand worktrees --remove           all that can go\n  remand worktrees --remove c1 --yes"
)]
pub(crate) struct WorktreesArgs {
    /// Remove the worktrees of these changes or at these paths [default: all that can go]
    #[arg(long, num_args = 0.., value_name = "PATH|CHANGE")]
    remove: Option<Vec<String>>,

    /// Do not ask before removing
    #[arg(short, long, requires = "remove")]
    yes: bool,
}

#[derive(Serialize)]
struct Row {
    path: PathBuf,
    project_id: ProjectId,
    r#use: WorktreeUse,
    change_id: Option<ChangeId>,
    state: Option<State>,
    branch: Option<String>,
    bytes: u64,
    /// False if the worktree is larger than `bytes`: counting was stopped.
    bytes_complete: bool,
    completed_at: Option<Time>,
    removed_after: Option<Time>,
    can_go: bool,
    kept_because: Option<String>,
}

impl Row {
    fn of(one: &OwnWorktree) -> Self {
        let change = one.change.as_ref();
        Self {
            path: one.path.clone(),
            project_id: one.project_id.clone(),
            r#use: one.used,
            change_id: change.map(|change| change.change_id.clone()),
            state: change.map(|change| change.state),
            branch: one.branch.clone(),
            bytes: one.size.bytes,
            bytes_complete: one.size.is_complete,
            completed_at: change.and_then(|change| change.completed_at),
            removed_after: one.removed_after,
            can_go: one.kept_because.is_none(),
            kept_because: one.kept_because.clone(),
        }
    }

    fn size(&self) -> String {
        let more = if self.bytes_complete { "" } else { "> " };
        format!("{more}{}", bytes(self.bytes))
    }
}

#[derive(Serialize)]
struct Removed {
    removed: Vec<PathBuf>,
    kept: Vec<Kept>,
}

#[derive(Serialize)]
struct Kept {
    path: PathBuf,
    reason: String,
}

pub(crate) fn worktrees(args: &WorktreesArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let settings = ctx.settings()?;
    let Some(_) = ctx.board_there(&settings)? else {
        // One that was named must exist.
        ctx.board()?;
        return ctx.show(&Vec::<Row>::new(), print);
    };
    if args.remove.is_some() {
        refuse_agents()?;
    }
    let upkeep = daemon::upkeep(&settings)?;
    let all = wait(upkeep.survey())??;
    match &args.remove {
        None => {
            let rows: Vec<Row> = all.iter().map(Row::of).collect();
            ctx.show(&rows, print)
        }
        Some(names) => remove(args, names, &upkeep, all, ctx),
    }
}

fn print(ctx: &mut CommandContext, rows: &Vec<Row>) -> Result<()> {
    if rows.is_empty() {
        return Ok(ctx
            .out
            .line("There are no worktrees that remand created.")?);
    }
    let mut table = Table::new(&["CHANGE", "STATE", "BRANCH", "SIZE", "ENDED", "GOES", "PATH"]);
    for row in rows {
        let state = row.state.map_or("no change", |state| state.as_str());
        let ended = row.completed_at.map(|ended| ago(ended, ctx.now));
        let goes = match (row.can_go, row.removed_after) {
            (false, _) => "no".to_owned(),
            (true, Some(after)) => ahead(after, ctx.now),
            (true, None) => "if requested".to_owned(),
        };
        table.row([
            row.change_id.as_ref().map_or("-", ChangeId::as_str),
            state,
            row.branch.as_deref().unwrap_or("-"),
            &row.size(),
            ended.as_deref().unwrap_or("-"),
            &goes,
            &row.path.display().to_string(),
        ]);
    }
    ctx.out.table(&table)?;
    for row in rows.iter().filter(|row| row.r#use != WorktreeUse::Live) {
        if let Some(why) = &row.kept_because {
            let path = row.path.display();
            let line = Line::new().plain(path).piece(TextStyle::Notice, " stays: ");
            ctx.out.line(line.plain(why))?;
        }
    }
    Ok(())
}

fn remove(
    args: &WorktreesArgs,
    names: &[String],
    upkeep: &Upkeep,
    all: Vec<OwnWorktree>,
    ctx: &mut CommandContext,
) -> Result<ExitCode> {
    let Named { chosen, gone } = match names {
        [] => Named {
            chosen: all
                .into_iter()
                .filter(|one| one.used == WorktreeUse::Ended)
                .collect(),
            gone: Vec::new(),
        },
        names => named(ctx, names, all)?,
    };
    for change in gone {
        wait(upkeep.forget(&change, &config::user_name()))??;
        let id = &change.change_id;
        ctx.out.note(format!("{id} has no worktree any more"))?;
    }
    let (go, stay): (Vec<_>, Vec<_>) = chosen
        .into_iter()
        .partition(|one| one.kept_because.is_none());
    let kept = stay.into_iter().filter_map(|one| {
        let reason = one.kept_because?;
        Some(Kept {
            path: one.path,
            reason,
        })
    });
    let mut report = Removed {
        removed: Vec::new(),
        kept: kept.collect(),
    };
    let mut ask = Ask::new(args.yes || ctx.out.is_json());
    if ask.is_asking() && !go.is_empty() {
        for one in &go {
            ctx.out.line(format!("{}", one.path.display()))?;
        }
        let question = format!("Remove {}?", count(go.len(), "worktree"));
        if !ask.agrees(&mut ctx.out, &question)? {
            return CommandError::new("nothing was removed").fail();
        }
    }
    for one in go {
        match wait(upkeep.remove(&one, &config::user_name()))?? {
            Removal::Removed => report.removed.push(one.path),
            Removal::Gone => {}
            Removal::Kept(reason) => report.kept.push(Kept {
                path: one.path,
                reason,
            }),
        }
    }
    wake::poke(upkeep.db.path());
    ctx.show(&report, print_removed)?;
    Ok(match names.is_empty() || report.kept.is_empty() {
        true => ExitCode::Done,
        false => ExitCode::Failed,
    })
}

/// Worktrees that the names on the command line stand for.
struct Named {
    chosen: Vec<OwnWorktree>,
    /// Ended changes whose worktree is gone already.
    gone: Vec<Change>,
}

/// Returns the worktrees with these names; an error if there never was one with one of them.
fn named(ctx: &CommandContext, names: &[String], mut all: Vec<OwnWorktree>) -> Result<Named> {
    let (mut chosen, mut gone) = (Vec::new(), Vec::new());
    for name in names {
        let path = Path::new(name);
        // A listed path may have become a link.
        let path = match all.iter().any(|one| one.path == path) {
            true => path.to_owned(),
            false => path.canonicalize().unwrap_or_else(|_| path.to_owned()),
        };
        let change = ctx.read(|conn| find_change(conn, name))?;
        let id = change.as_ref().map(|change| &change.change_id);
        match all.iter().position(|one| one.is_called(&path, id)) {
            Some(at) => chosen.push(all.swap_remove(at)),
            None if chosen
                .iter()
                .any(|one: &OwnWorktree| one.is_called(&path, id)) => {}
            None => match change {
                Some(change) if has_lost_its(&change) => gone.push(change),
                _ => {
                    return CommandError::not_found(format!("`{name}` is no worktree of remand"))
                        .fail_with_hint("`remand worktrees` lists them");
                }
            },
        }
    }
    Ok(Named { chosen, gone })
}

/// True if the worktree of an ended change is gone.
fn has_lost_its(change: &Change) -> bool {
    let path = Path::new(&change.worktree);
    change.own_worktree && change.state.is_over() && path.symlink_metadata().is_err()
}

fn print_removed(ctx: &mut CommandContext, report: &Removed) -> Result<()> {
    for kept in &report.kept {
        let path = kept.path.display();
        let line = Line::new().plain(path).piece(TextStyle::Notice, " stays: ");
        ctx.out.note(line.plain(&kept.reason))?;
    }
    for path in &report.removed {
        ctx.out.line(format!("removed {}", path.display()))?;
    }
    if report.removed.is_empty() {
        ctx.out.line("removed nothing")?;
    }
    Ok(())
}
