//! `remand diff`: shows the diff of a change, or of one of its fixes.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::show::{Thing, find};
use crate::blackboard::{self as bb, Project};
use crate::change::{Change, ChangeId};
use crate::cli::frame::{CommandContext, CommandError, ExitCode, Line, TextStyle, paged, wait};
use crate::cli::view::review_row::ReviewRow;
use crate::event::{Event, body};
use crate::git::{Diff, Git, Place};
use crate::text::{count, digits, short_sha};
use crate::work::{Run, RunId};

/// Maximum size of the diff that is shown, in bytes.
const CAP: usize = 8 * 1024 * 1024;

/// Show the diff of a change, of one of its fixes, or of one of its reviews
#[derive(Debug, Args)]
#[command(
    after_help = "The diff is shown from the merge base to the head. On a terminal, it is piped to $GIT_PAGER, $PAGER or \
`less -FRX`. Control characters are made visible; use --raw for a patch that `git apply` accepts.\n\n\
Examples:\n  remand diff c1\n  remand diff c1 --cycle 2       only the second fix\n  \
remand diff c1 --review 1      what the first review was given\n  \
remand diff r5                 the work of one run, even if it was discarded"
)]
pub(crate) struct DiffArgs {
    /// Change: id (c1), branch, worktree path, or PR (owner/repo#42, URL, or 42); or a run (r5)
    #[arg(value_name = "CHANGE")]
    id: String,

    /// Show only the diff of fix N, where 1 is the first fix of the change
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    cycle: Option<i64>,

    /// Show what review N of the change was given, where 1 is the first; or a review id (v3)
    #[arg(long, value_name = "N|ID", conflicts_with = "cycle")]
    review: Option<String>,

    /// Show only file names and the numbers of added and deleted lines
    #[arg(long, conflicts_with = "raw")]
    stat: bool,

    /// Do not use a pager
    #[arg(long)]
    no_pager: bool,

    /// Print the patch unmodified, for other programs
    #[arg(long, conflicts_with = "json")]
    raw: bool,
}

#[derive(Serialize)]
struct DiffReport {
    change_id: ChangeId,
    /// Run that made the diff, if one was named.
    run_id: Option<RunId>,
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
    let (change, run) = named(ctx, &args.id)?;
    let option = match (args.cycle, &args.review) {
        (Some(_), _) => Some("--cycle"),
        (None, Some(_)) => Some("--review"),
        (None, None) => None,
    };
    if let (Some(run), Some(option)) = (&run, option) {
        let what = format!("{option} needs a change, but {} is a run", run.run_id);
        return CommandError::usage(what)
            .fail_with_hint(format!("use `remand diff {} {option} N`", change.change_id));
    }
    let project = ctx.read(|conn| bb::project(conn, &change.project_id))?;
    let place = objects_of(project);
    let (from, to) = match (&run, &args.review, args.cycle) {
        (Some(run), _, _) => wait(work_of(&git, &place, run))??,
        (None, Some(review), _) => reviewed(ctx, &git, &place, &change, review)?,
        (None, None, Some(cycle)) => one_fix(ctx, &change, cycle)?,
        (None, None, None) => wait(whole(&git, &place, &change))??,
    };
    let diff: Diff = wait(git.diff(&place, &from, &to, CAP))??;
    let files = diff.files.into_iter().map(|file| File {
        path: file.path,
        added: file.added,
        deleted: file.deleted,
    });
    let report = DiffReport {
        change_id: change.change_id,
        run_id: run.map(|run| run.run_id),
        from,
        to,
        files: files.collect(),
        text: diff.text,
        truncated: diff.truncated,
    };
    ctx.show(&report, |ctx, report| match (args.raw, args.no_pager) {
        (true, _) => Ok(ctx.out.raw(&report.text)?),
        (false, true) => print(ctx, report, args),
        (false, false) => paged(ctx, |ctx| print(ctx, report, args)),
    })?;
    if report.truncated && !args.stat {
        let mib = CAP / 1024 / 1024;
        ctx.out
            .note(format!("note: only the first {mib} MiB are shown"))?;
    }
    Ok(ExitCode::Done)
}

/// Place in which all commits of a project are found, even after the worktree of a change was
/// removed: all worktrees share the objects.
pub(crate) fn objects_of(project: Project) -> Place {
    let common_dir = PathBuf::from(project.common_dir);
    Place {
        path: project.path.into(),
        git_dir: common_dir.clone(),
        common_dir,
    }
}

/// Finds a change, or a run and its change.
fn named(ctx: &CommandContext, text: &str) -> Result<(Change, Option<Run>)> {
    let number = text.strip_prefix('r').unwrap_or_default();
    if number.parse::<u64>().is_err() {
        return Ok((ctx.change(text)?, None));
    }
    let thing = find(ctx, text)?;
    if let Thing::Change(change) = thing {
        return Ok((change, None));
    }
    let Thing::Run(run) = thing else {
        return CommandError::usage(format!("`{text}` is neither a change nor a run")).fail();
    };
    let change = ctx.read(|conn| bb::change(conn, &run.change_id))?;
    Ok((change, Some(run)))
}

