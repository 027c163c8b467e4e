//! Feedback in the prompts of runs: a rejection is fixed only if all of its feedback was in a
//! prompt.

use crate::blackboard::Result;
use crate::blackboard::sql::{Connection, impl_from_row, params};
use crate::change::ChangeId;
use crate::finding::FindingId;
use crate::work::{ItemId, RejectionId, RunId};

/// Part of one piece of feedback that was in a prompt, in bytes of its sanitized text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Coverage {
    pub(crate) piece: String,
    pub(crate) rejection_id: Option<RejectionId>,
    pub(crate) finding_id: Option<FindingId>,
    /// First byte in the prompt; earlier prompts contained those before it.
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) total: i64,
}

impl Coverage {
    /// True if nothing of it is left for another prompt.
    pub(crate) fn is_complete(&self) -> bool {
        self.end >= self.total
    }
}

pub(crate) fn record(conn: &Connection, run_id: &RunId, pieces: &[Coverage]) -> Result<()> {
    for piece in pieces {
        conn.execute(
            "INSERT INTO run_feedback (run_id, piece, rejection_id, finding_id, start_byte, end_byte, total_bytes)
             VALUES (:run_id, :piece, :rejection_id, :finding_id, :start, :end, :total)",
            params! { run_id; piece.{ piece, rejection_id, finding_id, start, end, total } },
        )?;
    }
    Ok(())
}

/// Returns the feedback in all prompts of an item, over all runs whose work counts.
pub(crate) fn coverage_of_item(conn: &Connection, item_id: &ItemId) -> Result<Vec<Coverage>> {
    conn.list(
        "SELECT piece, rejection_id, finding_id, min(start_byte) AS start_byte, max(end_byte) AS end_byte,
             max(total_bytes) AS total_bytes
         FROM runs JOIN run_feedback USING (run_id) WHERE item_id = :item AND discarded = 0 GROUP BY piece",
        params! { item: item_id })
}

/// Returns the feedback in the prompt of one run.
pub(crate) fn coverage_of_run(conn: &Connection, run_id: &RunId) -> Result<Vec<Coverage>> {
    conn.list(
        "SELECT * FROM run_feedback WHERE run_id = :run",
        params! { run: run_id },
    )
}

/// Returns the parts given to finished fixes of rejections that went to a person because of the
/// rest.
pub(crate) fn told_of_unfinished(conn: &Connection, change_id: &ChangeId) -> Result<Vec<Coverage>> {
    let items: Vec<ItemId> = conn.list(
        "SELECT DISTINCT item_id FROM rejections JOIN work_items USING (item_id)
         WHERE rejections.change_id = :id AND rejections.state = 'escalated' AND work_items.status = 'completed'",
        params! { id: change_id },
    )?;
    let mut pieces = Vec::new();
    for item in items {
        pieces.extend(
            coverage_of_item(conn, &item)?
                .into_iter()
                .filter(Coverage::is_complete),
        );
    }
    Ok(pieces)
}

impl_from_row! { row => Coverage {
    piece, rejection_id, finding_id,
    start: row.get("start_byte")?,
    end: row.get("end_byte")?,
    total: row.get("total_bytes")?,
} }
