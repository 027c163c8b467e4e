use super::*;
use proptest::prelude::*;

fn facts() -> Facts {
    Facts {
        has_pr: false,
        self_review: true,
        on_max_cycles: OnMaxCycles::Escalate,
        escalated_from: None,
        checks_green: true,
    }
}

fn all_facts() -> Vec<Facts> {
    let mut all = Vec::new();
    for has_pr in [false, true] {
        for self_review in [false, true] {
            for on_max_cycles in [OnMaxCycles::Escalate, OnMaxCycles::PrAnyway] {
                all.push(Facts {
                    has_pr,
                    self_review,
                    on_max_cycles,
                    escalated_from: None,
                    checks_green: true,
                });
                all.push(Facts {
                    has_pr,
                    self_review,
                    on_max_cycles,
                    escalated_from: Some(State::SelfReviewFailed),
                    checks_green: true,
                });
                all.push(Facts {
                    has_pr,
                    self_review,
                    on_max_cycles,
                    escalated_from: None,
                    checks_green: false,
                });
            }
        }
    }
    all
}

/// Table of transitions, written down a second time: (from, on, to), for a local change under
/// self-review.
const LOCAL: &[(State, Trigger, State)] = {
    use State as S;
    use Trigger as T;
    &[
        (S::Queued, T::ImplementClaimed, S::Implementing),
        (S::Implementing, T::ImplementDone, S::PendingSelfReview),
        (S::PendingSelfReview, T::ReviewClaimed, S::SelfReviewing),
        (S::PendingSelfReview, T::NewRejection, S::SelfReviewFailed),
        (S::SelfReviewing, T::ReviewApproved, S::SelfReviewPassed),
        (S::SelfReviewing, T::ReviewRejected, S::SelfReviewFailed),
        (S::SelfReviewing, T::GatesRed, S::SelfReviewFailed),
        (S::SelfReviewFailed, T::FixCreated, S::Refining),
        (S::SelfReviewFailed, T::BoundReached, S::Escalated),
        (S::Refining, T::FixFinished, S::PendingSelfReview),
        (S::SelfReviewPassed, T::PrMade, S::PrCreated),
        (S::SelfReviewPassed, T::LocalOnly, S::ReadyForHumanReview),
        (S::SelfReviewPassed, T::GatesRed, S::SelfReviewFailed),
        (S::SelfReviewPassed, T::NewRejection, S::SelfReviewFailed),
        (S::PrCreated, T::PrRecorded, S::AwaitingPrFeedback),
        (S::AwaitingPrFeedback, T::ReviewClaimed, S::ReviewingPr),
        (S::AwaitingPrFeedback, T::FixCreated, S::AddressingFeedback),
        (S::AwaitingPrFeedback, T::BoundReached, S::Escalated),
        (S::AwaitingPrFeedback, T::HeadApproved, S::Approved),
        (
            S::AwaitingPrFeedback,
            T::NothingPending,
            S::ReadyForHumanReview,
        ),
        (S::ReviewingPr, T::ReviewApproved, S::ReadyForHumanReview),
        (S::ReviewingPr, T::ReviewRejected, S::AwaitingPrFeedback),
        (S::ReviewingPr, T::GatesRed, S::AwaitingPrFeedback),
        (S::AddressingFeedback, T::FixFinished, S::AwaitingPrFeedback),
        (S::ReadyForHumanReview, T::HeadApproved, S::Approved),
        (S::ReadyForHumanReview, T::NewRejection, S::SelfReviewFailed),
        (S::ReadyForHumanReview, T::HeadMoved, S::PendingSelfReview),
        (S::Approved, T::NewRejection, S::SelfReviewFailed),
        (S::Approved, T::HeadMoved, S::PendingSelfReview),
        (S::Closed, T::Reopened, S::PendingSelfReview),
    ]
};

const CLAIMED_AGAIN: &[(State, Trigger)] = &[
    (State::Implementing, Trigger::ImplementClaimed),
    (State::SelfReviewing, Trigger::ReviewClaimed),
    (State::ReviewingPr, Trigger::ReviewClaimed),
    (State::Refining, Trigger::FixClaimed),
    (State::AddressingFeedback, Trigger::FixClaimed),
];

