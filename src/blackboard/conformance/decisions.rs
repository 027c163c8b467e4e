//! Cases for decisions of a person that end a stage, start it again, or take a change over.

use super::story::{Story, finding};
use crate::blackboard::{self as bb, BoardError, Handback, Takeover};
use crate::change::{Change, ChangeId, State};
use crate::event::body::{self, Action};
use crate::event::{EventType, NewEvent};
use crate::finding::{FindingId, Outcome, Verdict};
use crate::work::{Ended, RejectionEnd, RejectionState, Source, Status};

/// Commands of the table, in the order of its columns.
const COMMANDS: [Command; 7] = [
    Command::Skip,
    Command::Ready,
    Command::Waive,
    Command::TakeOver,
    Command::HandBack,
    Command::HandBackCommits,
    Command::Reopen,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Skip,
    Ready,
    Waive,
    TakeOver,
    /// After a takeover, without and with new commits.
    HandBack,
    HandBackCommits,
    Reopen,
}

impl Command {
    fn action(self) -> Action {
        match self {
            Self::Skip => Action::Skip,
            Self::Ready => Action::Ready,
            Self::Waive => Action::Waive,
            Self::TakeOver => Action::Takeover,
            Self::HandBack | Self::HandBackCommits => Action::Handback,
            Self::Reopen => Action::Reopen,
        }
    }
}

fn head(letter: &str) -> String {
    letter.repeat(40)
}

fn given(head: String, text: Option<&str>) -> Handback {
    Handback {
        head,
        commits: 1,
        files: vec!["a.rs".into()],
        text: text.map(str::to_owned),
    }
}

impl Story {
    /// Creates a change with a rejected head, in any state.
    fn change_at(&mut self, state: State, has_pr: bool) -> Change {
        let change = self.change();
        self.review(Verdict::ChangesRequested, &[finding("a.rs", "no bound")]);
        if has_pr {
            self.engine.with_pr(42);
        }
        self.engine.place(&change.change_id, state);
        self.at(&change.change_id)
    }

    fn command(&mut self, command: Command, change: &Change) -> bb::Result<Change> {
        let id = change.change_id.clone();
        let first = || FindingId::new("f1");
        self.step(|conn, now| match command {
            Command::Skip => bb::skip(conn, &id, Some("so"), "ann", now),
            Command::Ready => bb::mark_ready(conn, &id, None, "ann", now),
            Command::Waive => bb::waive(conn, &[first()], "accepted", "ann", now),
            Command::TakeOver => bb::take_over(conn, &id, &Takeover::default(), "ann", now),
            Command::HandBack => {
                bb::hand_back(conn, &id, &given(change.head.clone(), None), "ann", now)
            }
            Command::HandBackCommits => bb::hand_back(
                conn,
                &id,
                &given(head("e"), Some("mind the tests")),
                "ann",
                now,
            ),
            Command::Reopen => bb::reopen_change(conn, &id, (None, None), "ann", now),
        })
    }

    fn taken_over(&mut self, id: &ChangeId) -> Change {
        self.step(|conn, now| bb::take_over(conn, id, &Takeover::default(), "ann", now))
            .unwrap()
    }
}

