//! One git invocation: common settings and environment, and interpretation of its result.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::drivers::Setting;
use super::{ConfigOwner, Git, GitError, Place, Result, special};
use crate::clock;
use crate::failpoint::crash_point;
use crate::process::{self, ProcessError, Short, ShortOutput};
use crate::text::joined;

/// Maximum output size: enough for the paths of a hundred thousand files.
const CAP: usize = 64 * 1024 * 1024;

/// Age at which a lock of one of remand's refs is stale, left by a git that was killed.
const STALE_LOCK: Duration = Duration::from_secs(20);
/// Age at which a lock of the packed refs is stale. Git itself gives up after a second when it
/// finds the file locked.
const STALE_PACKED_REFS: Duration = Duration::from_secs(60);
/// Delays before retrying a call that ran into a worktree under construction.
const MOMENTS: [Duration; 4] = [
    Duration::from_millis(20),
    Duration::from_millis(80),
    Duration::from_millis(300),
    Duration::from_millis(1000),
];
const MOVING_LOCK: &str = "/refs/worktree/remand-moving.lock";

/// Settings for every call: they disable what a poisoned repository could start or what would
/// modify it as a side effect.
const CONFIG: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    // Part of the index, which an agent can write: it could hide new files.
    "core.untrackedCache=false",
    "core.quotePath=false",
    // A warning about line endings must not prevent a commit.
    "core.safecrlf=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    // The file that it names may be a device.
    "log.mailmap=false",
    "maintenance.auto=false",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "advice.addEmbeddedRepo=false",
    "advice.graftFileDeprecated=false",
];

/// Environment of every call.
///
/// An empty `GIT_ALLOW_PROTOCOL` allows no transport at all: a planted "partial clone" would
/// otherwise start its `uploadpack` when an object is missing. The system configuration is read on
/// purpose, since `safe.directory` may be set there.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("GIT_PAGER", "cat"),
    ("GIT_ASKPASS", "true"),
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_NO_LAZY_FETCH", "1"),
    // A large file that cannot be downloaded without credentials stays a pointer; the checkout
    // continues.
    ("GIT_LFS_SKIP_DOWNLOAD_ERRORS", "1"),
    // Neither replace refs nor grafts may rewrite the history that remand sees.
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_GRAFT_FILE", "/dev/null"),
];

#[derive(Debug)]
pub(super) struct GitCommand {
    pub(super) cwd: PathBuf,
    pub(super) place: Option<Place>,
    args: Vec<OsString>,
    stdin: Option<Vec<u8>>,
    env: Vec<(&'static str, String)>,
    config: &'static [&'static str],
    index: Option<PathBuf>,
    cap: usize,
    /// Paths outside the repository that the call needs.
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
}

impl GitCommand {
    /// Creates a call in a worktree whose git dir is known, so that nothing is discovered.
    ///
    /// `words` are the command and its constant arguments, separated by spaces; variable arguments
    /// are added with [`GitCommand::arg`] and [`GitCommand::args`].
    pub(super) fn at(place: &Place, words: &'static str) -> Self {
        Self {
            place: Some(place.clone()),
            ..Self::anywhere(&place.path, words)
        }
    }

    /// Creates a call in the repository that git discovers from a directory. Only for finding out
    /// what is there.
    pub(super) fn anywhere(cwd: &Path, words: &'static str) -> Self {
        Self {
            cwd: cwd.to_owned(),
            place: None,
            args: words.split(' ').map(OsString::from).collect(),
            stdin: None,
            env: Vec::new(),
            config: &[],
            index: None,
            cap: CAP,
            read: Vec::new(),
            write: Vec::new(),
        }
    }

    pub(super) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub(super) fn args<const N: usize>(mut self, args: [&str; N]) -> Self {
        self.args.extend(args.map(OsString::from));
        self
    }

