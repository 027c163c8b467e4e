//! The blackboard: all SQL, and nothing else. It knows rows and the table of moves, never a process, a file of
//! git or the forge; `now` always comes from the caller.
//!
//! Functions take the connection first and do not begin transactions: the caller composes them inside one
//! `write`, so that a step, its event and its follow-up commit together or not at all.

mod board;
mod changes;
mod check;
mod claim;
#[cfg(test)]
mod conformance;
mod door;
mod escalate;
mod events;
mod feedback;
mod find;
mod finish;
mod head;
mod hold;
mod items;
mod look;
mod migrate;
mod open;
mod people;
mod projects;
mod propose;
mod rejections;
mod reviews;
mod rows;
mod runs;
#[cfg(test)]
mod tests;

pub(crate) use board::Board;
pub(crate) use changes::{NewChange, advance, change, find_change, insert_change, live_change_at, move_head};
pub(crate) use check::{Violation, check};
#[cfg(test)]
pub(crate) use claim::ripen;
pub(crate) use claim::{
    Claimed, Holding, any_unknown_source, anything_ready, claim, foreign_claims, give_back, lose_run, renew,
    skip_unknown_sources, take_from_dead,
};
pub(crate) use door::Door;
pub(crate) use escalate::escalate;
pub(crate) use events::{append, event, events_about, events_of, events_since, newest_event};
pub(crate) use feedback::{Guidance, add_guidance, open_guidance};
pub(crate) use find::{
    change_names, claimed_items, finding, last_run_of_change, newest_events, rejection, rejection_of_event, review,
};
pub(crate) use finish::{Failure, FixDone, ReviewDone, ask_again, fail, finish_fix, finish_review};
pub(crate) use head::{end_reviews, queue_review, review_new_head};
pub(crate) use hold::{Hold, anything_held_is_due, hold, next_moment, resume_due};
pub(crate) use items::{NewItem, insert_item, item, items_of, list_items, requeue_item, review_item};
pub(crate) use look::{BoardRow, EvaluatorRow, Show, board, board_row, evaluator_rows};
pub(crate) use people::{
    Unanswered, approve_by_person, cancel_change, cancel_item, more_cycles, pause, refine, reopen, resume, retry,
    unanswered,
};
pub(crate) use projects::{Project, insert_project, list_projects, project, project_by_common_dir};
pub(crate) use propose::{apply, cursor, set_cursor};
#[cfg(test)]
pub(crate) use rejections::TakenIn;
pub(crate) use rejections::{any_since, pending_changes, rejections_in, rejections_of, take_in};
pub(crate) use reviews::{
    OpenFinding, PastReview, finding_list, history, last_review, open_findings, review_of_head, reviews_of,
};
pub(crate) use runs::{
    NewRun, RunEnd, discard_run, end_run, last_run, open_run_at, orphaned_runs, record_gates, record_head_after,
    record_shim, refuse_run, run, runs_of, start_run,
};

/// What can go wrong on the blackboard.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BoardError {
    #[error("{path}: {problem}")]
    Unusable {
        path: std::path::PathBuf,
        problem: String,
        #[source]
        source: Option<rusqlite::Error>,
    },
    #[error(
        "the blackboard {path} was made by a newer remand (schema {found}, this one knows {known}): upgrade remand"
    )]
    Newer { path: std::path::PathBuf, found: i64, known: i64 },
    #[error("{path} is a SQLite database, but not a blackboard of remand; give another path with --db")]
    Foreign { path: std::path::PathBuf },
    #[error("no {kind} `{id}`")]
    NotFound { kind: &'static str, id: String },
    #[error(transparent)]
    NoSuchMove(#[from] crate::state::NoSuchMove),
    /// Somebody else holds the item now, or it was cancelled: nothing was written.
    #[error("the claim on {item} (epoch {epoch}) is over")]
    Stale { item: crate::work::ItemId, epoch: i64 },
    #[error("{what}")]
    Refused { what: String, hint: Option<String> },
    #[error("the disk with the blackboard is full")]
    Full(#[source] rusqlite::Error),
    #[error("the blackboard was locked by another program for too long")]
    Busy(#[source] rusqlite::Error),
    #[error("a row holds something unknown")]
    Word(#[from] crate::words::UnknownWord),
    #[error("the blackboard's thread is gone")]
    Closed,
    #[error("the transaction that this was part of could not be committed: {0}")]
    Batch(String),
    #[error("SQLite refused")]
    Sqlite(#[source] rusqlite::Error),
    #[error("a row holds JSON that can't be read")]
    Json(#[from] serde_json::Error),
}

impl From<rusqlite::Error> for BoardError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => Self::Full(error),
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => Self::Busy(error),
            _ => Self::Sqlite(error),
        }
    }
}

/// What the functions of this room take first; others only hand it on.
pub(crate) type Conn = rusqlite::Connection;

pub(crate) type Result<T, E = BoardError> = std::result::Result<T, E>;
