//! Adopts a pull request: it enters the loop as a change, with its first review queued.

use super::{checks, pull_request_text, pulls};
use crate::blackboard::sql::{Connection, params};
use crate::blackboard::work::{finish, items};
use crate::blackboard::{BoardError, NewChange, Result, changes};
use crate::change::{AdoptedBy, Change, ChangeId, ProjectId, State};
use crate::clock::Time;
use crate::event::{NewEvent, body};
use crate::pull_request::{Pull, PullState, Purpose};

/// Pull request that is about to enter the loop.
#[derive(Debug, Clone)]
pub(crate) struct Adoption {
    pub(crate) change: NewChange,
    pub(crate) pull: Pull,
    pub(crate) purpose: Purpose,
    pub(crate) repo: String,
    pub(crate) by: AdoptedBy,
    /// Set if remand creates the worktree.
    pub(crate) own_worktree: bool,
}

/// Adopts a pull request. Returns its change, and false if it was already adopted and has not ended.
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
        let (number, state) = (pull.number, pull.state);
        return Err(BoardError::refused(format!("#{number} is {state}")));
    }
    let entered = changes::insert_change(conn, new, now)?;
    let id = &entered.change_id;
    conn.execute(
        "UPDATE changes SET pr_number = :number, adopted_by = :by, own_worktree = :own, detached = :own WHERE change_id = :id",
        params! { number: pull.number, by: adoption.by, own: adoption.own_worktree, id },
    )?;
    pulls::see_pull(conn, &new.project_id, pull, None)?;
    attach_pull(conn, &new.project_id, pull.number, id, now)?;
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
    if change.state == State::AwaitingPrFeedback && !change.is_reviewed() {
        checks::expect_checks(conn, id)?;
        let passed = finish::pass_unreviewed(conn, &change, now)?;
        return Ok((passed, true));
    }
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

/// Gives a pull request to a change. It is read soon, from the beginning: marks from an earlier
/// adoption would prevent its comments from being read again.
pub(in crate::blackboard) fn attach_pull(
    conn: &Connection,
    project_id: &ProjectId,
    number: i64,
    id: &ChangeId,
    now: Time,
) -> Result<()> {
    conn.run(
        "UPDATE pulls SET change_id = :id, acted_on = 'open', etag = NULL, marks = '{}', is_judged = 0,
             read_at = NULL, read_after = 0, next_read = :now, failures = 0, trouble = NULL, trouble_kind = NULL,
             slow_reads = 0, kept_pages = '{}', description = NULL, issue = NULL, checks = 'none', checks_trouble = NULL
         WHERE project_id = :project_id AND number = :number",
        params! { id, now, project_id, number },
    )
}
