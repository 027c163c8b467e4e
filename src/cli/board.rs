//! `remand list`, and `remand` alone: the board.

use anyhow::Result;
use clap::Args;

use super::{reload, stop};
use crate::blackboard::{self as bb, Show};
use crate::cli::frame::{CommandContext, ExitCode, Line, Table, running_daemon};
use crate::clock::Time;
use crate::explain::ChangeView;
use crate::human_time::ago;
use crate::sanitize;
use crate::text::{columns, truncate};

/// Columns of the board in order, from changes that need a person to finished ones.
const COLUMNS: [&str; 7] = [
    "Needs you",
    "Backlog",
    "In progress",
    "Code review",
    "Waiting approval",
    "Verified",
    "Done",
];

/// Number of spaces between two columns.
const GAP: usize = 2;

/// Minimum width of a clause; a shorter one is not informative.
const SHORTEST_WHY: usize = 28;

/// Minimum width for both title and clause; below it only the clause is shown.
const TITLE_AND_WHY: usize = 50;

/// Maximum width of a title when the width of the output is unknown.
const TITLE_IN_PIPE: usize = 72;
const WHY_IN_PIPE: usize = 100;

/// List the open changes and what each is waiting for
#[derive(Debug, Args, Default)]
pub(crate) struct ListArgs {
    /// Include merged and closed changes
    #[arg(long)]
    all: bool,

    /// Maximum number of changes
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(i64).range(1..))]
    limit: i64,
}

pub(crate) fn list(args: &ListArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let around = ctx.around()?;
    let show = if args.all { Show::All } else { Show::Live };
    let limit = if args.limit == 0 { 500 } else { args.limit };
    let (mut views, projects) = ctx.read(|conn| {
        let rows = bb::board(conn, show, limit)?;
        let views = rows
            .into_iter()
            .map(|row| ChangeView::gather(conn, row, around));
        Ok((
            views.collect::<bb::Result<Vec<_>>>()?,
            bb::list_projects(conn)?.len(),
        ))
    })?;
    views.sort_by_key(|view| COLUMNS.iter().position(|column| *column == view.row.column));
    ctx.show(&views, |ctx, views| print(ctx, views, projects))
}

fn print(ctx: &mut CommandContext, views: &[ChangeView], projects: usize) -> Result<()> {
    running_daemon::absence(ctx)?;
    stop::banner(ctx)?;
    running_daemon::elsewhere_note(ctx)?;
    reload::banner(ctx)?;
    if views.is_empty() {
        ctx.out.line("The board is empty.")?;
        if projects == 0 {
            ctx.note_nothing_known();
        } else {
            ctx.out.note(
                "hint: add work with `remand review` in a worktree, or with `remand watch PR`",
            )?;
        }
        return Ok(());
    }
    // The line of the heads, and that of the changes left out.
    let fits = |room: usize| match room > views.len() {
        true => views.len(),
        false => room.saturating_sub(2),
    };
    let shown = ctx.out.room().map_or(views.len(), fits);
    let rows = views.iter().take(shown).map(|view| Row::of(view, ctx.now));
    let table = table(rows.collect(), ctx.out.width());
    ctx.out.cut_table(&table)?;
    if shown < views.len() {
        let more = format!("and {} more", views.len() - shown);
        ctx.out.line(Line::new().faint(more))?;
    }
    Ok(())
}

/// Cells of one change, each on one line.
#[derive(Debug, Clone)]
struct Row {
    change: String,
    pr: Option<String>,
    column: String,
    cycle: String,
    title: String,
    why: String,
    since: String,
}

impl Row {
    fn of(view: &ChangeView, now: Time) -> Self {
        let change = view.change();
        Self {
            change: change.change_id.to_string(),
            pr: view.pr.clone(),
            column: view.row.column.into(),
            cycle: view.cycle.trim_start_matches("fix ").to_owned(),
            title: sanitize::line(&change.title),
            why: sanitize::line(&view.why.short),
            since: ago(view.why.since.unwrap_or(change.updated_at), now),
        }
    }
}

