//! Work items, rejections and runs: one-time tasks, the reasons for them, and the processes that
//! worked on them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::change::{ChangeId, ProjectId};
use crate::clock::Time;
use crate::closed_enum::{closed_enum, id};
use crate::event::body::WorkRejected;
use crate::finding::{Finding, FindingId};

id!(
    /// Id of a work item, such as `w7`.
    ItemId
);
id!(
    /// Id of a rejection, such as `j2`.
    RejectionId
);
id!(
    /// Id of a run, such as `r9`.
    RunId
);

closed_enum! {
    /// Origin of a work item, which determines how it is run.
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

/// Work that the loop does itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopStep {
    /// Turns a task into commits.
    Implement,
    Review,
    Fix,
    /// Opens the pull request.
    OpenPull,
}

impl Source {
    /// Returns the step of the loop that runs its items, unless they are for a person; `None` if no
    /// loop runs them.
    pub(crate) fn step(self) -> Option<LoopStep> {
        match self {
            Self::CodeReview => Some(LoopStep::Review),
            Self::ReviewFix => Some(LoopStep::Fix),
            Self::Github | Self::Specflow | Self::Manual => Some(LoopStep::Implement),
            Self::PullRequest => Some(LoopStep::OpenPull),
            Self::FeedbackAnalysis => None,
        }
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
    /// Reason why a rejection ended without a fix.
    "rejection end" RejectionEnd {
        /// A later rejection repeats it.
        Superseded = "superseded",
        /// The change is waiting for a person.
        NeedsPerson = "needs_person",
        /// A limit was reached, and `on_max_cycles` is "pr_anyway".
        BoundPassed = "bound_passed",
        /// Its fix cannot run in the current state of the change.
        NotRunnable = "not_runnable",
        Approved = "approved",
        Cancelled = "cancelled",
        /// Somebody pushed another head.
        HeadMoved = "head_moved",
        /// Resumed if the pull request is reopened.
        PrClosed = "pr_closed",
        PrMerged = "pr_merged",
        /// Somebody pushed while the pull request was closed.
        PushedWhileClosed = "pushed_while_closed",
        /// Its review was dismissed.
        Dismissed = "dismissed",
        /// The change had already ended.
        ChangeOver = "change_over",
        /// A person skipped the review.
        ReviewSkipped = "review_skipped",
        /// A person marked the change as ready.
        MarkedReady = "marked_ready",
        /// A person waived all that it asks for.
        Waived = "waived",
    }
}

closed_enum! {
    /// Cause of the end of a run.
    "ended" Ended {
        /// The agent exited by itself; see the exit status.
        Agent = "agent",
        IdleLimit = "idle_limit",
        TotalLimit = "total_limit",
        /// The supervising process died, so the shim ended the run.
        DaemonGone = "daemon_gone",
        /// A graceful stop, or the item was cancelled.
        Stopped = "stopped",
        /// The run vanished: no `exit.json`, or a signal that remand did not send.
        Lost = "lost",
        /// The run never started: the program does not exist or could not be started.
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
    /// Section of a prompt, besides the feedback, that can be too long.
    "section" Section {
        Plan = "plan",
        Task = "task",
        Description = "description",
        Issue = "issue",
        Diff = "diff",
        Files = "files",
        Closed = "closed_findings",
        Missing = "missing",
        /// Findings in the prompt of a review; they stay open.
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
    /// Reason why a directory of `.specify/` counts as the plan of a change, or why none does.
    "plan reason" PlanReason {
        /// The branch and the directory have the same feature number.
        EqualNumber = "equal_number",
        /// All words of the directory's name are in the branch name.
        WholeName = "whole_name",
        SharedWords = "shared_words",
        /// The task names it.
        Named = "named",
        /// There is no other directory.
        OnlyFolder = "only_folder",
        /// The files are directly in `.specify/`.
        TopLevel = "top_level",
        /// Several directories match equally well.
        Tie = "tie",
        NoMatch = "no_match",
        /// The directory exists, but none of its files can be read.
        Unreadable = "unreadable",
    }
}

/// Origin of the plan in a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlanSource {
    /// Path from the top of the worktree.
    pub(crate) folder: Option<String>,
    pub(crate) reason: PlanReason,
    /// All existing directories.
    pub(crate) folders: Vec<String>,
    /// Files that cannot be read: too large, or not regular files.
    pub(crate) unread: Vec<String>,
}

/// Size of the omitted part of one section of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PromptCut {
    pub(crate) what: Section,
    pub(crate) left_out: usize,
    pub(crate) unit: Unit,
}

/// Feedback that was not given to any run of a fix, or not completely. It is left to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftOut {
    pub(crate) piece: String,
    pub(crate) rejection_id: Option<RejectionId>,
    pub(crate) finding_id: Option<FindingId>,
    pub(crate) path: Option<String>,
    pub(crate) line: Option<i64>,
    /// First line of the feedback.
    pub(crate) text: String,
    /// Address on the forge.
    pub(crate) url: Option<String>,
    pub(crate) bytes: i64,
    pub(crate) told_bytes: i64,
}

