//! Cases for read-only views: counts, lookups, runs, spend.

use std::time::Duration;

use super::story::{Story, coverage, finding, new_run};
use crate::blackboard::escalate::handed_over_since;
use crate::blackboard::{self as bb};
use crate::change::{ProjectId, State};
use crate::clock::Zone;
use crate::event::body;
use crate::event::{EventType, NewEvent, TargetType};
use crate::finding::Verdict;
use crate::work::{GateResult, Status};

#[test]
fn everything_is_found_by_its_id() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let id = &change.change_id;
    let rejection = story.rejections(id).remove(0);
    story.engine.read(|conn| {
        let review = bb::last_review(conn, id)?.unwrap();
        assert_eq!(
            bb::review(conn, &review.review_id)?,
            (id.clone(), review.clone())
        );
        let found = bb::finding_list(conn, id)?.remove(0);
        assert_eq!(bb::finding(conn, &found.finding_id)?.0, *id);
        let heads = bb::heads_of_findings(conn, id)?;
        assert_eq!(heads, [(found.finding_id, review.head)]);
        assert_eq!(bb::rejection(conn, &rejection.rejection_id)?, rejection);
        let of_event = bb::rejection_of_event(conn, rejection.event_id)?;
        assert_eq!(of_event.as_ref(), Some(&rejection));
        let newest = bb::newest_events(conn, 3)?;
        assert_eq!(
            newest.last().map(|event| event.id),
            Some(bb::newest_event(conn)?)
        );
        assert_eq!(bb::change_names(conn)?[0][1], change.branch);
        assert!(bb::has_event(conn, id, EventType::WorkRejected)?);
        assert_eq!(bb::claimed_items(conn)?, 0);
        assert_eq!(bb::list_items(conn, Some(Status::Available), 10)?.len(), 1);
        Ok(())
    });
}

#[test]
fn what_needs_a_person_is_counted_and_told() {
    let mut story = Story::begin();
    let change = story.change_at_its_bound();
    story.engine.read(|conn| {
        let counted = bb::counted(conn)?;
        assert_eq!(counted.needs_you, [change.change_id.to_string()]);
        assert_eq!(counted.columns[State::Escalated.column(true)], 1);
        assert_eq!(counted.items[&Status::Available], 0);
        let handed = handed_over_since(conn, 0)?;
        assert_eq!(handed[0].change, change.change_id.as_str());
        assert!(bb::any_live_change(conn)?);
        Ok(())
    });
    story
        .step(|conn, now| bb::cancel_change(conn, &change.change_id, None, "ann", now))
        .unwrap();
    story.engine.read(|conn| {
        assert!(!bb::any_live_change(conn)?);
        Ok(())
    });
}

#[test]
fn what_was_spent_is_summed_in_every_way() {
    let mut story = Story::begin();
    let change = story.change();
    let begun = story.now();
    story.review(Verdict::Approved, &[]);
    let shop = ProjectId::new("shop");
    story.engine.read(|conn| {
        assert_eq!(bb::spent_since(conn, begun)?, 20_000);
        assert_eq!(bb::spent_on_project_since(conn, &shop, begun)?, 20_000);
        assert_eq!(bb::agents_without_cost(conn, &change.change_id)?, []);
        let sums = bb::spend_sums(conn, Zone::Utc)?;
        assert_eq!((sums.all.cost_micros, sums.all.run_ms), (20_000, 700));
        assert_eq!(sums.changes[0].change_id, change.change_id);
        assert_eq!(sums.projects[0].project_id, shop);
        assert_eq!(sums.days[0].day, "2026-11-16");
        Ok(())
    });
}

#[test]
fn what_is_recorded_of_a_run_is_read_back() {
    let mut story = Story::begin();
    let change = story.change();
    story.review(Verdict::ChangesRequested, &[finding("a.rs", "no bound")]);
    story.beat();
    let claimed = story.claim();
    let claim = claimed.claim();
    let told = coverage("f1", None, 5, 7);
    let new = bb::NewRun {
        feedback: vec![told.clone()],
        session: Some("s".into()),
        ..new_run()
    };
    let run = story
        .step(|conn, now| bb::start_run(conn, &claim, &change, &new, now))
        .unwrap();
    story
        .step(|conn, _| bb::record_shim(conn, &run.run_id, 7, 70, "boot"))
        .unwrap();
    assert_eq!(story.engine.read(bb::open_runs)[0].run_id, run.run_id);
    let end = bb::RunEnd {
        ended: Some(crate::work::Ended::Agent),
        exit_status: Some(0),
        ..bb::RunEnd::default()
    };
    let undone = body::EditsUndone {
        paths: vec!["ci.yml".into()],
        ..Default::default()
    };
    let undone =
        NewEvent::about(&change.change_id, undone, "undone").on(TargetType::Run, &run.run_id);
    story
        .step(|conn, now| {
            bb::end_run(conn, &run.run_id, &end, now)?;
            bb::record_head_after(conn, &claim, &run.run_id, "1")?;
            bb::record_rebase(conn, &claim, &run.run_id, "2", "3")?;
            bb::begin_gates(conn, &claim, &run.run_id, "rules")?;
            bb::record_gates(conn, &claim, &run.run_id, GateResult::Green, "")?;
            bb::forget_gates(conn, &claim, &run.run_id)?;
            bb::refuse_run(conn, &claim, &run.run_id, "it edits CI")?;
            bb::append(conn, &undone, now)
        })
        .unwrap();
    story.engine.read(|conn| {
        let run = bb::run(conn, &run.run_id)?;
        assert_eq!(run.head_after.as_deref(), Some("3"));
        assert_eq!(run.rebased_onto.as_deref(), Some("2"));
        assert_eq!(
            (run.gates, run.gate_rules.as_deref()),
            (None, Some("rules"))
        );
        assert_eq!(run.refused.as_deref(), Some("it edits CI"));
        assert_eq!(bb::counted_in_session(conn, &run)?, 0);
        assert_eq!(bb::undone_paths(conn, &run.item_id)?, ["ci.yml"]);
        assert_eq!(
            bb::coverage_of_run(conn, &run.run_id)?,
            std::slice::from_ref(&told)
        );
        assert_eq!(bb::coverage_of_item(conn, &run.item_id)?, [told]);
        Ok(())
    });
    story
        .step(|conn, _| bb::discard_run(conn, &run.run_id))
        .unwrap();
    let left = story
        .engine
        .read(|conn| bb::coverage_of_item(conn, &run.item_id));
    assert_eq!(left, [], "discarded runs do not count");
    story.pass(Duration::from_secs(1));
    story.check();
}
