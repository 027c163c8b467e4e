//! Why work on an item ends before its end: each has its own way of being written down.

use std::io;
use std::path::{Path, PathBuf};

use crate::blackboard::{self as bb, BoardError, Conn};
use crate::change::{ChangeId, HoldKind};
use crate::clock::{self, Time};
use crate::git::GitError;
use crate::process::ProcessError;
use crate::prompt::PromptError;
use crate::proposal::{Decision, Escalation, decision};

pub(super) use crate::sanitize::chain;

/// Not an error of the program: the way in which work on an item was cut short.
#[derive(Debug)]
pub(crate) enum Interrupt {
    /// A person is needed.
    Fail(Box<Escalation>),
    /// A person took fixes of ours back: a person is needed.
    TakenBack(TakenBack),
    /// The environment is in the way; again later.
    Hold {
        kind: HoldKind,
        reason: String,
        until: Option<Time>,
    },
    /// The claim is over: somebody cancelled the item. Nothing may be written for it.
    Fenced,
    /// The program is stopping: the item goes back, with its attempt.
    Stopping,
    /// Other settings came into force: the item goes back and is taken by those.
    Reloaded,
    /// A person paused the change between two runs: the item goes back and waits for the end of the pause.
    Paused,
    /// The blackboard itself can't be written: nothing can be recorded now, the item is given back later.
    Blackboard(BoardError),
}

#[derive(Debug, Clone)]
pub(crate) struct TakenBack {
    pub(super) reason: String,
    /// The intents to push what was taken back.
    pub(super) pushes: Vec<String>,
    /// Where the remote is since.
    pub(super) head: String,
}

impl TakenBack {
    /// To be written together with the end of what it ends: an item that went on after only one of them would make the
    /// fix again. The head is known with that: found later, it would look like a person's answer.
    pub(super) fn write(&self, conn: &Conn, id: &ChangeId) -> Result<(), BoardError> {
        bb::stop_fixing(conn, id, &self.pushes, clock::now())?;
        bb::move_head(conn, id, &self.head, clock::now()).map(drop)
    }
}

impl Interrupt {
    pub(super) fn fail(reason: impl Into<String>, decision: impl Into<Decision>) -> Self {
        Escalation::new(reason, decision).into()
    }

    /// In words, where there are any.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Self::Fail(fail) => Some(fail.reason.clone()),
            Self::Hold { reason, .. } => Some(reason.clone()),
            Self::TakenBack(taken) => Some(taken.reason.clone()),
            Self::Blackboard(error) => Some(chain(error)),
            Self::Fenced | Self::Stopping | Self::Reloaded | Self::Paused => None,
        }
    }

    /// For a kind of hold that goes to a person when it comes again and again.
    pub(super) fn hold_by(kind: HoldKind, reason: impl Into<String>) -> Self {
        Self::Hold {
            kind,
            reason: reason.into(),
            until: None,
        }
    }

    pub(super) fn hold(reason: impl Into<String>) -> Self {
        Self::Hold {
            kind: HoldKind::Environment,
            reason: reason.into(),
            until: None,
        }
    }
}

impl From<Escalation> for Interrupt {
    fn from(escalation: Escalation) -> Self {
        Self::Fail(Box::new(escalation))
    }
}

impl From<BoardError> for Interrupt {
    fn from(error: BoardError) -> Self {
        if matches!(error, BoardError::Stale { .. }) {
            Self::Fenced
        } else {
            Self::Blackboard(error)
        }
    }
}

impl From<GitError> for Interrupt {
    fn from(error: GitError) -> Self {
        match &error {
            GitError::TimedOut { .. } => Self::hold_by(HoldKind::GitLimit, chain(&error)),
            GitError::Locked { .. } => Self::hold_by(HoldKind::GitLock, chain(&error)),
            // Whoever killed it (the kernel, out of memory) says nothing about the work.
            GitError::Killed { .. }
            | GitError::HalfMade { .. }
            | GitError::NoSpace { .. }
            | GitError::NoGit
            | GitError::Sandbox { .. }
            | GitError::TooOld { .. }
            | GitError::NotTrusted { .. }
            | GitError::Process(_) => Self::hold(chain(&error)),
            GitError::File { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Self::hold(chain(&error))
            }
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
            | GitError::ObjectFormat { .. }
            | GitError::BadRunName { .. }
            | GitError::StillDirty { .. }
            | GitError::Elsewhere { .. }
            | GitError::NotForward { .. }
            | GitError::LocalWork { .. }
            | GitError::InTheWay { .. }
            | GitError::BranchInUse { .. }
            | GitError::File { .. }
            | GitError::SpecialFile { .. }
            | GitError::ConfigTooBig { .. }
            | GitError::RecordThere { .. }
            | GitError::BadRecord { .. } => Self::fail(
                chain(&error),
                "look at the worktree with git, mend it, then retry",
            ),
        }
    }
}

impl From<ProcessError> for Interrupt {
    fn from(error: ProcessError) -> Self {
        Self::hold(chain(&error))
    }
}

impl From<PromptError> for Interrupt {
    fn from(error: PromptError) -> Self {
        Self::fail(
            chain(&error),
            decision!(
                "mend the prompt ({check}), then retry",
                check = Decision::command("remand prompts check"),
            ),
        )
    }
}

/// A file of a run could not be written or read.
pub(super) fn file_trouble(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Interrupt {
    let path: PathBuf = path.to_owned();
    let action = action.to_owned();
    move |error| Interrupt::hold(format!("cannot {action} {}: {error}", path.display()))
}
