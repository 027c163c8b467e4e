//! Cases for the ends of items: each with its events, follow-up and transition of the change.

use serde_json::json;

use super::story::{Story, finding, fix_done, gate_rejection, no_round, review_done, unclear};
use crate::blackboard::{self as bb, BoardError};
use crate::change::{FinalVerdict, State};
use crate::event::EventType;
use crate::finding::{Outcome, Verdict};
use crate::work::{GateResult, RejectionState, Source, Status};

#[test]
fn an_approved_review_goes_to_a_person() {
    let mut story = Story::begin();
    let change = story.change();
    let after = story.review(Verdict::Approved, &[]);
    assert_eq!(after.state, State::ReadyForHumanReview);
    assert_eq!(after.final_verdict, Some(FinalVerdict::Approved));
    assert_eq!(story.statuses(&change.change_id), [Status::Completed]);
    let approved = story
        .events(&change.change_id, EventType::WorkApproved)
        .remove(0);
    assert_eq!(approved.metadata["head"], json!(change.head));
    assert_eq!(approved.metadata["base"], json!("b".repeat(40)));
    let review = story
        .engine
        .read(|conn| bb::review_of_head(conn, &change.change_id, &change.head))
        .unwrap();
    assert_eq!(approved.metadata["review_id"], json!(review.review_id));
    assert_eq!(
        story.beat(),
        [],
        "our own approval took effect when it was appended"
    );
    story.check();
}

#[test]
fn an_approved_review_of_a_pr_goes_to_a_person() {
    let mut story = Story::begin();
    let change = story.change_with(|new| new.state = State::AwaitingPrFeedback);
    story.engine.with_pr(42);
    assert_eq!(
        story.review(Verdict::Approved, &[]).state,
        State::ReadyForHumanReview
    );
    assert_eq!(story.statuses(&change.change_id), [Status::Completed]);
    story.check();
}

#[test]
fn a_rejected_review_is_one_rejection_with_its_findings() {
    let mut story = Story::begin();
    let change = story.change();
    let after = story.review(
        Verdict::ChangesRequested,
        &[finding("a.rs", "no bound"), finding("b.rs", "typo")],
    );
    assert_eq!(after.state, State::SelfReviewFailed);
    assert_eq!(after.final_verdict, Some(FinalVerdict::ChangesRequested));
    let rejected = story.events(&change.change_id, EventType::WorkRejected);
    assert_eq!(rejected.len(), 1);
    let findings = rejected[0].metadata["findings"].as_array().unwrap();
    let open = story
        .engine
        .read(|conn| bb::open_findings(conn, &change.change_id));
    assert_eq!(
        findings.iter().map(|f| f["id"].clone()).collect::<Vec<_>>(),
        [json!(open[0].finding_id), json!(open[1].finding_id)]
    );
    story.beat();
    assert_eq!(
        story.rejection_states(&change.change_id),
        [RejectionState::InFix]
    );
    story.check();
}

#[test]
fn a_gate_that_rejects_a_head_is_one_rejection_and_no_review() {
    for pr in [None, Some(42)] {
        let mut story = Story::begin();
        let change = match pr {
            None => story.change(),
            Some(_) => story.change_with(|new| new.state = State::AwaitingPrFeedback),
        };
        pr.into_iter()
            .for_each(|number| story.engine.with_pr(number));
        let claimed = story.claim();
        let red = gate_rejection(&change.head);
        let after = story
            .step(|conn, now| bb::reject_by_gate(conn, &claimed.claim(), &red, now))
            .unwrap();
        let expected = if pr.is_some() {
            State::AwaitingPrFeedback
        } else {
            State::SelfReviewFailed
        };
        assert_eq!(
            (after.state, after.final_verdict),
            (expected, Some(FinalVerdict::ChangesRequested))
        );
        assert_eq!(
            story
                .engine
                .read(|conn| bb::reviews_of(conn, &change.change_id)),
            []
        );
        let posts = story
            .engine
            .read(|conn| bb::intents_of(conn, &change.change_id, bb::IntentKind::Review));
        assert_eq!(posts.len(), 0);
        let rejected = story.events(&change.change_id, EventType::WorkRejected);
        assert_eq!((rejected.len(), rejected[0].actor_id.as_str()), (1, "gate"));
        assert_eq!(
            rejected[0].metadata["gate"],
            json!({ "command": "npm test", "status": 1 })
        );
        story.beat();
        assert_eq!(
            story.rejection_states(&change.change_id),
            [RejectionState::InFix]
        );
        assert_eq!(
            story.statuses(&change.change_id),
            [Status::Completed, Status::Available]
        );
        story.check();
    }
}

