//! Applies the requests of command evaluators, each once per key; a refused request is reported once, with the reason.
//! Also records failures of evaluators: each is reported once, and retried after increasing delays.

use serde::Serialize;
use serde_json::json;

use crate::blackboard::connection::savepoint::apart;
use crate::blackboard::sql::{Connection, impl_from_row, params};
use crate::blackboard::work::items;
use crate::blackboard::{BoardError, Guidance, NewItem, Result};
use crate::change::{Change, ChangeId, State};
use crate::clock::Time;
use crate::event::{EventType, NewEvent, TargetType, body};
use crate::finding::Verdict;
use crate::proposal::{Decision, Escalation, EvaluatorRequest, RequestKind, decision};
use crate::sanitize;
use crate::text::count;
use serde_json::Value;

/// Outcome of an applied proposal. Any other outcome means that it was refused.
const DONE: &str = "done";
const REFUSED: &str = "refused";

/// Prefix of the keys of lines that could not be parsed.
const LINE: &str = "line: ";
/// Sorts after all keys of lines.
const PAST_LINES: &str = "line:!";
/// Maximum number of different lines of one evaluator that are reported per day.
const MOST_LINES: i64 = 50;

/// An evaluator whose last passes failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RequestError {
    pub(crate) name: String,
    pub(crate) failures: i64,
    pub(crate) reason: String,
    pub(crate) since: Time,
    pub(crate) try_again: Time,
}

/// Applies a request. Returns true if anything new was written: the result, or the reason for a refusal.
pub(crate) fn apply_request(
    conn: &Connection,
    evaluator: &str,
    request: &EvaluatorRequest,
    now: Time,
) -> Result<bool> {
    let before: Option<String> = conn.find(
        "SELECT outcome FROM proposals WHERE evaluator = :evaluator AND key = :key",
        params! { evaluator, key: request.key },
    )?;
    if before.as_deref() == Some(DONE) {
        return Ok(false);
    }
    let carry_out = || carry_out(conn, evaluator, request, now).map(|()| None);
    match apart(conn, carry_out, |error| Ok(Some(error)))? {
        None => record(conn, evaluator, &request.key, (DONE, None), now),
        Some(error) => {
            let about =
                change_of(&request.what).filter(|id| crate::blackboard::change(conn, id).is_ok());
            let reason = sanitize::chain(&error);
            let summary = format!(
                "proposal `{}` of {evaluator} was refused: {reason}",
                sanitize::line(&request.key)
            );
            let skipped = body::Skipped {
                key: Some(request.key.clone()),
                ..body::Skipped::because(body::SkipCode::ProposalRefused, &reason)
            };
            let event = about_evaluator(evaluator, skipped, summary).of(about);
            append_once(conn, evaluator, &request.key, &reason, &event, now)
        }
    }
}

/// Reports a line that could not be parsed, once per line.
pub(crate) fn skip_line(
    conn: &Connection,
    evaluator: &str,
    (number, line): (usize, &str),
    reason: &str,
    now: Time,
) -> Result<bool> {
    let key = format!("{LINE}{line}");
    if is_line_limit_reached(conn, evaluator, &key, now)? {
        let reason = format!("{MOST_LINES} invalid lines in one day");
        let summary = format!("{reason} from {evaluator}; no more are reported until tomorrow");
        let skipped = body::Skipped::because(body::SkipCode::LineLimit, &reason);
        let event = about_evaluator(evaluator, skipped, summary);
        return append_once(conn, evaluator, LINE, &reason, &event, now);
    }
    let summary = format!("line {number} of {evaluator} is not a valid proposal: {reason}: {line}");
    let skipped = body::Skipped {
        line: Some(number),
        text: Some(line.to_owned()),
        ..body::Skipped::because(body::SkipCode::LineRefused, reason)
    };
    let event = about_evaluator(evaluator, skipped, summary);
    append_once(conn, evaluator, &key, reason, &event, now)
}

