//! Files that are not a blackboard get a clear error, and are left unchanged.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use crate::blackboard::conformance::engine;
use crate::blackboard::connection::migrate;
use crate::blackboard::connection::open;
use crate::blackboard::{BoardError, Db, SyncDb};
use crate::clock::Time;

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blackboard.db");
    (folder, path)
}

fn refused(path: &Path) -> BoardError {
    let board = SyncDb::open(path, Time::from_millis(0))
        .err()
        .expect("this is no blackboard");
    assert!(Db::open(path, Time::from_millis(0)).is_err());
    board
}

fn foreign(path: &Path, sql: &str) {
    engine::bare(path).execute_batch(sql).unwrap();
}

#[test]
fn a_file_of_text_is_refused_and_left_alone() {
    for text in ["hello", &"to do: buy milk\n".repeat(1_000)] {
        let (_folder, path) = folder();
        std::fs::write(&path, text).unwrap();
        let error = refused(&path);
        assert!(
            error
                .to_string()
                .ends_with("blackboard.db: not a SQLite database"),
            "{error}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn an_empty_file_becomes_a_blackboard() {
    let (_folder, path) = folder();
    std::fs::write(&path, "").unwrap();
    SyncDb::open(&path, Time::from_millis(0)).unwrap();
}

#[test]
fn a_folder_is_refused() {
    let (_folder, path) = folder();
    std::fs::create_dir(&path).unwrap();
    assert!(refused(&path).to_string().ends_with("is a directory"));
    assert!(path.is_dir());
}

#[test]
fn a_path_through_a_file_is_refused() {
    let (_folder, path) = folder();
    std::fs::write(&path, "hello").unwrap();
    let error = refused(&path.join("blackboard.db"));
    assert!(
        error.to_string().contains("cannot create its directory"),
        "{error}"
    );
}

#[test]
fn a_read_only_file_is_refused() {
    let (_folder, path) = folder();
    drop(SyncDb::open(&path, Time::from_millis(0)).unwrap());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    if std::fs::OpenOptions::new().write(true).open(&path).is_ok() {
        return; // nothing is read-only for root
    }
    assert!(refused(&path).to_string().contains("read-only"));
}

#[test]
fn a_foreign_database_was_switched_to_wal_before_it_was_refused() {
    let makers = [
        "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1);",
        "PRAGMA application_id = 7; CREATE TABLE theirs (x);",
        "PRAGMA user_version = 3;",
    ];
    for sql in makers {
        let (folder, path) = folder();
        foreign(&path, sql);
        let before = std::fs::read(&path).unwrap();
        let error = refused(&path);
        assert!(matches!(error, BoardError::Foreign { .. }), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before, "{sql}");
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            1,
            "and no other file is created"
        );
    }
}

#[test]
fn a_newer_blackboard_is_refused_and_left_alone() {
    let (_folder, path) = folder();
    drop(SyncDb::open(&path, Time::from_millis(0)).unwrap());
    foreign(&path, "PRAGMA user_version = 99");
    let before = std::fs::read(&path).unwrap();
    let error = refused(&path);
    assert!(
        matches!(
            error,
            BoardError::Newer {
                found: 99,
                known: migrate::NEWEST,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_blackboard_cut_short_is_an_error_and_never_an_empty_one() {
    let (_folder, path) = folder();
    drop(SyncDb::open(&path, Time::from_millis(0)).unwrap());
    let whole = std::fs::read(&path).unwrap();
    for length in [100, 4_096, 5_000, whole.len() / 2, whole.len() - 4_096] {
        std::fs::write(&path, &whole[..length]).unwrap();
        if let Ok(mut board) = SyncDb::open(&path, Time::from_millis(0)) {
            let looked = board.read(crate::blackboard::check);
            assert!(
                looked.is_err() || looked.is_ok_and(|found| !found.is_empty()),
                "{length} bytes of {}",
                whole.len()
            );
        }
    }
}

#[test]
fn a_new_blackboard_is_its_owners_alone() {
    let (folder, _) = folder();
    let path = folder.path().join("state/remand/blackboard.db");
    let mut board = SyncDb::open(&path, Time::from_millis(0)).unwrap();
    board
        .write("touch", |conn| {
            conn.execute_batch("INSERT INTO counters VALUES ('x', 1)")
        })
        .unwrap();
    for name in ["blackboard.db", "blackboard.db-wal", "blackboard.db-shm"] {
        let mode = std::fs::metadata(path.with_file_name(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    for made in [
        path.parent().unwrap(),
        path.parent().unwrap().parent().unwrap(),
    ] {
        assert_eq!(
            std::fs::metadata(made).unwrap().permissions().mode() & 0o777,
            0o700,
            "{}",
            made.display()
        );
    }
}

#[test]
fn many_who_make_the_same_blackboard_at_once_all_get_it() {
    for _ in 0..5 {
        let (_folder, path) = folder();
        let ready = Barrier::new(6);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    ready.wait();
                    let board = SyncDb::open(&path, Time::from_millis(0));
                    assert!(board.is_ok(), "{:?}", board.err());
                });
            }
        });
        let conn = open::reader(&path).unwrap();
        let made: i64 = conn
            .one("SELECT count(*) FROM migrations", &[], |row| row.get(0))
            .unwrap();
        assert_eq!(made, 1);
    }
}
