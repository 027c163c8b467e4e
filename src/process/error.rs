//! Errors of child processes, distinguished where a caller would act differently.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::table::Entry;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessError {
    #[error("cannot {action} {}", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot {action}")]
    System {
        action: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("the program `{program}` was not found")]
    NotFound { program: String },
    #[error("cannot start `{program}`")]
    Spawn {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("`{program}` timed out after {limit:?}")]
    TimedOut { program: String, limit: Duration },
    #[error("the directory {} already belongs to a run", dir.display())]
    FolderUsed { dir: PathBuf },
    #[error("cannot pass run {run_id} to its shim")]
    HandOver {
        run_id: String,
        #[source]
        source: io::Error,
    },
    #[error("cannot convert a run's job to or from JSON")]
    Job(#[source] serde_json::Error),
    #[error("{} is not a valid run result", path.display())]
    BadExit {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("`{text}` is not a process id of the form boot:pid:start")]
    BadProcessId { text: String },
    #[error("the lock {} is still held after {limit:?}", path.display())]
    LockHeld { path: PathBuf, limit: Duration },
    #[error("cannot kill processes with {mark}: {pids:?}")]
    StillAlive { mark: String, pids: Vec<i32> },
}

impl ProcessError {
    /// For `map_err`: the action and the file.
    pub(super) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File {
            action,
            path: path.to_owned(),
            source,
        }
    }

    pub(super) fn still_alive(mark: String, alive: &[Entry]) -> Self {
        let pids = alive.iter().map(|entry| entry.pid).collect();
        Self::StillAlive { mark, pids }
    }

    pub(super) fn system<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System {
            action,
            source: source.into(),
        }
    }
}
