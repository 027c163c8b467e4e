//! What evaluators propose and loops decide: words for it, so that those who judge need not know who carries it out.

use crate::change::{ChangeId, FinalVerdict, ProjectId, Spent};
use crate::closed_enum::closed_enum;
use crate::event::Event;
use crate::event::body::Escalated;
use crate::pull_request::FeedbackOutcome;
use crate::work::{ItemId, NewRejection, Priority, RejectionId, ReviewFixMetadata, Source};
use std::fmt;

/// One thing that an evaluator wants done. Proposing twice does it once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Proposal {
    Fix(Fix),
    /// The bound is reached: a person, or the next stage, by the change's setting.
    Bound {
        change_id: ChangeId,
        escalation: Escalation,
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

/// One step for a change whose pull request was read. Taking it twice does it once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PullStep {
    /// Somebody who may make work wants changes: one `work_rejected`.
    Reject(Box<NewRejection>),
    /// A person who may write approves this head.
    Approve {
        by: String,
        head: String,
        feedback_id: String,
    },
    /// No work of its own: `context` is told to the next fix, anything else says why nothing comes of it.
    Settle {
        feedback_id: String,
        outcome: FeedbackOutcome,
        /// In words, where there is more to say.
        reason: Option<String>,
    },
    /// Nothing comes of it although something might have: with an event.
    PassOver {
        feedback_id: String,
        outcome: FeedbackOutcome,
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

/// A change, or the work on it, that needs a person.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Escalation {
    pub(crate) reason: String,
    pub(crate) decision: Decision,
    /// The bound that was reached, if it is about one.
    pub(crate) bound: Option<Bound>,
    /// The rejected review's item, which is marked for a person too.
    pub(crate) rejected_item: Option<ItemId>,
    pub(crate) final_verdict: Option<FinalVerdict>,
    /// The item that failed stays as it is; all others are cancelled.
    pub(crate) failed_item: Option<ItemId>,
    /// The ref that keeps the work that is not used.
    pub(crate) wip: Option<String>,
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

    pub(crate) fn with_wip(mut self, wip: Option<String>) -> Self {
        self.wip = wip;
        self
    }
}

closed_enum! {
    /// A bound whose end is a person's to decide.
    "bound" Bound {
        Cycles = "cycles",
        TotalFixes = "total_fixes",
        Time = "time",
        Tokens = "tokens",
        Money = "money",
        NoProgress = "no_progress",
        /// A person took a fix back, so that no more are made without being asked for.
        Reverted = "reverted",
        /// The pull request can't be read. A good read is the end of it.
        Unreadable = "unreadable",
        PromptSize = "prompt_size",
    }
}

impl Bound {
    /// The bound that an `escalated` event is about.
    pub(crate) fn of(escalated: &Event) -> Option<Self> {
        escalated.body::<Escalated>()?.bound
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

/// The one thing that a person has to decide: a sentence, and the commands in it as data, likeliest first.
///
/// Made with [`decision!`], so that each command is written once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) text: String,
    /// Exactly as they are typed; `…` stands for what only the person knows.
    pub(crate) commands: Vec<String>,
}

impl Decision {
    /// A command of remand's, which stands in backticks in the text.
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

/// Puts a decision together from others, commands for the most part: each is named in the text.
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
