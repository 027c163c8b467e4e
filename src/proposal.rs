//! What evaluators propose and loops decide: words for it, so that those who judge need not know who carries it out.

use crate::change::{ChangeId, FinalVerdict, ProjectId};
use crate::finding::Finding;
use crate::work::{ItemId, Priority, RejectionId, ReviewFixMetadata, Source};

/// One thing that an evaluator wants done. Proposing twice does it once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Proposal {
    Fix(Fix),
    /// The bound is reached: a person, or the next stage, by the change's setting.
    Bound {
        change_id: ChangeId,
        escalation: Escalation,
    },
    /// What the forge shows moves a change.
    Pull {
        change_id: ChangeId,
        step: PullStep,
    },
    /// A program of somebody's own wants it.
    Asked(EvaluatorRequest),
}

/// What a command evaluator wants done, once by its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EvaluatorRequest {
    pub(crate) key: String,
    pub(crate) what: RequestKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// Of a change, or of a project alone; that of the change when both are given.
    Item {
        change_id: Option<ChangeId>,
        project_id: Option<ProjectId>,
        source: Source,
        priority: Priority,
        title: String,
        description: String,
    },
    Reject {
        change_id: ChangeId,
        text: String,
    },
    Escalate {
        change_id: ChangeId,
        reason: String,
        decide: Option<String>,
    },
    /// For the next fix to know.
    Comment {
        change_id: ChangeId,
        text: String,
    },
}

/// Ends the reason why an approval is passed over while somebody else objects: it may count when he no longer does.
pub(crate) const STILL_STANDS: &str = "requests changes, and that still stands";

/// What comes of a pull request as it was last read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PullStep {
    /// Somebody who may make work wants changes: one `work_rejected`.
    Reject(Rejected),
    /// A person who may write approves this head.
    Approve {
        by: String,
        head: String,
        feedback_id: String,
    },
    /// No work of its own: `context` is told to the next fix, anything else says why nothing comes of it.
    Settle {
        feedback_id: String,
        outcome: String,
    },
    /// Nothing comes of it although something might have: with an event.
    PassOver {
        feedback_id: String,
        reason: String,
        /// Asked to look again: what was said is about a commit that is not the head any more.
        ask_again: Option<String>,
    },
    Merged,
    Closed,
    Reopened,
    /// It was reopened, and its change can't be: what it needs is another's.
    StaysClosed {
        reason: String,
    },
    /// A person pushed.
    HeadMoved {
        to: String,
    },
    Retargeted {
        to: String,
    },
    /// The project's rules no longer take it.
    Unwanted {
        reason: String,
    },
    Wanted,
}

/// Feedback of one author that becomes one rejection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rejected {
    pub(crate) by: String,
    pub(crate) begins_round: bool,
    pub(crate) head: String,
    pub(crate) summary: String,
    pub(crate) body: String,
    pub(crate) findings: Vec<Finding>,
    /// All that is in it.
    pub(crate) feedback: Vec<String>,
    /// What came with it and found no room in it.
    pub(crate) left_out: Vec<String>,
}

/// One fix for all rejections that wait for one change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fix {
    pub(crate) change_id: ChangeId,
    /// Oldest first; the newest gives the item its key.
    pub(crate) rejections: Vec<RejectionId>,
    /// A person's feedback is among them: the allowance of this round begins anew.
    pub(crate) begins_round: bool,
    pub(crate) metadata: ReviewFixMetadata,
}

/// Why a person is needed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Escalation {
    pub(crate) reason: String,
    /// The one thing to decide, with what to type.
    pub(crate) decide: String,
    /// Which bound, where one was reached.
    pub(crate) bound: Option<&'static str>,
    /// The rejected review's item, which is marked for a person too.
    pub(crate) rejected_item: Option<ItemId>,
    pub(crate) final_verdict: Option<FinalVerdict>,
    /// The item that failed stays as it is; all others are cancelled.
    pub(crate) failed_item: Option<ItemId>,
}
