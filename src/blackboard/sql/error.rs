//! Database errors, and the scope of each.

use rusqlite::ErrorCode;

use crate::blackboard::BoardError;

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A value that the schema let through and that is not valid for its type.
    #[error("column {column}: {problem}")]
    Unreadable {
        column: String,
        problem: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("cannot serialize a value as JSON")]
    Unstorable(#[source] serde_json::Error),
    #[error("the query returned no rows")]
    NoRow,
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// Scope of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// No space is left on the disk.
    Full,
    /// Another connection holds the lock.
    Busy,
    /// Concerns the row or the value that was read or written.
    Row,
    /// Concerns the database itself: any further attempt meets it too.
    Everywhere,
}

impl Error {
    pub(crate) fn class(&self) -> Class {
        let Self::Sqlite(error) = self else {
            return Class::Row;
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Class::Full,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Class::Busy,
            // An error without a code comes from rusqlite: a value in a row that cannot be read.
            // The last one is SQLite's generic "error": invalid JSON, a number that is too large.
            None
            | Some(
                ErrorCode::ConstraintViolation
                | ErrorCode::TooBig
                | ErrorCode::TypeMismatch
                | ErrorCode::Unknown,
            ) => Class::Row,
            Some(_) => Class::Everywhere,
        }
    }

    /// Returns the SQLite error code, for use in `connection` only.
    pub(in crate::blackboard) fn sqlite_code(&self) -> Option<rusqlite::ffi::Error> {
        match self {
            Self::Sqlite(error) => error.sqlite_error().copied(),
            Self::Unreadable { .. } | Self::Unstorable(_) | Self::NoRow => None,
        }
    }
}

impl From<rusqlite::Error> for BoardError {
    fn from(error: rusqlite::Error) -> Self {
        Error::from(error).into()
    }
}
