//! Opening the database: pragmas with their reasons, permissions, and what is refused.

use std::path::Path;
use std::time::Duration;

use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

use super::{BoardError, Result, migrate};
use crate::clock::Time;

/// "rmnd": tells a blackboard from any other SQLite file.
pub(super) const APPLICATION_ID: i64 = 0x726d_6e64;

/// The SQLite that is bundled and that the tests ran with. Another one may be linked by a distribution; older
/// than this it lacks fixes that the blackboard relies on.
pub(super) const SQLITE_AT_LEAST: i32 = 3_051_003;

/// How long one of us waits for another writer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Opens for writing, making or migrating the file where that is needed.
pub(super) fn writer(path: &Path, now: Time) -> Result<Connection> {
    if rusqlite::version_number() < SQLITE_AT_LEAST {
        return Err(unusable(path, format!("SQLite {} is too old", rusqlite::version()), None));
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|error| unusable(path, format!("its folder can't be made: {error}"), None))?;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = connect(path, flags)?;
    migrate::refuse_foreign(path, &conn)?;
    pragmas(path, &mut conn)?;
    migrate::to_newest(path, &mut conn, now)?;
    Ok(conn)
}

/// Opens beside the writer; a write through it is refused by SQLite.
pub(super) fn reader(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = connect(path, flags)?;
    pragmas(path, &mut conn)?;
    conn.pragma_update(None, "query_only", true)?;
    Ok(conn)
}

#[expect(clippy::disallowed_methods, reason = "the one place")]
fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
    Connection::open_with_flags(path, flags).map_err(|source| unusable(path, "it can't be opened".into(), Some(source)))
}

fn pragmas(path: &Path, conn: &mut Connection) -> Result<()> {
    conn.busy_handler(Some(wait_briefly))?;
    // A row that nobody can read back is refused when it is written.
    conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, 16 * 1024 * 1024)?;
    conn.set_prepared_statement_cache_capacity(128);
    // Readers never wait for the writer, and a commit is one fsync.
    let mode: String = conn
        .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))
        .map_err(|source| unusable(path, "it is not a SQLite database, or it is read-only".into(), Some(source)))?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(unusable(path, format!("its journal mode is {mode}; WAL needs a local file system"), None));
    }
    // A rejection that was committed survives the power going off.
    conn.pragma_update(None, "synchronous", "full")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    if cfg!(target_os = "macos") {
        conn.pragma_update(None, "fullfsync", true)?;
    }
    Ok(())
}

/// SQLite's own handler backs off to 100 ms, which starves a command beside a busy daemon.
#[expect(clippy::disallowed_methods, reason = "called by SQLite on a thread that has nothing else to do")]
fn wait_briefly(tries: i32) -> bool {
    let pause = Duration::from_millis(if tries < 20 { 1 } else { 5 });
    let waited = Duration::from_millis(u64::try_from(tries).unwrap_or_default() * 5);
    std::thread::sleep(pause);
    waited < PATIENCE
}

pub(super) fn unusable(path: &Path, problem: String, source: Option<rusqlite::Error>) -> BoardError {
    BoardError::Unusable { path: path.to_owned(), problem, source }
}
