//! A project's rules: which pull requests are taken over without being named, and with what bounds.

use std::path::PathBuf;

use crate::change::{OnMaxCycles, ProjectId};
use crate::discover::Discover;

/// The rules of a project by its name.
pub(crate) type RulesOf = Box<dyn Fn(&ProjectId) -> ProjectRules + Send + Sync>;

#[derive(Debug, Clone)]
pub(crate) struct ProjectRules {
    /// None: only pull requests that somebody names.
    pub(crate) discover: Option<Discover>,
    /// Where worktrees may be. Empty: in the folder that holds the main checkout.
    pub(crate) worktree_roots: Vec<PathBuf>,
    /// Where remand makes its own.
    pub(crate) own_worktrees: PathBuf,
    pub(crate) bounds: Bounds,
}

/// What a new change may spend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) on_max_cycles: OnMaxCycles,
    pub(crate) max_fix_cycles: i64,
    pub(crate) max_total_fixes: i64,
    pub(crate) max_run_ms: i64,
    pub(crate) max_tokens: Option<i64>,
    pub(crate) max_cost_micros: Option<i64>,
}
