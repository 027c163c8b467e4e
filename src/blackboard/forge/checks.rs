//! Checks of the head of a pull request: as they were last read, and what followed from each.

use crate::blackboard::Result;
use crate::blackboard::forge::outbox::{NewIntent, intend};
use crate::blackboard::rejections;
use crate::blackboard::sql::{Connection, Json, impl_from_row, params};
use crate::change::{Change, ChangeId, ReviewStage, State, Trigger};
use crate::check::{
    Check, CheckAnswer, ChecksSummary, Evidence, FoundEvidence, ReportedCheck, Rerun, RerunCall,
    summary,
};
use crate::clock::Time;
use crate::event::body::{self, Cause, SkipCode};
use crate::event::{EventType, NewEvent};
use crate::finding::Verdict;
use crate::intent::{Payload, RerunRequest};
use crate::text::short_sha;
use crate::work::RejectionState;

/// Result of reading the checks of a pull request's head.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadChecks {
    pub(crate) head: String,
    /// Checks on pages that have changed.
    pub(crate) reported: Vec<ReportedCheck>,
    /// Names of required checks.
    pub(crate) required: Vec<String>,
    /// Set if checks that are not required count as well.
    pub(crate) all_count: bool,
    pub(crate) may_rerun: bool,
    pub(crate) evidence: Vec<FoundEvidence>,
    /// Reason why the checks cannot be read.
    pub(crate) trouble: Option<String>,
}

/// Stores the checks of a head. Those of an older head are dropped: nothing follows from them any more.
pub(super) fn take_in_checks(
    conn: &Connection,
    id: &ChangeId,
    read: &ReadChecks,
    now: Time,
) -> Result<()> {
    let head = &read.head;
    conn.run(
        "DELETE FROM checks WHERE change_id = :id AND head <> :head",
        params! { id, head },
    )?;
    for check in &read.reported {
        take_in_one(conn, id, head, check, now)?;
    }
    let required = Json(&read.required);
    conn.run(
        "DELETE FROM checks WHERE change_id = :id AND kind = 'missing' AND (
             :unknown OR name NOT IN (SELECT value FROM json_each(:required))
             OR EXISTS (SELECT 1 FROM checks AS other WHERE other.change_id = checks.change_id
                 AND other.name = checks.name AND other.kind <> 'missing'))",
        params! { id, required, unknown: read.trouble.is_some() },
    )?;
    if read.trouble.is_none() {
        conn.run(
            "INSERT INTO checks (change_id, kind, name, app, head, state, detail, seen_at)
             SELECT DISTINCT :id, 'missing', value, '', :head, 'pending', 'missing', :now FROM json_each(:required)
             WHERE NOT EXISTS (SELECT 1 FROM checks WHERE checks.change_id = :id AND checks.name = json_each.value)",
            params! { id, head, now, required },
        )?;
    }
    conn.run(
        "UPDATE checks SET required = name IN (SELECT value FROM json_each(:required)),
             counts = :all_count OR name IN (SELECT value FROM json_each(:required)),
             may_rerun = :may_rerun AND kind = 'run'
         WHERE change_id = :id",
        params! { id, required; read.{ all_count, may_rerun } },
    )?;
    for found in &read.evidence {
        conn.run(
            "UPDATE checks SET evidence = 'read', on_base = :on_base, log = :log, log_trouble = :log_trouble
             WHERE change_id = :id AND kind = :kind AND forge_id = :forge_id AND evidence = 'wanted'",
            params! { id; found.{ kind, forge_id, on_base, log, log_trouble } },
        )?;
    }
    sum_up(conn, id, read)
}

