//! Errors of git operations, distinguished by what a caller does next.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Operation;
use super::bytes::lossy;
use crate::branch_name::BadBranchName;
use crate::process::ProcessError;

/// Result of a git operation.
pub(crate) type Result<T, E = GitError> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum GitError {
    /// The directory is gone, or something else (a file, a symlink) is in its place.
    #[error("no such directory: {}", path.display())]
    NotThere { path: PathBuf },
    #[error("{} is not in a git repository", path.display())]
    NotARepository { path: PathBuf },
    /// Git found a repository there, but not the one that the worktree belongs to.
    #[error("{} is not a worktree of {}", path.display(), common_dir.display())]
    NotThisWorktree { path: PathBuf, common_dir: PathBuf },
    #[error("git does not trust {}, which belongs to another user; allow it with `git config --global --add safe.directory {}`", path.display(), path.display())]
    NotTrusted { path: PathBuf },
    #[error("the path {} is not UTF-8", path.display())]
    NotUtf8 { path: PathBuf },
    #[error("HEAD is not on {expected} (found: {})", found.as_deref().unwrap_or("detached"))]
    NotOnBranch {
        expected: String,
        found: Option<String>,
    },
    #[error("unfinished {operation}")]
    Unfinished { operation: Operation },
    #[error("{} exists: another git process is running, or one was killed (in that case, remove the file)", path.display())]
    Locked { path: PathBuf },
    #[error("no space left for `git {args}`")]
    NoSpace { args: String },
    #[error("`git {args}` timed out after {limit:?}")]
    TimedOut { args: String, limit: Duration },
    /// Git, or a git that it started, was killed by the kernel, for lack of memory, or by someone;
    /// the work is not the cause.
    #[error("`git {args}` was killed by a signal")]
    Killed { args: String },
    /// Retries did not help.
    #[error("a worktree in {} is incomplete: another git process is running there, or one was killed (in that case, run `git worktree prune`)", path.display())]
    HalfMade { path: PathBuf },
    #[error("`git {args}` failed (status {status}): {stderr}")]
    Failed {
        args: String,
        status: i32,
        stderr: String,
    },
    #[error("unexpected output from `git {args}`: {found}")]
    Output { args: String, found: String },
    #[error("`git {args}` printed more than {cap} bytes")]
    TooMuch { args: String, cap: usize },
    #[error("{found} is older than git {}.{}", minimum.0, minimum.1)]
    TooOld { found: String, minimum: (u32, u32) },
    /// A sandbox is required and does not work.
    #[error("refusing to run without a sandbox: {why}")]
    Sandbox { why: String },
    #[error("git was not found on the PATH")]
    NoGit,
    #[error("cannot run git")]
    Process(#[source] ProcessError),
    /// Commit ids are assumed to have 40 digits everywhere.
    #[error("{} uses the object format {format}; only sha1 repositories are supported", path.display())]
    ObjectFormat { path: PathBuf, format: String },
    #[error("`{text}` is not a full commit id")]
    NotACommit { text: String },
    #[error("`{text}` is not a full ref name")]
    NotARef { text: String },
    #[error(transparent)]
    BadBranchName(#[from] BadBranchName),
    #[error("`{text}` cannot be part of a ref name")]
    BadRunName { text: String },
    /// Everything was reverted, and git still reports changes: a filter or another process makes
    /// them.
    #[error("the worktree is still not clean after being restored: {}", paths.join(", "))]
    StillDirty { paths: Vec<String> },
    #[error("{branch} is at {}, not at {expected}", found.as_deref().unwrap_or("no commit"))]
    Elsewhere {
        branch: String,
        expected: String,
        found: Option<String>,
    },
    /// Continuing would lose commits.
    #[error("{to} does not descend from {from}")]
    NotForward { from: String, to: String },
    #[error("uncommitted work in the worktree: {}", paths.join(", "))]
    LocalWork { paths: Vec<String> },
    /// Untracked files are at paths that git would have to write.
    #[error("untracked files would be overwritten: {}", paths.join(", "))]
    InTheWay { paths: Vec<String> },
    #[error("the branch {branch} is checked out in {}", path.display())]
    BranchInUse { branch: String, path: PathBuf },
    #[error("cannot {action} {}", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Git would wait for the other end of it.
    #[error("{} is a pipe or a device where git expects a file", path.display())]
    SpecialFile { path: PathBuf },
    #[error("the agent configuration in {} is larger than {limit} bytes", path.display())]
    ConfigTooBig { path: PathBuf, limit: u64 },
    /// An earlier swap was not undone.
    #[error("{} already exists", path.display())]
    RecordThere { path: PathBuf },
    #[error("{} is not a valid record of the replaced agent configuration", path.display())]
    BadRecord {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
}

impl GitError {
    pub(super) fn not_there(path: &Path) -> Self {
        Self::NotThere {
            path: path.to_owned(),
        }
    }

    /// The name is cut: it may be anything.
    pub(super) fn not_a_ref(name: &str) -> Self {
        Self::NotARef {
            text: name.chars().take(200).collect(),
        }
    }

    pub(super) fn not_a_commit(text: &str) -> Self {
        Self::NotACommit {
            text: text.chars().take(80).collect(),
        }
    }

    pub(super) fn elsewhere(branch: String, expected: &str, found: Option<String>) -> Self {
        Self::Elsewhere {
            branch,
            expected: expected.to_owned(),
            found,
        }
    }

    pub(super) fn not_forward(from: &str, to: &str) -> Self {
        Self::NotForward {
            from: from.to_owned(),
            to: to.to_owned(),
        }
    }

    /// Output that does not match git's documentation.
    pub(super) fn output(args: &str, found: &[u8]) -> Self {
        Self::Output {
            args: args.to_owned(),
            found: lossy(found).chars().take(200).collect(),
        }
    }
}
