//! From rows to the vocabulary's types, by column name. Text that is no word of ours is an error.

use serde_json::Value;

use super::Result;
use super::sql::{self, Connection, Json, Lossy, Row, params};
use crate::change::{Budget, Change, ChangeId};
use crate::event::Event;
use crate::intent::Payload;
use crate::work::{Item, Rejection, Run};

/// The next id of a kind: `c1`, `w1`, … Taken inside the transaction that uses it, so a rolled-back one is not lost.
pub(super) fn next_id(conn: &Connection, letter: &str) -> Result<String> {
    let value: i64 = conn.one(
        "INSERT INTO counters (name, value) VALUES (:name, 1)
         ON CONFLICT (name) DO UPDATE SET value = value + 1
         RETURNING value",
        params! { ":name": letter },
        |row| row.get(0),
    )?;
    Ok(format!("{letter}{value}"))
}

/// Events are appended by other hands too and can't be taken back: what the schema let through is never an error here,
/// or one odd event would stand in the way of all that come after it.
pub(super) fn event(row: &Row<'_>) -> sql::Result<Event> {
    Ok(Event {
        id: row.get("id")?,
        timestamp: row.get("timestamp")?,
        event_type: row.get("event_type")?,
        actor_id: row.get::<Lossy>("actor_id")?.0,
        target_type: row.get("target_type")?,
        target_id: row.get::<Lossy>("target_id")?.0,
        change_id: row
            .get::<Option<Lossy>>("change_id")?
            .map(|id| ChangeId::new(id.0)),
        summary: row.get::<Lossy>("summary")?.0,
        metadata: said(row, "metadata")?,
    })
}

pub(super) fn change(row: &Row<'_>) -> sql::Result<Change> {
    Ok(Change {
        change_id: row.get("change_id")?,
        project_id: row.get("project_id")?,
        title: row.get("title")?,
        branch: row.get("branch")?,
        base: row.get("base")?,
        head: row.get("head")?,
        worktree: row.get("worktree")?,
        host: row.get("host")?,
        pr_number: row.get("pr_number")?,
        state: row.get("state")?,
        escalated_from: row.get("escalated_from")?,
        on_max_cycles: row.get("on_max_cycles")?,
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
        shadow_mode: row.get("shadow_mode")?,
        held_until: row.get("held_until")?,
        hold_reason: row.get("hold_reason")?,
        hold_kind: row.get("hold_kind")?,
        last_hold: row.get("last_hold")?,
        hold_repeats: row.get("hold_repeats")?,
        first_hold_at: row.get("first_hold_at")?,
        holds: row.get("holds")?,
        final_verdict: row.get("final_verdict")?,
        human_review_required: row.get("human_review_required")?,
        decision: row.get("decision")?,
        decision_commands: row.get::<Json<_>>("decision_commands")?.0,
        implementation_item_id: row.get("implementation_item_id")?,
        adopted_by: row.get("adopted_by")?,
        own_worktree: row.get("own_worktree")?,
        detached: row.get("detached")?,
        setup_done: row.get("setup_done")?,
        auto_fix: row.get("auto_fix")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

pub(super) fn item(row: &Row<'_>) -> sql::Result<Item> {
    Ok(Item {
        item_id: row.get("item_id")?,
        project_id: row.get("project_id")?,
        change_id: row.get("change_id")?,
        rejection_id: row.get("rejection_id")?,
        title: row.get("title")?,
        source: row.get("source")?,
        status: row.get("status")?,
        priority: row.get("priority")?,
        fix_cycle: row.get("fix_cycle")?,
        worktree: row.get("worktree")?,
        claimed_by: row.get("claimed_by")?,
        epoch: row.get("epoch")?,
        attempt: row.get("attempt")?,
        lease_expires_at: row.get("lease_expires_at")?,
        not_before: row.get("not_before")?,
        created_at: row.get("created_at")?,
        completed_at: row.get("completed_at")?,
        failure_reason: row.get("failure_reason")?,
        gate_rounds: row.get("gate_rounds")?,
        lost_runs: row.get("lost_runs")?,
        asked_again: row.get("asked_again")?,
        metadata: row.get("metadata")?,
    })
}

pub(super) fn run(row: &Row<'_>) -> sql::Result<Run> {
    Ok(Run {
        run_id: row.get("run_id")?,
        item_id: row.get("item_id")?,
        change_id: row.get("change_id")?,
        epoch: row.get("epoch")?,
        agent: row.get("agent")?,
        model: row.get("model")?,
        session: row.get("session")?,
        dir: row.get("dir")?,
        head_before: row.get("head_before")?,
        head_after: row.get("head_after")?,
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
        ended: row.get("ended")?,
        exit_status: row.get("exit_status")?,
        gates: row.get("gates")?,
        gate_output: row.get("gate_output")?,
        gate_rules: row.get("gate_rules")?,
        rebased_onto: row.get("rebased_onto")?,
        refused: row.get("refused")?,
        discarded: row.get("discarded")?,
        tokens: row.get("tokens")?,
        cost_micros: row.get("cost_micros")?,
    })
}

/// The query of rejections joined with their events, as `rejection` reads them; which ones follows.
macro_rules! select_rejections {
    ($which:literal) => {
        concat!(
            "SELECT j.*, e.summary, e.metadata FROM rejections j JOIN events e ON e.id = j.event_id ",
            $which
        )
    };
}
pub(super) use select_rejections;

pub(super) fn rejection(row: &Row<'_>) -> sql::Result<Rejection> {
    Ok(Rejection {
        rejection_id: row.get("rejection_id")?,
        event_id: row.get("event_id")?,
        change_id: row.get("change_id")?,
        state: row.get("state")?,
        item_id: row.get("item_id")?,
        reason: row.get("reason")?,
        ended_by: row.get("ended_by")?,
        by_person: row.get("by_person")?,
        summary: row.get::<Lossy>("summary")?.0,
        rejected: serde_json::from_value(said(row, "metadata")?).unwrap_or_default(),
    })
}

/// The payload of an intent, by its kind.
pub(super) fn payload(row: &Row<'_>) -> sql::Result<Payload> {
    Ok(Payload::read(
        row.get("kind")?,
        &row.get::<String>("payload")?,
    ))
}

/// Metadata of somebody else's: SQLite takes some JSON that we can't hold (1e999, half a surrogate pair, a very deep
/// nesting). Then it says nothing but that.
fn said(row: &Row<'_>, column: &str) -> sql::Result<Value> {
    let text = row.get::<Lossy>(column)?.0;
    Ok(serde_json::from_str(&text)
        .unwrap_or_else(|error| serde_json::json!({ "unreadable": error.to_string() })))
}
