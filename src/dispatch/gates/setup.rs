//! The project's set-up command: what makes a fresh worktree, or a checkout for gates, ready. Whether it has to run is
//! decided elsewhere.

use std::path::{Path, PathBuf};

use super::gate_run::output_end;
use super::gate_summary::gate_summary;
use super::project_commands::{ProjectCommand, ProjectCommands};
use crate::blackboard as bb;
use crate::clock;
use crate::dispatch::interrupt::Interrupt;
use crate::dispatch::run::launch::{CommandSite, make_folder};
use crate::dispatch::run::recover::SETTLE;
use crate::dispatch::task::Task;
use crate::event::NewEvent;
use crate::event::body;
use crate::failpoint::crash_point;
use crate::process::{self, Exit, Stream};
use crate::work::Ended;

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

/// A set-up that ran and failed by itself: the environment's fault or the commit's.
pub(crate) struct SetUpFailure {
    /// A sentence without the output.
    pub(crate) what: String,
    pub(crate) status: Option<i32>,
    /// None: the output has nothing to do with it.
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
    /// Runs the project's set-up command to its end, and appends what came of it.
    pub(crate) async fn run_set_up(
        &self,
        set_up: SetUp<'_>,
    ) -> Result<Option<SetUpFailure>, Interrupt> {
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
        let job = self.job(command).await?;
        crash_point!("setup.before");
        self.run(&job).await?;
        crash_point!("setup.after");
        if process::read_exit(&dir)?.is_none() {
            process::settle(&dir, SETTLE).await?;
        }
        if let Some(task) = self.task {
            task.record_set_up(place, &site.place.path, process::read_exit(&dir)?)
                .await?;
        }
        self.judge_setup(&dir)
    }

    fn judge_setup(&self, dir: &Path) -> Result<Option<SetUpFailure>, Interrupt> {
        let command = self.rules.setup.join(" ");
        let Some(exit) = process::read_exit(dir)? else {
            return Err(Interrupt::hold(format!(
                "the set-up `{command}` vanished without a word"
            )));
        };
        let Exit { ended, status, .. } = exit;
        let failure = |what: String| {
            let text = |stream| {
                process::read_output(dir, stream)
                    .map(|kept| kept.text)
                    .unwrap_or_default()
            };
            SetUpFailure {
                what,
                status,
                output: Some(format!("{}{}", text(Stream::Stdout), text(Stream::Stderr))),
            }
        };
        let failed = || {
            let status = status
                .map(|status| format!(" (status {status})"))
                .unwrap_or_default();
            failure(format!("the set-up `{command}` failed{status}"))
        };
        match (ended, status) {
            (Ended::Agent, Some(0)) => Ok(None),
            (Ended::Agent, _) => Ok(Some(failed())),
            (Ended::Stopped, _) => Err(self.stopped()),
            (Ended::NotStarted, _) => {
                let why = exit.detail.unwrap_or_else(|| "it is not there".into());
                Err(Interrupt::hold(format!(
                    "the set-up `{command}` can't be started: {why}"
                )))
            }
            (Ended::IdleLimit | Ended::TotalLimit, _) => {
                let limit = self.settings.limits.setup.as_secs();
                Ok(Some(failure(format!(
                    "the set-up `{command}` was ended after {limit} s"
                ))))
            }
            (Ended::DaemonGone | Ended::Lost, _) => Err(failed().hold()),
        }
    }
}

/// The line that names what failed, then the end of the output, unless the line is all of it.
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
    /// A set-up that somebody stopped is not one that ran.
    pub(crate) async fn record_set_up(
        &self,
        place: SetUpPlace,
        path: &Path,
        exit: Option<Exit>,
    ) -> Result<(), Interrupt> {
        let result = match exit.as_ref().map(|exit| (exit.ended, exit.status)) {
            Some((Ended::Stopped, _)) => return Ok(()),
            Some((Ended::Agent, Some(0))) => SetUpResult::Done,
            Some((Ended::IdleLimit | Ended::TotalLimit, _)) => SetUpResult::TimedOut,
            Some((Ended::NotStarted, _)) => SetUpResult::NotStarted,
            Some((Ended::Agent | Ended::DaemonGone | Ended::Lost, _)) | None => SetUpResult::Failed,
        };
        let elapsed_ms = exit.as_ref().map_or(0, |exit| exit.elapsed_ms);
        let summary = format!(
            "set-up of the {place} {}: {result} after {elapsed_ms} ms",
            path.display()
        );
        let ran = body::SetupRun {
            place: Some(place),
            path: path.display().to_string(),
            command: self.rules.setup.clone(),
            result: Some(result),
            status: exit.and_then(|exit| exit.status),
            elapsed_ms,
        };
        let event = NewEvent::about(&self.change.change_id, ran, summary);
        self.write("setup_run", move |conn| {
            bb::append(conn, &event, clock::now()).map(drop)
        })
        .await?;
        Ok(())
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
