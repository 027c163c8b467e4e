//! Worktrees that remand created, for their removal after the end of their changes.

use super::Result;
use crate::blackboard::sql::{Connection, params};
use crate::change::{Change, ChangeId};
use crate::clock::Time;
use crate::event::NewEvent;

/// Stored instead of the set-up key while the worktree of an ended change is being removed.
pub(crate) const REMOVING: &str = "removing";

/// Returns the changes that have ended and whose worktree has not been removed, newest first.
pub(crate) fn ended_worktrees(conn: &Connection) -> Result<Vec<Change>> {
    conn.list(
        "SELECT * FROM changes INDEXED BY changes_ended_worktrees
         WHERE own_worktree = 1 AND completed_at IS NOT NULL AND setup_done IS NOT 'removed'
         ORDER BY completed_at DESC, length(change_id) DESC, change_id DESC",
        &[],
    )
}

/// Returns the changes whose worktree this is, the live one first, then the newest.
pub(crate) fn changes_at(conn: &Connection, worktree: &str) -> Result<Vec<Change>> {
    conn.list(
        "SELECT * FROM changes WHERE worktree = :worktree
         ORDER BY completed_at IS NULL DESC, completed_at DESC, length(change_id) DESC, change_id DESC",
        params! { worktree },
    )
}

/// True if a live change, a run or a claim uses a worktree.
pub(crate) fn is_worktree_busy(conn: &Connection, worktree: &str) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM changes WHERE worktree = :worktree AND state NOT IN ('merged', 'closed')
         UNION ALL SELECT 1 FROM runs WHERE worktree = :worktree AND ended_at IS NULL
         UNION ALL SELECT 1 FROM work_items WHERE worktree = :worktree AND status = 'claimed'",
        params! { worktree },
    )
}

/// Records that the worktree of an ended change is about to be removed. Returns false if something
/// uses it.
pub(crate) fn begin_removal(conn: &Connection, change: &Change) -> Result<bool> {
    if is_worktree_busy(conn, &change.worktree)? {
        return Ok(false);
    }
    let begun = conn.execute(
        "UPDATE changes SET setup_done = 'removing'
         WHERE change_id = :id AND own_worktree = 1 AND state IN ('merged', 'closed')",
        params! { id: change.change_id },
    )?;
    Ok(begun > 0)
}

/// Takes back [`begin_removal`]: there is work in the worktree after all.
pub(crate) fn end_removal(conn: &Connection, id: &ChangeId) -> Result<()> {
    conn.run(
        "UPDATE changes SET setup_done = '' WHERE change_id = :id AND setup_done = 'removing'",
        params! { id },
    )
}

/// Records that a worktree is gone: with an event if remand removed it.
pub(crate) fn worktree_removed(
    conn: &Connection,
    worktree: &str,
    event: Option<&NewEvent>,
    now: Time,
) -> Result<()> {
    if let Some(event) = event {
        super::append(conn, event, now)?;
    }
    conn.run(
        "UPDATE changes SET setup_done = 'removed'
         WHERE worktree = :worktree AND own_worktree = 1 AND completed_at IS NOT NULL",
        params! { worktree },
    )
}
