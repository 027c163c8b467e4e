//! Tasks: from the queue to the pull request, and tasks that wait for others.

use super::pulls::{pull, read_with_checks};
use super::story::{EVALUATOR, Story, failure, finding, new_change};
use crate::blackboard::{
    self as bb, GateRejection, ImplementDone, NewTask, OpenedPull, TaskEdit, TaskPlace,
};
use crate::change::{Change, ChangeId, FinalVerdict, OnMaxCycles, ReviewStage, State};
use crate::finding::Verdict;
use crate::proposal::Proposal;
use crate::task::{TaskField, TaskIssue, TaskRow, TaskSpec};
use crate::work::{Priority, RejectionState, Source, Status};

fn new_task(n: usize) -> NewTask {
    let mut change = new_change(n);
    change.state = State::Queued;
    NewTask {
        change,
        task: TaskRow {
            text: "as soon as possible".into(),
            spec: Some(TaskSpec {
                path: "spec.md".into(),
                text: "three times".into(),
            }),
            issue: Some(TaskIssue {
                number: 7,
                title: "Payments are lost".into(),
                body: "often".into(),
                url: String::new(),
                comments: Vec::new(),
            }),
            ..TaskRow::default()
        },
        priority: Priority::P2,
        own_worktree: true,
        auto_review: true,
        opens_pr: true,
        after: None,
    }
}

impl Story {
    pub(super) fn task(&mut self, adjust: impl FnOnce(&mut NewTask)) -> bb::Result<Change> {
        let n = self
            .engine
            .read(|conn| bb::board(conn, bb::Show::All, 1_000))
            .len()
            + 1;
        let mut new = new_task(n);
        adjust(&mut new);
        self.step(|conn, now| bb::add_task(conn, &new, now))
    }

    /// Claims an implementation and ends it with a commit.
    pub(super) fn implement(&mut self) -> Change {
        let claimed = self.claim();
        assert_eq!(claimed.change.state, State::Implementing);
        let id = claimed.change.change_id.clone();
        self.step(|conn, now| bb::begin_branch(conn, &id, &"a".repeat(40), now))
            .unwrap();
        self.run(&claimed);
        let done = ImplementDone {
            head_before: "a".repeat(40),
            head_after: "b".repeat(40),
            commits: 1,
            files: vec!["pay.rs".into()],
        };
        self.step(|conn, now| bb::finish_implement(conn, &claimed.claim(), &done, now))
            .unwrap()
    }

    fn open_pull(&mut self) -> Change {
        let claimed = self.claim();
        assert_eq!(claimed.item.source, Source::PullRequest);
        let head = claimed.change.head.clone();
        let opened = OpenedPull {
            repo: "ann/shop".into(),
            pull: pull(42, &head),
            head,
            found: false,
        };
        let opened = self
            .step(|conn, now| bb::finish_pull(conn, &claimed.claim(), &opened, now))
            .unwrap();
        assert_eq!(
            opened.state,
            State::AwaitingPrFeedback,
            "its checks are unread"
        );
        let none = bb::ReadChecks {
            head: opened.head.clone(),
            ..Default::default()
        };
        read_with_checks(self, &opened, &[], Some(&none));
        let id = &opened.change_id;
        self.step(|conn, now| {
            assert!(bb::is_past_review(conn, &opened)?);
            bb::apply_proposal(conn, EVALUATOR, id, &Proposal::ChecksPassed, now)
        })
        .unwrap();
        self.at(id)
    }
}

#[test]
fn a_task_is_implemented_reviewed_and_opened() {
    let mut story = Story::begin();
    let change = story.task(|_| {}).unwrap();
    let id = &change.change_id;
    assert_eq!(change.state, State::Queued);
    assert_eq!(change.implementation_item_id.as_deref(), Some("w1"));
    story.check();
    let task = story.engine.read(|conn| bb::task(conn, id)).unwrap();
    assert_eq!(task, new_task(1).task);
    let reviewed = story.implement();
    assert_eq!(reviewed.state, State::PendingSelfReview);
    assert_eq!(reviewed.head, "b".repeat(40));
    story.check();
    let passed = story.review(Verdict::Approved, &[]);
    assert_eq!(passed.state, State::SelfReviewPassed);
    story.check();
    let opened = story.open_pull();
    assert_eq!(opened.state, State::ReadyForHumanReview);
    assert_eq!(opened.pr_number, Some(42));
    assert!(!opened.human_review_required);
    story.check();
    assert_eq!(
        story.statuses(id),
        [Status::Completed; 3],
        "implementation, review, pull request"
    );
}

