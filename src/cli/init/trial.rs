//! One run of a new project's set-up and gates, and what is shown of it.

use anyhow::Result;
use serde::Serialize;

use crate::blackboard::Project;
use crate::cli::frame::context::wait;
use crate::cli::frame::ui::{Line, TextStyle, Ui};
use crate::closed_enum::closed_enum;
use crate::config::Loaded;
use crate::daemon;
use crate::dispatch::{self, Trial};

closed_enum! {
    /// How the trial of a project ended.
    "result" TrialResult {
        Green = "green",
        Red = "red",
        /// The set-up failed, or a program is missing.
        NotRun = "not_run",
    }
}

/// The trial of one project.
#[derive(Debug, Serialize)]
pub(super) struct Tried {
    project_id: String,
    branch: String,
    /// The set-up and the gates, in words.
    commands: String,
    result: TrialResult,
    /// The gate that is red.
    command: Option<String>,
    /// What failed in it, or why nothing could run.
    reason: Option<String>,
    /// The last output of the red gate.
    output: Option<String>,
}

/// The commands that a trial runs, in words; none where there is no gate.
pub(super) fn commands(settings: &Loaded, project: &Project) -> Option<String> {
    let set = settings.project(project.project_id.as_str());
    let gates = set.gates.iter().map(|gate| format!("`{}`", gate.join(" ")));
    let setup = (!set.setup.is_empty()).then(|| format!("`{}`", set.setup.join(" ")));
    (!set.gates.is_empty()).then(|| {
        setup
            .into_iter()
            .chain(gates)
            .collect::<Vec<_>>()
            .join(", then ")
    })
}

pub(super) fn run(settings: &Loaded, project: &Project, commands: String) -> Result<Tried> {
    let parts = daemon::dispatch_settings(settings)?;
    let git = daemon::git(settings);
    let trial = wait(dispatch::try_out(&parts, project, &git))?;
    let tried = Tried {
        project_id: project.project_id.to_string(),
        branch: project.default_branch.clone(),
        commands,
        result: TrialResult::Green,
        command: None,
        reason: None,
        output: None,
    };
    Ok(match trial {
        Trial::Green => tried,
        Trial::Red {
            command,
            summary,
            output,
        } => Tried {
            result: TrialResult::Red,
            command: Some(command),
            reason: Some(summary),
            output: Some(output),
            ..tried
        },
        Trial::NotRun { reason } => Tried {
            result: TrialResult::NotRun,
            reason: Some(reason),
            ..tried
        },
    })
}

impl Tried {
    pub(super) fn show(&self, out: &mut Ui) -> Result<()> {
        let of = format!("on {} of {}", self.branch, self.project_id);
        let reason = self.reason.as_deref().unwrap_or_default();
        match self.result {
            TrialResult::Green => {
                let line = Line::default()
                    .piece(TextStyle::Good, "green")
                    .plain(format!(": {} {of}", self.commands));
                return Ok(out.line(line)?);
            }
            TrialResult::Red => {
                let command = self.command.as_deref().unwrap_or_default();
                out.line(
                    Line::default()
                        .piece(TextStyle::Bad, "red")
                        .plain(format!(": the gate `{command}` fails {of}: {reason}")),
                )?;
                out.block(self.output.as_deref().unwrap_or_default(), 2)?;
            }
            TrialResult::NotRun => {
                let (first, output) = reason.split_once('\n').unwrap_or((reason, ""));
                out.line(
                    Line::default()
                        .piece(TextStyle::Bad, "not run")
                        .plain(format!(": the gates {of}: {first}")),
                )?;
                out.block(output, 2)?;
            }
        }
        out.note("note: no agent is started for a change as long as it is so")?;
        out.note("hint: change `setup` and `gates` in the config file, or set red_base = \"ignore\" there")?;
        Ok(())
    }
}