/// Work item as it is stored.
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
    /// Number of times that a failed gate sent this item back to its agent.
    pub(crate) gate_rounds: i64,
    /// Number of consecutive runs that vanished.
    pub(crate) lost_runs: i64,
    /// Set if an unclear answer was already requested a second time.
    pub(crate) asked_again: bool,
    pub(crate) metadata: Value,
}

/// Right to work on an item: the claimant, and the epoch that fences every write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) item_id: ItemId,
    pub(crate) epoch: i64,
}

/// Rejection with its contents, as evaluators and prompts need it.
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
    /// Actor of the event that it came from.
    #[serde(skip)]
    pub(crate) by: String,
    pub(crate) summary: String,
    /// Metadata of the event that it came from, as it is stored: other programs add keys.
    pub(crate) metadata: Value,
    /// Known keys of `metadata`.
    #[serde(skip)]
    pub(crate) rejected: WorkRejected,
}

impl Rejection {
    /// Returns the author's login on the forge; `None` if it does not come from there.
    pub(crate) fn login(&self) -> Option<&str> {
        self.by.strip_prefix("github:")
    }

    /// Returns the finding for the key of a piece of feedback: `j1.2` is the second finding of
    /// `j1`.
    pub(crate) fn finding_at(&self, key: &str) -> Option<&Finding> {
        let number = key.strip_prefix(self.rejection_id.as_str())?;
        let at: usize = number.strip_prefix('.')?.parse().ok()?;
        self.rejected.findings.get(at.checked_sub(1)?)
    }

    /// Returns the origin of the rejection, as given to an agent.
    pub(crate) fn source(&self) -> &'static str {
        match self.rejected.feedback {
            Some(_) => "the pull request",
            None if self.gate().is_some() => "the project's own checks",
            None if self.by_person => "a person",
            None => "the reviewer",
        }
    }

    /// Returns the feedback: the body, or the summary of an event without one.
    pub(crate) fn text(&self) -> &str {
        let body = self.rejected.body.as_str();
        if body.trim().is_empty() {
            &self.summary
        } else {
            body
        }
    }

    /// Returns the command of the gate that rejected the change; `None` if it was not rejected by a
    /// gate.
    pub(crate) fn gate(&self) -> Option<&str> {
        self.rejected
            .gate
            .as_ref()
            .map(|gate| gate.command.as_str())
    }
}

/// Run as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Run {
    pub(crate) run_id: RunId,
    pub(crate) item_id: ItemId,
    pub(crate) change_id: ChangeId,
    pub(crate) epoch: i64,
    pub(crate) agent: String,
    /// Requested model; `None` leaves the choice to the agent.
    pub(crate) model: Option<String>,
    /// Conversation that it belongs to, for agents that can continue one.
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
    /// Gates that produced the result in `gates`.
    pub(crate) gate_rules: Option<String>,
    /// Commit onto which its commits were replayed after the remote had moved.
    pub(crate) rebased_onto: Option<String>,
    /// Reason why its work is not used, once that was decided.
    pub(crate) refused: Option<String>,
    /// Set if its work was kept on a wip ref and removed from the branch.
    pub(crate) discarded: bool,
    pub(crate) tokens: Option<i64>,
    pub(crate) cost_micros: Option<i64>,
}

/// Known keys of an item's metadata. `remand item add` and evaluators may store others beside them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ItemMetadata {
    /// Command evaluator that queued it, for people.
    #[serde(deserialize_with = "text_or_none")]
    pub(crate) evaluator: Option<String>,
}

/// Reads a value of another type as `None`.
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
    /// Returns the step of the loop that runs it; `None` if it is for a person.
    pub(crate) fn step(&self) -> Option<LoopStep> {
        self.source.step().filter(|_| !self.is_for_person())
    }

    /// True if an evaluator created it for a person.
    pub(crate) fn is_for_person(&self) -> bool {
        self.details().evaluator.is_some()
    }

    pub(crate) fn details(&self) -> ItemMetadata {
        ItemMetadata::deserialize(&self.metadata).unwrap_or_default()
    }
}

/// Metadata of a `review_fix` item, with exactly these keys. `fix_cycle` counts from 0; the keys of
/// a PR are null without one.
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
