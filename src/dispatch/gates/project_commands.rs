//! Runs commands of a project, its set-up and its gates, under the shim: for a change or, with `remand init`, for none. It
//! decides nothing about a change.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::blackboard::Project;
use crate::dispatch::interrupt::{Interrupt, Result};
use crate::dispatch::run::launch::{CommandSite, confine, make_folder, write};
use crate::dispatch::settings::Settings;
use crate::dispatch::task::{Signs, Task};
use crate::failpoint::crash_point;
use crate::process::{self, FinishedCommand, Job, SETTLE};
use crate::project_settings::ProjectSettings;

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
        let finished = FinishedCommand::of(&dir).await?;
        finished.ok_or_else(|| self.stopped())
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
