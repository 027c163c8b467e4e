//! Trial run of a new project's set-up and gates, and its output.

use anyhow::Result;
use serde::Serialize;

use crate::blackboard::Project;
use crate::cli::frame::{Line, TextStyle, Ui, wait};
use crate::closed_enum::closed_enum;
use crate::config::Loaded;
use crate::daemon;
use crate::dispatch::{self, Trial};
use crate::text::joined;

closed_enum! {
    /// Result of the trial of a project.
    "result" TrialResult {
        Green = "green",
        Red = "red",
        /// The set-up failed, or a program is missing.
        NotRun = "not_run",
    }
}

/// Trial of one project.
#[derive(Debug, Serialize)]
pub(super) struct Tried {
    project_id: String,
    branch: String,
    /// Description of the set-up and the gates.
    commands: String,
    result: TrialResult,
    /// Gate that failed.
    command: Option<String>,
    /// Failure of the gate, or the reason why nothing could run.
    reason: Option<String>,
    /// Last output of the failed gate.
    output: Option<String>,
}

/// Describes the commands that a trial runs; `None` without a gate.
pub(super) fn commands(settings: &Loaded, project: &Project) -> Option<String> {
    let set = settings.project(project.project_id.as_str());
    let gates = set.gates.iter().map(|gate| format!("`{}`", gate.join(" ")));
    let setup = (!set.setup.is_empty()).then(|| format!("`{}`", set.setup.join(" ")));
    (!set.gates.is_empty()).then(|| joined(setup.into_iter().chain(gates), ", then "))
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
        let (first, rest) = reason.split_once('\n').unwrap_or((reason, ""));
        let (style, word, text, output) = match self.result {
            TrialResult::Green => (
                TextStyle::Good,
                "green",
                format!("{} {of}", self.commands),
                "",
            ),
            TrialResult::Red => {
                let command = self.command.as_deref().unwrap_or_default();
                let text = format!("the gate `{command}` fails {of}: {reason}");
                let output = self.output.as_deref().unwrap_or_default();
                (TextStyle::Bad, "red", text, output)
            }
            TrialResult::NotRun => {
                let text = format!("the gates could not run {of}: {first}");
                (TextStyle::Bad, "error", text, rest)
            }
        };
        out.line(Line::new().piece(style, word).plain(format!(": {text}")))?;
        out.block(output, 2)?;
        if self.result != TrialResult::Green {
            out.note("note: no agent is started for a change until this is fixed")?;
            out.note(
                "hint: edit `setup` and `gates` in the config file, or set red_base = \"ignore\"",
            )?;
        }
        Ok(())
    }
}
