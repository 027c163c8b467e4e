//! Changes that a person makes to a task: everything while it is queued, afterwards only what still has an effect.

use super::{items, tasks, waiting};
use crate::blackboard::sql::{Connection, Json, params};
use crate::blackboard::{BoardError, Result, changes, has_event};
use crate::change::{Change, ChangeId, State};
use crate::clock::Time;
use crate::event::body::{Action, Instructed};
use crate::event::{EventType, NewEvent};
use crate::sanitize::cap;
use crate::task::{EditedField, TaskField, TaskIssue, TaskRow, TaskSpec};
use crate::text::list;
use crate::work::{Item, LoopStep, Priority, Source, Status};

/// Maximum number of characters of a value in the event.
const VALUE: usize = 2_000;

/// New values. The outer `None` leaves a part as it is, the inner one removes it.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskEdit {
    pub(crate) title: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) spec: Option<Option<TaskSpec>>,
    pub(crate) issue: Option<Option<TaskIssue>>,
    pub(crate) agent: Option<String>,
    pub(crate) review_agent: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) priority: Option<Priority>,
    pub(crate) after: Option<Option<ChangeId>>,
    pub(crate) place: Option<TaskPlace>,
    pub(crate) max_cycles: Option<i64>,
    pub(crate) draft: Option<bool>,
}

/// Branch of a task, and its worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskPlace {
    pub(crate) base: String,
    pub(crate) branch: String,
    pub(crate) worktree: String,
    /// Set if remand creates the worktree.
    pub(crate) own_worktree: bool,
    /// Commit that the work will probably start from.
    pub(crate) head: String,
}

/// Progress of a task, as far as it limits what can be edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Progress {
    /// Set if its branch and worktree exist, or are being created.
    is_begun: bool,
    is_implementing: bool,
    is_implemented: bool,
    /// Set if its pull request is open, or is being opened.
    has_pull: bool,
    /// Set if an item has yet to run, or failed.
    has_work: bool,
}

/// True if the branch and the worktree of a task can still be chosen.
pub(crate) fn is_begun(conn: &Connection, change: &Change) -> Result<bool> {
    Ok(change.setup_done.is_some()
        || has_event(conn, &change.change_id, EventType::WorktreeMade)?
        || has_event(conn, &change.change_id, EventType::RunStarted)?)
}

/// Changes a task, and returns the parts that are different now.
pub(crate) fn edit_task(
    conn: &Connection,
    id: &ChangeId,
    edit: &TaskEdit,
    actor: &str,
    now: Time,
) -> Result<Vec<EditedField>> {
    let change = crate::blackboard::change(conn, id)?;
    let (Some(task), Some(item)) = (tasks::task(conn, id)?, implementation(conn, id)?) else {
        let what = format!("{id} was not made from a task: there is nothing to edit");
        return Err(BoardError::refused_with_hint(
            what,
            format!("`remand comment {id} --text TEXT` is guidance for its next fix"),
        ));
    };
    changes::refuse_if_over(&change, "its task can no longer be edited")?;
    let mut items = items::items_of(conn, id)?.into_iter();
    let priority = items
        .rfind(may_run)
        .map_or(item.priority, |one| one.priority);
    let changed = differences(&change, &task, priority, edit);
    let progress = progress(conn, &change)?;
    for one in &changed {
        refuse_without_effect(&change, one.field, progress)?;
    }
    if changed.is_empty() {
        return Ok(changed);
    }
    write_task(conn, id, &task, edit)?;
    write_change(conn, &change, edit, now)?;
    write_items(conn, id, &item, edit)?;
    if let Some(after) = &edit.after {
        wait_for(conn, id, after.as_ref())?;
    }
    let names = list(
        changed
            .iter()
            .map(|one| one.field.as_str().replace('_', " ")),
    );
    let edited = Instructed {
        changed: changed.clone(),
        ..Instructed::new(Action::Edit, &names, actor)
    };
    let event = NewEvent::about(
        id,
        edited,
        format!("{actor} edited the {names} of the task"),
    );
    crate::blackboard::append(conn, &event.by(actor), now)?;
    Ok(changed)
}

fn implementation(conn: &Connection, id: &ChangeId) -> Result<Option<Item>> {
    let mut items = items::items_of(conn, id)?.into_iter();
    Ok(items.rfind(|item| item.step() == Some(LoopStep::Implement)))
}

