//! Cases for pull requests: adopted, read, judged, ended and reopened.

use std::time::Duration;

use serde_json::json;

use super::story::{EVALUATOR, Story, escalation, fix_done, new_change};
use crate::blackboard::{self as bb, BoardError};
use crate::change::{AdoptedBy, Change, ChangeId, ProjectId, State};
use crate::event::EventType;
use crate::event::body;
use crate::finding::Verdict;
use crate::proposal::{Escalation, Proposal};
use crate::pull_request::{
    Author, AuthorKind, Comment, CommentKind, Description, FeedbackOutcome, Permission, Pull,
    PullState, Purpose, ReadTrouble, ReviewState, Trust, TrustDecision,
};
use crate::work::RejectionState;

const NUMBER: i64 = 42;

fn shop() -> ProjectId {
    ProjectId::new("shop")
}

fn author(login: &str) -> Author {
    let id = i64::try_from(login.len()).unwrap();
    Author {
        id,
        login: login.into(),
        kind: AuthorKind::User,
    }
}

pub(super) fn pull(number: i64, head: &str) -> Pull {
    Pull {
        number,
        title: "Retry payments".into(),
        body: None,
        state: PullState::Open,
        draft: false,
        author: Some(author("ann")),
        head_ref: "retry".into(),
        head_sha: head.into(),
        head_repo: Some("ann/shop".into()),
        base_repo: "ann/shop".into(),
        default_branch: "main".into(),
        base_ref: "main".into(),
        labels: vec!["remand".into()],
        opened_at: "2026-11-16T07:00:00Z".into(),
        updated_at: "2026-11-16T07:00:00Z".into(),
        url: "https://github.com/ann/shop/pull/42".into(),
    }
}

fn purpose() -> Purpose {
    Purpose {
        description: Some(Description {
            text: "retries payments".into(),
            trust: Trust::MayMakeWork,
            reason: "may write".into(),
        }),
        issue: None,
    }
}

/// Adopts a pull request. Its review is queued.
pub(super) fn adopted(story: &mut Story) -> Change {
    let mut new = new_change(40);
    new.state = State::AwaitingPrFeedback;
    let adoption = bb::Adoption {
        pull: pull(NUMBER, &new.head),
        change: new,
        purpose: purpose(),
        repo: "ann/shop".into(),
        by: AdoptedBy::Discovery,
        own_worktree: true,
    };
    let (change, is_new) = story
        .step(|conn, now| bb::adopt(conn, &adoption, now))
        .unwrap();
    let again = story
        .step(|conn, now| bb::adopt(conn, &adoption, now))
        .unwrap();
    assert!(is_new);
    assert_eq!(again, (change.clone(), false));
    change
}

pub(super) fn review(forge_id: i64, state: ReviewState, body: &str) -> (Comment, TrustDecision) {
    (
        Comment {
            kind: CommentKind::Review,
            forge_id,
            author: Some(author("bob")),
            body: body.into(),
            state: Some(state),
            commit: None,
            path: None,
            line: None,
            hunk: None,
            review: None,
            in_reply_to: None,
            created_at: "2026-11-16T08:00:00Z".into(),
            updated_at: "2026-11-16T08:00:00Z".into(),
            url: "https://github.com/ann/shop/pull/42#r".into(),
        },
        TrustDecision {
            trust: Trust::MayMakeWork,
            reason: "may write".into(),
            is_person: true,
        },
    )
}

/// Stores a read with these comments.
pub(super) fn read(story: &mut Story, change: &Change, said: &[(Comment, TrustDecision)]) -> usize {
    read_with_checks(story, change, said, None)
}

/// Stores a read with these comments and checks.
pub(super) fn read_with_checks(
    story: &mut Story,
    change: &Change,
    said: &[(Comment, TrustDecision)],
    checks: Option<&bb::ReadChecks>,
) -> usize {
    story
        .step(|conn, now| {
            let read = bb::Read {
                checks: checks.cloned(),
                row: bb::pull_row(conn, &shop(), NUMBER)?.expect("it was adopted"),
                known_head: bb::change(conn, &change.change_id)?.head,
                change_id: change.change_id.clone(),
                pull: Some((pull(NUMBER, &change.head), Some("\"etag\"".into()))),
                purpose: purpose(),
                head: change.head.clone(),
                passed_over: None,
                comments: said.to_vec(),
                head_since: None,
                marks: json!({ "reviews": 1 }),
                begun: now,
                after: bb::newest_event(conn)?,
                next_read: Some(now.plus(Duration::from_secs(60))),
            };
            bb::take_in_pull(conn, &read, now)
        })
        .unwrap()
}

