//! From rows to the vocabulary's types, by column name. Text that is no word of ours is an error.

use rusqlite::types::Type;
use rusqlite::{Connection, Row};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Result;
use crate::change::{Budget, Change, ChangeId, ProjectId};
use crate::clock::Time;
use crate::event::Event;
use crate::intent::Payload;
use crate::work::{Item, ItemId, Rejection, RejectionId, Run, RunId};

/// The next id of a kind: `c1`, `w1`, … Taken inside the transaction that uses it, so a rolled-back one is not lost.
pub(super) fn next_id(conn: &Connection, letter: &str) -> Result<String> {
    let mut statement = conn.prepare_cached(
        "INSERT INTO counters (name, value) VALUES (:name, 1)
         ON CONFLICT (name) DO UPDATE SET value = value + 1
         RETURNING value",
    )?;
    let value: i64 = statement.query_row(rusqlite::named_params! { ":name": letter }, |row| {
        row.get(0)
    })?;
    Ok(format!("{letter}{value}"))
}

type Sql<T> = std::result::Result<T, rusqlite::Error>;

/// Events are appended by other hands too and can't be taken back: what the schema let through is never an error here,
/// or one odd event would stand in the way of all that come after it.
pub(super) fn event(row: &Row<'_>) -> Sql<Event> {
    Ok(Event {
        id: row.get("id")?,
        timestamp: time(row, "timestamp")?,
        event_type: word(row, "event_type")?,
        actor_id: lossy(row, "actor_id")?,
        target_type: word(row, "target_type")?,
        target_id: lossy(row, "target_id")?,
        change_id: row
            .get_ref("change_id")?
            .as_bytes_or_null()?
            .map(|id| ChangeId::new(String::from_utf8_lossy(id))),
        summary: lossy(row, "summary")?,
        metadata: said(row, "metadata")?,
    })
}

pub(super) fn change(row: &Row<'_>) -> Sql<Change> {
    Ok(Change {
        change_id: ChangeId::new(row.get::<_, String>("change_id")?),
        project_id: ProjectId::new(row.get::<_, String>("project_id")?),
        title: row.get("title")?,
        branch: row.get("branch")?,
        base: row.get("base")?,
        head: row.get("head")?,
        worktree: row.get("worktree")?,
        host: row.get("host")?,
        pr_number: row.get("pr_number")?,
        state: word(row, "state")?,
        escalated_from: word_or_none(row, "escalated_from")?,
        on_max_cycles: word(row, "on_max_cycles")?,
        budget: Budget {
            fix_cycle: row.get("fix_cycle")?,
            max_fix_cycles: row.get("max_fix_cycles")?,
            own_max_fix_cycles: row.get("own_max_fix_cycles")?,
            added_fix_cycles: row.get("added_fix_cycles")?,
            total_fixes: row.get("total_fixes")?,
            max_total_fixes: row.get("max_total_fixes")?,
            run_ms: row.get("run_ms")?,
            max_run_ms: row.get("max_run_ms")?,
            tokens: row.get("tokens")?,
            max_tokens: row.get("max_tokens")?,
            cost_micros: row.get("cost_micros")?,
            max_cost_micros: row.get("max_cost_micros")?,
        },
        paused: row.get("paused")?,
        paused_by_person: row.get("paused_by_person")?,
        paused_by_rules: row.get("paused_by_rules")?,
        stopped: row.get("stopped")?,
        shadow: row.get("shadow")?,
        shadow_word: row.get("shadow_word")?,
        shadow_mode: word_or_none(row, "shadow_mode")?,
        held_until: time_or_none(row, "held_until")?,
        hold_reason: row.get("hold_reason")?,
        hold_kind: word_or_none(row, "hold_kind")?,
        last_hold: word_or_none(row, "last_hold")?,
        hold_repeats: row.get("hold_repeats")?,
        first_hold_at: time_or_none(row, "first_hold_at")?,
        holds: row.get("holds")?,
        final_verdict: word_or_none(row, "final_verdict")?,
        human_review_required: row.get("human_review_required")?,
        decision: row.get("decision")?,
        decision_commands: typed(row, "decision_commands")?,
        implementation_item_id: row.get("implementation_item_id")?,
        adopted_by: word_or_none(row, "adopted_by")?,
        own_worktree: row.get("own_worktree")?,
        detached: row.get("detached")?,
        setup_done: row.get("setup_done")?,
        auto_fix: row.get("auto_fix")?,
        created_at: time(row, "created_at")?,
        updated_at: time(row, "updated_at")?,
    })
}

pub(super) fn item(row: &Row<'_>) -> Sql<Item> {
    Ok(Item {
        item_id: ItemId::new(row.get::<_, String>("item_id")?),
        project_id: ProjectId::new(row.get::<_, String>("project_id")?),
        change_id: row
            .get::<_, Option<String>>("change_id")?
            .map(ChangeId::new),
        rejection_id: row
            .get::<_, Option<String>>("rejection_id")?
            .map(RejectionId::new),
        title: row.get("title")?,
        source: word(row, "source")?,
        status: word(row, "status")?,
        priority: word(row, "priority")?,
        fix_cycle: row.get("fix_cycle")?,
        worktree: row.get("worktree")?,
        claimed_by: row.get("claimed_by")?,
        epoch: row.get("epoch")?,
        attempt: row.get("attempt")?,
        lease_expires_at: time_or_none(row, "lease_expires_at")?,
        not_before: time_or_none(row, "not_before")?,
        created_at: time(row, "created_at")?,
        completed_at: time_or_none(row, "completed_at")?,
        failure_reason: row.get("failure_reason")?,
        gate_rounds: row.get("gate_rounds")?,
        lost_runs: row.get("lost_runs")?,
        asked_again: row.get("asked_again")?,
        metadata: json(row, "metadata")?,
    })
}