/// True if the daily number of reported lines of an evaluator is reached and this line is not one of them: with a time
/// or a number in it, every line would be a new one.
fn is_line_limit_reached(conn: &Connection, evaluator: &str, key: &str, now: Time) -> Result<bool> {
    let (reported, is_known): (i64, bool) = conn.value(
        "SELECT coalesce(sum(made_at >= :today), 0), coalesce(max(key = :key), 0) FROM proposals
         WHERE evaluator = :evaluator AND key > :line AND key < :past",
        params! { today: day_of(now), key, evaluator, line: LINE, past: PAST_LINES },
    )?;
    Ok(reported >= MOST_LINES && !is_known)
}

/// `2026-11-16`, which sorts before every time of that day.
fn day_of(now: Time) -> String {
    now.to_string().chars().take(10).collect()
}

fn append_once(
    conn: &Connection,
    evaluator: &str,
    key: &str,
    reason: &str,
    event: &NewEvent,
    now: Time,
) -> Result<bool> {
    let is_new = record(conn, evaluator, key, (REFUSED, Some(reason)), now)?;
    if is_new {
        crate::blackboard::append(conn, event, now)?;
    }
    Ok(is_new)
}

/// Records the outcome and returns true if it is a new one. A repeated refusal is reported once per day.
fn record(
    conn: &Connection,
    evaluator: &str,
    key: &str,
    (outcome, reason): (&str, Option<&str>),
    now: Time,
) -> Result<bool> {
    let written = conn.execute(
        "INSERT INTO proposals (evaluator, key, outcome, reason, made_at) VALUES (:evaluator, :key, :outcome, :reason, :now)
         ON CONFLICT (evaluator, key) DO UPDATE SET outcome = :outcome, reason = :reason, made_at = :now
         WHERE outcome <> :outcome OR (outcome <> 'done' AND made_at < :today)",
        params! { evaluator, key, outcome, reason, now, today: day_of(now) },
    )?;
    Ok(written == 1)
}

fn carry_out(
    conn: &Connection,
    evaluator: &str,
    request: &EvaluatorRequest,
    now: Time,
) -> Result<()> {
    match &request.what {
        RequestKind::Item {
            change_id,
            project_id,
            source,
            priority,
            title,
            description,
        } => {
            let new = NewItem {
                rejection_id: None,
                title: title.clone(),
                source: *source,
                priority: *priority,
                // Prefixed with the name, so that no evaluator can use up a key of another, or of remand itself.
                idempotency_key: format!("{evaluator}:{}", request.key),
                fix_cycle: 0,
                metadata: json!({ "evaluator": evaluator }),
                actor: evaluator.to_owned(),
            };
            let item = match (change_id, project_id) {
                (Some(id), _) => items::insert_item(conn, &live(conn, id)?, &new, now)?,
                (None, Some(id)) => {
                    let project = crate::blackboard::project(conn, id)?;
                    items::insert(conn, &project.project_id, None, &new, now)?
                }
                (None, None) => None,
            };
            if let Some(item) = item {
                conn.execute(
                    "UPDATE work_items SET description = :text WHERE item_id = :id",
                    params! { text: description, id: item.item_id },
                )?;
            }
            Ok(())
        }
        RequestKind::Reject { change_id, text } => {
            let change = live(conn, change_id)?;
            let first = text.trim().lines().next().unwrap_or_default();
            let summary = first.chars().take(200).collect::<String>();
            let rejected = body::WorkRejected {
                verdict: Some(Verdict::ChangesRequested),
                head: Some(change.head),
                body: text.clone(),
                // Otherwise a program could have a change fixed forever.
                begins_round: Some(false),
                ..Default::default()
            };
            crate::blackboard::reject_change(conn, change_id, evaluator, &summary, &rejected, now)
                .map(drop)
        }
        RequestKind::Escalate {
            change_id,
            reason,
            decide,
        } => {
            if live(conn, change_id)?.state == State::Escalated {
                let what = format!("{change_id} is already waiting for a person");
                return Err(BoardError::refused(what));
            }
            let decision = decide.clone().map(Decision::from).unwrap_or_else(|| {
                decision!(
                    "review it, then accept it ({approve}), request changes ({refine}) or close it ({cancel})",
                    approve = Decision::approve(change_id),
                    refine = Decision::refine(change_id),
                    cancel = Decision::cancel(change_id),
                )
            });
            let escalation = Escalation::new(format!("{evaluator}: {reason}"), decision);
            crate::blackboard::escalate(conn, change_id, &escalation, now).map(drop)
        }
        RequestKind::Comment { change_id, text } => {
            live(conn, change_id)?;
            let guidance = Guidance {
                author: evaluator.to_owned(),
                body: text.clone(),
            };
            crate::blackboard::add_guidance(conn, change_id, &guidance, now)
        }
    }
}