fn differences(
    change: &Change,
    task: &TaskRow,
    priority: Priority,
    edit: &TaskEdit,
) -> Vec<EditedField> {
    let path = |spec: &Option<TaskSpec>| spec.as_ref().map(|spec| spec.path.clone());
    let number = |issue: &Option<TaskIssue>| issue.as_ref().map(|one| one.number.to_string());
    let known = |text: &str| Some(text.to_owned());
    let place = edit.place.as_ref();
    let most = change.budget.own_max_fix_cycles;
    let mut all = vec![
        part(
            TaskField::Title,
            known(&change.title),
            edit.title.clone().map(Some),
        ),
        part(
            TaskField::Body,
            known(&task.text),
            edit.text.clone().map(Some),
        ),
        part(
            TaskField::Agent,
            task.agent.clone(),
            edit.agent.clone().map(Some),
        ),
        part(
            TaskField::ReviewAgent,
            task.review_agent.clone(),
            edit.review_agent.clone().map(Some),
        ),
        part(
            TaskField::Model,
            task.model.clone(),
            edit.model.clone().map(Some),
        ),
        part(
            TaskField::Priority,
            known(priority.as_str()),
            edit.priority.map(|one| known(one.as_str())),
        ),
        part(
            TaskField::After,
            change.waits_for.as_ref().map(ToString::to_string),
            edit.after
                .as_ref()
                .map(|after| after.as_ref().map(ToString::to_string)),
        ),
        part(
            TaskField::Base,
            known(&change.base),
            place.map(|place| known(&place.base)),
        ),
        part(
            TaskField::Branch,
            known(&change.branch),
            place.map(|place| known(&place.branch)),
        ),
        part(
            TaskField::MaxCycles,
            most.map(|most| most.to_string()),
            edit.max_cycles.map(|most| Some(most.to_string())),
        ),
        part(
            TaskField::Draft,
            known(word(task.draft)),
            edit.draft.map(|draft| known(word(draft))),
        ),
    ];
    // The same path may have other contents now, and so may the issue.
    if let Some(spec) = edit.spec.as_ref().filter(|spec| **spec != task.spec) {
        all.push(Some(EditedField {
            field: TaskField::Spec,
            from: path(&task.spec),
            to: path(spec),
        }));
    }
    if let Some(issue) = edit.issue.as_ref().filter(|issue| **issue != task.issue) {
        all.push(Some(EditedField {
            field: TaskField::Issue,
            from: number(&task.issue),
            to: number(issue),
        }));
    }
    all.into_iter().flatten().collect()
}

/// Returns a part that gets another value.
fn part(field: TaskField, from: Option<String>, to: Option<Option<String>>) -> Option<EditedField> {
    let to = to?;
    let short = |text: String| cap(&text, VALUE);
    (from != to).then(|| EditedField {
        field,
        from: from.map(short),
        to: to.map(short),
    })
}

/// True for an item whose priority still matters.
fn may_run(item: &Item) -> bool {
    item.status.is_open() || item.status == Status::Failed
}

