//! The only module that starts child processes: agents under a shim that outlives the daemon, and
//! short commands.
//!
//! It does not know the blackboard, and never decides what the end of a run means.
//!
//! A run has a directory, which is used once:
//!
//! | file | content |
//! |---|---|
//! | `lock` | locked by the shim from before the agent starts until its last descendant is gone |
//! | `shim` | identity of the shim, `boot:pid:start` |
//! | `stdout.N`, `stderr.N` | output from byte N on |
//! | `exit.json` | how the run ended; written last |
//! | `settled` | someone waited for the lock and cleaned up: a late shim starts nothing |
//! | `shim.err` | errors of the shim, normally empty |

mod children;
mod command;
mod error;
mod finished;
mod foreground;
mod id;
mod no_dump;
mod oneshot;
mod output;
mod reap;
mod run_dir;
mod running;
mod shim;
mod shim_protocol;
mod table;
mod terminate;
mod watch;
mod writers;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::work::Ended;

pub(crate) use children::{adopt_orphans, end_adopted, end_children, reap_adopted};
pub(crate) use command::find;
pub(crate) use error::ProcessError;
pub(crate) use finished::{CommandEnd, FinishedCommand};
pub(crate) use foreground::foreground;
pub(crate) use id::ProcessId;
pub(crate) use no_dump::close_memory;
pub(crate) use oneshot::{Short, ShortOutput, os_variables, short, stream};
pub(crate) use output::{Follow, Stream, read_output, written_at};
pub(crate) use reap::{SETTLE, claim_folder, end_marked, settle};
pub(crate) use run_dir::{ended_at, read_exit, remove_folder};
pub(crate) use running::{Running, start};
pub(crate) use shim::shim_main;
pub(crate) use writers::{Writer, writers};

/// Environment variable that marks every process of a run: `REMAND_RUN_DIR=<run's directory>`.
///
/// Processes are found by it. The value is not the run's id: each blackboard on a machine has an
/// r1, and one must never terminate the agents of another.
pub(crate) const MARK: &str = "REMAND_RUN_DIR";
/// Environment variable with the run's id, for the agent.
const RUN: &str = "REMAND_RUN";

/// Everything that a shim needs to run an agent.
///
/// It is passed to the shim through a pipe and never stored on disk: the environment may contain an
/// agent's key.
#[derive(Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) run_id: String,
    pub(crate) argv: Vec<String>,
    pub(crate) cwd: PathBuf,
    /// The complete environment; `REMAND_RUN` and `REMAND_RUN_DIR` are added.
    pub(crate) env: BTreeMap<String, String>,
    /// File that the agent reads as its stdin: the prompt.
    pub(crate) stdin: PathBuf,
    /// Directory of the run.
    pub(crate) dir: PathBuf,
    pub(crate) limits: Limits,
    /// Set if the command runs inside a wrapper that ends with it and reports its status (128 plus
    /// the signal if it was killed).
    #[serde(default)]
    pub(crate) is_wrapped: bool,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Limits {
    /// Maximum time without a byte on stdout or stderr.
    pub(crate) idle: Duration,
    pub(crate) total: Duration,
    /// Time from SIGTERM to SIGKILL.
    pub(crate) grace: Duration,
}

/// End of a run, as observed by its shim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    pub(crate) ended: Ended,
    pub(crate) status: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout_bytes: u64,
    pub(crate) stderr_bytes: u64,
    /// Number of processes that had to be terminated after the agent itself was gone.
    pub(crate) leftovers: u32,
    /// Number of processes that could not be terminated: another user's, or stuck in the kernel.
    pub(crate) survivors: u32,
    pub(crate) elapsed_ms: u64,
    /// Reason why it could not be started, or why its output is incomplete.
    pub(crate) detail: Option<String>,
}

#[cfg(test)]
mod script;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use script::write_script;
