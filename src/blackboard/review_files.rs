//! Contents and names of the files that are written for finished reviews. A file can always be
//! written again from here; it is never read.

use super::reviews::{self, OpenFinding, PastReview};
use super::{Result, change, rejections_of};
use crate::blackboard::sql::{Connection, impl_from_row, params};
use crate::change::{Change, ChangeId, ProjectId};
use crate::clock::Time;
use crate::finding::ReviewId;

/// Name of the counter with the newest event whose reviews have been written.
const CURSOR: &str = "review_files";

/// Review with its number within its change, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NumberedReview {
    pub(crate) review_id: ReviewId,
    pub(crate) change_id: ChangeId,
    pub(crate) project_id: ProjectId,
    pub(crate) number: i64,
    pub(crate) head: String,
    pub(crate) created_at: Time,
}

impl_from_row! { row => NumberedReview { review_id, change_id, project_id, number, head, created_at } }

/// Everything that the file of a review contains.
#[derive(Debug, Clone)]
pub(crate) struct ReviewReport {
    pub(crate) change: Change,
    pub(crate) number: i64,
    pub(crate) review: PastReview,
    /// Findings that it raised, with their present outcomes.
    pub(crate) findings: Vec<OpenFinding>,
}

/// Returns all reviews.
pub(crate) fn numbered_reviews(conn: &Connection) -> Result<Vec<NumberedReview>> {
    conn.list(
        "SELECT review_id, change_id, project_id, reviews.head, reviews.created_at,
             row_number() OVER (PARTITION BY change_id ORDER BY length(review_id), review_id) AS number
         FROM reviews JOIN changes USING (change_id)",
        &[],
    )
}

/// Returns the reviews of a change, oldest first.
pub(crate) fn numbered_reviews_of(conn: &Connection, id: &ChangeId) -> Result<Vec<NumberedReview>> {
    conn.list(
        "SELECT review_id, change_id, project_id, reviews.head, reviews.created_at,
             row_number() OVER (ORDER BY length(review_id), review_id) AS number
         FROM reviews JOIN changes USING (change_id) WHERE change_id = :id ORDER BY number",
        params! { id },
    )
}

/// Returns the contents of the file of a review.
pub(crate) fn review_report(conn: &Connection, id: &ReviewId) -> Result<ReviewReport> {
    let (change_id, review) = super::review(conn, id)?;
    let numbered = numbered_reviews_of(conn, &change_id)?;
    let number = numbered.iter().find(|one| one.review_id == *id);
    // Its own words, in the rejection that it led to: a later review may have changed the row.
    let said: Vec<_> = rejections_of(conn, &change_id, None)?
        .into_iter()
        .filter(|rejection| rejection.rejected.review_id.as_ref() == Some(id))
        .flat_map(|rejection| rejection.rejected.findings)
        .collect();
    let last_raised = reviews::findings_of(conn, &change_id, id)?;
    let findings = reviews::finding_list(conn, &change_id)?;
    let findings = findings.into_iter().filter_map(|stored| {
        let own = said
            .iter()
            .find(|finding| finding.id.as_ref() == Some(&stored.finding_id));
        if let Some(own) = own {
            let finding = own.clone();
            return Some(OpenFinding { finding, ..stored });
        }
        let is_raised = stored.finding.first_review.as_ref() == Some(id)
            || last_raised
                .iter()
                .any(|last| last.finding_id == stored.finding_id);
        is_raised.then_some(stored)
    });
    Ok(ReviewReport {
        findings: findings.collect(),
        change: change(conn, &change_id)?,
        number: number.map_or(0, |one| one.number),
        review,
    })
}

/// Returns the newest event whose reviews have been written; `None` if none ever were.
pub(crate) fn reviews_written(conn: &Connection) -> Result<Option<i64>> {
    conn.find(
        "SELECT value FROM counters WHERE name = :name",
        params! { name: CURSOR },
    )
}

pub(crate) fn set_reviews_written(conn: &Connection, event: i64) -> Result<()> {
    conn.run(
        "INSERT INTO counters (name, value) VALUES (:name, :event)
         ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)",
        params! { name: CURSOR, event },
    )
}

/// Returns the reviewed changes that later events are about: the outcome of a finding may have
/// changed.
pub(crate) fn reviewed_since(conn: &Connection, event: i64) -> Result<Vec<ChangeId>> {
    conn.list(
        "SELECT DISTINCT change_id FROM events NOT INDEXED WHERE id > :event
             AND EXISTS (SELECT 1 FROM reviews WHERE reviews.change_id = events.change_id)",
        params! { event },
    )
}