fn word(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

fn progress(conn: &Connection, change: &Change) -> Result<Progress> {
    let stage = change.escalated_from.unwrap_or(change.state);
    let items = items::items_of(conn, &change.change_id)?;
    let is_opening =
        |item: &Item| item.source == Source::PullRequest && item.status == Status::Claimed;
    Ok(Progress {
        is_begun: is_begun(conn, change)?,
        is_implementing: stage == State::Implementing,
        is_implemented: !matches!(stage, State::Queued | State::Implementing),
        has_pull: change.has_pr() || items.iter().any(is_opening),
        has_work: items.iter().any(may_run),
    })
}

/// Refuses to change a part that nothing reads any more.
fn refuse_without_effect(change: &Change, field: TaskField, progress: Progress) -> Result<()> {
    let id = &change.change_id;
    let reason = match field {
        TaskField::Title | TaskField::Draft if progress.has_pull => {
            "its pull request is open or being opened; edit it on GitHub"
        }
        TaskField::Body
        | TaskField::Spec
        | TaskField::Issue
        | TaskField::Model
        | TaskField::Agent
            if progress.is_implementing =>
        {
            "an agent is implementing it; its review comes first, or stop it with `remand cancel`"
        }
        TaskField::Base | TaskField::Branch if progress.is_begun || progress.is_implemented => {
            "its branch exists already; cancel it and add the task again"
        }
        TaskField::Priority if !progress.has_work => "it has no open item",
        TaskField::After if change.state != State::Queued => {
            "only a queued task can wait for another change"
        }
        TaskField::Title
        | TaskField::Body
        | TaskField::Spec
        | TaskField::Issue
        | TaskField::Agent
        | TaskField::ReviewAgent
        | TaskField::Model
        | TaskField::Priority
        | TaskField::After
        | TaskField::Base
        | TaskField::Branch
        | TaskField::MaxCycles
        | TaskField::Draft => return Ok(()),
    };
    let name = field.as_str().replace('_', " ");
    Err(BoardError::refused_with_hint(
        format!(
            "cannot change the {name} of {id} ({}): {reason}",
            change.state
        ),
        format!("`remand why {id}` explains its state"),
    ))
}

fn write_task(conn: &Connection, id: &ChangeId, task: &TaskRow, edit: &TaskEdit) -> Result<()> {
    let spec = edit.spec.as_ref().unwrap_or(&task.spec);
    let issue = edit.issue.as_ref().unwrap_or(&task.issue);
    conn.run(
        "UPDATE tasks SET text = :text, spec = :spec, issue = :issue, agent = :agent, review_agent = :review_agent,
             model = :model, draft = :draft
         WHERE change_id = :id",
        params! {
            id,
            text: edit.text.as_ref().unwrap_or(&task.text),
            spec: spec.as_ref().map(Json),
            issue: issue.as_ref().map(Json),
            agent: edit.agent.as_ref().or(task.agent.as_ref()),
            review_agent: edit.review_agent.as_ref().or(task.review_agent.as_ref()),
            model: edit.model.as_ref().or(task.model.as_ref()),
            draft: edit.draft.unwrap_or(task.draft),
        },
    )
}

fn write_change(conn: &Connection, change: &Change, edit: &TaskEdit, now: Time) -> Result<()> {
    let id = &change.change_id;
    conn.run(
        "UPDATE changes SET title = coalesce(:title, title), own_max_fix_cycles = coalesce(:most, own_max_fix_cycles),
             max_fix_cycles = coalesce(max(fix_cycle, :most + added_fix_cycles), max_fix_cycles),
             max_total_fixes = max(max_total_fixes, coalesce(:most, 0)), updated_at = :now
         WHERE change_id = :id",
        params! { id, now, title: edit.title, most: edit.max_cycles },
    )?;
    let Some(place) = &edit.place else {
        return Ok(());
    };
    changes::refuse_taken(
        conn,
        &change.project_id,
        &place.worktree,
        &place.branch,
        Some(id),
    )?;
    conn.run(
        "UPDATE changes SET base = :base, branch = :branch, worktree = :worktree, own_worktree = :own_worktree, head = :head
         WHERE change_id = :id",
        params! { id; place.{ base, branch, worktree, own_worktree, head } },
    )
}

fn write_items(conn: &Connection, id: &ChangeId, item: &Item, edit: &TaskEdit) -> Result<()> {
    let change = crate::blackboard::change(conn, id)?;
    conn.run(
        "UPDATE work_items SET priority = coalesce(:priority, priority)
         WHERE change_id = :id AND status IN ('available', 'claimed', 'blocked', 'failed')",
        params! { id, priority: edit.priority },
    )?;
    let task = tasks::task(conn, id)?.unwrap_or_default();
    conn.run(
        "UPDATE work_items SET title = :title, source = :source, source_ref = :branch, worktree = :worktree, metadata = :metadata
         WHERE item_id = :item AND status IN ('available', 'blocked', 'failed')",
        params! {
            item: item.item_id,
            title: tasks::item_title(&change),
            source: task.source(),
            branch: change.branch,
            worktree: change.worktree,
            metadata: tasks::metadata(&change),
        },
    )
}

fn wait_for(conn: &Connection, id: &ChangeId, after: Option<&ChangeId>) -> Result<()> {
    let first = match after {
        Some(after) => {
            waiting::refuse_cycle(conn, id, after)?;
            waiting::waiting_for(conn, after)?
        }
        None => None,
    };
    match first {
        Some(first) => waiting::begin_waiting(conn, id, &first),
        None => waiting::start_waiting(conn, id).map(drop),
    }
}