/// Stores a check, unless a newer run of the same name and app is known. What was found out about an earlier run is not
/// true of a new one; that it was run again stays true for this commit.
fn take_in_one(
    conn: &Connection,
    id: &ChangeId,
    head: &str,
    check: &ReportedCheck,
    now: Time,
) -> Result<()> {
    let is_red = check.state.is_red();
    conn.run(
        "INSERT INTO checks (change_id, kind, name, app, head, forge_id, state, detail, url, started_at, completed_at, seen_at, red_since)
         VALUES (:id, :kind, :name, :app, :head, :forge_id, :state, :detail, :url, :started_at, :completed_at, :now,
             CASE WHEN :is_red THEN :now END)
         ON CONFLICT (change_id, kind, app, name) DO UPDATE SET
             evidence = CASE WHEN forge_id = :forge_id AND state = :state THEN evidence END,
             on_base = CASE WHEN forge_id = :forge_id AND state = :state THEN on_base END,
             log = CASE WHEN forge_id = :forge_id AND state = :state THEN log END,
             log_trouble = CASE WHEN forge_id = :forge_id AND state = :state THEN log_trouble END,
             answer = CASE WHEN forge_id = :forge_id AND state = :state OR answer = 'rejected' THEN answer END,
             red_since = CASE WHEN :is_red THEN coalesce(red_since, :now) END,
             forge_id = :forge_id, state = :state, detail = :detail, url = :url, started_at = :started_at, completed_at = :completed_at
         WHERE forge_id <= :forge_id",
        params! { id, head, is_red, now; check.{ kind, name, app, forge_id, state, detail, url, started_at, completed_at } },
    )
}

/// Sums up the checks on the pull request. It is judged again while a result is open, since time alone may decide.
fn sum_up(conn: &Connection, id: &ChangeId, read: &ReadChecks) -> Result<()> {
    let sum = summary(&checks_at(conn, id, &read.head)?);
    conn.run(
        "UPDATE pulls SET checks_trouble = :trouble, checks = :sum,
             is_judged = CASE WHEN :is_open OR checks <> :sum THEN 0 ELSE is_judged END
         WHERE change_id = :id",
        params! { id, sum, is_open: !sum.is_green(), trouble: read.trouble },
    )
}

/// Returns the checks of the head of a change's pull request, required ones first.
pub(crate) fn checks_of(conn: &Connection, id: &ChangeId) -> Result<Vec<Check>> {
    conn.list(
        "SELECT checks.* FROM pulls CROSS JOIN checks ON checks.change_id = pulls.change_id AND checks.head = pulls.head_sha
         WHERE pulls.change_id = :id ORDER BY checks.required DESC, checks.name, checks.app, checks.kind",
        params! { id },
    )
}

/// Makes a pull request wait for its checks until they were read for the first time.
pub(in crate::blackboard) fn expect_checks(conn: &Connection, id: &ChangeId) -> Result<()> {
    conn.run(
        "UPDATE pulls SET checks = 'pending' WHERE change_id = :id",
        params! { id },
    )
}

fn checks_at(conn: &Connection, id: &ChangeId, head: &str) -> Result<Vec<Check>> {
    conn.list(
        "SELECT * FROM checks WHERE change_id = :id AND head = :head",
        params! { id, head },
    )
}

/// Returns the checks whose evidence was requested.
pub(crate) fn wanted_evidence(conn: &Connection, id: &ChangeId) -> Result<Vec<Check>> {
    conn.list(
        "SELECT * FROM checks WHERE change_id = :id AND evidence = 'wanted' ORDER BY name, app",
        params! { id },
    )
}

/// Returns the result of the checks of a change, as last read.
pub(in crate::blackboard) fn summary_of(conn: &Connection, id: &ChangeId) -> Result<ChecksSummary> {
    let found = conn.find(
        "SELECT checks FROM pulls WHERE change_id = :id",
        params! { id },
    )?;
    Ok(found.unwrap_or(ChecksSummary::None))
}

/// True if a change on a pull request has nothing left to do but to wait for its checks: its head passed the review, or
/// is not reviewed, and nothing is open.
pub(crate) fn is_past_review(conn: &Connection, change: &Change) -> Result<bool> {
    let id = &change.change_id;
    if change.state != State::AwaitingPrFeedback {
        return Ok(false);
    }
    let is_busy = conn.exists(
        "SELECT 1 FROM work_items WHERE change_id = :id AND status IN ('available', 'claimed', 'blocked')
             AND source IN ('code_review', 'review_fix', 'pull_request')",
        params! { id },
    )?;
    let waits =
        |state| rejections::rejections_of(conn, id, Some(state)).map(|found| !found.is_empty());
    if is_busy || waits(RejectionState::Pending)? || waits(RejectionState::InFix)? {
        return Ok(false);
    }
    // It passed, or a person or a setting let it pass, before it began to wait.
    let moved = crate::blackboard::events_of_type(conn, id, EventType::StateChanged, 1)?;
    let is_passed = moved
        .iter()
        .filter_map(|event| event.body::<body::StateChanged>()?.on)
        .any(|on| match on {
            Cause::Trigger(Trigger::ReviewApproved | Trigger::ChecksOpen) => true,
            Cause::Trigger(Trigger::PrRecorded) => change.review != ReviewStage::OnPr,
            Cause::Trigger(_) | Cause::Entered => false,
        });
    if !change.is_reviewed() || is_passed {
        return Ok(true);
    }
    let review = crate::blackboard::review_of_head(conn, id, &change.head)?;
    Ok(review.is_some_and(|review| review.verdict == Verdict::Approved))
}

