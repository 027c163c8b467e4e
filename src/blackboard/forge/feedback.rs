//! What was said on a pull request: stored once, as it was when it was taken in, with the decision whether work may come
//! of it. A later edit is noticed and does not reach what is stored.

use std::collections::BTreeMap;

use super::dismissed_review;
use crate::blackboard::Result;
use crate::blackboard::from_row;
use crate::blackboard::sql::{self, Connection, Row, params};
use crate::change::ChangeId;
use crate::clock::Time;
use crate::event::{NewEvent, body};
use crate::pull_request::FeedbackOutcome;
use crate::pull_request::{Comment, Feedback, ReviewState, Trust};

/// Something that was said, with what may come of it.
#[derive(Debug, Clone)]
pub(crate) struct NewFeedback {
    pub(crate) said: Comment,
    pub(crate) trust: Trust,
    pub(crate) reason: String,
    /// A person, not a bot: begins a round of fixes.
    pub(crate) is_person: bool,
}

/// Stores what is new; says whether it was. Of what is known, only that it was edited or dismissed is noted.
pub(crate) fn take_in_said(
    conn: &Connection,
    change_id: &ChangeId,
    taken: &NewFeedback,
    now: Time,
) -> Result<bool> {
    let said = &taken.said;
    if let Some(known) = find(conn, change_id, &said.key())? {
        return note_change(conn, &known, said, now);
    }
    let feedback_id = from_row::next_id(conn, "g")?;
    let author = said
        .author
        .as_ref()
        .map_or("ghost", |author| author.login.as_str());
    // Our own words are known before they come back: nobody has to look at them.
    let judged = (taken.trust == Trust::Ours).then_some(FeedbackOutcome::Ours);
    conn.execute(
        "INSERT INTO feedback (feedback_id, change_id, forge_id, author, author_id, trust, trust_reason, is_person, kind,
             state, commit_sha, path, line, hunk, review, in_reply_to, url, body, created_at, updated_at, taken_in,
             judged_at, outcome)
         VALUES (:feedback_id, :change_id, :forge_id, :author, :author_id, :trust, :trust_reason, :is_person, :kind,
             :state, :commit, :path, :line, :hunk, :review, :in_reply_to, :url, :body, :created_at, :updated_at, :now,
             CASE WHEN :judged IS NULL THEN NULL ELSE :now END, :judged)",
        params! {
            ":feedback_id": feedback_id,
            ":change_id": change_id,
            ":forge_id": said.key(),
            ":author": author,
            ":author_id": said.author.as_ref().map(|author| author.id),
            ":trust": taken.trust,
            ":trust_reason": taken.reason,
            ":is_person": taken.is_person,
            ":kind": said.kind,
            ":state": said.state,
            ":commit": said.commit,
            ":path": said.path,
            ":line": said.line,
            ":hunk": said.hunk,
            ":review": said.review,
            ":in_reply_to": said.in_reply_to,
            ":url": said.url,
            ":body": said.body,
            ":created_at": said.created_at,
            ":updated_at": said.updated_at,
            ":now": now,
            ":judged": judged,
        },
    )?;
    if taken.trust == Trust::Ours {
        return Ok(true);
    }
    let what = said.state.map_or_else(
        || said.kind.to_string(),
        |state| format!("{} ({state})", said.kind),
    );
    let shown = if taken.trust == Trust::ShownOnly {
        format!("; shown only: {}", taken.reason)
    } else {
        String::new()
    };
    let received = body::FeedbackReceived {
        feedback_id,
        author: author.to_owned(),
        kind: Some(said.kind.into()),
        trust: Some(taken.trust),
        why: Some(taken.reason.clone()),
        url: Some(said.url.clone()),
    };
    let event = NewEvent::about(change_id, received, format!("{what} by {author}{shown}"))
        .by(format!("github:{author}"));
    crate::blackboard::append(conn, &event, now)?;
    Ok(true)
}

/// The text stays as it was accepted: whoever edits a comment may be somebody else than who wrote it.
fn note_change(conn: &Connection, known: &Known, said: &Comment, now: Time) -> Result<bool> {
    // A review has no time of its last edit: then the text alone tells, once.
    let is_told = known
        .edited_at
        .as_ref()
        .is_some_and(|at| *at == said.updated_at);
    if known.body != said.body && !is_told {
        conn.execute(
            "UPDATE feedback SET edited_at = :at WHERE feedback_id = :id",
            params! { ":at": said.updated_at, ":id": known.feedback_id },
        )?;
        let event = NewEvent::about(
            &known.change_id,
            body::Skipped {
                feedback_id: Some(known.feedback_id.clone()),
                url: Some(said.url.clone()),
                ..body::Skipped::because(
                    body::SkipCode::CommentEdited,
                    "edited after it was taken in",
                )
            },
            format!(
                "{} was edited after it was taken in; what it said then counts",
                known.feedback_id
            ),
        );
        crate::blackboard::append(conn, &event, now)?;
    }
    if said.state != Some(ReviewState::Dismissed) || known.state == Some(ReviewState::Dismissed) {
        return Ok(false);
    }
    conn.execute(
        "UPDATE feedback SET state = 'DISMISSED' WHERE feedback_id = :id",
        params! { ":id": known.feedback_id },
    )?;
    let Some(event_id) = known.event_id else {
        return Ok(true);
    };
    dismissed_review::take_back_approval(
        conn,
        &known.feedback_id,
        &crate::blackboard::event(conn, event_id)?,
        now,
    )?;
    if let Some(told) = dismissed_review::take_back(conn, &known.change_id, event_id, now)? {
        let skipped = body::Skipped {
            feedback_id: Some(known.feedback_id.clone()),
            event_id: Some(event_id),
            ..body::Skipped::because(body::SkipCode::ReviewDismissed, "the review was dismissed")
        };
        let event = NewEvent::about(&known.change_id, skipped, told);
        crate::blackboard::append(conn, &event, now)?;
    }
    judge_approvals_again(conn, &known.change_id)?;
    Ok(true)
}

