//! Rejection of a head by its gates, before a reviewer runs. It is a rejection like any other,
//! raised by `gate`; there is no review, since nobody read the change.

use super::claim::fenced;
use super::finish::{change_of, complete, settle};
use crate::blackboard::escalate::set_final;
use crate::blackboard::sql::Connection;
use crate::blackboard::{Result, changes, rejections};
use crate::change::{Change, FinalVerdict};
use crate::clock::Time;
use crate::event::body;
use crate::finding::Verdict;
use crate::state::Trigger;
use crate::work::Claim;

/// Actor of a gate's rejection.
const ACTOR: &str = "gate";

/// Gate that fails on the head of a change and not on its base.
#[derive(Debug, Clone)]
pub(crate) struct GateRejection {
    pub(crate) head: String,
    pub(crate) base: String,
    pub(crate) command: String,
    /// `None` if it was killed or crashed.
    pub(crate) status: Option<i32>,
    /// One line for people.
    pub(crate) summary: String,
    /// Feedback for the fix, including the output.
    pub(crate) body: String,
}

/// Ends a review with the rejection by a gate: the change is rejected and moved.
pub(crate) fn reject_by_gate(
    conn: &Connection,
    claim: &Claim,
    red: &GateRejection,
    now: Time,
) -> Result<Change> {
    let item = fenced(conn, claim)?;
    let change = change_of(conn, &item)?;
    let id = &change.change_id;
    complete(conn, &item, now)?;
    let rejected = body::WorkRejected {
        verdict: Some(Verdict::ChangesRequested),
        item_id: Some(item.item_id.clone()),
        head: Some(red.head.clone()),
        base: Some(red.base.clone()),
        body: red.body.clone(),
        gate: Some(body::RedGate {
            command: red.command.clone(),
            status: red.status,
        }),
        begins_round: Some(false),
        ..Default::default()
    };
    rejections::reject_change(conn, id, ACTOR, &red.summary, &rejected, now)?;
    set_final(conn, id, Some(FinalVerdict::ChangesRequested))?;
    settle(conn, id)?;
    changes::advance(conn, id, Trigger::GatesRed, "remand", now)
}
