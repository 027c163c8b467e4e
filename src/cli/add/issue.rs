//! The issue of a task, as it is read when the task is added: naming it is the consent to its text.

use anyhow::Result;

use crate::blackboard::Project;
use crate::cli::frame::{CommandError, wait};
use crate::config::Loaded;
use crate::daemon;
use crate::task::TaskIssue;

pub(crate) fn read(number: i64, project: &Project, settings: &Loaded) -> Result<TaskIssue> {
    let Some(repo) = &project.repo else {
        let what = format!(
            "--issue: the project {} has no repository on GitHub",
            project.project_id
        );
        return CommandError::new(what)
            .fail_with_hint("set one with `remand project add PATH --repo OWNER/NAME`");
    };
    let intake = daemon::intake(settings)?;
    Ok(wait(intake.task_issue(repo, number))??)
}
