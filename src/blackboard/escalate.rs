//! Hands a change to a person: the reason, the one thing to decide, and nothing left running.

use super::{Result, changes, rejections};
use crate::blackboard::forge::outbox::{self, NewIntent};
use crate::blackboard::sql::{Connection, impl_from_row, params};
use crate::blackboard::work::{items, tasks};
use crate::change::{Change, ChangeId, FinalVerdict, OnMaxCycles, State};
use crate::clock::Time;
use crate::event::{Event, NewEvent, body};
use crate::intent::{EscalatedFor, Note, Payload};
use crate::proposal::{Bound, Escalation};
use crate::state::Trigger;
use crate::work::{Item, RejectionEnd, RejectionState, Status};

/// Moves a change from any state to `escalated`.
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

/// Handles a reached limit: escalates, or goes on to the next stage if the change's setting says
/// so.
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
    let ended = (RejectionEnd::BoundPassed, escalation.reason.as_str());
    rejections::settle_open(conn, id, RejectionState::Skipped, ended)?;
    set_final(conn, id, escalation.final_verdict)?;
    let skipped = body::Skipped {
        bound: escalation.bound,
        ..body::Skipped::because(body::SkipCode::BoundPassed, &escalation.reason)
    };
    let summary = format!("{}; continuing, as set by on_max_cycles", escalation.reason);
    super::append(conn, &NewEvent::about(id, skipped, summary), now)?;
    tasks::leave_self_review(conn, after, now)
}

fn hand_over(
    conn: &Connection,
    id: &ChangeId,
    from: State,
    escalation: &Escalation,
    now: Time,
) -> Result<Change> {
    let failed = escalation.failed_item.as_ref();
    items::cancel_open(conn, id, failed, "the change needs a person", now)?;
    let ended = (RejectionEnd::NeedsPerson, escalation.reason.as_str());
    rejections::settle_open(conn, id, RejectionState::Escalated, ended)?;
    set_final(conn, id, escalation.final_verdict)?;
    conn.execute(
        "UPDATE changes SET human_review_required = 1, decision = :decision, decision_commands = :commands, held_until = NULL, hold_reason = NULL, hold_kind = NULL,
             last_hold = NULL, hold_repeats = 0, first_hold_at = NULL
         WHERE change_id = :id",
        params! {
            id,
            decision: escalation.decision.text,
            commands: serde_json::to_string(&escalation.decision.commands)?,
        },
    )?;
    if let Some(item_id) = &escalation.rejected_item {
        items::mark_human_review(conn, item_id)?;
    }
    let escalated = body::Escalated {
        reason: escalation.reason.clone(),
        decide: escalation.decision.text.clone(),
        commands: escalation.decision.commands.clone(),
        from: Some(from),
        bound: escalation.bound,
        item_id: escalation.failed_item.clone(),
        refusal: escalation.refusal,
    };
    let event = NewEvent::about(id, escalated, &escalation.reason);
    let event_id = super::append(conn, &event, now)?;
    let change = super::change(conn, id)?;
    if change.has_pr() {
        let note = NewIntent {
            key: note_key(event_id),
            change_id: id.clone(),
            // The reason itself is not posted: it may contain paths of this machine, or output of a
            // program.
            payload: Payload::Note(Note::Escalated {
                kind: kind(conn, escalation)?,
            }),
            epoch: 0,
        };
        outbox::intend(conn, &note, now)?;
    }
    Ok(change)
}

/// Change that was handed to a person.
pub(super) struct Handed {
    pub(super) change: String,
    pub(super) reason: String,
    pub(super) decide: String,
}

/// Returns the changes that were handed to a person by events after this one.
pub(super) fn handed_over_since(conn: &Connection, event_id: i64) -> Result<Vec<Handed>> {
    conn.list(
        "SELECT coalesce(change_id, target_id) AS change_id, summary, coalesce(metadata ->> '$.decide', '') AS decide FROM events
         WHERE id > :id AND event_type = 'escalated' ORDER BY id",
        params! { id: event_id },
    )
}

impl_from_row! { row => Handed {
    decide,
    change: row.get("change_id")?,
    reason: row.get("summary")?,
} }

/// Returns the key of the note about an escalation on the pull request.
pub(super) fn note_key(event_id: i64) -> String {
    format!("note:escalated:{event_id}")
}

/// Returns the last escalation of a change.
pub(crate) fn last(conn: &Connection, id: &ChangeId) -> Result<Option<Event>> {
    conn.find(
        "SELECT * FROM events WHERE change_id = :id AND event_type = 'escalated' ORDER BY id DESC LIMIT 1",
        params! { id })
}

/// True if the change is waiting for a person because its pull request cannot be read.
pub(super) fn is_unreadable(conn: &Connection, id: &ChangeId) -> Result<bool> {
    let escalated = last(conn, id)?;
    Ok(escalated.as_ref().and_then(Bound::of) == Some(Bound::Unreadable))
}

/// Restores an escalation without a new notification: the person was already notified.
pub(super) fn wait_again(
    conn: &Connection,
    id: &ChangeId,
    escalated: &Event,
    now: Time,
) -> Result<()> {
    changes::advance(conn, id, Trigger::NeedsPerson, "remand", now)?;
    // An event of version 2 has no commands.
    let (decision, commands) = escalated
        .body::<body::Escalated>()
        .map(|escalated| (escalated.decide, escalated.commands))
        .unwrap_or_default();
    conn.run(
        "UPDATE changes SET human_review_required = 1, decision = :decision, decision_commands = :commands WHERE change_id = :id",
        params! { decision, commands: serde_json::to_string(&commands)?, id },
    )
}

/// Returns the part of an escalation that may be published on a pull request: the limit that was
/// reached, a discussion, or the source of the failed item.
fn kind(conn: &Connection, escalation: &Escalation) -> Result<Option<EscalatedFor>> {
    if let Some(bound) = escalation.bound {
        return Ok(Some(EscalatedFor::Bound(bound)));
    }
    if escalation.final_verdict == Some(FinalVerdict::NeedsDiscussion) {
        return Ok(Some(EscalatedFor::Discussion));
    }
    let failed = escalation
        .failed_item
        .as_ref()
        .map(|item_id| super::item(conn, item_id))
        .transpose()?;
    Ok(failed.map(|item| EscalatedFor::Failed(item.source)))
}

/// Returns the failed item that the last escalation of a change was about, if any.
pub(super) fn failed_item(conn: &Connection, id: &ChangeId) -> Result<Option<Item>> {
    let escalated = last(conn, id)?.and_then(|event| event.body::<body::Escalated>());
    let item = escalated
        .and_then(|escalated| escalated.item_id)
        .map(|item_id| super::item(conn, &item_id))
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
            params! { verdict, id },
        )?;
    }
    Ok(())
}
