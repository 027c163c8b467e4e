//! What processes carry in their environment, by which they are found and ended when nobody watches over them any more.
//! Ids of runs are unique on one blackboard only, and there may be several on a machine (a demo beside the daemon):
//! a mark that is not of the place too would end a stranger's agents.

use crate::work::Run;

/// Of all that an agent's run starts.
pub(super) fn of_run(run: &Run) -> String {
    format!("{}.{:016x}", run.run_id, spread(&run.dir))
}

/// Of a gate on a run's commit, by the name of its folder.
pub(super) fn of_gate(run: &Run, folder: &str) -> String {
    format!("{}.{folder}", of_run(run))
}

/// Of our own git in a worktree.
pub(super) fn of_git(worktree: &str) -> String {
    format!("git.{:016x}", spread(worktree))
}

/// FNV-1a: only has to be stable and to tell paths apart.
pub(super) fn spread(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