/// Somebody's objection is gone: what it stood against is looked at again.
fn judge_approvals_again(conn: &Connection, change_id: &ChangeId) -> Result<()> {
    conn.run(
        "UPDATE feedback SET judged_at = NULL, outcome = NULL, outcome_reason = NULL
         WHERE change_id = :id AND state = 'APPROVED' AND outcome = 'objection_stands'",
        params! { ":id": change_id },
    )
}

struct Known {
    feedback_id: String,
    change_id: ChangeId,
    body: String,
    edited_at: Option<String>,
    state: Option<ReviewState>,
    event_id: Option<i64>,
}

fn find(conn: &Connection, change_id: &ChangeId, forge_id: &str) -> Result<Option<Known>> {
    conn.optional(
        "SELECT * FROM feedback WHERE change_id = :change_id AND forge_id = :forge_id",
        params! { ":change_id": change_id, ":forge_id": forge_id },
        |row| {
            Ok(Known {
                feedback_id: row.get("feedback_id")?,
                change_id: change_id.clone(),
                body: row.get("body")?,
                edited_at: row.get("edited_at")?,
                state: row.get("state")?,
                event_id: row.get("event_id")?,
            })
        },
    )
}

/// What is known of a change's pull request: its key there, and when it was last updated.
pub(crate) fn known_said(
    conn: &Connection,
    change_id: &ChangeId,
) -> Result<BTreeMap<String, String>> {
    let known = conn.all(
        "SELECT forge_id, updated_at FROM feedback WHERE change_id = :id AND kind <> 'person'",
        params! { ":id": change_id },
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(known.into_iter().collect())
}

/// What nobody has judged yet, oldest first.
pub(crate) fn unjudged_said(conn: &Connection, change_id: &ChangeId) -> Result<Vec<Feedback>> {
    conn.all(
        "SELECT * FROM feedback INDEXED BY feedback_unjudged
         WHERE change_id = :id AND judged_at IS NULL AND kind <> 'person' ORDER BY length(feedback_id), feedback_id",
        params! { ":id": change_id },
        from_row,
    )
}

/// Inline comments that are context for the next fix, and may still turn out to belong to a review; oldest first.
pub(crate) fn judged_alone(conn: &Connection, change_id: &ChangeId) -> Result<Vec<Feedback>> {
    conn.all(
        "SELECT * FROM feedback INDEXED BY feedback_by_change
         WHERE change_id = :id AND kind = 'review_comment' AND review IS NOT NULL AND outcome = 'context'
             AND used_in IS NULL ORDER BY length(feedback_id), feedback_id",
        params! { ":id": change_id },
        from_row,
    )
}

/// All that was said on the pull request of a change, oldest first.
pub(crate) fn said_of(conn: &Connection, change_id: &ChangeId) -> Result<Vec<Feedback>> {
    conn.all(
        "SELECT * FROM feedback WHERE change_id = :id AND kind <> 'person' ORDER BY length(feedback_id), feedback_id",
        params! { ":id": change_id },
        from_row,
    )
}

/// Decides what comes of something that was said; once, except that what is context may become more until a fix was
/// given it.
pub(crate) fn judge(
    conn: &Connection,
    feedback_id: &str,
    (outcome, reason): (FeedbackOutcome, Option<&str>),
    event_id: Option<i64>,
    now: Time,
) -> Result<bool> {
    let judged = conn.execute(
        "UPDATE feedback SET judged_at = :now, outcome = :outcome, outcome_reason = :reason, event_id = :event_id
         WHERE feedback_id = :id AND (judged_at IS NULL OR (outcome = 'context' AND used_in IS NULL))",
        params! { ":now": now, ":outcome": outcome, ":reason": reason, ":event_id": event_id, ":id": feedback_id },
    )?;
    Ok(judged > 0)
}

fn from_row(row: &Row<'_>) -> sql::Result<Feedback> {
    Ok(Feedback {
        feedback_id: row.get("feedback_id")?,
        change_id: row.get("change_id")?,
        forge_id: row.get("forge_id")?,
        author: row.get("author")?,
        author_id: row.get("author_id")?,
        trust: row.get("trust")?,
        trust_reason: row.get("trust_reason")?,
        is_person: row.get("is_person")?,
        kind: row.get("kind")?,
        state: row.get("state")?,
        commit: row.get("commit_sha")?,
        path: row.get("path")?,
        line: row.get("line")?,
        hunk: row.get("hunk")?,
        review: row.get("review")?,
        in_reply_to: row.get("in_reply_to")?,
        url: row.get("url")?,
        body: row.get("body")?,
        created_at: row.get("created_at")?,
        taken_in: row.get("taken_in")?,
        outcome: row.get("outcome")?,
        outcome_reason: row.get("outcome_reason")?,
        event_id: row.get("event_id")?,
    })
}