/// Builds the table, one line per change. Ids, PRs and states are never cut; the title and the
/// clause are cut to the remaining width. Less informative columns are dropped before the clause
/// becomes too short to be useful.
fn table(mut rows: Vec<Row>, width: Option<usize>) -> Table {
    let widest = |rows: &[Row], head: &str, cell: fn(&Row) -> &str| {
        rows.iter()
            .map(|row| columns(cell(row)))
            .chain([head.len()])
            .max()
            .unwrap_or(0)
            + GAP
    };
    let has_prs = rows.iter().any(|row| row.pr.is_some());
    let mut has_times = true;
    let (mut for_title, mut for_why) = (TITLE_IN_PIPE, WHY_IN_PIPE);
    if let Some(width) = width {
        let named =
            widest(&rows, "CHANGE", |row| &row.change) + widest(&rows, "BOARD", |row| &row.column);
        let pr = |rows: &[Row]| {
            if has_prs {
                widest(rows, "PR", |row| row.pr.as_deref().unwrap_or("-"))
            } else {
                0
            }
        };
        if width < named + pr(&rows) + SHORTEST_WHY {
            for row in &mut rows {
                row.pr = row
                    .pr
                    .as_deref()
                    .map(|pr| pr.rsplit('/').next().unwrap_or(pr).to_owned());
            }
        }
        let times =
            widest(&rows, "FIX", |row| &row.cycle) + widest(&rows, "SINCE", |row| &row.since);
        let left = width.saturating_sub(named + pr(&rows));
        has_times = left >= times + TITLE_AND_WHY;
        let left = if has_times { left - times } else { left };
        let title = widest(&rows, "TITLE", |row| &row.title).min(left * 2 / 5);
        let title = if left >= TITLE_AND_WHY { title } else { 0 };
        for_title = title.saturating_sub(GAP);
        for_why = (left - title).max(SHORTEST_WHY / 2);
    }
    let shown = |head: &str| match head {
        "PR" => has_prs,
        "FIX" | "SINCE" => has_times,
        "TITLE" => for_title > 0,
        _ => true,
    };
    let heads = ["CHANGE", "PR", "BOARD", "FIX", "TITLE", "WHY", "SINCE"];
    let mut table = Table::new(
        &heads
            .into_iter()
            .filter(|head| shown(head))
            .collect::<Vec<_>>(),
    );
    for row in rows {
        let pr = row.pr.unwrap_or_else(|| "-".to_owned());
        let (title, why) = (truncate(&row.title, for_title), truncate(&row.why, for_why));
        let cells = [row.change, pr, row.column, row.cycle, title, why, row.since];
        table.row(
            heads
                .into_iter()
                .zip(cells)
                .filter(|(head, _)| shown(head))
                .map(|(_, cell)| cell),
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pr: Option<&str>, why: &str) -> Row {
        Row {
            change: "c12".into(),
            pr: pr.map(str::to_owned),
            column: "Waiting approval".into(),
            cycle: "1/2".into(),
            title: "Log in with a passkey instead of a password on the first page".into(),
            why: why.into(),
            since: "3 min ago".into(),
        }
    }

    fn shown(pr: Option<&str>, width: Option<usize>) -> String {
        let long = "needs you: the gates are red after 2 fixes: ".to_owned()
            + &"npm test failed ".repeat(20);
        let rows = vec![row(pr, &long), row(None, "waits for feedback")];
        table(rows, width).render(None)
    }

    #[test]
    fn each_change_is_one_line_that_fits_the_terminal_with_its_names_whole() {
        for pr in [
            None,
            Some("ada/website#44"),
            Some("an-organisation/a-rather-long-repository#1234"),
        ] {
            for width in [80, 100, 160, 240] {
                let text = shown(pr, Some(width));
                assert_eq!(text.lines().count(), 3, "{text}");
                assert!(
                    text.lines().all(|line| line.chars().count() <= width),
                    "{width}: {text}"
                );
                let name = pr.map_or("", |pr| pr.rsplit('/').next().unwrap());
                assert!(
                    text.contains(name) && text.contains("Waiting approval"),
                    "{text}"
                );
                assert!(text.contains("needs you: the"), "{text}");
            }
        }
        insta::assert_snapshot!(shown(Some("ada/website#44"), Some(80)), @"
        CHANGE  PR              BOARD             WHY
        c12     ada/website#44  Waiting approval  needs you: the gates are red after 2…
        c12     -               Waiting approval  waits for feedback
        ");
        insta::assert_snapshot!(shown(Some("ada/website#44"), Some(100)), @"
        CHANGE  PR              BOARD             TITLE                  WHY
        c12     ada/website#44  Waiting approval  Log in with a passke…  needs you: the gates are red after…
        c12     -               Waiting approval  Log in with a passke…  waits for feedback
        ");
        insta::assert_snapshot!(shown(Some("ada/website#44"), Some(160)), @"
        CHANGE  PR              BOARD             FIX  TITLE                                   WHY                                                             SINCE
        c12     ada/website#44  Waiting approval  1/2  Log in with a passkey instead of a pa…  needs you: the gates are red after 2 fixes: npm test failed n…  3 min ago
        c12     -               Waiting approval  1/2  Log in with a passkey instead of a pa…  waits for feedback                                              3 min ago
        ");
    }

    #[test]
    fn a_row_in_a_pipe_has_a_sane_length() {
        let text = shown(Some("ada/website#44"), None);
        assert!(
            text.lines().all(|line| line.chars().count() < 240) && text.contains('…'),
            "{text}"
        );
        assert!(
            text.contains("3 min ago") && text.contains("on the first page"),
            "{text}"
        );
    }
}