#[test]
fn a_reviewer_who_wants_to_talk_gets_a_person() {
    let mut story = Story::begin();
    let change = story.change();
    let after = story.review(Verdict::NeedsDiscussion, &[]);
    assert_eq!(
        (after.state, after.escalated_from),
        (State::Escalated, Some(State::PendingSelfReview))
    );
    assert_eq!(after.final_verdict, Some(FinalVerdict::NeedsDiscussion));
    assert_eq!(story.statuses(&change.change_id), [Status::Completed]);
    let item = story.items(&change.change_id).remove(0);
    assert_eq!(item.metadata["human_review_required"], json!(true));
    story.check();
}

#[test]
fn a_review_that_stays_unclear_fails() {
    let mut story = Story::begin();
    let change = story.change();
    let claimed = story.claim();
    story
        .step(|conn, now| bb::ask_again(conn, &claimed.claim(), &unclear(&["verdict"]), now))
        .unwrap();
    assert!(
        story
            .engine
            .read(|conn| bb::item(conn, &claimed.item.item_id))
            .asked_again
    );
    assert_eq!(
        story
            .events(&change.change_id, EventType::ReviewUnclear)
            .len(),
        1
    );
    let done = review_done(&change.head, Verdict::Unclear, &[]);
    let after = story
        .step(|conn, now| bb::finish_review(conn, &claimed.claim(), &done, now))
        .unwrap();
    assert_eq!(after.state, State::Escalated);
    assert_eq!(story.statuses(&change.change_id), [Status::Failed]);
    assert_eq!(
        story
            .engine
            .read(|conn| bb::review_of_head(conn, &change.change_id, &change.head)),
        None
    );
    story.check();
}

#[test]
fn a_finished_fix_answers_its_rejections_and_asks_for_a_review() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let claimed = story.claim();
    story.run(&claimed);
    story.reject(&change.change_id, &no_round());
    story.beat();
    let done = fix_done(&change.head);
    let after = story
        .step(|conn, now| bb::finish_fix(conn, &claimed.claim(), &done, now))
        .unwrap();
    assert_eq!(after.state, State::PendingSelfReview);
    assert_eq!((after.budget.fix_cycle, after.budget.total_fixes), (1, 1));
    assert_eq!(after.head, done.head_after);
    use RejectionState::{Fixed, Pending};
    assert_eq!(
        story.rejection_states(&change.change_id),
        [Fixed, Pending],
        "feedback that arrived meanwhile waits for the next fix"
    );
    let open = story.open_items(&change.change_id);
    assert_eq!(open.len(), 1);
    assert_eq!((open[0].source, open[0].fix_cycle), (Source::CodeReview, 1));
    assert_eq!(open[0].metadata["head"], json!(done.head_after));
    assert_eq!(
        story
            .events(&change.change_id, EventType::FixCommitted)
            .len(),
        1
    );
    assert_eq!(
        story
            .events(&change.change_id, EventType::ReviewRequeued)
            .len(),
        1
    );
    story.check();
    story.beat();
    assert_eq!(
        story.rejection_states(&change.change_id),
        [Fixed, Pending],
        "the review comes first"
    );
    story.review(Verdict::Approved, &[]);
    story.beat();
    assert_eq!(story.at(&change.change_id).state, State::Refining);
    story.check();
}

#[test]
fn a_fix_ends_once() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let claimed = story.claim();
    let done = fix_done(&change.head);
    story
        .step(|conn, now| bb::finish_fix(conn, &claimed.claim(), &done, now))
        .unwrap();
    let again = story
        .step(|conn, now| bb::finish_fix(conn, &claimed.claim(), &done, now))
        .unwrap_err();
    assert!(matches!(again, BoardError::Stale { .. }), "{again}");
    assert_eq!(story.at(&change.change_id).budget.total_fixes, 1);
}

