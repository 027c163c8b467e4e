//! Intents: effects outside of remand, committed before they happen, with the result afterwards.
//!
//! After a crash, a push is looked up on the remote; a post carries a marker by which it is found
//! on the forge.

use serde::Serialize;
use serde_json::Value;

use super::checks;
use crate::blackboard::Result;
use crate::blackboard::sql::{Connection, impl_from_row, params};
use crate::blackboard::work::claim::fenced;
use crate::change::ChangeId;
use crate::check::Rerun;
use crate::clock::Time;
use crate::event::{EventType, NewEvent, body};
use crate::intent::{IntentResult, Payload};
use crate::text::list;
use crate::work::Claim;

pub(crate) use crate::intent::IntentKind;

/// Intent as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Intent {
    pub(crate) key: String,
    pub(crate) kind: IntentKind,
    pub(crate) change_id: ChangeId,
    pub(crate) payload: Payload,
    pub(crate) marker: Option<String>,
    pub(crate) tries: i64,
    pub(crate) trouble: Option<String>,
    pub(crate) claimed_by: Option<String>,
    pub(crate) not_before: Option<Time>,
    pub(crate) result: Option<IntentResult>,
    pub(crate) forge_id: Option<String>,
    pub(crate) done_at: Option<Time>,
}

/// Intent to store.
#[derive(Debug, Clone)]
pub(crate) struct NewIntent {
    pub(crate) key: String,
    pub(crate) change_id: ChangeId,
    pub(crate) payload: Payload,
    pub(crate) epoch: i64,
}

/// Stores an intent. Returns `false` if it already existed.
///
/// The marker is random, so that nobody can have written it anywhere before.
pub(crate) fn intend(conn: &Connection, new: &NewIntent, now: Time) -> Result<bool> {
    let inserted = conn.execute(
        "INSERT INTO intents (key, kind, change_id, payload, marker, epoch, created_at)
         VALUES (:key, :kind, :change_id, :payload,
             CASE WHEN :kind IN ('review', 'answer', 'note') THEN lower(hex(randomblob(16))) END, :epoch, :now)
         ON CONFLICT (key) DO NOTHING",
        params! {
            now,
            kind: new.payload.kind(),
            payload: serde_json::to_string(&new.payload)?;
            new.{ key, change_id, epoch }
        },
    )?;
    Ok(inserted > 0)
}

/// Stores the intent to push, while the claim holds. Returns `false` if the change is paused or
/// held, and nothing may be pushed for it.
pub(crate) fn intend_push(
    conn: &Connection,
    claim: &Claim,
    new: &NewIntent,
    now: Time,
) -> Result<bool> {
    fenced(conn, claim)?;
    let change = crate::blackboard::change(conn, &new.change_id)?;
    if change.paused || change.held_until.is_some() {
        return Ok(false);
    }
    intend(conn, new, now)?;
    Ok(true)
}

pub(crate) fn intent(conn: &Connection, key: &str) -> Result<Option<Intent>> {
    conn.find("SELECT * FROM intents WHERE key = :key", params! { key })
}

/// Changes the result of a completed intent: we dismissed our own review.
pub(crate) fn change_result(conn: &Connection, key: &str, result: IntentResult) -> Result<()> {
    conn.run(
        "UPDATE intents SET result = :result WHERE key = :key AND done_at IS NOT NULL",
        params! { result, key },
    )
}

/// Records the result of an intent. A completed push stays completed, whatever is reported later.
pub(crate) fn end_intent(
    conn: &Connection,
    key: &str,
    result: IntentResult,
    forge_id: Option<&str>,
    now: Time,
) -> Result<bool> {
    let ended = conn.execute(
        "UPDATE intents SET result = :result, forge_id = :forge_id, done_at = :now, claimed_by = NULL, trouble = NULL
         WHERE key = :key AND done_at IS NULL",
        params! { result, forge_id, now, key },
    )?;
    Ok(ended > 0)
}

/// Returns the posts that are due, oldest first. A paused or held change posts nothing.
pub(crate) fn open_posts(conn: &Connection, now: Time) -> Result<Vec<Intent>> {
    conn.list(
        "SELECT intents.* FROM intents INDEXED BY intents_open JOIN changes USING (change_id)
         WHERE intents.done_at IS NULL AND intents.kind <> 'push' AND (intents.not_before IS NULL OR intents.not_before <= :now)
             AND changes.paused = 0 AND changes.held_until IS NULL
         ORDER BY intents.created_at, intents.rowid",
        params! { now })
}

/// Returns the posts that have failed so far, oldest first.
pub(crate) fn waiting_posts(conn: &Connection, change_id: &ChangeId) -> Result<Vec<Intent>> {
    conn.list(
        "SELECT * FROM intents INDEXED BY intents_open
         WHERE done_at IS NULL AND kind <> 'push' AND trouble IS NOT NULL AND change_id = :id ORDER BY created_at, rowid",
        params! { id: change_id })
}