pub(super) fn run(row: &Row<'_>) -> Sql<Run> {
    Ok(Run {
        run_id: RunId::new(row.get::<_, String>("run_id")?),
        item_id: ItemId::new(row.get::<_, String>("item_id")?),
        change_id: ChangeId::new(row.get::<_, String>("change_id")?),
        epoch: row.get("epoch")?,
        agent: row.get("agent")?,
        model: row.get("model")?,
        session: row.get("session")?,
        dir: row.get("dir")?,
        head_before: row.get("head_before")?,
        head_after: row.get("head_after")?,
        started_at: time(row, "started_at")?,
        ended_at: time_or_none(row, "ended_at")?,
        ended: word_or_none(row, "ended")?,
        exit_status: row.get("exit_status")?,
        gates: word_or_none(row, "gates")?,
        gate_output: row.get("gate_output")?,
        gate_rules: row.get("gate_rules")?,
        rebased_onto: row.get("rebased_onto")?,
        refused: row.get("refused")?,
        discarded: row.get("discarded")?,
        tokens: row.get("tokens")?,
        cost_micros: row.get("cost_micros")?,
    })
}

/// A rejection joined with its event: `j.*` and `e.summary`, `e.metadata`.
pub(super) fn rejection(row: &Row<'_>) -> Sql<Rejection> {
    Ok(Rejection {
        rejection_id: RejectionId::new(row.get::<_, String>("rejection_id")?),
        event_id: row.get("event_id")?,
        change_id: ChangeId::new(row.get::<_, String>("change_id")?),
        state: word(row, "state")?,
        item_id: row.get::<_, Option<String>>("item_id")?.map(ItemId::new),
        reason: row.get("reason")?,
        by_person: row.get("by_person")?,
        summary: lossy(row, "summary")?,
        rejected: serde_json::from_value(said(row, "metadata")?).unwrap_or_default(),
    })
}

pub(super) fn word<T>(row: &Row<'_>, column: &str) -> Sql<T>
where
    T: std::str::FromStr<Err = crate::closed_enum::UnknownValue>,
{
    parsed(column, &row.get::<_, String>(column)?)
}

pub(super) fn word_or_none<T>(row: &Row<'_>, column: &str) -> Sql<Option<T>>
where
    T: std::str::FromStr<Err = crate::closed_enum::UnknownValue>,
{
    row.get::<_, Option<String>>(column)?
        .map(|text| parsed(column, &text))
        .transpose()
}

pub(super) fn time(row: &Row<'_>, column: &str) -> Sql<Time> {
    Time::parse(&row.get::<_, String>(column)?).map_err(|error| unreadable(column, error))
}

pub(super) fn time_or_none(row: &Row<'_>, column: &str) -> Sql<Option<Time>> {
    row.get::<_, Option<String>>(column)?
        .map(|text| Time::parse(&text).map_err(|error| unreadable(column, error)))
        .transpose()
}

pub(super) fn json(row: &Row<'_>, column: &str) -> Sql<Value> {
    serde_json::from_str(&row.get::<_, String>(column)?).map_err(|error| unreadable(column, error))
}

/// The payload of an intent, by its kind.
pub(super) fn payload(row: &Row<'_>) -> Sql<Payload> {
    Payload::read(word(row, "kind")?, &row.get::<_, String>("payload")?)
        .map_err(|error| unreadable("payload", error))
}

/// JSON of one of our own types.
fn typed<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> Sql<T> {
    serde_json::from_str(&row.get::<_, String>(column)?).map_err(|error| unreadable(column, error))
}

/// JSON of one of our own types.
pub(super) fn typed_or_none<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> Sql<Option<T>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| serde_json::from_str(&text))
        .transpose()
        .map_err(|error| unreadable(column, error))
}

/// Text of somebody else's, whatever its bytes.
fn lossy(row: &Row<'_>, column: &str) -> Sql<String> {
    Ok(String::from_utf8_lossy(row.get_ref(column)?.as_bytes()?).into_owned())
}

/// Metadata of somebody else's: SQLite takes some JSON that we can't hold (1e999, half a surrogate pair, a very deep
/// nesting). Then it says nothing but that.
fn said(row: &Row<'_>, column: &str) -> Sql<Value> {
    let text = lossy(row, column)?;
    Ok(serde_json::from_str(&text)
        .unwrap_or_else(|error| serde_json::json!({ "unreadable": error.to_string() })))
}

fn parsed<T>(column: &str, text: &str) -> Sql<T>
where
    T: std::str::FromStr<Err = crate::closed_enum::UnknownValue>,
{
    text.parse().map_err(|error| unreadable(column, error))
}

/// A value that the schema let through and we can't read; the column's name goes into the error's text.
fn unreadable(
    column: &str,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    let named = Unreadable {
        column: column.to_owned(),
        source: Box::new(error),
    };
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(named))
}

#[derive(Debug, thiserror::Error)]
#[error("column {column}: {source}")]
struct Unreadable {
    column: String,
    source: Box<dyn std::error::Error + Send + Sync>,
}
