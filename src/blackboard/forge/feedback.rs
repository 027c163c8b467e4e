//! Feedback on a pull request: stored once, as it was when it was first read, with the decision
//! whether it may create work. A later edit is noticed but does not change the stored text.

use std::collections::BTreeMap;

use super::dismissed_review;
use crate::blackboard::sql::{Connection, columns, impl_from_row, params};
use crate::blackboard::{BoardError, Result, from_row};
use crate::change::ChangeId;
use crate::clock::Time;
use crate::event::{NewEvent, body};
use crate::pull_request::{Comment, Feedback, FeedbackOutcome, ReviewState, Trust, TrustDecision};

/// Stores a new comment and returns true if it was new. For a known one, only an edit or a
/// dismissal is recorded.
pub(crate) fn take_in_comment(
    conn: &Connection,
    change_id: &ChangeId,
    comment: &Comment,
    decision: &TrustDecision,
    now: Time,
) -> Result<bool> {
    if let Some(known) = find(conn, change_id, &comment.key())? {
        return note_change(conn, &known, comment, now);
    }
    let feedback_id = from_row::next_id(conn, "g")?;
    let author = comment
        .author
        .as_ref()
        .map_or("ghost", |author| author.login.as_str());
    // Our own posts are known before they are read back, and need no judgement.
    let judged = (decision.trust == Trust::Ours).then_some(FeedbackOutcome::Ours);
    conn.execute(
        "INSERT INTO feedback (feedback_id, change_id, forge_id, author, author_id, trust, trust_reason, is_person, kind,
             state, commit_sha, path, line, hunk, review, in_reply_to, url, body, created_at, updated_at, taken_in,
             judged_at, outcome)
         VALUES (:feedback_id, :change_id, :forge_id, :author, :author_id, :trust, :trust_reason, :is_person, :kind,
             :state, :commit, :path, :line, :hunk, :review, :in_reply_to, :url, :body, :created_at, :updated_at, :now,
             CASE WHEN :judged IS NULL THEN NULL ELSE :now END, :judged)",
        params! {
            feedback_id, change_id, author, now, judged,
            forge_id: comment.key(),
            author_id: comment.author.as_ref().map(|author| author.id),
            trust_reason: decision.reason;
            decision.{ trust, is_person };
            comment.{
                kind, state, commit, path, line, hunk, review, in_reply_to, url, body, created_at,
                updated_at,
            }
        },
    )?;
    if decision.trust == Trust::Ours {
        return Ok(true);
    }
    let what = comment.state.map_or_else(
        || comment.kind.to_string(),
        |state| format!("{} ({state})", comment.kind),
    );
    let trust_note = if decision.trust == Trust::ShownOnly {
        format!("; shown only: {}", decision.reason)
    } else {
        String::new()
    };
    let received = body::FeedbackReceived {
        feedback_id,
        author: author.to_owned(),
        kind: Some(comment.kind.into()),
        trust: Some(decision.trust),
        why: Some(decision.reason.clone()),
        url: Some(comment.url.clone()),
    };
    let event = NewEvent::about(
        change_id,
        received,
        format!("{what} by {author}{trust_note}"),
    )
    .by(format!("github:{author}"));
    crate::blackboard::append(conn, &event, now)?;
    Ok(true)
}

