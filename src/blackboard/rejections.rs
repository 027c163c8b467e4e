//! Rejections: an event `work_rejected` and a row. [`reject_change`] writes both; events that people and other programs
//! append are given their row by [`take_in`]. Each event becomes exactly one row, or one `skipped` event with the reason;
//! no row is ever lost on the way to a fix, a person, or a reason.

use super::{BoardError, Result, changes, escalate, from_row};
use crate::blackboard::connection::savepoint::apart;
use crate::blackboard::operator::operator_actions;
use crate::blackboard::sql::{Connection, params};
use crate::change::{Change, ChangeId, State};
use crate::clock::Time;
use crate::event::body::{self, SkipCode};
use crate::event::{Event, EventType, NewEvent, TargetType};
use crate::sanitize;
use crate::state::Trigger;
use crate::text::short_sha;
use crate::work::{ItemId, Rejection, RejectionEnd, RejectionState};

/// Rejects a change: appends the event and adds its row. Returns the event's id.
///
/// A change that waits for a person continues if a person rejects it; for an ended change, only the reason is recorded.
pub(crate) fn reject_change(
    conn: &Connection,
    id: &ChangeId,
    by: &str,
    summary: &str,
    rejected: &body::WorkRejected,
    now: Time,
) -> Result<i64> {
    let mut event = NewEvent::about(id, rejected.clone(), summary).by(by);
    if let Some(review) = &rejected.item_id {
        event = event.on(TargetType::WorkItem, review);
    }
    let event_id = super::append(conn, &event, now)?;
    let change = super::change(conn, id)?;
    add_rejection(conn, change, (event_id, by), rejected, now)?;
    Ok(event_id)
}

/// Result of taking in one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TakenIn {
    Pending,
    Approved,
    Skipped,
}

/// Turns the events after the cursor into rows. Returns the new cursor and the result for each
/// event.
pub(crate) fn take_in(
    conn: &Connection,
    types: &[EventType],
    cursor: i64,
    now: Time,
) -> Result<(i64, Vec<TakenIn>)> {
    let (mut newest, mut events) = (cursor, Vec::new());
    for event_type in types {
        newest = newest.max(conn.value(
            "SELECT coalesce(max(id), :cursor) FROM events WHERE event_type = :event_type AND id > :cursor",
            params! { event_type, cursor },
        )?);
        // Without those that were handled already: an event that was written together with its row, one that another
        // evaluator took in, or this one before it lost its cursor.
        events.extend(conn.list::<Event>(
            "SELECT * FROM events WHERE event_type = :event_type AND id > :cursor
                 AND NOT EXISTS (SELECT 1 FROM rejections WHERE event_id = events.id)
                 AND NOT EXISTS (
                     SELECT 1 FROM events AS answer WHERE answer.target_type = 'event'
                         AND answer.target_id = CAST(events.id AS TEXT) AND answer.actor_id = 'remand')
             ORDER BY id",
            params! { event_type, cursor },
        )?);
    }
    events.sort_by_key(|event| event.id);
    let mut taken = Vec::new();
    for event in &events {
        // An event that fails cannot be withdrawn and would block all later ones, so it is skipped.
        let skip_it = |error: BoardError| {
            let (what, reason) = ((event.event_type, event.id), sanitize::chain(&error));
            let why = (SkipCode::EventFailed, reason.as_str());
            skip(conn, what, event.change_id.as_ref(), why, now).map(Some)
        };
        taken.extend(apart(conn, || take_in_one(conn, event, now), skip_it)?);
    }
    Ok((newest, taken))
}

fn take_in_one(conn: &Connection, event: &Event, now: Time) -> Result<Option<TakenIn>> {
    if event.event_type == EventType::WorkRejected {
        return take_in_rejection(conn, event, now).map(Some);
    }
    // Approvals by remand took effect when they were appended; this handles those of others.
    if event.event_type == EventType::WorkApproved && event.actor_id != "remand" {
        return take_in_approval(conn, event, now).map(Some);
    }
    Ok(None)
}

