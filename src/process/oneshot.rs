//! Short commands such as git: output in memory, a time limit, and no process left behind in their
//! group.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use super::children::{self, Known, number};
use super::command::{command, find};
use super::{ProcessError, table};

/// Time from SIGTERM to SIGKILL: enough for git to remove its lock files.
const GRACE: Duration = Duration::from_secs(2);
/// Time to wait for output after the exit: written output is in the pipe, but a process that left
/// the group may hold the pipe open for hours.
const MOMENT: Duration = Duration::from_millis(300);

/// Exit codes with which a shell or a sandbox reports that its command was killed by a signal. 128
/// and 129 are git's own.
const SIGNALS: RangeInclusive<i32> = 130..=192;

pub(crate) struct Short {
    /// Program; a bare name is looked up in the PATH of `env`.
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    /// The complete environment.
    pub(crate) env: BTreeMap<OsString, OsString>,
    pub(crate) stdin: Option<Vec<u8>>,
    pub(crate) limit: Duration,
    /// Maximum number of bytes kept of each stream; the rest is read and dropped.
    pub(crate) cap: usize,
    /// Set if the command runs inside a sandbox, which would end at SIGTERM and take the command
    /// with it before that has removed its lock files.
    pub(crate) is_wrapped: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShortOutput {
    /// Exit status; `None` if it was killed by a signal.
    pub(crate) status: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) truncated: bool,
}

impl ShortOutput {
    /// Returns true if the command, or the command that it wraps, was killed by a signal.
    pub(crate) fn was_killed(&self) -> bool {
        self.status.is_none_or(|status| SIGNALS.contains(&status))
    }
}

/// Converts an environment to the form that a [`Short`] has.
pub(crate) fn os_variables(env: BTreeMap<String, String>) -> BTreeMap<OsString, OsString> {
    let env = env.into_iter();
    env.map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// Runs a command to its end. If dropped before that, its group is killed.
pub(crate) async fn short(cmd: &Short) -> Result<ShortOutput, ProcessError> {
    stream(cmd, &mut |_| {}).await
}

/// Like [`short`], and also passes on each piece of stdout as it arrives, including what is not kept.
pub(crate) async fn stream(
    cmd: &Short,
    each: &mut (dyn FnMut(&[u8]) + Send),
) -> Result<ShortOutput, ProcessError> {
    let (mut child, _known) = spawn(cmd)?;
    let group = Group::of(&child);
    let (mut stdout, mut stderr) = (Capped::new(cmd.cap), Capped::new(cmd.cap));
    let (to_stdin, from_stdout, from_stderr) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let ended = {
        let mut nothing = |_: &[u8]| {};
        let mut streams = pin!(async {
            let input = cmd.stdin.as_deref().unwrap_or_default();
            tokio::join!(
                feed(to_stdin, input),
                stdout.fill(from_stdout, each),
                stderr.fill(from_stderr, &mut nothing)
            );
        });
        let mut limit = pin!(tokio::time::sleep(cmd.limit));
        let mut are_closed = false;
        let ended = loop {
            tokio::select! {
                ended = child.wait() => break Some(ended),
                () = &mut streams, if !are_closed => are_closed = true,
                () = &mut limit => break None,
            }
        };
        if ended.is_some() {
            group.signal(Signal::KILL);
        }
        if ended.is_some() && !are_closed {
            // Later output does not belong to this command.
            timeout(MOMENT, streams).await.ok();
        }
        ended
    };
    let Some(ended) = ended else {
        end(&mut child, &group, cmd).await;
        return Err(ProcessError::TimedOut {
            program: name(cmd),
            limit: cmd.limit,
        });
    };
    let status = ended
        .map_err(ProcessError::system("wait for a command"))?
        .code();
    Ok(ShortOutput {
        status,
        truncated: stdout.is_truncated || stderr.is_truncated,
        stdout: stdout.bytes,
        stderr: stderr.bytes,
    })
}

fn spawn(cmd: &Short) -> Result<(Child, Known), ProcessError> {
    if !cmd.cwd.is_dir() {
        return Err(ProcessError::file("enter", &cmd.cwd)(
            ErrorKind::NotFound.into(),
        ));
    }
    let not_found = || ProcessError::NotFound { program: name(cmd) };
    let path = cmd.env.get(OsStr::new("PATH")).map(OsString::as_os_str);
    let program = find(&cmd.program, path, &cmd.cwd).ok_or_else(not_found)?;
    let mut command = Command::from(command(&program));
    command
        .args(&cmd.args)
        .current_dir(&cmd.cwd)
        .envs(&cmd.env)
        .process_group(0)
        .stdin(if cmd.stdin.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    children::start(|| command.spawn(), Child::id).map_err(|source| {
        let program = name(cmd);
        if source.kind() == ErrorKind::NotFound {
            ProcessError::NotFound { program }
        } else {
            ProcessError::Spawn { program, source }
        }
    })
}

fn name(cmd: &Short) -> String {
    cmd.program.to_string_lossy().into_owned()
}

/// Terminates a command at its time limit: SIGTERM to the group, a short grace, SIGKILL.
async fn end(child: &mut Child, group: &Group, cmd: &Short) {
    if cmd.is_wrapped {
        group.ask_descendants();
    } else {
        group.signal(Signal::TERM);
    }
    if timeout(GRACE, child.wait()).await.is_err() {
        group.signal(Signal::KILL);
        // It cannot ignore SIGKILL; if it is stuck in the kernel, the runtime reaps it later.
        timeout(GRACE, child.wait()).await.ok();
    }
}

/// Process group of a command, killed on drop.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(number).and_then(Pid::from_raw))
    }

    /// Sends SIGTERM to all descendants of the leader, but not to the leader.
    fn ask_descendants(&self) {
        let Some(leader) = self.0.map(|pid| pid.as_raw_nonzero().get()) else {
            return;
        };
        let entries = table::scan().unwrap_or_default();
        for entry in table::descendants(&entries, [leader]) {
            // It may have ended in the meantime.
            table::signal(&entry, Signal::TERM).ok();
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // The group may be empty.
            rustix::process::kill_process_group(group, signal).ok();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Writes the input. A command need not read it.
async fn feed(stdin: Option<ChildStdin>, bytes: &[u8]) {
    if let Some(mut stdin) = stdin {
        stdin.write_all(bytes).await.ok();
    }
}

/// The first bytes of a stream.
struct Capped {
    bytes: Vec<u8>,
    cap: usize,
    is_truncated: bool,
}

impl Capped {
    fn new(cap: usize) -> Self {
        Self {
            bytes: Vec::new(),
            cap,
            is_truncated: false,
        }
    }

    /// Reads to the end, including what is not kept: the command must not block on a full pipe.
    async fn fill(
        &mut self,
        stream: Option<impl AsyncRead + Unpin>,
        each: &mut (dyn FnMut(&[u8]) + Send),
    ) {
        let Some(mut stream) = stream else { return };
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(n) = stream.read(&mut buffer).await
            && n > 0
        {
            each(buffer.get(..n).unwrap_or_default());
            let keep = n.min(self.cap - self.bytes.len());
            self.bytes
                .extend_from_slice(buffer.get(..keep).unwrap_or_default());
            self.is_truncated |= keep < n;
        }
    }
}

#[cfg(test)]
#[path = "short_tests.rs"]
mod tests;
