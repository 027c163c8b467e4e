//! The right to run an item: claimed in one statement, renewed, returned, or reclaimed from a dead holder. Every claim
//! increments the epoch, and every later write of that run names it.

use std::time::Duration;

use super::items::{self, about_item, change_id_of};
use crate::blackboard::sql::{Connection, params};
use crate::blackboard::{BoardError, Result, changes, rejections};
use crate::change::{Change, ChangeId, State};
use crate::clock::Time;
use crate::event::body;
use crate::state::{NoSuchMove, Trigger};
use crate::work::{Claim, Item, Source};

/// Item that is ours until the lease expires.
#[derive(Debug, Clone)]
pub(crate) struct Claimed {
    pub(crate) item: Item,
    pub(crate) change: Change,
    /// Set for a review in shadow mode, which has no effect.
    pub(crate) in_shadow: bool,
}

impl Claimed {
    pub(crate) fn claim(&self) -> Claim {
        Claim {
            item_id: self.item.item_id.clone(),
            epoch: self.item.epoch,
        }
    }
}

/// Holder and duration of a claim.
#[derive(Debug, Clone)]
pub(crate) struct Holding {
    pub(crate) holder: String,
    pub(crate) lease: Duration,
}

/// Makes delayed items that are due ready. Until then, they are not in the ready index.
pub(crate) fn ripen(conn: &Connection, now: Time) -> Result<usize> {
    conn.execute(
        "UPDATE work_items SET not_before = NULL WHERE status = 'available' AND not_before <= :now",
        params! { now },
    )
}

/// Claims the first item that is due: priority, then age, then id; never a second one in the same worktree.
pub(crate) fn claim(conn: &Connection, holding: &Holding, now: Time) -> Result<Option<Claimed>> {
    ripen(conn, now)?;
    loop {
        let claimed = conn.find(
            "UPDATE work_items SET status = 'claimed', claimed_by = :holder, epoch = epoch + 1,
                 attempt = attempt + 1, lease_expires_at = :until
             WHERE status = 'available' AND item_id = (
                 SELECT first.item_id
                 FROM (VALUES ('code_review'), ('review_fix'), ('manual'), ('pull_request'), ('github'), ('specflow')) AS runnable
                 CROSS JOIN work_items AS first ON first.item_id = (
                     SELECT item_id FROM work_items AS w
                     WHERE source = runnable.column1 AND status = 'available' AND not_before IS NULL
                         AND change_id IS NOT NULL AND metadata ->> 'evaluator' IS NULL
                         AND NOT EXISTS (SELECT 1 FROM work_items AS c WHERE c.status = 'claimed' AND c.worktree = w.worktree)
                     ORDER BY priority, created_at, length(item_id), item_id LIMIT 1)
                 ORDER BY first.priority, first.created_at, length(first.item_id), first.item_id LIMIT 1)
             RETURNING *",
            params! { holder: holding.holder, until: now.plus(holding.lease) })?;
        let Some(item) = claimed else { return Ok(None) };
        let change_id = change_id_of(&item)?;
        let change = match enter(conn, change_id, item.source, now) {
            // An item that its change cannot use (created by hand, for example) must not block the others.
            Err(BoardError::NoSuchMove { refused, .. }) => {
                items::cancel_item(conn, &item.item_id, &refused.to_string(), "remand", now)?;
                rejections::settle_fix(conn, &item.item_id, &refused.to_string())?;
                continue;
            }
            advanced => advanced?,
        };
        let summary = format!("{} {} claimed", item.source, item.item_id);
        let event = about_item(&item, work_claimed(&item, holding), summary);
        crate::blackboard::append(conn, &event, now)?;
        return Ok(Some(Claimed {
            item,
            change,
            in_shadow: false,
        }));
    }
}

/// Moves the change of a claimed item. An item that its change cannot use is refused.
fn enter(conn: &Connection, id: &ChangeId, source: Source, now: Time) -> Result<Change> {
    if let Some(trigger) = items::claimed_by(source) {
        return changes::advance(conn, id, trigger, "remand", now);
    }
    let change = crate::blackboard::change(conn, id)?;
    if change.state == State::SelfReviewPassed {
        return Ok(change);
    }
    let (state, trigger) = (change.state, Trigger::PrMade);
    Err(BoardError::NoSuchMove {
        change: change.change_id,
        refused: NoSuchMove { state, trigger },
    })
}

/// Returns the metadata of the event of a claim.
pub(crate) fn work_claimed(item: &Item, holding: &Holding) -> body::WorkClaimed {
    body::WorkClaimed {
        item_id: Some(item.item_id.clone()),
        source: Some(item.source),
        epoch: item.epoch,
        attempt: item.attempt,
        holder: holding.holder.clone(),
    }
}

/// Checks that a claim is still valid. Every write of a run does this first.
pub(crate) fn fenced(conn: &Connection, claim: &Claim) -> Result<Item> {
    let item = crate::blackboard::item(conn, &claim.item_id)?;
    if item.epoch == claim.epoch && item.claimed_by.is_some() {
        Ok(item)
    } else {
        Err(BoardError::stale(&claim.item_id, claim.epoch))
    }
}

