//! Work items: created once (by key), read, cancelled, reopened.

use serde_json::{Value, json};

use crate::blackboard::sql::{Connection, params};
use crate::blackboard::{BoardError, Result, from_row};
use crate::change::{Change, ChangeId, ProjectId};
use crate::clock::Time;
use crate::event::{EventType, NewEvent, TargetType, body};
use crate::state::{self, Facts, Trigger};
use crate::work::{Item, ItemId, Priority, RejectionId, Source, Status};

/// Item to create.
#[derive(Debug, Clone)]
pub(crate) struct NewItem {
    pub(crate) rejection_id: Option<RejectionId>,
    pub(crate) title: String,
    pub(crate) source: Source,
    pub(crate) priority: Priority,
    pub(crate) idempotency_key: String,
    pub(crate) fix_cycle: i64,
    pub(crate) metadata: Value,
    pub(crate) actor: String,
}

/// Creates an item for a change. Returns `None` and does nothing if its key was used before. If the
/// change is paused or held, the item starts as blocked.
pub(crate) fn insert_item(
    conn: &Connection,
    change: &Change,
    new: &NewItem,
    now: Time,
) -> Result<Option<Item>> {
    insert(conn, &change.project_id, Some(change), new, now)
}

/// Like [`insert_item`], for a project as a whole if there is no change.
pub(crate) fn insert(
    conn: &Connection,
    project_id: &ProjectId,
    change: Option<&Change>,
    new: &NewItem,
    now: Time,
) -> Result<Option<Item>> {
    let item_id = ItemId::new(from_row::next_id(conn, "w")?);
    let mut metadata = new.metadata.clone();
    let has_pr = change.is_some_and(Change::has_pr);
    if let Some(repo) = metadata
        .get_mut("repo")
        .filter(|repo| repo.is_null() && has_pr)
    {
        *repo = json!(crate::blackboard::project(conn, project_id)?.repo);
    }
    let status = queued_status(change);
    let inserted = conn.execute(
        "INSERT INTO work_items (item_id, project_id, change_id, rejection_id, title, source, source_ref, status,
             priority, idempotency_key, fix_cycle, host, worktree, created_at, metadata)
         VALUES (:item_id, :project_id, :change_id, :rejection_id, :title, :source, :source_ref, :status,
             :priority, :key, :fix_cycle, :host, :worktree, :now, :metadata)
         ON CONFLICT (idempotency_key) DO NOTHING",
        params! {
            item_id, project_id, status, now, metadata,
            change_id: change.map(|change| &change.change_id),
            source_ref: change.map(|change| &change.branch),
            key: new.idempotency_key,
            host: change.map(|change| &change.host),
            worktree: change.map(|change| &change.worktree);
            new.{ rejection_id, title, source, priority, fix_cycle }
        },
    )?;
    if inserted == 0 {
        // The id was not used: return it, so that ids have no gaps.
        conn.execute(
            "UPDATE counters SET value = value - 1 WHERE name = 'w'",
            &[],
        )?;
        return Ok(None);
    }
    let summary = format!("{} queued: {}", new.source, new.title);
    let created = body::WorkCreated {
        source: Some(new.source),
        item_id: Some(item_id.clone()),
        idempotency_key: Some(new.idempotency_key.clone()),
        again: false,
    };
    let item = item(conn, &item_id)?;
    let event = about_item(&item, created, summary).by(&new.actor);
    crate::blackboard::append(conn, &event, now)?;
    Ok(Some(item))
}

/// Opens a cancelled or failed item with the key of a new one again; `None` if there is none.
pub(crate) fn reopen_item(
    conn: &Connection,
    change: &Change,
    new: &NewItem,
    now: Time,
) -> Result<Option<Item>> {
    let ended: Option<Item> = conn.find(
        "UPDATE work_items SET status = :status, completed_at = NULL, failure_reason = NULL, not_before = NULL,
             gate_rounds = 0, lost_runs = 0, asked_again = 0, fix_cycle = :fix_cycle, metadata = :metadata
         WHERE idempotency_key = :key AND status IN ('failed', 'cancelled') RETURNING *",
        params! { status: queued_status(Some(change)), key: new.idempotency_key; new.{ fix_cycle, metadata } },
    )?;
    let Some(item) = ended else { return Ok(None) };
    let created = body::WorkCreated {
        source: Some(item.source),
        item_id: Some(item.item_id.clone()),
        idempotency_key: None,
        again: true,
    };
    let summary = format!("{} {} requeued", item.source, item.item_id);
    let event = about_item(&item, created, summary).by(&new.actor);
    crate::blackboard::append(conn, &event, now)?;
    Ok(Some(item))
}

