//! Runs commands of a project, its set-up and its gates, under the shim: for a change or, with `remand init`, for none. It
//! decides nothing about a change.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::blackboard::Project;
use crate::dispatch::interrupt::{Interrupt, Result};
use crate::dispatch::run::launch::{CommandSite, confine, make_folder, write};
use crate::dispatch::run::recover::SETTLE;
use crate::dispatch::settings::Settings;
use crate::dispatch::task::{Signs, Task};
use crate::failpoint::crash_point;
use crate::process::{self, Exit, Job, Stream};
use crate::project_settings::ProjectSettings;
use crate::work::Ended;

/// Environment in which commands of a project run.
pub(crate) struct ProjectCommands<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) rules: &'a ProjectSettings,
    pub(crate) project: &'a Project,
    pub(crate) signs: Signs,
    /// The task that they run for; if none, no change gets their events.
    pub(crate) task: Option<&'a Task>,
}

/// A command that is about to run.
pub(crate) struct ProjectCommand<'a> {
    pub(crate) run_id: String,
    /// Value of `REMAND_PHASE` for the command; also names the crash points around it.
    pub(crate) phase: &'static str,
    pub(crate) argv: &'a [String],
    pub(crate) site: CommandSite<'a>,
    pub(crate) dir: &'a Path,
    /// An empty file, which is created.
    pub(crate) stdin: PathBuf,
    pub(crate) limit: Duration,
}

/// A command that ran to its end, or could not start.
pub(crate) struct FinishedCommand {
    pub(crate) end: CommandEnd,
    pub(crate) status: Option<i32>,
    pub(crate) elapsed_ms: u64,
    dir: PathBuf,
}

/// The end of a command that was not stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandEnd {
    Passed,
    /// Exited with a status other than 0.
    Failed,
    TimedOut,
    /// Ended by a signal that it caused itself: its code's fault, not the machine's.
    Crashed(i32),
    /// Ended by somebody else: a person, or the kernel when memory ran out.
    Killed,
    /// Could not start, with the reason.
    NotStarted(String),
    /// Its shim was killed before it could write the end.
    Vanished,
}

impl FinishedCommand {
    /// The kept output.
    pub(crate) fn output(&self) -> String {
        let text = |stream| {
            process::read_output(&self.dir, stream)
                .map(|kept| kept.text)
                .unwrap_or_default()
        };
        format!("{}{}", text(Stream::Stdout), text(Stream::Stderr))
    }
}

impl Task {
    pub(crate) fn bench(&self) -> ProjectCommands<'_> {
        ProjectCommands {
            settings: &self.dispatch.settings,
            rules: &self.rules,
            project: &self.project,
            signs: self.signs.clone(),
            task: Some(self),
        }
    }
}

impl ProjectCommands<'_> {
    /// Runs a command to its end; none of its processes is alive then.
    pub(crate) async fn run(&self, command: ProjectCommand<'_>) -> Result<FinishedCommand> {
        let (phase, dir) = (command.phase, command.dir.to_owned());
        let job = self.job(command).await?;
        crash_point!("{phase}.before");
        let mut running = process::start(&self.settings.program, &job).await?;
        self.signs
            .wait(&mut running, self.settings.stop_grace)
            .await?;
        crash_point!("{phase}.after");
        let mut exit = process::read_exit(&dir)?;
        if exit.is_none() {
            // Its shim was killed: its processes must not continue in a place that others will use.
            process::settle(&dir, SETTLE).await?;
            exit = process::read_exit(&dir)?;
        }
        Ok(FinishedCommand {
            end: command_end(exit.as_ref()).ok_or_else(|| self.stopped())?,
            status: exit.as_ref().and_then(|exit| exit.status),
            elapsed_ms: exit.map_or(0, |exit| exit.elapsed_ms),
            dir,
        })
    }

    /// Returns the command as a confined job.
    async fn job(&self, command: ProjectCommand<'_>) -> Result<Job> {
        write(&command.stdin, b"")?;
        let mut env = self.settings.env.clone();
        env.insert("REMAND_PHASE".into(), command.phase.into());
        let job = Job {
            run_id: command.run_id,
            argv: command.argv.to_vec(),
            cwd: command.site.place.path.clone(),
            env,
            stdin: command.stdin,
            dir: command.dir.to_owned(),
            limits: process::Limits {
                idle: command.limit,
                total: command.limit,
                grace: self.settings.limits.grace,
            },
            is_wrapped: false,
        };
        confine(self.settings, job, command.site, None).await
    }

    /// Returns a new directory for each job of this name, not created yet; interrupted earlier jobs are ended first.
    pub(crate) async fn job_folder(&self, name: &str) -> Result<PathBuf> {
        let all = self.settings.runs_dir.join(name);
        for number in 0_u32.. {
            let dir = all.join(number.to_string());
            if dir.exists() {
                process::settle(&dir, SETTLE).await?;
                continue;
            }
            return Ok(dir);
        }
        Err(Interrupt::hold("too many directories for this job"))
    }

    /// Returns a new directory for each job of this name, created.
    pub(crate) async fn made_job_folder(&self, name: &str) -> Result<PathBuf> {
        let dir = self.job_folder(name).await?;
        make_folder(&dir)?;
        Ok(dir)
    }

    /// Checks that the next command may start.
    pub(crate) async fn check_cancelled(&self) -> Result<()> {
        match self.task {
            Some(task) => {
                task.check_cancelled()?;
                task.not_stopped().await
            }
            None => Ok(()),
        }
    }

    /// Returns the interrupt for a command that was ended from outside.
    fn stopped(&self) -> Interrupt {
        if self.signs.fenced.is_cancelled() {
            Interrupt::Fenced
        } else {
            Interrupt::Stopping
        }
    }
}

