//! Cases for checks: the newest run counts, a rerun and a rejection happen once per head, an older head is forgotten.

use super::pulls::{adopted, read_with_checks};
use super::story::{EVALUATOR, Story};
use crate::blackboard::{self as bb, IntentKind, PostDone};
use crate::change::{Change, State};
use crate::check::{
    Check, CheckAnswer, CheckKind, CheckState, ChecksSummary, Evidence, FoundEvidence,
    ReportedCheck, Rerun, RerunCall,
};
use crate::event::EventType;
use crate::event::body::{SkipCode, WorkRejected};
use crate::finding::Verdict;
use crate::intent::IntentResult;
use crate::proposal::Proposal;

fn reported(forge_id: i64, name: &str, state: CheckState) -> ReportedCheck {
    ReportedCheck {
        kind: CheckKind::Run,
        name: name.into(),
        app: "github-actions".into(),
        forge_id,
        state,
        detail: state.to_string(),
        url: None,
        started_at: None,
        completed_at: None,
    }
}

fn of(change: &Change, reported: &[ReportedCheck]) -> bb::ReadChecks {
    bb::ReadChecks {
        head: change.head.clone(),
        reported: reported.to_vec(),
        required: vec!["test".into(), "build".into()],
        may_rerun: true,
        ..Default::default()
    }
}

fn checks(story: &mut Story, change: &Change) -> Vec<Check> {
    story
        .engine
        .read(|conn| bb::checks_of(conn, &change.change_id))
}

fn sum(story: &mut Story, change: &Change) -> ChecksSummary {
    let pull = story
        .engine
        .read(|conn| bb::pull_of_change(conn, &change.change_id));
    pull.unwrap().checks
}

fn propose(story: &mut Story, change: &Change, step: &Proposal) -> bool {
    story
        .step(|conn, now| bb::apply_proposal(conn, EVALUATOR, &change.change_id, step, now))
        .unwrap()
}

#[test]
fn the_newest_run_counts_and_a_required_check_that_is_missing_is_pending() {
    let mut story = Story::begin();
    let change = adopted(&mut story);
    let first = of(
        &change,
        &[
            reported(7, "test", CheckState::Passing),
            reported(6, "test", CheckState::Failing),
            reported(8, "lint", CheckState::Failing),
        ],
    );
    read_with_checks(&mut story, &change, &[], Some(&first));
    let found: Vec<(String, CheckKind, bool, CheckState)> = checks(&mut story, &change)
        .into_iter()
        .map(|check| (check.name, check.kind, check.required, check.state))
        .collect();
    assert_eq!(
        found,
        [
            (
                "build".into(),
                CheckKind::Missing,
                true,
                CheckState::Pending
            ),
            ("test".into(), CheckKind::Run, true, CheckState::Passing),
            ("lint".into(), CheckKind::Run, false, CheckState::Failing),
        ]
    );
    assert_eq!(sum(&mut story, &change), ChecksSummary::Pending);

    let built = of(&change, &[reported(9, "build", CheckState::Passing)]);
    read_with_checks(&mut story, &change, &[], Some(&built));
    assert_eq!(sum(&mut story, &change), ChecksSummary::Passing);
    let all = bb::ReadChecks {
        all_count: true,
        ..of(&change, &[])
    };
    read_with_checks(&mut story, &change, &[], Some(&all));
    assert_eq!(
        sum(&mut story, &change),
        ChecksSummary::Failing,
        "lint counts now"
    );
    let unread = bb::ReadChecks {
        head: "f00d".into(),
        trouble: Some("403".into()),
        ..of(&change, &[])
    };
    read_with_checks(&mut story, &change, &[], Some(&unread));
    assert_eq!(sum(&mut story, &change), ChecksSummary::None);
    assert_eq!(checks(&mut story, &change), [], "of another head");
    story.check();
}

