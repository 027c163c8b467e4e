//! Cases for the rows that a prune deletes, and for those that remain.

use std::collections::BTreeSet;
use std::time::Duration;

use super::pulls::adopted;
use super::story::Story;
use crate::blackboard as bb;
use crate::blackboard::prune::OWNED;
use crate::blackboard::sql::{Connection, params};
use crate::change::{Change, ChangeId, ProjectId};
use crate::clock::Time;
use crate::event::EventType;
use crate::finding::Verdict;

/// Examines a change as `remand prune` does.
fn in_the_way(conn: &Connection, change: &Change, before: Time) -> bb::Result<Option<String>> {
    let weight = bb::weigh(conn, &change.change_id)?;
    bb::in_the_way(conn, change, &weight, before)
}

/// Examines a change, and deletes it with its events.
fn pruned(story: &mut Story, id: &ChangeId, beside: &bb::Remnant) -> bb::Weight {
    let pruned = begin_to_prune(story, id, beside);
    let left = story.engine.read(bb::events_of_pruned);
    let deleted = story.step(|conn, _| bb::delete_events(conn, &left, || false));
    assert_eq!(deleted.unwrap(), left.len());
    story.step(|conn, _| bb::forget_pruned(conn)).unwrap();
    pruned
}

/// Examines a change, and deletes it without its events.
fn begin_to_prune(story: &mut Story, id: &ChangeId, beside: &bb::Remnant) -> bb::Weight {
    let now = story.later();
    let pruned = story.engine.write_unlinked(|conn| {
        let seen = bb::weigh(conn, id)?;
        assert_eq!(bb::wips(conn, &seen)?, BTreeSet::new());
        let prunable = bb::Prunable {
            id,
            seen: &seen,
            before: now,
            beside: std::slice::from_ref(beside),
            actor: "ann",
        };
        bb::prune(conn, &prunable, now)
    });
    match pruned.unwrap() {
        bb::Pruning::Removed(weight) => weight,
        bb::Pruning::Kept { reason } => panic!("{id} was kept: {reason}"),
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
    // Appended by hand, without naming the change: one about it, and one about an item of it.
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
    // Events appended by hand have the time of the machine.
    let later = crate::clock::now()
        .max(story.now())
        .plus(Duration::from_secs(3_600));
    assert_eq!(
        story.engine.read(|conn| in_the_way(conn, &change, later)),
        None
    );
    let setup = bb::Remnant::named(
        bb::Where::Run,
        "/state/runs/setup-c1".into(),
        "setup-c1".into(),
    );
    let weight = pruned(&mut story, &change.change_id, &setup);
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
        "the cursor is kept: nothing is taken in again"
    );
    // Ids are not reused.
    let next = story.change_with(|new| {
        new.branch = "another".into();
        new.worktree = "/home/ann/trees/another".into();
    });
    assert_eq!(next.change_id, ChangeId::new("c3"));
    // Events are protected as before.
    story
        .engine
        .refuses(super::engine::Forbidden::DeleteAnEvent);
}

#[test]
fn a_change_without_its_events_does_not_exist() {
    let mut story = Story::begin();
    let gone = story.change_with_fix();
    story.fix();
    story
        .step(|conn, now| bb::cancel_change(conn, &gone.change_id, None, "ann", now))
        .unwrap();
    story
        .engine
        .by_hand("work_rejected", ("change", "c1"), "too late");
    // Events appended by hand have the time of the machine.
    story.pass(crate::clock::now().since(story.now()));
    story.beat();
    story.later();
    let path = "/state/runs/setup-c1".to_owned();
    let setup = bb::Remnant::named(bb::Where::Run, path, "setup-c1".into());
    let weight = begin_to_prune(&mut story, &gone.change_id, &setup);
    let half = |story: &mut Story| {
        // Nothing is wrong at any moment, and nobody can find the change.
        story.check();
        assert_eq!(story.beat(), []);
        story.engine.read(|conn| {
            assert!(bb::board(conn, bb::Show::All, 9)?.is_empty());
            assert_eq!(bb::still_there(conn, &gone.change_id)?, None);
            assert!(bb::pruned_at(conn, "c1")?.is_some());
            Ok(())
        });
    };
    half(&mut story);
    let left = story.engine.read(bb::events_of_pruned);
    assert!(left.is_sorted() && left.len() > 10 && left.len() < weight.events);
    for id in &left {
        let deleted = story.step(|conn, _| bb::delete_events(conn, &[*id], || true));
        assert_eq!(deleted.unwrap(), 1);
        story.step(|conn, _| bb::forget_pruned(conn)).unwrap();
        half(&mut story);
    }
    assert!(story.engine.read(bb::events_of_pruned).is_empty());
    let image = story.engine.image();
    assert!(
        !image.iter().any(|row| row.starts_with("pruned_changes|")),
        "it is forgotten with its last event"
    );
}

