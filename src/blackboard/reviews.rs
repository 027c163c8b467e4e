//! Finished reviews and the findings in them.

use serde::Serialize;

use super::{Result, from_row};
use crate::blackboard::sql::{Connection, Json, columns, impl_from_row, params};
use crate::blackboard::work::finish::ReviewDone;
use crate::change::{Change, ChangeId};
use crate::clock::Time;
use crate::finding::{Finding, FindingId, Outcome, Resolution, ReviewId, Verdict};
use crate::work::ItemId;

/// Review as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PastReview {
    pub(crate) review_id: ReviewId,
    pub(crate) item_id: ItemId,
    pub(crate) cycle: i64,
    pub(crate) head: String,
    pub(crate) base: String,
    pub(crate) tree: String,
    pub(crate) verdict: Verdict,
    pub(crate) raw_verdict: Option<Verdict>,
    pub(crate) dialect: String,
    pub(crate) reason: String,
    pub(crate) summary: Option<String>,
    pub(crate) body: String,
    pub(crate) files: serde_json::Value,
    /// Fingerprints of the findings that prevented approval.
    pub(crate) blocking: Vec<String>,
    pub(crate) agent: String,
    pub(crate) model: Option<String>,
    pub(crate) created_at: Time,
}

/// Finding as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct OpenFinding {
    pub(crate) finding_id: FindingId,
    #[serde(flatten)]
    pub(crate) finding: Finding,
    pub(crate) outcome: Outcome,
    pub(crate) note: Option<String>,
    /// Reason why it is resolved.
    pub(crate) resolution: Option<Resolution>,
}

impl OpenFinding {
    /// Returns the finding with its id, as it is passed to other modules.
    pub(crate) fn into_finding(self) -> Finding {
        Finding {
            id: Some(self.finding_id),
            ..self.finding
        }
    }
}

/// Stores a review with its findings. Returns its id and the findings with their ids.
///
/// An item has one review: the next attempt replaces an unclear one.
pub(super) fn insert_review(
    conn: &Connection,
    change: &Change,
    item_id: &ItemId,
    done: &ReviewDone,
    now: Time,
) -> Result<(ReviewId, Vec<OpenFinding>)> {
    let review_id = ReviewId::new(from_row::next_id(conn, "v")?);
    let blocking: Vec<String> = done
        .findings
        .iter()
        .filter(|f| f.severity.blocks_at(done.threshold))
        .map(Finding::fingerprint)
        .collect();
    let review_id = conn.value(
        "INSERT INTO reviews (review_id, change_id, item_id, cycle, head, base, tree, files, lines, verdict, raw_verdict,
             dialect, reason, summary, body, blocking, agent, model, created_at)
         VALUES (:review_id, :change_id, :item_id, :cycle, :head, :base, :tree, :files, :lines, :verdict, :raw_verdict,
             :dialect, :reason, :summary, :body, :blocking, :agent, :model, :now)
         ON CONFLICT (item_id) DO UPDATE SET cycle = :cycle, head = :head, base = :base, tree = :tree, files = :files,
             lines = :lines, verdict = :verdict, raw_verdict = :raw_verdict, dialect = :dialect, reason = :reason,
             summary = :summary, body = :body, blocking = :blocking, agent = :agent, model = :model, created_at = :now
         WHERE reviews.verdict = 'unclear'
         RETURNING review_id",
        params! {
            review_id, item_id, now,
            change_id: change.change_id,
            cycle: change.budget.fix_cycle,
            files: Json(&done.files),
            blocking: Json(&blocking);
            done.{
                head, base, tree, lines, verdict, raw_verdict, dialect, reason, summary, body,
                agent, model,
            }
        },
    )?;
    // Findings that are not clear enough for a verdict are not clear enough for the ledger.
    let clear = done
        .findings
        .iter()
        .filter(|_| done.verdict != Verdict::Unclear);
    for finding in clear {
        upsert_finding(conn, &change.change_id, &review_id, finding)?;
    }
    settle_earlier(conn, &change.change_id, &review_id, done)?;
    let named = findings(conn, &change.change_id, &Which::Of(&review_id))?;
    Ok((review_id, named))
}

