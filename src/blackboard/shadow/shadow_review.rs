//! Reviews of changes in shadow mode. They are claimed and run like others, count against the
//! limits, and their results are stored; but no change moves, nothing is rejected, and nothing is
//! posted.

use serde::Serialize;

use crate::blackboard::Result;
use crate::blackboard::sql::{Connection, Json, impl_from_row, params};
use crate::blackboard::work::claim::{Claimed, Holding, fenced, give_back, work_claimed};
use crate::blackboard::work::items::{about_item, change_id_of};
use crate::change::ChangeId;
use crate::clock::Time;
use crate::event::body;
use crate::finding::{Finding, Verdict};
use crate::text::{count, prefixed};
use crate::work::{Claim, ItemId, RunId};

/// Result of a review, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ShadowReview {
    pub(crate) item_id: ItemId,
    pub(crate) change_id: ChangeId,
    pub(crate) run_id: Option<RunId>,
    pub(crate) agent: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) head: String,
    pub(crate) base: Option<String>,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) summary: Option<String>,
    pub(crate) body: Option<String>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) trouble: Option<String>,
}

impl ShadowReview {
    /// Formats the result: `changes_requested by claude, 2 findings: the retry loop never ends`.
    pub(crate) fn text(&self) -> String {
        match (self.verdict, &self.trouble) {
            (Some(verdict), _) => {
                let by = prefixed(" by ", self.agent.as_ref());
                let findings = match self.findings.len() {
                    0 => String::new(),
                    n => format!(", {}", count(n, "finding")),
                };
                let summary = prefixed(": ", self.summary.as_ref());
                format!("{verdict}{by}{findings}{summary}")
            }
            (None, trouble) => format!(
                "not reviewed: {}",
                trouble.as_deref().unwrap_or("no reason was recorded")
            ),
        }
    }
}

/// Query for a review that is blocked by a shadow mode in which reviews are made. One that was
/// started for real is left to finish for real.
const DUE: &str = "SELECT w.item_id FROM changes c INDEXED BY changes_shadow CROSS JOIN work_items w ON w.change_id = c.change_id
                   WHERE c.shadow AND NOT c.paused_by_person AND NOT c.paused_by_rules AND NOT c.stopped AND NOT c.taken_over AND c.held_until IS NULL
                   AND c.state IN ('pending_self_review', 'awaiting_pr_feedback')
                   AND 'review' IS CASE WHEN c.shadow_word IS NULL
                   THEN (SELECT projects.shadow_mode FROM projects WHERE projects.project_id = c.project_id) ELSE c.shadow_mode END
                   AND w.status = 'blocked' AND w.source = 'code_review' AND (w.not_before IS NULL OR w.not_before <= :now)
                   AND NOT EXISTS (SELECT 1 FROM shadow_reviews v WHERE v.item_id = w.item_id)
                   AND NOT EXISTS (SELECT 1 FROM work_items o WHERE o.status = 'claimed' AND o.worktree = w.worktree)
                   ORDER BY w.priority, w.created_at, length(w.item_id), w.item_id LIMIT 1";

/// True if a claim would find anything. Takes no lock.
pub(crate) fn any_shadow_review_due(conn: &Connection, now: Time) -> Result<bool> {
    conn.exists(DUE, params! { now })
}

/// Claims the first review that is due in shadow mode. Its change does not move.
pub(crate) fn claim_shadow_review(
    conn: &Connection,
    holding: &Holding,
    now: Time,
) -> Result<Option<Claimed>> {
    let due: Option<String> = conn.find(DUE, params! { now })?;
    let Some(id) = due else { return Ok(None) };
    let item = conn.value(
        "UPDATE work_items SET status = 'claimed', claimed_by = :holder, epoch = epoch + 1, attempt = attempt + 1,
             lease_expires_at = :until, not_before = NULL
         WHERE item_id = :id AND status = 'blocked' RETURNING *",
        params! { holder: holding.holder, until: now.plus(holding.lease), id })?;
    let change = crate::blackboard::change(conn, change_id_of(&item)?)?;
    let summary = format!("{} {} claimed in shadow mode", item.source, item.item_id);
    let event = about_item(&item, work_claimed(&item, holding), summary);
    crate::blackboard::append(conn, &event, now)?;
    Ok(Some(Claimed {
        item,
        change,
        in_shadow: true,
    }))
}

/// Stores the result of a review in shadow mode, and returns its item to the queue: outside of
/// shadow mode the head is reviewed again.
pub(crate) fn end_shadow_review(
    conn: &Connection,
    claim: &Claim,
    review: &ShadowReview,
    now: Time,
) -> Result<()> {
    let item = fenced(conn, claim)?;
    conn.execute(
        "INSERT INTO shadow_reviews (item_id, change_id, run_id, agent, model, head, base, verdict, summary, body,
             findings, trouble, made_at)
         VALUES (:item_id, :change_id, :run_id, :agent, :model, :head, :base, :verdict, :summary, :body, :findings,
             :trouble, :now)
         ON CONFLICT (item_id) DO NOTHING",
        params! {
            now,
            findings: Json(&review.findings);
            review.{
                item_id, change_id, run_id, agent, model, head, base, verdict, summary, body,
                trouble,
            }
        },
    )?;
    conn.execute(
        "UPDATE runs SET discarded = 1 WHERE item_id = :id AND ended IS NOT NULL",
        params! { id: item.item_id },
    )?;
    give_back(conn, claim, None, now)?;
    conn.execute(
        "UPDATE work_items SET lost_runs = 0, asked_again = 0 WHERE item_id = :id",
        params! { id: item.item_id },
    )?;
    let summary = format!("reviewed in shadow mode, with no effect: {}", review.text());
    // The body may be long, and is stored in its row.
    let shadowed = body::Shadowed {
        item_id: Some(review.item_id.clone()),
        source: Some(item.source),
        change_id: Some(review.change_id.clone()),
        agent: review.agent.clone(),
        model: review.model.clone(),
        trouble: review.trouble.clone(),
        run_id: review.run_id.clone(),
        head: Some(review.head.clone()),
        base: review.base.clone(),
        verdict: review.verdict,
        summary: review.summary.clone(),
        findings: Some(review.findings.clone()),
        ..Default::default()
    };
    let event = about_item(&item, shadowed, summary);
    crate::blackboard::append(conn, &event, now).map(drop)
}

pub(crate) fn shadow_review_of(conn: &Connection, id: &ItemId) -> Result<Option<ShadowReview>> {
    conn.find(
        "SELECT * FROM shadow_reviews WHERE item_id = :id",
        params! { id },
    )
}

impl_from_row! { row => ShadowReview {
    item_id, change_id, run_id, agent, model, head, base, verdict, summary, body, trouble,
    findings: row.get::<Json<_>>("findings")?.0,
} }