fn propose(story: &mut Story, change: &Change, step: &Proposal) -> bool {
    story
        .step(|conn, now| bb::apply_proposal(conn, EVALUATOR, &change.change_id, step, now))
        .unwrap()
}

/// Stores a review that requests changes, and turns it into a rejection.
fn requested(story: &mut Story, change: &Change) {
    read(
        story,
        change,
        &[review(
            7,
            ReviewState::ChangesRequested,
            "bound the retries",
        )],
    );
    let rejected = body::WorkRejected {
        verdict: Some(Verdict::ChangesRequested),
        head: Some(change.head.clone()),
        body: "bound the retries".into(),
        feedback: Some(vec!["g1".into()]),
        begins_round: Some(true),
        ..Default::default()
    };
    assert!(propose(
        story,
        change,
        &Proposal::Reject {
            by: "github:bob".into(),
            summary: "bob requests changes".into(),
            rejected: Box::new(rejected),
        }
    ));
}

fn dismiss(story: &mut Story, change: &Change) {
    let dismissed = review(7, ReviewState::Dismissed, "bound the retries");
    assert_eq!(read(story, change, &[dismissed]), 1);
}

#[test]
fn a_pull_request_is_adopted_once_and_found_by_its_number() {
    let mut story = Story::begin();
    let change = adopted(&mut story);
    let now = story.now();
    story.engine.read(|conn| {
        assert_eq!(bb::find_change(conn, "Ann/Shop#42")?, change);
        assert_eq!(bb::open_adoptions(conn, &shop())?, 1);
        let row = bb::pull_row(conn, &shop(), NUMBER)?.unwrap();
        assert_eq!(
            bb::pull_of_change(conn, &change.change_id)?,
            Some(row.clone())
        );
        assert_eq!(row.purpose, purpose());
        assert_eq!(row.labels, ["remand"]);
        assert_eq!(bb::due_pulls(conn, now)?, std::slice::from_ref(&row));
        assert_eq!(bb::next_read(conn)?, row.next_read);
        assert_eq!(
            bb::unjudged_pulls(conn)?,
            std::slice::from_ref(&change.change_id)
        );
        assert_eq!(bb::attached_changes(conn)?, []);
        assert!(bb::was_on_remote(conn, &change.change_id, &change.head)?);
        Ok(())
    });
    assert!(
        story
            .step(|conn, _| bb::set_detached(conn, &change))
            .unwrap()
    );
    // A pull request that the rules did not select, and that is no longer open.
    let ended = story.step(|conn, _| {
        bb::see_pull(conn, &shop(), &pull(43, "x"), Some("a draft"))?;
        bb::end_unadopted(conn, &shop(), &[NUMBER])
    });
    assert_eq!(ended.unwrap(), 1);
    story.check();
}

#[test]
fn a_read_is_asked_for_put_off_and_kept() {
    let mut story = Story::begin();
    let change = adopted(&mut story);
    let id = &change.change_id;
    read(&mut story, &change, &[]);
    assert!(
        story
            .step(|conn, now| bb::want_read(conn, id, now))
            .unwrap()
    );
    let row = |story: &mut Story| {
        let row = story.engine.read(|conn| bb::pull_of_change(conn, id));
        row.unwrap()
    };
    let before = row(&mut story);
    assert_eq!(before.next_read, Some(story.now()));
    let failed = bb::FailedRead {
        reason: "503".into(),
        kind: ReadTrouble::Transient,
        next_read: story.now().plus(Duration::from_secs(600)),
        holds: true,
    };
    story
        .step(|conn, now| {
            bb::keep_pages(conn, &before, &json!({ "reviews": [] }))?;
            bb::fail_read(conn, &before, &failed, now)
        })
        .unwrap();
    let after = row(&mut story);
    assert_eq!((after.failures, after.slow_reads), (1, 1));
    assert_eq!(after.kept_pages, json!({ "reviews": [] }));
    assert_eq!(story.at(id).held_until, Some(failed.next_read));
    story
        .step(|conn, now| bb::end_read_hold(conn, id, now))
        .unwrap();
    assert_eq!(story.at(id).held_until, None);
    let left = story.engine.read(bb::unjudged_as_seen);
    assert_eq!(left.len(), 1);
    let any_unjudged = |story: &mut Story, left: &bb::LeftUnjudged| {
        story.engine.read(|conn| bb::any_unjudged(conn, left))
    };
    assert!(any_unjudged(&mut story, &bb::LeftUnjudged::new()));
    assert!(!any_unjudged(&mut story, &left));
    story.step(|conn, _| bb::set_judged(conn, id)).unwrap();
    assert_eq!(story.engine.read(bb::unjudged_pulls), []);
    assert_eq!(story.engine.read(bb::unjudged_as_seen), []);
    story.check();
}

