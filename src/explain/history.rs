//! Selects the events of a change that explain why it is where it is.

use crate::blackboard::{self as bb, Conn};
use crate::change::ChangeId;
use crate::event::{Event, EventType};

/// Maximum number of events that are searched.
const LOOK_BACK: i64 = 200;

/// Returns the events that explain the current state of the change, oldest first, without minor
/// steps.
pub(crate) fn led_here(conn: &Conn, id: &ChangeId, limit: usize) -> bb::Result<Vec<Event>> {
    let is_minor = |event: &Event| {
        matches!(
            event.event_type,
            EventType::WorkCreated
                | EventType::WorkClaimed
                | EventType::WorkCompleted
                | EventType::RunStarted
                | EventType::WorktreeMade
                | EventType::WorktreeRemoved
                | EventType::SetupRun
                | EventType::ReviewRequeued
                | EventType::ReviewPosted
                | EventType::Posted
                | EventType::Notified
                | EventType::MessageSent
                | EventType::Pruned
                | EventType::Reloaded
        )
    };
    let mut events = bb::events_of(conn, id, LOOK_BACK)?;
    events.retain(|event| !is_minor(event));
    Ok(events.split_off(events.len().saturating_sub(limit)))
}
