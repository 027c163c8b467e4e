//! What evaluators propose, carried out: items, escalations, cursors, all in the caller's one transaction.

use std::collections::BTreeSet;

use super::evaluator_requests::apply_request;
use crate::blackboard::NewItem;
use crate::blackboard::Result;
use crate::blackboard::changes;
use crate::blackboard::rejections;
use crate::blackboard::sql::{Connection, params};
use crate::blackboard::work::items;
use crate::blackboard::work::items::about_item;
use crate::clock::Time;
use crate::event::body::{self, RejectionContext};
use crate::proposal::{Fix, Proposal};
use crate::state::Trigger;
use crate::work::{ItemId, Priority, RejectionState, Source};

/// How much of a rejection's summary the event of a fix repeats.
const SUMMARY_CHARS: usize = 300;

/// How many files it lists.
const PATHS: usize = 20;

/// Carries out one proposal; `false` when it had been carried out before.
pub(crate) fn apply_proposal(
    conn: &Connection,
    evaluator: &str,
    proposal: &Proposal,
    now: Time,
) -> Result<bool> {
    match proposal {
        Proposal::Fix(fix) => create_fix(conn, evaluator, fix, now),
        Proposal::Asked(asked) => apply_request(conn, evaluator, asked, now),
        Proposal::Bound {
            change_id,
            escalation,
        } => {
            if crate::blackboard::rejections_of(conn, change_id, Some(RejectionState::Pending))?
                .is_empty()
            {
                return Ok(false);
            }
            let change = crate::blackboard::change(conn, change_id)?;
            rejections::reopen_for_rejection(conn, &change, now)?;
            crate::blackboard::escalate::bound_reached(conn, change_id, escalation, now)?;
            Ok(true)
        }
    }
}

fn create_fix(conn: &Connection, evaluator: &str, fix: &Fix, now: Time) -> Result<bool> {
    let Some(newest) = fix.rejections.last() else {
        return Ok(false);
    };
    let change = crate::blackboard::change(conn, &fix.change_id)?;
    let new = NewItem {
        rejection_id: Some(newest.clone()),
        title: format!("Fix {}", change.title),
        source: Source::ReviewFix,
        priority: Priority::P1,
        idempotency_key: format!("review_fix:{newest}"),
        fix_cycle: fix.metadata.fix_cycle,
        metadata: serde_json::to_value(&fix.metadata)?,
        actor: evaluator.to_owned(),
    };
    // The key decides before anything else is touched: a proposal that comes late must not cancel the next review.
    let Some(item) = items::insert_item(conn, &change, &new, now)? else {
        return Ok(false);
    };
    rejections::reopen_for_rejection(conn, &change, now)?;
    // A head that is about to change needs no verdict.
    for open in items::items_of(conn, &fix.change_id)? {
        if open.source == Source::CodeReview && open.status.is_open() {
            items::cancel_item(
                conn,
                &open.item_id,
                "a fix of this head was created",
                "remand",
                now,
            )?;
        }
    }
    if fix.begins_round {
        conn.execute(
            "UPDATE changes SET fix_cycle = 0, progress_since = :now, auto_fix = 1 WHERE change_id = :id",
            params! { ":now": now, ":id": fix.change_id },
        )?;
    }
    for rejection in &fix.rejections {
        conn.execute(
            "UPDATE rejections SET state = 'in_fix', item_id = :item_id
             WHERE rejection_id = :rejection_id AND state = 'pending'",
            params! { ":item_id": item.item_id, ":rejection_id": rejection },
        )?;
    }
    changes::advance(conn, &fix.change_id, Trigger::FixCreated, evaluator, now)?;
    let summary = format!(
        "fix {} of {} created from {}",
        fix.metadata.fix_cycle + 1,
        fix.metadata.max_fix_cycles,
        count(fix.rejections.len(), "rejection")
    );
    let event = about_item(
        &fix.change_id,
        &item.item_id,
        body::FixCreated {
            item_id: Some(item.item_id.clone()),
            rejections: fix.rejections.clone(),
            fix_cycle: fix.metadata.fix_cycle,
            max_fix_cycles: fix.metadata.max_fix_cycles,
            context: context(conn, &item.item_id)?,
        },
        summary,
    )
    .by(evaluator);
    crate::blackboard::append(conn, &event, now)?;
    Ok(true)
}

/// A summary of each rejection that a fix answers: who, what, how much and where.
fn context(conn: &Connection, item_id: &ItemId) -> Result<Vec<RejectionContext>> {
    let mut context = Vec::new();
    for rejection in crate::blackboard::rejections_in(conn, item_id)? {
        let findings = &rejection.rejected.findings;
        let paths: BTreeSet<String> = findings
            .iter()
            .filter_map(|finding| finding.path.clone())
            .collect();
        context.push(RejectionContext {
            by: crate::blackboard::event(conn, rejection.event_id)?.actor_id,
            summary: rejection.summary.chars().take(SUMMARY_CHARS).collect(),
            findings: findings.len(),
            severity: findings.iter().map(|finding| finding.severity).min(),
            paths: paths.into_iter().take(PATHS).collect(),
            rejection_id: rejection.rejection_id,
        });
    }
    Ok(context)
}

/// The newest event that an evaluator has moved into rows.
pub(crate) fn cursor(conn: &Connection, evaluator: &str) -> Result<i64> {
    Ok(conn
        .optional(
            "SELECT cursor FROM evaluators WHERE name = :name",
            params! { ":name": evaluator },
            |row| row.get(0),
        )?
        .unwrap_or(0))
}

/// Remembers how far an evaluator came, when it ran, and when its schedule fires next.
pub(crate) fn set_cursor(
    conn: &Connection,
    evaluator: &str,
    cursor: i64,
    next_run: Option<Time>,
    now: Time,
) -> Result<()> {
    conn.run(
        "INSERT INTO evaluators (name, cursor, last_run, next_run) VALUES (:name, :cursor, :now, :next_run)
         ON CONFLICT (name) DO UPDATE SET cursor = max(cursor, :cursor), last_run = :now, next_run = :next_run",
        params! { ":name": evaluator, ":cursor": cursor, ":now": now, ":next_run": next_run },
    )
}

fn count(n: usize, what: &str) -> String {
    if n == 1 {
        format!("1 {what}")
    } else {
        format!("{n} {what}s")
    }
}
