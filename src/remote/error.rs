//! Errors of a remote, distinguished by what a caller does next. No variant shows the user or
//! password of a URL.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::git::GitError;

/// Result of an operation on the remote.
pub(crate) type Result<T, E = RemoteError> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoteError {
    /// A person must log in, or be granted access.
    #[error("access to {url} denied: {message}")]
    Auth { url: String, message: String },
    /// No network, unknown host, no server, connection lost, or server error: it may work later.
    #[error("cannot reach {url}: {message}")]
    Unreachable { url: String, message: String },
    #[error("{url} did not answer within {limit:?}")]
    TimedOut { url: String, limit: Duration },
    /// The remote refused for a temporary reason: a lock, no space, an internal error.
    #[error("{url} cannot accept the push now: {message}")]
    Busy { url: String, message: String },
    #[error("no repository at {url}: {message}")]
    NotFound { url: String, message: String },
    #[error("refusing to push to {url}: {why}")]
    BadUrl { url: String, why: &'static str },
    /// Git would have to use a transport that is not allowed or not installed.
    #[error("cannot use {url}: {message}")]
    Protocol { url: String, message: String },
    #[error("no space left for the bare clone")]
    NoSpace,
    /// Killed by the kernel, for lack of memory, or by someone; says nothing about the remote.
    #[error("`git {args}` was killed by a signal")]
    Killed { args: &'static str },
    /// Another git of remand is at work there, or one was killed; the lock is then removed when it
    /// is old enough.
    #[error("the bare clone is locked: {message}")]
    Locked { message: String },
    /// [`super::Remote::ready`] was not called, or someone changed the clone.
    #[error("{} is not the bare clone that remand created", path.display())]
    NotReady { path: PathBuf },
    #[error("the commit {sha} is not in {}", path.display())]
    Missing { sha: String, path: PathBuf },
    /// A push that would remove commits from the branch.
    #[error("{to} does not descend from {from}; remand never rewrites a branch")]
    Rewrite { from: String, to: String },
    #[error("unexpected output from `git {args}`")]
    Output { args: &'static str },
    #[error("`git {args}` failed: {message}")]
    Failed { args: &'static str, message: String },
    #[error("cannot {action} {}", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Git(GitError),
}

impl RemoteError {
    /// Creates the error for an action on a path.
    pub(super) fn file(action: &'static str, path: &std::path::Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |source| {
            if [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&source.kind()) {
                return Self::NoSpace;
            }
            Self::File {
                action,
                path: path.clone(),
                source,
            }
        }
    }
}

impl From<GitError> for RemoteError {
    fn from(error: GitError) -> Self {
        if let GitError::NoSpace { .. } = error {
            Self::NoSpace
        } else {
            Self::Git(error)
        }
    }
}
