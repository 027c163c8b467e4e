//! Tests that `check` reports exactly what is wrong.

use crate::blackboard::conformance::story::Story;
use crate::blackboard::connection::open;
use crate::blackboard::{self as bb, Conn};
use crate::clock::Time;

/// Opens the blackboard without its constraints.
fn lawless(story: &Story) -> Conn {
    let conn = open::writer(&story.engine.path(), Time::from_millis(0)).unwrap();
    conn.execute_batch(
        "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; PRAGMA legacy_alter_table = ON",
    )
    .unwrap();
    conn
}

fn found_after(story: &mut Story, sql: &str) -> Vec<String> {
    story.check();
    lawless(story).execute_batch(sql).unwrap();
    let conn = open::writer(&story.engine.path(), Time::from_millis(0)).unwrap();
    let newest = bb::newest_event(&conn).unwrap();
    let told = bb::check(&conn)
        .unwrap()
        .into_iter()
        .map(|found| format!("{}: {}", found.invariant, found.what));
    told.map(|text| text.replace(&format!("event {newest}"), "event NEWEST"))
        .collect()
}

/// Creates c1 in refining: w1 reviewed it, w2 is claimed with run r2 and rejection j1.
fn refining() -> Story {
    let mut story = Story::begin();
    story.change_with_fix();
    let claimed = story.claim();
    story.run(&claimed);
    story
}

/// Creates c1 waiting for a person: j1 was fixed by w2, j2 is escalated.
fn escalated() -> Story {
    let mut story = Story::begin();
    story.change_at_its_bound();
    story
}

/// Creates c1 waiting for its review w1.
fn waiting() -> Story {
    let mut story = Story::begin();
    story.change();
    story
}