    pub(super) fn stdin(mut self, bytes: Vec<u8>) -> Self {
        self.stdin = Some(bytes);
        self
    }

    pub(super) fn env(mut self, pairs: &[(&'static str, String)]) -> Self {
        self.env.extend(pairs.iter().cloned());
        self
    }

    /// Adds settings for this call, which override those of every call.
    pub(super) fn config(mut self, settings: &'static [&'static str]) -> Self {
        self.config = settings;
        self
    }

    /// Uses this index; that of the worktree, if none is given.
    pub(super) fn index(mut self, path: Option<&Path>) -> Self {
        self.index = path.map(Path::to_owned);
        self
    }

    pub(super) fn cap(mut self, bytes: usize) -> Self {
        self.cap = bytes;
        self
    }

    /// Creates another call in the same repository.
    pub(super) fn in_same_place(&self, words: &'static str) -> Self {
        Self {
            place: self.place.clone(),
            ..Self::anywhere(&self.cwd, words)
        }
    }

    pub(super) fn is(&self, command: &str) -> bool {
        self.args.first().is_some_and(|first| first == command)
    }

    /// Returns true if the first arguments are these words.
    pub(super) fn begins_with(&self, words: &str) -> bool {
        let mut args = self.args.iter();
        words
            .split(' ')
            .all(|word| args.next().is_some_and(|arg| arg == word))
    }

    /// Allows reading a path outside the repository.
    pub(super) fn reads(mut self, path: &Path) -> Self {
        self.read.push(path.to_owned());
        self
    }

    /// Allows writing a path outside the repository.
    pub(super) fn writes(mut self, path: &Path) -> Self {
        self.write.push(path.to_owned());
        self
    }

    /// Returns the command if it is one that writes: a crash may come before or after it.
    pub(super) fn changes_something(&self) -> Option<&'static str> {
        const STEPS: &[&str] = &[
            "add",
            "clean",
            "commit",
            "commit-tree",
            "fetch",
            "merge",
            "read-tree",
            "rebase",
            "reset",
            "symbolic-ref",
            "update-index",
            "update-ref",
            "worktree",
            "write-tree",
        ];
        let is_look = self.args.iter().any(|arg| arg == "-q" || arg == "list");
        let command = self.args.first().filter(|_| !is_look)?;
        STEPS.iter().find(|step| command == *step).copied()
    }

    fn words(&self) -> String {
        let words: Vec<_> = self.args.iter().map(|arg| arg.to_string_lossy()).collect();
        words.join(" ").chars().take(200).collect()
    }

    /// Builds the process to run. `settings` are pairs of key and value that override the
    /// repository's.
    pub(super) fn short(&self, git: &Git, settings: &[Setting]) -> Result<Short> {
        let mut env = git.env.clone();
        let mut args: Vec<OsString> = vec!["--no-pager".into()];
        for setting in CONFIG.iter().chain(self.config) {
            args.extend(["-c".into(), setting.into()]);
        }
        for (name, value) in ENVIRONMENT {
            env.insert((*name).to_owned(), (*value).to_owned());
        }
        if let Some(place) = &self.place {
            env.insert("GIT_DIR".to_owned(), utf8(&place.git_dir)?);
            env.insert("GIT_WORK_TREE".to_owned(), utf8(&place.path)?);
            if place.is_linked() {
                env.insert("GIT_COMMON_DIR".to_owned(), utf8(&place.common_dir)?);
            }
        }
        if let Some(index) = &self.index {
            env.insert("GIT_INDEX_FILE".to_owned(), utf8(index)?);
        }
        for (name, value) in &self.env {
            env.insert((*name).to_owned(), value.clone());
        }
        if !settings.is_empty() {
            env.insert("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string());
        }
        for (number, (key, value)) in settings.iter().enumerate() {
            env.insert(format!("GIT_CONFIG_KEY_{number}"), key.clone());
            env.insert(format!("GIT_CONFIG_VALUE_{number}"), value.clone());
        }
        args.extend(self.args.iter().cloned());
        Ok(Short {
            program: "git".into(),
            args,
            cwd: self.cwd.clone(),
            env: process::os_variables(env),
            stdin: self.stdin.clone(),
            limit: git.limit,
            cap: self.cap,
            is_wrapped: false,
        })
    }
}

impl Git {
    /// Returns the output of a call that must succeed.
    pub(super) async fn bytes(&self, call: GitCommand) -> Result<Vec<u8>> {
        let output = self.ended(&call).await?;
        match output.status {
            Some(0) => whole(&call, output),
            Some(_) | None => Err(failure(&call, &output)),
        }
    }

