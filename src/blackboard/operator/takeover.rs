//! A person continues by hand in the worktree of a change, and gives it back. In between, nothing is
//! run, pushed or posted for it, and nobody else touches the worktree.

use super::decisions::{review_if_due, to_review};
use super::guidance::{Guidance, add_guidance};
use super::{operator_actions::instruct, pause};
use crate::blackboard::forge::pulls;
use crate::blackboard::sql::{Connection, params};
use crate::blackboard::work::{finish, hold, items, runs, tasks, waiting};
use crate::blackboard::{BoardError, Result, changes, events, rejections};
use crate::change::{Change, ChangeId, State};
use crate::clock::Time;
use crate::event::body::Action;
use crate::event::{Event, EventType, NewEvent, body};
use crate::state::Trigger;
use crate::text::{count, short_sha};
use crate::work::{Item, RejectionEnd, Source, Status};

/// Options that a person gives with a takeover.
#[derive(Debug, Clone, Default)]
pub(crate) struct Takeover {
    pub(crate) why: Option<String>,
    /// Command that resumes the session of the agent, if there is one.
    pub(crate) command: Option<String>,
}

/// Work that a person gives back.
#[derive(Debug, Clone)]
pub(crate) struct Handback {
    /// Commit that the worktree is at.
    pub(crate) head: String,
    /// Number of commits since the known head, and the files that they change.
    pub(crate) commits: usize,
    pub(crate) files: Vec<String>,
    pub(crate) text: Option<String>,
}

/// Takes a change over: its work is fenced and waits for the handback.
pub(crate) fn take_over(
    conn: &Connection,
    id: &ChangeId,
    taken: &Takeover,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let change = crate::blackboard::change(conn, id)?;
    changes::refuse_if_over(&change, "there is nothing to take over")?;
    if change.taken_over {
        return Err(BoardError::refused_with_hint(
            format!("{id} is already taken over"),
            format!(
                "continue in {}; `remand handback {id}` gives it back",
                change.worktree
            ),
        ));
    }
    if change.own_worktree && !events::has_event(conn, id, EventType::WorktreeMade)? {
        return Err(BoardError::refused_with_hint(
            format!("{id} has no worktree yet ({})", change.state),
            format!(
                "wait until its work has started, or close it with `remand cancel {id}` and do the work in a worktree of your own"
            ),
        ));
    }
    conn.execute(
        "UPDATE changes SET taken_over = 1, updated_at = :now WHERE change_id = :id",
        params! { now, id },
    )?;
    record_start(conn, &change, now)?;
    hold::block(conn, id)?;
    conn.execute(
        "UPDATE work_items SET status = 'blocked', claimed_by = NULL, lease_expires_at = NULL, epoch = epoch + 1,
             attempt = max(attempt - 1, 0)
         WHERE change_id = :id AND status = 'claimed'",
        params! { id },
    )?;
    let why = taken.why.as_deref().unwrap_or("");
    let instructed = body::Instructed {
        command: taken.command.clone(),
        ..body::Instructed::new(Action::Takeover, why, actor)
    };
    let colon = if why.is_empty() { "" } else { ": " };
    let summary = format!("{actor} took {id} over{colon}{why}");
    let event = NewEvent::about(id, instructed, summary).by(actor);
    crate::blackboard::append(conn, &event, now)?;
    crate::blackboard::change(conn, id)
}

/// Records the commit that the worktree of a task was made from, if its agent has not started: the base may have moved
/// since the task was added, and these commits are nobody's work on it.
fn record_start(conn: &Connection, change: &Change, now: Time) -> Result<()> {
    let id = &change.change_id;
    let stage = change.escalated_from.unwrap_or(change.state);
    if !matches!(stage, State::Queued | State::Implementing) {
        return Ok(());
    }
    for item in items::items_of(conn, id)? {
        if !runs::runs_of(conn, &item.item_id)?.is_empty() {
            return Ok(());
        }
    }
    let made = events::events_of_type(conn, id, EventType::WorktreeMade, 1)?;
    let made = made.first().and_then(Event::body::<body::WorktreeMade>);
    match made.and_then(|made| made.head) {
        Some(head) => tasks::begin_branch(conn, id, &head, now),
        None => Ok(()),
    }
}