/// Checks every state with every trigger: a transition in the table succeeds, any other is refused.
#[test]
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "every other combination must be refused"
)]
fn every_state_with_every_trigger() {
    use State as S;
    use Trigger as T;
    let mut refused = 0;
    for &state in S::ALL {
        for &trigger in T::ALL {
            let expected = if CLAIMED_AGAIN.contains(&(state, trigger)) {
                Ok(Move::Stay)
            } else if let Some(&(_, _, to)) =
                LOCAL.iter().find(|(s, t, _)| (*s, *t) == (state, trigger))
            {
                Ok(Move::To(to))
            } else {
                match trigger {
                    T::Merged if state != S::Merged => Ok(Move::To(S::Merged)),
                    T::Closed if state != S::Merged => Ok(to_or_stay(state, S::Closed)),
                    T::MarkReady | T::Approve if matches!(state, S::Queued | S::Implementing) => {
                        Err(NoSuchMove { state, trigger })
                    }
                    T::MarkReady if !state.is_over() => {
                        Ok(to_or_stay(state, S::ReadyForHumanReview))
                    }
                    T::Approve if !state.is_over() => Ok(to_or_stay(state, S::Approved)),
                    T::SkipToPr
                        if matches!(
                            state,
                            S::PendingSelfReview
                                | S::SelfReviewing
                                | S::SelfReviewFailed
                                | S::Refining
                                | S::ReadyForHumanReview
                                | S::Approved
                        ) =>
                    {
                        Ok(Move::To(S::SelfReviewPassed))
                    }
                    T::NeedsPerson if !state.is_over() && state != S::Escalated => {
                        Ok(Move::To(S::Escalated))
                    }
                    _ => Err(NoSuchMove { state, trigger }),
                }
            };
            assert_eq!(
                next(state, trigger, facts()),
                expected,
                "{state} on {trigger}"
            );
            refused += usize::from(expected.is_err());
        }
    }
    assert_eq!(S::ALL.len() * T::ALL.len(), 416);
    assert!(
        refused > 200,
        "most pairs are not moves, {refused} were refused"
    );
}

fn to_or_stay(from: State, to: State) -> Move {
    if from == to { Move::Stay } else { Move::To(to) }
}

#[test]
fn a_change_with_a_pr_goes_back_to_its_pr() {
    let pr = Facts {
        has_pr: true,
        ..facts()
    };
    for state in [State::ReadyForHumanReview, State::Approved] {
        assert_eq!(
            next(state, Trigger::NewRejection, pr),
            Ok(Move::To(State::AwaitingPrFeedback))
        );
        assert_eq!(
            next(state, Trigger::HeadMoved, pr),
            Ok(Move::To(State::AwaitingPrFeedback))
        );
    }
    for state in [State::ReadyForHumanReview, State::Approved] {
        assert!(next(state, Trigger::SkipToPr, pr).is_err());
    }
    assert_eq!(
        next(State::Closed, Trigger::Reopened, pr),
        Ok(Move::To(State::AwaitingPrFeedback))
    );
}

#[test]
fn settings_that_change_a_move() {
    let anyway = Facts {
        on_max_cycles: OnMaxCycles::PrAnyway,
        ..facts()
    };
    assert_eq!(
        next(State::SelfReviewFailed, Trigger::BoundReached, anyway),
        Ok(Move::To(State::SelfReviewPassed))
    );
    assert_eq!(
        next(State::AwaitingPrFeedback, Trigger::BoundReached, anyway),
        Ok(Move::To(State::Escalated))
    );
    let off = Facts {
        self_review: false,
        ..facts()
    };
    for (state, trigger) in [
        (State::Implementing, Trigger::ImplementDone),
        (State::Refining, Trigger::FixFinished),
    ] {
        assert_eq!(
            next(state, trigger, off),
            Ok(Move::To(State::SelfReviewPassed))
        );
    }
    let waiting = Facts {
        escalated_from: Some(State::Queued),
        ..facts()
    };
    for trigger in [Trigger::MarkReady, Trigger::Approve, Trigger::SkipToPr] {
        assert!(next(State::Escalated, trigger, waiting).is_err());
    }
    let failed = Facts {
        escalated_from: Some(State::SelfReviewFailed),
        ..facts()
    };
    assert_eq!(
        next(State::Escalated, Trigger::SkipToPr, failed),
        Ok(Move::To(State::SelfReviewPassed))
    );
}

