//! Tests for the two threads behind the handle: many writers share a commit, and none affects
//! another.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use crate::blackboard::connection::open;
use crate::blackboard::{self as bb, BoardError, Conn, Db, SyncDb};
use crate::clock::Time;
use crate::event::{EventType, NewEvent, TargetType};

fn db() -> (tempfile::TempDir, Db) {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(&folder.path().join("blackboard.db"), Time::from_millis(0)).unwrap();
    (folder, db)
}

fn append(conn: &Conn) -> bb::Result<i64> {
    append_long(conn, 10)
}

fn append_long(conn: &Conn, length: usize) -> bb::Result<i64> {
    let event = NewEvent {
        event_type: EventType::Skipped,
        actor: "tester".into(),
        target_type: TargetType::Blackboard,
        target_id: "x".into(),
        change_id: None,
        summary: "x".repeat(length),
        metadata: json!({}),
    };
    bb::append(conn, &event, Time::from_millis(0))
}

async fn count(db: &Db) -> i64 {
    db.read(|conn| conn.one("SELECT count(*) FROM events", &[], |row| row.get(0)))
        .await
        .unwrap()
}

/// Keeps the writer busy until `release` is dropped, so that everything sent meanwhile is one
/// batch.
async fn stall(db: &Db) -> (std::sync::mpsc::Sender<()>, tokio::task::JoinHandle<()>) {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let stalled = db.clone();
    #[expect(clippy::disallowed_methods, reason = "a test waits for it")]
    let task = tokio::spawn(async move {
        let step = move |_: &Conn| {
            begun.send(()).unwrap();
            // Returns an error when the sender is dropped, which ends the wait.
            released.recv().unwrap_or_default();
            Ok(())
        };
        stalled.write("stall", step).await.unwrap();
    });
    has_begun.await.unwrap();
    (release, task)
}

fn queued(db: &Db) -> usize {
    db.steps.max_capacity() - db.steps.capacity()
}

/// True if this process has the file open.
fn is_open(path: &Path) -> bool {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .any(|target| target == path)
}

