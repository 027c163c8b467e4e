//! Views for people: the board and the state of evaluators.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::blackboard::Result;
use crate::blackboard::sql::{self, Connection, Row, impl_from_row, params};
use crate::change::{Change, State};
use crate::clock::Time;
use crate::work::{Item, ItemId, Run, Status};

/// Change with its current work.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct BoardRow {
    #[serde(flatten)]
    pub(crate) change: Change,
    pub(crate) column: &'static str,
    /// Item that is running or waiting, if any.
    pub(crate) open_item: Option<Item>,
    /// Current run, or the last one.
    pub(crate) last_run: Option<Run>,
    pub(crate) pending_rejections: i64,
}

/// Selection of changes to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    Live,
    All,
}

/// Returns the board: changes that need a person first, then by last update.
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
    let changes: Vec<Change> = conn.list(sql, params! { limit })?;
    changes
        .into_iter()
        .map(|change| board_row(conn, change))
        .collect()
}

pub(crate) fn board_row(conn: &Connection, change: Change) -> Result<BoardRow> {
    let id = &change.change_id;
    // An item for a person does not hide a running one.
    let open_item = conn.find(
        "SELECT * FROM work_items WHERE change_id = :id AND status IN ('available', 'claimed', 'blocked')
         ORDER BY source NOT IN ('code_review', 'review_fix'), length(item_id), item_id LIMIT 1",
        params! { id })?;
    let newest: Option<ItemId> = conn.find(
        "SELECT item_id FROM work_items WHERE change_id = :id AND source IN ('code_review', 'review_fix')
         ORDER BY length(item_id) DESC, item_id DESC LIMIT 1",
        params! { id })?;
    let open: Option<&Item> = open_item.as_ref();
    let shown = newest.map(|newest| open.map_or(newest, |item| item.item_id.clone()));
    let last_run = match shown {
        Some(shown) => crate::blackboard::last_run(conn, &shown)?,
        None => None,
    };
    let pending_rejections = conn.value(
        "SELECT count(*) FROM rejections WHERE change_id = :id AND state = 'pending'",
        params! { id: change.change_id },
    )?;
    Ok(BoardRow {
        column: change.column(),
        change,
        open_item,
        last_run,
        pending_rejections,
    })
}

/// True if there is a change that is neither merged nor closed.
pub(crate) fn any_live_change(conn: &Connection) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM changes INDEXED BY changes_live WHERE state NOT IN ('merged', 'closed')",
        &[],
    )
}

/// Counts of everything, without reading the rows: a history of thousands of changes must not cause
/// a delay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Number of changes in each column of the board.
    pub(crate) columns: BTreeMap<&'static str, usize>,
    /// Number of open items, by status.
    pub(crate) items: BTreeMap<Status, usize>,
    /// Changes that are waiting for a person.
    pub(crate) needs_you: Vec<String>,
}

pub(crate) fn counted(conn: &Connection) -> Result<Counted> {
    let mut counted = Counted::default();
    conn.each(
        "SELECT state, skip_tests, count(*) FROM changes GROUP BY state, skip_tests",
        &[],
        |row| {
            let column = row.get::<State>(0)?.column(row.get(1)?);
            let changes: i64 = row.get(2)?;
            *counted.columns.entry(column).or_insert(0) += usize::try_from(changes).unwrap_or(0);
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
    counted.needs_you = conn.list(
        "SELECT change_id FROM changes INDEXED BY changes_live WHERE state NOT IN ('merged', 'closed') AND state = 'escalated'
         ORDER BY length(change_id), change_id",
        &[],
    )?;
    Ok(counted)
}

fn number(row: &Row<'_>) -> sql::Result<usize> {
    Ok(usize::try_from(row.get::<i64>(1)?).unwrap_or(0))
}

/// Progress of an evaluator.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct EvaluatorRow {
    pub(crate) name: String,
    pub(crate) cursor: i64,
    pub(crate) last_run: Option<Time>,
    pub(crate) next_run: Option<Time>,
}

pub(crate) fn evaluator_rows(conn: &Connection) -> Result<Vec<EvaluatorRow>> {
    conn.list("SELECT * FROM evaluators ORDER BY name", &[])
}

impl_from_row! { row => EvaluatorRow { name, cursor, last_run, next_run } }