/// S0-62, S0-96, S1-25, GZ-11: every state with every decision. `None` is refused with a reason.
///
/// The states after the decision are those of a change without a pull request; see below for one
/// with a pull request.
#[test]
fn every_state_with_every_decision() {
    use State as S;
    let ready = Some(S::ReadyForHumanReview);
    let review = Some(S::PendingSelfReview);
    let feedback = Some(S::AwaitingPrFeedback);
    let same = |state: State| Some(state);
    let mut refused = 0;
    for &state in S::ALL {
        // skip, ready, waive, takeover, handback, handback with commits, reopen
        let row: [Option<State>; 7] = match state {
            S::Queued | S::Implementing => [
                None,
                None,
                same(state),
                same(state),
                same(state),
                review,
                None,
            ],
            S::PendingSelfReview | S::SelfReviewFailed | S::Refining => {
                [ready, ready, review, same(state), same(state), review, None]
            }
            S::SelfReviewing => [
                ready,
                ready,
                same(state),
                same(state),
                same(state),
                review,
                None,
            ],
            S::Escalated => [
                ready,
                ready,
                same(state),
                same(state),
                same(state),
                review,
                None,
            ],
            S::AwaitingPrFeedback => [
                None,
                ready,
                feedback,
                same(state),
                same(state),
                feedback,
                None,
            ],
            S::AddressingFeedback => [None, ready, review, same(state), same(state), review, None],
            S::SelfReviewPassed | S::PrCreated | S::ReviewingPr | S::Approved => [
                None,
                ready,
                same(state),
                same(state),
                same(state),
                review,
                None,
            ],
            S::ReadyForHumanReview => [
                None,
                None,
                same(state),
                same(state),
                same(state),
                review,
                None,
            ],
            S::Merged => [None; 7],
            S::Closed => [None, None, None, None, None, None, review],
        };
        for (command, expected) in COMMANDS.into_iter().zip(row) {
            for has_pr in [false, true] {
                if has_pr && !may_have_pr(state) {
                    continue;
                }
                let mut story = Story::begin();
                let change = story.change_at(state, has_pr);
                let id = &change.change_id;
                let what = format!("{command:?} in state {state}, PR: {has_pr}");
                let is_handback = matches!(command, Command::HandBack | Command::HandBackCommits);
                if is_handback && !state.is_over() {
                    story.taken_over(id);
                }
                let expected = match (command, expected) {
                    (Command::Skip, _) if has_pr => None,
                    (_, Some(S::PendingSelfReview)) if has_pr => feedback,
                    (_, expected) => expected,
                };
                let before = story.engine.image();
                match (story.command(command, &change), expected) {
                    (Ok(after), Some(expected)) => {
                        assert_eq!(after.state, expected, "{what}");
                        assert_eq!(after.taken_over, command == Command::TakeOver, "{what}");
                        let told = story.events(id, EventType::Instructed).pop().unwrap();
                        let action = told.metadata["action"].as_str();
                        assert_eq!(action, Some(command.action().as_str()), "{what}");
                        assert_eq!(told.actor_id, "ann", "{what}");
                    }
                    (Err(BoardError::Refused { what: reason, .. }), None) => {
                        assert!(reason.contains(id.as_str()), "{what}: {reason}");
                        assert_eq!(story.engine.changed_since(&before), [""; 0], "{what}");
                        refused += 1;
                    }
                    (result, expected) => panic!("{what}: {result:?}, not {expected:?}"),
                }
            }
        }
    }
    assert_eq!(refused, 65);
}

fn may_have_pr(state: State) -> bool {
    matches!(
        state,
        State::AwaitingPrFeedback
            | State::ReviewingPr
            | State::AddressingFeedback
            | State::ReadyForHumanReview
            | State::Approved
            | State::Merged
            | State::Closed
            | State::Escalated
    )
}

#[test]
fn a_takeover_fences_the_running_fix_which_starts_again_without_commits() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let id = &change.change_id;
    let claimed = story.claim();
    let run = story.begin_run(&claimed).unwrap();
    story.taken_over(id);
    let waiting = story.open_items(id).remove(0);
    assert_eq!(
        (waiting.status, waiting.claimed_by),
        (Status::Blocked, None)
    );
    assert_eq!(story.at(id).state, State::Refining);
    let stale = story.step(|conn, now| bb::renew(conn, &claimed.claim(), super::story::LEASE, now));
    assert!(matches!(stale, Err(BoardError::Stale { .. })), "{stale:?}");
    assert!(story.try_claim().is_none());
    let orphans = story.engine.read(bb::orphaned_runs);
    assert_eq!(
        orphans.len(),
        1,
        "the open run is ended by whoever comes first"
    );
    // Not before its agent has ended.
    let early = story.command(Command::HandBack, &change);
    assert!(
        matches!(early, Err(BoardError::Refused { .. })),
        "{early:?}"
    );
    let end = bb::RunEnd {
        ended: Some(Ended::Stopped),
        ..bb::RunEnd::default()
    };
    story
        .step(|conn, now| bb::end_run(conn, &run.run_id, &end, now))
        .unwrap();
    story.command(Command::HandBack, &change).unwrap();
    let again = story.claim();
    assert_eq!(again.item.item_id, claimed.item.item_id);
    let runs = story
        .engine
        .read(|conn| bb::runs_of(conn, &again.item.item_id));
    assert!(
        runs.iter().all(|run| run.discarded),
        "it starts from the beginning"
    );
    story.check();
}

