//! No query of the module scans data that grows forever. Checked by query plan, and by counting
//! SQLite's steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::history::{Past, now};
use super::statements::statements_of_the_room;
use crate::blackboard::conformance::story::{holding, no_round};
use crate::blackboard::{self as bb, Conn};
use crate::change::{ChangeId, ProjectId, State};
use crate::event::{EventType, NewEvent};

/// Tables that never grow large.
const SMALL: &[&str] = &[
    "counters",
    "discoveries",
    "evaluator_troubles",
    "evaluators",
    "git_settings",
    "migrations",
    "projects",
    "pruned_changes",
    "rate",
    "stops",
    "sweeps",
];

/// Indexes of open work, whatever the history: scanning one means scanning only the present work.
const OPEN: &[&str] = &[
    "changes_attached",
    // Those that were not removed yet.
    "changes_ended_worktrees",
    "changes_held",
    "changes_live",
    "changes_shadow",
    "changes_one_live_per_branch",
    "changes_one_live_per_pull",
    "feedback_unjudged",
    "intents_open",
    "intents_open_pushes",
    "pulls_due",
    "pulls_open",
    "pulls_unjudged",
    "changes_one_live_per_worktree",
    "items_claimed",
    "items_delayed",
    "items_open",
    "items_ready",
    "rejections_pending",
    "runs_one_open_per_worktree",
];

/// Queries that a person runs occasionally, and that may take a moment: file, and a part of the
/// text.
const BY_HAND: &[(&str, &str)] = &[
    ("changes.rs", "WHERE change_id = :text OR branch = :text"),
    ("items.rs", ":status IS NULL OR status = :status"),
    (
        "lookup.rs",
        "SELECT change_id, branch, worktree FROM changes",
    ),
    ("board_view.rs", "SELECT * FROM changes ORDER BY"),
    // Counted, and not read.
    (
        "board_view.rs",
        "SELECT state, skip_tests, count(*) FROM changes",
    ),
    (
        "projects.rs",
        "SELECT state, count(*) AS number FROM changes",
    ),
    ("events.rs", "FROM events WHERE timestamp < :moment"),
    ("board_view.rs", "SELECT status, count(*) FROM work_items"),
    ("stops.rs", "UPDATE changes SET stopped = NOT stopped"),
    // At the start of the daemon, or if their directory is gone.
    ("review_files.rs", "PARTITION BY change_id"),
    // Run on a copy that nobody waits for.
    ("backup.rs", "SELECT count(*) FROM events"),
    (
        "prune.rs",
        "SELECT change_id FROM changes WHERE state IN ('merged', 'closed') AND updated_at",
    ),
    (
        "prune.rs",
        "SELECT 1 FROM changes WHERE worktree = :worktree",
    ),
    ("prune.rs", "SELECT DISTINCT sqlite_schema.name"),
    ("shadow_runs.rs", "SELECT p.project_id,"),
    ("spend.rs", "SELECT r.change_id, c.project_id"),
    ("shadow_runs.rs", "UPDATE changes SET shadow = NOT shadow"),
    // From the newest backwards, and no further than the limit.
    (
        "lookup.rs",
        "SELECT * FROM events ORDER BY id DESC LIMIT :limit",
    ),
];

/// SQLite plans to search for rows that wait for this one, but does so only while a key is
/// violated. The steps below show that it does not.
const GUARDED: (&str, &str) = ("reviews.rs", "INSERT INTO reviews");

#[test]
fn no_query_walks_through_the_past() {
    let past = Past::of(10_000).with_one_ready();
    let queries = queries_of_the_room();
    assert!(
        queries.len() > 60,
        "the room has more than {} queries",
        queries.len()
    );
    for name in [
        "claim.rs",
        "rejections.rs",
        "events.rs",
        "hold.rs",
        "board_view.rs",
        "apply_proposal.rs",
    ] {
        assert!(
            queries.iter().any(|(file, _)| file == name),
            "{name} has queries"
        );
    }
    let mut walks = Vec::new();
    for known in ["nothing", "everything"] {
        for (file, sql) in &queries {
            let excused = BY_HAND
                .iter()
                .chain([&GUARDED])
                .any(|(of, part)| of == file && sql.contains(part));
            for step in plan(&past.conn, sql) {
                if !excused && walks_through_the_past(&step) {
                    walks.push(format!(
                        "{file}, knowing {known} of the tables: {step}\n    {sql}"
                    ));
                }
            }
        }
        // A person may have run this; it changes the statistics of the planner.
        past.conn.execute_batch("ANALYZE").unwrap();
    }
    assert!(walks.is_empty(), "{}", walks.join("\n"));
}

