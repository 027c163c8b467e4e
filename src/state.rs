//! Transition table of a change: one pure function. A transition that is not listed here is an
//! error, never a guess. Nothing here reads a clock, a file or the blackboard.

use crate::change::{Change, OnMaxCycles, ReviewStage, State};

// Reserved for future features, here and in schema.sql: nothing uses these yet.
//   feedback analysis      item source feedback_analysis
//   messages               table messages, event type message_sent
//   notifications          table notifications, event type notified

pub(crate) use crate::change::Trigger;

/// Properties of a change, besides its state, that decide a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) has_pr: bool,
    /// True if remand's reviewer reads the change before it has a pull request.
    pub(crate) self_review: bool,
    pub(crate) on_max_cycles: OnMaxCycles,
    pub(crate) escalated_from: Option<State>,
    /// True if no check that counts is failing or still to come.
    pub(crate) checks_green: bool,
}

impl From<&Change> for Facts {
    fn from(change: &Change) -> Self {
        Self::of(change, true)
    }
}

impl Facts {
    pub(crate) fn of(change: &Change, checks_green: bool) -> Self {
        Self {
            checks_green,
            has_pr: change.has_pr(),
            self_review: change.review == ReviewStage::BeforePr,
            on_max_cycles: change.on_max_cycles,
            escalated_from: change.escalated_from,
        }
    }
}

/// Effect of a trigger in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Move {
    To(State),
    /// No transition: the item is claimed again after a crash, a stop or a hold.
    Stay,
}

/// Error for a transition that is not in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid transition: {trigger} in state {state}")]
pub(crate) struct NoSuchMove {
    pub(crate) state: State,
    pub(crate) trigger: Trigger,
}