fn take_in_rejection(conn: &Connection, event: &Event, now: Time) -> Result<TakenIn> {
    let Some(change) = target(conn, event)? else {
        return skip_unknown(conn, event, now);
    };
    let rejected = event.body::<body::WorkRejected>().unwrap_or_default();
    add_rejection(conn, change, (event.id, &event.actor_id), &rejected, now)
}

/// Adds the row of a `work_rejected` event.
fn add_rejection(
    conn: &Connection,
    change: Change,
    (event_id, actor): (i64, &str),
    rejected: &body::WorkRejected,
    now: Time,
) -> Result<TakenIn> {
    let by_person = begins_round(rejected, actor);
    // Not while its pull request is unreadable: once it can be read, the change continues with everything that is
    // pending.
    let answers_escalation = by_person
        && change.state == State::Escalated
        && !escalate::is_unreadable(conn, &change.change_id)?;
    let change = if answers_escalation {
        answer_escalation(conn, &change, actor, now)?
    } else {
        change
    };
    let id = &change.change_id;
    let (state, ended) = if crate::blackboard::forge::reopen::may_come_back(conn, &change)? {
        let reason = "the PR was closed".to_owned();
        (
            RejectionState::Skipped,
            Some((RejectionEnd::PrClosed, SkipCode::PrClosed, reason)),
        )
    } else if change.state.is_over() {
        let reason = format!("{id} is {}", change.state);
        (
            RejectionState::Skipped,
            Some((RejectionEnd::ChangeOver, SkipCode::ChangeOver, reason)),
        )
    } else if change.state == State::Escalated {
        let reason = format!("{id} is waiting for a person");
        (
            RejectionState::Escalated,
            Some((RejectionEnd::NeedsPerson, SkipCode::WaitsForPerson, reason)),
        )
    } else {
        (RejectionState::Pending, None)
    };
    let ended_by = ended.as_ref().map(|(ended_by, ..)| *ended_by);
    let reason = ended.as_ref().map(|(.., reason)| reason);
    let rejection_id = from_row::next_id(conn, "j")?;
    conn.execute(
        "INSERT INTO rejections (rejection_id, event_id, change_id, state, by_person, ended_by, reason)
         VALUES (:rejection_id, :event_id, :change_id, :state, :by_person, :ended_by, :reason)",
        params! {
            rejection_id, event_id, state, by_person, ended_by, reason,
            change_id: change.change_id,
        },
    )?;
    if rejected.supersedes {
        // Rejections that arrived after the event was written are not part of it, and stay.
        let to = rejected.supersedes_to.unwrap_or(event_id);
        supersede_older(conn, &change.change_id, to.min(event_id - 1), &rejection_id)?;
    }
    let event = (EventType::WorkRejected, event_id);
    let Some((_, code, reason)) = ended else {
        leave_ready(conn, &change, (actor, by_person), now)?;
        return Ok(TakenIn::Pending);
    };
    skip(conn, event, Some(&change.change_id), (code, &reason), now)
}

/// Moves a change back that was ready, if its settings leave the fix of a rejection to a person. Otherwise, the fix moves
/// it.
fn leave_ready(
    conn: &Connection,
    change: &Change,
    (actor, by_person): (&str, bool),
    now: Time,
) -> Result<()> {
    let is_on_forge = actor.starts_with("github:");
    let starts_fix = match (by_person, is_on_forge) {
        (false, _) => change.auto_review,
        (true, true) => change.auto_address,
        (true, false) => true,
    };
    if !starts_fix && matches!(change.state, State::ReadyForHumanReview | State::Approved) {
        let id = &change.change_id;
        changes::advance(conn, id, Trigger::NewRejection, "remand", now)?;
    }
    Ok(())
}

/// Ends an escalation with a person's answer: all rejections that waited for it are pending again,
/// for one fix.
pub(super) fn answer_escalation(
    conn: &Connection,
    change: &Change,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let id = &change.change_id;
    take_up_again(conn, id, (RejectionState::Escalated, None), None)?;
    operator_actions::end_escalation_with_review(conn, id, actor, now)
}

