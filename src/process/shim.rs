//! Body of `remand __shim`: runs one agent, outlives the daemon if necessary, and leaves nothing
//! behind except the run's directory. It does not interpret results.
//!
//! Its stdin is a pipe from the daemon. The first line is the job as JSON; a line `stop` ends the
//! run, `hurry` ends it without its grace period; the end of the pipe means that the daemon is
//! gone, and ends the run too.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::process::Pid;
use tokio::net::unix::pipe;

use super::command::{command, find};
use super::shim_protocol::{Orders, Signals};
use super::watch::{Child, watch};
use super::{Exit, Job, MARK, ProcessError, ProcessId, RUN, run_dir};
use crate::failpoint::crash_point;
use crate::sanitize;
use crate::work::Ended;

pub(crate) fn shim_main() -> ExitCode {
    rustix::process::umask(Mode::from_raw_mode(0o077));
    // Started through a link in /proc, it would be listed under the name of that link.
    #[cfg(target_os = "linux")]
    rustix::thread::set_name(c"remand").ok();
    match attend() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Goes to `shim.err`; if even that fails, it cannot be reported anywhere.
            writeln!(io::stderr(), "{}", sanitize::chain(&error)).ok();
            ExitCode::FAILURE
        }
    }
}

fn attend() -> Result<(), ProcessError> {
    super::close_memory()?;
    rustix::process::setsid().map_err(ProcessError::system("open a session"))?;
    super::table::become_reaper().map_err(ProcessError::system("adopt orphaned processes"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ProcessError::system("start the shim's runtime"))?;
    runtime.block_on(run())
}

async fn run() -> Result<(), ProcessError> {
    let mut orders = Orders::open().map_err(ProcessError::system("read the shim's stdin"))?;
    let Some(job) = orders.job().await? else {
        return Ok(());
    };
    let mut signals = Signals::listen().map_err(ProcessError::system("listen for signals"))?;
    crash_point!("shim_before_lock");
    let Some(_lock) = run_dir::try_lock(&job.dir)? else {
        return Err(ProcessError::LockHeld {
            path: run_dir::lock_path(&job.dir),
            limit: Duration::ZERO,
        });
    };
    crash_point!("shim_after_lock");
    if run_dir::is_over(&job.dir)? {
        return Ok(());
    }
    run_dir::write_shim(&job.dir, &ProcessId::own()?)?;
    let exit = if let Some(order) = orders.waiting().await {
        never_ran(order.ended(), "before it began".to_owned())
    } else {
        crash_point!("shim_before_spawn");
        match spawn(&job) {
            Ok(child) => {
                crash_point!("shim_after_spawn");
                watch(&job, child, &mut orders, &mut signals).await
            }
            Err(detail) => never_ran(Ended::NotStarted, detail),
        }
    };
    crash_point!("shim_before_exit_json");
    run_dir::write_exit(&job.dir, &exit)?;
    crash_point!("shim_after_exit_json");
    Ok(())
}

/// Starts the agent, or returns the reason for the failure as text.
fn spawn(job: &Job) -> Result<Child, String> {
    let Some((program, args)) = job.argv.split_first() else {
        return Err("no program was given".to_owned());
    };
    if !job.cwd.is_dir() {
        return Err(format!("no such directory: {}", job.cwd.display()));
    }
    let stdin = File::open(&job.stdin)
        .map_err(|error| format!("cannot open {}: {error}", job.stdin.display()))?;
    let path = job.env.get("PATH").map(OsStr::new);
    let path = find(OsStr::new(program), path, &job.cwd)
        .ok_or_else(|| format!("the program `{program}` was not found"))?;
    let failed = |error: io::Error| format!("cannot start `{program}`: {error}");
    // Everything that can fail comes before the spawn: afterwards there would be an agent that
    // nobody watches.
    let (stdout, to_stdout) = stream().map_err(failed)?;
    let (stderr, to_stderr) = stream().map_err(failed)?;
    let child = command(&path)
        .args(args)
        .current_dir(&job.cwd)
        .envs(&job.env)
        .env(RUN, &job.run_id)
        .env(MARK, &job.dir)
        .process_group(0)
        .stdin(stdin)
        .stdout(to_stdout)
        .stderr(to_stderr)
        .spawn()
        .map_err(failed)?;
    Ok(Child {
        pid: Pid::from_child(&child),
        stdout,
        stderr,
    })
}

fn stream() -> io::Result<(pipe::Receiver, io::PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    Ok((pipe::Receiver::from_owned_fd(reader.into())?, writer))
}

fn never_ran(ended: Ended, detail: String) -> Exit {
    Exit {
        ended,
        status: None,
        signal: None,
        stdout_bytes: 0,
        stderr_bytes: 0,
        leftovers: 0,
        survivors: 0,
        elapsed_ms: 0,
        detail: Some(detail),
    }
}
