//! One run of a project's set-up and gates on its default branch, without a change: `remand init` shows that they work
//! before an agent runs.

use std::path::Path;

use super::gate_checkout::{MadeFrom, Tested};
use super::gate_summary::gate_summary;
use super::project_commands::ProjectCommands;
use crate::blackboard::Project;
use crate::dispatch::interrupt::Result;
use crate::dispatch::run::recover::git_mark;
use crate::dispatch::settings::Settings;
use crate::dispatch::task::Signs;
use crate::git::{GateView, Git};

/// The result of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trial {
    Green,
    /// A gate is red.
    Red {
        command: String,
        summary: String,
        output: String,
    },
    /// A gate could not run: the set-up failed, a program is missing.
    NotRun {
        reason: String,
    },
}

/// Runs them in a managed checkout, confined as for a change. A green result is stored.
pub(crate) async fn try_out(settings: &Settings, project: &Project, git: &Git) -> Trial {
    match run(settings, project, git).await {
        Ok(trial) => trial,
        Err(stop) => Trial::NotRun {
            reason: stop.reason().unwrap_or_else(|| "stopped".to_owned()),
        },
    }
}

async fn run(settings: &Settings, project: &Project, git: &Git) -> Result<Trial> {
    let place = git.project_at(Path::new(&project.path)).await?.repository();
    let Some(commit) = git.base_head(&place, &project.default_branch).await? else {
        return Ok(Trial::NotRun {
            reason: format!("the branch {} has no commits", project.default_branch),
        });
    };
    let tree = git.tree_of(&place, &commit).await?;
    let rules = (settings.rules)(&project.project_id);
    let bench = ProjectCommands {
        settings,
        rules: &rules,
        project,
        signs: Signs::default(),
        task: None,
    };
    let repository = (settings.forge.repository)(project).marked(&git_mark(&project.path));
    repository.ready().await?;
    repository
        .take(&place, &project.default_branch, &commit)
        .await?;
    let url = Some(repository.shown_url()).filter(|url| !url.is_empty());
    let view = GateView {
        branch: &project.default_branch,
        commit: &commit,
        refs: Vec::new(),
        url,
    };
    let tested = Tested {
        view: &view,
        tree: &tree,
        made_from: MadeFrom::Base,
        fix: None,
    };
    Ok(match bench.gates_on(repository.path(), &tested).await? {
        Some(red) => Trial::Red {
            command: red.command,
            summary: gate_summary(&red.output),
            output: red.output,
        },
        None => Trial::Green,
    })
}