/// Returns the next time at which a failed post is retried. Posts of a paused or held change wait
/// for the end of that, not for their own time.
pub(crate) fn next_post(conn: &Connection) -> Result<Option<Time>> {
    conn.moment(
        "SELECT min(intents.not_before) FROM intents INDEXED BY intents_open JOIN changes USING (change_id)
         WHERE intents.done_at IS NULL AND intents.kind <> 'push' AND intents.not_before IS NOT NULL
             AND changes.paused = 0 AND changes.held_until IS NULL",
    )
}

/// Claims a post from nobody, or from `from` (which is dead). Only one process posts it, and none
/// if its change was paused or held since it was listed.
pub(crate) fn claim_post(
    conn: &Connection,
    key: &str,
    from: Option<&str>,
    holder: &str,
) -> Result<bool> {
    let claimed = conn.execute(
        "UPDATE intents SET claimed_by = :holder
         WHERE key = :key AND done_at IS NULL AND claimed_by IS :from
             AND EXISTS (SELECT 1 FROM changes WHERE changes.change_id = intents.change_id
                 AND changes.paused = 0 AND changes.held_until IS NULL)",
        params! { holder, key, from },
    )?;
    Ok(claimed > 0)
}

/// Postpones a post that failed.
pub(crate) fn put_off_post(
    conn: &Connection,
    key: &str,
    trouble: &str,
    not_before: Time,
) -> Result<()> {
    conn.run(
        "UPDATE intents SET claimed_by = NULL, tries = tries + 1, trouble = :trouble, not_before = :not_before
         WHERE key = :key AND done_at IS NULL",
        params! { trouble, not_before, key },
    )
}

/// Records a completed post with its id on the forge, by which it is recognized as ours.
pub(crate) fn post_done(
    conn: &Connection,
    intent: &Intent,
    posted: &PostDone,
    now: Time,
) -> Result<()> {
    let forge_id = posted.forge_id.as_deref();
    if !end_intent(conn, &intent.key, posted.result, forge_id, now)? {
        return Ok(());
    }
    if let Some(forge_id) = forge_id {
        // It may have been read back before this was written.
        conn.execute(
            "UPDATE feedback SET trust = 'ours', judged_at = coalesce(judged_at, :now), outcome = 'ours'
             WHERE change_id = :change_id AND forge_id = :forge_id AND event_id IS NULL",
            params! { now, change_id: intent.change_id, forge_id },
        )?;
    }
    let body: (EventType, Value) = match &intent.payload {
        Payload::Review(review) => body::ReviewPosted {
            review_id: review.review_id.clone(),
            url: posted.url.clone(),
            r#as: Some(posted.result),
        }
        .into(),
        Payload::Push(_)
        | Payload::Answer(_)
        | Payload::Note(_)
        | Payload::Ask(_)
        | Payload::Rerun(_) => body::Posted {
            key: intent.key.clone(),
            kind: Some(intent.kind),
            url: posted.url.clone(),
        }
        .into(),
    };
    if let Payload::Rerun(request) = &intent.payload {
        checks::end_rerun(conn, &intent.change_id, request, Rerun::Done, now)?;
    }
    let event = NewEvent::about(&intent.change_id, body, posted.summary.clone());
    crate::blackboard::append(conn, &event, now).map(drop)
}

/// Result of a post.
#[derive(Debug, Clone)]
pub(crate) struct PostDone {
    pub(crate) result: IntentResult,
    pub(crate) forge_id: Option<String>,
    pub(crate) url: Option<String>,
    pub(crate) summary: String,
}

/// Gives up a post: there is nothing left to post it on, or nobody misses it.
pub(crate) fn give_up_post(
    conn: &Connection,
    intent: &Intent,
    reason: &str,
    now: Time,
) -> Result<()> {
    end_post(conn, intent, (IntentResult::GivenUp, reason), now)
}

fn end_post(
    conn: &Connection,
    intent: &Intent,
    (result, reason): (IntentResult, &str),
    now: Time,
) -> Result<()> {
    if end_intent(conn, &intent.key, result, None, now)? {
        if let Payload::Rerun(request) = &intent.payload {
            checks::end_rerun(conn, &intent.change_id, request, Rerun::Refused, now)?;
        }
        let event = NewEvent::about(
            &intent.change_id,
            body::Skipped {
                key: Some(intent.key.clone()),
                ..body::Skipped::because(body::SkipCode::NotPosted, reason)
            },
            match &intent.payload {
                Payload::Rerun(request) => {
                    format!("{} was not run again: {reason}", list(&request.names))
                }
                Payload::Push(_)
                | Payload::Review(_)
                | Payload::Answer(_)
                | Payload::Note(_)
                | Payload::Ask(_) => format!("{} was not posted: {reason}", intent.key),
            },
        );
        crate::blackboard::append(conn, &event, now)?;
    }
    Ok(())
}

