//! Work items, rejections and runs: what is to be done once, why, and each process that tried.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::change::{ChangeId, ProjectId};
use crate::clock::Time;
use crate::closed_enum::{closed_enum, id};
use crate::event::body::WorkRejected;
use crate::finding::FindingId;

id!(
    /// `w7`
    ItemId
);
id!(
    /// `j2`
    RejectionId
);
id!(
    /// `r9`
    RunId
);

closed_enum! {
    /// Where a work item comes from, and so what running it means.
    "source" Source {
        Github = "github",
        Specflow = "specflow",
        Manual = "manual",
        CodeReview = "code_review",
        ReviewFix = "review_fix",
        PullRequest = "pull_request",
        FeedbackAnalysis = "feedback_analysis",
    }
}

closed_enum! {
    "status" Status {
        Available = "available",
        Claimed = "claimed",
        Completed = "completed",
        Failed = "failed",
        Blocked = "blocked",
        Cancelled = "cancelled",
    }
}

closed_enum! {
    "priority" Priority {
        P1 = "P1",
        P2 = "P2",
        P3 = "P3",
    }
}

closed_enum! {
    "rejection state" RejectionState {
        Pending = "pending",
        InFix = "in_fix",
        Fixed = "fixed",
        Superseded = "superseded",
        Escalated = "escalated",
        Skipped = "skipped",
    }
}

closed_enum! {
    /// The reason why a rejection that no fix answered is over.
    "rejection end" RejectionEnd {
        /// By a later rejection that repeats it.
        Superseded = "superseded",
        /// The change waits for a person.
        NeedsPerson = "needs_person",
        /// A bound was reached, and `on_max_cycles` is "pr_anyway".
        BoundPassed = "bound_passed",
        /// Its fix cannot run in the change's state.
        NotRunnable = "not_runnable",
        Approved = "approved",
        Cancelled = "cancelled",
        /// Somebody pushed another head.
        HeadMoved = "head_moved",
        /// It is taken up again if the pull request is reopened.
        PrClosed = "pr_closed",
        PrMerged = "pr_merged",
        /// Somebody pushed while the pull request was closed.
        PushedWhileClosed = "pushed_while_closed",
        /// Its review was dismissed.
        Dismissed = "dismissed",
        /// It came when the change was over.
        ChangeOver = "change_over",
    }
}

closed_enum! {
    /// Who or what ended a run.
    "ended" Ended {
        /// It ended by itself; the exit status says how.
        Agent = "agent",
        IdleLimit = "idle_limit",
        TotalLimit = "total_limit",
        /// The process that watched over it died, so its shim ended it.
        DaemonGone = "daemon_gone",
        /// A graceful stop, or its item was cancelled.
        Stopped = "stopped",
        /// It vanished without a word: no `exit.json`, or a signal that was not ours.
        Lost = "lost",
        /// It never began: the program is not there or could not be started.
        NotStarted = "not_started",
    }
}

closed_enum! {
    "gate result" GateResult {
        Green = "green",
        Red = "red",
    }
}

closed_enum! {
    /// What can be too long for a prompt beside the feedback.
    "section" Section {
        Plan = "plan",
        Description = "description",
        Issue = "issue",
        Diff = "diff",
        Files = "files",
        Closed = "closed_findings",
        Missing = "missing",
        /// Of a review's prompt: they stay as they are.
        OpenFindings = "open_findings",
    }
}

closed_enum! {
    "unit" Unit {
        Bytes = "bytes",
        Lines = "lines",
        Findings = "findings",
    }
}

closed_enum! {
    /// Why a folder of `.specify/` counts as the plan of a change, or why none does.
    "plan reason" PlanReason {
        /// The branch and the folder have the same feature number.
        EqualNumber = "equal_number",
        /// All words of the folder's name are in the branch.
        WholeName = "whole_name",
        SharedWords = "shared_words",
        /// There is no other folder.
        OnlyFolder = "only_folder",
        /// The files are in `.specify/` itself.
        TopLevel = "top_level",
        /// Several folders match equally well.
        Tie = "tie",
        NoMatch = "no_match",
        /// There is a folder, and none of its files can be read.
        Unreadable = "unreadable",
    }
}

/// Where the plan in a prompt comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlanSource {
    /// From the top of the worktree.
    pub(crate) folder: Option<String>,
    pub(crate) reason: PlanReason,
    /// The folders that there are.
    pub(crate) folders: Vec<String>,
    /// Its files that cannot be read: too large, or no regular files.
    pub(crate) unread: Vec<String>,
}

/// How much of one section is not in a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PromptCut {
    pub(crate) what: Section,
    pub(crate) left_out: usize,
    pub(crate) unit: Unit,
}

/// Feedback that no run of a fix was told, or not to its end: it is a person's now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftOut {
    pub(crate) piece: String,
    pub(crate) rejection_id: Option<RejectionId>,
    pub(crate) finding_id: Option<FindingId>,
    pub(crate) path: Option<String>,
    pub(crate) line: Option<i64>,
    /// Its first line.
    pub(crate) text: String,
    /// Address on the forge.
    pub(crate) url: Option<String>,
    pub(crate) bytes: i64,
    pub(crate) told_bytes: i64,
}

