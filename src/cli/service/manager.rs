//! Calls of systemctl and launchctl, if they are installed.

use std::time::Duration;

use super::target::InstallTarget;
use crate::cli::frame::wait;
use crate::config;
use crate::process::{self, Short};
use crate::service_unit::{Kind, Scope};

/// Maximum time for one step; a start waits until the daemon is ready.
const LIMIT: Duration = Duration::from_secs(120);
const CAP: usize = 16 * 1024;
const UNIT: &str = "remand.service";
/// Exit codes for "No such process" and "Could not find specified service".
const NOT_LOADED: [i32; 2] = [3, 113];

pub(super) struct Manager {
    kind: Kind,
    is_user: bool,
    /// File system of another machine, in which nothing can be started or stopped.
    root: Option<String>,
    file: String,
}

/// Result of a step.
pub(super) enum StepResult {
    Well,
    /// The program is not installed.
    NotThere,
    Badly(String),
}

impl Manager {
    pub(super) fn of(site: &InstallTarget) -> Self {
        Self {
            kind: site.kind,
            is_user: *site.scope() == Scope::User,
            root: site.root.as_ref().map(|root| root.display().to_string()),
            file: site.file.display().to_string(),
        }
    }

    pub(super) fn install_steps(&self, no_start: bool) -> Vec<Vec<String>> {
        if self.kind == Kind::Systemd && self.root.is_some() {
            return vec![self.systemctl(&["enable", UNIT])];
        }
        let start = self.start_step().filter(|_| !no_start);
        self.reload_step().into_iter().chain(start).collect()
    }

    /// True if the systemd of this machine starts and stops the service.
    fn has_systemd(&self) -> bool {
        self.kind == Kind::Systemd && self.root.is_none()
    }

    pub(super) fn start_step(&self) -> Option<Vec<String>> {
        match (self.kind, &self.root) {
            (_, Some(_)) => None,
            (Kind::Systemd, None) => Some(self.systemctl(&["enable", "--now", UNIT])),
            (Kind::Launchd, None) => Some(launchctl(&["bootstrap", &self.domain(), &self.file])),
        }
    }

    pub(super) fn restart(&self) -> Option<Vec<String>> {
        self.has_systemd()
            .then(|| self.systemctl(&["restart", UNIT]))
    }

    pub(super) fn stop_step(&self) -> Option<Vec<String>> {
        match (self.kind, &self.root) {
            (Kind::Systemd, Some(_)) => Some(self.systemctl(&["disable", UNIT])),
            (Kind::Systemd, None) => Some(self.systemctl(&["disable", "--now", UNIT])),
            (Kind::Launchd, Some(_)) => None,
            (Kind::Launchd, None) => {
                let service = format!("{}/remand", self.domain());
                Some(launchctl(&["bootout", &service]))
            }
        }
    }

    /// Command that stops the service even after its file was removed.
    pub(super) fn late_stop_step(&self) -> Option<Vec<String>> {
        match (self.kind, &self.root) {
            (Kind::Systemd, None) => Some(self.systemctl(&["stop", UNIT])),
            (Kind::Launchd, None) => self.stop_step(),
            (Kind::Systemd | Kind::Launchd, Some(_)) => None,
        }
    }

    pub(super) fn reload_step(&self) -> Option<Vec<String>> {
        self.has_systemd()
            .then(|| self.systemctl(&["daemon-reload"]))
    }

    pub(super) fn enabled(&self) -> Option<String> {
        (self.kind == Kind::Systemd).then(|| self.answer(&self.systemctl(&["is-enabled", UNIT])))?
    }

    pub(super) fn active(&self) -> Option<String> {
        self.has_systemd()
            .then(|| self.answer(&self.systemctl(&["is-active", UNIT])))?
    }

    /// Returns the main process of the unit, if it is running.
    pub(super) fn main_pid(&self) -> Option<u32> {
        let show = self.systemctl(&["show", "--property=MainPID", "--value", UNIT]);
        let pid = self.has_systemd().then(|| self.answer(&show))??;
        pid.parse().ok().filter(|pid| *pid > 0)
    }

    /// Runs a step, if its program is installed.
    pub(super) fn run(&self, step: &[String]) -> StepResult {
        match ended(step) {
            None => StepResult::NotThere,
            Some(Ok(output)) if output.status == Some(0) => StepResult::Well,
            Some(Ok(output)) if self.is_not_loaded(step, output.status) => StepResult::Well,
            Some(Ok(output)) => {
                let said = String::from_utf8_lossy(&output.stderr);
                let said = said.trim().replace('\n', "; ");
                StepResult::Badly(format!("`{}`: {said}", step.join(" ")))
            }
            Some(Err(error)) => StepResult::Badly(error.to_string()),
        }
    }

    /// True if launchd failed only because the service to stop was not running.
    fn is_not_loaded(&self, step: &[String], status: Option<i32>) -> bool {
        self.kind == Kind::Launchd
            && step.iter().any(|word| word == "bootout")
            && status.is_some_and(|status| NOT_LOADED.contains(&status))
    }

    /// Returns the single word that a command prints; for most words it exits with an error.
    fn answer(&self, step: &[String]) -> Option<String> {
        let output = ended(step)?.ok()?;
        let word = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Some(word).filter(|word| !word.is_empty() && !word.contains(char::is_whitespace))
    }

    fn systemctl(&self, words: &[&str]) -> Vec<String> {
        let mut step = vec!["systemctl".to_owned()];
        if self.is_user {
            step.push("--user".to_owned());
        }
        step.extend(self.root.iter().map(|root| format!("--root={root}")));
        step.extend(words.iter().map(ToString::to_string));
        step
    }

    fn domain(&self) -> String {
        if self.is_user {
            format!("gui/{}", rustix::process::getuid().as_raw())
        } else {
            "system".to_owned()
        }
    }
}

fn launchctl(words: &[&str]) -> Vec<String> {
    let words = std::iter::once(&"launchctl").chain(words);
    words.map(ToString::to_string).collect()
}

/// Runs a step; returns `None` if its program is not installed.
fn ended(step: &[String]) -> Option<Result<process::ShortOutput, process::ProcessError>> {
    let (program, args) = step.split_first()?;
    let env = config::session_environment();
    let path = env.get("PATH").map(std::ffi::OsString::from);
    process::find(program.as_ref(), path.as_deref(), "/".as_ref())?;
    let env = env.into_iter();
    let short = Short {
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        cwd: "/".into(),
        env: env
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        stdin: None,
        limit: LIMIT,
        cap: CAP,
        is_wrapped: false,
    };
    wait(process::short(&short)).ok()
}