/// Gives up a post that the forge refuses, with the forge's message, until a person has it posted
/// again.
pub(crate) fn refused_post(
    conn: &Connection,
    intent: &Intent,
    trouble: &str,
    now: Time,
) -> Result<()> {
    end_post(conn, intent, (IntentResult::Refused, trouble), now)?;
    conn.run(
        "UPDATE intents SET trouble = :trouble, tries = tries + 1 WHERE key = :key AND result = 'refused'",
        params! { trouble, key: intent.key },
    )
}

/// Returns the posts that the forge refused, oldest first. Earlier versions stored them as given up, with the error;
/// no other post that was given up has one.
pub(crate) fn refused_posts(conn: &Connection, change_id: &ChangeId) -> Result<Vec<Intent>> {
    conn.list(
        "SELECT * FROM intents WHERE change_id = :id AND kind <> 'push'
             AND (result = 'refused' OR (result = 'given_up' AND trouble IS NOT NULL))
         ORDER BY created_at, rowid",
        params! { id: change_id },
    )
}

/// Makes posts due now that the forge refused or that are delayed, and returns their number. They
/// were attempted, so the forge is searched for them first. A post in progress is left alone.
pub(crate) fn post_again(conn: &Connection, change_id: &ChangeId) -> Result<usize> {
    conn.execute(
        "UPDATE intents SET result = NULL, done_at = NULL, not_before = NULL, trouble = NULL
         WHERE change_id = :id AND kind <> 'push' AND (
             result = 'refused' OR (result = 'given_up' AND trouble IS NOT NULL)
             OR (result IS NULL AND not_before IS NOT NULL AND claimed_by IS NULL))",
        params! { id: change_id },
    )
}

/// Returns pushes without a result whose item has ended: the process that made them died, and
/// nobody continues.
pub(crate) fn orphaned_pushes(conn: &Connection) -> Result<Vec<Intent>> {
    conn.list(
        "SELECT intents.* FROM intents INDEXED BY intents_open_pushes
             JOIN work_items ON work_items.item_id = intents.payload ->> 'item_id'
         WHERE intents.kind = 'push' AND intents.done_at IS NULL
             AND work_items.status IN ('completed', 'failed', 'cancelled')
         ORDER BY intents.created_at, intents.rowid",
        &[],
    )
}

/// Posts by remand on the pull request of a change, which may have been watched before as another
/// change: the recorded keys, and the markers of posts that may have arrived without being
/// recorded.
#[derive(Debug, Clone, Default)]
pub(crate) struct OurPosts {
    pub(crate) forge_ids: Vec<String>,
    /// Markers of all past and pending posts: a failed attempt may have arrived, and a repeated one
    /// may have arrived twice.
    pub(crate) markers: Vec<String>,
    /// Reviews without text into which the forge wraps each of our replies to a comment.
    pub(crate) wraps: Vec<i64>,
}

pub(crate) fn our_posts(conn: &Connection, change_id: &ChangeId) -> Result<OurPosts> {
    let mut ours = OurPosts::default();
    conn.each(
        "SELECT forge_id, marker FROM intents WHERE kind <> 'push' AND change_id IN (
                 SELECT twin.change_id FROM changes AS one JOIN changes AS twin USING (project_id, pr_number)
                 WHERE one.change_id = :id)",
        params! { id: change_id },
        |row| {
            ours.forge_ids
                .extend(row.get::<Option<String>>("forge_id")?);
            ours.markers.extend(row.get::<Option<String>>("marker")?);
            Ok(())
        },
    )?;
    ours.wraps = conn.list(
        "SELECT review FROM feedback WHERE trust = 'ours' AND in_reply_to IS NOT NULL AND review IS NOT NULL
             AND change_id IN (
                 SELECT twin.change_id FROM changes AS one JOIN changes AS twin USING (project_id, pr_number)
                 WHERE one.change_id = :id)",
        params! { id: change_id },
    )?;
    Ok(ours)
}

/// Returns our reviews on the pull request of a change, oldest first, including those for earlier
/// changes of it.
pub(crate) fn reviews_on_pull(conn: &Connection, change_id: &ChangeId) -> Result<Vec<Intent>> {
    conn.list(
        "SELECT * FROM intents WHERE kind = 'review' AND change_id IN (
             SELECT twin.change_id FROM changes AS one JOIN changes AS twin USING (project_id, pr_number)
             WHERE one.change_id = :id)
         ORDER BY created_at, rowid",
        params! { id: change_id })
}

/// Returns the intents of a change, oldest first.
pub(crate) fn intents_of(
    conn: &Connection,
    change_id: &ChangeId,
    kind: IntentKind,
) -> Result<Vec<Intent>> {
    conn.list(
        "SELECT * FROM intents WHERE change_id = :id AND kind = :kind ORDER BY rowid",
        params! { id: change_id, kind },
    )
}

impl_from_row! { row => Intent {
    key, kind, change_id, marker, tries, trouble, claimed_by, not_before, result, forge_id,
    done_at,
    payload: Payload::read(row.get("kind")?, &row.get::<String>("payload")?),
} }
