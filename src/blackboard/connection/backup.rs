//! Copies the whole blackboard while others continue to write it.

use std::path::Path;

use rusqlite::ErrorCode;
use rusqlite::backup::{Backup, StepResult};

use super::invariants::{Depth, Violation, violations};
use super::{migrate, open};
use crate::blackboard::sql::{Begin, Connection};
use crate::blackboard::{BoardError, ReadOnlyDb, Result};
use crate::failpoint::crash_point;

/// Number of pages copied between two progress reports: 4 MiB.
const PAGES: i32 = 1_024;

/// Result of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) pages: i64,
    pub(crate) events: i64,
    /// Violated invariants between the rows of the copy, and so of the blackboard. The file itself
    /// is intact.
    pub(crate) violations: Vec<Violation>,
}

/// Progress of a copy, in pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) done: i64,
    pub(crate) of: i64,
}

/// Copies the blackboard into `to`, an empty file, as it is at one moment, and checks the copy.
/// `tell` receives the progress.
pub(crate) fn copy(from: &Path, to: &Path, mut tell: impl FnMut(Progress)) -> Result<Copied> {
    let mut source = source(from)?;
    // One read transaction for all steps: without it every commit of the daemon would restart the
    // copy, and alongside a busy daemon it would never end. Writers do not wait for a reader.
    let snapshot = source.begin(Begin::Read)?;
    crate::blackboard::newest_event(&snapshot)?;
    let mut copy = open::scratch(to)?;
    {
        let backup = Backup::new(snapshot.sqlite(), copy.sqlite_mut())
            .map_err(|source| of_copy(to, source))?;
        loop {
            let step = backup.step(PAGES).map_err(|source| of_copy(to, source))?;
            crash_point!("backup.step");
            let at = backup.progress();
            let done = i64::from(at.pagecount - at.remaining);
            tell(Progress {
                done,
                of: i64::from(at.pagecount),
            });
            match step {
                StepResult::Done => break,
                StepResult::More => {}
                // The source is already being read, and nobody else knows the copy.
                StepResult::Busy | StepResult::Locked | _ => {
                    return Err(open::unusable(to, "locked by another program".into(), None));
                }
            }
        }
    }
    drop(snapshot);
    // Makes the copy a single self-contained file. Whoever opens it as a blackboard gives it a log
    // again.
    copy.sqlite()
        .pragma_update(None, "journal_mode", "delete")
        .map_err(|source| of_copy(to, source))?;
    whole(to, &copy)
}

/// Opens the source. On a disk that became read-only, where a copy is needed most, the file is read
/// as it is.
fn source(from: &Path) -> Result<Connection> {
    let ordinary =
        open::reader(from).and_then(|conn| migrate::recognise(from, &conn).map(|()| conn));
    match ordinary {
        // If this does not help either, the first error is reported.
        Err(error) if is_read_only(&error) => ReadOnlyDb::open(from)
            .map(ReadOnlyDb::into_connection)
            .or(Err(error)),
        other => other,
    }
}

/// True if the error may mean a read-only disk: SQLite cannot open a file if it may not write the
/// log next to it.
fn is_read_only(error: &BoardError) -> bool {
    let BoardError::Unusable { source, .. } = error else {
        return false;
    };
    source.as_ref().is_none_or(|source| {
        matches!(
            source.sqlite_code().map(|error| error.code),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen)
        )
    })
}

/// Checks the copy as an independent reader would.
fn whole(path: &Path, copy: &Connection) -> Result<Copied> {
    let pages = copy
        .sqlite()
        .pragma_query_value(None, "page_count", |row| row.get(0))?;
    let events = copy.value("SELECT count(*) FROM events", &[])?;
    let found = violations(copy, Depth::Quick)?;
    if let Some(damage) = found.iter().find(|violation| violation.invariant == "I12") {
        return Err(open::unusable(
            path,
            format!("the copy is damaged: {}", damage.what),
            None,
        ));
    }
    Ok(Copied {
        pages,
        events,
        violations: found,
    })
}

/// Converts an error about the copy, which must not be mistaken for one about the blackboard.
fn of_copy(path: &Path, source: rusqlite::Error) -> BoardError {
    let problem = match source.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "the disk is full",
        Some(ErrorCode::SystemIoFailure) => "cannot be written",
        _ => return open::refused(path, source),
    };
    open::unusable(path, problem.into(), Some(source.into()))
}
