//! Proposals of evaluators, as data: evaluators need not know which code applies them.

use crate::change::{Change, ChangeId, FinalVerdict, ProjectId, Spent};
use crate::check::RerunCall;
use crate::closed_enum::closed_enum;
use crate::event::Event;
use crate::event::body::{Addition, Escalated, SkipCode, WorkRejected};
use crate::pull_request::FeedbackOutcome;
use crate::work::{ItemId, Priority, RejectionId, Source};
use std::fmt;

/// One action that a built-in evaluator proposes for a change. Proposing it twice applies it once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Proposal {
    /// One fix for pending rejections, oldest first. The newest determines the key of the item.
    Fix {
        rejections: Vec<RejectionId>,
        /// Set if a person's feedback is among them, which starts a new round with its full
        /// allowance.
        begins_round: bool,
    },
    /// A limit is reached: escalate, or go on to the next stage, depending on the setting of the
    /// change.
    Bound(Escalation),
    /// Somebody who may create work requests changes: one `work_rejected` event.
    Reject {
        /// Actor of the event.
        by: String,
        summary: String,
        rejected: Box<WorkRejected>,
    },
    /// A person with write permission approves this head.
    Approve {
        by: String,
        head: String,
        feedback_id: String,
    },
    /// Feedback that creates no work by itself. With `context` it is given to the next fix; any
    /// other outcome is the reason why it is ignored.
    Settle {
        feedback_id: String,
        outcome: FeedbackOutcome,
        /// Explanation, if there is more to say than the outcome.
        reason: Option<String>,
    },
    /// Feedback that has no effect although it might have had one: recorded with an event.
    PassOver {
        feedback_id: String,
        outcome: FeedbackOutcome,
        reason: String,
        /// Login whose review is requested again, because the feedback is about a commit that is no
        /// longer the head.
        ask_again: Option<String>,
    },
    /// The pull request was merged.
    Merged,
    Closed,
    Reopened,
    /// The pull request was reopened, but its change cannot be, because another change now uses
    /// what it needs.
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
    /// Check runs of the head, by their numbers, that run again before they count.
    Rerun {
        checks: Vec<i64>,
        call: RerunCall,
    },
    /// Failing checks of the head, by their numbers, whose result on the merge base and whose logs are needed.
    Evidence {
        checks: Vec<i64>,
    },
    /// Checks that fail because of the change: one `work_rejected` event per head.
    RejectChecks {
        names: Vec<String>,
        summary: String,
        rejected: Box<WorkRejected>,
    },
    /// Checks that a person is told about, and no agent.
    ReportChecks {
        names: Vec<String>,
        code: SkipCode,
        reason: String,
    },
    /// The checks that count have passed, and nothing else is left to do.
    ChecksPassed,
    /// A check that counts has no result any more, or failed, after the change was ready.
    ChecksOpen,
    /// The project's rules no longer select the pull request.
    Unwanted {
        reason: String,
    },
    Wanted,
}

/// Action requested by a command evaluator, applied once per key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EvaluatorRequest {
    pub(crate) key: String,
    pub(crate) what: RequestKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// Item for a change, or for a project only. If both are given, the project is that of the
    /// change.
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
    /// Information for the next fix.
    Comment {
        change_id: ChangeId,
        text: String,
    },
}

/// Handover of a change, or of the work on it, to a person.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Escalation {
    pub(crate) reason: String,
    pub(crate) decision: Decision,
    /// Limit that was reached, if that is the reason.
    pub(crate) bound: Option<Bound>,
    /// Item of the rejected review, which is marked for a person too.
    pub(crate) rejected_item: Option<ItemId>,
    pub(crate) final_verdict: Option<FinalVerdict>,
    /// Item that failed and stays as it is; all others are cancelled.
    pub(crate) failed_item: Option<ItemId>,
    /// Ref that keeps the unused work.
    pub(crate) wip: Option<String>,
    /// Set if a branch was not pushed or its pull request was not opened.
    pub(crate) refusal: Option<Refusal>,
}

impl Escalation {
    pub(crate) fn new(reason: impl Into<String>, decision: impl Into<Decision>) -> Self {
        Self {
            reason: reason.into(),
            decision: decision.into(),
            bound: None,
            rejected_item: None,
            final_verdict: None,
            failed_item: None,
            wip: None,
            refusal: None,
        }
    }

    pub(crate) fn at_bound(mut self, bound: impl Into<Bound>) -> Self {
        self.bound = Some(bound.into());
        self
    }

    pub(crate) fn of_rejected(mut self, item: Option<ItemId>) -> Self {
        self.rejected_item = item;
        self
    }

    pub(crate) fn with_verdict(mut self, verdict: FinalVerdict) -> Self {
        self.final_verdict = Some(verdict);
        self
    }

    pub(crate) fn of_failed(mut self, item: ItemId) -> Self {
        self.failed_item = Some(item);
        self
    }

    pub(crate) fn refused(mut self, refusal: Refusal) -> Self {
        self.refusal = Some(refusal);
        self
    }

    pub(crate) fn with_wip(mut self, wip: Option<String>) -> Self {
        self.wip = wip;
        self
    }
}

closed_enum! {
    /// Limits that only a person can lift.
    "bound" Bound {
        Cycles = "cycles",
        TotalFixes = "total_fixes",
        Time = "time",
        Tokens = "tokens",
        Money = "money",
        NoProgress = "no_progress",
        /// A person reverted a fix, so no more are made unless requested.
        Reverted = "reverted",
        /// The pull request cannot be read. A successful read ends the escalation.
        Unreadable = "unreadable",
        PromptSize = "prompt_size",
    }
}