/// Looks up the transition for a trigger.
pub(crate) fn next(state: State, trigger: Trigger, facts: Facts) -> Result<Move, NoSuchMove> {
    use State as S;
    use Trigger as T;

    let stage = facts.escalated_from.unwrap_or(state);
    let resting = if facts.has_pr {
        S::AwaitingPrFeedback
    } else {
        S::PendingSelfReview
    };
    let rejected = if facts.has_pr {
        S::AwaitingPrFeedback
    } else {
        S::SelfReviewFailed
    };
    let to = match (state, trigger) {
        (S::Queued, T::ImplementClaimed) => S::Implementing,
        (S::Implementing, T::ImplementDone) if facts.self_review => S::PendingSelfReview,
        (S::Implementing, T::ImplementDone) => S::SelfReviewPassed,

        (S::PendingSelfReview, T::ReviewClaimed) => S::SelfReviewing,
        (S::SelfReviewing, T::ReviewApproved) => S::SelfReviewPassed,
        (S::SelfReviewing, T::ReviewRejected | T::GatesRed) => S::SelfReviewFailed,
        (S::SelfReviewFailed, T::FixCreated) => S::Refining,
        (S::SelfReviewFailed, T::BoundReached) => match facts.on_max_cycles {
            OnMaxCycles::Escalate => S::Escalated,
            OnMaxCycles::PrAnyway => S::SelfReviewPassed,
        },
        (S::Refining, T::FixFinished) if facts.self_review => S::PendingSelfReview,
        (S::Refining, T::FixFinished) => S::SelfReviewPassed,

        (S::SelfReviewPassed, T::PrMade) => S::PrCreated,
        (S::SelfReviewPassed, T::LocalOnly) => S::ReadyForHumanReview,
        (S::SelfReviewPassed, T::GatesRed) => S::SelfReviewFailed,
        (S::PrCreated, T::PrRecorded) => S::AwaitingPrFeedback,

        (S::AwaitingPrFeedback, T::ReviewClaimed) => S::ReviewingPr,
        (S::AwaitingPrFeedback, T::FixCreated) => S::AddressingFeedback,
        (S::AwaitingPrFeedback, T::BoundReached) => S::Escalated,
        (S::AwaitingPrFeedback, T::HeadApproved) => S::Approved,
        (S::AwaitingPrFeedback, T::NothingPending) if facts.checks_green => S::ReadyForHumanReview,
        (S::AwaitingPrFeedback, T::NothingPending) => S::AwaitingPrFeedback,
        (S::ReviewingPr, T::ReviewApproved) if facts.checks_green => S::ReadyForHumanReview,
        (S::ReviewingPr, T::ReviewApproved) => S::AwaitingPrFeedback,
        (S::ReadyForHumanReview, T::ChecksOpen) if facts.has_pr => S::AwaitingPrFeedback,
        (S::ReviewingPr, T::ReviewRejected | T::GatesRed) => S::AwaitingPrFeedback,
        (S::AddressingFeedback, T::FixFinished) => S::AwaitingPrFeedback,

        (S::ReadyForHumanReview, T::HeadApproved) => S::Approved,
        // Before its review, a change without automatic reviews can be rejected by a person.
        (
            S::PendingSelfReview | S::SelfReviewPassed | S::ReadyForHumanReview | S::Approved,
            T::NewRejection,
        ) => rejected,
        (S::ReadyForHumanReview | S::Approved, T::HeadMoved) => resting,

        (S::Escalated, T::Retry) => match facts.escalated_from {
            Some(from) => from,
            None => return Err(NoSuchMove { state, trigger }),
        },
        (S::Closed, T::Reopened) => resting,

        // Claiming again is not a transition.
        (S::Implementing, T::ImplementClaimed)
        | (S::SelfReviewing | S::ReviewingPr, T::ReviewClaimed)
        | (S::Refining | S::AddressingFeedback, T::FixClaimed) => return Ok(Move::Stay),

        // Decisions of the forge and of people apply almost everywhere.
        (S::Merged, _) => return Err(NoSuchMove { state, trigger }),
        (_, T::Merged) => S::Merged,
        (_, T::Closed) => S::Closed,
        (S::Closed, _) => return Err(NoSuchMove { state, trigger }),
        // There is nothing to judge before the task is implemented.
        (_, T::MarkReady | T::Approve) if matches!(stage, S::Queued | S::Implementing) => {
            return Err(NoSuchMove { state, trigger });
        }
        (_, T::MarkReady) => S::ReadyForHumanReview,
        (_, T::Approve) => S::Approved,
        (_, T::SkipToPr) if !facts.has_pr && precedes_pr(stage) => S::SelfReviewPassed,
        // A person ended the review without the pull request, and has it opened after all.
        (_, T::SkipToPr) if !facts.has_pr && ends_review(stage) => S::SelfReviewPassed,
        (S::Escalated, _) => return Err(NoSuchMove { state, trigger }),
        (_, T::NeedsPerson) => S::Escalated,

        (_, _) => return Err(NoSuchMove { state, trigger }),
    };
    // Approving an approved change or closing a closed one has no effect.
    if to == state {
        Ok(Move::Stay)
    } else {
        Ok(Move::To(to))
    }
}

/// True for the states of the self-review, which a person can skip.
fn precedes_pr(state: State) -> bool {
    matches!(
        state,
        State::PendingSelfReview | State::SelfReviewing | State::SelfReviewFailed | State::Refining
    )
}

/// True for the states in which a person left a change that has no pull request.
fn ends_review(state: State) -> bool {
    matches!(state, State::ReadyForHumanReview | State::Approved)
}

/// Returns the state for an escalated change that a person sends back to the loop. A running state
/// is replaced by the one before it.
pub(crate) fn resting(state: State) -> State {
    match state {
        State::Implementing => State::Queued,
        State::SelfReviewing => State::PendingSelfReview,
        State::Refining => State::SelfReviewFailed,
        State::ReviewingPr | State::AddressingFeedback => State::AwaitingPrFeedback,
        State::Queued
        | State::PendingSelfReview
        | State::SelfReviewPassed
        | State::SelfReviewFailed
        | State::PrCreated
        | State::AwaitingPrFeedback
        | State::ReadyForHumanReview
        | State::Approved
        | State::Merged
        | State::Closed
        | State::Escalated => state,
    }
}

#[cfg(test)]
mod tests;