#[test]
fn rejections_that_wait_for_a_requested_read_are_nothing_to_do() {
    let mut story = Story::begin();
    let change = adopted(&mut story);
    let id = &change.change_id;
    let any = |story: &mut Story, needs_read| {
        let now = story.now();
        story
            .engine
            .read(|conn| bb::any_pending(conn, State::ALL, needs_read, now))
    };
    let reject = |story: &mut Story, by: &str| {
        let rejected = body::WorkRejected::default();
        story
            .step(|conn, now| bb::reject_change(conn, id, by, "no", &rejected, now))
            .unwrap()
    };
    let needs_read = |story: &mut Story| story.engine.read(|conn| bb::needs_read(conn, id));
    read(&mut story, &change, &[]);
    assert!(!any(&mut story, true) && !needs_read(&mut story));
    reject(&mut story, "ci");
    assert!(any(&mut story, true), "the read is not requested yet");
    assert!(needs_read(&mut story));
    story
        .step(|conn, now| bb::want_read(conn, id, now))
        .unwrap();
    assert!(!any(&mut story, true));
    assert!(any(&mut story, false), "the evaluator needs no read");
    reject(&mut story, "github:ann");
    assert!(any(&mut story, true), "the newest was made there");
    assert!(!needs_read(&mut story));
    reject(&mut story, "ci");
    assert!(!any(&mut story, true) && needs_read(&mut story));
    read(&mut story, &change, &[]);
    assert!(any(&mut story, true), "read after the newest");
    assert!(!needs_read(&mut story));
    reject(&mut story, "ci");
    assert!(any(&mut story, true), "the next read is in a minute");
    let failed = bb::FailedRead {
        reason: "503".into(),
        kind: ReadTrouble::Transient,
        next_read: story.now().plus(Duration::from_secs(600)),
        holds: false,
    };
    story
        .step(|conn, now| {
            let row = bb::pull_of_change(conn, id)?.unwrap();
            bb::fail_read(conn, &row, &failed, now)
        })
        .unwrap();
    assert!(!any(&mut story, true), "a failed read is repeated");
    assert!(needs_read(&mut story));
    story.check();
}

#[test]
fn a_project_looks_for_pull_requests_until_it_is_told_not_to() {
    let mut story = Story::begin();
    let next = story.now().plus(Duration::from_secs(300));
    let marks = json!({ "etag": "x" });
    for (trouble, failures) in [(Some("503"), 1), (Some("503"), 2), (None, 0)] {
        let looked = bb::Looked {
            trouble: trouble.map(|trouble| (ReadTrouble::Transient, trouble)),
            next_read: next,
            marks: Some(&marks),
        };
        story
            .step(|conn, now| bb::set_discovery(conn, &shop(), &looked, now))
            .unwrap();
        let known = story.engine.read(|conn| bb::discovery(conn, &shop()));
        assert_eq!((known.failures, known.next_read), (failures, Some(next)));
        assert_eq!(known.marks.as_ref(), Some(&marks));
    }
    story
        .step(|conn, _| bb::end_discovery(conn, &shop()))
        .unwrap();
    let known = story.engine.read(|conn| bb::discovery(conn, &shop()));
    assert_eq!((known.next_read, known.marks), (None, None));
}

#[test]
fn the_rate_and_a_permission_are_known_for_a_while() {
    let mut story = Story::begin();
    let hour = Duration::from_secs(3_600);
    let rate = bb::Rate {
        allowed: 5_000,
        remaining: 4_999,
        resets_at: story.now().plus(hour),
        seen_at: story.now(),
    };
    story
        .step(|conn, now| {
            bb::set_rate(conn, &rate)?;
            bb::set_permission(conn, "ann/shop", &author("bob"), Permission::Write, now)
        })
        .unwrap();
    assert_eq!(story.engine.read(bb::rate).unwrap().remaining, 4_999);
    let id = author("bob").id;
    for expected in [Some(Permission::Write), None] {
        let now = story.now();
        let known = story
            .engine
            .read(|conn| bb::known_permission(conn, "ann/shop", id, hour, now));
        assert_eq!(known, expected);
        story.pass(hour);
    }
}

