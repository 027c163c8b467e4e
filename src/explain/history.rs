//! Of all that happened to a change, what says why it is where it is.

use crate::event::{Event, EventType};

/// The events that led to where the change is now, oldest first: those that say why, not each small step.
pub(crate) fn led_here(events: &[Event], limit: usize) -> Vec<&Event> {
    let tells = |event: &&Event| match event.event_type {
        EventType::WorkCreated
        | EventType::WorkClaimed
        | EventType::WorkCompleted
        | EventType::RunStarted
        | EventType::WorktreeMade
        | EventType::SetupRun
        | EventType::ReviewRequeued
        | EventType::ReviewPosted
        | EventType::Posted
        | EventType::Notified
        | EventType::MessageSent
        | EventType::Pruned
        | EventType::Reloaded => false,
        EventType::WorkFailed
        | EventType::WorkCancelled
        | EventType::WorkRejected
        | EventType::WorkApproved
        | EventType::FixCreated
        | EventType::FixCommitted
        | EventType::FixPushed
        | EventType::ReviewUnclear
        | EventType::EditsUndone
        | EventType::PermissionDenied
        | EventType::CheckoutChanged
        | EventType::HeadMoved
        | EventType::Escalated
        | EventType::Instructed
        | EventType::Shadowed
        | EventType::StateChanged
        | EventType::RunFinished
        | EventType::RunLost
        | EventType::GateFailed
        | EventType::Held
        | EventType::Resumed
        | EventType::FeedbackReceived
        | EventType::PrAdopted
        | EventType::PrChanged
        | EventType::DaemonEnded
        | EventType::Skipped => true,
    };
    let mut told: Vec<&Event> = events.iter().rev().filter(tells).take(limit).collect();
    told.reverse();
    told
}
