//! The project's set-up command, which prepares a fresh worktree or a checkout for gates. The need to run it is decided
//! elsewhere.

use std::path::{Path, PathBuf};

use super::gate_run::output_end;
use super::gate_summary::gate_summary;
use super::project_commands::{ProjectCommand, ProjectCommands};
use crate::dispatch::interrupt::{Interrupt, Result};
use crate::dispatch::run::launch::{CommandSite, make_folder};
use crate::dispatch::task::Task;
use crate::event::{NewEvent, body};
use crate::process::{CommandEnd, FinishedCommand};

/// Maximum number of bytes of a failed set-up's output in the reason of a hold.
const OUTPUT_TAIL: usize = 1_200;

pub(crate) use crate::event::body::{SetUpPlace, SetUpResult};

/// A set-up that is about to run.
pub(crate) struct SetUp<'a> {
    pub(crate) place: SetUpPlace,
    pub(crate) site: CommandSite<'a>,
    pub(crate) dir: PathBuf,
    pub(crate) run_id: String,
}

/// A set-up that failed by itself: the environment's fault or the commit's.
pub(crate) struct SetUpFailure {
    /// A sentence without the output.
    pub(crate) what: String,
    pub(crate) status: Option<i32>,
    /// None: the output is unrelated.
    pub(crate) output: Option<String>,
}

impl SetUpFailure {
    /// The environment's fault: tried again later.
    pub(crate) fn hold(&self) -> Interrupt {
        match &self.output {
            Some(output) => Interrupt::hold(format!("{}: {}", self.what, explained(output))),
            None => Interrupt::hold(self.what.clone()),
        }
    }
}

impl ProjectCommands<'_> {
    /// Runs the project's set-up command to its end, and appends an event with the result.
    pub(crate) async fn run_set_up(&self, set_up: SetUp<'_>) -> Result<Option<SetUpFailure>> {
        let SetUp {
            place,
            site,
            dir,
            run_id,
        } = set_up;
        make_folder(&dir)?;
        let command = ProjectCommand {
            run_id,
            phase: "setup",
            argv: &self.rules.setup,
            site,
            dir: &dir,
            stdin: dir.join("no-input"),
            limit: self.settings.limits.setup,
        };
        let done = self.run(command).await?;
        if let Some(task) = self.task {
            task.record_set_up(place, &site.place.path, &done).await?;
        }
        let command = self.rules.setup.join(" ");
        let failure = |what: String| SetUpFailure {
            what: format!("the setup `{command}` {what}"),
            status: done.status,
            output: Some(done.output()),
        };
        let failed = || {
            let status = done
                .status
                .map(|status| format!(" (status {status})"))
                .unwrap_or_default();
            failure(format!("failed{status}"))
        };
        match &done.end {
            CommandEnd::Passed => Ok(None),
            CommandEnd::Failed => Ok(Some(failed())),
            CommandEnd::TimedOut => Ok(Some(failure(format!(
                "was stopped after {} s",
                self.settings.limits.setup.as_secs()
            )))),
            CommandEnd::NotStarted(why) => Err(Interrupt::hold(format!(
                "the setup `{command}` cannot be started: {why}"
            ))),
            CommandEnd::Crashed(_) | CommandEnd::Killed => Err(failed().hold()),
            CommandEnd::Vanished => Err(Interrupt::hold(format!(
                "the setup `{command}` ended without a result"
            ))),
        }
    }
}

/// The line that names the failure, then the end of the output, unless the line is all of it.
fn explained(output: &str) -> String {
    let summary = gate_summary(output);
    let end = output_end(output, OUTPUT_TAIL).trim();
    if end.is_empty() || end == summary {
        summary
    } else {
        format!("{summary}\n{end}")
    }
}

impl Task {
    async fn record_set_up(
        &self,
        place: SetUpPlace,
        path: &Path,
        done: &FinishedCommand,
    ) -> Result<()> {
        let result = match done.end {
            CommandEnd::Passed => SetUpResult::Done,
            CommandEnd::TimedOut => SetUpResult::TimedOut,
            CommandEnd::NotStarted(_) => SetUpResult::NotStarted,
            CommandEnd::Failed
            | CommandEnd::Crashed(_)
            | CommandEnd::Killed
            | CommandEnd::Vanished => SetUpResult::Failed,
        };
        let elapsed_ms = done.elapsed_ms;
        let summary = format!(
            "setup of the {place} {}: {result} after {elapsed_ms} ms",
            path.display()
        );
        let ran = body::SetupRun {
            place: Some(place),
            path: path.display().to_string(),
            command: self.rules.setup.clone(),
            result: Some(result),
            status: done.status,
            elapsed_ms,
        };
        let event = NewEvent::about(&self.change.change_id, ran, summary);
        self.append("setup_run", event).await
    }
}

#[cfg(test)]
mod tests {
    use super::explained;

    #[test]
    fn a_red_set_up_is_explained_by_its_summary_and_whole_lines() {
        assert_eq!(explained("no such registry\n"), "no such registry");
        assert_eq!(explained(""), "no output");
        let recorded = include_str!("../../../tests/fixtures/gates/npm_ci.txt");
        let text = explained(recorded);
        let (summary, end) = text.split_once('\n').unwrap();
        assert!(
            summary
                .starts_with("EUSAGE: `npm ci` can only install packages when your package.json"),
            "{summary}"
        );
        assert!(end.starts_with("npm error") && end.len() <= 1_200, "{end}");
        assert!(recorded.contains(&format!("\n{end}\n")), "{end}");
    }
}
