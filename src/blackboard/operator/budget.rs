//! Increases of a change's limits by a person. Limits never grow by themselves.

use super::operator_actions::{BeginsRound, ask_anew, reopen_failed};
use crate::blackboard::sql::{Connection, params};
use crate::blackboard::{BoardError, Result, changes, escalate, rejections};
use crate::change::{Change, ChangeId, State};
use crate::clock::Time;
use crate::event::{NewEvent, body};
use crate::proposal::Bound;
use crate::text::{count, dollars, list, prefixed};

pub(crate) use crate::event::body::Addition;

/// Maximum value of a limit, so that sums do not overflow.
const MOST: i64 = 1_000_000_000_000_000;

/// Person who increases a limit, and the reason.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant<'a> {
    pub(crate) actor: &'a str,
    pub(crate) why: Option<&'a str>,
}

impl Addition {
    /// Formats the increase: `1 more fix, $5.00 more`.
    pub(crate) fn text(&self) -> String {
        let fixes = count(usize::try_from(self.fixes).unwrap_or_default(), "more fix");
        let money = format!("{} more", dollars(self.cost_micros));
        let time = format!("{} s more agent time", self.run_ms / 1000);
        let parts = [
            (self.fixes, fixes),
            (self.cost_micros, money),
            (self.tokens, format!("{} more tokens", self.tokens)),
            (self.run_ms, time),
        ];
        let added = parts.into_iter().filter(|(n, _)| *n > 0);
        list(added.map(|(_, text)| text))
    }
}

/// Raises the limits of a change.
///
/// Spending beyond a limit is not deducted from the increase. A change that one of these limits handed
/// to a person continues: a failed item is retried, and pending rejections become a fix. One that
/// something else stopped still needs its decision.
pub(crate) fn add_budget(
    conn: &Connection,
    id: &ChangeId,
    added: &Addition,
    grant: Grant<'_>,
    now: Time,
) -> Result<Change> {
    let change = crate::blackboard::change(conn, id)?;
    refuse(&change, added)?;
    conn.execute(
        "UPDATE changes SET max_fix_cycles = max_fix_cycles + :fixes, added_fix_cycles = added_fix_cycles + :fixes,
             max_total_fixes = CASE WHEN :fixes > 0 THEN max(max_total_fixes, total_fixes + :fixes) ELSE max_total_fixes END,
             max_run_ms = CASE WHEN :ms > 0 THEN min(max(max_run_ms, run_ms) + :ms, :most) ELSE max_run_ms END,
             max_tokens = CASE WHEN :tokens > 0 THEN min(max(max_tokens, tokens) + :tokens, :most) ELSE max_tokens END,
             max_cost_micros = CASE WHEN :cost > 0 THEN min(max(max_cost_micros, cost_micros) + :cost, :most)
                 ELSE max_cost_micros END,
             updated_at = :now
         WHERE change_id = :id",
        params! {
            now, id,
            ms: added.run_ms,
            cost: added.cost_micros,
            most: MOST;
            added.{ fixes, tokens }
        },
    )?;
    let Grant { actor, why } = grant;
    let (text, reason) = (added.text(), prefixed(": ", why));
    let raised = body::Instructed {
        added: Some(*added),
        ..body::Instructed::new(body::Action::Budget, why.unwrap_or(""), actor)
    };
    let summary = format!("{actor} allowed {text}{reason}");
    let event = NewEvent::about(id, raised, summary).by(actor);
    crate::blackboard::append(conn, &event, now)?;
    let stopped_by = escalate::last(conn, id)?.as_ref().and_then(Bound::of);
    let is_lifted = stopped_by.is_some_and(|bound| bound.is_lifted_by(added));
    if change.state != State::Escalated || !is_lifted {
        return crate::blackboard::change(conn, id);
    }
    match escalate::failed_item(conn, id)? {
        _ if added.fixes > 0 => ask_anew(conn, &change, None, BeginsRound::No, actor, now),
        Some(failed) => reopen_failed(conn, id, &failed, actor, now),
        None => rejections::answer_escalation(conn, &change, actor, now),
    }
}

fn refuse(change: &Change, added: &Addition) -> Result<()> {
    let id = &change.change_id;
    changes::refuse_if_over(change, "its limits can no longer be raised")?;
    let all = [added.fixes, added.run_ms, added.tokens, added.cost_micros];
    if all.iter().any(|n| *n < 0) || *added == Addition::default() {
        return Err(BoardError::refused_with_hint(
            format!("nothing to add to the limits of {id}"),
            "the number must be at least 1; to stop a change, use `remand pause` or `remand cancel`",
        ));
    }
    let (money, tokens) = (change.budget.max_cost_micros, change.budget.max_tokens);
    let limits = [
        ("money", added.cost_micros, money),
        ("tokens", added.tokens, tokens),
    ];
    let is_unbounded = |(_, added, most): &&(&str, i64, Option<i64>)| *added > 0 && most.is_none();
    match limits.iter().find(is_unbounded) {
        Some((what, ..)) => Err(BoardError::refused_with_hint(
            format!("{id} has no limit on {what} to raise"),
            format!("`remand status {id}` shows its limits"),
        )),
        None => Ok(()),
    }
}
