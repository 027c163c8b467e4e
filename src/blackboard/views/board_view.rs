//! What people look at: the board and the evaluators' rows.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row, named_params};
use serde::Serialize;

use crate::blackboard::Result;
use crate::blackboard::from_row;
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
    let mut statement = conn.prepare_cached(sql)?;
    let changes: Vec<Change> = statement
        .query_map(named_params! { ":limit": limit }, from_row::change)?
        .collect::<std::result::Result<_, _>>()?;
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
    let pending_rejections = conn
        .prepare_cached(
            "SELECT count(*) FROM rejections WHERE change_id = :id AND state = 'pending'",
        )?
        .query_row(named_params! { ":id": change.change_id.as_str() }, |row| {
            row.get(0)
        })?;
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
    let pair = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?));
    let mut counted = Counted::default();
    let mut states = conn.prepare_cached("SELECT state, count(*) FROM changes GROUP BY state")?;
    for found in states.query_map([], pair)? {
        let (state, n) = found?;
        *counted
            .columns
            .entry(state.parse::<State>()?.column())
            .or_insert(0) += usize::try_from(n).unwrap_or(0);
    }
    counted.items = [Status::Available, Status::Claimed, Status::Blocked]
        .map(|status| (status, 0))
        .into();
    let mut items = conn.prepare_cached(
        "SELECT status, count(*) FROM work_items WHERE status IN ('available', 'claimed', 'blocked') GROUP BY status",
    )?;
    for found in items.query_map([], pair)? {
        let (status, n) = found?;
        counted
            .items
            .insert(status.parse()?, usize::try_from(n).unwrap_or(0));
    }
    let mut waiting = conn.prepare_cached(
        "SELECT change_id FROM changes INDEXED BY changes_live WHERE state NOT IN ('merged', 'closed') AND state = 'escalated'
         ORDER BY length(change_id), change_id",
    )?;
    counted.needs_you = waiting
        .query_map([], |row| row.get(0))?
        .collect::<std::result::Result<_, _>>()?;
    Ok(counted)
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
    let mut statement = conn.prepare_cached("SELECT * FROM evaluators ORDER BY name")?;
    let found = statement
        .query_map([], |row| {
            Ok(EvaluatorRow {
                name: row.get("name")?,
                cursor: row.get("cursor")?,
                last_run: from_row::time_or_none(row, "last_run")?,
                next_run: from_row::time_or_none(row, "next_run")?,
            })
        })?
        .collect::<std::result::Result<_, _>>()?;
    Ok(found)
}