#[test]
fn gates_that_fail_before_the_pull_request_send_it_back() {
    let mut story = Story::begin();
    let id = story.task(|_| {}).unwrap().change_id;
    story.implement();
    story.review(Verdict::Approved, &[]);
    let claimed = story.claim();
    let red = GateRejection {
        head: "b".repeat(40),
        base: "a".repeat(40),
        command: "make test".into(),
        status: Some(1),
        summary: "the gate fails".into(),
        body: "its output".into(),
    };
    let back = story
        .step(|conn, now| bb::reject_by_gate(conn, &claimed.claim(), &red, now))
        .unwrap();
    assert_eq!(back.state, State::SelfReviewFailed);
    assert_eq!(story.rejection_states(&id), [RejectionState::Pending]);
    story.check();
}

#[test]
fn a_rejection_takes_back_a_pull_request_that_is_not_open_yet() {
    let mut story = Story::begin();
    let id = story.task(|_| {}).unwrap().change_id;
    story.implement();
    story.review(Verdict::Approved, &[]);
    story
        .engine
        .by_hand("work_rejected", ("change", id.as_str()), "not like this");
    story.beat();
    assert_eq!(story.at(&id).state, State::Refining);
    let open = story.open_items(&id);
    assert_eq!(open.len(), 1);
    assert_eq!(open[0].source, Source::ReviewFix);
    story.check();
}

#[test]
fn without_reviews_the_pull_request_follows_the_implementation() {
    let mut story = Story::begin();
    let id = story
        .task(|new| new.change.review.stage = ReviewStage::Off)
        .unwrap()
        .change_id;
    assert_eq!(story.implement().state, State::SelfReviewPassed);
    assert_eq!(story.open_pull().state, State::ReadyForHumanReview);
    let local = |new: &mut NewTask| {
        new.change.review.stage = ReviewStage::Off;
        new.opens_pr = false;
    };
    story.task(local).unwrap();
    assert_eq!(story.implement().state, State::ReadyForHumanReview);
    story
        .task(|new| new.change.review.stage = ReviewStage::OnPr)
        .unwrap();
    assert_eq!(story.implement().state, State::SelfReviewPassed);
    let claimed = story.claim();
    let opened = OpenedPull {
        repo: "ann/shop".into(),
        pull: pull(43, &claimed.change.head),
        head: claimed.change.head.clone(),
        found: true,
    };
    let there = story
        .step(|conn, now| bb::finish_pull(conn, &claimed.claim(), &opened, now))
        .unwrap();
    assert_eq!(
        there.state,
        State::AwaitingPrFeedback,
        "its review is queued"
    );
    assert_eq!(story.at(&id).state, State::ReadyForHumanReview);
    story.check();
}

#[test]
fn at_the_limit_it_is_opened_and_marked() {
    let mut story = Story::begin();
    let anyway = |new: &mut NewTask| {
        new.change.bounds.on_max_cycles = OnMaxCycles::PrAnyway;
        new.change.bounds.max_fix_cycles = 0;
    };
    let id = story.task(anyway).unwrap().change_id;
    story.implement();
    story.review(
        Verdict::ChangesRequested,
        &[finding("pay.rs", "it is lost")],
    );
    story.beat();
    assert_eq!(story.at(&id).state, State::SelfReviewPassed);
    let opened = story.open_pull();
    assert_eq!(opened.state, State::ReadyForHumanReview);
    assert_eq!(opened.final_verdict, Some(FinalVerdict::MaxCyclesReached));
    assert!(opened.human_review_required);
    story.check();
}

#[test]
fn without_automatic_reviews_a_person_starts_each_step() {
    let mut story = Story::begin();
    let manual = |new: &mut NewTask| new.auto_review = false;
    let id = story.task(manual).unwrap().change_id;
    assert_eq!(story.implement().state, State::PendingSelfReview);
    assert_eq!(story.try_claim().map(|claimed| claimed.item), None);
    story.check();
    let change = story.at(&id);
    story
        .step(|conn, now| bb::queue_review(conn, &change, "ann", now))
        .unwrap();
    story.review(
        Verdict::ChangesRequested,
        &[finding("pay.rs", "it is lost")],
    );
    story.beat();
    assert_eq!(story.at(&id).state, State::SelfReviewFailed, "no fix yet");
    story.check();
    let refine = |story: &mut Story, text: Option<&str>| {
        let text = text.map(str::to_owned);
        story
            .step(|conn, now| bb::refine(conn, &id, text.as_deref(), "ann", now))
            .unwrap();
        story.beat();
        assert_eq!(story.at(&id).state, State::Refining);
        story.fix();
        assert_eq!(story.at(&id).state, State::PendingSelfReview);
        assert_eq!(story.open_items(&id), []);
        story.check();
    };
    refine(&mut story, None);
    refine(&mut story, Some("and this"));
}

