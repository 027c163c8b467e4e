//! Confines everything that runs for a change: agents, gates, set-ups.
//!
//! They see the file system read-only, write only in their worktree, its repository and their own
//! state, and see the rest of the home directory, with its tokens, as empty. This module starts
//! nothing itself except a test run that checks if this works here.

mod bubblewrap;
mod git;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::process::{self, Job, Short};
use crate::sandbox_settings::{SandboxKind, SandboxSettings};

pub(crate) use git::GitReach;

/// Time limit of the test run of bubblewrap.
const LIMIT: Duration = Duration::from_secs(10);

/// Paths that one command may write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WritablePaths<'a> {
    pub(crate) worktree: &'a Path,
    /// The repository of the worktree, which gets its commits.
    pub(crate) repository: &'a Path,
    /// Directory for results besides its output; `None` for gates.
    pub(crate) answers: Option<&'a Path>,
    /// State of the agent itself, if it is not in one of the default locations.
    pub(crate) own: Option<&'a Path>,
    /// Directory that it may read although it lies in a hidden one.
    pub(crate) read: Option<&'a Path>,
}

/// Method of confinement on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Backend {
    Bubblewrap(Bubblewrap),
    Wrapper(Vec<String>),
    /// None, with the reason.
    Open(Unconfined),
}

/// Reason why there is no sandbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unconfined {
    #[error("the setting `sandbox.kind` is \"off\"")]
    Off,
    #[error("bubblewrap (`bwrap`) is not installed")]
    NotInstalled,
    #[error("bubblewrap does not work here: {0}")]
    Broken(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bubblewrap {
    pub(crate) program: PathBuf,
    /// Set if a command can be cut off from the network here. Some systems forbid it.
    pub(crate) can_cut_network: bool,
}

#[derive(Debug)]
pub(crate) struct Sandbox {
    settings: SandboxSettings,
    /// The closed environment, for the test run.
    env: BTreeMap<String, String>,
    way: OnceCell<Result<Backend, Unconfined>>,
    /// Set once it was logged that agents run without a sandbox.
    is_logged: AtomicBool,
}

impl Sandbox {
    pub(crate) fn new(settings: SandboxSettings, env: BTreeMap<String, String>) -> Self {
        Self {
            settings,
            env,
            way: OnceCell::new(),
            is_logged: AtomicBool::new(false),
        }
    }

    /// Returns the method of confinement, determined once. An error means that a sandbox is
    /// required and does not work.
    pub(crate) async fn way(&self) -> Result<&Backend, &Unconfined> {
        self.way.get_or_init(|| self.find()).await.as_ref()
    }

    async fn find(&self) -> Result<Backend, Unconfined> {
        match self.settings.kind {
            SandboxKind::Off => Ok(Backend::Open(Unconfined::Off)),
            SandboxKind::Wrapper => Ok(Backend::Wrapper(self.settings.wrapper.clone())),
            SandboxKind::Bubblewrap => self.bubblewrap().await,
            SandboxKind::Auto => Ok(self.bubblewrap().await.unwrap_or_else(Backend::Open)),
        }
    }

    async fn bubblewrap(&self) -> Result<Backend, Unconfined> {
        let path = self.env.get("PATH").map(OsString::from);
        let Some(program) = process::find("bwrap".as_ref(), path.as_deref(), Path::new("/")) else {
            return Err(Unconfined::NotInstalled);
        };
        let can_cut_network = self.trial(&program, Network::Cut).await.is_ok();
        if !can_cut_network {
            self.trial(&program, Network::Shared).await?;
        }
        Ok(Backend::Bubblewrap(Bubblewrap {
            program,
            can_cut_network,
        }))
    }

    async fn trial(&self, program: &Path, network: Network) -> Result<(), Unconfined> {
        let args = bubblewrap::trial(network).into_iter();
        let short = Short {
            program: program.into(),
            args: args.map(OsString::from).collect(),
            cwd: "/".into(),
            env: process::os_variables(self.env.clone()),
            stdin: None,
            limit: LIMIT,
            cap: 4096,
            is_wrapped: false,
        };
        let message = match process::short(&short).await {
            Ok(output) if output.status == Some(0) => return Ok(()),
            Ok(output) => {
                let message = String::from_utf8_lossy(&output.stderr);
                let first = message.lines().next();
                crate::sanitize::line(first.unwrap_or("it failed without a message"))
            }
            Err(error) => error.to_string(),
        };
        Err(Unconfined::Broken(message))
    }

    /// Returns the same job, confined.
    pub(crate) async fn confine(&self, job: Job, reach: WritablePaths<'_>) -> Result<Job, String> {
        match self.way().await.map_err(Unconfined::to_string)? {
            Backend::Open(why) => {
                if !self.is_logged.swap(true, Ordering::Relaxed) {
                    self.log_open(why);
                }
                Ok(job)
            }
            Backend::Wrapper(words) => Ok(in_wrapper(words, job, reach)),
            Backend::Bubblewrap(found) => Ok(bubblewrap::confine(
                &found.program,
                &self.settings.mounts,
                job,
                reach,
            )),
        }
    }

    fn log_open(&self, why: &Unconfined) {
        if self.settings.kind == SandboxKind::Off {
            tracing::info!("no sandbox, so agents can read everything that you can read: {why}");
        } else {
            tracing::warn!("no sandbox, so agents can read everything that you can read: {why}");
        }
    }
}

/// Network access of a confined command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    Shared,
    Cut,
}

/// Wraps a job in the user's command, which gets the paths in variables.
fn in_wrapper(words: &[String], mut job: Job, reach: WritablePaths<'_>) -> Job {
    for (name, path) in [
        ("REMAND_WORKTREE", Some(reach.worktree)),
        ("REMAND_REPOSITORY", Some(reach.repository)),
        ("REMAND_ANSWERS", reach.answers),
        ("REMAND_READ", reach.read),
    ] {
        if let Some(path) = path {
            job.env.insert(name.to_owned(), path.display().to_string());
        }
    }
    job.argv.splice(0..0, words.iter().cloned());
    job.is_wrapped = true;
    job
}

/// No sandbox, for tests of other modules: their scripts write where a confined one could not.
#[cfg(test)]
pub(crate) fn for_tests(env: &BTreeMap<String, String>) -> std::sync::Arc<Sandbox> {
    let settings = SandboxSettings {
        kind: SandboxKind::Off,
        wrapper: Vec::new(),
        mounts: crate::sandbox_settings::Mounts::default(),
    };
    std::sync::Arc::new(Sandbox::new(settings, env.clone()))
}
