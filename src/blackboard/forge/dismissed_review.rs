//! Handles a dismissed review. Its requests are dropped, unless they are on their way to the remote
//! or others make them too; its approval is withdrawn, unless somebody else has approved.

use crate::blackboard::sql::{Connection, params};
use crate::blackboard::work::{finish, items, runs};
use crate::blackboard::{Result, changes, rejections};
use crate::change::{Change, ChangeId, State};
use crate::clock::Time;
use crate::event::{Event, NewEvent, body};
use crate::finding::Verdict;
use crate::state::Trigger;
use crate::text::short_sha;
use crate::work::{Item, Rejection, RejectionEnd, RejectionState};

const REASON: &str = "the review was dismissed";

/// Withdraws the rejection of a dismissed review. Returns a description of the result; `None` if
/// there was nothing left to withdraw.
///
/// A fix that is left with nothing to do is withdrawn, its agent is ended, and the head stays as
/// before.
pub(crate) fn take_back(
    conn: &Connection,
    id: &ChangeId,
    event_id: i64,
    now: Time,
) -> Result<Option<&'static str>> {
    let Some(rejection) = crate::blackboard::rejection_of_event(conn, event_id)? else {
        return Ok(None);
    };
    let fix = rejection
        .item_id
        .as_ref()
        .map(|item_id| items::item(conn, item_id))
        .transpose()?;
    match (rejection.state, fix) {
        (RejectionState::Pending, _) => {
            skip(conn, &rejection)?;
            Ok(Some("the review was dismissed before a fix started"))
        }
        // It would otherwise return with its pull request.
        (RejectionState::Skipped, _) if rejection.ended_by == Some(RejectionEnd::PrClosed) => {
            skip(conn, &rejection)?;
            Ok(Some("the review was dismissed while the PR was closed"))
        }
        (RejectionState::InFix, Some(fix)) => take_out(conn, id, &rejection, &fix, now).map(Some),
        (RejectionState::InFix, None)
        | (
            RejectionState::Fixed
            | RejectionState::Superseded
            | RejectionState::Escalated
            | RejectionState::Skipped,
            _,
        ) => Ok(None),
    }
}

fn take_out(
    conn: &Connection,
    id: &ChangeId,
    rejection: &Rejection,
    fix: &Item,
    now: Time,
) -> Result<&'static str> {
    let is_alone = rejections::rejections_in(conn, &fix.item_id)?.len() == 1;
    let has_begun = !runs::runs_of(conn, &fix.item_id)?.is_empty();
    // An agent that has been given the feedback cannot forget it, and a push with an unknown result
    // may have arrived.
    if has_begun && (!is_alone || is_pushed(conn, fix)?) {
        return Ok("the review was dismissed; the fix that includes it continues");
    }
    skip(conn, rejection)?;
    if is_alone {
        items::cancel_item(conn, &fix.item_id, REASON, "remand", now)?;
        let back = changes::advance(conn, id, Trigger::MarkReady, "github", now)?;
        if crate::blackboard::review_of_head(conn, id, &back.head)?.is_none() {
            let back = changes::advance(conn, id, Trigger::HeadMoved, "github", now)?;
            finish::review_again(conn, &back, now)?;
        }
    }
    Ok(if has_begun {
        "the review was dismissed while its fix was in progress: the agent is stopped, and its work is kept but not pushed"
    } else {
        "the review was dismissed before a fix started"
    })
}

fn skip(conn: &Connection, rejection: &Rejection) -> Result<()> {
    conn.run(
        "UPDATE rejections SET state = 'skipped', ended_by = 'dismissed', reason = :reason, item_id = NULL WHERE rejection_id = :id",
        params! { reason: REASON, id: rejection.rejection_id },
    )
}

/// True if the fix is on the remote, or may be.
fn is_pushed(conn: &Connection, fix: &Item) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM intents INDEXED BY intents_by_change
         WHERE change_id = :change AND kind = 'push' AND payload ->> 'item_id' = :item AND (result IS NULL OR result = 'done')",
        params! { change: fix.change_id, item: fix.item_id },
    )
}

/// Withdraws an approval by the review `feedback_id`. If nothing else approves the head, the change
/// is ready for a person again, or waits for our review if that is missing or negative.
pub(crate) fn take_back_approval(
    conn: &Connection,
    feedback_id: &str,
    event: &Event,
    now: Time,
) -> Result<bool> {
    let Some(id) = &event.change_id else {
        return Ok(false);
    };
    let change = crate::blackboard::change(conn, id)?;
    let approved = event.body::<body::WorkApproved>();
    let is_of_head = approved.is_some_and(|approved| approved.head.as_ref() == Some(&change.head));
    if !is_of_head || change.state != State::Approved {
        return Ok(false);
    }
    let by = event
        .actor_id
        .strip_prefix("github:")
        .unwrap_or(&event.actor_id);
    let what = format!(
        "{by}'s approval of {} was dismissed",
        short_sha(&change.head)
    );
    let dismissal_event = |more: &str| {
        let dismissed = body::PrChanged {
            what: Some(body::PullChange::Dismissed),
            feedback_id: Some(feedback_id.to_owned()),
            event_id: Some(event.id),
        };
        NewEvent::about(id, dismissed, format!("{what}{more}")).by("github")
    };
    if is_approved_otherwise(conn, &change, feedback_id)? {
        crate::blackboard::append(conn, &dismissal_event("; another approval remains"), now)?;
        return Ok(false);
    }
    crate::blackboard::append(conn, &dismissal_event(""), now)?;
    changes::advance(conn, id, Trigger::MarkReady, "github", now)?;
    let ours = crate::blackboard::review_of_head(conn, id, &change.head)?;
    if ours.is_none_or(|review| review.verdict != Verdict::Approved) {
        let back = changes::advance(conn, id, Trigger::HeadMoved, "github", now)?;
        finish::review_again(conn, &back, now)?;
    }
    Ok(true)
}

/// True if the head is approved by a review of somebody else, by a later one of the same author, or
/// by a person's decision here.
fn is_approved_otherwise(conn: &Connection, change: &Change, feedback_id: &str) -> Result<bool> {
    let by_review = conn.exists(
        "SELECT 1 FROM feedback AS gone
             JOIN feedback AS other INDEXED BY feedback_by_change ON other.change_id = gone.change_id
             JOIN events ON events.id = other.event_id
         WHERE gone.feedback_id = :feedback_id AND other.state = 'APPROVED'
             AND (other.author_id IS NOT gone.author_id OR other.rowid > gone.rowid)
             AND events.event_type = 'work_approved' AND events.metadata ->> '$.head' = :head",
        params! { feedback_id, head: change.head },
    )?;
    if by_review {
        return Ok(true);
    }
    // Approving an already approved change causes no transition.
    conn.exists(
        "SELECT 1 FROM events AS entry
         WHERE entry.id = (SELECT max(id) FROM events
                 WHERE change_id = :id AND event_type = 'state_changed' AND metadata ->> '$.to' = 'approved')
             AND ((entry.metadata ->> '$.on' = 'approve' AND entry.actor_id NOT LIKE 'github:%')
                 OR EXISTS (SELECT 1 FROM events AS later
                     WHERE later.change_id = :id AND later.id > entry.id AND later.event_type = 'work_approved'
                         AND later.actor_id <> 'remand' AND later.actor_id NOT LIKE 'github:%'))",
        params! { id: change.change_id },
    )
}