#[test]
fn an_escalated_change_goes_back_to_where_it_rested() {
    for &state in State::ALL {
        let back = resting(state);
        assert!(
            !back.is_running(),
            "{state} rests in {back}, where nothing runs"
        );
        if !matches!(state, State::Escalated | State::Merged | State::Closed) {
            let escalated = Facts {
                escalated_from: Some(back),
                ..facts()
            };
            assert_eq!(
                next(State::Escalated, Trigger::Retry, escalated),
                Ok(Move::To(back))
            );
        }
    }
    assert!(next(State::Escalated, Trigger::Retry, facts()).is_err());
}

#[test]
fn merged_is_final() {
    for facts in all_facts() {
        for &trigger in Trigger::ALL {
            assert!(next(State::Merged, trigger, facts).is_err());
        }
    }
}

/// Model of the blackboard: it counts fixes and checks the limit before it creates one.
#[derive(Debug, Clone)]
struct Model {
    state: State,
    facts: Facts,
    cycle: u32,
    total: u32,
    created_this_round: u32,
    created_ever: u32,
}

const MAX_CYCLES: u32 = 2;
const MAX_TOTAL: u32 = 4;

impl Model {
    fn step(&mut self, trigger: Trigger, by_person: bool) {
        if trigger == Trigger::NewRejection && by_person {
            self.cycle = 0;
            self.created_this_round = 0;
        }
        let bound = self.cycle >= MAX_CYCLES || self.total >= MAX_TOTAL;
        let trigger = if trigger == Trigger::FixCreated && bound {
            Trigger::BoundReached
        } else {
            trigger
        };
        let Ok(moved) = next(self.state, trigger, self.facts) else {
            return;
        };
        if let Move::To(to) = moved {
            if trigger == Trigger::FixCreated {
                self.created_this_round += 1;
                self.created_ever += 1;
            }
            if trigger == Trigger::FixFinished {
                self.cycle += 1;
                self.total += 1;
            }
            self.facts.escalated_from = (to == State::Escalated).then(|| resting(self.state));
            self.state = to;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// No sequence of events exceeds a limit, and a running state never survives an escalation.
    #[test]
    fn no_sequence_of_events_passes_a_bound(
        steps in prop::collection::vec((0..Trigger::ALL.len(), any::<bool>()), 1..200),
        has_pr in any::<bool>(),
        start in 0..State::ALL.len(),
    ) {
        let state = State::ALL[start];
        let escalated_from = (state == State::Escalated).then_some(State::SelfReviewFailed);
        let mut model = Model {
            state,
            facts: Facts { has_pr, escalated_from, ..facts() },
            cycle: 0,
            total: 0,
            created_this_round: 0,
            created_ever: 0,
        };
        for (index, by_person) in steps {
            let trigger = Trigger::ALL[index];
            let finished_before = model.total;
            model.step(trigger, by_person);
            prop_assert!(model.cycle <= MAX_CYCLES);
            prop_assert!(model.total <= MAX_TOTAL);
            prop_assert!(model.total <= finished_before + 1);
            prop_assert_eq!(model.state == State::Escalated, model.facts.escalated_from.is_some());
        }
    }
}

#[test]
fn a_change_is_not_ready_before_its_checks_have_passed() {
    use State as S;
    use Trigger as T;
    let open = Facts {
        has_pr: true,
        checks_green: false,
        ..facts()
    };
    let green = Facts {
        checks_green: true,
        ..open
    };
    for (state, trigger, facts, expected) in [
        (
            S::ReviewingPr,
            T::ReviewApproved,
            open,
            Move::To(S::AwaitingPrFeedback),
        ),
        (S::AwaitingPrFeedback, T::NothingPending, open, Move::Stay),
        (
            S::AwaitingPrFeedback,
            T::NothingPending,
            green,
            Move::To(S::ReadyForHumanReview),
        ),
        (
            S::ReadyForHumanReview,
            T::ChecksOpen,
            open,
            Move::To(S::AwaitingPrFeedback),
        ),
    ] {
        assert_eq!(
            next(state, trigger, facts),
            Ok(expected),
            "{state} on {trigger}"
        );
    }
}
