//! `remand diff`: what a change, or one fix of it, changes.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::Named;
use crate::blackboard as bb;
use crate::change::{Change, ChangeId};
use crate::cli::frame::context::{CommandContext, wait};
use crate::cli::frame::error::{CommandError, ExitCode};
use crate::cli::frame::ui::{Line, TextStyle};
use crate::event::body;
use crate::git::{Diff, Git, Place};

/// The most of a diff that is shown.
const CAP: usize = 8 * 1024 * 1024;

/// Show what a change changes, from where it left its base to its head
#[derive(Debug, Args)]
#[command(
    after_help = "Control characters in it are made visible; --raw gives a patch that `git apply` takes.\n\n\
Examples:\n  remand diff c1\n  remand diff c1 --cycle 2       only what the second fix changed"
)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    named: Named,

    /// Only what fix N changed, counted over the life of the change
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    cycle: Option<i64>,

    /// Byte for byte, for another program
    #[arg(long, conflicts_with = "json")]
    raw: bool,
}

#[derive(Serialize)]
struct DiffReport {
    change_id: ChangeId,
    from: String,
    to: String,
    files: Vec<File>,
    text: String,
    truncated: bool,
}

#[derive(Serialize)]
struct File {
    path: String,
    added: u64,
    deleted: u64,
}

pub(crate) fn diff(args: &DiffArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let settings = ctx.settings()?;
    let git = ctx.git(&settings);
    let change = ctx.change(&args.named.change)?;
    let project = ctx.read(|conn| bb::project(conn, &change.project_id))?;
    // All worktrees share the objects, so this works when the change's own is gone.
    let common_dir = PathBuf::from(&project.common_dir);
    let place = Place {
        path: project.path.into(),
        git_dir: common_dir.clone(),
        common_dir,
    };
    let range = match args.cycle {
        Some(cycle) => one_fix(ctx, &change, cycle)?,
        None => wait(whole(&git, &place, &change))??,
    };
    let (from, to) = range;
    let diff: Diff = wait(git.diff(&place, &from, &to, CAP))??;
    if ctx.out.is_json() {
        let files = diff.files.iter().map(|file| File {
            path: file.path.clone(),
            added: file.added,
            deleted: file.deleted,
        });
        let (change_id, truncated) = (change.change_id, diff.truncated);
        ctx.out.json(&DiffReport {
            change_id,
            from,
            to,
            files: files.collect(),
            text: diff.text,
            truncated,
        })?;
        return Ok(ExitCode::Done);
    }
    if args.raw {
        ctx.out.raw(&diff.text)?;
    } else {
        for line in diff.text.lines() {
            ctx.out
                .line(Line::default().piece(look_of(line), line.replace('\t', "    ")))?;
        }
    }
    if diff.truncated {
        ctx.out.note(format!(
            "note: only the first {} MiB are shown",
            CAP / 1024 / 1024
        ))?;
    }
    Ok(ExitCode::Done)
}

async fn whole(git: &Git, place: &Place, change: &Change) -> Result<(String, String)> {
    let Some(base) = git.base_head(place, &change.base).await? else {
        return Err(CommandError::not_found(format!(
            "there is no branch {} any more",
            change.base
        ))
        .into());
    };
    let Some(from) = git.merge_base(place, &base, &change.head).await? else {
        return Err(CommandError::new(format!(
            "{} and {} have no common history",
            change.branch, change.base
        ))
        .into());
    };
    Ok((from, change.head.clone()))
}

fn one_fix(ctx: &CommandContext, change: &Change, cycle: i64) -> Result<(String, String)> {
    let events = ctx.read(|conn| bb::events_of(conn, &change.change_id, i64::MAX))?;
    let fixes: Vec<(String, String)> = events
        .iter()
        .filter_map(|event| {
            let committed = event
                .body::<body::FixCommitted>()
                .map(|fix| (fix.head_before, fix.head_after));
            committed.or_else(|| {
                let pushed = event.body::<body::FixPushed>()?;
                Some((pushed.head_before, pushed.head_after))
            })
        })
        .filter(|(before, after)| !before.is_empty() && !after.is_empty())
        .collect();
    // Counted over the change's life: a person's word begins the cycles anew, and there may be several first ones.
    let nth = usize::try_from(cycle)
        .ok()
        .and_then(|nth| fixes.get(nth.checked_sub(1)?));
    match nth {
        Some((from, to)) => Ok((from.clone(), to.clone())),
        None => {
            let hint = match fixes.len() {
                0 => "it has no fix yet".to_owned(),
                1 => "it has 1 fix: --cycle 1".to_owned(),
                n => format!("it has {n} fixes: --cycle 1 to {n}"),
            };
            Err(
                CommandError::not_found(format!("{} has no fix {cycle}", change.change_id))
                    .hint(hint)
                    .into(),
            )
        }
    }
}

fn look_of(line: &str) -> TextStyle {
    match line.as_bytes().first() {
        Some(b'+') if !line.starts_with("+++") => TextStyle::Good,
        Some(b'-') if !line.starts_with("---") => TextStyle::Bad,
        Some(b'@') => TextStyle::Command,
        Some(b'd') => TextStyle::Strong,
        Some(_) | None => TextStyle::Plain,
    }
}
