//! Creates, finds and moves changes. Every transition goes through `advance`, which consults the
//! table.

use super::{BoardError, Result, from_row};
use crate::blackboard::forge::checks;
use crate::blackboard::operator::fix_bound;
use crate::blackboard::sql::{Connection, params};
use crate::blackboard::work::waiting;
use crate::change::{Bounds, Change, ChangeId, ProjectId, ReviewRules, State};
use crate::clock::Time;
use crate::event::{NewEvent, body};
use crate::state::{self, Facts, Move, Trigger};
use crate::text::short_sha;

/// Change that is about to enter the loop.
#[derive(Debug, Clone)]
pub(crate) struct NewChange {
    pub(crate) project_id: ProjectId,
    pub(crate) title: String,
    pub(crate) branch: String,
    pub(crate) base: String,
    pub(crate) head: String,
    pub(crate) worktree: String,
    pub(crate) host: String,
    pub(crate) state: State,
    /// Limits from the settings. Their `max_fix_cycles` applies until the daemon has read the
    /// settings.
    pub(crate) bounds: Bounds,
    pub(crate) review: ReviewRules,
    /// Limit set by a person.
    pub(crate) own_max_fix_cycles: Option<i64>,
    /// `None` to use the project's setting.
    pub(crate) shadow: Option<bool>,
    pub(crate) actor: String,
}

pub(crate) fn insert_change(conn: &Connection, new: &NewChange, now: Time) -> Result<Change> {
    crate::blackboard::refuse_removed(conn, &new.project_id)?;
    refuse_taken(conn, &new.project_id, &new.worktree, &new.branch, None)?;
    let most_fixes = match new.own_max_fix_cycles {
        Some(own) => own,
        None => {
            let in_force = fix_bound::project_max_fix_cycles(conn, &new.project_id)?;
            in_force.map_or(new.bounds.max_fix_cycles, |bound| bound.most)
        }
    };
    let change_id = ChangeId::new(from_row::next_id(conn, "c")?);
    conn.execute(
        "INSERT INTO changes (change_id, project_id, title, branch, base, head, worktree, host, state, on_max_cycles,
             max_fix_cycles, own_max_fix_cycles, max_total_fixes, max_run_ms, max_tokens, max_cost_micros, stopped,
             shadow_word, shadow, review, auto_address, skip_tests, notify_ready, created_at, updated_at)
         VALUES (:change_id, :project_id, :title, :branch, :base, :head, :worktree, :host, :state, :on_max_cycles,
             :max_fix_cycles, :own_max_fix_cycles, max(:max_total_fixes, :max_fix_cycles), :max_run_ms, :max_tokens,
             :max_cost_micros,
             EXISTS (SELECT 1 FROM stops WHERE project_id IS NULL OR project_id = :project_id),
             :shadow, coalesce(:shadow, (SELECT shadow FROM projects WHERE project_id = :project_id), 0),
             :review, :auto_address, :skip_tests, :notify_ready, :now, :now)",
        params! {
            change_id, now,
            review: new.review.stage,
            auto_address: new.review.auto_address,
            skip_tests: new.review.skip_tests,
            notify_ready: new.review.notify_ready,
            on_max_cycles: new.bounds.on_max_cycles,
            max_fix_cycles: most_fixes,
            max_total_fixes: new.bounds.max_total_fixes,
            max_run_ms: new.bounds.max_run_ms,
            max_tokens: new.bounds.max_tokens,
            max_cost_micros: new.bounds.max_cost_micros;
            new.{
                project_id, title, branch, base, head, worktree, host, state, own_max_fix_cycles,
                shadow,
            }
        },
    )?;
    let entered = NewEvent::about(
        &change_id,
        body::StateChanged {
            from: None,
            to: Some(new.state),
            on: Some(body::Cause::Entered),
        },
        format!("{} added in state {}", new.title, new.state),
    )
    .by(&new.actor);
    super::append(conn, &entered, now)?;
    change(conn, &change_id)
}