fn live(conn: &Connection, id: &ChangeId) -> Result<Change> {
    let change = crate::blackboard::change(conn, id)?;
    if change.state.is_over() {
        let what = format!("{id} is already {}", change.state);
        return Err(BoardError::refused(what));
    }
    Ok(change)
}

fn change_of(what: &RequestKind) -> Option<&ChangeId> {
    match what {
        RequestKind::Item { change_id, .. } => change_id.as_ref(),
        RequestKind::Reject { change_id, .. }
        | RequestKind::Escalate { change_id, .. }
        | RequestKind::Comment { change_id, .. } => Some(change_id),
    }
}

fn about_evaluator(
    name: &str,
    body: impl Into<(EventType, Value)>,
    summary: impl Into<String>,
) -> NewEvent {
    // The evaluator itself is the actor, so that the event does not wake it.
    NewEvent::new(body, summary)
        .on(TargetType::Evaluator, name)
        .by(name)
}

/// Records a failed pass, whose output is not used. Only the first of several consecutive failures
/// appends an event.
pub(crate) fn count_trouble(
    conn: &Connection,
    name: &str,
    reason: &str,
    try_again: Time,
    now: Time,
) -> Result<()> {
    let failures: i64 = conn.value(
        "INSERT INTO evaluator_troubles (name, failures, reason, since, try_again)
         VALUES (:name, 1, :reason, :now, :try_again)
         ON CONFLICT (name) DO UPDATE SET failures = failures + 1, reason = :reason, try_again = :try_again
         RETURNING failures",
        params! { name, reason, now, try_again },
    )?;
    if failures == 1 {
        let summary = format!("{name} failed and its output was not used: {reason}");
        let skipped = body::Skipped::because(body::SkipCode::EvaluatorFailed, reason);
        let event = about_evaluator(name, skipped, summary);
        crate::blackboard::append(conn, &event, now)?;
    }
    Ok(())
}

/// Records a successful pass. Returns true if the previous one had failed.
pub(crate) fn end_trouble(conn: &Connection, name: &str, now: Time) -> Result<bool> {
    let Some(trouble) = trouble_of(conn, name)? else {
        return Ok(false);
    };
    conn.execute(
        "DELETE FROM evaluator_troubles WHERE name = :name",
        params! { name },
    )?;
    let failures = count(
        usize::try_from(trouble.failures).unwrap_or_default(),
        "pass",
    );
    let summary = format!("{name} works again ({failures} failed)");
    let resumed = body::Resumed {
        reason: "it works again".to_owned(),
        held_for: None,
    };
    let event = about_evaluator(name, resumed, summary);
    crate::blackboard::append(conn, &event, now)?;
    Ok(true)
}

pub(crate) fn trouble_of(conn: &Connection, name: &str) -> Result<Option<RequestError>> {
    conn.find(
        "SELECT * FROM evaluator_troubles WHERE name = :name",
        params! { name },
    )
}

pub(crate) fn troubles(conn: &Connection) -> Result<Vec<RequestError>> {
    conn.list("SELECT * FROM evaluator_troubles ORDER BY name", &[])
}

impl_from_row! { row => RequestError { name, failures, reason, since, try_again } }
