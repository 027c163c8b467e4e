//! Reasons why work on an item ends early: each is recorded in its own way.

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

/// Result of a step of the work on an item.
pub(crate) type Result<T, E = Interrupt> = std::result::Result<T, E>;

/// Way in which work on an item was interrupted. Not an error of the program.
#[derive(Debug)]
pub(crate) enum Interrupt {
    /// A person is needed.
    Fail(Box<Escalation>),
    /// A person reverted fixes of remand: a person has to decide.
    Reverted(Reverted),
    /// A problem of the environment; tried again later.
    Hold {
        kind: HoldKind,
        reason: String,
        until: Option<Time>,
    },
    /// The claim has ended: somebody cancelled the item. Nothing may be written for it.
    Fenced,
    /// The program is stopping: the item is returned, and the attempt does not count.
    Stopping,
    /// Other settings came into force: the item is returned and claimed again with those.
    Reloaded,
    /// A person paused the change between two runs: the item is returned and waits for the end of the pause.
    Paused,
    /// The blackboard itself cannot be written: nothing can be recorded now, and the item is returned later.
    Blackboard(BoardError),
}

#[derive(Debug, Clone)]
pub(crate) struct Reverted {
    pub(super) reason: String,
    /// The intents to push the reverted commits.
    pub(super) pushes: Vec<String>,
    /// Head of the remote branch since then.
    pub(super) head: String,
}

impl Reverted {
    /// Written together with the end that it causes: an item that continued after only one of them would make the fix
    /// again. The head is recorded with it: if it were found later, it would look like a person's answer.
    pub(super) fn write(&self, conn: &Conn, id: &ChangeId) -> Result<(), BoardError> {
        bb::stop_fixing(conn, id, &self.pushes, clock::now())?;
        bb::move_head(conn, id, &self.head, clock::now()).map(drop)
    }
}

impl Interrupt {
    pub(super) fn fail(reason: impl Into<String>, decision: impl Into<Decision>) -> Self {
        Escalation::new(reason, decision).into()
    }

    /// The end of an item, for the log.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Fail(_) => "failed",
            Self::Reverted(_) => "failed: its fixes were reverted",
            Self::Hold { .. } => "held",
            Self::Fenced => "its claim has ended; nothing was written",
            Self::Stopping => "returned: the program is stopping",
            Self::Reloaded => "returned: the settings changed",
            Self::Paused => "returned: the change is paused",
            Self::Blackboard(_) => "the result could not be written",
        }
    }

    /// The reason as text, if there is one.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Self::Fail(fail) => Some(fail.reason.clone()),
            Self::Hold { reason, .. } => Some(reason.clone()),
            Self::Reverted(taken) => Some(taken.reason.clone()),
            Self::Blackboard(error) => Some(chain(error)),
            Self::Fenced | Self::Stopping | Self::Reloaded | Self::Paused => None,
        }
    }

    /// The reason of a hold.
    pub(super) fn held_for(&self) -> Option<String> {
        match self {
            Self::Hold { reason, .. } => Some(reason.clone()),
            Self::Fail(_)
            | Self::Reverted(_)
            | Self::Fenced
            | Self::Stopping
            | Self::Reloaded
            | Self::Paused
            | Self::Blackboard(_) => None,
        }
    }

    /// A hold of a kind that is handed to a person when it is repeated.
    pub(super) fn hold_by(kind: HoldKind, reason: impl Into<String>) -> Self {
        Self::Hold {
            kind,
            reason: reason.into(),
            until: None,
        }
    }

    pub(super) fn hold(reason: impl Into<String>) -> Self {
        Self::hold_by(HoldKind::Environment, reason)
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
            // A process killed from outside (by the kernel, out of memory) proves nothing about the work.
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
            | GitError::BadRecord { .. } => {
                Self::fail(chain(&error), "fix the worktree with git, then retry")
            }
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
                "fix the prompt ({check}), then retry",
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