    /// Runs a call that must succeed and whose output is not needed.
    pub(super) async fn run(&self, call: GitCommand) -> Result<()> {
        self.bytes(call).await.map(drop)
    }

    /// Returns the output of a call that must succeed, as text.
    pub(super) async fn text(&self, call: GitCommand) -> Result<String> {
        let args = call.words();
        text(&args, self.bytes(call).await?)
    }

    /// Returns the lines of the output of a call that must succeed.
    pub(super) async fn lines(&self, call: GitCommand) -> Result<Vec<String>> {
        Ok(self.text(call).await?.lines().map(str::to_owned).collect())
    }

    /// Returns the single line of output of a call that must succeed.
    pub(super) async fn line(&self, call: GitCommand) -> Result<String> {
        let args = call.words();
        let text = self.text(call).await?;
        let line = text.strip_suffix('\n').unwrap_or(&text);
        if line.is_empty() || line.contains('\n') {
            return Err(GitError::output(&args, text.as_bytes()));
        }
        Ok(line.to_owned())
    }

    /// Like [`Git::line`], but status 1 without an error message means that there is no such
    /// object.
    pub(super) async fn maybe_line(&self, call: GitCommand) -> Result<Option<String>> {
        let Some(output) = found(&call, self.ended(&call).await?)? else {
            return Ok(None);
        };
        let text = text(&call.words(), output.stdout)?;
        Ok(Some(text.strip_suffix('\n').unwrap_or(&text).to_owned()))
    }

    /// Returns the output of a call; `None` if git fails, for callers that then ask in another way.
    pub(super) async fn answer(&self, call: GitCommand) -> Result<Option<Vec<u8>>> {
        let output = self.ended(&call).await?;
        match output.status {
            Some(0) if !output.truncated => Ok(Some(output.stdout)),
            Some(_) if !output.was_killed() => Ok(None),
            Some(_) | None => Err(failure(&call, &output)),
        }
    }

    /// Answers a yes/no question: status 0 is yes, 1 is no, anything else is an error.
    pub(super) async fn yes(&self, call: GitCommand) -> Result<bool> {
        Ok(found(&call, self.ended(&call).await?)?.is_some())
    }

    /// Returns output that may be cut at the call's limit, and whether it was.
    pub(super) async fn head(&self, call: GitCommand) -> Result<(Vec<u8>, bool)> {
        let output = self.ended(&call).await?;
        if output.status == Some(0) {
            Ok((output.stdout, output.truncated))
        } else {
            Err(failure(&call, &output))
        }
    }

    /// Runs a call to its end.
    ///
    /// Boxed, because otherwise every caller's future would be as large as everything a call needs.
    async fn ended(&self, call: &GitCommand) -> Result<ShortOutput> {
        Box::pin(self.call(call)).await
    }