#[test]
fn commits_of_a_person_answer_what_was_asked_before_they_took_over() {
    let mut story = Story::begin();
    let change = story.change_with_fix();
    let id = &change.change_id;
    story.taken_over(id);
    story.reject(id, &super::story::no_round());
    story.beat();
    story.command(Command::HandBackCommits, &change).unwrap();
    let rejections = story.rejections(id);
    let ends: Vec<_> = rejections
        .iter()
        .map(|one| (one.state, one.ended_by))
        .collect();
    let answered = (RejectionState::Skipped, Some(RejectionEnd::HeadMoved));
    assert_eq!(ends, [answered, (RejectionState::Pending, None)]);
    let open = story.open_items(id);
    assert_eq!(open.len(), 1);
    assert_eq!(
        (open[0].source, open[0].status),
        (Source::CodeReview, Status::Available)
    );
    assert_eq!(story.at(id).head, head("e"));
    let guidance = story.engine.read(|conn| bb::open_guidance(conn, id));
    assert_eq!(guidance[0].1.body, "mind the tests");
    story.check();
}

#[test]
fn what_was_taken_over_waits_until_it_is_given_back() {
    let mut story = Story::begin();
    let change = story.change();
    let id = &change.change_id;
    story.taken_over(id);
    story
        .step(|conn, now| bb::pause(conn, id, None, "ann", now))
        .unwrap();
    story
        .step(|conn, now| bb::resume(conn, id, "ann", now))
        .unwrap();
    assert!(
        story.try_claim().is_none(),
        "the end of a pause is no handback"
    );
    let twice = story.command(Command::TakeOver, &change);
    assert!(
        matches!(twice, Err(BoardError::Refused { .. })),
        "{twice:?}"
    );
    story.command(Command::HandBack, &change).unwrap();
    assert!(story.try_claim().is_some());
    story.check();
}

#[test]
fn a_change_that_was_closed_meanwhile_is_only_given_back() {
    let mut story = Story::begin();
    let change = story.change();
    let id = &change.change_id;
    story.taken_over(id);
    story
        .step(|conn, now| bb::cancel_change(conn, id, None, "ann", now))
        .unwrap();
    assert!(story.at(id).taken_over, "the person may still be at work");
    let back = story.command(Command::HandBackCommits, &change).unwrap();
    assert_eq!((back.state, back.taken_over), (State::Closed, false));
    assert_eq!(back.head, change.head);
    story.check();
}

#[test]
fn a_worktree_that_does_not_exist_yet_cannot_be_taken_over() {
    let mut story = Story::begin();
    let change = story.change();
    story.engine.owned(&change.change_id);
    let early = story.command(Command::TakeOver, &change);
    let Err(BoardError::Refused { what, .. }) = early else {
        panic!("{early:?}")
    };
    assert!(what.contains("no worktree yet"), "{what}");
}

#[test]
fn the_last_waived_finding_sends_a_change_at_its_bound_back_to_its_review() {
    let mut story = Story::begin();
    let change = story.change_at_its_bound();
    let id = &change.change_id;
    assert_eq!(change.state, State::Escalated);
    let after = story.command(Command::Waive, &change).unwrap();
    assert_eq!(after.state, State::PendingSelfReview);
    let open = story.open_items(id);
    assert_eq!((open.len(), open[0].source), (1, Source::CodeReview));
    let ended = story.rejections(id).pop().unwrap();
    let waived = (RejectionState::Skipped, Some(RejectionEnd::Waived));
    assert_eq!((ended.state, ended.ended_by), waived);
    let ledger = story.engine.read(|conn| bb::finding_list(conn, id));
    assert_eq!(ledger[0].outcome, Outcome::Waived);
    assert_eq!(ledger[0].note.as_deref(), Some("accepted"));
    let again = story.command(Command::Waive, &change);
    assert!(
        matches!(again, Err(BoardError::Refused { .. })),
        "{again:?}"
    );
    story.check();
}

#[test]
fn a_queued_fix_is_cancelled_only_if_nothing_else_was_asked_for() {
    let mut story = Story::begin();
    let change = story.change();
    let id = &change.change_id;
    let both = [finding("a.rs", "no bound"), finding("b.rs", "no test")];
    story.review(Verdict::ChangesRequested, &both);
    story.beat();
    let waive = |story: &mut Story, one: &str| {
        let ids = [FindingId::new(one)];
        story
            .step(|conn, now| bb::waive(conn, &ids, "accepted", "ann", now))
            .unwrap()
    };
    assert_eq!(waive(&mut story, "f1").state, State::Refining);
    assert_eq!(waive(&mut story, "f2").state, State::PendingSelfReview);
    let sources: Vec<_> = story
        .open_items(id)
        .iter()
        .map(|item| item.source)
        .collect();
    assert_eq!(sources, [Source::CodeReview]);
    story.check();
}

