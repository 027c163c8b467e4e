//! The blackboard: all SQL, and nothing else. It knows rows and the transition table, never a
//! process, a file of git or the forge; `now` always comes from the caller.
//!
//! Functions take the connection first and do not start transactions: the caller composes them
//! inside one `write`, so that a step, its event and its follow-up commit together or not at all.

mod changes;
mod configuration;
#[cfg(test)]
mod conformance;
mod connection;
mod escalate;
mod evaluators;
mod events;
mod forge;
mod from_row;
mod git_settings;
mod operator;
mod projects;
mod prune;
mod rejections;
mod review_files;
mod reviews;
mod shadow;
mod sql;
#[cfg(test)]
mod tests;
mod views;
mod work;
mod worktrees;

pub(crate) use changes::{
    NewChange, advance, attached_changes, change, find_change, insert_change, live_change_at,
    live_change_on, move_head, set_detached,
};
pub(crate) use configuration::{
    Changed, ChangedKind, Configuration, InForce, about_configuration, answer_reload,
    configuration, note_changed, open_request, put_in_force, reload_answer, request_reload,
};
pub(crate) use connection::backup::{Progress, copy};
pub(crate) use connection::db_thread::Db;
pub(crate) use connection::identity::Vanished;
pub(crate) use connection::invariants::{Violation, check};
pub(crate) use connection::read_only::{Quick, ReadOnlyDb};
pub(crate) use connection::savepoint::{apart, set_aside};
pub(crate) use connection::sync_db::SyncDb;
pub(crate) use escalate::{escalate, last as last_escalation};
pub(crate) use evaluators::apply_proposal::{apply_proposal, cursor, set_cursor};
pub(crate) use evaluators::evaluator_requests::{
    RequestError, apply_request, count_trouble, end_trouble, skip_line, trouble_of, troubles,
};
pub(crate) use evaluators::evaluator_snapshot::{
    any_by_others, any_read_due, live_changes, looks_after, open_items, open_pulls, shown_events,
};
pub(crate) use evaluators::probes::{
    LeftUnjudged, any_event, any_pending, any_unjudged, needs_read, next_run, unjudged_as_seen,
};
pub(crate) use evaluators::pull_moves::{
    add_gate_leftovers, end_read_hold, gate_leftovers, over, set_up_for, stop_fixing, unwanted,
};
pub(crate) use events::{
    append, event, event_before, events_about, events_of, events_of_type, events_since, has_event,
    newest_event,
};
pub(crate) use forge::adopt::{Adoption, adopt};
pub(crate) use forge::checks::{ReadChecks, checks_of, is_past_review, wanted_evidence};
pub(crate) use forge::head_moved::{
    end_reviews, judged_without_pull, queue_review, review_new_head, take_back_verdict,
    was_on_remote,
};
pub(crate) use forge::outbox::{
    Intent, IntentKind, NewIntent, OurPosts, PostDone, change_result, claim_post, end_intent,
    give_up_post, intend_push, intent, intents_of, next_post, open_posts, orphaned_pushes,
    our_posts, post_done, put_off_post, refused_post, refused_posts, reviews_on_pull,
    waiting_posts,
};
pub(crate) use forge::pulls::{
    Discovery, FailedRead, Looked, Read, discovery, due_pulls, end_discovery, end_unadopted,
    fail_read, keep_pages, next_read, open_adoptions, pull_of_change, pull_row, see_pull,
    set_discovery, set_judged, take_in_pull, unjudged_pulls, unread_since, want_read,
};
pub(crate) use forge::rate_limit::{Rate, known_permission, rate, set_permission, set_rate};
pub(crate) use forge::reopen::seen_again;
pub(crate) use git_settings::{
    GitSettings, SettingsVerdict, accept_git_settings, judge_git_settings, may_use_git_settings,
    see_git_settings,
};
pub(crate) use operator::budget::{Addition, Grant, add_budget};
pub(crate) use operator::decisions::{mark_ready, reopen_change, skip, waive};
pub(crate) use operator::fix_bound::{fix_bound, set_project_max_fix_cycles};
pub(crate) use operator::guidance::{Guidance, add_guidance, open_guidance};
pub(crate) use operator::operator_actions::{
    Unanswered, approve_by_person, cancel_change, cancel_item, post, refine, reopen, retry,
    unanswered,
};
pub(crate) use operator::pause::{pause, resume};
pub(crate) use operator::takeover::{Handback, Takeover, hand_back, take_over};
pub(crate) use projects::{
    LiveChanges, Project, change_and_project, count_changes, insert_project, list_projects,
    live_changes_of, move_project, project, project_by_common_dir, refuse_removed, remove_project,
    removed_at,
};
pub(crate) use prune::{
    Prunable, Pruning, Remnant, Weight, Where, delete_events, events_of_pruned, forget_pruned,
    forget_told, in_the_way, over_since, prune, pruned_at, pruned_pull, still_there, sweeps, swept,
    unknown_tables, weigh, wips, worktree_is_shared, worktree_is_used,
};
#[cfg(test)]
pub(crate) use rejections::TakenIn;
pub(crate) use rejections::{
    pending_changes, reject_change, rejections_in, rejections_of, take_in,
};
pub(crate) use review_files::{
    NumberedReview, ReviewReport, numbered_reviews, numbered_reviews_of, review_report,
    reviewed_since, reviews_written, set_reviews_written,
};
pub(crate) use reviews::{
    OpenFinding, PastReview, finding_list, heads_of_findings, history, last_review, open_findings,
    review_of_head, reviews_of,
};
pub(crate) use views::board_view::{
    BoardRow, EvaluatorRow, Show, any_live_change, board, board_row, counted, evaluator_rows,
};
pub(crate) use views::lookup::{
    change_names, claimed_items, finding, last_run_of_change, newest_events, rejection,
    rejection_of_event, review,
};
#[cfg(test)]
pub(crate) use work::claim::ripen;
pub(crate) use work::claim::{
    Claimed, Holding, any_unknown_source, anything_ready, claim, foreign_claims, give_back,
    lose_run, renew, skip_unknown_sources, take_from_dead,
};
pub(crate) use work::coverage::{Coverage, coverage_of_item, coverage_of_run};
pub(crate) use work::deadlines::{
    LONGEST_HOLD, Latest, RATE_WINDOW, implausible, is_ahead, latest_stored, longest_retry,
    void_implausible,
};
pub(crate) use work::finish::{
    FixDone, Rest, ReviewDone, Unclear, ask_again, fail, finish_fix, finish_review,
};
pub(crate) use work::gate_rejection::{GateRejection, reject_by_gate};
pub(crate) use work::hold::{
    Hold, any_held_for, anything_held_is_due, hold, is_held_too_often, next_moment, resume_due,
    resume_held_for,
};
pub(crate) use work::items::{
    NewItem, insert_item, item, items_of, list_items, requeue_item, review_item,
};
pub(crate) use work::runs::{
    NewRun, RunEnd, begin_gates, counted_in_session, discard_run, end_run, forget_gates, last_run,
    open_run_at, open_runs, orphaned_runs, record_gates, record_head_after, record_rebase,
    record_shim, refuse_run, run, runs_of, start_run, undone_paths,
};
pub(crate) use work::task_edit::{TaskEdit, TaskPlace, edit_task, is_begun};
pub(crate) use work::tasks::{
    ImplementDone, NewTask, OpenedPull, add_task, begin_branch, finish_implement, finish_pull, task,
};

