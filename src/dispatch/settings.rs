//! What dispatch goes by, as plain values: the front builds them from the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::agent::Agent;
use crate::change::ProjectId;
use crate::clock::{Time, Zone};
use crate::dispatch::remote::configuration::Configuration;
use crate::dispatch::remote::remote_sync::ForgeSettings;
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
    /// How long a graceful stop waits for agents that are at work.
    pub(crate) stop_grace: Duration,
    pub(crate) limits: Limits,
    pub(crate) day: DayBound,
    /// remand itself: `remand __shim` is started from it.
    pub(crate) program: PathBuf,
    /// What to do about a project that the daemon can't write to.
    pub(crate) write_remedy: String,
    /// Each run has its own folder in here.
    pub(crate) runs_dir: PathBuf,
    /// The prompts of what would have run, of changes in shadow.
    pub(crate) shadow_dir: PathBuf,
    /// Checkouts in which gates run, a folder per project.
    pub(crate) gates_dir: PathBuf,
    /// Locks that keep two runs out of one worktree.
    pub(crate) locks_dir: PathBuf,
    /// The closed environment of git and of gates: that of an agent, without any agent's key.
    pub(crate) env: BTreeMap<String, String>,
    /// What confines agents, gates and set-ups.
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) prompts: Prompts,
    pub(crate) forge: ForgeSettings,
    /// The files that all this comes from.
    pub(crate) configuration: Configuration,
    /// The settings of a project.
    pub(crate) rules: Box<dyn Fn(&ProjectId) -> ProjectSettings + Send + Sync>,
    /// An agent by the name that the settings of a project have for it.
    pub(crate) agent: AgentOf,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) review: Duration,
    pub(crate) fix: Duration,
    pub(crate) idle: Duration,
    pub(crate) gate: Duration,
    pub(crate) setup: Duration,
    pub(crate) git: Duration,
    pub(crate) grace: Duration,
    /// How many bytes of feedback one prompt holds.
    pub(crate) feedback: usize,
}

/// How much money all agents together may spend in a day.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DayBound {
    /// None: as much as they like.
    pub(crate) most_micros: Option<i64>,
    pub(crate) zone: Zone,
}

impl Settings {
    /// When a change that was held `holds` times in a row is looked at again: twice as long each time.
    pub(crate) fn backoff(&self, holds: i64, now: Time) -> Time {
        let doublings = u32::try_from(holds.clamp(0, 16)).unwrap_or(16);
        let wait = self
            .backoff_first
            .saturating_mul(2_u32.saturating_pow(doublings));
        now.plus(wait.min(self.backoff_max))
    }
}
