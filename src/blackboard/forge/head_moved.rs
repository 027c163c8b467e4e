//! Handles a head that a person moved: the verdict on the old one no longer applies, and the new
//! one is judged like any other.

use crate::blackboard::sql::{Connection, FromRow as _, params};
use crate::blackboard::work::{finish, items};
use crate::blackboard::{Result, changes, rejections};
use crate::change::{Change, ChangeId, State};
use crate::clock::Time;
use crate::state::Trigger;
use crate::text::short_sha;
use crate::work::{RejectionEnd, RejectionState, Source, Status};

/// Records a head that a person moved while nothing was running.
///
/// One review of it is queued, and everything that waited for the old one ends. By working on an
/// escalated change a person has answered the escalation.
pub(crate) fn review_new_head(
    conn: &Connection,
    id: &ChangeId,
    head: &str,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let before = crate::blackboard::change(conn, id)?;
    let reason = format!("{actor} moved the head to {}", short_sha(head));
    items::cancel_open(conn, id, None, &reason, now)?;
    if before.state == State::Escalated {
        rejections::settle_all(conn, id, (RejectionEnd::HeadMoved, &reason))?;
        changes::advance(conn, id, Trigger::MarkReady, actor, now)?;
    }
    // A change that waits for its review, or for feedback on its pull request, continues to wait
    // for the same.
    if !matches!(
        before.state,
        State::PendingSelfReview | State::AwaitingPrFeedback
    ) {
        changes::advance(conn, id, Trigger::HeadMoved, actor, now)?;
    }
    let moved = changes::move_head(conn, id, head, now)?;
    if !moved.is_reviewed() {
        return finish::pass_unreviewed(conn, &moved, now);
    }
    queue_review(conn, &moved, actor, now)?;
    Ok(moved)
}

/// Returns the changes that were judged and have no pull request, with the main checkouts of their
/// projects.
pub(crate) fn judged_without_pull(conn: &Connection) -> Result<Vec<(String, String, Change)>> {
    conn.all(
        "SELECT c.*, projects.path, projects.common_dir
         FROM changes c INDEXED BY changes_live CROSS JOIN projects ON projects.project_id = c.project_id
         WHERE c.state NOT IN ('merged', 'closed') AND c.state IN ('ready_for_human_review', 'approved')
             AND c.pr_number IS NULL AND NOT c.taken_over",
        &[],
        |row| {
            Ok((
                row.get("path")?,
                row.get("common_dir")?,
                Change::from_row(row)?,
            ))
        },
    )
}

/// Withdraws a verdict, because a branch without a pull request is at another commit than the one
/// that was judged.
pub(crate) fn take_back_verdict(
    conn: &Connection,
    seen: &Change,
    tip: &str,
    now: Time,
) -> Result<bool> {
    let current = crate::blackboard::change(conn, &seen.change_id)?;
    if (current.state, &current.head) != (seen.state, &seen.head) || current.has_pr() {
        return Ok(false);
    }
    review_new_head(conn, &seen.change_id, tip, "git", now)?;
    Ok(true)
}

/// Handles a new target branch: a verdict on the difference from the old one no longer applies, and
/// a review in progress starts again. An open fix is followed by its review in any case.
pub(crate) fn review_new_base(
    conn: &Connection,
    id: &ChangeId,
    reason: &str,
    now: Time,
) -> Result<()> {
    let before = crate::blackboard::change(conn, id)?;
    let open: Vec<_> = items::items_of(conn, id)?
        .into_iter()
        .filter(|item| item.status.is_open())
        .collect();
    let had_verdict = matches!(before.state, State::ReadyForHumanReview | State::Approved);
    let under_way = open
        .iter()
        .find(|item| item.source == Source::CodeReview && item.status == Status::Claimed);
    if let Some(review) = under_way {
        items::cancel_item(conn, &review.item_id, reason, "github", now)?;
    }
    if had_verdict {
        changes::advance(conn, id, Trigger::HeadMoved, "github", now)?;
    }
    // A pending rejection becomes a fix, which is followed by a review.
    let is_idle = before.state == State::AwaitingPrFeedback
        && open.is_empty()
        && crate::blackboard::rejections_of(conn, id, Some(RejectionState::Pending))?.is_empty();
    if had_verdict || under_way.is_some() || is_idle {
        let change = crate::blackboard::change(conn, id)?;
        if !change.is_reviewed() {
            return finish::pass_unreviewed(conn, &change, now).map(drop);
        }
        queue_review(conn, &change, "github", now)?;
    }
    Ok(())
}

/// True if the branch of a pull request is known to have been at this commit on the remote.
pub(crate) fn was_on_remote(conn: &Connection, id: &ChangeId, sha: &str) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM events WHERE change_id = :id AND event_type IN ('pr_adopted', 'head_moved', 'fix_pushed')
             AND :sha IN (metadata ->> 'head', metadata ->> 'from', metadata ->> 'to', metadata ->> 'head_after')",
        params! { id, sha },
    )
}

/// Queues a review of the change's head because somebody requested it.
pub(crate) fn queue_review(
    conn: &Connection,
    change: &Change,
    actor: &str,
    now: Time,
) -> Result<()> {
    let new = items::review_item(change, items::review_key(change, now), actor);
    items::insert_item(conn, change, &new, now).map(drop)
}

/// Ends the open reviews, because a person gave the verdict.
pub(crate) fn end_reviews(conn: &Connection, id: &ChangeId, actor: &str, now: Time) -> Result<()> {
    items::cancel_reviews(conn, id, &format!("{actor} gave the verdict"), actor, now)
}