/// A work item as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Item {
    pub(crate) item_id: ItemId,
    pub(crate) project_id: ProjectId,
    pub(crate) change_id: Option<ChangeId>,
    pub(crate) rejection_id: Option<RejectionId>,
    pub(crate) title: String,
    pub(crate) source: Source,
    pub(crate) status: Status,
    pub(crate) priority: Priority,
    pub(crate) fix_cycle: i64,
    pub(crate) worktree: Option<String>,
    pub(crate) claimed_by: Option<String>,
    pub(crate) epoch: i64,
    pub(crate) attempt: i64,
    pub(crate) lease_expires_at: Option<Time>,
    pub(crate) not_before: Option<Time>,
    pub(crate) created_at: Time,
    pub(crate) completed_at: Option<Time>,
    pub(crate) failure_reason: Option<String>,
    /// How often a red gate sent this item back to its agent.
    pub(crate) gate_rounds: i64,
    /// Runs in a row that vanished.
    pub(crate) lost_runs: i64,
    /// Whether an unclear answer was asked for once more.
    pub(crate) asked_again: bool,
    pub(crate) metadata: Value,
}

/// The right to work on an item: who claimed it, and the epoch that fences every write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) item_id: ItemId,
    pub(crate) epoch: i64,
}

/// A rejection that is about to be written: the event `work_rejected`, and with it a [`Rejection`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewRejection {
    /// The actor of the event.
    pub(crate) by: String,
    pub(crate) summary: String,
    pub(crate) rejected: WorkRejected,
    /// The item whose end it is; none: the event is about the change.
    pub(crate) ends_item: Option<ItemId>,
}

impl NewRejection {
    pub(crate) fn new(
        by: impl Into<String>,
        summary: impl Into<String>,
        rejected: WorkRejected,
    ) -> Self {
        Self {
            by: by.into(),
            summary: summary.into(),
            rejected,
            ends_item: None,
        }
    }

    pub(crate) fn ending(mut self, item: &ItemId) -> Self {
        self.ends_item = Some(item.clone());
        self
    }
}

/// A rejection with what it says, as an evaluator and a prompt need it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Rejection {
    pub(crate) rejection_id: RejectionId,
    pub(crate) event_id: i64,
    pub(crate) change_id: ChangeId,
    pub(crate) state: RejectionState,
    pub(crate) item_id: Option<ItemId>,
    pub(crate) reason: Option<String>,
    pub(crate) ended_by: Option<RejectionEnd>,
    pub(crate) by_person: bool,
    pub(crate) summary: String,
    /// The metadata of the event that it came from.
    #[serde(rename = "metadata")]
    pub(crate) rejected: WorkRejected,
}

impl Rejection {
    /// The feedback: the body, or the summary of an event without one.
    pub(crate) fn text(&self) -> &str {
        let body = self.rejected.body.as_str();
        if body.trim().is_empty() {
            &self.summary
        } else {
            body
        }
    }

    /// The command of the gate that rejected the change; none: somebody else did.
    pub(crate) fn gate(&self) -> Option<&str> {
        self.rejected
            .gate
            .as_ref()
            .map(|gate| gate.command.as_str())
    }
}

/// A run as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Run {
    pub(crate) run_id: RunId,
    pub(crate) item_id: ItemId,
    pub(crate) change_id: ChangeId,
    pub(crate) epoch: i64,
    pub(crate) agent: String,
    /// As it was asked for; none is the agent's own choice.
    pub(crate) model: Option<String>,
    /// The conversation that it belongs to, for agents that can go on with one.
    pub(crate) session: Option<String>,
    pub(crate) dir: String,
    pub(crate) head_before: String,
    pub(crate) head_after: Option<String>,
    pub(crate) started_at: Time,
    pub(crate) ended_at: Option<Time>,
    pub(crate) ended: Option<Ended>,
    pub(crate) exit_status: Option<i64>,
    pub(crate) gates: Option<GateResult>,
    pub(crate) gate_output: Option<String>,
    /// The gates that `gates` is the result of.
    pub(crate) gate_rules: Option<String>,
    /// Where its commits were replayed when the remote had moved.
    pub(crate) rebased_onto: Option<String>,
    /// Why its work is not used, once that was judged.
    pub(crate) refused: Option<String>,
    /// Its work was kept on a wip ref and taken off the branch.
    pub(crate) discarded: bool,
    pub(crate) tokens: Option<i64>,
    pub(crate) cost_micros: Option<i64>,
}

/// The keys of an item's metadata that are read. `remand item add` and evaluators store keys of their own beside them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ItemMetadata {
    /// The command evaluator that queued it, for a person.
    #[serde(deserialize_with = "text_or_none")]
    pub(crate) evaluator: Option<String>,
}

/// Reads a value of another type as none.
fn text_or_none<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => Some(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    })
}

impl Item {
    pub(crate) fn details(&self) -> ItemMetadata {
        ItemMetadata::deserialize(&self.metadata).unwrap_or_default()
    }
}

/// The metadata of a `review_fix` item: exactly these keys. `fix_cycle` counts from 0; keys of a PR are null without one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReviewFixMetadata {
    pub(crate) pr_number: Option<i64>,
    pub(crate) repo: Option<String>,
    pub(crate) branch: String,
    pub(crate) worktree_path: String,
    pub(crate) fix_cycle: i64,
    pub(crate) max_fix_cycles: i64,
    pub(crate) review_comments: String,
    pub(crate) implementation_work_item_id: Option<String>,
    pub(crate) project_id: ProjectId,
}

impl Status {
    pub(crate) fn is_open(self) -> bool {
        match self {
            Self::Available | Self::Claimed | Self::Blocked => true,
            Self::Completed | Self::Failed | Self::Cancelled => false,
        }
    }
}