/// True if the feedback starts a new round of fixes: that of a person does; that of a reviewing agent or of another
/// program continues the current round. An event typed by hand without an actor is a person's.
fn begins_round(rejected: &body::WorkRejected, actor: &str) -> bool {
    rejected.begins_round.unwrap_or(actor == "operator")
}

fn take_in_approval(conn: &Connection, event: &Event, now: Time) -> Result<TakenIn> {
    let Some(change) = target(conn, event)? else {
        return skip_unknown(conn, event, now);
    };
    let approval = (event.event_type, event.id);
    if change.state.is_over() {
        let reason = format!("{} is {}", change.change_id, change.state);
        let why = (SkipCode::ChangeOver, reason.as_str());
        return skip(conn, approval, Some(&change.change_id), why, now);
    }
    let head = event
        .body::<body::WorkApproved>()
        .and_then(|approved| approved.head);
    if let Some(head) = head.filter(|head| !head.is_empty() && !change.head.starts_with(head)) {
        let reason = format!(
            "it approves {}, but {} is at {}",
            short_sha(&head),
            change.change_id,
            short_sha(&change.head)
        );
        let why = (SkipCode::OtherHead, reason.as_str());
        return skip(conn, approval, Some(&change.change_id), why, now);
    }
    // An approval ends the rejections before it. A rejection gets its row when it is written, so newer ones may already
    // exist.
    let newer = pending_after(conn, &change.change_id, event.id)?;
    super::approve_by_person(conn, &change.change_id, &event.actor_id, now)?;
    for rejection_id in &newer {
        conn.execute(
            "UPDATE rejections SET state = 'pending', reason = NULL, ended_by = NULL
             WHERE rejection_id = :id AND state = 'skipped'",
            params! { id: rejection_id },
        )?;
    }
    let done = NewEvent::about(
        &change.change_id,
        body::Instructed::new(body::Action::Approve, &event.summary, &event.actor_id),
        format!("{} approves", event.actor_id),
    )
    .on(TargetType::Event, event.id);
    super::append(conn, &done, now)?;
    Ok(TakenIn::Approved)
}

