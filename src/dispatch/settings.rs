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
use crate::finding::Severity;
use crate::prompt::Prompts;
use crate::remote::PushRules;
use crate::sandbox::Sandbox;

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
    pub(crate) rules: Box<dyn Fn(&ProjectId) -> Rules + Send + Sync>,
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

/// How much money agents may spend in a day on one project.
#[derive(Debug, Clone)]
pub(crate) struct ProjectDayBound {
    pub(crate) most_micros: i64,
    /// The setting that says so, for the reason of a hold.
    pub(crate) key: String,
}

/// For one project.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) agent: Option<Agent>,
    pub(crate) review_agent: Option<Agent>,
    pub(crate) gates: Vec<Vec<String>>,
    pub(crate) gate_in: GateIn,
    pub(crate) red_base: RedBase,
    /// None: only the bound for all projects holds.
    pub(crate) day: Option<ProjectDayBound>,
    /// Empty: the folder that holds the main checkout.
    pub(crate) worktree_roots: Vec<PathBuf>,
    pub(crate) severity_threshold: Severity,
    pub(crate) max_gate_rounds: i64,
    pub(crate) on_main_checkout_change: OnCheckoutChange,
    /// What makes a worktree of ours ready; empty: nothing.
    pub(crate) setup: Vec<String>,
    /// Files after whose change the set-up is run again.
    pub(crate) setup_again_on: Vec<String>,
    pub(crate) own_worktrees: PathBuf,
    pub(crate) push: PushRules,
}

/// Where the gates run that decide what is pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GateIn {
    /// In a checkout of remand's own, of exactly the commit.
    Checkout,
    /// Where the agent worked.
    Worktree,
}

/// What becomes of a change when the gates are red on its base, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RedBase {
    Hold,
    /// They are not even run there.
    Ignore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnCheckoutChange {
    Report,
    Escalate,
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