#[test]
fn the_whole_loop_leaves_one_story() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    story.fix();
    story.review(Verdict::Approved, &[]);
    let events = story
        .engine
        .read(|conn| bb::events_of(conn, &change.change_id, 1_000));
    let told: Vec<String> = events
        .iter()
        .map(|event| event.event_type.to_string())
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    state_changed
    work_created
    state_changed
    work_claimed
    run_started
    run_finished
    work_completed
    work_rejected
    state_changed
    work_created
    state_changed
    fix_created
    work_claimed
    run_started
    run_finished
    work_completed
    fix_committed
    state_changed
    work_created
    review_requeued
    state_changed
    work_claimed
    run_started
    run_finished
    work_completed
    work_approved
    state_changed
    state_changed
    ");
    story.check();
}

#[test]
fn a_failed_fix_needs_a_person_and_takes_its_rejections_along() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let claimed = story.claim();
    story.reject(&change.change_id, &no_round());
    story.beat();
    let after = story.fail(&claimed.claim());
    assert_eq!(
        (after.state, after.escalated_from),
        (State::Escalated, Some(State::SelfReviewFailed))
    );
    assert_eq!(after.decision.as_deref(), Some("look, then retry"));
    assert_eq!(
        story.statuses(&change.change_id),
        [Status::Completed, Status::Failed]
    );
    assert_eq!(
        story.rejection_states(&change.change_id),
        [RejectionState::Escalated, RejectionState::Escalated]
    );
    let item = story
        .engine
        .read(|conn| bb::item(conn, &claimed.item.item_id));
    assert_eq!(
        item.failure_reason.as_deref(),
        Some("the agent ended with status 3")
    );
    assert_eq!(
        story.events(&change.change_id, EventType::WorkFailed)[0].metadata["wip"],
        json!("refs/remand/wip/r1")
    );
    story.check();
}

#[test]
fn escalating_cancels_what_is_open() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let claimed = story.claim();
    let escalation = super::story::escalation();
    story
        .step(|conn, now| bb::escalate(conn, &change.change_id, &escalation, now))
        .unwrap();
    let item = story
        .engine
        .read(|conn| bb::item(conn, &claimed.item.item_id));
    assert_eq!(
        (item.status, item.epoch),
        (Status::Cancelled, claimed.item.epoch + 1)
    );
    assert_eq!(
        story.rejection_states(&change.change_id),
        [RejectionState::Escalated]
    );
    let again = story
        .step(|conn, now| bb::escalate(conn, &change.change_id, &escalation, now))
        .unwrap_err();
    assert!(matches!(again, BoardError::NoSuchMove { .. }), "{again}");
    story.check();
}

#[test]
fn a_run_ends_once_and_its_spend_is_counted_once() {
    let mut story = Story::begin();
    let change = story.change();
    let claimed = story.claim();
    let run = story.run(&claimed);
    let end = bb::RunEnd {
        ended: Some(crate::work::Ended::Lost),
        elapsed_ms: 9,
        tokens: Some(9),
        ..bb::RunEnd::default()
    };
    story
        .step(|conn, now| bb::end_run(conn, &run.run_id, &end, now))
        .unwrap();
    let budget = story.at(&change.change_id).budget;
    assert_eq!(
        (budget.run_ms, budget.tokens, budget.cost_micros),
        (700, 1_000, 20_000)
    );
    assert_eq!(
        story.engine.read(|conn| bb::run(conn, &run.run_id)).ended,
        Some(crate::work::Ended::Agent)
    );
    assert_eq!(
        story
            .events(&change.change_id, EventType::RunFinished)
            .len(),
        1
    );
}

