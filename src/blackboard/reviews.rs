//! Finished reviews and the findings in them.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde::Serialize;

use super::{Result, from_row};
use crate::blackboard::work::finish::ReviewDone;
use crate::change::{Change, ChangeId};
use crate::clock::Time;
use crate::finding::{
    Category, Finding, FindingId, Outcome, Resolution, ReviewId, Severity, Verdict,
};
use crate::work::ItemId;

/// A review as it is stored.
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
    /// Fingerprints of the findings that kept the change from being approved.
    pub(crate) blocking: Vec<String>,
    pub(crate) created_at: Time,
}

/// A finding as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct OpenFinding {
    pub(crate) finding_id: FindingId,
    #[serde(flatten)]
    pub(crate) finding: Finding,
    pub(crate) outcome: Outcome,
    pub(crate) note: Option<String>,
    /// Why it is resolved.
    pub(crate) resolution: Option<Resolution>,
}

impl OpenFinding {
    /// The finding with its id, as it is given to others.
    pub(crate) fn into_finding(self) -> Finding {
        Finding {
            id: Some(self.finding_id),
            ..self.finding
        }
    }
}

/// Stores a review with its findings; returns its id and the findings with their ids. An item has one review: the
/// next try takes the place of one that was unclear.
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
    let mut statement = conn.prepare_cached(
        "INSERT INTO reviews (review_id, change_id, item_id, cycle, head, base, tree, files, lines, verdict, raw_verdict,
             dialect, reason, summary, body, blocking, agent, model, created_at)
         VALUES (:review_id, :change_id, :item_id, :cycle, :head, :base, :tree, :files, :lines, :verdict, :raw_verdict,
             :dialect, :reason, :summary, :body, :blocking, :agent, :model, :now)
         ON CONFLICT (item_id) DO UPDATE SET cycle = :cycle, head = :head, base = :base, tree = :tree, files = :files,
             lines = :lines, verdict = :verdict, raw_verdict = :raw_verdict, dialect = :dialect, reason = :reason,
             summary = :summary, body = :body, blocking = :blocking, agent = :agent, model = :model, created_at = :now
         WHERE reviews.verdict = 'unclear'
         RETURNING review_id",
    )?;
    let stored = named_params! {
        ":review_id": review_id.as_str(),
        ":change_id": change.change_id.as_str(),
        ":item_id": item_id.as_str(),
        ":cycle": change.budget.fix_cycle,
        ":head": done.head,
        ":base": done.base,
        ":tree": done.tree,
        ":files": serde_json::to_string(&done.files)?,
        ":lines": done.lines,
        ":verdict": done.verdict.as_str(),
        ":raw_verdict": done.raw_verdict.map(Verdict::as_str),
        ":dialect": done.dialect,
        ":reason": done.reason,
        ":summary": done.summary,
        ":body": done.body,
        ":blocking": serde_json::to_string(&blocking)?,
        ":agent": done.agent,
        ":model": done.model,
        ":now": now.to_string(),
    };
    let review_id = ReviewId::new(statement.query_row(stored, |row| row.get::<_, String>(0))?);
    // What was not clear enough for a verdict is not clear enough for the ledger.
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
    let known: Option<String> = conn
        .prepare_cached("SELECT finding_id FROM findings WHERE change_id = :change_id AND fingerprint = :fingerprint")?
        .query_row(named_params! { ":change_id": change_id.as_str(), ":fingerprint": finding.fingerprint() }, |row| {
            row.get(0)
        })
        .optional()?;
    let finding_id = match known {
        Some(id) => id,
        None => from_row::next_id(conn, "f")?,
    };
    conn.prepare_cached(
        "INSERT INTO findings (finding_id, change_id, fingerprint, severity, category, path, line, text, suggestion,
             outcome, first_review, last_review)
         VALUES (:finding_id, :change_id, :fingerprint, :severity, :category, :path, :line, :text, :suggestion,
             'open', :review_id, :review_id)
         ON CONFLICT (change_id, fingerprint) DO UPDATE SET severity = :severity, category = :category, line = :line,
             text = :text, suggestion = :suggestion, last_review = :review_id, resolution = NULL,
             outcome = CASE WHEN outcome = 'waived' THEN 'waived' ELSE 'open' END",
    )?
    .execute(named_params! {
        ":finding_id": finding_id,
        ":change_id": change_id.as_str(),
        ":fingerprint": finding.fingerprint(),
        ":severity": finding.severity.as_str(),
        ":category": finding.category.as_str(),
        ":path": finding.path,
        ":line": finding.line,
        ":text": finding.text,
        ":suggestion": finding.suggestion,
        ":review_id": review_id.as_str(),
    })?;
    Ok(())
}

/// Findings of earlier reviews become what was decided about them; the rest stays as it is.
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
    conn.prepare_cached(
        "UPDATE findings SET outcome = :outcome, resolution = :resolution, note = coalesce(:note, note)
         WHERE finding_id = :id",
    )?
    .execute(named_params! {
        ":outcome": outcome.as_str(),
        ":resolution": resolution.map(Resolution::as_str),
        ":note": note,
        ":id": id.as_str(),
    })?;
    Ok(())
}

/// Findings that still ask for something: open, or answered and not yet judged.
pub(crate) fn open_findings(conn: &Connection, change_id: &ChangeId) -> Result<Vec<OpenFinding>> {
    findings(conn, change_id, &Which::Open)
}

