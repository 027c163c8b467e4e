//! Why work on an item ends before its end: each has its own way of being written down.

use std::io;
use std::path::{Path, PathBuf};

use crate::blackboard::BoardError;
use crate::change::FinalVerdict;
use crate::clock::Time;
use crate::git::GitError;
use crate::process::ProcessError;
use crate::prompt::PromptError;

/// Not an error of the program: the way in which work on an item was cut short.
#[derive(Debug)]
pub(super) enum Stop {
    /// A person is needed.
    Fail(Fail),
    /// The environment is in the way; again later.
    Hold { reason: String, until: Option<Time> },
    /// The claim is over: somebody cancelled the item. Nothing may be written for it.
    Fenced,
    /// The program is stopping: the item goes back, with its attempt.
    Stopping,
    /// A person paused the change between two runs: the item goes back and waits for the end of the pause.
    Paused,
    /// The blackboard itself can't be written: nothing can be recorded now, the item is given back later.
    Blackboard(BoardError),
}

#[derive(Debug, Clone)]
pub(super) struct Fail {
    pub(super) reason: String,
    pub(super) decide: String,
    pub(super) bound: Option<&'static str>,
    pub(super) final_verdict: Option<FinalVerdict>,
    pub(super) wip: Option<String>,
}

impl Stop {
    pub(super) fn fail(reason: impl Into<String>, decide: impl Into<String>) -> Self {
        Self::Fail(Fail { reason: reason.into(), decide: decide.into(), bound: None, final_verdict: None, wip: None })
    }

    /// In words, where there are any.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Self::Fail(fail) => Some(fail.reason.clone()),
            Self::Hold { reason, .. } => Some(reason.clone()),
            Self::Blackboard(error) => Some(chain(error)),
            Self::Fenced | Self::Stopping | Self::Paused => None,
        }
    }

    pub(super) fn hold(reason: impl Into<String>) -> Self {
        Self::Hold { reason: reason.into(), until: None }
    }
}

impl From<BoardError> for Stop {
    fn from(error: BoardError) -> Self {
        if matches!(error, BoardError::Stale { .. }) { Self::Fenced } else { Self::Blackboard(error) }
    }
}

impl From<GitError> for Stop {
    fn from(error: GitError) -> Self {
        match &error {
            GitError::Locked { .. }
            | GitError::NoSpace { .. }
            | GitError::TimedOut { .. }
            | GitError::NoGit
            | GitError::TooOld { .. }
            | GitError::NotTrusted { .. }
            | GitError::Process(_) => Self::hold(chain(&error)),
            GitError::File { source, .. } if source.kind() == io::ErrorKind::StorageFull => Self::hold(chain(&error)),
            GitError::NotThere { .. }
            | GitError::NotARepository { .. }
            | GitError::NotThisWorktree { .. }
            | GitError::NotUtf8 { .. }
            | GitError::NotOnBranch { .. }
            | GitError::Unfinished { .. }
            | GitError::Failed { .. }
            | GitError::Output { .. }
            | GitError::TooMuch { .. }
            | GitError::NotACommit { .. }
            | GitError::NotARef { .. }
            | GitError::BadBranchName(_)
            | GitError::BadRunName { .. }
            | GitError::StillDirty { .. }
            | GitError::File { .. }
            | GitError::ConfigTooBig { .. }
            | GitError::RecordThere { .. }
            | GitError::BadRecord { .. } => {
                Self::fail(chain(&error), "look at the worktree with git, mend it, then retry")
            }
        }
    }
}

impl From<ProcessError> for Stop {
    fn from(error: ProcessError) -> Self {
        Self::hold(chain(&error))
    }
}

impl From<PromptError> for Stop {
    fn from(error: PromptError) -> Self {
        Self::fail(chain(&error), "mend the prompt (`remand prompts check`), then retry")
    }
}

/// A file of a run could not be written or read.
pub(super) fn file_trouble(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Stop {
    let path: PathBuf = path.to_owned();
    let action = action.to_owned();
    move |error| Stop::hold(format!("cannot {action} {}: {error}", path.display()))
}

/// An error with what lies under it, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut under = error.source();
    while let Some(cause) = under {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        under = cause.source();
    }
    text
}
