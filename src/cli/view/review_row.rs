//! A review as it is printed: with its number within the change, and with who reviewed it.

use serde::Serialize;

use crate::blackboard::PastReview;

#[derive(Serialize)]
pub(crate) struct ReviewRow {
    #[serde(flatten)]
    pub(crate) review: PastReview,
    /// Number within its change, from 1.
    pub(crate) number: i64,
    pub(crate) reviewed_by: ReviewedBy,
}

#[derive(Serialize)]
pub(crate) struct ReviewedBy {
    pub(crate) agent: String,
    pub(crate) model: Option<String>,
}

impl ReviewRow {
    pub(crate) fn new(review: PastReview, number: i64) -> Self {
        let reviewed_by = ReviewedBy {
            agent: review.agent.clone(),
            model: review.model.clone(),
        };
        Self {
            review,
            number,
            reviewed_by,
        }
    }

    /// Numbers the reviews of a change, oldest first.
    pub(crate) fn numbered(reviews: Vec<PastReview>) -> Vec<Self> {
        let rows = (1..).zip(reviews);
        rows.map(|(number, review)| Self::new(review, number))
            .collect()
    }

    /// Formats agent and model: `claude (opus)`.
    pub(crate) fn reviewer(&self) -> String {
        let by = &self.reviewed_by;
        match &by.model {
            Some(model) => format!("{} ({model})", by.agent),
            None => by.agent.clone(),
        }
    }
}
