//! The one place that starts children: agents under a shim that outlives the daemon, and short commands.
//! It knows nothing of the blackboard, and never decides what the end of a run means.
//!
//! A run has a folder, which is used once:
//!
//! | file | what |
//! |---|---|
//! | `lock` | locked by the shim from before the agent starts until its last descendant is gone |
//! | `shim` | which process the shim is, `boot:pid:start` |
//! | `stdout.N`, `stderr.N` | output from byte N on |
//! | `exit.json` | how it ended; written last |
//! | `settled` | somebody waited for the lock and cleaned up: a shim that comes late starts nothing |
//! | `shim.err` | what the shim said, normally nothing |

mod children;
mod command;
mod error;
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
pub(crate) use id::ProcessId;
pub(crate) use no_dump::close_memory;
pub(crate) use oneshot::{Short, ShortOutput, short};
pub(crate) use output::{Follow, Stream, read_output, written_at};
pub(crate) use reap::claim_folder;
pub(crate) use reap::{end_left, end_marked, settle};
pub(crate) use run_dir::{ended_at, read_exit, remove_folder};
pub(crate) use running::{Running, start};
pub(crate) use shim::shim_main;
pub(crate) use writers::{Writer, writers};

/// Every process of a run carries `REMAND_RUN_DIR=<run's folder>` in its environment, and is found by it. Not its id:
/// each blackboard on a machine has an r1, and one must never end the agents of another.
pub(crate) const MARK: &str = "REMAND_RUN_DIR";
/// The run's id, for the agent.
const RUN: &str = "REMAND_RUN";

/// All that a shim needs to run an agent. It crosses to the shim through a pipe and is never on disk: the environment
/// may hold an agent's key.
#[derive(Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) run_id: String,
    pub(crate) argv: Vec<String>,
    pub(crate) cwd: PathBuf,
    /// The complete environment; `REMAND_RUN` and `REMAND_RUN_DIR` are added.
    pub(crate) env: BTreeMap<String, String>,
    /// A file that the agent reads as its stdin: the prompt.
    pub(crate) stdin: PathBuf,
    /// The run's folder.
    pub(crate) dir: PathBuf,
    pub(crate) limits: Limits,
    /// The command is inside another one, which ends when it ends and says its status: 128 and the signal, if it was one.
    #[serde(default)]
    pub(crate) is_wrapped: bool,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Limits {
    /// Without a byte on stdout or stderr.
    pub(crate) idle: Duration,
    pub(crate) total: Duration,
    /// From SIGTERM to SIGKILL.
    pub(crate) grace: Duration,
}

/// How a run ended, as its shim saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    pub(crate) ended: Ended,
    pub(crate) status: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout_bytes: u64,
    pub(crate) stderr_bytes: u64,
    /// Processes that had to be ended after the agent itself was gone.
    pub(crate) leftovers: u32,
    /// Processes that could not be ended at all: another user's, or stuck in the kernel.
    pub(crate) survivors: u32,
    pub(crate) elapsed_ms: u64,
    /// Why it could not be started, or why its output is not complete.
    pub(crate) detail: Option<String>,
}

#[cfg(test)]
mod script;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use script::write_script;
