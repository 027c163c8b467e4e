//! What people look at: the board and the evaluators' rows.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::blackboard::Result;
use crate::blackboard::from_row;
use crate::blackboard::sql::{self, Connection, Row, params};
use crate::change::{Change, State};
use crate::clock::Time;
use crate::work::{Item, Run, Source, Status};

/// A change with what is under way for it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct BoardRow {
    #[serde(flatten)]
    pub(crate) change: Change,
    pub(crate) column: &'static str,
    /// What runs or waits for it, if anything does.
    pub(crate) open_item: Option<Item>,
    /// The run under way, or the last one.
    pub(crate) last_run: Option<Run>,
    pub(crate) pending_rejections: i64,
}

/// Which changes to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    Live,
    All,
}

/// The board: what needs a person first, then what moved last.
pub(crate) fn board(conn: &Connection, show: Show, limit: i64) -> Result<Vec<BoardRow>> {
    let sql = match show {
        Show::Live => {
            "SELECT * FROM changes WHERE state NOT IN ('merged', 'closed')
             ORDER BY state <> 'escalated', length(change_id), change_id LIMIT :limit"
        }
        Show::All => {
            "SELECT * FROM changes ORDER BY state <> 'escalated', length(change_id), change_id LIMIT :limit"
        }
    };
    let changes: Vec<Change> = conn.all(sql, params! { ":limit": limit }, from_row::change)?;
    changes
        .into_iter()
        .map(|change| board_row(conn, change))
        .collect()
}

pub(crate) fn board_row(conn: &Connection, change: Change) -> Result<BoardRow> {
    let items = crate::blackboard::items_of(conn, &change.change_id)?;
    // What is for a person does not hide what runs.
    let is_run = |item: &&Item| matches!(item.source, Source::CodeReview | Source::ReviewFix);
    let open: Vec<&Item> = items.iter().filter(|item| item.status.is_open()).collect();
    let open_item = open
        .iter()
        .copied()
        .find(is_run)
        .or(open.first().copied())
        .cloned();
    let last_run = match items.iter().rev().find(is_run) {
        Some(item) => {
            crate::blackboard::last_run(conn, &open_item.as_ref().unwrap_or(item).item_id)?
        }
        None => None,
    };
    let pending_rejections = conn.one(
        "SELECT count(*) FROM rejections WHERE change_id = :id AND state = 'pending'",
        params! { ":id": change.change_id },
        |row| row.get(0),
    )?;
    Ok(BoardRow {
        column: change.state.column(),
        change,
        open_item,
        last_run,
        pending_rejections,
    })
}

/// How much there is of everything, counted and not read: a past of thousands of changes is no reason to wait.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// How many changes are in each column of the board.
    pub(crate) columns: BTreeMap<&'static str, usize>,
    /// How many items are open, by status.
    pub(crate) items: BTreeMap<Status, usize>,
    /// The changes that wait for a person.
    pub(crate) needs_you: Vec<String>,
}

pub(crate) fn counted(conn: &Connection) -> Result<Counted> {
    let mut counted = Counted::default();
    conn.each(
        "SELECT state, count(*) FROM changes GROUP BY state",
        &[],
        |row| {
            let column = row.get::<State>(0)?.column();
            *counted.columns.entry(column).or_insert(0) += number(row)?;
            Ok(())
        },
    )?;
    counted.items = [Status::Available, Status::Claimed, Status::Blocked]
        .map(|status| (status, 0))
        .into();
    counted.items.extend(conn.all(
        "SELECT status, count(*) FROM work_items WHERE status IN ('available', 'claimed', 'blocked') GROUP BY status",
        &[],
        |row| Ok((row.get(0)?, number(row)?)),
    )?);
    counted.needs_you = conn.all(
        "SELECT change_id FROM changes INDEXED BY changes_live WHERE state NOT IN ('merged', 'closed') AND state = 'escalated'
         ORDER BY length(change_id), change_id",
        &[],
        |row| row.get(0),
    )?;
    Ok(counted)
}

fn number(row: &Row<'_>) -> sql::Result<usize> {
    Ok(usize::try_from(row.get::<i64>(1)?).unwrap_or(0))
}

/// How far an evaluator is.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct EvaluatorRow {
    pub(crate) name: String,
    pub(crate) cursor: i64,
    pub(crate) last_run: Option<Time>,
    pub(crate) next_run: Option<Time>,
}

pub(crate) fn evaluator_rows(conn: &Connection) -> Result<Vec<EvaluatorRow>> {
    conn.all("SELECT * FROM evaluators ORDER BY name", &[], |row| {
        Ok(EvaluatorRow {
            name: row.get("name")?,
            cursor: row.get("cursor")?,
            last_run: row.get("last_run")?,
            next_run: row.get("next_run")?,
        })
    })
}
