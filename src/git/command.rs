//! One call of git: what every call carries, and how its end is read.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::drivers::Setting;
use super::{ConfigOwner, Git, GitError, Place, special};
use crate::clock;
use crate::failpoint::crash_point;
use crate::process::{self, ProcessError, Short, ShortOutput};

/// Enough for the paths of a hundred thousand files.
const CAP: usize = 64 * 1024 * 1024;

/// A lock of a ref of our own that is older was left by a git that was killed.
const STALE_LOCK: Duration = Duration::from_secs(20);
/// Git itself gives up after a second when it finds the file locked.
const STALE_PACKED_REFS: Duration = Duration::from_secs(60);
/// Pauses before a call is tried again that met a worktree which was just being made.
const MOMENTS: [Duration; 4] = [
    Duration::from_millis(20),
    Duration::from_millis(80),
    Duration::from_millis(300),
    Duration::from_millis(1000),
];
const MOVING_LOCK: &str = "/refs/worktree/remand-moving.lock";

/// Switched off for every call: what a poisoned repository could start, and what would change it unasked.
const CONFIG: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=false",
    // A warning about line ends must not turn into a commit that cannot be made.
    "core.safecrlf=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    // A file that it names may be a device.
    "log.mailmap=false",
    "maintenance.auto=false",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "advice.addEmbeddedRepo=false",
    "advice.graftFileDeprecated=false",
];

/// `GIT_ALLOW_PROTOCOL` empty allows no transport at all: a planted "partial clone" would otherwise start
/// its `uploadpack` when an object is missing. The system's configuration is read on purpose, since
/// `safe.directory` may be there.
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
    // A large file that cannot be had without credentials stays a pointer; the checkout goes on.
    ("GIT_LFS_SKIP_DOWNLOAD_ERRORS", "1"),
    // Neither of these two may rewrite history as we see it.
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
    /// Paths besides the repository that it needs.
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
}

impl GitCommand {
    /// In a worktree whose git dir is known: nothing is discovered.
    pub(super) fn at<const N: usize>(place: &Place, args: [&str; N]) -> Self {
        Self {
            place: Some(place.clone()),
            ..Self::anywhere(&place.path, args)
        }
    }

    /// Wherever git's own discovery leads from a folder: only for looking what is there.
    pub(super) fn anywhere<const N: usize>(cwd: &Path, args: [&str; N]) -> Self {
        let args = args.iter().map(OsString::from).collect();
        let (stdin, env, config, index) = (None, Vec::new(), &[][..], None);
        let (read, write) = (Vec::new(), Vec::new());
        Self {
            cwd: cwd.to_owned(),
            place: None,
            args,
            stdin,
            env,
            config,
            index,
            cap: CAP,
            read,
            write,
        }
    }

    pub(super) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
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

    /// Settings for this call alone, which win over those of every call.
    pub(super) fn config(mut self, settings: &'static [&'static str]) -> Self {
        self.config = settings;
        self
    }

    /// Uses this index instead of the worktree's own.
    pub(super) fn index(mut self, path: &Path) -> Self {
        self.index = Some(path.to_owned());
        self
    }

    pub(super) fn cap(mut self, bytes: usize) -> Self {
        self.cap = bytes;
        self
    }

    /// Another call in the same repository.
    pub(super) fn in_same_place<const N: usize>(&self, args: [&str; N]) -> Self {
        Self {
            place: self.place.clone(),
            ..Self::anywhere(&self.cwd, args)
        }
    }

    pub(super) fn is(&self, command: &str) -> bool {
        self.args.first().is_some_and(|first| first == command)
    }

    /// Whether its first arguments are these words.
    pub(super) fn begins_with(&self, words: &str) -> bool {
        let mut args = self.args.iter();
        words
            .split(' ')
            .all(|word| args.next().is_some_and(|arg| arg == word))
    }

    /// Lets it read what is outside of the repository.
    pub(super) fn reads(mut self, path: &Path) -> Self {
        self.read.push(path.to_owned());
        self
    }

    /// Lets it write what is outside of the repository.
    pub(super) fn writes(mut self, path: &Path) -> Self {
        self.write.push(path.to_owned());
        self
    }

    /// Its command, if that is one that writes: a crash may come before it and after it.
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

    /// `settings` are pairs of a key and a value, which win over the repository's own.
    pub(super) fn short(&self, git: &Git, settings: &[Setting]) -> Result<Short, GitError> {
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
        let (cwd, stdin) = (self.cwd.clone(), self.stdin.clone());
        let env = env
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Ok(Short {
            program: "git".into(),
            args,
            cwd,
            env,
            stdin,
            limit: git.limit,
            cap: self.cap,
            is_wrapped: false,
        })
    }
}

