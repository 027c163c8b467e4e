//! Settings of dispatch as plain values, built from the configuration by `daemon`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::agent::Agent;
use crate::change::ProjectId;
use crate::clock::{self, Time, Zone};
use crate::dispatch::remote::configuration::Configuration;
use crate::dispatch::remote::remote_sync::ForgeSettings;
use crate::dispatch::run::recover::git_mark;
use crate::git::Git;
use crate::process;
use crate::project_settings::ProjectSettings;
use crate::prompt::Prompts;
use crate::sandbox::Sandbox;

/// Finds a configured agent by its name.
pub(crate) type AgentOf = Box<dyn Fn(&str) -> Option<Agent> + Send + Sync>;

/// For all projects.
pub(crate) struct Settings {
    pub(crate) slots: usize,
    pub(crate) lease: Duration,
    pub(crate) max_lost_runs: i64,
    pub(crate) backoff_first: Duration,
    pub(crate) backoff_max: Duration,
    /// Time that a graceful stop waits for running agents.
    pub(crate) stop_grace: Duration,
    pub(crate) limits: Limits,
    pub(crate) day: DayBound,
    /// The remand program: `remand __shim` is started from it.
    pub(crate) program: PathBuf,
    /// Advice for a project that the daemon cannot write to.
    pub(crate) write_remedy: String,
    /// Contains one directory per run.
    pub(crate) runs_dir: PathBuf,
    /// Prompts of runs that would have started in shadow mode.
    pub(crate) shadow_dir: PathBuf,
    /// Files of reviews, one directory per project.
    pub(crate) reviews_dir: PathBuf,
    /// Checkouts in which gates run, one directory per project.
    pub(crate) gates_dir: PathBuf,
    /// Locks that keep two runs out of one worktree.
    pub(crate) locks_dir: PathBuf,
    /// The closed environment of git and of gates: that of an agent, without any agent's key.
    pub(crate) env: BTreeMap<String, String>,
    /// Sandbox for agents, gates and set-ups.
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) prompts: Prompts,
    pub(crate) forge: ForgeSettings,
    /// The files that these settings come from.
    pub(crate) configuration: Configuration,
    /// The settings of a project.
    pub(crate) rules: Box<dyn Fn(&ProjectId) -> ProjectSettings + Send + Sync>,
    /// Returns an agent by the name that a project's settings use for it.
    pub(crate) agent: AgentOf,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) implement: Duration,
    pub(crate) review: Duration,
    pub(crate) fix: Duration,
    pub(crate) idle: Duration,
    pub(crate) gate: Duration,
    pub(crate) setup: Duration,
    pub(crate) git: Duration,
    pub(crate) grace: Duration,
    /// Maximum bytes of feedback in one prompt.
    pub(crate) feedback: usize,
}

/// Maximum cost per day of all agents together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DayBound {
    /// None: unlimited.
    pub(crate) most_micros: Option<i64>,
    pub(crate) zone: Zone,
}

impl Settings {
    /// Returns git for a worktree. Its processes carry the mark of the worktree.
    pub(crate) fn git_in(&self, worktree: &str) -> Git {
        let mut env = self.env.clone();
        env.insert(process::MARK.into(), git_mark(worktree));
        Git::new(&env, self.limits.git, &self.sandbox)
    }

    /// The time at which a change that was held `holds` times in a row is tried again: the pause doubles each time.
    pub(crate) fn backoff(&self, holds: i64, now: Time) -> Time {
        now.plus(clock::backoff(
            holds,
            (self.backoff_first, self.backoff_max),
        ))
    }
}