#[test]
fn what_was_said_is_stored_once_and_judged_once() {
    let mut story = Story::begin();
    let change = adopted(&mut story);
    let id = &change.change_id;
    let said = review(7, ReviewState::Commented, "nice");
    assert_eq!(read(&mut story, &change, std::slice::from_ref(&said)), 1);
    assert_eq!(read(&mut story, &change, &[said]), 0);
    // An edit is noticed, but does not change the stored text.
    read(
        &mut story,
        &change,
        &[review(7, ReviewState::Commented, "not nice")],
    );
    assert_eq!(story.events(id, EventType::Skipped).len(), 1);
    story.engine.read(|conn| {
        let known = bb::known_comments(conn, id)?;
        assert_eq!(known["review:7"], "2026-11-16T08:00:00Z");
        assert_eq!(bb::unjudged_said(conn, id)?[0].body, "nice");
        assert_eq!(bb::judged_alone(conn, id)?, []);
        assert_eq!(bb::feedback(conn, "g1")?.feedback_id, "g1");
        Ok(())
    });
    let settle = || Proposal::Settle {
        feedback_id: "g1".into(),
        outcome: FeedbackOutcome::SaysNothing,
        reason: None,
    };
    assert!(propose(&mut story, &change, &settle()));
    assert!(!propose(&mut story, &change, &settle()));
    let said = story.engine.read(|conn| bb::said_of(conn, id));
    assert_eq!(said[0].outcome, Some(FeedbackOutcome::SaysNothing));
}

#[test]
fn a_dismissed_review_asks_for_nothing_any_more() {
    let mut story = Story::begin();
    let change = adopted(&mut story);
    requested(&mut story, &change);
    assert_eq!(
        story.rejection_states(&change.change_id),
        [RejectionState::Pending]
    );
    dismiss(&mut story, &change);
    assert_eq!(
        story.rejection_states(&change.change_id),
        [RejectionState::Skipped]
    );
    story.check();
}

#[test]
fn a_review_that_is_dismissed_during_its_fix_ends_the_fix() {
    let mut story = Story::begin();
    let change = adopted(&mut story);
    requested(&mut story, &change);
    story.beat();
    let claimed = story.claim();
    story.run(&claimed);
    dismiss(&mut story, &change);
    assert_eq!(
        story.rejection_states(&change.change_id),
        [RejectionState::Skipped]
    );
    story.check();
}

#[test]
fn a_dismissed_approval_is_none_any_more() {
    let mut story = Story::begin();
    let change = adopted(&mut story);
    read(&mut story, &change, &[review(7, ReviewState::Approved, "")]);
    let approve = Proposal::Approve {
        by: "bob".into(),
        head: change.head.clone(),
        feedback_id: "g1".into(),
    };
    assert!(propose(&mut story, &change, &approve));
    story.beat();
    assert_eq!(story.at(&change.change_id).state, State::Approved);
    let dismissed = review(7, ReviewState::Dismissed, "");
    read(&mut story, &change, &[dismissed]);
    assert_ne!(story.at(&change.change_id).state, State::Approved);
    story.check();
}

#[test]
fn what_was_pending_comes_back_with_its_pull_request() {
    let mut story = Story::begin();
    let change = adopted(&mut story);
    let id = &change.change_id;
    requested(&mut story, &change);
    assert!(propose(&mut story, &change, &Proposal::Closed));
    assert!(!propose(&mut story, &change, &Proposal::Closed));
    assert_eq!(story.at(id).state, State::Closed);
    let stays = || Proposal::StaysClosed {
        reason: "another has its branch".into(),
    };
    assert!(propose(&mut story, &change, &stays()));
    assert!(!propose(&mut story, &change, &stays()));
    assert!(propose(&mut story, &change, &Proposal::Reopened));
    assert_eq!(story.rejection_states(id), [RejectionState::Pending]);
    // Closed again, and pushed to meanwhile: a person's request remains.
    propose(&mut story, &change, &Proposal::Closed);
    let pushed = Change {
        head: "e".repeat(40),
        ..change.clone()
    };
    read(&mut story, &pushed, &[]);
    propose(&mut story, &change, &Proposal::Reopened);
    assert_eq!(story.at(id).head, pushed.head);
    assert_eq!(story.rejection_states(id), [RejectionState::Pending]);
    assert!(propose(&mut story, &change, &Proposal::Merged));
    assert_eq!(story.at(id).state, State::Merged);
    story.check();
}