fn upsert_finding(
    conn: &Connection,
    change_id: &ChangeId,
    review_id: &ReviewId,
    finding: &Finding,
) -> Result<()> {
    let known: Option<String> = conn.find(
        "SELECT finding_id FROM findings WHERE change_id = :change_id AND fingerprint = :fingerprint",
        params! { change_id, fingerprint: finding.fingerprint() },
    )?;
    let finding_id = match known {
        Some(id) => id,
        None => from_row::next_id(conn, "f")?,
    };
    conn.run(
        "INSERT INTO findings (finding_id, change_id, fingerprint, severity, category, path, line, line_end, title, text,
             failure, suggestion, raised_by, outcome, first_review, last_review)
         VALUES (:finding_id, :change_id, :fingerprint, :severity, :category, :path, :line, :line_end, :title, :text,
             :failure, :suggestion, :raised_by, 'open', :review_id, :review_id)
         ON CONFLICT (change_id, fingerprint) DO UPDATE SET severity = :severity, category = :category, line = :line,
             line_end = :line_end, title = :title, text = :text, failure = :failure, suggestion = :suggestion, last_review = :review_id, resolution = NULL,
             outcome = CASE WHEN outcome = 'waived' THEN 'waived' ELSE 'open' END",
        params! {
            finding_id, change_id, review_id,
            fingerprint: finding.fingerprint();
            finding.{
                severity, category, path, line, line_end, title, failure, raised_by, text,
                suggestion,
            }
        },
    )
}

/// Updates findings of earlier reviews with the decisions about them. Others stay as they are.
fn settle_earlier(
    conn: &Connection,
    change_id: &ChangeId,
    review_id: &ReviewId,
    done: &ReviewDone,
) -> Result<()> {
    if !matches!(done.verdict, Verdict::Approved | Verdict::ChangesRequested) {
        return Ok(());
    }
    for earlier in findings(conn, change_id, &Which::NotOf(review_id))? {
        if matches!(earlier.outcome, Outcome::Waived | Outcome::Resolved) {
            continue;
        }
        let judged = done
            .judged
            .iter()
            .find(|(id, _, _)| id == earlier.finding_id.as_str());
        if let Some((_, outcome, resolution)) = judged {
            store_outcome(conn, &earlier.finding_id, *outcome, *resolution, None)?;
        }
    }
    Ok(())
}

pub(super) fn set_outcome(
    conn: &Connection,
    id: &FindingId,
    outcome: Outcome,
    note: Option<&str>,
) -> Result<()> {
    store_outcome(conn, id, outcome, None, note)
}

fn store_outcome(
    conn: &Connection,
    id: &FindingId,
    outcome: Outcome,
    resolution: Option<Resolution>,
    note: Option<&str>,
) -> Result<()> {
    conn.run(
        "UPDATE findings SET outcome = :outcome, resolution = :resolution, note = coalesce(:note, note)
         WHERE finding_id = :id",
        params! { outcome, resolution, note, id },
    )
}

/// Returns the findings that still need action: open, or answered and not yet judged.
pub(crate) fn open_findings(conn: &Connection, change_id: &ChangeId) -> Result<Vec<OpenFinding>> {
    findings(conn, change_id, &Which::Open)
}

/// Returns the head at which each finding of a change was last raised.
pub(crate) fn heads_of_findings(
    conn: &Connection,
    change_id: &ChangeId,
) -> Result<Vec<(FindingId, String)>> {
    conn.list(
        "SELECT finding_id, head FROM findings JOIN reviews ON review_id = last_review WHERE findings.change_id = :id",
        params! { id: change_id })
}