#[test]
fn a_rerun_and_a_rejection_happen_once_per_head() {
    let mut story = Story::begin();
    let change = adopted(&mut story);
    let id = &change.change_id;
    let red = of(&change, &[reported(7, "test", CheckState::Failing)]);
    read_with_checks(&mut story, &change, &[], Some(&red));
    let rerun = Proposal::Rerun {
        checks: vec![7],
        call: RerunCall::Job(7),
    };
    assert!(propose(&mut story, &change, &rerun));
    assert!(!propose(&mut story, &change, &rerun));
    let intents = story
        .engine
        .read(|conn| bb::intents_of(conn, id, IntentKind::Rerun));
    assert_eq!(intents.len(), 1);
    let done = PostDone {
        result: IntentResult::Done,
        forge_id: None,
        url: None,
        summary: "requested a rerun of test".into(),
    };
    story
        .step(|conn, now| bb::post_done(conn, &intents[0], &done, now))
        .unwrap();
    let again = of(&change, &[reported(9, "test", CheckState::Failing)]);
    read_with_checks(&mut story, &change, &[], Some(&again));
    let rerun = Proposal::Rerun {
        checks: vec![9],
        call: RerunCall::Job(9),
    };
    assert!(!propose(&mut story, &change, &rerun), "once per head");
    let evidence = Proposal::Evidence { checks: vec![9] };
    assert!(propose(&mut story, &change, &evidence));
    assert!(!propose(&mut story, &change, &evidence));
    let wanted = story.engine.read(|conn| bb::wanted_evidence(conn, id));
    assert_eq!((wanted.len(), wanted[0].rerun), (1, Some(Rerun::Done)));
    let found = bb::ReadChecks {
        evidence: vec![FoundEvidence {
            forge_id: 9,
            kind: CheckKind::Run,
            on_base: Some(CheckState::Passing),
            log: Some("expected 4".into()),
            log_trouble: None,
        }],
        ..of(&change, &[])
    };
    read_with_checks(&mut story, &change, &[], Some(&found));
    let known = checks(&mut story, &change);
    let test = known.iter().find(|check| check.name == "test").unwrap();
    assert_eq!(test.evidence, Some(Evidence::Read));
    assert_eq!(test.log.as_deref(), Some("expected 4"));

    let reject = Proposal::RejectChecks {
        names: vec!["test".into()],
        summary: "1 check failed".into(),
        rejected: Box::new(WorkRejected {
            begins_round: Some(false),
            ..Default::default()
        }),
    };
    assert!(propose(&mut story, &change, &reject));
    assert!(!propose(&mut story, &change, &reject));
    assert_eq!(story.rejections(id).len(), 1);
    assert_eq!(story.rejections(id)[0].by, "checks");
    let report = Proposal::ReportChecks {
        names: vec!["build".into()],
        code: SkipCode::CheckMissing,
        reason: "build is missing".into(),
    };
    assert!(propose(&mut story, &change, &report));
    assert!(!propose(&mut story, &change, &report));
    assert_eq!(story.events(id, EventType::Skipped).len(), 1);
    let known = checks(&mut story, &change);
    let answer = |name: &str| known.iter().find(|one| one.name == name).unwrap().answer;
    assert_eq!(answer("build"), Some(CheckAnswer::Reported));
    assert_eq!(answer("test"), Some(CheckAnswer::Rejected));
    story.check();
}

#[test]
fn a_rerun_that_the_forge_refuses_is_recorded() {
    let mut story = Story::begin();
    let change = adopted(&mut story);
    let id = &change.change_id;
    let red = of(&change, &[reported(7, "test", CheckState::Failing)]);
    read_with_checks(&mut story, &change, &[], Some(&red));
    let rerun = Proposal::Rerun {
        checks: vec![7],
        call: RerunCall::CheckRun(7),
    };
    assert!(propose(&mut story, &change, &rerun));
    let intents = story
        .engine
        .read(|conn| bb::intents_of(conn, id, IntentKind::Rerun));
    story
        .step(|conn, now| bb::give_up_post(conn, &intents[0], "422", now))
        .unwrap();
    let known = checks(&mut story, &change);
    let test = known.iter().find(|check| check.name == "test").unwrap();
    assert_eq!(test.rerun, Some(Rerun::Refused));
    story.check();
}

#[test]
fn a_change_is_ready_once_its_review_and_its_checks_have_passed() {
    let mut story = Story::begin();
    let change = adopted(&mut story);
    let id = &change.change_id;
    let open = of(&change, &[reported(7, "test", CheckState::Pending)]);
    read_with_checks(&mut story, &change, &[], Some(&open));
    let is_past = |story: &mut Story| {
        story.engine.read(|conn| {
            let change = bb::change(conn, id)?;
            bb::is_past_review(conn, &change)
        })
    };
    assert!(!is_past(&mut story), "its review is queued");
    story.review(Verdict::Approved, &[]);
    assert_eq!(story.at(id).state, State::AwaitingPrFeedback);
    assert!(is_past(&mut story));
    assert!(!propose(&mut story, &change, &Proposal::ChecksPassed));
    let green = of(
        &change,
        &[
            reported(7, "test", CheckState::Passing),
            reported(8, "build", CheckState::Passing),
        ],
    );
    read_with_checks(&mut story, &change, &[], Some(&green));
    assert!(propose(&mut story, &change, &Proposal::ChecksPassed));
    assert_eq!(story.at(id).state, State::ReadyForHumanReview);
    assert!(propose(&mut story, &change, &Proposal::ChecksOpen));
    assert_eq!(story.at(id).state, State::AwaitingPrFeedback);
    story.check();
}