/// Describes the end of a command; none if it was stopped from outside.
fn command_end(exit: Option<&Exit>) -> Option<CommandEnd> {
    let Some(exit) = exit else {
        return Some(CommandEnd::Vanished);
    };
    Some(match (exit.ended, exit.status, exit.signal) {
        (Ended::Stopped, _, _) => return None,
        (Ended::Agent, Some(0), _) => CommandEnd::Passed,
        (Ended::Agent, _, _) => CommandEnd::Failed,
        (Ended::IdleLimit | Ended::TotalLimit, _, _) => CommandEnd::TimedOut,
        (Ended::Lost, _, Some(signal)) if is_own_doing(signal) => CommandEnd::Crashed(signal),
        (Ended::DaemonGone | Ended::Lost, _, _) => CommandEnd::Killed,
        (Ended::NotStarted, _, _) => {
            let why = exit.detail.clone();
            CommandEnd::NotStarted(why.unwrap_or_else(|| "command not found".into()))
        }
    })
}

/// Signals that a program causes itself: its code's fault, not the machine's.
fn is_own_doing(signal: i32) -> bool {
    use rustix::process::Signal;
    [
        Signal::ABORT,
        Signal::BUS,
        Signal::FPE,
        Signal::ILL,
        Signal::SEGV,
        Signal::SYS,
        Signal::TRAP,
    ]
    .iter()
    .any(|own| own.as_raw() == signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_command_tells_whose_fault_it_is() {
        let exit = |ended, status, signal| Exit {
            ended,
            status,
            signal,
            stdout_bytes: 0,
            stderr_bytes: 0,
            leftovers: 0,
            survivors: 0,
            elapsed_ms: 1,
            detail: Some("no such file".into()),
        };
        let not_started = CommandEnd::NotStarted("no such file".into());
        for (ended, status, signal, end) in [
            (Ended::Agent, Some(0), None, Some(CommandEnd::Passed)),
            (Ended::Agent, Some(3), None, Some(CommandEnd::Failed)),
            (Ended::IdleLimit, None, Some(15), Some(CommandEnd::TimedOut)),
            (Ended::TotalLimit, Some(0), None, Some(CommandEnd::TimedOut)),
            (Ended::Lost, None, Some(11), Some(CommandEnd::Crashed(11))),
            (Ended::Lost, None, Some(9), Some(CommandEnd::Killed)),
            (Ended::Lost, None, None, Some(CommandEnd::Killed)),
            (Ended::DaemonGone, None, Some(11), Some(CommandEnd::Killed)),
            (Ended::NotStarted, None, None, Some(not_started)),
            (Ended::Stopped, None, Some(15), None),
        ] {
            let told = command_end(Some(&exit(ended, status, signal)));
            assert_eq!(told, end, "{ended} {status:?} {signal:?}");
        }
        assert_eq!(command_end(None), Some(CommandEnd::Vanished));
    }
}
