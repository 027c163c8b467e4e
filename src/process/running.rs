//! The daemon's handle on a run: the shim's pipe and process.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::Instant;

use super::children::{self, Known, number};
use super::command::command;
use super::terminate::later;
use super::{Exit, Job, MARK, ProcessError, ProcessId, RUN, run_dir, table};
use crate::failpoint::{self, crash_point};

/// Longer than a shim takes to terminate everything after its limits; beyond that it is stuck, or
/// was stopped by its own agent.
const SHIM_OVERDUE: Duration = Duration::from_secs(90);

/// Started run. Dropping it closes the pipe to the shim, which then ends the run as `daemon_gone`.
pub(crate) struct Running {
    shim: ProcessId,
    child: Child,
    _known: Known,
    stdin: Option<ChildStdin>,
    dir: PathBuf,
    overdue_at: Instant,
}

/// Starts `<remand> __shim` and passes it the job. The directory is created if it does not exist.
///
/// # Errors
/// After an error no process of this run stays alive: the shim's pipe is closed.
pub(crate) async fn start(shim_program: &Path, job: &Job) -> Result<Running, ProcessError> {
    let mut line = serde_json::to_vec(job).map_err(ProcessError::Job)?;
    line.push(b'\n');
    run_dir::make(&job.dir)?;
    crash_point!("start_before_shim");
    let mut command = Command::from(command(shim_program));
    command
        // The path may be that of a link in /proc.
        .arg0("remand")
        .arg("__shim")
        .envs(failpoint::variables())
        .env(RUN, &job.run_id)
        .env(MARK, &job.dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(run_dir::complaints(&job.dir)?);
    let (mut child, known) =
        children::start(|| command.spawn(), Child::id).map_err(|source| ProcessError::Spawn {
            program: shim_program.display().to_string(),
            source,
        })?;
    crash_point!("start_after_shim");
    let hand_over = |source| ProcessError::HandOver {
        run_id: job.run_id.clone(),
        source,
    };
    // Both exist until the child is waited for.
    let gone = || hand_over(rustix::io::Errno::SRCH.into());
    let pid = child.id().and_then(number).ok_or_else(gone)?;
    let shim = ProcessId::of(pid)?;
    let mut stdin = child.stdin.take().ok_or_else(gone)?;
    stdin.write_all(&line).await.map_err(hand_over)?;
    crash_point!("start_after_job");
    let longest = job.limits.total.saturating_add(job.limits.grace);
    Ok(Running {
        shim,
        child,
        _known: known,
        stdin: Some(stdin),
        dir: job.dir.clone(),
        overdue_at: later(Instant::now(), longest) + SHIM_OVERDUE,
    })
}

impl Running {
    pub(crate) fn shim(&self) -> &ProcessId {
        &self.shim
    }

    /// Waits for the shim; `None` if it vanished without writing `exit.json`. `settle` then
    /// terminates the processes that it watched. Cancel-safe: can be dropped and called again.
    pub(crate) async fn wait(&mut self) -> Result<Option<Exit>, ProcessError> {
        tokio::select! {
            ended = self.child.wait() => {
                ended.map_err(ProcessError::system("wait for a shim"))?;
            }
            () = tokio::time::sleep_until(self.overdue_at) => {
                tracing::warn!(shim = %self.shim, "killing an overdue shim");
                self.child.kill().await.map_err(ProcessError::system("kill a shim"))?;
            }
        }
        crash_point!("wait_shim_ended");
        run_dir::read_exit(&self.dir)
    }

    /// Asks the shim to terminate everything; `wait` returns when that is done.
    pub(crate) async fn stop(&mut self) {
        self.order(b"stop\n").await;
    }

    /// Asks the shim to terminate everything quickly, whatever grace its agent was given.
    pub(crate) async fn hurry(&mut self) {
        self.order(b"hurry\n").await;
    }

    async fn order(&mut self, line: &[u8]) {
        let Some(stdin) = &mut self.stdin else { return };
        if stdin.write_all(line).await.is_err() {
            // Nobody reads: it is already exiting.
            self.stdin = None;
        }
        // An agent may have stopped its shim, which must be resumed to receive anything.
        wake(&self.shim);
    }
}

pub(super) fn wake(shim: &ProcessId) {
    if let Ok(Some(entry)) = table::look(shim.pid)
        && entry.start_time == shim.start_time
    {
        // A process that is gone need not be resumed.
        table::signal(&entry, Signal::CONT).ok();
    }
}
