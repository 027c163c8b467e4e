//! The worktree of a change before a run: created, checked, detached.

pub(super) mod detach;
pub(super) mod managed_worktree;
pub(super) mod preflight;
