//! Runs commands of a project, its set-up and its gates: for a change or, with `remand init`, for none. It decides nothing
//! about a change.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::blackboard::Project;
use crate::dispatch::interrupt::Interrupt;
use crate::dispatch::run::launch::{CommandSite, confine, make_folder, write};
use crate::dispatch::run::recover::SETTLE;
use crate::dispatch::settings::Settings;
use crate::dispatch::task::{Signs, Task};
use crate::process::{self, Job};
use crate::project_settings::ProjectSettings;

/// Everything that commands of a project are run with.
pub(crate) struct ProjectCommands<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) rules: &'a ProjectSettings,
    pub(crate) project: &'a Project,
    pub(crate) signs: Signs,
    /// The task that they run for; none: no change is told of them.
    pub(crate) task: Option<&'a Task>,
}

/// A command that is about to run.
pub(crate) struct ProjectCommand<'a> {
    pub(crate) run_id: String,
    /// What the command reads from `REMAND_PHASE`.
    pub(crate) phase: &'static str,
    pub(crate) argv: &'a [String],
    pub(crate) site: CommandSite<'a>,
    pub(crate) dir: &'a Path,
    /// An empty file, which is made.
    pub(crate) stdin: PathBuf,
    pub(crate) limit: Duration,
}

impl Task {
    pub(crate) fn bench(&self) -> ProjectCommands<'_> {
        ProjectCommands {
            settings: &self.dispatch.settings,
            rules: &self.rules,
            project: &self.project,
            signs: self.signs(),
            task: Some(self),
        }
    }
}

impl ProjectCommands<'_> {
    /// The command as a confined job.
    pub(crate) async fn job(&self, command: ProjectCommand<'_>) -> Result<Job, Interrupt> {
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

    /// Runs a job until its end, however that comes about: how it ended is read from its folder.
    pub(crate) async fn run(&self, job: &Job) -> Result<(), Interrupt> {
        let mut running = process::start(&self.settings.program, job).await?;
        self.signs
            .wait(&mut running, self.settings.stop_grace)
            .await
    }

    /// A folder of its own for each job of this name, not made yet; what a crash cut of earlier ones is ended first.
    pub(crate) async fn job_folder(&self, name: &str) -> Result<PathBuf, Interrupt> {
        let all = self.settings.runs_dir.join(name);
        for number in 0_u32.. {
            let dir = all.join(number.to_string());
            if dir.exists() {
                process::settle(&dir, SETTLE).await?;
                continue;
            }
            return Ok(dir);
        }
        Err(Interrupt::hold(
            "there is no number left for a job's folder",
        ))
    }

    /// The same, made.
    pub(crate) async fn made_job_folder(&self, name: &str) -> Result<PathBuf, Interrupt> {
        let dir = self.job_folder(name).await?;
        make_folder(&dir)?;
        Ok(dir)
    }

    /// Whether the next command may begin.
    pub(crate) async fn go_on(&self) -> Result<(), Interrupt> {
        match self.task {
            Some(task) => {
                task.go_on()?;
                task.not_stopped().await
            }
            None => Ok(()),
        }
    }

    /// A command that was ended from outside.
    pub(crate) fn stopped(&self) -> Interrupt {
        if self.signs.fenced.is_cancelled() {
            Interrupt::Fenced
        } else {
            Interrupt::Stopping
        }
    }
}