/// Records an edit or a dismissal. The text stays as it was accepted: a comment may be edited by
/// somebody other than its author.
fn note_change(conn: &Connection, known: &Known, comment: &Comment, now: Time) -> Result<bool> {
    // A review has no time of its last edit, so a changed text is the only sign of one, and is
    // reported once.
    let is_recorded = known
        .edited_at
        .as_ref()
        .is_some_and(|at| *at == comment.updated_at);
    if known.body != comment.body && !is_recorded {
        conn.execute(
            "UPDATE feedback SET edited_at = :at WHERE feedback_id = :id",
            params! { at: comment.updated_at, id: known.feedback_id },
        )?;
        let event = NewEvent::about(
            &known.change_id,
            body::Skipped {
                feedback_id: Some(known.feedback_id.clone()),
                url: Some(comment.url.clone()),
                ..body::Skipped::because(body::SkipCode::CommentEdited, "edited after it was read")
            },
            format!(
                "{} was edited after it was read; the original text is used",
                known.feedback_id
            ),
        );
        crate::blackboard::append(conn, &event, now)?;
    }
    if comment.state != Some(ReviewState::Dismissed) || known.state == Some(ReviewState::Dismissed)
    {
        return Ok(false);
    }
    conn.execute(
        "UPDATE feedback SET state = 'DISMISSED' WHERE feedback_id = :id",
        params! { id: known.feedback_id },
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
    if let Some(outcome) = dismissed_review::take_back(conn, &known.change_id, event_id, now)? {
        let skipped = body::Skipped {
            feedback_id: Some(known.feedback_id.clone()),
            event_id: Some(event_id),
            ..body::Skipped::because(body::SkipCode::ReviewDismissed, "the review was dismissed")
        };
        let event = NewEvent::about(&known.change_id, skipped, outcome);
        crate::blackboard::append(conn, &event, now)?;
    }
    judge_approvals_again(conn, &known.change_id)?;
    Ok(true)
}

/// Marks approvals to be judged again, because an objection against them is gone.
fn judge_approvals_again(conn: &Connection, change_id: &ChangeId) -> Result<()> {
    conn.run(
        "UPDATE feedback SET judged_at = NULL, outcome = NULL, outcome_reason = NULL
         WHERE change_id = :id AND state = 'APPROVED' AND outcome = 'objection_stands'",
        params! { id: change_id },
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
        params! { change_id, forge_id },
        |row| {
            Ok(columns! { row => Known {
                feedback_id, body, edited_at, state, event_id,
                change_id: change_id.clone(),
            } })
        },
    )
}

/// Returns the known comments on a change's pull request: their keys there, and when they were last
/// updated.
pub(crate) fn known_comments(
    conn: &Connection,
    change_id: &ChangeId,
) -> Result<BTreeMap<String, String>> {
    let known = conn.list(
        "SELECT forge_id, updated_at FROM feedback WHERE change_id = :id AND kind <> 'person'",
        params! { id: change_id },
    )?;
    Ok(known.into_iter().collect())
}

/// Returns the comments that have not been judged yet, oldest first.
pub(crate) fn unjudged_said(conn: &Connection, change_id: &ChangeId) -> Result<Vec<Feedback>> {
    conn.list(
        "SELECT * FROM feedback INDEXED BY feedback_unjudged
         WHERE change_id = :id AND judged_at IS NULL AND kind <> 'person' ORDER BY length(feedback_id), feedback_id",
        params! { id: change_id })
}

/// Returns inline comments that are context for the next fix and may still turn out to belong to a
/// review, oldest first.
pub(crate) fn judged_alone(conn: &Connection, change_id: &ChangeId) -> Result<Vec<Feedback>> {
    conn.list(
        "SELECT * FROM feedback INDEXED BY feedback_by_change
         WHERE change_id = :id AND kind = 'review_comment' AND review IS NOT NULL AND outcome = 'context'
             AND used_in IS NULL ORDER BY length(feedback_id), feedback_id",
        params! { id: change_id })
}

/// Returns all comments on the pull request of a change, oldest first.
pub(crate) fn said_of(conn: &Connection, change_id: &ChangeId) -> Result<Vec<Feedback>> {
    conn.list(
        "SELECT * FROM feedback WHERE change_id = :id AND kind <> 'person' ORDER BY length(feedback_id), feedback_id",
        params! { id: change_id })
}

/// Returns one piece of feedback by its id.
pub(crate) fn feedback(conn: &Connection, id: &str) -> Result<Feedback> {
    conn.find(
        "SELECT * FROM feedback WHERE feedback_id = :id",
        params! { id },
    )?
    .ok_or_else(|| BoardError::not_found("feedback", id))
}

/// Records the outcome of a comment. The outcome is final, except that context may still become a
/// rejection until a fix was given it.
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
        params! { now, outcome, reason, event_id, id: feedback_id },
    )?;
    Ok(judged > 0)
}

impl_from_row! { row => Feedback {
    feedback_id, change_id, forge_id, author, author_id, trust, trust_reason, is_person, kind,
    state, path, line, hunk, review, in_reply_to, url, body, created_at, taken_in, outcome,
    outcome_reason, event_id,
    commit: row.get("commit_sha")?,
} }