#[test]
fn a_spend_that_nobody_can_have_overflows_nothing() {
    let mut story = Story::begin();
    let change = story.change();
    let claimed = story.claim();
    let told = |n| bb::RunEnd {
        ended: Some(crate::work::Ended::Agent),
        elapsed_ms: n,
        tokens: Some(n),
        cost_micros: Some(n),
        ..bb::RunEnd::default()
    };
    for (n, tokens) in [
        (i64::MAX, Some(1_000_000_000_000_000)),
        (i64::MAX, Some(1_000_000_000_000_000)),
        (-1, None),
    ] {
        let run = story.begin_run(&claimed).unwrap();
        story
            .step(|conn, now| bb::end_run(conn, &run.run_id, &told(n), now))
            .unwrap();
        assert_eq!(
            story.engine.read(|conn| bb::run(conn, &run.run_id)).tokens,
            tokens
        );
    }
    let budget = story.at(&change.change_id).budget;
    assert_eq!((budget.run_ms, budget.tokens, budget.cost_micros), {
        let most = 1_000_000_000_000_000;
        (most, most, most)
    });
    story.check();
}

#[test]
fn a_clock_that_goes_back_does_not_make_an_old_run_or_review_the_last() {
    let mut story = Story::begin();
    let change = story.change();
    let late = story.pass(std::time::Duration::from_secs(3_600));
    story.review(Verdict::ChangesRequested, &[finding("a.rs", "no bound")]);
    story.beat();
    story.fix();
    story.set_back(late);
    story.review(Verdict::Approved, &[]);
    let reviews = story
        .engine
        .read(|conn| bb::reviews_of(conn, &change.change_id));
    assert!(reviews[1].created_at < reviews[0].created_at);
    assert_eq!(
        reviews
            .iter()
            .map(|review| review.verdict)
            .collect::<Vec<_>>(),
        [Verdict::ChangesRequested, Verdict::Approved]
    );
    let history = story
        .engine
        .read(|conn| bb::history(conn, &change.change_id));
    assert_eq!(history, reviews);
    let items = story.items(&change.change_id);
    assert!(items.is_sorted_by_key(|item| item.item_id.clone()));
    let run = |story: &mut Story, n: usize| {
        story
            .engine
            .read(|conn| bb::last_run(conn, &items[n].item_id))
            .unwrap()
            .run_id
    };
    let newest = run(&mut story, 2);
    assert_eq!(
        story
            .engine
            .read(|conn| bb::last_run_of_change(conn, &change.change_id)),
        Some(newest)
    );
}

#[test]
fn a_fix_of_very_many_files_is_told_with_some_of_them() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let claimed = story.claim();
    story.run(&claimed);
    let files = (0..100_000)
        .map(|n| format!("{}/{n}.rs", "d".repeat(200)))
        .collect();
    let done = bb::FixDone {
        files,
        ..fix_done(&claimed.change.head)
    };
    story
        .step(|conn, now| bb::finish_fix(conn, &claimed.claim(), &done, now))
        .unwrap();
    let told = story.events(&change.change_id, EventType::FixCommitted);
    assert_eq!(told[0].metadata["files"].as_array().unwrap().len(), 200);
    assert_eq!(told[0].metadata["more"], 99_800);
    assert!(
        told[0].summary.contains("100000 files"),
        "{}",
        told[0].summary
    );
}

#[test]
fn one_run_at_a_time_in_a_worktree() {
    let mut story = Story::begin();
    let change = story.change();
    let claimed = story.claim();
    let run = story.begin_run(&claimed).unwrap();
    let open = story
        .engine
        .read(|conn| bb::open_run_at(conn, &change.worktree))
        .unwrap();
    assert_eq!(open.run_id, run.run_id);
    assert!(story.begin_run(&claimed).is_err());
    assert_eq!(
        story
            .engine
            .read(|conn| bb::runs_of(conn, &claimed.item.item_id))
            .len(),
        1
    );
    let end = bb::RunEnd {
        ended: Some(crate::work::Ended::Lost),
        ..bb::RunEnd::default()
    };
    story
        .step(|conn, now| bb::end_run(conn, &run.run_id, &end, now))
        .unwrap();
    assert_eq!(
        story
            .engine
            .read(|conn| bb::open_run_at(conn, &change.worktree)),
        None
    );
    let next = story.begin_run(&claimed).unwrap();
    assert_ne!(next.run_id, run.run_id);
    assert_eq!(
        story
            .engine
            .read(|conn| bb::last_run(conn, &claimed.item.item_id))
            .unwrap()
            .run_id,
        next.run_id
    );
}