fn walks_through_the_past(step: &str) -> bool {
    let Some(scan) = step.strip_prefix("SCAN ") else {
        return step.contains("AUTOMATIC");
    };
    let what = scan.split_whitespace().next().unwrap_or_default();
    // An intermediate result, scanned once; the tables behind it have their own line.
    let of_ours = what.starts_with('(')
        || what == "CONSTANT"
        || what.starts_with("json_")
        || scan.ends_with(" VALUES CLAUSE");
    let open = scan
        .split_once("INDEX ")
        .is_some_and(|(_, index)| OPEN.contains(&index));
    !(of_ours || open || SMALL.contains(&what))
}

fn plan(conn: &Conn, sql: &str) -> Vec<String> {
    let explain = format!("EXPLAIN QUERY PLAN {sql}");
    conn.all(explain.leak(), &[], |row| row.get("detail"))
        .unwrap_or_else(|error| panic!("{error}\n{sql}"))
}

/// Returns the queries of the module, except those of `check` and of migrations, which examine
/// everything.
fn queries_of_the_room() -> Vec<(String, String)> {
    let mut queries = statements_of_the_room();
    queries.retain(|(file, _)| !["invariants.rs", "migrate.rs"].contains(&file.as_str()));
    queries
}

/// Counts the steps of SQLite's virtual machine for one call. Nothing is committed.
fn steps(past: &mut Past, call: impl Fn(&Conn)) -> usize {
    // The first round prepares the statements.
    let mut counted = 0;
    for _ in 0..2 {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        past.conn.execute_batch("SAVEPOINT counted").unwrap();
        past.conn
            .sqlite_mut()
            .progress_handler(
                1,
                Some(move || {
                    counter.fetch_add(1, Ordering::Relaxed);
                    false
                }),
            )
            .unwrap();
        call(&past.conn);
        past.conn
            .sqlite_mut()
            .progress_handler(0, None::<fn() -> bool>)
            .unwrap();
        past.conn
            .execute_batch("ROLLBACK TO counted; RELEASE counted")
            .unwrap();
        counted = count.load(Ordering::Relaxed);
    }
    counted
}

type Call = fn(&Conn);

/// Calls of a tick, of a claim, and of a view.
const CALLS: &[(&str, Call)] = &[
    ("any_event", |conn| {
        let types = [EventType::WorkRejected, EventType::WorkApproved];
        assert!(!bb::any_event(conn, "review_feedback", &types).unwrap());
    }),
    ("any_pending", |conn| {
        for needs_read in [false, true] {
            assert!(!bb::any_pending(conn, State::ALL, needs_read, now()).unwrap());
        }
    }),
    ("needs_read", |conn| {
        assert!(!bb::needs_read(conn, &ChangeId::new("c1")).unwrap());
    }),
    ("any_unjudged", |conn| {
        assert!(!bb::any_unjudged(conn, &bb::LeftUnjudged::new()).unwrap());
    }),
    ("pending_changes", |conn| {
        assert_eq!(bb::pending_changes(conn).unwrap(), []);
    }),
    ("unjudged_as_seen", |conn| {
        assert_eq!(bb::unjudged_as_seen(conn).unwrap(), []);
    }),
    ("take_in", |conn| {
        let cursor = bb::cursor(conn, "review_feedback").unwrap();
        let event = NewEvent {
            metadata: no_round(),
            ..NewEvent::about(&ChangeId::new("c1"), EventType::WorkRejected, "no")
        };
        bb::append(conn, &event, now()).unwrap();
        assert_eq!(
            bb::take_in(conn, &[EventType::WorkRejected], cursor, now())
                .unwrap()
                .1
                .len(),
            1
        );
    }),
    ("newest_event", |conn| {
        assert!(bb::newest_event(conn).unwrap() > 0);
    }),
    ("events_since", |conn| {
        let newest = bb::newest_event(conn).unwrap();
        assert_eq!(bb::events_since(conn, newest - 5, 100).unwrap().len(), 5);
    }),
    ("events_of", |conn| {
        assert!(
            !bb::events_of(conn, &ChangeId::new("c1"), 100)
                .unwrap()
                .is_empty()
        );
    }),
    ("board", |conn| {
        assert_eq!(bb::board(conn, bb::Show::Live, 100).unwrap().len(), 1);
    }),
    ("next_moment", |conn| {
        assert_eq!(bb::next_moment(conn).unwrap(), None);
    }),
    ("resume_due", |conn| {
        assert_eq!(bb::resume_due(conn, now()).unwrap(), []);
    }),
    ("anything_held_is_due", |conn| {
        assert!(!bb::anything_held_is_due(conn, now()).unwrap());
    }),
    ("foreign_claims", |conn| {
        assert_eq!(bb::foreign_claims(conn, "us").unwrap(), []);
    }),
    ("any_unknown_source", |conn| {
        assert!(!bb::any_unknown_source(conn).unwrap());
    }),
    ("anything_ready", |conn| {
        assert!(bb::anything_ready(conn, now()).unwrap());
    }),
    ("our_posts", |conn| {
        assert!(
            bb::our_posts(conn, &ChangeId::new("c1"))
                .unwrap()
                .forge_ids
                .is_empty()
        );
    }),
    ("reviews_on_pull", |conn| {
        assert_eq!(bb::reviews_on_pull(conn, &ChangeId::new("c1")).unwrap(), []);
    }),
    ("spent_since", |conn| {
        assert_eq!(bb::spent_since(conn, now()).unwrap(), 0);
    }),
    ("spent_on_project_since", |conn| {
        assert_eq!(
            bb::spent_on_project_since(conn, &ProjectId::new("calc"), now()).unwrap(),
            0
        );
    }),
    ("ripen", |conn| {
        assert_eq!(bb::ripen(conn, now()).unwrap(), 0);
    }),
    ("claim", |conn| {
        assert!(bb::claim(conn, &holding("us"), now()).unwrap().is_some());
    }),
    ("claim and finish", |conn| {
        let claimed = bb::claim(conn, &holding("us"), now()).unwrap().unwrap();
        let done = crate::blackboard::conformance::story::review_done(
            "x",
            crate::finding::Verdict::Approved,
            &[],
        );
        bb::finish_review(conn, &claimed.claim(), &done, now()).unwrap();
    }),
];

