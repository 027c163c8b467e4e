//! A head that a person moved: the verdict on the old one no longer holds, and the new one is judged like any other.

use rusqlite::Connection;

use super::{Result, changes, items, rejections};
use crate::change::{Change, ChangeId, State};
use crate::clock::Time;
use crate::state::Trigger;
use crate::work::Source;

/// Takes in a head that a person moved while nothing ran: one review of it is queued, whatever waited for the old one
/// is over. A person who works on an escalated change has answered the escalation.
pub(crate) fn review_new_head(conn: &Connection, id: &ChangeId, head: &str, actor: &str, now: Time) -> Result<Change> {
    let before = super::change(conn, id)?;
    let reason = format!("{actor} moved the head to {}", changes::short(head));
    items::cancel_open(conn, id, None, &reason, now)?;
    if before.state == State::Escalated {
        rejections::settle_all(conn, id, &reason)?;
        changes::advance(conn, id, Trigger::MarkReady, actor, now)?;
    }
    if before.state != State::PendingSelfReview {
        changes::advance(conn, id, Trigger::HeadMoved, actor, now)?;
    }
    let moved = changes::move_head(conn, id, head, now)?;
    queue_review(conn, &moved, actor, now)?;
    Ok(moved)
}

/// Queues a review of the change's head because somebody asked for it.
pub(crate) fn queue_review(conn: &Connection, change: &Change, actor: &str, now: Time) -> Result<()> {
    let key = format!("code_review:{}:{}:{now}", change.change_id, change.head);
    items::insert_item(conn, change, &items::review_item(change, key, actor), now)?;
    Ok(())
}

/// A person gave the verdict: the reviews that were to give it are over.
pub(crate) fn end_reviews(conn: &Connection, id: &ChangeId, actor: &str, now: Time) -> Result<()> {
    for item in items::items_of(conn, id)? {
        if item.source == Source::CodeReview && item.status.is_open() {
            items::cancel_item(conn, &item.item_id, &format!("{actor} gave the verdict"), actor, now)?;
        }
    }
    Ok(())
}
