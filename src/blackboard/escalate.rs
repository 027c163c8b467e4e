//! Handing a change to a person: the reason, the one thing to decide, and nothing left running.

use rusqlite::{Connection, OptionalExtension as _, named_params};
use serde_json::json;

use super::{Result, changes, items, rejections};
use crate::change::{Change, ChangeId, FinalVerdict, OnMaxCycles, State};
use crate::clock::Time;
use crate::event::{EventType, NewEvent};
use crate::proposal::Escalation;
use crate::state::Trigger;
use crate::work::{Item, ItemId, RejectionState, Status};

/// From anywhere to `escalated`.
pub(crate) fn escalate(conn: &Connection, id: &ChangeId, escalation: &Escalation, now: Time) -> Result<Change> {
    let before = super::change(conn, id)?;
    changes::advance(conn, id, Trigger::NeedsPerson, "remand", now)?;
    hand_over(conn, id, before.state, escalation, now)
}

/// A bound was reached: `escalated`, or on to the next stage where the change's setting says so.
pub(super) fn bound_reached(conn: &Connection, id: &ChangeId, escalation: &Escalation, now: Time) -> Result<Change> {
    let before = super::change(conn, id)?;
    let after = changes::advance(conn, id, Trigger::BoundReached, "remand", now)?;
    if after.state == State::Escalated {
        return hand_over(conn, id, before.state, escalation, now);
    }
    debug_assert_eq!(before.on_max_cycles, OnMaxCycles::PrAnyway);
    rejections::settle_open(conn, id, RejectionState::Skipped, &escalation.reason)?;
    set_final(conn, id, escalation.final_verdict)?;
    let event =
        NewEvent::about(id, EventType::Skipped, format!("{}; going on as on_max_cycles says", escalation.reason))
            .with(json!({ "reason": escalation.reason, "bound": escalation.bound }));
    super::append(conn, &event, now)?;
    changes::advance(conn, id, Trigger::LocalOnly, "remand", now)
}

fn hand_over(conn: &Connection, id: &ChangeId, from: State, escalation: &Escalation, now: Time) -> Result<Change> {
    items::cancel_open(conn, id, escalation.failed_item.as_ref(), "the change needs a person", now)?;
    rejections::settle_open(conn, id, RejectionState::Escalated, &escalation.reason)?;
    set_final(conn, id, escalation.final_verdict)?;
    conn.prepare_cached(
        "UPDATE changes SET human_review_required = 1, decision = :decision, held_until = NULL, hold_reason = NULL
         WHERE change_id = :id",
    )?
    .execute(named_params! { ":decision": escalation.decide, ":id": id.as_str() })?;
    if let Some(item_id) = &escalation.rejected_item {
        items::mark_human_review(conn, item_id)?;
    }
    let event = NewEvent::about(id, EventType::Escalated, &escalation.reason).with(json!({
        "reason": escalation.reason,
        "decide": escalation.decide,
        "from": from,
        "bound": escalation.bound,
        "item_id": escalation.failed_item,
    }));
    super::append(conn, &event, now)?;
    super::change(conn, id)
}

/// The item whose failure the last escalation of a change was about, if it was about one.
pub(super) fn failed_item(conn: &Connection, id: &ChangeId) -> Result<Option<Item>> {
    let named: Option<Option<String>> = conn
        .prepare_cached(
            "SELECT metadata ->> 'item_id' FROM events WHERE change_id = :id AND event_type = 'escalated'
             ORDER BY id DESC LIMIT 1",
        )?
        .query_row(named_params! { ":id": id.as_str() }, |row| row.get(0))
        .optional()?;
    let item = named.flatten().map(|item_id| super::item(conn, &ItemId::new(item_id))).transpose()?;
    Ok(item.filter(|item| item.status == Status::Failed))
}

pub(super) fn set_final(conn: &Connection, id: &ChangeId, verdict: Option<FinalVerdict>) -> Result<()> {
    if let Some(verdict) = verdict {
        conn.prepare_cached("UPDATE changes SET final_verdict = :verdict WHERE change_id = :id")?
            .execute(named_params! { ":verdict": verdict.as_str(), ":id": id.as_str() })?;
    }
    Ok(())
}