#[test]
fn findings_of_several_changes_are_not_waived_together() {
    let mut story = Story::begin();
    story.change_with_fix();
    story.fix();
    story.review(Verdict::Approved, &[]);
    story.change_with_fix();
    let ids = [FindingId::new("f1"), FindingId::new("f2")];
    let mixed = story.step(|conn, now| bb::waive(conn, &ids, "so", "ann", now));
    let Err(BoardError::Refused { what, .. }) = mixed else {
        panic!("{mixed:?}")
    };
    assert!(what.contains("several changes"), "{what}");
    let unknown = [FindingId::new("f9")];
    let unknown = story.step(|conn, now| bb::waive(conn, &unknown, "so", "ann", now));
    assert!(
        matches!(unknown, Err(BoardError::NotFound { .. })),
        "{unknown:?}"
    );
}

#[test]
fn a_change_is_not_reopened_beside_another_one_of_its_branch() {
    let mut story = Story::begin();
    let change = story.change();
    let id = &change.change_id;
    story
        .step(|conn, now| bb::cancel_change(conn, id, None, "ann", now))
        .unwrap();
    let other = story.change_with(|new| new.branch.clone_from(&change.branch));
    let beside = story.command(Command::Reopen, &change);
    let Err(BoardError::Refused { what, .. }) = beside else {
        panic!("{beside:?}")
    };
    assert!(what.contains(other.change_id.as_str()), "{what}");
    story
        .step(|conn, now| bb::cancel_change(conn, &other.change_id, None, "ann", now))
        .unwrap();
    let back = story.command(Command::Reopen, &change).unwrap();
    assert_eq!(back.state, State::PendingSelfReview);
    assert_eq!(story.open_items(id).len(), 1);
    story.check();
}

#[test]
fn the_base_of_a_task_that_has_not_begun_is_nobodys_work() {
    let mut story = Story::begin();
    let change = story.task(|_| {}).unwrap();
    let id = &change.change_id;
    let made = body::WorktreeMade {
        path: change.worktree.clone(),
        branch: change.branch.clone(),
        head: Some(head("e")),
        restored: false,
    };
    story
        .step(|conn, now| bb::append(conn, &NewEvent::about(id, made, "made"), now))
        .unwrap();
    story.taken_over(id);
    let back = story
        .step(|conn, now| bb::hand_back(conn, id, &given(head("e"), None), "ann", now))
        .unwrap();
    assert_eq!((back.state, back.head.clone()), (State::Queued, head("e")));
    assert_eq!(story.claim().change.state, State::Implementing);
    story.check();
}

#[test]
fn a_fix_that_a_handback_cancelled_is_queued_again() {
    let mut story = Story::begin();
    let change = story.change();
    let id = &change.change_id;
    story.review(Verdict::Approved, &[]);
    story.taken_over(id);
    story.reject(id, &super::story::no_round());
    story.beat();
    story.command(Command::HandBackCommits, &change).unwrap();
    let fixes = |story: &mut Story| {
        let items = story.items(id).into_iter();
        items
            .filter(|item| item.source == Source::ReviewFix)
            .count()
    };
    let before = fixes(&mut story);
    story.review(Verdict::Approved, &[]);
    story.beat();
    assert_eq!(fixes(&mut story), before, "the same item is used");
    assert!(story.rejection_states(id).contains(&RejectionState::InFix));
    story.check();
}

/// S0-62: a task that a person left without its pull request can have it opened; a local one has none.
#[test]
fn a_task_left_without_its_pull_request_can_have_it_opened() {
    for state in [State::ReadyForHumanReview, State::Approved] {
        for opens_pr in [true, false] {
            let mut story = Story::begin();
            let change = story.task(|new| new.opens_pr = opens_pr).unwrap();
            let id = &change.change_id;
            story.implement();
            story.engine.place(id, state);
            match story.command(Command::Skip, &change) {
                Ok(after) => {
                    assert!(opens_pr, "{state}");
                    assert_eq!(after.state, State::SelfReviewPassed);
                    let queued = story.open_items(id).pop().unwrap();
                    assert_eq!(queued.source, Source::PullRequest);
                }
                Err(BoardError::Refused { what, .. }) => {
                    assert!(!opens_pr, "{state}: {what}");
                }
                Err(error) => panic!("{state}: {error}"),
            }
        }
    }
}