#[test]
fn what_waited_for_a_person_waits_again_when_its_pull_request_is_reopened() {
    let mut story = Story::begin();
    let change = adopted(&mut story);
    let id = &change.change_id;
    requested(&mut story, &change);
    story
        .step(|conn, now| bb::escalate(conn, id, &escalation(), now))
        .unwrap();
    propose(&mut story, &change, &Proposal::Closed);
    propose(&mut story, &change, &Proposal::Reopened);
    let back = story.at(id);
    assert_eq!(back.state, State::Escalated);
    assert!(back.human_review_required);
    assert_eq!(story.rejection_states(id), [RejectionState::Escalated]);
    story.check();
}

#[test]
fn a_person_retries_a_pull_request_that_could_not_be_read() {
    let mut story = Story::begin();
    let change = adopted(&mut story);
    let id = &change.change_id;
    let unreadable = Escalation {
        bound: Some(crate::proposal::Bound::Unreadable),
        ..escalation()
    };
    story
        .step(|conn, now| bb::escalate(conn, id, &unreadable, now))
        .unwrap();
    let back = story
        .step(|conn, now| bb::retry(conn, id, "ann", now))
        .unwrap();
    assert_eq!(back.state, State::AwaitingPrFeedback);
    let row = story.engine.read(|conn| bb::pull_of_change(conn, id));
    assert_eq!(row.unwrap().next_read, Some(story.now()));
    story.check();
}

#[test]
fn the_rules_the_head_and_the_base_of_a_pull_request_change() {
    let mut story = Story::begin();
    let change = adopted(&mut story);
    let id = &change.change_id;
    story
        .step(|conn, now| bb::unwanted(conn, id, &pull(NUMBER, "x"), "a draft", now))
        .unwrap();
    assert!(story.at(id).paused_by_rules);
    propose(&mut story, &change, &Proposal::Wanted);
    assert!(!story.at(id).paused_by_rules);
    let to = "release".to_owned();
    propose(&mut story, &change, &Proposal::Retargeted { to });
    assert_eq!(story.at(id).base, "release");
    let to = "d".repeat(40);
    propose(&mut story, &change, &Proposal::HeadMoved { to: to.clone() });
    assert_eq!(story.at(id).head, to);
    story
        .step(|conn, now| {
            bb::set_up_for(conn, id, "npm ci")?;
            bb::add_gate_leftovers(conn, id, &["b".into(), "a".into()])?;
            bb::add_gate_leftovers(conn, id, &["a".into()])?;
            bb::stop_fixing(conn, id, &[], now)
        })
        .unwrap();
    let left = story.engine.read(|conn| bb::gate_leftovers(conn, id));
    assert_eq!(left, ["a", "b"]);
    let after = story.at(id);
    assert_eq!(after.setup_done.as_deref(), Some("npm ci"));
    assert!(!after.auto_fix);
    story.check();
}

#[test]
fn a_pushed_fix_moves_the_head_of_its_pull_request() {
    let mut story = Story::begin();
    let change = adopted(&mut story);
    requested(&mut story, &change);
    story.beat();
    let claimed = story.claim();
    story.run(&claimed);
    let done = bb::FixDone {
        pushed_to: Some("origin".into()),
        ..fix_done(&change.head)
    };
    story
        .step(|conn, now| bb::finish_fix(conn, &claimed.claim(), &done, now))
        .unwrap();
    let row = story
        .engine
        .read(|conn| bb::pull_of_change(conn, &change.change_id));
    assert_eq!(row.unwrap().head_sha, done.head_after);
    story.check();
}

#[test]
fn a_verdict_on_a_head_that_moved_is_taken_back_where_there_is_no_pull_request() {
    let mut story = Story::begin();
    story.change();
    story.review(Verdict::Approved, &[]);
    let (_, _, seen) = story.engine.read(bb::judged_without_pull).remove(0);
    let tip = "d".repeat(40);
    let taken = story.step(|conn, now| bb::take_back_verdict(conn, &seen, &tip, now));
    assert!(taken.unwrap());
    assert_eq!(story.engine.read(bb::judged_without_pull), []);
    assert_eq!(story.at(&seen.change_id).head, tip);
    story.check();
}

#[test]
fn a_pull_request_that_is_closed_is_not_adopted() {
    let mut story = Story::begin();
    let closed = bb::Adoption {
        change: new_change(40),
        pull: Pull {
            state: PullState::Closed,
            ..pull(NUMBER, "x")
        },
        purpose: Purpose::default(),
        repo: "ann/shop".into(),
        by: AdoptedBy::Watch,
        own_worktree: false,
    };
    let refused = story.step(|conn, now| bb::adopt(conn, &closed, now));
    assert!(matches!(refused, Err(BoardError::Refused { .. })));
    assert!(
        story
            .engine
            .read(|conn| bb::still_there(conn, &ChangeId::new("c1")))
            .is_none()
    );
}