/// Stores the request to run checks again, once for each check of a commit.
pub(in crate::blackboard) fn request_rerun(
    conn: &Connection,
    change: &Change,
    ids: &[i64],
    call: RerunCall,
    now: Time,
) -> Result<bool> {
    let id = &change.change_id;
    let names = conn.list(
        "UPDATE checks SET rerun = 'open', reran_id = forge_id
         WHERE change_id = :id AND head = :head AND kind = 'run' AND rerun IS NULL
             AND forge_id IN (SELECT value FROM json_each(:ids))
         RETURNING name",
        params! { id, head: change.head, ids: Json(ids) },
    )?;
    let Some(first) = ids.iter().min().filter(|_| !names.is_empty()) else {
        return Ok(false);
    };
    let new = NewIntent {
        key: format!("rerun:{id}:{}:{first}", short_sha(&change.head)),
        change_id: id.clone(),
        payload: Payload::Rerun(RerunRequest {
            head: change.head.clone(),
            checks: ids.to_vec(),
            names,
            call: Some(call),
        }),
        epoch: 0,
    };
    intend(conn, &new, now)
}

/// Records the end of a request to run checks again.
pub(super) fn end_rerun(
    conn: &Connection,
    id: &ChangeId,
    request: &RerunRequest,
    end: Rerun,
    now: Time,
) -> Result<()> {
    conn.run(
        "UPDATE checks SET rerun = :end, rerun_at = :now
         WHERE change_id = :id AND head = :head AND rerun = 'open'
             AND reran_id IN (SELECT value FROM json_each(:ids))",
        params! { id, end, now, head: request.head, ids: Json(&request.checks) },
    )?;
    super::pulls::judge_again(conn, id)
}

/// Requests the evidence about failing checks, with a read as soon as possible.
pub(in crate::blackboard) fn want_evidence(
    conn: &Connection,
    change: &Change,
    ids: &[i64],
    now: Time,
) -> Result<bool> {
    let id = &change.change_id;
    let wanted = conn.execute(
        "UPDATE checks SET evidence = :wanted
         WHERE change_id = :id AND head = :head AND evidence IS NULL AND state = 'failing' AND forge_id IN (SELECT value FROM json_each(:ids))",
        params! { id, wanted: Evidence::Wanted, head: change.head, ids: Json(ids) },
    )?;
    super::pulls::want_read(conn, id, now)?;
    Ok(wanted > 0)
}

/// Records the consequence that was drawn from checks. Returns false if it was recorded before.
pub(in crate::blackboard) fn answer_checks(
    conn: &Connection,
    change: &Change,
    names: &[String],
    answer: CheckAnswer,
) -> Result<bool> {
    let answered = conn.execute(
        "UPDATE checks SET answer = :answer
         WHERE change_id = :id AND head = :head AND answer IS NULL AND name IN (SELECT value FROM json_each(:names))",
        params! { id: change.change_id, head: change.head, answer, names: Json(names) },
    )?;
    Ok(answered > 0)
}

/// Tells a person about checks that no agent is given, once for each check of a commit.
pub(in crate::blackboard) fn report_checks(
    conn: &Connection,
    change: &Change,
    names: &[String],
    (code, answer): (SkipCode, CheckAnswer),
    reason: &str,
    now: Time,
) -> Result<bool> {
    if !answer_checks(conn, change, names, answer)? {
        return Ok(false);
    }
    let skipped = body::Skipped {
        text: Some(names.join("\n")),
        ..body::Skipped::because(code, reason)
    };
    let event = NewEvent::about(&change.change_id, skipped, reason);
    crate::blackboard::append(conn, &event, now)?;
    Ok(true)
}

impl_from_row! { row => Check {
    kind, name, app, head, forge_id, required, counts, state, detail, url, started_at,
    completed_at, seen_at, red_since, may_rerun, rerun, rerun_at, reran_id, evidence, on_base,
    log, log_trouble, answer,
} }
