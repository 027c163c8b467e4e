//! What prune has to know of the schema, and what it leaves.

use std::collections::BTreeSet;

use super::history::{Past, now};
use crate::blackboard::conformance::engine::image;
use crate::blackboard::conformance::story::Story;
use crate::blackboard::{self as bb, prune::OWNED};
use crate::change::ChangeId;
use crate::event::EventType;
use crate::finding::Verdict;

/// A new table that refers to a change, or to something of one, must be pruned with it.
#[test]
fn every_table_with_rows_of_a_change_is_pruned() {
    let past = Past::of(1);
    let tables: Vec<String> = past
        .conn
        .all(
            "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name",
            &[],
            |row| row.get(0),
        )
        .unwrap();
    let known: BTreeSet<&str> = OWNED
        .iter()
        .map(|(name, _, _)| *name)
        .chain(["changes", "events", "pulls"])
        .collect();
    let mut order: Vec<&str> = OWNED.iter().map(|(name, _, _)| *name).collect();
    order.extend(["events", "changes"]);
    for table in &tables {
        let sql = format!("PRAGMA foreign_key_list(\"{table}\")");
        let parents: Vec<String> = past
            .conn
            .all(sql.leak(), &[], |row| row.get("table"))
            .unwrap();
        for parent in parents
            .iter()
            .filter(|parent| known.contains(parent.as_str()))
        {
            assert!(
                known.contains(table.as_str()),
                "{table} refers to {parent}: src/blackboard/prune.rs must know it"
            );
            let at = |name: &str| order.iter().position(|other| *other == name);
            // A pull request only lets go of its change.
            assert!(
                table == "pulls" || at(table) < at(parent),
                "{table} goes before {parent}, which it refers to"
            );
        }
    }
}

#[test]
fn a_change_goes_whole_and_nothing_of_another() {
    let mut story = Story::begin();
    let gone = story.change_with_fix();
    story.fix();
    story.review(Verdict::Approved, &[]);
    story
        .step(|conn, now| bb::cancel_change(conn, &gone.change_id, Some("enough"), "ann", now))
        .unwrap();
    // By hand, without naming the change: about it, and about an item of it.
    story
        .engine
        .by_hand("work_rejected", ("change", "c1"), "too late");
    story
        .engine
        .by_hand("work_rejected", ("work_item", "w1"), "too late as well");
    story.beat();
    let before = story.engine.image();
    let stays = story.change_with_fix();
    let of_others: BTreeSet<String> = story.engine.image().difference(&before).cloned().collect();

    let change = story.at(&gone.change_id);
    // By hand the time is the machine's own.
    let later = crate::clock::now()
        .max(story.now())
        .plus(std::time::Duration::from_secs(3_600));
    assert_eq!(
        story
            .engine
            .read(|conn| bb::in_the_way(conn, &change, later)),
        None
    );
    let setup = bb::Remnant::named(
        bb::Where::Run,
        "/state/runs/setup-c1".into(),
        "setup-c1".into(),
    );
    let weight = story
        .step(|conn, now| bb::prune(conn, &change, std::slice::from_ref(&setup), "ann", now))
        .unwrap();
    story.check();
    let left = story.engine.image();
    let is_of_bookkeeping = |row: &str| {
        ["counters|", "sqlite_sequence|", "evaluators|"]
            .iter()
            .any(|t| row.starts_with(t))
    };
    assert!(
        of_others
            .iter()
            .all(|row| left.contains(row) || is_of_bookkeeping(row)),
        "nothing of {} went",
        stays.change_id
    );
    let named: Vec<&String> = left
        .iter()
        .filter(|row| row.split('|').any(|cell| cell == "c1" || cell == "w1"))
        .collect();
    assert!(
        named
            .iter()
            .all(|row| row.starts_with("events|") || row.starts_with("sweeps|")),
        "{named:#?}"
    );
    let pruned = story.all_events(EventType::Pruned);
    assert_eq!(pruned.len(), 1);
    assert_eq!(pruned[0].metadata["changes"][0], "c1");
    assert_eq!(pruned[0].metadata["events"], weight.events);
    assert_eq!(
        story.engine.read(|conn| bb::pruned_at(conn, "c1")),
        Some(pruned[0].timestamp)
    );
    assert_eq!(story.engine.read(bb::sweeps).len(), weight.runs.len() + 1);
    assert_eq!(
        story.beat(),
        [],
        "the cursor holds: nothing is taken in again"
    );
    // Numbers are not given again.
    let next = story.change_with(|new| {
        new.branch = "another".into();
        new.worktree = "/home/ann/trees/another".into();
    });
    assert_eq!(next.change_id, ChangeId::new("c3"));
    // And events are as safe as before.
    story
        .engine
        .refuses(crate::blackboard::conformance::engine::Forbidden::DeleteAnEvent);
}

#[test]
fn what_is_not_over_or_not_quiet_stays() {
    let mut story = Story::begin();
    let change = story.change();
    let later = |story: &Story| story.now().plus(std::time::Duration::from_secs(3_600));
    let why = |story: &mut Story, id: &ChangeId| {
        let (change, before) = (story.at(id), later(story));
        story
            .engine
            .read(|conn| bb::in_the_way(conn, &change, before))
            .unwrap_or_default()
    };
    assert!(why(&mut story, &change.change_id).contains("it is pending_self_review again"));
    let claimed = story.claim();
    story.run(&claimed);
    story
        .step(|conn, now| bb::cancel_change(conn, &change.change_id, Some("enough"), "ann", now))
        .unwrap();
    let (over, now_) = (story.at(&change.change_id), story.now());
    let said = story
        .engine
        .read(|conn| bb::in_the_way(conn, &over, now_))
        .unwrap();
    assert!(said.contains("something was still said of it"), "{said}");
    story
        .engine
        .by_hand("work_rejected", ("change", "c1"), "too late");
    // By hand the time is the machine's own.
    let far = crate::clock::now()
        .plus(std::time::Duration::from_secs(3_600))
        .max(later(&story));
    let at_last = |story: &mut Story| story.engine.read(|conn| bb::in_the_way(conn, &over, far));
    assert_eq!(
        at_last(&mut story).unwrap(),
        "a rejection of it was not looked at yet (`remand tick` does)"
    );
    story.beat();
    assert_eq!(at_last(&mut story), None);
}

#[test]
fn the_cost_of_one_does_not_grow_with_the_others() {
    let steps = [100, 5_000].map(|n| {
        let mut past = Past::of(n);
        let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counter = std::sync::Arc::clone(&count);
        let ticks = move || {
            counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            false
        };
        let change = bb::change(&past.conn, &ChangeId::new("h7")).unwrap();
        past.conn
            .sqlite_mut()
            .progress_handler(1, Some(ticks))
            .unwrap();
        bb::prune(&past.conn, &change, &[], "ann", now()).unwrap();
        past.conn
            .sqlite_mut()
            .progress_handler(0, None::<fn() -> bool>)
            .unwrap();
        assert!(!image(&past.conn).iter().any(|row| row.contains("|hw7|")));
        count.load(std::sync::atomic::Ordering::Relaxed)
    });
    assert!(
        steps[1] <= steps[0] + steps[0] / 10 + 20,
        "steps among 100 and among 5 000: {steps:?}"
    );
}
