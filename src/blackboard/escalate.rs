//! Handing a change to a person: the reason, the one thing to decide, and nothing left running.

use serde_json::{Value, json};

use super::{Result, changes, from_row, rejections};
use crate::blackboard::forge::outbox::{self, IntentKind, NewIntent};
use crate::blackboard::sql::{Connection, params};
use crate::blackboard::work::items;
use crate::change::{Change, ChangeId, FinalVerdict, OnMaxCycles, State};
use crate::clock::Time;
use crate::event::{Event, EventType, NewEvent};
use crate::proposal::Escalation;
use crate::state::Trigger;
use crate::work::{Item, ItemId, RejectionState, Status};

/// In the place of a bound: the pull request can't be read. A good read is the end of it.
pub(crate) const UNREADABLE: &str = "unreadable";

/// From anywhere to `escalated`.
pub(crate) fn escalate(
    conn: &Connection,
    id: &ChangeId,
    escalation: &Escalation,
    now: Time,
) -> Result<Change> {
    let before = super::change(conn, id)?;
    changes::advance(conn, id, Trigger::NeedsPerson, "remand", now)?;
    hand_over(conn, id, before.state, escalation, now)
}

/// A bound was reached: `escalated`, or on to the next stage where the change's setting says so.
pub(super) fn bound_reached(
    conn: &Connection,
    id: &ChangeId,
    escalation: &Escalation,
    now: Time,
) -> Result<Change> {
    let before = super::change(conn, id)?;
    let after = changes::advance(conn, id, Trigger::BoundReached, "remand", now)?;
    if after.state == State::Escalated {
        return hand_over(conn, id, before.state, escalation, now);
    }
    debug_assert_eq!(before.on_max_cycles, OnMaxCycles::PrAnyway);
    rejections::settle_open(conn, id, RejectionState::Skipped, &escalation.reason)?;
    set_final(conn, id, escalation.final_verdict)?;
    let event = NewEvent::about(
        id,
        EventType::Skipped,
        format!("{}; going on as on_max_cycles says", escalation.reason),
    )
    .with(json!({ "reason": escalation.reason, "bound": escalation.bound }));
    super::append(conn, &event, now)?;
    changes::advance(conn, id, Trigger::LocalOnly, "remand", now)
}

fn hand_over(
    conn: &Connection,
    id: &ChangeId,
    from: State,
    escalation: &Escalation,
    now: Time,
) -> Result<Change> {
    items::cancel_open(
        conn,
        id,
        escalation.failed_item.as_ref(),
        "the change needs a person",
        now,
    )?;
    rejections::settle_open(conn, id, RejectionState::Escalated, &escalation.reason)?;
    set_final(conn, id, escalation.final_verdict)?;
    conn.execute(
        "UPDATE changes SET human_review_required = 1, decision = :decision, held_until = NULL, hold_reason = NULL, hold_kind = NULL,
             last_hold = NULL, hold_repeats = 0, first_hold_at = NULL
         WHERE change_id = :id",
        params! { ":decision": escalation.decide, ":id": id },
    )?;
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
    let event_id = super::append(conn, &event, now)?;
    let change = super::change(conn, id)?;
    if change.has_pr() {
        let note = NewIntent {
            key: note_key(event_id),
            kind: IntentKind::Note,
            change_id: id.clone(),
            // The reason stays here: it may name paths of this machine, and what a program said on it.
            payload: json!({ "what": "escalated", "kind": kind(conn, escalation)? }),
            epoch: 0,
        };
        outbox::intend(conn, &note, now)?;
    }
    Ok(change)
}

/// A change that was handed to a person.
pub(super) struct Handed {
    pub(super) change: String,
    pub(super) reason: String,
    pub(super) decide: String,
}

/// Changes that were handed to a person by events after this one.
pub(super) fn handed_over_since(conn: &Connection, event_id: i64) -> Result<Vec<Handed>> {
    conn.all(
        "SELECT coalesce(change_id, target_id) AS change_id, summary, coalesce(metadata ->> '$.decide', '') AS decide FROM events
         WHERE id > :id AND event_type = 'escalated' ORDER BY id",
        params! { ":id": event_id },
        |row| {
            Ok(Handed {
                change: row.get("change_id")?,
                reason: row.get("summary")?,
                decide: row.get("decide")?,
            })
        },
    )
}

/// Of what the pull request is told of an escalation.
pub(super) fn note_key(event_id: i64) -> String {
    format!("note:escalated:{event_id}")
}

/// The last escalation of a change.
pub(super) fn last(conn: &Connection, id: &ChangeId) -> Result<Option<Event>> {
    conn.optional(
        "SELECT * FROM events WHERE change_id = :id AND event_type = 'escalated' ORDER BY id DESC LIMIT 1",
        params! { ":id": id },
        from_row::event,
    )
}

/// The change waits for a person because its pull request cannot be read.
pub(super) fn is_unreadable(conn: &Connection, id: &ChangeId) -> Result<bool> {
    let bound =
        last(conn, id)?.and_then(|event| event.metadata.get("bound")?.as_str().map(str::to_owned));
    Ok(bound.as_deref() == Some(UNREADABLE))
}

/// A person is needed as he was before; he was told then.
pub(super) fn wait_again(
    conn: &Connection,
    id: &ChangeId,
    escalated: &Event,
    now: Time,
) -> Result<()> {
    changes::advance(conn, id, Trigger::NeedsPerson, "remand", now)?;
    let decision = escalated.metadata.get("decide").and_then(Value::as_str);
    conn.run(
        "UPDATE changes SET human_review_required = 1, decision = :decision WHERE change_id = :id",
        params! { ":decision": decision, ":id": id },
    )
}

/// What a pull request may be told of an escalation: the bound that was reached, a discussion, or the source of the item
/// that failed.
fn kind(conn: &Connection, escalation: &Escalation) -> Result<Option<String>> {
    if let Some(bound) = escalation.bound {
        return Ok(Some(bound.to_owned()));
    }
    if escalation.final_verdict == Some(FinalVerdict::NeedsDiscussion) {
        return Ok(Some("discussion".to_owned()));
    }
    let failed = escalation
        .failed_item
        .as_ref()
        .map(|item_id| super::item(conn, item_id))
        .transpose()?;
    Ok(failed.map(|item| item.source.to_string()))
}

/// The item whose failure the last escalation of a change was about, if it was about one.
pub(super) fn failed_item(conn: &Connection, id: &ChangeId) -> Result<Option<Item>> {
    let event = last(conn, id)?;
    let named = event
        .as_ref()
        .and_then(|event| event.metadata.get("item_id"))
        .and_then(Value::as_str);
    let item = named
        .map(|item_id| super::item(conn, &ItemId::new(item_id)))
        .transpose()?;
    Ok(item.filter(|item| item.status == Status::Failed))
}

pub(super) fn set_final(
    conn: &Connection,
    id: &ChangeId,
    verdict: Option<FinalVerdict>,
) -> Result<()> {
    if let Some(verdict) = verdict {
        conn.execute(
            "UPDATE changes SET final_verdict = :verdict WHERE change_id = :id",
            params! { ":verdict": verdict, ":id": id },
        )?;
    }
    Ok(())
}
