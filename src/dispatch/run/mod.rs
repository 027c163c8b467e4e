//! One run of an agent: started, watched, ended, cleaned up after a crash.

pub(super) mod finish_run;
pub(super) mod launch;
pub(super) mod lease;
pub(super) mod moved_branches;
pub(super) mod reclaim;
pub(super) mod recover;
pub(super) mod slots;
pub(super) mod worktree_lock;