/// Returns the change that an event is about, however the event names it.
fn target(conn: &Connection, event: &Event) -> Result<Option<Change>> {
    let id = match (&event.change_id, event.target_type) {
        (Some(change_id), _) => Some(change_id.clone()),
        (None, TargetType::Change) => Some(ChangeId::new(&event.target_id)),
        (None, TargetType::WorkItem) => match super::item(conn, &ItemId::new(&event.target_id)) {
            Ok(item) => item.change_id,
            Err(BoardError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        },
        (
            None,
            TargetType::Run
            | TargetType::Project
            | TargetType::Event
            | TargetType::Evaluator
            | TargetType::Blackboard,
        ) => None,
    };
    id.map_or(Ok(None), |id| super::still_there(conn, &id))
}

fn pending_after(conn: &Connection, id: &ChangeId, event_id: i64) -> Result<Vec<String>> {
    conn.list(
        "SELECT rejection_id FROM rejections WHERE change_id = :id AND state = 'pending' AND event_id > :event_id",
        params! { id, event_id },
    )
}

fn skip_unknown(conn: &Connection, event: &Event, now: Time) -> Result<TakenIn> {
    let reason = format!("unknown {} `{}`", event.target_type, event.target_id);
    let why = (SkipCode::UnknownTarget, reason.as_str());
    skip(conn, (event.event_type, event.id), None, why, now)
}

fn skip(
    conn: &Connection,
    (event_type, event_id): (EventType, i64),
    change_id: Option<&ChangeId>,
    (code, reason): (SkipCode, &str),
    now: Time,
) -> Result<TakenIn> {
    let skipped = body::Skipped {
        event_id: Some(event_id),
        ..body::Skipped::because(code, reason)
    };
    let summary = format!("event {event_id} ({event_type}) created no work item: {reason}");
    let skipped = NewEvent::new(skipped, summary)
        .on(TargetType::Event, event_id)
        .of(change_id);
    super::append(conn, &skipped, now)?;
    Ok(TakenIn::Skipped)
}

fn supersede_older(conn: &Connection, change_id: &ChangeId, to: i64, by: &str) -> Result<()> {
    conn.run(
        "UPDATE rejections SET state = 'superseded', ended_by = 'superseded', reason = :reason
         WHERE change_id = :change_id AND event_id <= :to AND state IN ('pending', 'escalated')",
        params! { reason: format!("superseded by {by}"), change_id, to },
    )
}

/// Returns the changes with pending rejections. The length of this list does not grow with history.
pub(crate) fn pending_changes(conn: &Connection) -> Result<Vec<ChangeId>> {
    conn.list(
        "SELECT DISTINCT change_id FROM rejections WHERE state = 'pending' ORDER BY change_id",
        &[],
    )
}

/// Returns the rejections of a change in one state, oldest first; all of them if no state is given.
pub(crate) fn rejections_of(
    conn: &Connection,
    id: &ChangeId,
    state: Option<RejectionState>,
) -> Result<Vec<Rejection>> {
    conn.list(
        from_row::select_rejections!("WHERE j.change_id = :change_id AND (:state IS NULL OR j.state = :state) ORDER BY j.event_id"),
        params! { change_id: id, state })
}

/// Returns the rejections that wait for a fix or a person and are not from our own review, oldest first.
pub(super) fn waiting_from_outside(conn: &Connection, id: &ChangeId) -> Result<Vec<Rejection>> {
    conn.list(
        from_row::select_rejections!(
            "WHERE j.change_id = :change_id AND j.state IN ('pending', 'escalated')
                 AND (e.actor_id <> 'remand' OR j.by_person) ORDER BY j.event_id"
        ),
        params! { change_id: id },
    )
}

/// Returns the rejections that a fix addresses, oldest first.
pub(crate) fn rejections_in(conn: &Connection, item_id: &ItemId) -> Result<Vec<Rejection>> {
    conn.list(
        from_row::select_rejections!("WHERE j.item_id = :item_id ORDER BY j.event_id"),
        params! { item_id },
    )
}

/// Ends the rejections that are pending or in a fix, with the reason.
pub(super) fn settle_open(
    conn: &Connection,
    change_id: &ChangeId,
    to: RejectionState,
    (ended_by, reason): (RejectionEnd, &str),
) -> Result<()> {
    conn.run(
        "UPDATE rejections SET state = :to, ended_by = :ended_by, reason = :reason
         WHERE change_id = :change_id AND state IN ('pending', 'in_fix')",
        params! { to, ended_by, reason, change_id },
    )
}

/// Ends the rejections of a fix that will never run.
pub(super) fn settle_fix(conn: &Connection, item_id: &ItemId, reason: &str) -> Result<()> {
    conn.run(
        "UPDATE rejections SET state = 'skipped', ended_by = 'not_runnable', reason = :reason
         WHERE item_id = :item_id AND state = 'in_fix'",
        params! { reason, item_id },
    )
}

/// Ends the rejections that are pending, in a fix or waiting for a person, because a person ended the change.
pub(super) fn settle_all(
    conn: &Connection,
    change_id: &ChangeId,
    (ended_by, reason): (RejectionEnd, &str),
) -> Result<()> {
    conn.run(
        "UPDATE rejections SET state = 'skipped', ended_by = :ended_by, reason = :reason
         WHERE change_id = :change_id AND state IN ('pending', 'in_fix', 'escalated')",
        params! { ended_by, reason, change_id },
    )
}

/// Reopens the rejections of a failed item that a person wants to retry. Other rejections that waited for that person
/// are pending, for the next fix.
pub(super) fn reopen_escalated(
    conn: &Connection,
    change_id: &ChangeId,
    item_id: &ItemId,
) -> Result<()> {
    conn.run(
        "UPDATE rejections SET state = CASE WHEN item_id IS NULL THEN 'pending' ELSE 'in_fix' END,
             reason = NULL, ended_by = NULL
         WHERE change_id = :change_id AND state = 'escalated' AND (item_id IS NULL OR item_id = :item_id)",
        params! { change_id, item_id },
    )
}

/// Returns the fixes of rejections that ended in this way.
pub(super) fn items_of_ended(
    conn: &Connection,
    change_id: &ChangeId,
    (state, ended_by): (RejectionState, Option<RejectionEnd>),
) -> Result<Vec<ItemId>> {
    let ended = rejections_of(conn, change_id, Some(state))?;
    let ended = ended
        .into_iter()
        .filter(|one| ended_by.is_none() || one.ended_by == ended_by);
    Ok(ended.filter_map(|one| one.item_id).collect())
}

/// Reopens rejections that ended in this way: they are in the reopened fix, or wait for the next one.
pub(super) fn take_up_again(
    conn: &Connection,
    change_id: &ChangeId,
    (state, ended_by): (RejectionState, Option<RejectionEnd>),
    fix: Option<&ItemId>,
) -> Result<()> {
    conn.run(
        "UPDATE rejections SET state = CASE WHEN item_id = :fix THEN 'in_fix' ELSE 'pending' END,
             item_id = CASE WHEN item_id = :fix THEN item_id END, reason = NULL, ended_by = NULL
         WHERE change_id = :change_id AND state = :state AND (:ended_by IS NULL OR ended_by = :ended_by)",
        params! { fix, change_id, state, ended_by },
    )
}

/// Makes rejections that ended with their pull request wait for a person again.
pub(super) fn wait_again(conn: &Connection, change_id: &ChangeId, reason: &str) -> Result<()> {
    conn.run(
        "UPDATE rejections SET state = 'escalated', ended_by = 'needs_person', reason = :reason
         WHERE change_id = :change_id AND state = 'skipped' AND ended_by = 'pr_closed'",
        params! { reason, change_id },
    )
}

/// Handles a push while the pull request was closed: remand's own rejections of the old head stay ended, and those of
/// people too if they were waiting for a person. A fix for both kinds is kept.
pub(super) fn answer_by_push(conn: &Connection, change_id: &ChangeId, left: State) -> Result<()> {
    conn.run(
        "UPDATE rejections SET ended_by = 'pushed_while_closed', reason = :reason
         WHERE change_id = :change_id AND state = 'skipped' AND ended_by = 'pr_closed'
             AND (:all OR (by_person = 0 AND NOT EXISTS (
                 SELECT 1 FROM rejections twin WHERE twin.item_id = rejections.item_id AND twin.by_person = 1)))",
        params! {
            change_id,
            reason: "new commits were pushed while the PR was closed",
            all: left == State::Escalated,
        },
    )
}

/// Handles the commits of a person who had taken the change over: they answer what was asked for
/// before. Later rejections wait for the next fix.
pub(super) fn answer_by_takeover(
    conn: &Connection,
    change_id: &ChangeId,
    reason: &str,
) -> Result<()> {
    let taken: i64 = conn.value(
        "SELECT coalesce(max(id), 0) FROM events
         WHERE change_id = :change_id AND event_type = 'instructed' AND metadata ->> 'action' = 'takeover'",
        params! { change_id },
    )?;
    conn.execute(
        "UPDATE rejections SET state = 'skipped', ended_by = 'head_moved', reason = :reason
         WHERE change_id = :change_id AND event_id < :taken AND state IN ('pending', 'in_fix')",
        params! { reason, taken, change_id },
    )?;
    conn.run(
        "UPDATE rejections SET state = 'pending', item_id = NULL
         WHERE change_id = :change_id AND state = 'in_fix'",
        params! { change_id },
    )
}

/// Moves an approved change back into the loop because of a new rejection.
pub(super) fn reopen_for_rejection(
    conn: &Connection,
    change: &Change,
    now: Time,
) -> Result<Change> {
    if matches!(
        change.state,
        State::SelfReviewPassed | State::ReadyForHumanReview | State::Approved
    ) {
        let id = &change.change_id;
        return changes::advance(conn, id, Trigger::NewRejection, "remand", now);
    }
    Ok(change.clone())
}