/// Returns an error if another live change has this worktree or branch.
pub(super) fn refuse_taken(
    conn: &Connection,
    project_id: &ProjectId,
    worktree: &str,
    branch: &str,
    own: Option<&ChangeId>,
) -> Result<()> {
    let refuse_beside = |live: Option<Change>, what: String| match live {
        Some(live) if own != Some(&live.change_id) => {
            let (id, state) = (&live.change_id, live.state);
            Err(BoardError::refused_with_hint(
                format!("{what} already belongs to {id} ({state})"),
                format!("see `remand status {id}`"),
            ))
        }
        Some(_) | None => Ok(()),
    };
    let at = live_change_at(conn, worktree)?;
    refuse_beside(at, format!("worktree {worktree}"))?;
    let on = live_change_on(conn, project_id, branch)?;
    refuse_beside(on, format!("branch {branch}"))
}

pub(crate) fn change(conn: &Connection, id: &ChangeId) -> Result<Change> {
    conn.find(
        "SELECT * FROM changes WHERE change_id = :id",
        params! { id },
    )?
    .ok_or_else(|| BoardError::not_found("change", id))
}

/// Returns an error if the change has ended.
pub(super) fn refuse_if_over(change: &Change, why: &str) -> Result<()> {
    if change.state.is_over() {
        let (id, state) = (&change.change_id, change.state);
        return Err(BoardError::refused(format!("{id} is {state}: {why}")));
    }
    Ok(())
}

/// Finds a change by what a person typed: an id, a branch, the path of a worktree, or a pull
/// request (`owner/repo#42`). If several match, the newest is returned.
pub(crate) fn find_change(conn: &Connection, text: &str) -> Result<Change> {
    let live: Vec<String> = conn.list(
        "SELECT change_id FROM changes INDEXED BY changes_live
         WHERE state NOT IN ('merged', 'closed') AND branch = :text AND change_id <> :text",
        params! { text },
    )?;
    if live.len() > 1 {
        let all = live.join(", ");
        return Err(BoardError::refused_with_hint(
            format!("several changes are on branch `{text}`: {all}"),
            "use the id of one of them instead",
        ));
    }
    conn.find(
        "SELECT * FROM changes WHERE change_id = :text OR branch = :text OR worktree = :text
         ORDER BY change_id = :text DESC, state NOT IN ('merged', 'closed') DESC, created_at DESC LIMIT 1",
        params! { text })?
    .map_or_else(|| change_of_pull(conn, text), |found| Ok(Some(found)))?
    .ok_or_else(|| BoardError::not_found("change", text))
}

/// Returns the change of `owner/repo#42`, or of `repo#42` or `project#42`, as `run` prints them.
/// Case is ignored, as on the forge.
fn change_of_pull(conn: &Connection, text: &str) -> Result<Option<Change>> {
    let Some((repo, Ok(number))) = text
        .rsplit_once('#')
        .map(|(repo, number)| (repo, number.parse::<i64>()))
    else {
        return Ok(None);
    };
    let mut found: Vec<Change> = conn.list(
        "SELECT changes.* FROM projects CROSS JOIN pulls ON pulls.project_id = projects.project_id AND pulls.number = :number
             CROSS JOIN changes ON changes.change_id = pulls.change_id
         WHERE projects.repo = :repo COLLATE NOCASE OR projects.project_id = :repo
             OR substr(projects.repo, instr(projects.repo, '/') + 1) = :repo COLLATE NOCASE
         ORDER BY changes.state NOT IN ('merged', 'closed') DESC LIMIT 2",
        params! { repo, number })?;
    if let [first, second] = found.as_slice()
        && first.project_id != second.project_id
        && first.state.is_over() == second.state.is_over()
    {
        let (first, second) = (&first.change_id, &second.change_id);
        return Err(BoardError::refused_with_hint(
            format!("several projects have a PR `{text}`: {first}, {second}"),
            "use owner/repo#42 or the id of one of them instead",
        ));
    }
    Ok((!found.is_empty()).then(|| found.swap_remove(0)))
}

pub(crate) fn live_change_at(conn: &Connection, worktree: &str) -> Result<Option<Change>> {
    conn.find(
        "SELECT * FROM changes WHERE worktree = :worktree AND state NOT IN ('merged', 'closed')",
        params! { worktree },
    )
}