impl Git {
    /// The output of a call that must succeed.
    pub(super) async fn bytes(&self, call: GitCommand) -> Result<Vec<u8>, GitError> {
        let output = self.ended(&call).await?;
        match output.status {
            Some(0) if output.truncated => Err(GitError::TooMuch {
                args: call.words(),
                cap: call.cap,
            }),
            Some(0) => Ok(output.stdout),
            Some(_) | None => Err(failure(&call, &output)),
        }
    }

    /// The one line that a call which must succeed says.
    pub(super) async fn line(&self, call: GitCommand) -> Result<String, GitError> {
        let args = call.words();
        let text = text(&args, self.bytes(call).await?)?;
        let line = text.strip_suffix('\n').unwrap_or(&text);
        if line.is_empty() || line.contains('\n') {
            return Err(GitError::Output {
                args,
                found: shown(&text),
            });
        }
        Ok(line.to_owned())
    }

    /// Like [`Git::line`], where status 1 without a complaint means that there is no such thing.
    pub(super) async fn maybe_line(&self, call: GitCommand) -> Result<Option<String>, GitError> {
        let output = self.ended(&call).await?;
        match output.status {
            Some(0) => {
                let text = text(&call.words(), output.stdout)?;
                Ok(Some(text.strip_suffix('\n').unwrap_or(&text).to_owned()))
            }
            Some(1) if !complains(&output) => Ok(None),
            Some(_) | None => Err(failure(&call, &output)),
        }
    }

    /// A question: status 0 is yes, 1 is no, everything else is no answer.
    pub(super) async fn yes(&self, call: GitCommand) -> Result<bool, GitError> {
        let output = self.ended(&call).await?;
        match output.status {
            Some(0) => Ok(true),
            Some(1) if !complains(&output) => Ok(false),
            Some(_) | None => Err(failure(&call, &output)),
        }
    }

    /// Output that may be cut at the call's cap, and whether it was.
    pub(super) async fn head(&self, call: GitCommand) -> Result<(Vec<u8>, bool), GitError> {
        let output = self.ended(&call).await?;
        if output.status == Some(0) {
            Ok((output.stdout, output.truncated))
        } else {
            Err(failure(&call, &output))
        }
    }