/// Extends the lease. An invalid claim is `Stale`: the run must be ended.
pub(crate) fn renew(conn: &Connection, claim: &Claim, lease: Duration, now: Time) -> Result<()> {
    let renewed = conn.execute(
        "UPDATE work_items SET lease_expires_at = :until
         WHERE item_id = :id AND epoch = :epoch AND status = 'claimed'",
        params! { until: now.plus(lease), id: claim.item_id, epoch: claim.epoch },
    )?;
    if renewed == 1 {
        Ok(())
    } else {
        Err(BoardError::stale(&claim.item_id, claim.epoch))
    }
}

/// Returns a claimed item to the queue without counting the attempt: a stop or a restart is not a
/// failure.
pub(crate) fn give_back(
    conn: &Connection,
    claim: &Claim,
    not_before: Option<Time>,
    now: Time,
) -> Result<()> {
    let item = fenced(conn, claim)?;
    let change = item
        .change_id
        .as_ref()
        .map(|id| crate::blackboard::change(conn, id))
        .transpose()?;
    conn.run(
        "UPDATE work_items SET status = :status, claimed_by = NULL, lease_expires_at = NULL,
             attempt = max(attempt - 1, 0), not_before = :not_before
         WHERE item_id = :id AND epoch = :epoch AND status = 'claimed'",
        params! {
            status: items::queued_status(change.as_ref()),
            not_before: not_before.filter(|moment| *moment > now),
            id: claim.item_id,
            epoch: claim.epoch,
        },
    )
}

/// Counts a run that vanished. Returns the number of consecutive ones.
pub(crate) fn lose_run(conn: &Connection, claim: &Claim) -> Result<i64> {
    fenced(conn, claim)?;
    conn.value(
        "UPDATE work_items SET lost_runs = lost_runs + 1 WHERE item_id = :id RETURNING lost_runs",
        params! { id: claim.item_id },
    )
}

/// Returns claims of other holders. The caller has to prove that a holder is dead.
pub(crate) fn foreign_claims(conn: &Connection, holder: &str) -> Result<Vec<(Claim, String)>> {
    conn.all(
        "SELECT item_id, epoch, claimed_by FROM work_items WHERE status = 'claimed' AND claimed_by <> :holder",
        params! { holder },
        |row| {
            let item_id = row.get("item_id")?;
            Ok((
                Claim {
                    item_id,
                    epoch: row.get("epoch")?,
                },
                row.get("claimed_by")?,
            ))
        },
    )
}

/// Returns the item of a holder that was proven dead to the queue. Does nothing if that was already done.
pub(crate) fn take_from_dead(conn: &Connection, claim: &Claim, now: Time) -> Result<bool> {
    match give_back(conn, claim, None, now) {
        Ok(()) => Ok(true),
        Err(BoardError::Stale { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// True if a claim would find anything: two index lookups, no lock taken.
pub(crate) fn anything_ready(conn: &Connection, now: Time) -> Result<bool> {
    conn.value(
        "SELECT EXISTS (SELECT 1 FROM work_items
                 WHERE source IN ('code_review', 'review_fix', 'manual', 'pull_request', 'github', 'specflow')
                     AND status = 'available' AND not_before IS NULL AND change_id IS NOT NULL
                     AND metadata ->> 'evaluator' IS NULL)
             OR EXISTS (SELECT 1 FROM work_items WHERE status = 'available' AND not_before <= :now)",
        params! { now },
    )
}

const UNKNOWN: &str = "SELECT * FROM work_items AS w
                       WHERE source IN ('github', 'specflow', 'manual', 'pull_request', 'feedback_analysis')
                       AND status = 'available' AND not_before IS NULL
                       AND (change_id IS NULL OR source = 'feedback_analysis' OR metadata ->> 'evaluator' IS NOT NULL)
                       AND NOT EXISTS (SELECT 1 FROM events WHERE target_type = 'work_item' AND target_id = w.item_id
                       AND event_type = 'skipped')";

/// True if a ready item has a source that this dispatch cannot run, and no event reports that yet.
pub(crate) fn any_unknown_source(conn: &Connection) -> Result<bool> {
    conn.exists(UNKNOWN, &[])
}

/// Reports ready items of sources that this dispatch cannot run, each with one event. They are left
/// alone.
pub(crate) fn skip_unknown_sources(conn: &Connection, now: Time) -> Result<usize> {
    let unknown: Vec<Item> = conn.list(UNKNOWN, &[])?;
    for item in &unknown {
        let source = item.source;
        let reason = format!("this version does not run items with source `{source}`");
        let summary = format!("{} is not run: {reason}", item.item_id);
        let skipped = body::Skipped::because(body::SkipCode::SourceNotRun, reason);
        crate::blackboard::append(conn, &about_item(item, skipped, summary), now)?;
    }
    Ok(unknown.len())
}
