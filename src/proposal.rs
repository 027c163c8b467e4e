//! What evaluators propose and loops decide: words for it, so that those who judge need not know who carries it out.

use crate::change::{ChangeId, FinalVerdict};
use crate::work::{ItemId, RejectionId, ReviewFixMetadata};

/// One thing that an evaluator wants done. Proposing twice does it once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Proposal {
    Fix(Fix),
    /// The bound is reached: a person, or the next stage, by the change's setting.
    Bound {
        change_id: ChangeId,
        escalation: Escalation,
    },
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
