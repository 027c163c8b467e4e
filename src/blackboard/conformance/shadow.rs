//! Cases for shadow mode: everything is observed, and nothing is done.

use std::time::Duration;

use super::story::{Story, finding, holding};
use crate::blackboard::{self as bb, Estimate, ShadowReview, Shadowed};
use crate::change::{ProjectId, ShadowMode};
use crate::finding::Verdict;
use crate::work::Source;

fn shop() -> ProjectId {
    ProjectId::new("shop")
}

#[test]
fn a_project_in_shadow_runs_nothing_and_what_would_have_run_is_written_down_once() {
    let mut story = Story::begin();
    let change = story.change();
    story.review(Verdict::ChangesRequested, &[finding("a.rs", "no bound")]);
    story.beat();
    let dry = Some(ShadowMode::Dry);
    for turned in [true, false] {
        let set = story.step(|conn, now| bb::set_project_shadow(conn, &shop(), dry, now));
        assert_eq!(set.unwrap(), turned);
    }
    let in_force = story.engine.read(|conn| bb::project_shadow(conn, &shop()));
    assert_eq!(in_force, dry);
    assert!(story.try_claim().is_none());
    let now = story.now();
    let item = story
        .engine
        .read(|conn| bb::unshadowed(conn, now))
        .remove(0);
    let later = now.plus(Duration::from_secs(60));
    story
        .step(|conn, _| bb::put_off_shadow(conn, &item.item_id, later))
        .unwrap();
    assert_eq!(story.engine.read(|conn| bb::unshadowed(conn, now)), []);
    let past = story
        .engine
        .read(|conn| bb::past_runs(conn, "scripted", Source::CodeReview, 5));
    assert_eq!(past[0].tokens, Some(1_000));
    let shadowed = Shadowed {
        item_id: item.item_id.clone(),
        change_id: change.change_id.clone(),
        agent: Some("scripted".into()),
        model: None,
        worktree: change.worktree.clone(),
        prompt: Some("/state/prompts/w2.md".into()),
        prompt_bytes: Some(70),
        trouble: None,
        estimate: Estimate {
            tokens: Some(1_000),
            cost_micros: Some(20_000),
            run_ms: Some(700),
            basis: "the last run".into(),
        },
    };
    for is_new in [true, false] {
        let recorded = story.step(|conn, now| bb::record_shadow(conn, &item, &shadowed, now));
        assert_eq!(recorded.unwrap(), is_new);
    }
    story.engine.read(|conn| {
        let stored = bb::shadow_of(conn, &item.item_id)?.unwrap();
        assert_eq!(stored.estimate.cost_micros, Some(20_000));
        let sum = bb::shadow_sums(conn)?.remove(0);
        assert_eq!((sum.changes, sum.fixes, sum.cost_micros), (1, 1, 20_000));
        Ok(())
    });
    story.check();
}

#[test]
fn a_review_in_shadow_moves_nothing() {
    let mut story = Story::begin();
    let change = story.change();
    let id = &change.change_id;
    let review = Some(ShadowMode::Review);
    story
        .step(|conn, now| bb::set_shadow(conn, id, review, "ann", now))
        .unwrap();
    let now = story.now();
    assert!(
        story
            .engine
            .read(|conn| bb::any_shadow_review_due(conn, now))
    );
    let claimed = story
        .step(|conn, now| bb::claim_shadow_review(conn, &holding("us"), now))
        .unwrap()
        .unwrap();
    let run = story.run(&claimed);
    let said = ShadowReview {
        item_id: claimed.item.item_id.clone(),
        change_id: id.clone(),
        run_id: Some(run.run_id),
        agent: Some("scripted".into()),
        model: None,
        head: change.head.clone(),
        base: None,
        verdict: Some(Verdict::ChangesRequested),
        summary: None,
        body: None,
        findings: vec![finding("a.rs", "no bound")],
        trouble: None,
    };
    story
        .step(|conn, now| bb::end_shadow_review(conn, &claimed.claim(), &said, now))
        .unwrap();
    let stored = story
        .engine
        .read(|conn| bb::shadow_review_of(conn, &said.item_id));
    assert_eq!(stored, Some(said));
    assert_eq!(story.at(id).state, change.state);
    assert_eq!(story.rejections(id), []);
    story.check();
}
