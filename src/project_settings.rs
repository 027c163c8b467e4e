//! Settings of one project, fully resolved. `config` fills them in; intake, dispatch and the
//! command line read them. Pure.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::bounded::whole;
use crate::change::{Bounds, ReviewRules, Shadow};
use crate::check::CheckSettings;
use crate::closed_enum::closed_enum;
use crate::discover::Discover;
use crate::finding::Severity;
use crate::work::Priority;

/// All settings that apply to a change of the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProjectSettings {
    /// Name of a configured agent; `None` if no agent has been chosen yet.
    pub(crate) agent: Option<String>,
    pub(crate) review_agent: Option<String>,
    /// Commands, each a program with its arguments.
    pub(crate) gates: Vec<Vec<String>>,
    pub(crate) gate_in: GateIn,
    pub(crate) red_base: RedBase,
    /// Directories that may contain worktrees. Empty means the directory that contains the
    /// project's main checkout.
    pub(crate) worktree_roots: Vec<PathBuf>,
    pub(crate) bounds: Bounds,
    /// `None` if only the limit for all projects applies.
    pub(crate) max_day: Option<ProjectDayBound>,
    pub(crate) severity_threshold: Severity,
    pub(crate) max_gate_rounds: i64,
    pub(crate) main_checkout: MainCheckout,
    /// Command that prepares a worktree created by remand. Empty if there is none.
    pub(crate) setup: Vec<String>,
    /// Files that cause the set-up to run again when they change: names, which match in every
    /// directory, and paths from the top of the repository.
    pub(crate) setup_again_on: Vec<String>,
    /// Directory in which remand creates worktrees.
    pub(crate) own_worktrees: PathBuf,
    /// Days after which the worktree of an ended change is removed. 0: never.
    pub(crate) worktree_ttl_days: u32,
    /// Shadow mode: changes are only reviewed, or only observed.
    pub(crate) shadow: Shadow,
    pub(crate) push: PushLimits,
    /// `None` if only pull requests that somebody named are adopted.
    pub(crate) discover: Option<Discover>,
    pub(crate) implement: ImplementSettings,
    pub(crate) review: ReviewRules,
    pub(crate) checks: CheckSettings,
}

/// Table `[implement]`: defaults of `remand add`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct ImplementSettings {
    pub(crate) auto_review: bool,
    pub(crate) open_pr: bool,
    pub(crate) draft: bool,
    /// Template for branch names: `{slug}` stands for the words of the title.
    pub(crate) branch: String,
    pub(crate) priority: Priority,
}

impl ProjectSettings {
    /// Replaces the agents by those that a task names. A task that names only its own agent is
    /// reviewed by the configured one, or by its own if none is configured separately.
    pub(crate) fn choose_agents(&mut self, agent: Option<&str>, review_agent: Option<&str>) {
        let is_same = self.review_agent == self.agent;
        if let Some(agent) = agent {
            self.agent = Some(agent.to_owned());
            if is_same {
                self.review_agent.clone_from(&self.agent);
            }
        }
        if let Some(review_agent) = review_agent {
            self.review_agent = Some(review_agent.to_owned());
        }
    }
}

/// Maximum amount of money that agents may spend in a day on one project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProjectDayBound {
    pub(crate) most_micros: i64,
    /// Key of the setting, for the reason of a hold.
    pub(crate) key: String,
}

/// Table `[push]`: limits for a commit that is pushed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct PushLimits {
    /// Patterns for whole paths such as `.github/workflows/**`. Case is ignored.
    pub(crate) forbidden: Vec<String>,
    #[serde(deserialize_with = "whole::<_, _, 1, 102_400>")]
    pub(crate) max_file_kb: u64,
    #[serde(deserialize_with = "whole::<_, _, 1, 100_000>")]
    pub(crate) max_files: usize,
    /// Maximum size of all contents together, including those of intermediate commits.
    #[serde(deserialize_with = "whole::<_, _, 1, 10_485_760>")]
    pub(crate) max_total_kb: u64,
    /// Searches added text for secrets by their pattern.
    pub(crate) secrets: bool,
}

impl PushLimits {
    pub(crate) fn max_file_bytes(&self) -> u64 {
        self.max_file_kb.saturating_mul(1024)
    }

    pub(crate) fn max_total_bytes(&self) -> u64 {
        self.max_total_kb.saturating_mul(1024)
    }
}

closed_enum! {
    /// Location of the gates that decide what is pushed.
    "gate_in" GateIn {
        /// A separate checkout of exactly the commit, made by remand.
        Checkout = "checkout",
        /// The worktree of the agent.
        Worktree = "worktree",
    }
}

closed_enum! {
    /// Place where a person is told that a change is ready.
    "notification channel" NotificationChannel {
        /// The pull request of the change.
        Github = "github",
    }
}

closed_enum! {
    /// Reaction to gates that also fail on the base of a change.
    "red_base" RedBase {
        Hold = "hold",
        /// Gates are not run on the base at all.
        Ignore = "ignore",
    }
}

closed_enum! {
    /// Reaction to a change in the project's main checkout during a run.
    "main_checkout" MainCheckout {
        Report = "report",
        Escalate = "escalate",
    }
}