async fn wait_until(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "waited in vain");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_who_append_at_once_share_their_commits() {
    let (_folder, db) = db();
    let before = wal_commits(&db);
    let mut tasks = JoinSet::new();
    for _ in 0..16 {
        let db = db.clone();
        tasks.spawn(async move {
            for _ in 0..50 {
                db.write("append", append).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(count(&db).await, 800);
    let made = wal_commits(&db) - before;
    assert!(made > 0 && made < 400, "{made} commits for 800 appends");
}

/// Counts the frames in the WAL that end a transaction: their second word is not zero. Valid until
/// a checkpoint.
fn wal_commits(db: &Db) -> usize {
    let bytes = std::fs::read(db.path().with_file_name("blackboard.db-wal")).unwrap();
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let frame = 24 + usize::try_from(word(8)).unwrap();
    (32..bytes.len())
        .step_by(frame)
        .filter(|at| at + frame <= bytes.len() && word(at + 4) != 0)
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_batch_is_one_commit_and_each_step_keeps_or_loses_its_own() {
    let (_folder, db) = db();
    let (release, stalled) = stall(&db).await;
    let mut good = JoinSet::new();
    let mut bad = JoinSet::new();
    for n in 0..20 {
        let (to_good, to_bad) = (db.clone(), db.clone());
        good.spawn(async move { to_good.write("good", append).await });
        bad.spawn(async move {
            to_bad
                .write("bad", move |conn| {
                    append(conn)?;
                    assert_ne!(n % 2, 0, "a step may panic");
                    Err::<(), _>(BoardError::NotFound {
                        kind: "thing",
                        id: n.to_string(),
                    })
                })
                .await
        });
    }
    wait_until(|| queued(&db) == 40).await;
    let before = wal_commits(&db);
    drop(release);
    for result in good.join_all().await {
        result.unwrap();
    }
    for result in bad.join_all().await {
        assert!(
            matches!(
                result,
                Err(BoardError::NotFound { .. } | BoardError::Panicked)
            ),
            "{result:?}"
        );
    }
    stalled.await.unwrap();
    assert_eq!(wal_commits(&db) - before, 1);
    assert_eq!(count(&db).await, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_fails_is_told_to_all_who_were_in_it() {
    let (_folder, db) = db();
    let (release, stalled) = stall(&db).await;
    let mut tasks = JoinSet::new();
    for n in 0..4 {
        let db = db.clone();
        tasks.spawn(async move {
            db.write("append", move |conn| {
                if n == 2 {
                    // Checked by COMMIT, not by the statement.
                    conn.execute_batch(
                        "PRAGMA defer_foreign_keys = ON;
                         INSERT INTO events (event_type, target_type, target_id, summary, change_id)
                         VALUES ('skipped', 'change', 'c99', 'x', 'c99')",
                    )?;
                }
                append(conn)
            })
            .await
        });
    }
    wait_until(|| queued(&db) == 4).await;
    drop(release);
    for result in tasks.join_all().await {
        let error = result.unwrap_err();
        assert!(
            matches!(&error, BoardError::Batch(why) if why.contains("FOREIGN KEY")),
            "{error:?}"
        );
    }
    stalled.await.unwrap();
    assert_eq!(count(&db).await, 0);
    db.write("append", append).await.unwrap();
    assert_eq!(count(&db).await, 1, "and the thread continues");
}

async fn limit_pages(db: &Db, pages: i64) {
    let limit = move |conn: &Conn| {
        Ok(conn
            .sqlite()
            .pragma_update_and_check(None, "max_page_count", pages, |row| row.get(0))?)
    };
    let limit: i64 = db.write("limit", limit).await.unwrap();
    assert_eq!(limit, pages);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_told_as_such_to_all_and_passes() {
    let (_folder, db) = db();
    db.write("append", append).await.unwrap();
    let pages: i64 = db
        .read(|conn| {
            Ok(conn
                .sqlite()
                .pragma_query_value(None, "page_count", |row| row.get(0))?)
        })
        .await
        .unwrap();
    limit_pages(&db, pages + 2).await;
    let (release, stalled) = stall(&db).await;
    let mut tasks = JoinSet::new();
    for n in 0..4 {
        let db = db.clone();
        tasks.spawn(async move {
            db.write("append", move |conn| {
                append_long(conn, if n == 2 { 1_000_000 } else { 10 })
            })
            .await
        });
    }
    wait_until(|| queued(&db) == 4).await;
    drop(release);
    let results = tasks.join_all().await;
    stalled.await.unwrap();
    let kept = results.iter().filter(|result| result.is_ok()).count();
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(error, BoardError::Full(_)), "{error:?}");
    }
    assert!(kept < 4);
    assert_eq!(
        usize::try_from(count(&db).await).unwrap(),
        1 + kept,
        "exactly the confirmed writes are there"
    );
    limit_pages(&db, 100_000).await;
    db.write("append", |conn| append_long(conn, 1_000_000))
        .await
        .unwrap();
    assert_eq!(db.read(bb::check).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_another_program_is_waited_for() {
    let (_folder, db) = db();
    let other = open::writer(db.path(), Time::from_millis(0)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (mut one, mut two) = (
        Box::pin(db.write("append", append)),
        Box::pin(db.write("append", append)),
    );
    let early = tokio::time::timeout(Duration::from_millis(50), async {
        tokio::join!(&mut one, &mut two)
    })
    .await;
    assert!(
        early.is_err(),
        "nothing is written during the other transaction"
    );
    assert_eq!(count(&db).await, 0, "and readers do not wait");
    other.execute_batch("COMMIT").unwrap();
    let (one, two) = tokio::join!(one, two);
    one.unwrap();
    two.unwrap();
    assert_eq!(count(&db).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_lasts_is_told_as_busy() {
    let (_folder, db) = db();
    db.write("patience", |conn| {
        Ok(conn.sqlite().busy_timeout(Duration::from_millis(20))?)
    })
    .await
    .unwrap();
    let other = open::writer(db.path(), Time::from_millis(0)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = db.write("append", append).await.unwrap_err();
    assert!(matches!(error, BoardError::Busy(_)), "{error:?}");
    other.execute_batch("COMMIT").unwrap();
    db.write("append", append).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_full_was_told_as_a_door_that_is_gone() {
    let (_folder, db) = db();
    let (release, stalled) = stall(&db).await;
    let mut tasks = JoinSet::new();
    for _ in 0..1_000 {
        let (writes, reads) = (db.clone(), db.clone());
        tasks.spawn(async move { writes.write("append", append).await.map(drop) });
        tasks.spawn(async move { reads.read(bb::newest_event).await.map(drop) });
    }
    drop(release);
    for result in tasks.join_all().await {
        result.unwrap();
    }
    stalled.await.unwrap();
    assert_eq!(count(&db).await, 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_sees_what_was_answered_and_writes_nothing() {
    let (_folder, db) = db();
    for n in 1..=20 {
        let id = db.write("append", append).await.unwrap();
        assert_eq!(db.read(bb::newest_event).await.unwrap(), id);
        assert_eq!(count(&db).await, n);
    }
    let error = db.read(append).await.unwrap_err();
    assert!(matches!(error, BoardError::Sqlite(_)), "{error:?}");
    let panicked = db
        .read(|_| -> bb::Result<()> { panic!("a look may panic") })
        .await;
    assert!(panicked.is_err());
    assert_eq!(count(&db).await, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_data_version_moves_with_any_commit_and_only_then() {
    let (_folder, db) = db();
    let first = db.data_version().await.unwrap();
    assert_eq!(db.data_version().await.unwrap(), first);
    db.write("append", append).await.unwrap();
    let ours = db.data_version().await.unwrap();
    assert_ne!(ours, first);
    let mut other = SyncDb::open(db.path(), Time::from_millis(0)).unwrap();
    assert_eq!(
        db.data_version().await.unwrap(),
        ours,
        "opening writes nothing"
    );
    other.write("append", append).unwrap();
    assert_ne!(db.data_version().await.unwrap(), ours);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_threads_end_with_the_last_handle() {
    let (_folder, db) = db();
    let second = db.clone();
    drop(db);
    second.write("append", append).await.unwrap();
    let path = second.path().to_owned();
    assert!(is_open(&path));
    drop(second);
    // The absence of the log would prove nothing: of two connections that close simultaneously,
    // neither may remove it.
    wait_until(|| !is_open(&path)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_beside_a_busy_daemon_gets_its_turn() {
    let (_folder, db) = db();
    let stop = Arc::new(AtomicBool::new(false));
    let written = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (db, stop, written) = (db.clone(), Arc::clone(&stop), Arc::clone(&written));
        tasks.spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                db.write("append", append).await.unwrap();
                written.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    let (path, seen) = (db.path().to_owned(), Arc::clone(&written));
    let overtaken = tokio::task::spawn_blocking(move || beside(&path, &seen))
        .await
        .unwrap();
    stop.store(true, Ordering::SeqCst);
    tasks.join_all().await;
    let written = written.load(Ordering::SeqCst);
    assert_eq!(
        usize::try_from(count(&db).await).unwrap(),
        written + overtaken.len()
    );
    let worst = overtaken.iter().max().unwrap();
    assert!(
        *worst < 1_000,
        "a command was overtaken by {worst} appends; in all there were {written}: {overtaken:?}"
    );
}

/// Appends at intervals while the daemon is writing. Returns the number of the daemon's appends
/// that each one had to wait for.
fn beside(path: &Path, written: &AtomicUsize) -> Vec<usize> {
    let mut board = SyncDb::open(path, Time::from_millis(0)).unwrap();
    let mut overtaken: Vec<usize> = (0..20)
        .map(|_| {
            let before = written.load(Ordering::SeqCst);
            while written.load(Ordering::SeqCst) < before + 40 {
                std::thread::yield_now();
            }
            let before = written.load(Ordering::SeqCst);
            board.write("append", append).unwrap();
            written.load(Ordering::SeqCst) - before
        })
        .collect();
    overtaken.sort_unstable();
    overtaken
}