#[test]
fn a_task_waits_for_another() {
    let mut story = Story::begin();
    let first = story.task(|_| {}).unwrap().change_id;
    let after = |new: &mut NewTask| new.after = Some(ChangeId::new("c1"));
    let second = story.task(after).unwrap().change_id;
    let third = story
        .task(|new| new.after = Some(ChangeId::new("c2")))
        .unwrap()
        .change_id;
    story.check();
    let claimed = story.claim();
    assert_eq!(claimed.change.change_id, first);
    assert!(story.try_claim().is_none(), "the others wait");
    for step in [
        bb::pause,
        |conn: &bb::Conn, id: &ChangeId, _: Option<&str>, by: &str, now| {
            bb::resume(conn, id, by, now)
        },
    ] {
        story
            .step(|conn, now| step(conn, &second, None, "ann", now))
            .unwrap();
        assert!(story.try_claim().is_none(), "a resumed one still waits");
    }
    story
        .step(|conn, now| bb::advance(conn, &first, crate::state::Trigger::Merged, "ann", now))
        .unwrap();
    assert_eq!(story.at(&second).waits_for, None);
    assert_eq!(story.claim().change.change_id, second);
    // The second fails, so a person decides about both.
    let claim = crate::work::Claim {
        item_id: story.items(&second)[0].item_id.clone(),
        epoch: 1,
    };
    story
        .step(|conn, now| bb::fail(conn, &claim, &failure(), now))
        .unwrap();
    for id in [&second, &third] {
        assert_eq!(story.at(id).state, State::Escalated, "{id}");
        assert_eq!(story.at(id).escalated_from, Some(State::Queued));
    }
    let refused = story.task(|new| new.after = Some(ChangeId::new("c2")));
    assert!(matches!(refused, Err(bb::BoardError::Refused { .. })));
    // A person continues the second: the third waits again.
    story
        .step(|conn, now| bb::retry(conn, &second, "ann", now))
        .unwrap();
    assert_eq!(story.at(&third).state, State::Queued);
    assert_eq!(story.at(&third).waits_for, Some(second.clone()));
    assert_eq!(story.claim().change.change_id, second);
    assert!(story.try_claim().is_none(), "the third waits");
    // Closed and escalated again, and then waiting no longer, because a person said so.
    story
        .step(|conn, now| bb::cancel_change(conn, &second, None, "ann", now))
        .unwrap();
    assert_eq!(story.at(&third).state, State::Escalated);
    story
        .step(|conn, now| bb::retry(conn, &third, "ann", now))
        .unwrap();
    assert_eq!(story.at(&third).waits_for, None);
    assert_eq!(story.claim().change.change_id, third);
    let merged = story.task(|new| new.after = Some(ChangeId::new("c1")));
    assert_eq!(merged.unwrap().waits_for, None);
    let local = story.task(|new| new.opens_pr = false).unwrap().change_id;
    let refused = story.task(|new| new.after = Some(local));
    assert!(matches!(refused, Err(bb::BoardError::Refused { .. })));
}

#[test]
fn a_task_whose_first_one_is_merged_while_a_person_decides_starts() {
    let mut story = Story::begin();
    let first = story.task(|_| {}).unwrap().change_id;
    let second = story
        .task(|new| new.after = Some(ChangeId::new("c1")))
        .unwrap()
        .change_id;
    story
        .step(|conn, now| bb::escalate(conn, &first, &failure(), now))
        .unwrap();
    assert_eq!(story.at(&second).state, State::Escalated);
    story
        .step(|conn, now| bb::advance(conn, &first, crate::state::Trigger::Merged, "ann", now))
        .unwrap();
    assert_eq!(story.claim().change.change_id, second);
}

