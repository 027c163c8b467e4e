//! A copy of the whole blackboard while others go on writing it.

use std::path::Path;

use rusqlite::ErrorCode;
use rusqlite::backup::{Backup, StepResult};

use super::invariants::{Depth, Violation, violations};
use super::{migrate, open};
use crate::blackboard::BoardError;
use crate::blackboard::ReadOnlyDb;
use crate::blackboard::Result;
use crate::blackboard::sql::{Begin, Connection};
use crate::failpoint::crash_point;

/// Pages that are copied between two looks at the progress: 4 MiB.
const PAGES: i32 = 1_024;

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) pages: i64,
    pub(crate) events: i64,
    /// What does not hold between the rows of the copy, and so of the blackboard: the file itself is whole.
    pub(crate) violations: Vec<Violation>,
}

/// How far a copy is, in pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) done: i64,
    pub(crate) of: i64,
}

/// Copies the blackboard into `to`, an empty file, as it is at one moment, and checks the copy. `tell` hears how far it
/// is.
pub(crate) fn copy(from: &Path, to: &Path, mut tell: impl FnMut(Progress)) -> Result<Copied> {
    let mut source = source(from)?;
    // One read for all steps: without it every commit of the daemon would make the copy begin again, and beside a busy
    // one it would never end. Writers do not wait for a reader.
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
                // The source is being read already, and nobody else knows the copy.
                StepResult::Busy | StepResult::Locked | _ => {
                    return Err(open::unusable(
                        to,
                        "it is locked by another program".into(),
                        None,
                    ));
                }
            }
        }
    }
    drop(snapshot);
    // One file that stands for itself; whoever works on it makes it a blackboard with a log of its own again.
    copy.sqlite()
        .pragma_update(None, "journal_mode", "delete")
        .map_err(|source| of_copy(to, source))?;
    whole(to, &copy)
}

/// On a disk that went read-only, of all times, a copy is wanted: there it is read as it stands.
fn source(from: &Path) -> Result<Connection> {
    let ordinary =
        open::reader(from).and_then(|conn| migrate::recognise(from, &conn).map(|()| conn));
    match ordinary {
        // What it said first is told when this does not help either.
        Err(error) if is_read_only(&error) => ReadOnlyDb::open(from)
            .map(ReadOnlyDb::into_connection)
            .or(Err(error)),
        other => other,
    }
}

/// As far as SQLite tells: it can't open a file beside which it may not write its log.
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

/// Looks at the copy as a stranger would.
fn whole(path: &Path, copy: &Connection) -> Result<Copied> {
    let pages = copy
        .sqlite()
        .pragma_query_value(None, "page_count", |row| row.get(0))?;
    let events = copy.one("SELECT count(*) FROM events", &[], |row| row.get(0))?;
    let found = violations(copy, Depth::Quick)?;
    if let Some(damage) = found.iter().find(|violation| violation.invariant == "I12") {
        return Err(open::unusable(
            path,
            format!("what was copied is damaged: {}", damage.what),
            None,
        ));
    }
    Ok(Copied {
        pages,
        events,
        violations: found,
    })
}

/// What SQLite says of the copy must not be taken for something that the blackboard has.
fn of_copy(path: &Path, source: rusqlite::Error) -> BoardError {
    let problem = match source.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "the disk is full",
        Some(ErrorCode::SystemIoFailure) => "it can't be written",
        _ => return open::refused(path, source),
    };
    open::unusable(path, problem.into(), Some(source.into()))
}
