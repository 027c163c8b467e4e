//! Schema migrations.
//!
//! A new blackboard gets `schema.sql`; an older one gets the numbered steps after its own version.
//! Each step is one transaction together with its number, so that a kill between two leaves a
//! version that exists.

use std::path::Path;

use super::open::{APPLICATION_ID, refused, unusable};
use crate::blackboard::sql::{Begin, Connection, params};
use crate::blackboard::{BoardError, Result};
use crate::clock::Time;
use crate::failpoint::crash_point;

const SCHEMA: &str = include_str!("../../../schema.sql");

/// Migration from the preceding version.
pub(crate) struct Migration {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// Version that `schema.sql` describes: that of the last step.
pub(crate) const NEWEST: i64 = 6;

const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 2,
        name: "confined git and exact gates",
        sql: include_str!("../migrations/2.sql"),
    },
    Migration {
        version: 3,
        name: "commands of a decision",
        sql: include_str!("../migrations/3.sql"),
    },
    Migration {
        version: 4,
        name: "removed projects",
        sql: include_str!("../migrations/4.sql"),
    },
    Migration {
        version: 5,
        name: "explaining events and pruned changes",
        sql: include_str!("../migrations/5.sql"),
    },
    Migration {
        version: 6,
        name: "tasks",
        sql: include_str!("../migrations/6.sql"),
    },
];

pub(crate) fn to_newest(path: &Path, conn: &mut Connection, now: Time) -> Result<()> {
    migrate(
        path,
        conn,
        now,
        &Plan {
            schema: SCHEMA,
            newest: NEWEST,
            steps: MIGRATIONS,
        },
    )
}

/// Refuses files that are not a blackboard, or not of a version known to this program, before
/// changing anything.
pub(crate) fn recognise(path: &Path, conn: &Connection) -> Result<()> {
    if conn.sqlite().is_readonly("main")? {
        return Err(unusable(path, "the file is read-only".into(), None));
    }
    identify(path, conn)
}

/// Like [`recognise`], for a caller that changes nothing.
pub(crate) fn identify(path: &Path, conn: &Connection) -> Result<()> {
    let sqlite = conn.sqlite();
    let look = || -> Result<_, rusqlite::Error> {
        let empty = sqlite.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| {
            row.get(0)
        })?;
        let pragma = |name| sqlite.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        Ok((pragma("application_id")?, pragma("user_version")?, empty))
    };
    match look().map_err(|source| refused(path, source))? {
        (APPLICATION_ID, found, _) if found > NEWEST => Err(BoardError::Newer {
            path: path.to_owned(),
            found,
            known: NEWEST,
        }),
        (APPLICATION_ID, _, _) | (0, 0, true) => Ok(()),
        _ => Err(BoardError::Foreign {
            path: path.to_owned(),
        }),
    }
}

/// Returns true for a blackboard that an older version of remand wrote.
pub(crate) fn is_older(conn: &Connection) -> Result<bool> {
    Ok(application(conn)? == APPLICATION_ID && version(conn)? < NEWEST)
}

pub(crate) struct Plan<'a> {
    pub(crate) schema: &'a str,
    pub(crate) newest: i64,
    pub(crate) steps: &'a [Migration],
}

pub(crate) fn migrate(
    path: &Path,
    conn: &mut Connection,
    now: Time,
    plan: &Plan<'_>,
) -> Result<()> {
    // The common case must not take the write lock.
    if version(conn)? == plan.newest && application(conn)? == APPLICATION_ID {
        return Ok(());
    }
    loop {
        let tx = conn.begin(Begin::Write)?;
        // Checked again under the lock: another process may have been first.
        let found = version(&tx)?;
        match (application(&tx)?, found) {
            (APPLICATION_ID, found) if found > plan.newest => {
                return Err(BoardError::Newer {
                    path: path.to_owned(),
                    found,
                    known: plan.newest,
                });
            }
            (APPLICATION_ID, found) if found == plan.newest => return Ok(()),
            (APPLICATION_ID, found) => {
                let Some(step) = plan.steps.iter().find(|step| step.version == found + 1) else {
                    return Err(unusable(
                        path,
                        format!(
                            "no migration from schema version {found} to {}",
                            plan.newest
                        ),
                        None,
                    ));
                };
                tx.execute_batch(step.sql)?;
                record(&tx, step.version, step.name, now)?;
            }
            (0, 0) if is_empty(&tx)? => {
                tx.execute_batch(plan.schema)?;
                tx.sqlite()
                    .pragma_update(None, "application_id", APPLICATION_ID)?;
                record(&tx, plan.newest, "schema.sql", now)?;
            }
            _ => {
                return Err(BoardError::Foreign {
                    path: path.to_owned(),
                });
            }
        }
        crash_point!("commit.migrate.before");
        tx.commit()?;
        crash_point!("commit.migrate.after");
    }
}

