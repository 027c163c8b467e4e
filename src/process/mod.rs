//! A stand-in for the room that starts children, with the one door that `git` needs. It is thrown away
//! when the real room comes; nothing is built on it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessError {
    #[error("the program `{program}` was not found")]
    NotFound { program: String },
    #[error("cannot start `{program}`")]
    Spawn {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("`{program}` was ended after {limit:?}")]
    TimedOut { program: String, limit: Duration },
}

#[derive(Debug)]
pub(crate) struct Short {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) stdin: Option<Vec<u8>>,
    pub(crate) limit: Duration,
    pub(crate) cap: usize,
}

#[derive(Debug)]
pub(crate) struct ShortOutput {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) truncated: bool,
}

#[expect(clippy::disallowed_methods, reason = "the one place")]
pub(crate) async fn short(cmd: &Short) -> Result<ShortOutput, ProcessError> {
    let program = cmd.program.to_string_lossy().into_owned();
    let spawn = |source: io::Error| {
        let program = program.clone();
        let missing = source.kind() == io::ErrorKind::NotFound && cmd.cwd.is_dir();
        if missing { ProcessError::NotFound { program } } else { ProcessError::Spawn { program, source } }
    };
    let mut child = tokio::process::Command::new(&cmd.program)
        .args(&cmd.args)
        .current_dir(&cmd.cwd)
        .env_clear()
        .envs(&cmd.env)
        .stdin(if cmd.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(spawn)?;
    let pipe = child.stdin.take();
    let feed = async {
        if let (Some(mut pipe), Some(bytes)) = (pipe, &cmd.stdin) {
            // A child that reads no further is judged by its status.
            pipe.write_all(bytes).await.ok();
        }
    };
    let both = async { tokio::join!(feed, child.wait_with_output()).1 };
    let output = match tokio::time::timeout(cmd.limit, both).await {
        Ok(output) => output.map_err(spawn)?,
        Err(_elapsed) => return Err(ProcessError::TimedOut { program, limit: cmd.limit }),
    };
    let (mut stdout, mut stderr) = (output.stdout, output.stderr);
    let truncated = stdout.len() > cmd.cap || stderr.len() > cmd.cap;
    stdout.truncate(cmd.cap);
    stderr.truncate(cmd.cap);
    Ok(ShortOutput { status: output.status.code(), stdout, stderr, truncated })
}