/// Returns the status of an item that enters the queue.
pub(crate) fn queued_status(change: Option<&Change>) -> Status {
    let is_blocked = |change: &Change| {
        change.paused || change.held_until.is_some() || change.waits_for.is_some()
    };
    if change.is_some_and(is_blocked) {
        Status::Blocked
    } else {
        Status::Available
    }
}

/// Returns the key for one more review of the change's head.
pub(crate) fn review_key(change: &Change, now: Time) -> String {
    format!("code_review:{}:{}:{now}", change.change_id, change.head)
}

/// Creates the input for a review of the change's head.
pub(crate) fn review_item(change: &Change, key: String, actor: &str) -> NewItem {
    NewItem {
        rejection_id: None,
        title: format!("Review {}", change.title),
        source: Source::CodeReview,
        priority: Priority::P2,
        idempotency_key: key,
        fix_cycle: change.budget.fix_cycle,
        metadata: json!({
            "pr_number": change.pr_number,
            "repo": null,
            "branch": change.branch,
            "worktree_path": change.worktree,
            "fix_cycle": change.budget.fix_cycle,
            "max_fix_cycles": change.budget.max_fix_cycles,
            "implementation_work_item_id": change.implementation_item_id,
            "project_id": change.project_id,
            "head": change.head,
        }),
        actor: actor.to_owned(),
    }
}

pub(crate) fn item(conn: &Connection, id: &ItemId) -> Result<Item> {
    conn.find(
        "SELECT * FROM work_items WHERE item_id = :id",
        params! { id },
    )?
    .ok_or_else(|| BoardError::not_found("work item", id))
}

/// Returns all items of a change, oldest first.
pub(crate) fn items_of(conn: &Connection, change_id: &ChangeId) -> Result<Vec<Item>> {
    conn.list(
        "SELECT * FROM work_items WHERE change_id = :id ORDER BY length(item_id), item_id",
        params! { id: change_id },
    )
}

/// Returns items by status (all if none is given), in the order in which they would be claimed.
pub(crate) fn list_items(
    conn: &Connection,
    status: Option<Status>,
    limit: i64,
) -> Result<Vec<Item>> {
    conn.list(
        "SELECT * FROM work_items WHERE (:status IS NULL OR status = :status)
         ORDER BY priority, created_at, length(item_id), item_id LIMIT :limit",
        params! { status, limit },
    )
}

/// Cancels one open item and fences its holder. The caller handles the effect on the change.
pub(crate) fn cancel_item(
    conn: &Connection,
    id: &ItemId,
    reason: &str,
    actor: &str,
    now: Time,
) -> Result<Item> {
    let before = item(conn, id)?;
    let moved = conn.execute(
        "UPDATE work_items SET status = 'cancelled', epoch = epoch + 1, claimed_by = NULL, lease_expires_at = NULL,
             completed_at = :now, failure_reason = :reason
         WHERE item_id = :id AND status IN ('available', 'claimed', 'blocked')",
        params! { now, reason, id },
    )?;
    if moved != 1 {
        return Err(BoardError::refused_with_hint(
            format!("cannot cancel {id}: it is {}", before.status),
            "only available, claimed and blocked items can be cancelled",
        ));
    }
    let cancelled = body::WorkCancelled {
        item_id: Some(id.clone()),
        reason: reason.to_owned(),
    };
    let summary = format!("{} {id} cancelled: {reason}", before.source);
    let event = about_item(&before, cancelled, summary).by(actor);
    crate::blackboard::append(conn, &event, now)?;
    item(conn, id)
}