pub(crate) fn finding_list(conn: &Connection, change_id: &ChangeId) -> Result<Vec<OpenFinding>> {
    findings(conn, change_id, &Which::All)
}

/// Returns the findings that no later review than this one raised.
pub(super) fn findings_of(
    conn: &Connection,
    change_id: &ChangeId,
    review: &ReviewId,
) -> Result<Vec<OpenFinding>> {
    findings(conn, change_id, &Which::Of(review))
}

/// Selection of findings of a change.
enum Which<'a> {
    Of(&'a ReviewId),
    NotOf(&'a ReviewId),
    Open,
    All,
}

fn findings(
    conn: &Connection,
    change_id: &ChangeId,
    which: &Which<'_>,
) -> Result<Vec<OpenFinding>> {
    let (sql, review) = match which {
        Which::Of(review) => (
            "SELECT * FROM findings WHERE change_id = :id AND last_review = :review",
            review.as_str(),
        ),
        Which::NotOf(review) => (
            "SELECT * FROM findings WHERE change_id = :id AND last_review <> :review",
            review.as_str(),
        ),
        Which::Open => (
            "SELECT * FROM findings WHERE change_id = :id AND :review = '' AND outcome IN ('open', 'addressed', 'disputed')",
            "",
        ),
        Which::All => (
            "SELECT * FROM findings WHERE change_id = :id AND :review = ''",
            "",
        ),
    };
    let mut found: Vec<OpenFinding> = conn.list(sql, params! { id: change_id, review })?;
    found.sort_by_key(|f| (f.finding_id.as_str().len(), f.finding_id.clone()));
    Ok(found)
}

/// Returns all reviews of a change, oldest first.
pub(crate) fn reviews_of(conn: &Connection, change_id: &ChangeId) -> Result<Vec<PastReview>> {
    conn.list(
        "SELECT * FROM reviews WHERE change_id = :id ORDER BY length(review_id), review_id",
        params! { id: change_id },
    )
}

/// Returns the reviews that count for detecting missing progress: those since a person's last
/// decision.
pub(crate) fn history(conn: &Connection, change_id: &ChangeId) -> Result<Vec<PastReview>> {
    conn.list(
        "SELECT reviews.* FROM reviews JOIN changes USING (change_id)
         WHERE change_id = :id AND (progress_since IS NULL OR reviews.created_at > progress_since)
         ORDER BY length(review_id), review_id",
        params! { id: change_id },
    )
}

pub(crate) fn last_review(conn: &Connection, change_id: &ChangeId) -> Result<Option<PastReview>> {
    Ok(reviews_of(conn, change_id)?.pop())
}

/// Returns a clear verdict on this head against this base. Such a head is not reviewed again.
pub(crate) fn review_of_head(
    conn: &Connection,
    change_id: &ChangeId,
    head: &str,
) -> Result<Option<PastReview>> {
    conn.find(
        "SELECT * FROM reviews WHERE change_id = :id AND head = :head AND verdict IN ('approved', 'changes_requested')
             AND NOT EXISTS (SELECT 1 FROM events WHERE events.change_id = :id AND event_type = 'pr_changed'
                 AND metadata ->> 'what' = 'retargeted' AND timestamp >= reviews.created_at)
         ORDER BY length(review_id) DESC, review_id DESC LIMIT 1",
        params! { id: change_id, head })
}

impl_from_row! { row => PastReview {
    review_id, item_id, cycle, head, base, tree, verdict, raw_verdict, dialect, reason, summary,
    body, files, agent, model, created_at,
    blocking: row.get::<Json<_>>("blocking")?.0,
} }

impl_from_row! { row => OpenFinding {
    finding_id, outcome, note, resolution,
    finding: columns! { row => Finding {
        severity, category, path, line, text, suggestion, line_end, title, failure, raised_by,
        first_review;
        ..Finding::default()
    } },
} }
