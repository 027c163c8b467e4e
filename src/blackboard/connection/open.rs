//! Opens the database: pragmas with their reasons, permissions, and refused files.

use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{ErrorCode, OpenFlags};

use super::migrate;
use crate::blackboard::sql::{self, Class, Connection};
use crate::blackboard::{BoardError, Result};
use crate::clock::Time;

/// "rmnd": distinguishes a blackboard from any other SQLite file.
pub(crate) const APPLICATION_ID: i64 = 0x726d_6e64;

/// Minimum version of SQLite: the one that is bundled and tested. A distribution may link another
/// one; an older one lacks fixes that the blackboard relies on.
pub(crate) const SQLITE_AT_LEAST: i32 = 3_051_003;

/// Maximum time that one of our processes waits for another writer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum size of a value, so that a row that cannot be read back is refused when it is written.
const MOST_BYTES: i32 = 16 * 1024 * 1024;

/// Opens for writing, and creates or migrates the file if needed. A file that is not a blackboard
/// is left unchanged.
pub(crate) fn writer(path: &Path, now: Time) -> Result<Connection> {
    if rusqlite::version_number() < SQLITE_AT_LEAST {
        return Err(unusable(
            path,
            format!("SQLite {} is too old", rusqlite::version()),
            None,
        ));
    }
    make_private(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = connect(path, &absolute(path)?, flags)?;
    migrate::recognise(path, &conn)?;
    pragmas(path, conn.sqlite())?;
    migrate::to_newest(path, &mut conn, now)?;
    Ok(conn)
}

/// Opens alongside the writer. SQLite refuses writes through this connection.
pub(crate) fn reader(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = connect(path, &absolute(path)?, flags)?;
    pragmas(path, conn.sqlite())?;
    conn.sqlite().pragma_update(None, "query_only", true)?;
    Ok(conn)
}

/// Creates an empty blackboard in memory.
pub(crate) fn empty(now: Time) -> Result<Connection> {
    let mut conn = Connection::new(rusqlite::Connection::open_in_memory()?);
    migrate::to_newest(Path::new(""), &mut conn, now)?;
    Ok(conn)
}

/// Creates a copy in memory, migrated if needed. If the file does not exist, the copy is empty.
pub(crate) fn copy(path: &Path, now: Time) -> Result<Connection> {
    if !path.exists() {
        return empty(now);
    }
    let original = connect(
        path,
        &absolute(path)?,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    migrated_copy(path, &original, now)
}

/// Copies an open blackboard into memory and migrates the copy.
pub(crate) fn migrated_copy(path: &Path, original: &Connection, now: Time) -> Result<Connection> {
    let mut memory = Connection::new(rusqlite::Connection::open_in_memory()?);
    // All pages in one step: others may write meanwhile, and a copy in several steps would restart
    // each time.
    let copied = Backup::new(original.sqlite(), memory.sqlite_mut())
        .and_then(|backup| backup.run_to_completion(i32::MAX, Duration::ZERO, None));
    copied.map_err(|source| refused(path, source))?;
    migrate::recognise(path, &memory)?;
    let sqlite = memory.sqlite();
    sqlite.set_limit(Limit::SQLITE_LIMIT_LENGTH, MOST_BYTES)?;
    sqlite.pragma_update(None, "foreign_keys", true)?;
    migrate::to_newest(path, &mut memory, now)?;
    Ok(memory)
}

/// Opens an empty file that nobody else knows yet. The caller fills it and makes it durable.
pub(crate) fn scratch(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = connect(path, &absolute(path)?, flags)?;
    // An interrupted copy is discarded, so nothing of it has to survive.
    conn.sqlite().pragma_update(None, "journal_mode", "off")?;
    conn.sqlite().pragma_update(None, "synchronous", "off")?;
    Ok(conn)
}

/// Creates a new file that only its owner can access, whatever the umask. SQLite gives `-wal` and
/// `-shm` the same mode.
///
/// An existing file is not opened here: closing it again would drop the locks that this process
/// holds on it.
fn make_private(path: &Path) -> Result<()> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| {
                unusable(path, format!("cannot create its directory: {error}"), None)
            })?;
    }
    match std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
    {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && !path.is_dir() => Ok(()),
        Err(_) if path.is_dir() => Err(unusable(path, "is a directory".into(), None)),
        Err(error) => Err(unusable(
            path,
            format!("cannot create the file: {error}"),
            None,
        )),
    }
}