    async fn ended(&self, call: &GitCommand) -> Result<ShortOutput, GitError> {
        // A symlink in the place of the folder would lead all that follows to a stranger's files.
        let is_folder = call.cwd.symlink_metadata().is_ok_and(|m| m.is_dir());
        if !is_folder {
            return Err(GitError::NotThere {
                path: call.cwd.clone(),
            });
        }
        if let Some(place) = &call.place {
            special::check(place)?;
        } else if call
            .args
            .first()
            .is_some_and(|command| command == "worktree")
        {
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
    /// What `git config --get-regexp` lists; none when no key matches.
    pub(super) async fn listed_settings(
        &self,
        call: &GitCommand,
    ) -> Result<Option<Vec<u8>>, GitError> {
        let output = self.confined(call, &[]).await?;
        match output.status {
            Some(0) if output.truncated => Err(GitError::TooMuch {
                args: call.words(),
                cap: call.cap,
            }),
            Some(0) => Ok(Some(output.stdout)),
            Some(1) if !complains(&output) => Ok(None),
            Some(_) | None => Err(failure(call, &output)),
        }
    }

    async fn confined(
        &self,
        call: &GitCommand,
        settings: &[Setting],
    ) -> Result<ShortOutput, GitError> {
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
            short = self
                .sandbox
                .confine_git(short, &reach)
                .await
                .map_err(held)?;
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
            // Bubblewrap ends with git's status, or with 1 when it could not start git.
            if let Some(why) = stderr.lines().find_map(|line| line.strip_prefix("bwrap: ")) {
                return Err(GitError::Sandbox { why: shown(why) });
            }
        }
        Ok(output)
    }
}

/// A warning is no complaint: a planted one would keep every answer from us.
fn complains(output: &ShortOutput) -> bool {
    let stderr = String::from_utf8_lossy(&output.stderr);
    stderr
        .lines()
        .any(|line| line.starts_with("error:") || line.starts_with("fatal:"))
}

/// Git has one status (128) for most of its troubles, so some are told apart by what is on the disk, and
/// the rest by words that are stable under `LC_ALL=C`.
fn failure(call: &GitCommand, output: &ShortOutput) -> GitError {
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.was_killed()
        || stderr.contains("died of signal")
        || (call.is("fetch") && is_cut(&stderr))
    {
        return GitError::Killed { args: call.words() };
    }
    if is_half_made(output) {
        return GitError::HalfMade {
            path: call.cwd.clone(),
        };
    }
    if stderr.contains("No space left on device") || stderr.contains("Disk quota exceeded") {
        return GitError::NoSpace { args: call.words() };
    }
    if stderr.contains("dubious ownership") {
        return GitError::NotTrusted {
            path: call.cwd.clone(),
        };
    }
    if stderr.contains("not a git repository") {
        return GitError::NotARepository {
            path: call.cwd.clone(),
        };
    }
    if let Some(path) = lock_in_the_way(&stderr).filter(|_| call.index.is_none()) {
        remove_if_stale(&path);
        return GitError::Locked { path };
    }
    let lines: Vec<&str> = stderr
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    GitError::Failed {
        args: call.words(),
        status: output.status.unwrap_or_default(),
        stderr: shown(&lines.join("; ")),
    }
}

/// Another git is at the moment making or removing a worktree of the repository.
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

/// The git at the other side of a fetch by path was ended, and gave no reason.
fn is_cut(stderr: &str) -> bool {
    const ENDS: [&str; 2] = ["the remote end hung up unexpectedly", "early EOF"];
    let is_reason =
        |line: &str| line.starts_with("remote: fatal:") || line.starts_with("remote: error:");
    ENDS.iter().any(|end| stderr.contains(end)) && !stderr.lines().any(is_reason)
}

/// The lock of an index or a ref that git found taken, if it is still there.
fn lock_in_the_way(stderr: &str) -> Option<PathBuf> {
    let (_, after) = stderr.split_once("Unable to create '")?;
    let (path, _) = after.split_once(".lock': File exists")?;
    let path = PathBuf::from(format!("{path}.lock"));
    path.symlink_metadata().is_ok().then_some(path)
}

/// A ref of remand's own is locked for a moment only: a git that was killed in it left a lock that nobody else will ever
/// remove. So for the file of packed refs, which stops every git in the repository: it is locked while one file is
/// written. Other locks of others are theirs.
fn remove_if_stale(lock: &Path) {
    let is_own = lock
        .to_str()
        .is_some_and(|path| path.contains("/refs/remand/") || path.contains(MOVING_LOCK));
    let aged = match lock.file_name() {
        _ if is_own => STALE_LOCK,
        Some(name) if name == "packed-refs.lock" => STALE_PACKED_REFS,
        _ => return,
    };
    let Ok(modified) = lock.symlink_metadata().and_then(|meta| meta.modified()) else {
        return;
    };
    let age = clock::now()
        .utc()
        .signed_duration_since(chrono::DateTime::<chrono::Utc>::from(modified));
    if age.to_std().is_ok_and(|age| age > aged) {
        // Somebody else may have been quicker, and else it is still in the way the next time.
        fs::remove_file(lock).ok();
    }
}

pub(super) fn text(args: &str, bytes: Vec<u8>) -> Result<String, GitError> {
    String::from_utf8(bytes).map_err(|error| GitError::Output {
        args: args.to_owned(),
        found: shown(&String::from_utf8_lossy(error.as_bytes())),
    })
}

pub(super) fn utf8(path: &Path) -> Result<String, GitError> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| GitError::NotUtf8 {
            path: path.to_owned(),
        })
}

fn shown(text: &str) -> String {
    text.chars().take(2_000).collect()
}