#[test]
fn the_cost_of_a_call_does_not_grow_with_the_past() {
    let mut short = Past::of(100).with_one_ready();
    let mut long = Past::of(10_000).with_one_ready();
    let mut dearer = BTreeMap::new();
    for (name, call) in CALLS {
        let (small, large) = (steps(&mut short, call), steps(&mut long, call));
        if large > small + small / 10 + 20 {
            dearer.insert(name, (small, large));
        }
    }
    assert!(
        dearer.is_empty(),
        "steps with a past of 100 and of 10 000: {dearer:?}"
    );
}

#[test]
fn a_long_history_is_not_searched_for_an_approval() {
    let costs = [100, 10_000].map(|n| {
        let mut past = Past::of(10);
        past.conn
            .execute_batch(&format!(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n})
                 INSERT INTO events (event_type, target_type, target_id, change_id, summary)
                 SELECT 'skipped', 'change', 'h7', 'h7', 'old' FROM n"
            ))
            .unwrap();
        steps(&mut past, |conn| {
            let of = |event_type| bb::events_of_type(conn, &ChangeId::new("h7"), event_type, 200);
            assert_eq!(of(EventType::WorkApproved).unwrap().len(), 1);
            assert_eq!(of(EventType::Instructed).unwrap(), []);
        })
    });
    assert_eq!(costs[0], costs[1], "steps among 100 and among 10 000");
}

#[test]
fn the_cost_of_a_claim_does_not_grow_with_what_is_not_due_or_waits_behind_it() {
    let cases = [
        (
            "delayed",
            "priority, not_before",
            "'P1', '2099-01-01T00:00:00.000Z'",
        ),
        ("blocked", "priority, status", "'P1', 'blocked'"),
        (
            "finished",
            "priority, status, completed_at",
            "'P1', 'completed', '2026-01-01T00:00:00.000Z'",
        ),
        ("ready behind it", "priority", "'P3'"),
        ("ready before it", "priority", "'P1'"),
    ];
    for (name, columns, values) in cases {
        let claim =
            |conn: &Conn| assert!(bb::claim(conn, &holding("us"), now()).unwrap().is_some());
        let [small, large] = [100, 10_000].map(|n| {
            steps(
                &mut Past::of(10)
                    .with_reviews(n, columns, values)
                    .with_one_ready(),
                claim,
            )
        });
        assert!(
            large <= small + small / 10,
            "{name}: {small} steps with 100, {large} with 10 000"
        );
    }
}
