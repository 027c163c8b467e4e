//! Power cuts: whatever was on the disk at that moment opens, and is a committed state.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::blackboard::conformance::story::{Story, finding};
use crate::blackboard::connection::open;
use crate::blackboard::{self as bb, Conn};
use crate::clock::Time;
use crate::finding::Verdict;

/// Pseudo-random numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }
}

/// Takes a change through two fixes to its end, whichever that is.
fn live_a_life(story: &mut Story, n: usize) {
    let change = story.change_with_fix();
    story.fix();
    if n.is_multiple_of(3) {
        let claimed = story.claim();
        story.fail(&claimed.claim());
        story
            .step(|conn, now| bb::retry(conn, &change.change_id, "ann", now))
            .unwrap();
    }
    story.review(Verdict::ChangesRequested, &[finding("b.rs", "still")]);
    story.beat();
    story.fix();
    story.review(
        if n.is_multiple_of(2) {
            Verdict::Approved
        } else {
            Verdict::ChangesRequested
        },
        &[],
    );
    story.beat();
}

/// Opens what is left after the power cut.
fn opened(path: &Path) -> Conn {
    let conn = open::writer(path, Time::from_millis(0)).unwrap();
    assert_eq!(bb::check(&conn).unwrap(), []);
    conn
}

fn events(conn: &Conn) -> i64 {
    let (count, newest): (i64, i64) = conn
        .one(
            "SELECT count(*), coalesce(max(id), 0) FROM events",
            &[],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    assert_eq!(count, newest, "events 1 to {newest} and no hole");
    count
}

#[test]
fn a_copy_at_any_moment_is_a_state_that_was_committed() {
    let mut story = Story::begin();
    let path = story.engine.path();
    let copies = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut lives = 0;
            while copies.load(Ordering::SeqCst) < 50 {
                // Not far ahead, or the copies would grow indefinitely.
                if lives <= copies.load(Ordering::SeqCst) {
                    live_a_life(&mut story, lives);
                    lives += 1;
                }
            }
        });
        let mut seen = 0;
        for _ in 0..50 {
            let copy = tempfile::tempdir().unwrap();
            let to = copy.path().join("blackboard.db");
            // An open read keeps the log from being restarted, so that the file and then the log
            // are what a disk could have held at one moment.
            let keeper = open::reader(&path).unwrap();
            keeper
                .execute_batch("BEGIN; SELECT count(*) FROM counters")
                .unwrap();
            std::fs::copy(&path, &to).unwrap();
            std::fs::copy(
                path.with_file_name("blackboard.db-wal"),
                to.with_file_name("blackboard.db-wal"),
            )
            .unwrap();
            drop(keeper);
            let now = events(&opened(&to));
            assert!(now >= seen, "nothing that was there is lost");
            seen = now;
            copies.fetch_add(1, Ordering::SeqCst);
        }
        assert!(seen > 0);
    });
}

#[test]
fn a_log_cut_or_spoilt_anywhere_leaves_a_state_that_was_committed() {
    let mut story = Story::begin();
    story
        .engine
        .write(|conn| {
            Ok(conn
                .sqlite()
                .pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?)
        })
        .unwrap();
    for n in 0..3 {
        live_a_life(&mut story, n);
    }
    let path = story.engine.path();
    let (file, log) = (
        std::fs::read(&path).unwrap(),
        std::fs::read(path.with_file_name("blackboard.db-wal")).unwrap(),
    );
    let whole = events(&open::reader(&path).unwrap());
    let mut dice = Dice(11);
    let mut seen = std::collections::BTreeMap::new();
    for n in 0..140 {
        let copy = tempfile::tempdir().unwrap();
        let to = copy.path().join("blackboard.db");
        let at = dice.below(log.len());
        let mut log = log.clone();
        if n < 100 {
            log.truncate(at);
        } else {
            log[at] ^= 0x40;
        }
        std::fs::write(&to, &file).unwrap();
        std::fs::write(to.with_file_name("blackboard.db-wal"), &log).unwrap();
        let found = events(&opened(&to));
        assert!(found <= whole);
        seen.insert(at, found);
    }
    assert!(
        seen.values().is_sorted(),
        "the more of the log is left, the more is there"
    );
    assert!(seen.values().any(|found| *found > whole / 2));
}
