//! One call of `gh api`: the settings and arguments common to all calls.

use std::ffi::OsString;
use std::io::ErrorKind;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::classify::{Request, classify, excerpt};
use super::response::{Reply, is_etag, split};
use super::{Github, GithubError, Result};
use crate::failpoint::crash_point;
use crate::process::{self, ProcessError, Short, ShortOutput};
use crate::sanitize;

/// Maximum bytes of one page: a hundred comments of the maximum length (65,536 characters) with their hunks fit.
pub(super) const CAP: usize = 32 * 1024 * 1024;

/// Maximum bytes kept of a response that is passed on as it arrives: its head, or an error.
const STREAM_CAP: usize = 256 * 1024;

/// `ENOEXEC`: the file exists and is not a program.
const ENOEXEC: i32 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Post,
    Put,
}

#[derive(Debug)]
pub(super) struct Call {
    method: Method,
    path: String,
    etag: Option<String>,
    body: Option<Vec<u8>>,
    /// Set if gh may print escape sequences.
    allows_escapes: bool,
}

impl Call {
    pub(super) fn get(path: String) -> Self {
        Self {
            method: Method::Get,
            path,
            etag: None,
            body: None,
            allows_escapes: false,
        }
    }

    /// The body is passed on stdin only: arguments are visible to everybody on the machine, and `-f x=@file` reads
    /// files.
    pub(super) fn write(method: Method, path: String, body: &impl Serialize) -> Result<Self> {
        let body = serde_json::to_vec(body).map_err(|error| {
            GithubError::broken(&path, format!("cannot serialize the request: {error}"))
        })?;
        Ok(Self {
            method,
            path,
            etag: None,
            body: Some(body),
            allows_escapes: false,
        })
    }

    /// "Not modified" does not count against the rate limit.
    pub(super) fn unless(mut self, etag: Option<&str>) -> Self {
        self.etag = etag.filter(|etag| is_etag(etag)).map(str::to_owned);
        self
    }

    pub(super) fn with_escapes(mut self) -> Self {
        self.allows_escapes = true;
        self
    }

    fn is_write(&self) -> bool {
        self.method != Method::Get
    }

    /// Name of the kind of write: the last part of the path.
    fn kind(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Arguments of gh. The path is the last one, and none starts with a dash: each is built here from a constant
    /// prefix.
    fn words(&self) -> Vec<OsString> {
        let method = match self.method {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
        };
        let mut words: Vec<OsString> = ["api", "-i", "-X", method].map(OsString::from).to_vec();
        let mut header = |text: String| words.extend(["-H".into(), text.into()]);
        header("Accept: application/vnd.github+json".to_owned());
        header("X-GitHub-Api-Version: 2022-11-28".to_owned());
        if let Some(etag) = &self.etag {
            header(format!("If-None-Match: {etag}"));
        }
        if self.body.is_some() {
            words.extend(["--input".into(), "-".into()]);
        }
        if self.allows_escapes {
            words.push("--allow-escape-sequences".into());
        }
        words.push(OsString::from(&self.path));
        words
    }
}

impl Github {
    /// Deadline of a request that starts now.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.shared.limit
    }

    pub(super) async fn ask(&self, call: &Call, deadline: Instant) -> Result<Reply> {
        if call.is_write() {
            crash_point!("github.{}.before", call.kind());
        }
        let output = self.run(&call.words(), call.body.clone(), deadline).await;
        let output = output.map_err(|error| self.not_run(&call.path, &error))?;
        if call.is_write() {
            crash_point!("github.{}.after", call.kind());
        }
        // A refusal has the rate limit too.
        if let Some(rate) = split(&output.stdout).and_then(|(head, _)| head.rate()) {
            self.shared.rate.send_replace(Some(rate));
        }
        let request = Request {
            path: &call.path,
            is_conditional: call.etag.is_some(),
            is_write: call.is_write(),
        };
        classify(request, &output)
    }

    /// Starts gh with these words after its own.
    pub(super) async fn run(
        &self,
        words: &[OsString],
        stdin: Option<Vec<u8>>,
        deadline: Instant,
    ) -> Result<ShortOutput, ProcessError> {
        process::short(&self.command(words, stdin, deadline)).await
    }

    /// Makes a call whose output is passed on as it arrives, because it may be of any size. The result has its first
    /// bytes.
    pub(super) async fn stream(
        &self,
        call: &Call,
        deadline: Instant,
        each: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<ShortOutput, ProcessError> {
        let command = Short {
            cap: STREAM_CAP,
            ..self.command(&call.words(), None, deadline)
        };
        process::stream(&command, each).await
    }

    fn command(&self, words: &[OsString], stdin: Option<Vec<u8>>, deadline: Instant) -> Short {
        let shared = &self.shared;
        let mut argv = shared.argv.iter().map(OsString::from);
        Short {
            program: argv.next().unwrap_or_default(),
            args: argv.chain(words.iter().cloned()).collect(),
            cwd: shared.cwd.clone(),
            env: shared.env.clone(),
            stdin,
            limit: deadline.saturating_duration_since(Instant::now()),
            cap: CAP,
            is_wrapped: false,
        }
    }

    pub(super) fn not_run(&self, path: &str, error: &ProcessError) -> GithubError {
        let what = if let ProcessError::TimedOut { .. } = error {
            format!("no response within {:?}", self.shared.limit)
        } else {
            sanitize::chain(error)
        };
        let is_missing = if let ProcessError::Spawn { source, .. } = error {
            is_no_program(source)
        } else {
            matches!(error, ProcessError::NotFound { .. })
        };
        if is_missing {
            GithubError::NoGh
        } else {
            GithubError::transient(path, what)
        }
    }
}

/// Parses a body. Unknown fields are ignored; missing ones and those of another type are named in the error.
pub(super) fn read_body<T: DeserializeOwned>(path: &str, body: &[u8]) -> Result<T> {
    let broken = |what: String| GithubError::broken(path, what);
    let mut json = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (place, why) = (error.path().to_string(), error.inner());
        broken(format!("{why} in {place} of `{}`", excerpt(body)))
    })?;
    json.end().map_err(|error| broken(error.to_string()))?;
    Ok(value)
}

fn is_no_program(error: &std::io::Error) -> bool {
    let kinds = [
        ErrorKind::NotFound,
        ErrorKind::PermissionDenied,
        ErrorKind::NotADirectory,
    ];
    kinds.contains(&error.kind()) || error.raw_os_error() == Some(ENOEXEC)
}