/// The head at which each finding of a change was last raised.
pub(crate) fn heads_of_findings(
    conn: &Connection,
    change_id: &ChangeId,
) -> Result<Vec<(FindingId, String)>> {
    let mut statement = conn.prepare_cached(
        "SELECT finding_id, head FROM findings JOIN reviews ON review_id = last_review WHERE findings.change_id = :id",
    )?;
    let heads = statement
        .query_map(named_params! { ":id": change_id.as_str() }, |row| {
            Ok((FindingId::new(row.get::<_, String>(0)?), row.get(1)?))
        })?
        .collect::<std::result::Result<_, _>>()?;
    Ok(heads)
}

pub(crate) fn finding_list(conn: &Connection, change_id: &ChangeId) -> Result<Vec<OpenFinding>> {
    findings(conn, change_id, &Which::All)
}

/// Which findings of a change.
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
            "SELECT * FROM findings WHERE change_id = ?1 AND last_review = ?2",
            review.as_str(),
        ),
        Which::NotOf(review) => (
            "SELECT * FROM findings WHERE change_id = ?1 AND last_review <> ?2",
            review.as_str(),
        ),
        Which::Open => (
            "SELECT * FROM findings WHERE change_id = ?1 AND ?2 = '' AND outcome IN ('open', 'addressed', 'disputed')",
            "",
        ),
        Which::All => (
            "SELECT * FROM findings WHERE change_id = ?1 AND ?2 = ''",
            "",
        ),
    };
    let mut statement = conn.prepare_cached(sql)?;
    let mut found: Vec<OpenFinding> = statement
        .query_map([change_id.as_str(), review], finding_row)?
        .collect::<std::result::Result<_, _>>()?;
    found.sort_by_key(|f| (f.finding_id.as_str().len(), f.finding_id.clone()));
    Ok(found)
}

/// All reviews of a change, oldest first.
pub(crate) fn reviews_of(conn: &Connection, change_id: &ChangeId) -> Result<Vec<PastReview>> {
    let mut statement = conn.prepare_cached(
        "SELECT * FROM reviews WHERE change_id = :id ORDER BY length(review_id), review_id",
    )?;
    let reviews = statement
        .query_map(named_params! { ":id": change_id.as_str() }, review_row)?
        .collect::<std::result::Result<_, _>>()?;
    Ok(reviews)
}

/// The reviews that count for "no progress": those since a person last spoke.
pub(crate) fn history(conn: &Connection, change_id: &ChangeId) -> Result<Vec<PastReview>> {
    let mut statement = conn.prepare_cached(
        "SELECT reviews.* FROM reviews JOIN changes USING (change_id)
         WHERE change_id = :id AND (progress_since IS NULL OR reviews.created_at > progress_since)
         ORDER BY length(review_id), review_id",
    )?;
    let reviews = statement
        .query_map(named_params! { ":id": change_id.as_str() }, review_row)?
        .collect::<std::result::Result<_, _>>()?;
    Ok(reviews)
}

pub(crate) fn last_review(conn: &Connection, change_id: &ChangeId) -> Result<Option<PastReview>> {
    Ok(reviews_of(conn, change_id)?.pop())
}

/// A clear verdict on this head against this base: such a head is not reviewed again.
pub(crate) fn review_of_head(
    conn: &Connection,
    change_id: &ChangeId,
    head: &str,
) -> Result<Option<PastReview>> {
    Ok(conn
        .prepare_cached(
            "SELECT * FROM reviews WHERE change_id = :id AND head = :head AND verdict IN ('approved', 'changes_requested')
                 AND NOT EXISTS (SELECT 1 FROM events WHERE events.change_id = :id AND event_type = 'pr_changed'
                     AND metadata ->> 'what' = 'retargeted' AND timestamp >= reviews.created_at)
             ORDER BY length(review_id) DESC, review_id DESC LIMIT 1",
        )?
        .query_row(named_params! { ":id": change_id.as_str(), ":head": head }, review_row)
        .optional()?)
}

pub(super) fn review_row(row: &Row<'_>) -> std::result::Result<PastReview, rusqlite::Error> {
    let blocking = from_row::json(row, "blocking")?;
    let blocking = blocking.as_array().map(|list| {
        list.iter()
            .filter_map(|v| v.as_str().map(str::to_owned))
            .collect()
    });
    Ok(PastReview {
        review_id: ReviewId::new(row.get::<_, String>("review_id")?),
        item_id: ItemId::new(row.get::<_, String>("item_id")?),
        cycle: row.get("cycle")?,
        head: row.get("head")?,
        base: row.get("base")?,
        tree: row.get("tree")?,
        verdict: from_row::word(row, "verdict")?,
        raw_verdict: from_row::word_or_none(row, "raw_verdict")?,
        dialect: row.get("dialect")?,
        reason: row.get("reason")?,
        summary: row.get("summary")?,
        body: row.get("body")?,
        files: from_row::json(row, "files")?,
        blocking: blocking.unwrap_or_default(),
        created_at: from_row::time(row, "created_at")?,
    })
}

pub(super) fn finding_row(row: &Row<'_>) -> std::result::Result<OpenFinding, rusqlite::Error> {
    Ok(OpenFinding {
        finding_id: FindingId::new(row.get::<_, String>("finding_id")?),
        finding: Finding {
            severity: from_row::word::<Severity>(row, "severity")?,
            category: from_row::word::<Category>(row, "category")?,
            path: row.get("path")?,
            line: row.get("line")?,
            text: row.get("text")?,
            suggestion: row.get("suggestion")?,
            ..Finding::default()
        },
        outcome: from_row::word(row, "outcome")?,
        note: row.get("note")?,
        resolution: from_row::word_or_none(row, "resolution")?,
    })
}