const NEW_ITEM: &str = "INSERT INTO work_items (item_id, project_id, change_id, title, source, idempotency_key, created_at, worktree, status, claimed_by, lease_expires_at)
    VALUES ('w98', 'shop', 'c1', 'x', 'manual', 'k98', '2026-11-16T08:00:00.000Z',";

#[test]
fn a_healthy_blackboard_has_nothing_to_say() {
    for mut story in [refining(), escalated(), waiting()] {
        story.check();
    }
}

#[test]
fn each_thing_that_must_not_be_is_named() {
    type Case = (fn() -> Story, String, &'static [&'static str]);
    let moved = |metadata: &str| {
        format!(
            "INSERT INTO events (event_type, target_type, target_id, change_id, summary, metadata)
             VALUES ('state_changed', 'change', 'c1', 'c1', 'x', '{metadata}')"
        )
    };
    let cases: [Case; 17] = [
        (waiting, "UPDATE changes SET holds = -1".into(), &["I12: CHECK constraint failed in changes"]),
        (
            waiting,
            "INSERT INTO events (event_type, target_type, target_id, change_id, summary) VALUES ('skipped', 'change', 'c9', 'c9', 'x')".into(),
            &["I12: a row of events references a missing row of changes"],
        ),
        (
            escalated,
            "INSERT INTO events (event_type, target_type, target_id, summary) VALUES ('work_rejected', 'change', 'c1', 'x');
             UPDATE evaluators SET cursor = 999".into(),
            &["I1: event NEWEST (work_rejected) became neither a rejection nor a skipped event"],
        ),
        (refining, "UPDATE rejections SET state = 'fixed'".into(), &["I1: j1 is fixed, but its fix w2 is claimed"]),
        (
            escalated,
            "UPDATE rejections SET state = 'in_fix' WHERE rejection_id = 'j1'".into(),
            &["I1: j1 is in_fix, but its fix w2 is completed", "I1: j1 is in_fix, but c1 is escalated"],
        ),
        (
            escalated,
            "UPDATE rejections SET state = 'pending' WHERE rejection_id = 'j2'".into(),
            &["I1: j2 is pending, but c1 is escalated"],
        ),
        (
            refining,
            "DROP INDEX items_one_fix_per_rejection;
             INSERT INTO work_items (item_id, project_id, change_id, rejection_id, title, source, status, idempotency_key, worktree, created_at, completed_at)
             VALUES ('w99', 'shop', 'c1', 'j1', 'x', 'review_fix', 'cancelled', 'k99', '/x', '2026-11-16T08:00:00.000Z', '2026-11-16T08:00:00.000Z')".into(),
            &["I2: rejection j1 has 2 fixes"],
        ),
        (
            refining,
            format!("DROP INDEX items_one_claimed_per_worktree; {NEW_ITEM} '/home/ann/trees/retry-1', 'claimed', 'x', '2026-11-16T08:00:00.000Z')"),
            &["I2: worktree /home/ann/trees/retry-1 has 2 claimed items"],
        ),
        (
            waiting,
            "UPDATE changes SET fix_cycle = 3".into(),
            &["I12: CHECK constraint failed in changes", "I3: c1 had 0 of 8 fixes, 3 of 2 in this round"],
        ),
        (waiting, "UPDATE changes SET total_fixes = 1".into(), &["I3: c1 counts 1 fixes, but 0 were completed"]),
        (
            escalated,
            format!("{NEW_ITEM} NULL, 'available', NULL, NULL)"),
            &["I7: c1 is escalated with manual w98 still available"],
        ),
        (
            waiting,
            "UPDATE work_items SET status = 'cancelled', completed_at = '2026-11-16T08:00:00.000Z'".into(),
            &["I7: c1 is pending_self_review, but it has no open item to continue with"],
        ),
        (refining, "UPDATE runs SET epoch = 9 WHERE run_id = 'r2'".into(), &["I8: r2 has epoch 9, but w2 never had it"]),
        (
            refining,
            "ALTER TABLE reviews RENAME TO reviews_old;
             CREATE TABLE reviews AS SELECT * FROM reviews_old;
             CREATE UNIQUE INDEX reviews_ids ON reviews (review_id);
             CREATE TEMP TABLE twin AS SELECT * FROM reviews;
             UPDATE twin SET review_id = 'v9';
             INSERT INTO reviews SELECT * FROM twin".into(),
            &["I8: w1 has 2 reviews"],
        ),
        (
            refining,
            moved(r#"{"from": "refining", "to": "approved", "on": "fix_finished"}"#),
            &[
                "I7: event NEWEST: invalid transition of c1 from refining to approved",
                "I7: c1 is refining, but its events lead to approved",
            ],
        ),
        (refining, moved("{}"), &["I7: event NEWEST has no target state"]),
        (refining, "UPDATE changes SET state = 'approved'".into(), &["I7: c1 is approved, but its events lead to refining"]),
    ];
    for (story, sql, expected) in cases {
        assert_eq!(found_after(&mut story(), &sql), expected, "{sql}");
    }
}

#[test]
fn a_rejected_change_that_nothing_will_fix_is_named() {
    let mut story = Story::begin();
    story.change();
    story.review(crate::finding::Verdict::ChangesRequested, &[]);
    story.check();
    story
        .engine
        .write(|conn| bb::set_cursor(conn, "review_feedback", 999, None, Time::from_millis(0)))
        .unwrap();
    let conn = lawless(&story);
    conn.execute_batch("UPDATE rejections SET state = 'skipped', reason = 'x'")
        .unwrap();
    let found: Vec<String> = bb::check(&conn)
        .unwrap()
        .into_iter()
        .map(|found| found.what)
        .collect();
    assert_eq!(
        found,
        ["c1 is self_review_failed, but it has no pending rejection"]
    );
}

#[test]
fn two_claimed_items_without_a_worktree_made_the_check_itself_fail() {
    let mut story = waiting();
    let claimed = format!("{NEW_ITEM} NULL, 'claimed', 'x', '2026-11-16T08:00:00.000Z');");
    let twice = format!(
        "{claimed}{}",
        claimed.replace("w98", "w99").replace("k98", "k99")
    );
    assert_eq!(found_after(&mut story, &twice), [] as [String; 0]);
}