#[test]
fn a_queued_task_is_edited_and_an_implemented_one_where_it_has_an_effect() {
    let mut story = Story::begin();
    let id = story.task(|_| {}).unwrap().change_id;
    let other = story.task(|_| {}).unwrap().change_id;
    let edit = TaskEdit {
        title: Some("Another title".into()),
        text: Some("later".into()),
        spec: Some(None),
        issue: Some(None),
        agent: Some("claude".into()),
        priority: Some(Priority::P1),
        after: Some(Some(other.clone())),
        place: Some(TaskPlace {
            base: "next".into(),
            branch: "another".into(),
            worktree: "/w/another".into(),
            own_worktree: true,
            head: "c".repeat(40),
        }),
        max_cycles: Some(5),
        draft: Some(true),
        ..TaskEdit::default()
    };
    let apply = |story: &mut Story, id: &ChangeId, edit: &TaskEdit| {
        story.step(|conn, now| bb::edit_task(conn, id, edit, "ann", now))
    };
    let changed = apply(&mut story, &id, &edit).unwrap();
    assert_eq!(changed.len(), 11, "{changed:?}");
    assert_eq!(apply(&mut story, &id, &edit).unwrap(), [], "nothing is new");
    story.check();
    let change = story.at(&id);
    assert_eq!(
        (change.title.as_str(), change.branch.as_str()),
        ("Another title", "another")
    );
    assert_eq!(change.budget.max_fix_cycles, 5);
    let item = &story.items(&id)[0];
    assert_eq!(
        (item.title.as_str(), item.source, item.status),
        ("Implement Another title", Source::Manual, Status::Blocked)
    );
    assert_eq!(item.worktree.as_deref(), Some("/w/another"));
    let task = story.engine.read(|conn| bb::task(conn, &id)).unwrap();
    assert_eq!(
        (task.text.as_str(), task.spec, task.draft),
        ("later", None, true)
    );
    // Neither may wait for the other one now.
    for after in [&id, &other] {
        let cycle = TaskEdit {
            after: Some(Some(after.clone())),
            ..TaskEdit::default()
        };
        let refused = apply(&mut story, after, &cycle);
        assert!(matches!(refused, Err(bb::BoardError::Refused { .. })));
        let refused = apply(&mut story, &other, &cycle);
        assert!(matches!(refused, Err(bb::BoardError::Refused { .. })));
    }
    let taken = TaskEdit {
        place: edit.place.clone(),
        ..TaskEdit::default()
    };
    assert!(
        apply(&mut story, &other, &taken).is_err(),
        "the branch is taken"
    );
    let now = TaskEdit {
        after: Some(None),
        ..TaskEdit::default()
    };
    apply(&mut story, &id, &now).unwrap();
    assert_eq!(
        story.implement().change_id,
        id,
        "it has the highest priority"
    );
    let parts = |story: &mut Story, edit: TaskEdit| apply(story, &id, &edit);
    for refused in [
        edit.after.clone().map(|after| TaskEdit {
            after: Some(after),
            ..TaskEdit::default()
        }),
        edit.place.clone().map(|place| TaskEdit {
            place: Some(TaskPlace {
                branch: "third".into(),
                ..place
            }),
            ..TaskEdit::default()
        }),
    ]
    .into_iter()
    .flatten()
    {
        assert!(matches!(
            parts(&mut story, refused),
            Err(bb::BoardError::Refused { .. })
        ));
    }
    let late = TaskEdit {
        title: Some("Third".into()),
        draft: Some(false),
        ..TaskEdit::default()
    };
    let fields: Vec<TaskField> = parts(&mut story, late.clone())
        .unwrap()
        .into_iter()
        .map(|one| one.field)
        .collect();
    assert_eq!(fields, [TaskField::Title, TaskField::Draft]);
    // Its item is older than the review.
    story
        .step(|conn, now| bb::cancel_change(conn, &other, None, "ann", now))
        .unwrap();
    story.review(Verdict::Approved, &[]);
    story.open_pull();
    let after_pull = TaskEdit {
        draft: Some(true),
        ..TaskEdit::default()
    };
    assert!(parts(&mut story, after_pull).is_err(), "it is open already");
    story.check();
}

/// A task that is not started has nothing that a person could decide about.
#[test]
fn cancelling_the_item_of_a_queued_task_closes_it() {
    let mut story = Story::begin();
    let id = story.task(|_| {}).unwrap().change_id;
    let item = story.items(&id)[0].item_id.clone();
    let item = story
        .step(|conn, now| bb::cancel_item(conn, &item, "no longer needed", "ann", now))
        .unwrap();
    assert_eq!(item.status, Status::Cancelled);
    assert_eq!(story.at(&id).state, State::Closed);
    story.check();
}