pub(crate) fn live_change_on(
    conn: &Connection,
    project_id: &ProjectId,
    branch: &str,
) -> Result<Option<Change>> {
    conn.find(
        "SELECT * FROM changes WHERE project_id = :project_id AND branch = :branch AND state NOT IN ('merged', 'closed')",
        params! { project_id, branch })
}

/// Moves a change according to the table and appends the event. Claiming again is not a transition
/// and appends nothing.
pub(crate) fn advance(
    conn: &Connection,
    id: &ChangeId,
    trigger: Trigger,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let before = change(conn, id)?;
    let checks_green = checks::summary_of(conn, id)?.is_green();
    let facts = Facts::of(&before, checks_green);
    let no_such_move = |refused| BoardError::NoSuchMove {
        change: id.clone(),
        refused,
    };
    let to = match state::next(before.state, trigger, facts).map_err(no_such_move)? {
        Move::Stay => return Ok(before),
        Move::To(to) => to,
    };
    let escalated_from = (to == State::Escalated).then(|| state::resting(before.state));
    let moved = conn.execute(
        "UPDATE changes SET state = :to, escalated_from = :escalated_from, updated_at = :now,
             completed_at = CASE WHEN :to IN ('merged', 'closed') THEN :now END,
             decision = CASE WHEN :to = 'escalated' THEN decision END,
             decision_commands = CASE WHEN :to = 'escalated' THEN decision_commands ELSE '[]' END,
             human_review_required = CASE WHEN :to = 'escalated' THEN human_review_required ELSE 0 END
         WHERE change_id = :id AND state = :from",
        params! { to, escalated_from, now, id, from: before.state },
    )?;
    if moved != 1 {
        let state = before.state;
        return Err(no_such_move(state::NoSuchMove { state, trigger }));
    }
    let event = NewEvent::about(
        id,
        body::StateChanged {
            from: Some(before.state),
            to: Some(to),
            on: Some(body::Cause::Trigger(trigger)),
        },
        format!("{} → {to} ({trigger})", before.state),
    )
    .by(actor);
    super::append(conn, &event, now)?;
    waiting::follow_first(conn, id, (before.state, to), now)?;
    change(conn, id)
}

/// Records, with an event, that the branch is at another commit than the known one.
pub(crate) fn move_head(conn: &Connection, id: &ChangeId, to: &str, now: Time) -> Result<Change> {
    let before = change(conn, id)?;
    if before.head == to {
        return Ok(before);
    }
    set_head(conn, id, to, now)?;
    let event = NewEvent::about(
        id,
        body::HeadMoved {
            from: Some(before.head.clone()),
            to: to.to_owned(),
            wip: None,
        },
        format!(
            "the branch moved from {} to {}",
            short_sha(&before.head),
            short_sha(to)
        ),
    );
    super::append(conn, &event, now)?;
    change(conn, id)
}

pub(super) fn set_head(conn: &Connection, id: &ChangeId, head: &str, now: Time) -> Result<()> {
    crate::blackboard::work::hold::forget_repeats(conn, id)?;
    conn.run(
        "UPDATE changes SET head = :head, updated_at = :now WHERE change_id = :id",
        params! { head, now, id },
    )
}

/// Returns the changes whose worktree remand created on a branch of somebody else. The branch of a
/// task is remand's own, and the worktree stays on it.
pub(crate) fn attached_changes(conn: &Connection) -> Result<Vec<Change>> {
    conn.list(
        "SELECT * FROM changes INDEXED BY changes_attached
         WHERE own_worktree = 1 AND detached = 0 AND implementation_item_id IS NULL",
        &[],
    )
}

/// Records that the worktree of a change is detached from now on. Returns false if something is
/// working in it.
pub(crate) fn set_detached(conn: &Connection, change: &Change) -> Result<bool> {
    let set = conn.execute(
        "UPDATE changes SET detached = 1 WHERE change_id = :id AND own_worktree = 1
             AND NOT EXISTS (SELECT 1 FROM runs WHERE worktree = :worktree AND ended_at IS NULL)
             AND NOT EXISTS (SELECT 1 FROM work_items WHERE worktree = :worktree AND status = 'claimed')",
        params! { id: change.change_id, worktree: change.worktree },
    )?;
    Ok(set > 0)
}
