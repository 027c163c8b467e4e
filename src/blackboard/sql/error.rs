//! Errors of the database, and how far each of them reaches.

use rusqlite::ErrorCode;

use crate::blackboard::BoardError;

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A value that the schema let through and that is not one of its type.
    #[error("column {column}: {problem}")]
    Unreadable {
        column: String,
        problem: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("a value can't be stored as JSON")]
    Unstorable(#[source] serde_json::Error),
    #[error("the query returned no rows")]
    NoRow,
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// How far an error reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// No space is left on the disk.
    Full,
    /// Another connection holds the lock.
    Busy,
    /// Of the row or the value that was read or written.
    Row,
    /// Of the database itself: whatever is tried next meets it too.
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
            // Without a code it is rusqlite's own: a value of a row that can't be read. The last is SQLite's plain
            // "error": JSON that is none, a number that is too large.
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

    /// The code of SQLite, for `connection` alone.
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