/// Cancels the open items of a change, except one.
pub(crate) fn cancel_open(
    conn: &Connection,
    change_id: &ChangeId,
    but: Option<&ItemId>,
    reason: &str,
    now: Time,
) -> Result<()> {
    for open in items_of(conn, change_id)? {
        if open.status.is_open() && but != Some(&open.item_id) {
            cancel_item(conn, &open.item_id, reason, "remand", now)?;
        }
    }
    Ok(())
}

/// Cancels the open reviews of a change, and the item that would open its pull request: both are
/// about its present head.
pub(crate) fn cancel_reviews(
    conn: &Connection,
    change_id: &ChangeId,
    reason: &str,
    actor: &str,
    now: Time,
) -> Result<()> {
    for open in items_of(conn, change_id)? {
        let judges_head = matches!(open.source, Source::CodeReview | Source::PullRequest);
        if judges_head && !open.is_for_person() && open.status.is_open() {
            cancel_item(conn, &open.item_id, reason, actor, now)?;
        }
    }
    Ok(())
}

/// Reopens a failed or cancelled item as if it had never run: its failure counters restart, its
/// epoch and attempt do not.
pub(crate) fn requeue_item(
    conn: &Connection,
    change: Option<&Change>,
    id: &ItemId,
    now: Time,
) -> Result<Item> {
    let before = item(conn, id)?;
    if let Some(change) = change
        && let Some(trigger) = claimed_by(before.source)
        && state::next(change.state, trigger, Facts::from(change)).is_err()
    {
        let (of, state, source) = (&change.change_id, change.state, before.source);
        return Err(BoardError::refused_with_hint(
            format!("cannot requeue {source} {id}: {of} is {state}"),
            format!("use `remand retry {of}` or `remand refine {of}`"),
        ));
    }
    let status = queued_status(change);
    let moved = conn.execute(
        "UPDATE work_items SET status = :status, completed_at = NULL, failure_reason = NULL, not_before = NULL,
             gate_rounds = 0, lost_runs = 0, asked_again = 0
         WHERE item_id = :id AND status IN ('failed', 'cancelled')",
        params! { status, id },
    )?;
    let reopened = item(conn, id)?;
    if moved != 1 {
        return Err(BoardError::refused_with_hint(
            format!("cannot requeue {id}: it is {}", reopened.status),
            "only failed and cancelled items can be requeued",
        ));
    }
    let created = body::WorkCreated {
        source: Some(reopened.source),
        item_id: Some(id.clone()),
        idempotency_key: None,
        again: true,
    };
    let summary = format!("{} {id} requeued", reopened.source);
    crate::blackboard::append(conn, &about_item(&reopened, created, summary), now)?;
    Ok(reopened)
}

/// Returns the transition that is caused by claiming an item of this source.
pub(crate) fn claimed_by(source: Source) -> Option<Trigger> {
    match source {
        Source::ReviewFix => Some(Trigger::FixClaimed),
        Source::CodeReview => Some(Trigger::ReviewClaimed),
        Source::Github | Source::Specflow | Source::Manual => Some(Trigger::ImplementClaimed),
        Source::PullRequest | Source::FeedbackAnalysis => None,
    }
}

/// Marks the item of a rejected review for a person, in addition to the mark on its change.
pub(crate) fn mark_human_review(conn: &Connection, id: &ItemId) -> Result<()> {
    conn.run(
        "UPDATE work_items SET metadata = json_set(metadata, '$.human_review_required', json('true')) WHERE item_id = :id",
        params! { id },
    )
}

/// Creates an event about an item, and about its change if it has one.
pub(crate) fn about_item(
    item: &Item,
    body: impl Into<(EventType, Value)>,
    summary: impl Into<String>,
) -> NewEvent {
    NewEvent::new(body, summary)
        .on(TargetType::WorkItem, &item.item_id)
        .of(item.change_id.as_ref())
}

/// Returns the id of an item's change. Items that the loop runs have one.
pub(crate) fn change_id_of(item: &Item) -> Result<&ChangeId> {
    let missing = || BoardError::not_found("change of item", &item.item_id);
    item.change_id.as_ref().ok_or_else(missing)
}