#[test]
fn gates_are_recorded_and_red_ones_counted() {
    let mut story = Story::begin();
    story.change_with_fix();
    let claimed = story.claim();
    let run = story.run(&claimed);
    let claim = claimed.claim();
    story
        .step(|conn, _| bb::record_head_after(conn, &claim, &run.run_id, "abc"))
        .unwrap();
    let red = story
        .step(|conn, _| bb::record_gates(conn, &claim, &run.run_id, GateResult::Red, "1 failed"))
        .unwrap();
    let green = story
        .step(|conn, _| bb::record_gates(conn, &claim, &run.run_id, GateResult::Green, ""))
        .unwrap();
    assert_eq!((red, green), (1, 1));
    let stored = story.engine.read(|conn| bb::run(conn, &run.run_id));
    assert_eq!(
        (stored.head_after.as_deref(), stored.gates),
        (Some("abc"), Some(GateResult::Green))
    );
}

#[test]
fn a_result_that_no_run_took_was_lost_in_silence() {
    let mut story = Story::begin();
    story.change_with_fix();
    let claimed = story.claim();
    let claim = claimed.claim();
    let run = story.begin_run(&claimed).unwrap();
    let other = crate::work::RunId::new("r1");
    for id in [&run.run_id, &other] {
        let head = story
            .step(|conn, _| bb::record_head_after(conn, &claim, id, "abc"))
            .unwrap_err();
        assert!(matches!(head, BoardError::Refused { .. }), "{head}");
        let gates = story
            .step(|conn, _| bb::record_gates(conn, &claim, id, GateResult::Red, ""))
            .unwrap_err();
        assert!(matches!(gates, BoardError::Refused { .. }), "{gates}");
    }
    assert_eq!(
        story
            .engine
            .read(|conn| bb::item(conn, &claim.item_id))
            .gate_rounds,
        0
    );
}

#[test]
fn guidance_that_came_during_a_fix_was_never_given_to_one() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let id = &change.change_id;
    let say = |body: &str| bb::Guidance {
        author: "ann".into(),
        body: body.into(),
    };
    story
        .step(|conn, now| bb::add_guidance(conn, id, &say("before"), now))
        .unwrap();
    let claimed = story.claim();
    story.run(&claimed);
    let open = |story: &mut Story| -> Vec<bb::Guidance> {
        story
            .engine
            .read(|conn| bb::open_guidance(conn, id))
            .into_iter()
            .map(|(_, said)| said)
            .collect()
    };
    assert_eq!(open(&mut story), [say("before")]);
    story
        .step(|conn, now| bb::add_guidance(conn, id, &say("meanwhile"), now))
        .unwrap();
    story
        .step(|conn, now| bb::finish_fix(conn, &claimed.claim(), &fix_done(&change.head), now))
        .unwrap();
    assert_eq!(open(&mut story), [say("meanwhile")]);
}

#[test]
fn what_the_fixer_answers_is_kept() {
    let mut story = Story::begin();
    let change = story.change();
    story.review(
        Verdict::ChangesRequested,
        &[finding("a.rs", "one"), finding("b.rs", "two")],
    );
    story.beat();
    let open = story
        .engine
        .read(|conn| bb::open_findings(conn, &change.change_id));
    let claimed = story.claim();
    let mut done = fix_done(&change.head);
    done.answers = vec![(
        open[1].finding_id.to_string(),
        Outcome::Disputed,
        "it is meant so".into(),
    )];
    story
        .step(|conn, now| bb::finish_fix(conn, &claimed.claim(), &done, now))
        .unwrap();
    let open = story
        .engine
        .read(|conn| bb::open_findings(conn, &change.change_id));
    assert_eq!(open[0].outcome, Outcome::Addressed);
    assert_eq!(
        (open[1].outcome, open[1].note.as_deref()),
        (Outcome::Disputed, Some("it is meant so"))
    );
}
