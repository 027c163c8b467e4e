//! The errors of intake: the forge, git, the blackboard, or a refusal.

use crate::blackboard::BoardError;
use crate::git::GitError;
use crate::github::GithubError;

/// Result of reading or adopting a pull request.
pub(crate) type Result<T, E = IntakeError> = std::result::Result<T, E>;

/// Reason why something could not be read from the forge, adopted or stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IntakeError {
    #[error("{what}")]
    Refused { what: String, hint: Option<String> },
    #[error(transparent)]
    Github(#[from] GithubError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Board(BoardError),
}

impl IntakeError {
    /// Creates a refusal with a hint about what to do instead.
    pub(super) fn refused(what: impl Into<String>, hint: impl Into<String>) -> Self {
        let (what, hint) = (what.into(), Some(hint.into()));
        Self::Refused { what, hint }
    }
}

impl From<BoardError> for IntakeError {
    /// A refusal by the blackboard concerns the request, not the blackboard.
    fn from(error: BoardError) -> Self {
        if let BoardError::Refused { what, hint } = error {
            return Self::Refused { what, hint };
        }
        Self::Board(error)
    }
}