fn record(conn: &Connection, version: i64, name: &str, now: Time) -> Result<()> {
    conn.execute(
        "INSERT INTO migrations (version, name, applied_at) VALUES (:version, :name, :now)",
        params! { version, name, now },
    )?;
    conn.sqlite().pragma_update(None, "user_version", version)?;
    Ok(())
}

pub(super) fn version(conn: &Connection) -> Result<i64> {
    Ok(conn
        .sqlite()
        .pragma_query_value(None, "user_version", |row| row.get(0))?)
}

fn application(conn: &Connection) -> Result<i64> {
    Ok(conn
        .sqlite()
        .pragma_query_value(None, "application_id", |row| row.get(0))?)
}

fn is_empty(conn: &Connection) -> Result<bool> {
    conn.value("SELECT count(*) = 0 FROM sqlite_schema", &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
                       CREATE TABLE migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL) STRICT;";

    const STEPS: &[Migration] = &[
        Migration {
            version: 2,
            name: "notes",
            sql: "ALTER TABLE counters ADD COLUMN note TEXT;",
        },
        Migration {
            version: 3,
            name: "fill",
            sql: "UPDATE counters SET note = 'was ' || value;",
        },
        Migration {
            version: 4,
            name: "broken",
            sql: "CREATE TABLE half (x); SELECT no_such_function();",
        },
    ];

    fn plan(newest: i64) -> Plan<'static> {
        Plan {
            schema: OLD,
            newest,
            steps: STEPS,
        }
    }

    #[expect(clippy::disallowed_methods, reason = "tests how databases are opened")]
    fn fresh() -> (tempfile::TempDir, std::path::PathBuf, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.db");
        let conn = Connection::new(rusqlite::Connection::open(&path).unwrap());
        (folder, path, conn)
    }

    #[test]
    fn old_data_survives_the_steps() {
        let (_folder, path, mut conn) = fresh();
        let now = Time::from_millis(0);
        migrate(&path, &mut conn, now, &plan(1)).unwrap();
        conn.execute("INSERT INTO counters VALUES ('c', 7)", &[])
            .unwrap();
        migrate(&path, &mut conn, now, &plan(3)).unwrap();
        let note: String = conn
            .value("SELECT note FROM counters WHERE name = 'c'", &[])
            .unwrap();
        assert_eq!(note, "was 7");
        let names: String = conn
            .value("SELECT group_concat(version || name) FROM migrations", &[])
            .unwrap();
        assert_eq!(names, "1schema.sql,2notes,3fill");
        migrate(&path, &mut conn, now, &plan(3)).unwrap();
    }

    #[test]
    fn a_step_that_fails_leaves_the_version_before_it() {
        let (_folder, path, mut conn) = fresh();
        let now = Time::from_millis(0);
        migrate(&path, &mut conn, now, &plan(1)).unwrap();
        assert!(migrate(&path, &mut conn, now, &plan(4)).is_err());
        assert_eq!(version(&conn).unwrap(), 3);
        let half: bool = conn
            .value(
                "SELECT count(*) > 0 FROM sqlite_schema WHERE name = :name",
                params! { name: "half" },
            )
            .unwrap();
        assert!(!half, "nothing of the failed step stayed");
    }

    #[test]
    fn a_newer_blackboard_is_refused() {
        let (_folder, path, mut conn) = fresh();
        migrate(&path, &mut conn, Time::from_millis(0), &plan(3)).unwrap();
        let error = migrate(&path, &mut conn, Time::from_millis(0), &plan(1)).unwrap_err();
        assert!(
            matches!(
                error,
                BoardError::Newer {
                    found: 3,
                    known: 1,
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn a_foreign_database_is_left_alone() {
        let (_folder, path, mut conn) = fresh();
        conn.execute_batch("CREATE TABLE somebody_elses (x)")
            .unwrap();
        let error = migrate(&path, &mut conn, Time::from_millis(0), &plan(1)).unwrap_err();
        assert!(matches!(error, BoardError::Foreign { .. }), "{error}");
    }

    /// Blackboards created by version 1 (the first) must open forever: the fixture is a dump of a
    /// real one.
    #[test]
    fn a_blackboard_of_version_1_opens_with_its_data() {
        let (_folder, path, mut conn) = fresh();
        conn.execute_batch(include_str!("../../../tests/fixtures/blackboard-v1.sql"))
            .unwrap();
        to_newest(&path, &mut conn, Time::from_millis(0)).unwrap();
        let (changes, events): (i64, i64) = conn
            .one(
                "SELECT (SELECT count(*) FROM changes), (SELECT count(*) FROM events)",
                &[],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .unwrap();
        assert!(changes > 0 && events > 10);
        assert!(crate::blackboard::check(&conn).unwrap().is_empty());
    }
}
