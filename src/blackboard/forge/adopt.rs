//! Taking over a pull request: it enters the loop as a change, with its first review queued.

use super::{pull_request_text, pulls};
use crate::blackboard::BoardError;
use crate::blackboard::NewChange;
use crate::blackboard::Result;
use crate::blackboard::changes;
use crate::blackboard::sql::{Connection, params};
use crate::blackboard::work::items;
use crate::change::{AdoptedBy, Change, State};
use crate::clock::Time;
use crate::event::NewEvent;
use crate::event::body;
use crate::pull_request::{Pull, PullState, Purpose};

/// A pull request that is about to enter the loop.
#[derive(Debug, Clone)]
pub(crate) struct Adoption {
    pub(crate) change: NewChange,
    pub(crate) pull: Pull,
    pub(crate) purpose: Purpose,
    pub(crate) repo: String,
    pub(crate) by: AdoptedBy,
    /// remand makes the worktree.
    pub(crate) own_worktree: bool,
}

/// The change that the pull request became; it is there already if it was adopted before and is not over.
pub(crate) fn adopt(conn: &Connection, adoption: &Adoption, now: Time) -> Result<(Change, bool)> {
    let (new, pull) = (&adoption.change, &adoption.pull);
    let known = pulls::pull_row(conn, &new.project_id, pull.number)?.and_then(|row| row.change_id);
    if let Some(known) = known {
        let change = crate::blackboard::change(conn, &known)?;
        if !change.state.is_over() {
            return Ok((change, false));
        }
    }
    if pull.state != PullState::Open {
        return Err(BoardError::Refused {
            what: format!("#{} is {}", pull.number, pull.state),
            hint: None,
        });
    }
    let entered = changes::insert_change(conn, new, now)?;
    let id = &entered.change_id;
    conn.execute(
        "UPDATE changes SET pr_number = :number, adopted_by = :by, own_worktree = :own, detached = :own WHERE change_id = :id",
        params! {
            ":number": pull.number,
            ":by": adoption.by,
            ":own": adoption.own_worktree,
            ":id": id,
        },
    )?;
    pulls::see_pull(conn, &new.project_id, pull, None)?;
    // Marks of an earlier life would keep what was said then from being read again.
    conn.execute(
        "UPDATE pulls SET change_id = :id, acted_on = 'open', etag = NULL, marks = '{}', is_judged = 0,
             read_at = NULL, read_after = 0, next_read = :now, failures = 0, trouble = NULL, trouble_kind = NULL,
             slow_reads = 0, kept_pages = '{}', description = NULL, issue = NULL
         WHERE project_id = :project_id AND number = :number",
        params! { ":id": id, ":now": now, ":project_id": new.project_id, ":number": pull.number },
    )?;
    let adopted = NewEvent::about(
        id,
        body::PrAdopted {
            repo: Some(adoption.repo.clone()),
            number: pull.number,
            by: Some(adoption.by),
            head: pull.head_sha.clone(),
            url: pull.url.clone(),
        },
        format!(
            "{}#{} adopted by {}",
            adoption.repo, pull.number, adoption.by
        ),
    )
    .by(&new.actor);
    crate::blackboard::append(conn, &adopted, now)?;
    pull_request_text::set_purpose(conn, id, &adoption.purpose, now)?;
    let change = crate::blackboard::change(conn, id)?;
    if change.state == State::AwaitingPrFeedback {
        let key = format!("code_review:{id}:{}", change.head);
        items::insert_item(
            conn,
            &change,
            &items::review_item(&change, key, &new.actor),
            now,
        )?;
    }
    Ok((change, true))
}
