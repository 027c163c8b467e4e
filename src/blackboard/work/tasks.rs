//! Tasks: changes that remand implements, and whose pull request it opens.

use serde_json::{Value, json};

use super::claim::fenced;
use super::finish::{change_of, complete, settle};
use super::{finish, hold, items, waiting};
use crate::blackboard::forge::{adopt, checks, pulls};
use crate::blackboard::sql::{Connection, Json, impl_from_row, params};
use crate::blackboard::{BoardError, NewChange, NewItem, Result, changes, rejections};
use crate::change::{Change, ChangeId, ReviewStage, State};
use crate::clock::Time;
use crate::event::body;
use crate::pull_request::Pull;
use crate::state::Trigger;
use crate::task::TaskRow;
use crate::text::{count, short_sha};
use crate::work::{Claim, Item, Priority, Rejection, RejectionState, Source};

/// Task that is about to enter the loop.
#[derive(Debug, Clone)]
pub(crate) struct NewTask {
    pub(crate) change: NewChange,
    pub(crate) task: TaskRow,
    pub(crate) priority: Priority,
    /// Set if remand creates the worktree.
    pub(crate) own_worktree: bool,
    /// Cleared if a person starts each review and each fix.
    pub(crate) auto_review: bool,
    /// Set if remand opens a pull request.
    pub(crate) opens_pr: bool,
    /// Change that must be merged first.
    pub(crate) after: Option<ChangeId>,
}

/// Implementation that is committed.
#[derive(Debug, Clone)]
pub(crate) struct ImplementDone {
    pub(crate) head_before: String,
    pub(crate) head_after: String,
    pub(crate) commits: usize,
    pub(crate) files: Vec<String>,
}

/// Pull request that was opened for a change, or found.
#[derive(Debug, Clone)]
pub(crate) struct OpenedPull {
    pub(crate) repo: String,
    pub(crate) pull: Pull,
    /// Commit that was pushed.
    pub(crate) head: String,
    /// Set if it already existed.
    pub(crate) found: bool,
}

impl_from_row! { row => TaskRow {
    text, agent, review_agent, model, draft,
    spec: row.get::<Option<Json<_>>>("spec")?.and_then(|Json(spec)| serde_json::from_value(spec).ok()),
    issue: row.get::<Option<Json<_>>>("issue")?.and_then(|Json(issue)| serde_json::from_value(issue).ok()),
} }

/// Returns the task of a change; `None` if the change was not made from one.
pub(crate) fn task(conn: &Connection, id: &ChangeId) -> Result<Option<TaskRow>> {
    conn.find("SELECT * FROM tasks WHERE change_id = :id", params! { id })
}

/// Adds a task: its change in state `queued`, and the item that implements it.
pub(crate) fn add_task(conn: &Connection, new: &NewTask, now: Time) -> Result<Change> {
    let waits_for = match &new.after {
        Some(after) => waiting::waiting_for(conn, after)?,
        None => None,
    };
    let entered = changes::insert_change(conn, &new.change, now)?;
    let id = &entered.change_id;
    conn.execute(
        "UPDATE changes SET own_worktree = :own_worktree, auto_review = :auto_review, opens_pr = :opens_pr, waits_for = :waits_for
         WHERE change_id = :id",
        params! { waits_for, id; new.{ own_worktree, auto_review, opens_pr } },
    )?;
    conn.execute(
        "INSERT INTO tasks (change_id, text, spec, issue, agent, review_agent, model, draft)
         VALUES (:id, :text, :spec, :issue, :agent, :review_agent, :model, :draft)",
        params! {
            id,
            spec: new.task.spec.as_ref().map(Json),
            issue: new.task.issue.as_ref().map(Json),
            text: new.task.text,
            agent: new.task.agent,
            review_agent: new.task.review_agent,
            model: new.task.model,
            draft: new.task.draft,
        },
    )?;
    let change = crate::blackboard::change(conn, id)?;
    let implement = NewItem {
        rejection_id: None,
        title: item_title(&change),
        source: new.task.source(),
        priority: new.priority,
        idempotency_key: format!("implement:{id}"),
        fix_cycle: 0,
        metadata: metadata(&change),
        actor: new.change.actor.clone(),
    };
    let item = items::insert_item(conn, &change, &implement, now)?
        .ok_or_else(|| BoardError::refused(format!("{id} already has a task")))?;
    conn.execute(
        "UPDATE changes SET implementation_item_id = :item WHERE change_id = :id",
        params! { item: item.item_id, id },
    )?;
    crate::blackboard::change(conn, id)
}

pub(super) fn item_title(change: &Change) -> String {
    format!("Implement {}", change.title)
}

pub(super) fn metadata(change: &Change) -> Value {
    json!({
        "branch": change.branch,
        "base": change.base,
        "worktree_path": change.worktree,
        "project_id": change.project_id,
    })
}

/// Records the commit at which the branch of a task was created.
pub(crate) fn begin_branch(conn: &Connection, id: &ChangeId, head: &str, now: Time) -> Result<()> {
    hold::forget_repeats(conn, id)?;
    conn.run(
        "UPDATE changes SET head = :head, updated_at = :now WHERE change_id = :id",
        params! { head, now, id },
    )
}