    async fn call(&self, call: &GitCommand) -> Result<ShortOutput> {
        // A symlink in place of the directory would lead everything that follows to other files.
        let is_folder = call.cwd.symlink_metadata().is_ok_and(|m| m.is_dir());
        if !is_folder {
            return Err(GitError::not_there(&call.cwd));
        }
        if let Some(place) = &call.place {
            special::check(place)?;
        } else if call.is("worktree") {
            special::check_admin_dirs(&call.cwd)?;
        }
        let step = call.changes_something();
        if let Some(step) = step {
            crash_point!("call.{step}.before");
        }
        let settings = self.without_drivers(call).await?;
        let mut output = self.confined(call, &settings).await?;
        for pause in MOMENTS {
            if !is_half_made(&output) {
                break;
            }
            tokio::time::sleep(pause).await;
            output = self.confined(call, &settings).await?;
        }
        if let Some(step) = step {
            crash_point!("call.{step}.after");
        }
        Ok(output)
    }
}

impl Git {
    /// Returns the output of `git config --get-regexp`; `None` if no key matches.
    pub(super) async fn listed_settings(&self, call: &GitCommand) -> Result<Option<Vec<u8>>> {
        let output = found(call, self.confined(call, &[]).await?)?;
        output.map(|output| whole(call, output)).transpose()
    }

