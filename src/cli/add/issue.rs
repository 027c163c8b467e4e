//! The issue of a task, as it is read when the task is added.

use anyhow::Result;

use crate::blackboard::Project;
use crate::cli::frame::CommandError;
use crate::config::Loaded;
use crate::task::TaskIssue;

pub(super) fn read(number: i64, project: &Project, _settings: &Loaded) -> Result<TaskIssue> {
    CommandError::new(format!(
        "cannot read issue {number} of {}",
        project.project_id
    ))
    .fail()
}