/// Finishes an implementation: its review is queued, or the next stage follows.
pub(crate) fn finish_implement(
    conn: &Connection,
    claim: &Claim,
    done: &ImplementDone,
    now: Time,
) -> Result<Change> {
    let item = fenced(conn, claim)?;
    let change = change_of(conn, &item)?;
    let id = &change.change_id;
    complete(conn, &item, now)?;
    begin_branch(conn, id, &done.head_after, now)?;
    settle(conn, id)?;
    let (files, more) = body::listed(done.files.clone());
    let implemented = body::Implemented {
        item_id: Some(item.item_id.clone()),
        head_before: done.head_before.clone(),
        head_after: done.head_after.clone(),
        commits: done.commits,
        files,
        more,
    };
    let summary = format!(
        "implemented: {} in {}",
        count(done.files.len(), "file"),
        count(done.commits, "commit")
    );
    let event = items::about_item(&item, implemented, summary);
    crate::blackboard::append(conn, &event, now)?;
    let after = changes::advance(conn, id, Trigger::ImplementDone, "remand", now)?;
    finish::next_review(conn, &after, format!("code_review:{}", item.item_id), now)
}

/// Continues a change that needs no more review before its pull request: the pull request is
/// queued, or a change without one is ready.
pub(crate) fn leave_self_review(conn: &Connection, change: Change, now: Time) -> Result<Change> {
    if change.state != State::SelfReviewPassed {
        return Ok(change);
    }
    let id = &change.change_id;
    if !change.opens_pr || change.has_pr() {
        return changes::advance(conn, id, Trigger::LocalOnly, "remand", now);
    }
    // It is opened once, and not before what a person asked for meanwhile is done.
    let is_open = |item: &Item| item.source == Source::PullRequest && item.status.is_open();
    let pending = rejections::rejections_of(conn, id, Some(RejectionState::Pending))?;
    let starts_fix = |one: &Rejection| change.auto_review || one.by_person;
    if items::items_of(conn, id)?.iter().any(is_open) || pending.iter().any(starts_fix) {
        return Ok(change);
    }
    let open = NewItem {
        rejection_id: None,
        title: format!("Open the pull request of {}", change.title),
        source: Source::PullRequest,
        priority: Priority::P1,
        // The same head may come here again, after its gates failed for a reason outside of it.
        idempotency_key: format!("pull_request:{id}:{}:{now}", change.head),
        fix_cycle: change.budget.fix_cycle,
        metadata: json!({
            "branch": change.branch,
            "base": change.base,
            "worktree_path": change.worktree,
            "implementation_work_item_id": change.implementation_item_id,
            "project_id": change.project_id,
            "head": change.head,
        }),
        actor: "remand".to_owned(),
    };
    items::insert_item(conn, &change, &open, now)?;
    Ok(change)
}

/// Records the pull request of a change, which waits for feedback from now on.
pub(crate) fn finish_pull(
    conn: &Connection,
    claim: &Claim,
    opened: &OpenedPull,
    now: Time,
) -> Result<Change> {
    let item = fenced(conn, claim)?;
    let change = change_of(conn, &item)?;
    let (id, pull) = (&change.change_id, &opened.pull);
    complete(conn, &item, now)?;
    settle(conn, id)?;
    conn.execute(
        "UPDATE changes SET pr_number = :number, head = :head, updated_at = :now WHERE change_id = :id",
        params! { number: pull.number, head: opened.head, now, id },
    )?;
    let seen = Pull {
        head_sha: opened.head.clone(),
        ..pull.clone()
    };
    pulls::see_pull(conn, &change.project_id, &seen, None)?;
    adopt::attach_pull(conn, &change.project_id, pull.number, id, now)?;
    checks::expect_checks(conn, id)?;
    let created = body::PrCreated {
        repo: Some(opened.repo.clone()),
        number: pull.number,
        url: pull.url.clone(),
        head: opened.head.clone(),
        draft: pull.draft,
        found: opened.found,
    };
    let verb = if opened.found { "found" } else { "opened" };
    let summary = format!(
        "{}#{} {verb} at {}",
        opened.repo,
        pull.number,
        short_sha(&opened.head)
    );
    crate::blackboard::append(conn, &items::about_item(&item, created, summary), now)?;
    changes::advance(conn, id, Trigger::PrMade, "remand", now)?;
    let there = changes::advance(conn, id, Trigger::PrRecorded, "remand", now)?;
    if there.review == ReviewStage::OnPr {
        return finish::next_review(conn, &there, format!("code_review:{}", item.item_id), now);
    }
    // The head was reviewed before it was pushed, or a person or a setting decided that it is not.
    let ready = finish::ready_on_pull(conn, id, now)?;
    if !finish::is_unapproved(conn, &ready)? {
        return Ok(ready);
    }
    conn.execute(
        "UPDATE changes SET human_review_required = 1 WHERE change_id = :id",
        params! { id },
    )?;
    crate::blackboard::change(conn, id)
}