#[test]
fn tables_of_others_are_noticed() {
    let mut story = Story::begin();
    assert_eq!(story.engine.read(bb::unknown_tables), [""; 0]);
    story.engine.add_table();
    assert_eq!(story.engine.read(bb::unknown_tables), ["notes"]);
}

#[test]
fn what_is_not_over_or_not_quiet_stays() {
    let mut story = Story::begin();
    let change = story.change();
    let later = |story: &Story| story.now().plus(Duration::from_secs(3_600));
    let why = |story: &mut Story, id: &ChangeId| {
        let (change, before) = (story.at(id), later(story));
        story
            .engine
            .read(|conn| in_the_way(conn, &change, before))
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
        .read(|conn| in_the_way(conn, &over, now_))
        .unwrap();
    assert!(said.contains("its latest event is from"), "{said}");
    story
        .engine
        .by_hand("work_rejected", ("change", "c1"), "too late");
    // Events appended by hand have the time of the machine.
    let far = crate::clock::now()
        .plus(Duration::from_secs(3_600))
        .max(later(&story));
    let at_last = |story: &mut Story| story.engine.read(|conn| in_the_way(conn, &over, far));
    assert_eq!(
        at_last(&mut story).unwrap(),
        "it has an unprocessed rejection (run `remand tick`)"
    );
    story.beat();
    assert_eq!(at_last(&mut story), None);
}

#[test]
fn what_arrives_after_the_examination_is_noticed() {
    let mut story = Story::begin();
    let change = story.change();
    let id = &change.change_id;
    story
        .step(|conn, now| bb::cancel_change(conn, id, None, "ann", now))
        .unwrap();
    // Events appended by hand have the time of the machine.
    let far = crate::clock::now().plus(Duration::from_secs(3_600));
    let seen = story.engine.read(|conn| bb::weigh(conn, id));
    story
        .engine
        .by_hand("work_rejected", ("change", id.as_str()), "too late");
    let kept = story.step(|conn, now| {
        let prunable = bb::Prunable {
            id,
            seen: &seen,
            before: far,
            beside: &[],
            actor: "ann",
        };
        bb::prune(conn, &prunable, now)
    });
    assert_eq!(
        kept.unwrap(),
        bb::Pruning::Kept {
            reason: "it has an unprocessed rejection (run `remand tick`)".into()
        }
    );
    assert_eq!(story.at(id).change_id, *id);
}

#[test]
fn a_pull_request_that_had_its_turn_is_not_taken_over_again() {
    let mut story = Story::begin();
    let change = adopted(&mut story);
    let shop = ProjectId::new("shop");
    let before = story.now().plus(Duration::from_secs(3_600));
    let cancelled = story
        .step(|conn, now| bb::cancel_change(conn, &change.change_id, None, "ann", now))
        .unwrap();
    story.engine.read(|conn| {
        assert_eq!(
            bb::over_since(conn, before)?,
            std::slice::from_ref(&change.change_id)
        );
        assert!(bb::worktree_is_used(conn, &change.worktree)?);
        assert!(!bb::worktree_is_shared(conn, &change)?);
        assert_eq!(bb::pruned_pull(conn, &shop, 42)?, None);
        Ok(())
    });
    let worktree = bb::Remnant::named(bb::Where::Worktree, change.worktree.clone(), "x".into());
    pruned(&mut story, &cancelled.change_id, &worktree);
    story.engine.read(|conn| {
        for (table, count, _) in OWNED {
            let left: i64 = conn.one(count, params! { id: change.change_id }, |row| row.get(0))?;
            assert_eq!(left, 0, "{table}");
        }
        Ok(())
    });
    let had_its_turn = story.engine.read(|conn| bb::pruned_pull(conn, &shop, 42));
    assert!(had_its_turn.unwrap().contains("c1"));
    assert_eq!(
        story.engine.read(bb::sweeps),
        std::slice::from_ref(&worktree)
    );
    story.step(|conn, _| bb::swept(conn, &[worktree])).unwrap();
    assert_eq!(story.engine.read(bb::sweeps), []);
    story.check();
}