pub(crate) use worktrees::{
    REMOVING, begin_removal, changes_at, end_removal, ended_worktrees, is_worktree_busy,
    worktree_removed,
};

pub(crate) use forge::feedback::{feedback, judged_alone, known_comments, said_of, unjudged_said};
pub(crate) use shadow::shadow_review::{
    ShadowReview, any_shadow_review_due, claim_shadow_review, end_shadow_review, shadow_review_of,
};
pub(crate) use shadow::shadow_runs::{
    Estimate, PastRun, ShadowSum, Shadowed, change_shadow, past_runs, project_shadow,
    put_off_shadow, record_shadow, set_project_shadow, set_shadow, shadow_of, shadow_sums,
    told as shadow_told, unshadowed,
};

pub(crate) use operator::stops::{
    Order, Stopped, UnderWay, is_all_stopped, is_halted, start, stop, stops, stops_for, under_way,
};
pub(crate) use views::spend::{
    Spend, SpendSums, WithoutCost, agents_without_cost, spend_sums, spent_on_project_since,
    spent_since,
};

/// Errors of the blackboard.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BoardError {
    #[error("{path}: {problem}")]
    Unusable {
        path: std::path::PathBuf,
        problem: String,
        #[source]
        source: Option<sql::Error>,
    },
    #[error(
        "the blackboard {path} was created by a newer remand (schema {found}, this version supports {known}); upgrade remand"
    )]
    Newer {
        path: std::path::PathBuf,
        found: i64,
        known: i64,
    },
    #[error("{path} is a SQLite database but not a remand blackboard; use another path with --db")]
    Foreign { path: std::path::PathBuf },
    /// The file was removed or replaced. It must not be written any more: nobody else would see it.
    #[error("{} was {how} while in use; stopping", path.display())]
    Vanished {
        path: std::path::PathBuf,
        how: Vanished,
    },
    #[error("no {kind} `{id}`")]
    NotFound { kind: &'static str, id: String },
    #[error("{change}: {refused}")]
    NoSuchMove {
        change: crate::change::ChangeId,
        refused: crate::state::NoSuchMove,
    },
    /// Somebody else now holds the item, or it was cancelled. Nothing was written.
    #[error("the claim on {item} (epoch {epoch}) is no longer valid")]
    Stale {
        item: crate::work::ItemId,
        epoch: i64,
    },
    #[error("{what}")]
    Refused { what: String, hint: Option<String> },
    #[error("the disk that holds the blackboard is full")]
    Full(#[source] sql::Error),
    #[error("the blackboard was locked by another program for too long")]
    Busy(#[source] sql::Error),
    #[error("the database thread has stopped")]
    Closed,
    #[error("the enclosing transaction could not be committed: {0}")]
    Batch(String),
    #[error("a database step panicked; nothing was written")]
    Panicked,
    #[error("SQLite failed")]
    Sqlite(#[source] sql::Error),
    #[error("a row contains invalid JSON")]
    Json(#[from] serde_json::Error),
}

impl From<sql::Error> for BoardError {
    fn from(error: sql::Error) -> Self {
        match error.class() {
            sql::Class::Full => Self::Full(error),
            sql::Class::Busy => Self::Busy(error),
            sql::Class::Row | sql::Class::Everywhere => Self::Sqlite(error),
        }
    }
}

impl BoardError {
    /// Creates the error for a person's request that cannot be fulfilled.
    pub(crate) fn refused(what: impl Into<String>) -> Self {
        let what = what.into();
        Self::Refused { what, hint: None }
    }

    /// Like [`Self::refused`], with a hint about what to do instead.
    pub(crate) fn refused_with_hint(what: impl Into<String>, hint: impl Into<String>) -> Self {
        let (what, hint) = (what.into(), Some(hint.into()));
        Self::Refused { what, hint }
    }

    fn stale(item: &crate::work::ItemId, epoch: i64) -> Self {
        let item = item.clone();
        Self::Stale { item, epoch }
    }

    fn not_found(kind: &'static str, id: &(impl ToString + ?Sized)) -> Self {
        let id = id.to_string();
        Self::NotFound { kind, id }
    }

    /// True for an error of the database itself, or of the access to it, which any further attempt
    /// meets too.
    ///
    /// Any other error concerns the data that was read or written, and is no reason to skip the
    /// rest.
    pub(crate) fn is_everywhere(&self) -> bool {
        match self {
            Self::Unusable { .. }
            | Self::Newer { .. }
            | Self::Foreign { .. }
            | Self::Vanished { .. }
            | Self::Full(_)
            | Self::Busy(_)
            | Self::Closed
            | Self::Batch(_) => true,
            Self::NotFound { .. }
            | Self::NoSuchMove { .. }
            | Self::Stale { .. }
            | Self::Refused { .. }
            | Self::Panicked
            | Self::Json(_) => false,
            Self::Sqlite(error) => error.class() == sql::Class::Everywhere,
        }
    }
}

/// First argument of the functions in this module. Callers only pass it on.
pub(crate) use sql::Connection as Conn;

pub(crate) type Result<T, E = BoardError> = std::result::Result<T, E>;
