//! The settings that hold for one project, with nothing left to look up. Config fills them in; intake, dispatch and the
//! command line read them. Pure.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::bounded::whole;
use crate::change::{Bounds, Shadow};
use crate::closed_enum::closed_enum;
use crate::discover::Discover;
use crate::finding::Severity;

/// Everything that a change of the project is run with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProjectSettings {
    /// The name of an agent that is configured. None: no agent was chosen yet.
    pub(crate) agent: Option<String>,
    pub(crate) review_agent: Option<String>,
    /// Each a program and its arguments.
    pub(crate) gates: Vec<Vec<String>>,
    pub(crate) gate_in: GateIn,
    pub(crate) red_base: RedBase,
    /// Folders in which worktrees may be. Empty: the folder that holds the project's main checkout.
    pub(crate) worktree_roots: Vec<PathBuf>,
    pub(crate) bounds: Bounds,
    /// None: only the bound for all projects holds.
    pub(crate) max_day: Option<ProjectDayBound>,
    pub(crate) severity_threshold: Severity,
    pub(crate) max_gate_rounds: i64,
    pub(crate) main_checkout: MainCheckout,
    /// The command that makes a worktree of ours ready. Empty: nothing.
    pub(crate) setup: Vec<String>,
    /// Files after whose change the set-up runs again: names, meant in every folder, and paths from the top of the
    /// repository.
    pub(crate) setup_again_on: Vec<String>,
    /// The folder in which worktrees of ours are made.
    pub(crate) own_worktrees: PathBuf,
    /// Its changes are only reviewed, or only looked at.
    pub(crate) shadow: Shadow,
    pub(crate) push: PushLimits,
    /// None: only pull requests that somebody named.
    pub(crate) discover: Option<Discover>,
}

/// Maximum amount of money that agents may spend in a day on one project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProjectDayBound {
    pub(crate) most_micros: i64,
    /// The key of the setting, for the reason of a hold.
    pub(crate) key: String,
}

/// `[push]`, key for key: the limits of a commit that may be pushed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct PushLimits {
    /// Patterns of whole paths such as `.github/workflows/**`; the case of letters does not count.
    pub(crate) forbidden: Vec<String>,
    #[serde(deserialize_with = "whole::<_, _, 1, 102_400>")]
    pub(crate) max_file_kb: u64,
    #[serde(deserialize_with = "whole::<_, _, 1, 100_000>")]
    pub(crate) max_files: usize,
    /// All contents together, and what the commits on the way carry.
    #[serde(deserialize_with = "whole::<_, _, 1, 10_485_760>")]
    pub(crate) max_total_kb: u64,
    /// Whether added text is searched for secrets by their pattern.
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
    /// Where the gates run that decide what is pushed.
    "gate_in" GateIn {
        /// In a checkout of remand's own, of exactly the commit.
        Checkout = "checkout",
        /// Where the agent worked.
        Worktree = "worktree",
    }
}

closed_enum! {
    /// The reaction to gates that are red on the base of a change, too.
    "red_base" RedBase {
        Hold = "hold",
        /// They are not even run there.
        Ignore = "ignore",
    }
}

closed_enum! {
    /// The reaction to a main checkout of the project that changed during a run.
    "main_checkout" MainCheckout {
        Report = "report",
        Escalate = "escalate",
    }
}
