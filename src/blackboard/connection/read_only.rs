//! Access to the blackboard without leaving a trace: nothing is created, migrated or moved out of
//! its log.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{ErrorCode, OpenFlags};

use super::migrate;
use super::open::{absolute, connect, migrated_copy, refused};
use crate::blackboard::Result;
use crate::blackboard::sql::{Begin, Connection};
use crate::clock::Time;

pub(crate) struct ReadOnlyDb {
    path: PathBuf,
    conn: Connection,
    /// Migrated copy of a blackboard from an older version: queries require the newest schema.
    migrated: Option<Connection>,
}

/// Result of a check with a time limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Quick {
    Whole,
    /// The first error that was found.
    Damaged(String),
    NotInTime,
}

/// Number of SQLite virtual machine steps between two checks of the time: some milliseconds.
const STEPS: i32 = 100_000;

impl ReadOnlyDb {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut wal = path.as_os_str().to_owned();
        wal.push("-wal");
        let conn = if PathBuf::from(wal).exists() {
            beside_others(path)?
        } else {
            alone(path)?
        };
        migrate::identify(path, &conn)?;
        Ok(Self {
            path: path.to_owned(),
            conn,
            migrated: None,
        })
    }

    /// Returns the connection, for a caller that copies the whole blackboard.
    pub(crate) fn into_connection(self) -> Connection {
        self.conn
    }

    /// Runs a query on one consistent view.
    pub(crate) fn read<T>(&mut self, look: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        if self.migrated.is_none() && migrate::is_older(&self.conn)? {
            let copy = migrated_copy(&self.path, &self.conn, Time::from_millis(0))?;
            self.migrated = Some(copy);
        }
        let tx = self
            .migrated
            .as_mut()
            .unwrap_or(&mut self.conn)
            .begin(Begin::Read)?;
        let value = look(&tx)?;
        tx.roll_back()?;
        Ok(value)
    }

    /// Checks the integrity of the file, as far as possible within `limit`.
    pub(crate) fn quick_check(&mut self, limit: Duration) -> Result<Quick> {
        let started = Instant::now();
        let sqlite = self.conn.sqlite_mut();
        sqlite.progress_handler(STEPS, Some(move || started.elapsed() > limit))?;
        let report = sqlite.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
        match report {
            Ok(report) if report == "ok" => Ok(Quick::Whole),
            Ok(report) => Ok(Quick::Damaged(report.lines().collect::<Vec<_>>().join(" "))),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
                Ok(Quick::NotInTime)
            }
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
                Ok(Quick::Damaged(error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Opens a blackboard without a log, which nobody else has open: SQLite is told that the file is
/// immutable, and creates no log.
fn alone(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    connect(
        path,
        Path::new(&format!("file:{}?immutable=1", encoded(&absolute(path)?))),
        flags,
    )
}

/// Opens a blackboard alongside a daemon, or with the log of one that died. The log is read, and left
/// as it is.
fn beside_others(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = connect(path, &absolute(path)?, flags)?;
    let kept = conn
        .sqlite()
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .and_then(|_| conn.sqlite().pragma_update(None, "query_only", true));
    kept.map_err(|source| refused(path, source))?;
    Ok(conn)
}

/// Encodes a path for a URI.
fn encoded(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes
        .iter()
        .map(|byte| {
            if plain(*byte) {
                char::from(*byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}