/// Gives a change back. New commits are its new head; without any, the interrupted item starts
/// again.
pub(crate) fn hand_back(
    conn: &Connection,
    id: &ChangeId,
    given: &Handback,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let change = crate::blackboard::change(conn, id)?;
    if !change.taken_over {
        return Err(BoardError::refused_with_hint(
            format!("{id} is not taken over"),
            format!("`remand why {id}` explains what it is waiting for"),
        ));
    }
    let open = runs::open_run_at(conn, &change.worktree)?;
    if let Some(run) = open.filter(|run| run.change_id == *id) {
        return Err(BoardError::refused_with_hint(
            format!("{} of {} has not ended yet", run.run_id, run.agent),
            "try again in a few seconds",
        ));
    }
    conn.execute(
        "UPDATE changes SET taken_over = 0, updated_at = :now WHERE change_id = :id",
        params! { now, id },
    )?;
    let text = given.text.as_deref();
    instruct(conn, id, Action::Handback, text.unwrap_or(""), actor, now)?;
    if change.state.is_over() {
        return crate::blackboard::change(conn, id);
    }
    if let Some(text) = text {
        let guidance = Guidance {
            author: actor.to_owned(),
            body: text.to_owned(),
        };
        add_guidance(conn, id, &guidance, now)?;
    }
    forget_interrupted(conn, id)?;
    if given.head == change.head {
        return pause::unblock_if_free(conn, id);
    }
    let stage = change.escalated_from.unwrap_or(change.state);
    if matches!(stage, State::Queued | State::Implementing) {
        return implemented_by_hand(conn, &change, given, actor, now);
    }
    take_new_head(conn, &change, &given.head, actor, now)
}

/// Makes interrupted items start from the beginning: their earlier runs do not count.
fn forget_interrupted(conn: &Connection, id: &ChangeId) -> Result<()> {
    let open = items::items_of(conn, id)?.into_iter();
    for item in open.filter(|item| item.status == Status::Blocked) {
        for run in runs::runs_of(conn, &item.item_id)? {
            runs::discard_run(conn, &run.run_id)?;
        }
    }
    Ok(())
}

/// Takes the commits of a person as the new head, which is judged like any other. What was asked for
/// before they took over is answered by them.
fn take_new_head(
    conn: &Connection,
    change: &Change,
    head: &str,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let id = &change.change_id;
    let reason = format!("{actor} moved the head to {}", short_sha(head));
    items::cancel_open(conn, id, None, &reason, now)?;
    if change.state == State::Escalated {
        rejections::settle_all(conn, id, (RejectionEnd::HeadMoved, &reason))?;
    } else {
        rejections::answer_by_takeover(conn, id, &reason)?;
    }
    to_review(conn, change, actor, now)?;
    let moved = changes::move_head(conn, id, head, now)?;
    pulls::set_head(conn, id, head)?;
    review_if_due(conn, &moved, actor, now)
}

/// Takes the commits of a person as the implementation of a task.
fn implemented_by_hand(
    conn: &Connection,
    change: &Change,
    given: &Handback,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let id = &change.change_id;
    let implement = items::items_of(conn, id)?
        .into_iter()
        .rfind(is_implementation);
    if change.state == State::Escalated {
        changes::advance(conn, id, Trigger::Retry, actor, now)?;
    }
    let reason = format!("{actor} implemented it by hand");
    items::cancel_open(conn, id, None, &reason, now)?;
    waiting::start_waiting(conn, id)?;
    changes::advance(conn, id, Trigger::ImplementClaimed, actor, now)?;
    changes::move_head(conn, id, &given.head, now)?;
    let (files, more) = body::listed(given.files.clone());
    let implemented = body::Implemented {
        item_id: implement.map(|item| item.item_id),
        head_before: change.head.clone(),
        head_after: given.head.clone(),
        commits: given.commits,
        files,
        more,
    };
    let commits = count(given.commits, "commit");
    let summary = format!("implemented by {actor}: {commits}");
    let event = NewEvent::about(id, implemented, summary).by(actor);
    crate::blackboard::append(conn, &event, now)?;
    let after = changes::advance(conn, id, Trigger::ImplementDone, actor, now)?;
    let key = items::review_key(&after, now);
    finish::next_review(conn, &after, key, now)
}

fn is_implementation(item: &Item) -> bool {
    match item.source {
        Source::Github | Source::Specflow | Source::Manual => true,
        Source::CodeReview | Source::ReviewFix | Source::PullRequest | Source::FeedbackAnalysis => {
            false
        }
    }
}
