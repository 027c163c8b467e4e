//! Tests of what prune has to know about the schema, and of its cost.

use std::collections::BTreeSet;

use super::history::{Past, now};
use crate::blackboard::conformance::engine::image;
use crate::blackboard::{self as bb, prune::OWNED};
use crate::change::ChangeId;

/// A new table that refers to a change, or to an object of one, must be pruned with it.
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
            // A pull request is kept and only loses its change.
            assert!(
                table == "pulls" || at(table) < at(parent),
                "{table} goes before {parent}, which it refers to"
            );
        }
    }
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
        let prunable = bb::Prunable {
            id: &change.change_id,
            seen: &bb::weigh(&past.conn, &change.change_id).unwrap(),
            before: now(),
            beside: &[],
            actor: "ann",
        };
        past.conn
            .execute_batch("PRAGMA foreign_keys = off")
            .unwrap();
        let pruning = bb::prune(&past.conn, &prunable, now()).unwrap();
        assert!(matches!(pruning, bb::Pruning::Removed(_)), "{pruning:?}");
        let left = bb::events_of_pruned(&past.conn).unwrap();
        bb::delete_events(&past.conn, &left, || false).unwrap();
        bb::forget_pruned(&past.conn).unwrap();
        past.conn
            .sqlite_mut()
            .progress_handler(0, None::<fn() -> bool>)
            .unwrap();
        let image = image(&past.conn);
        assert!(!image.iter().any(|row| row.contains("|hw7|")));
        assert_eq!(
            bb::events_of(&past.conn, &change.change_id, 9)
                .unwrap()
                .len(),
            1
        );
        count.load(std::sync::atomic::Ordering::Relaxed)
    });
    assert!(
        steps[1] <= steps[0] + steps[0] / 10 + 20,
        "steps among 100 and among 5 000: {steps:?}"
    );
}