    async fn confined(&self, call: &GitCommand, settings: &[Setting]) -> Result<ShortOutput> {
        let mut short = call.short(self, settings)?;
        let held = |why| GitError::Sandbox { why };
        let path = self.env.get("PATH").map(OsString::from);
        if process::find("git".as_ref(), path.as_deref(), &call.cwd).is_none() {
            return Err(GitError::NoGit);
        }
        if self.whose == ConfigOwner::Agents
            && let Some(mut reach) = call.reach()
            && !self.sandbox.is_open().await.map_err(held)?
        {
            reach.read.extend_from_slice(self.user_files().await?);
            let confined = self.sandbox.confine_git(short, &reach).await;
            short = confined.map_err(held)?;
        }
        let is_wrapped = short.is_wrapped;
        let output = process::short(&short).await.map_err(|error| {
            if let ProcessError::TimedOut { limit, .. } = error {
                return match call.place.as_ref().and_then(special::find) {
                    Some(path) => GitError::SpecialFile { path },
                    None => GitError::TimedOut {
                        args: call.words(),
                        limit,
                    },
                };
            }
            if let ProcessError::NotFound { .. } = error {
                GitError::NoGit
            } else {
                GitError::Process(error)
            }
        })?;
        if is_wrapped && output.status != Some(0) {
            let stderr = String::from_utf8_lossy(&output.stderr);
            // Bubblewrap exits with git's status, or with 1 if it could not start git.
            if let Some(why) = stderr.lines().find_map(|line| line.strip_prefix("bwrap: ")) {
                return Err(GitError::Sandbox { why: excerpt(why) });
            }
        }
        Ok(output)
    }
}

/// Returns output that was not cut.
fn whole(call: &GitCommand, output: ShortOutput) -> Result<Vec<u8>> {
    if output.truncated {
        let (args, cap) = (call.words(), call.cap);
        return Err(GitError::TooMuch { args, cap });
    }
    Ok(output.stdout)
}

/// Returns the output of a call; `None` for status 1 without an error message.
fn found(call: &GitCommand, output: ShortOutput) -> Result<Option<ShortOutput>> {
    match output.status {
        Some(0) => Ok(Some(output)),
        Some(1) if !complains(&output) => Ok(None),
        Some(_) | None => Err(failure(call, &output)),
    }
}

/// Returns true if stderr has more than warnings. A planted warning must not make every answer
/// unusable.
fn complains(output: &ShortOutput) -> bool {
    let stderr = String::from_utf8_lossy(&output.stderr);
    stderr
        .lines()
        .any(|line| line.starts_with("error:") || line.starts_with("fatal:"))
}

/// Classifies a failure.
///
/// Git has one status (128) for most errors, so some are distinguished by the state of the disk,
/// and the rest by messages that are stable under `LC_ALL=C`.
fn failure(call: &GitCommand, output: &ShortOutput) -> GitError {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let (args, path) = (call.words(), call.cwd.clone());
    if output.was_killed()
        || stderr.contains("died of signal")
        || (call.is("fetch") && is_cut(&stderr))
    {
        return GitError::Killed { args };
    }
    if is_half_made(output) {
        return GitError::HalfMade { path };
    }
    if stderr.contains("No space left on device") || stderr.contains("Disk quota exceeded") {
        return GitError::NoSpace { args };
    }
    if stderr.contains("dubious ownership") {
        return GitError::NotTrusted { path };
    }
    if stderr.contains("not a git repository") {
        return GitError::NotARepository { path };
    }
    if let Some(path) = lock_in_the_way(&stderr).filter(|_| call.index.is_none()) {
        remove_if_stale(&path);
        return GitError::Locked { path };
    }
    let lines = stderr.lines().map(str::trim);
    let lines = joined(lines.filter(|line| !line.is_empty()), "; ");
    GitError::Failed {
        args,
        status: output.status.unwrap_or_default(),
        stderr: excerpt(&lines),
    }
}

/// Returns true if another git is currently creating or removing a worktree of the repository.
fn is_half_made(output: &ShortOutput) -> bool {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let about = |line: &str| {
        let is_failed = line.starts_with("fatal:") || line.starts_with("error:");
        is_failed
            && line.contains("/worktrees/")
            && (line.contains("failed to read") || line.contains("could not open"))
    };
    output.status != Some(0) && stderr.lines().any(about)
}

/// Returns true if the git on the other side of a fetch by path was killed and gave no reason.
fn is_cut(stderr: &str) -> bool {
    const ENDS: [&str; 2] = ["the remote end hung up unexpectedly", "early EOF"];
    let is_reason =
        |line: &str| line.starts_with("remote: fatal:") || line.starts_with("remote: error:");
    ENDS.iter().any(|end| stderr.contains(end)) && !stderr.lines().any(is_reason)
}

/// Returns the lock of an index or a ref that blocked git, if it still exists.
fn lock_in_the_way(stderr: &str) -> Option<PathBuf> {
    let (_, after) = stderr.split_once("Unable to create '")?;
    let (path, _) = after.split_once(".lock': File exists")?;
    let path = PathBuf::from(format!("{path}.lock"));
    path.symlink_metadata().is_ok().then_some(path)
}

/// Removes a lock that has become stale.
///
/// Refs of remand are locked only for a moment: a git that was killed then left a lock that nobody
/// else will ever remove. The same applies to the packed refs file, which is locked while one file
/// is written and blocks every git in the repository. All other locks belong to others and are left
/// alone.
fn remove_if_stale(lock: &Path) {
    let is_own = lock
        .to_str()
        .is_some_and(|path| path.contains("/refs/remand/") || path.contains(MOVING_LOCK));
    let aged = match lock.file_name() {
        _ if is_own => STALE_LOCK,
        Some(name) if name == "packed-refs.lock" => STALE_PACKED_REFS,
        _ => return,
    };
    if is_older(lock, aged) {
        // Another process may have removed it first; otherwise it still blocks the next call.
        fs::remove_file(lock).ok();
    }
}

/// Returns true if a file exists and was not modified for longer than a time.
pub(crate) fn is_older(path: &Path, aged: Duration) -> bool {
    let Ok(modified) = path.symlink_metadata().and_then(|meta| meta.modified()) else {
        return false;
    };
    let age = clock::now().utc() - chrono::DateTime::<chrono::Utc>::from(modified);
    age.to_std().is_ok_and(|age| age > aged)
}

pub(super) fn text(args: &str, bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| GitError::output(args, error.as_bytes()))
}

pub(crate) fn utf8(path: &Path) -> Result<String> {
    let not_utf8 = || GitError::NotUtf8 {
        path: path.to_owned(),
    };
    path.to_str().map(str::to_owned).ok_or_else(not_utf8)
}

fn excerpt(text: &str) -> String {
    text.chars().take(2_000).collect()
}
