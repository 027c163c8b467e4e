//! The task of the demo.

use anyhow::Result;

use crate::blackboard::{self as bb, NewChange, NewTask, SyncDb};
use crate::change::{ChangeId, State};
use crate::clock;
use crate::daemon;
use crate::demo::{ME, Part, Stage, TASK};
use crate::task::TaskRow;

/// Adds a task, like `remand add TITLE -a --body TEXT`.
pub(super) fn add(stage: &Stage, part: &Part) -> Result<ChangeId> {
    let (project, now) = (&stage.project, clock::now());
    let rules = stage.loaded.project(project.project_id.as_str());
    let folder = rules.own_worktrees.join(project.project_id.as_str());
    let new = NewTask {
        change: NewChange {
            project_id: project.project_id.clone(),
            title: part.title.to_owned(),
            branch: part.branch.to_owned(),
            base: project.default_branch.clone(),
            head: stage.main.clone(),
            worktree: folder
                .join(part.branch.replace('/', "-"))
                .display()
                .to_string(),
            host: daemon::host(),
            state: State::Queued,
            bounds: rules.bounds,
            review: rules.review,
            own_max_fix_cycles: None,
            shadow: None,
            actor: ME.to_owned(),
        },
        task: TaskRow {
            text: TASK.to_owned(),
            ..TaskRow::default()
        },
        priority: rules.implement.priority,
        own_worktree: true,
        auto_review: true,
        opens_pr: true,
        after: None,
    };
    let mut db = SyncDb::open(&stage.loaded.blackboard, now)?;
    let change = db.write("demo_task", |conn| bb::add_task(conn, &new, now))?;
    Ok(change.change_id)
}
