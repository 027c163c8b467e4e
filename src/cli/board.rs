//! `remand list`, and `remand` alone: the board.

use anyhow::Result;
use clap::Args;

use super::age::ago;
use super::desk::Desk;
use super::fail::Code;
use super::out::Table;
use super::picture::Picture;
use super::stop;
use crate::blackboard::{self as bb, Show};

/// The order of the board's columns, from what needs a person to what is done.
const COLUMNS: [&str; 7] =
    ["Needs you", "Backlog", "In progress", "Code review", "Waiting approval", "Verified", "Done"];

/// Show the changes that are under way and what each waits for
#[derive(Debug, Args, Default)]
pub(crate) struct ListArgs {
    /// Also those that are merged or closed
    #[arg(long)]
    all: bool,

    /// At most N of them
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(i64).range(1..))]
    limit: i64,
}

pub(crate) fn list(args: &ListArgs, desk: &mut Desk) -> Result<Code> {
    let around = desk.around()?;
    let show = if args.all { Show::All } else { Show::Live };
    let limit = if args.limit == 0 { 500 } else { args.limit };
    let (mut pictures, projects) = desk.read(|conn| {
        let rows = bb::board(conn, show, limit)?;
        let pictures = rows.into_iter().map(|row| Picture::take(conn, row.change, around));
        Ok((pictures.collect::<bb::Result<Vec<_>>>()?, bb::list_projects(conn)?.len()))
    })?;
    pictures.sort_by_key(|picture| COLUMNS.iter().position(|column| *column == picture.row.column));
    if desk.out.is_json() {
        desk.out.json(&pictures)?;
        return Ok(Code::Done);
    }
    stop::banner(desk)?;
    if pictures.is_empty() {
        desk.out.line("Nothing is on the board.")?;
        if projects == 0 {
            desk.note_nothing_known();
        } else {
            desk.out.note("hint: `remand review`, in a worktree of a project, puts its work on the board")?;
        }
        return Ok(Code::Done);
    }
    let heads = ["CHANGE", "PR", "BOARD", "FIX", "TITLE", "WHY", "SINCE"];
    let has_prs = pictures.iter().any(|picture| picture.pr.is_some());
    let shown = |head: &str| has_prs || head != "PR";
    let mut table = Table::new(&heads.into_iter().filter(|head| shown(head)).collect::<Vec<_>>());
    for picture in &pictures {
        let change = picture.change();
        let since = ago(picture.why.since.unwrap_or(change.updated_at), desk.now);
        let column = if change.shadow { format!("{} (shadow)", picture.row.column) } else { picture.row.column.into() };
        let cells = [
            change.change_id.as_str(),
            picture.pr.as_deref().unwrap_or("-"),
            &column,
            picture.cycle.trim_start_matches("fix "),
            &change.title,
            &picture.why.answer,
            &since,
        ];
        table.row(heads.into_iter().zip(cells).filter(|(head, _)| shown(head)).map(|(_, cell)| cell));
    }
    desk.out.table(&table)?;
    Ok(Code::Done)
}