fn print(ctx: &mut CommandContext, diff: &DiffReport, args: &DiffArgs) -> Result<()> {
    if args.stat {
        return print_stat(ctx, &diff.files);
    }
    diff.text.lines().try_for_each(|line| {
        let spaced = line.replace('\t', "    ");
        Ok(ctx.out.line(Line::new().piece(look_of(line), spaced))?)
    })
}

fn print_stat(ctx: &mut CommandContext, files: &[File]) -> Result<()> {
    let wide = files.iter().map(|file| file.path.chars().count()).max();
    let wide = wide.unwrap_or_default();
    for file in files {
        let line = Line::new()
            .plain(format!("{:<wide$}  ", file.path))
            .piece(TextStyle::Good, format!("+{}", file.added))
            .plain(" ")
            .piece(TextStyle::Bad, format!("-{}", file.deleted));
        ctx.out.line(line)?;
    }
    let added: u64 = files.iter().map(|file| file.added).sum();
    let deleted: u64 = files.iter().map(|file| file.deleted).sum();
    let files = count(files.len(), "file");
    Ok(ctx.out.line(format!("{files}, +{added} -{deleted}"))?)
}

/// Range from the head at the start of a run to its result: its wip ref, or its commit.
async fn work_of(git: &Git, place: &Place, run: &Run) -> Result<(String, String)> {
    if let Some(kept) = git.wip(place, run.run_id.as_str()).await? {
        return Ok((run.head_before.clone(), kept));
    }
    // Replayed commits are based on commits made in between, which are not part of the run's work.
    let from = run.rebased_onto.as_ref().unwrap_or(&run.head_before);
    match &run.head_after {
        Some(after) => Ok((from.clone(), after.clone())),
        None => {
            let id = &run.run_id;
            let what = match run.ended {
                Some(_) => format!("{id} left no work: nothing was committed or saved"),
                None => format!("{id} is still running: its work is in the worktree"),
            };
            CommandError::not_found(what)
                .fail_with_hint(format!("`remand log {id}` shows the output of its agent"))
        }
    }
}

async fn whole(git: &Git, place: &Place, change: &Change) -> Result<(String, String)> {
    let (branch, base) = (&change.branch, &change.base);
    let Some(base_head) = git.base_head(place, base).await? else {
        return CommandError::not_found(format!("branch {base} does not exist any more")).fail();
    };
    let Some(from) = git.merge_base(place, &base_head, &change.head).await? else {
        return CommandError::new(format!("{branch} and {base} have no common history")).fail();
    };
    Ok((from, change.head.clone()))
}

fn one_fix(ctx: &CommandContext, change: &Change, cycle: i64) -> Result<(String, String)> {
    let events = ctx.read(|conn| bb::events_of(conn, &change.change_id, i64::MAX))?;
    let heads = |event: &Event| {
        let committed = event.body::<body::FixCommitted>();
        let committed = committed.map(|fix| (fix.head_before, fix.head_after));
        committed.or_else(|| {
            let pushed = event.body::<body::FixPushed>()?;
            Some((pushed.head_before, pushed.head_after))
        })
    };
    let fixes = events.iter().filter_map(heads);
    let fixes: Vec<(String, String)> = fixes
        .filter(|(before, after)| !before.is_empty() && !after.is_empty())
        .collect();
    // Counted over the whole life of the change: operators can restart the cycles, so there may be
    // several first ones.
    let nth = usize::try_from(cycle).ok();
    match nth.and_then(|nth| fixes.get(nth.checked_sub(1)?)) {
        Some((from, to)) => Ok((from.clone(), to.clone())),
        None => {
            let hint = match fixes.len() {
                0 => "there are no fixes yet".to_owned(),
                1 => "there is 1 fix: use --cycle 1".to_owned(),
                n => format!("there are {n} fixes: use --cycle 1 to {n}"),
            };
            CommandError::not_found(format!("{} has no fix {cycle}", change.change_id))
                .fail_with_hint(hint)
        }
    }
}

/// Returns the range that a review was given: the receipt of the review.
fn reviewed(
    ctx: &CommandContext,
    git: &Git,
    place: &Place,
    change: &Change,
    name: &str,
) -> Result<(String, String)> {
    let id = &change.change_id;
    let reviews = ReviewRow::numbered(ctx.read(|conn| bb::reviews_of(conn, id))?);
    let is_it = |row: &&ReviewRow| {
        row.review.review_id.as_str() == name || digits(name) == Some(row.number)
    };
    let Some(row) = reviews.iter().find(is_it) else {
        let hint = match reviews.len() {
            0 => "there are no reviews yet".to_owned(),
            1 => "there is 1 review: use --review 1".to_owned(),
            n => format!("there are {n} reviews: use --review 1 to {n}"),
        };
        return CommandError::not_found(format!("{id} has no review `{name}`"))
            .fail_with_hint(hint);
    };
    let review = &row.review;
    for sha in [&review.base, &review.head] {
        if wait(git.resolve(place, sha))??.is_none() {
            let (v, sha) = (&review.review_id, short_sha(sha));
            return CommandError::not_found(format!(
                "cannot show what {v} was given: commit {sha} is no longer in the repository"
            ))
            .fail_with_hint(format!("`remand show {v}` shows the review itself"));
        }
    }
    Ok((review.base.clone(), review.head.clone()))
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