closed_enum! {
    /// Reasons why the branch of a task is not pushed or its pull request is not opened.
    "refusal" Refusal {
        /// A rule of the remote protects the branch.
        ProtectedBranch = "protected_branch",
        /// A ruleset of the repository.
        Ruleset = "ruleset",
        /// The remote does not accept the name of the branch.
        BranchName = "branch_name",
        /// Any other rule or hook of the remote.
        PushDeclined = "push_declined",
        /// remand's own rules for pushes.
        PushRules = "push_rules",
        /// The branch is the one that work is merged into.
        BaseBranch = "base_branch",
        /// The branch has other commits on the remote.
        BranchTaken = "branch_taken",
        /// A branch of the remote leaves no room for the name.
        NameConflict = "name_conflict",
        /// The branch is no longer at the commit that was reviewed.
        BranchMoved = "branch_moved",
        /// The branch was deleted on the remote after it was pushed.
        BranchGone = "branch_gone",
        /// The base branch does not exist.
        BaseGone = "base_gone",
        NothingToMerge = "nothing_to_merge",
        /// A pull request of this commit was merged.
        AlreadyMerged = "already_merged",
        /// A pull request of this commit was closed.
        PullClosed = "pull_closed",
        /// The forge refused a draft.
        Draft = "draft",
        /// The description would contain a secret.
        Secret = "secret",
        /// Any other refusal by the forge.
        PullRefused = "pull_refused",
    }
}

impl Bound {
    /// Returns the limit that an `escalated` event is about.
    pub(crate) fn of(escalated: &Event) -> Option<Self> {
        escalated.body::<Escalated>()?.bound
    }
}

impl Bound {
    /// True if raising limits by this much can lift it.
    pub(crate) fn is_lifted_by(self, added: &Addition) -> bool {
        match self {
            Self::Cycles | Self::TotalFixes => added.fixes > 0,
            Self::Time => added.run_ms > 0,
            Self::Tokens => added.tokens > 0,
            Self::Money => added.cost_micros > 0,
            Self::NoProgress | Self::Reverted | Self::Unreadable | Self::PromptSize => false,
        }
    }
}

impl From<Spent> for Bound {
    fn from(spent: Spent) -> Self {
        match spent {
            Spent::Time => Self::Time,
            Spent::Tokens => Self::Tokens,
            Spent::Money => Self::Money,
        }
    }
}

/// The one thing that a person has to decide: a sentence, and the commands in it as data, most
/// likely first.
///
/// Created with [`decision!`], so that each command is written once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) text: String,
    /// Commands exactly as they are typed. `…` marks a value that only the person knows.
    pub(crate) commands: Vec<String>,
}

impl Decision {
    /// Creates a decision from one remand command, which is put in backticks in the text.
    pub(crate) fn command(command: impl Into<String>) -> Self {
        let command = command.into();
        Self {
            text: format!("`{command}`"),
            commands: vec![command],
        }
    }

    pub(crate) fn approve(id: &ChangeId) -> Self {
        Self::command(format!("remand approve {id}"))
    }

    /// Accepts a change as it is, with the choice of its pull request if that is not open yet.
    pub(crate) fn accept(change: &Change) -> Self {
        let id = &change.change_id;
        let approve = Self::approve(id);
        if !change.lacks_pr() {
            return approve;
        }
        let skip = Self::command(format!("remand skip {id}"));
        Self {
            text: format!("{approve}, or {skip} to open its PR"),
            commands: [approve.commands, skip.commands].concat(),
        }
    }

    pub(crate) fn refine(id: &ChangeId) -> Self {
        Self::command(format!("remand refine {id} --text …"))
    }

    pub(crate) fn retry(id: &ChangeId) -> Self {
        Self::command(format!("remand retry {id}"))
    }

    pub(crate) fn cancel(id: &ChangeId) -> Self {
        Self::command(format!("remand cancel {id}"))
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<String> for Decision {
    fn from(text: String) -> Self {
        Self {
            text,
            commands: Vec::new(),
        }
    }
}

impl From<&str> for Decision {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// Builds a decision from others, mostly commands. Each is named in the text.
macro_rules! decision {
    ($text:literal $(, $name:ident = $part:expr)+ $(,)?) => {{
        $(let $name: $crate::proposal::Decision = $part;)+
        $crate::proposal::Decision {
            text: format!($text),
            commands: [$($name.commands),+].concat(),
        }
    }};
}

pub(crate) use decision;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_lists_the_commands_of_its_text_in_their_order() {
        let id = ChangeId::new("c1");
        let (branch, none) = ("`remand cancel c2`", Decision::default());
        let submit = decision!(
            "run {review} on {branch}",
            review = Decision::command("remand review --worktree /w"),
        );
        let decision = decision!(
            "accept it ({approve}){none}, or {submit}; then {retry}",
            approve = Decision::approve(&id),
            none = none,
            submit = submit,
            retry = Decision::retry(&id),
        );
        assert_eq!(
            decision.text,
            "accept it (`remand approve c1`), or run `remand review --worktree /w` on `remand cancel c2`; then `remand retry c1`"
        );
        assert_eq!(
            decision.commands,
            [
                "remand approve c1",
                "remand review --worktree /w",
                "remand retry c1"
            ]
        );
    }
}