/// Opens `name`, which is the full `path` or a URI of it.
#[expect(
    clippy::disallowed_methods,
    reason = "the only place that opens databases"
)]
pub(crate) fn connect(path: &Path, name: &Path, flags: OpenFlags) -> Result<Connection> {
    let mut sqlite = rusqlite::Connection::open_with_flags(name, flags)
        .map_err(|source| refused(path, source))?;
    sqlite.busy_handler(Some(wait_briefly))?;
    Ok(Connection::new(sqlite))
}

/// Makes a path absolute, since SQLite gives `:memory:` and `file:…` a special meaning.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path)
        .map_err(|error| unusable(path, format!("cannot resolve the path: {error}"), None))
}

fn pragmas(path: &Path, conn: &rusqlite::Connection) -> Result<()> {
    conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, MOST_BYTES)?;
    conn.set_prepared_statement_cache_capacity(128);
    // The planner must not look at values: SQLite would prepare a statement again whenever one is
    // bound that may matter for its plan, which takes longer than most queries.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Readers never wait for the writer, and a commit is one fsync.
    let mode = wal(conn).map_err(|source| refused(path, source))?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(unusable(
            path,
            format!("journal mode is {mode}; WAL needs a local file system"),
            None,
        ));
    }
    // A committed rejection survives a power cut.
    conn.pragma_update(None, "synchronous", "full")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    if cfg!(target_os = "macos") {
        conn.pragma_update(None, "fullfsync", true)?;
    }
    Ok(())
}

/// Switches to WAL mode, with retries. Changing the mode does not use the busy handler: many
/// processes that create the same blackboard would otherwise fail with "locked".
fn wal(conn: &rusqlite::Connection) -> sql::Result<String> {
    let mut tries = 0;
    loop {
        let mode = conn
            .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))
            .map_err(sql::Error::from);
        let is_busy = mode
            .as_ref()
            .is_err_and(|error| error.class() == Class::Busy);
        if !is_busy || !wait_briefly(tries) {
            return mode;
        }
        tries += 1;
    }
}

/// Waits for a lock. SQLite's own handler backs off to 100 ms, which starves a command beside a
/// busy daemon; this one retries often enough to use the pauses of the daemon.
#[expect(
    clippy::disallowed_methods,
    reason = "called by SQLite on a thread that has nothing else to do"
)]
fn wait_briefly(tries: i32) -> bool {
    std::thread::sleep(Duration::from_millis(1));
    Duration::from_millis(u64::try_from(tries).unwrap_or_default()) < PATIENCE
}

/// Converts an error of SQLite about a file to one that explains what to do.
pub(crate) fn refused(path: &Path, source: impl Into<sql::Error>) -> BoardError {
    let source = source.into();
    let problem = match source.sqlite_code().map(|error| error.code) {
        Some(ErrorCode::NotADatabase) => "not a SQLite database",
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            "cannot be written: the file or its directory is read-only"
        }
        Some(ErrorCode::CannotOpen) => "cannot be opened",
        Some(ErrorCode::DatabaseCorrupt) => {
            "the database is damaged; restore a backup (sqlite3's .recover may recover more data)"
        }
        _ => return source.into(),
    };
    unusable(path, problem.into(), Some(source))
}

pub(crate) fn unusable(path: &Path, problem: String, source: Option<sql::Error>) -> BoardError {
    BoardError::Unusable {
        path: path.to_owned(),
        problem,
        source,
    }
}
