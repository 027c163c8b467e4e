//! Changes: one branch in one worktree, optionally with one PR. A change carries the state, the
//! cycle and the budget.

use std::time::Duration;

use serde::Serialize;

use crate::clock::Time;
use crate::closed_enum::{closed_enum, id};
use crate::human_time;
use crate::proposal::{Decision, decision};
use crate::text::dollars;

id!(
    /// Id of a change, such as `c3`.
    ChangeId
);
id!(
    /// Short name of a repository known to remand.
    ProjectId
);

closed_enum! {
    /// Position of a change in the loop. The transitions are in `state`.
    "state" State {
        Queued = "queued",
        Implementing = "implementing",
        PendingSelfReview = "pending_self_review",
        SelfReviewing = "self_reviewing",
        SelfReviewPassed = "self_review_passed",
        SelfReviewFailed = "self_review_failed",
        Refining = "refining",
        PrCreated = "pr_created",
        AwaitingPrFeedback = "awaiting_pr_feedback",
        ReviewingPr = "reviewing_pr",
        AddressingFeedback = "addressing_feedback",
        ReadyForHumanReview = "ready_for_human_review",
        Approved = "approved",
        Merged = "merged",
        Closed = "closed",
        Escalated = "escalated",
    }
}

closed_enum! {
    /// Occurrence that moves a change from one state to another.
    "trigger" Trigger {
        ImplementClaimed = "implement_claimed",
        ImplementDone = "implement_done",
        ReviewClaimed = "review_claimed",
        ReviewApproved = "review_approved",
        ReviewRejected = "review_rejected",
        GatesRed = "gates_red",
        FixCreated = "fix_created",
        FixClaimed = "fix_claimed",
        BoundReached = "bound_reached",
        FixFinished = "fix_finished",
        PrMade = "pr_made",
        LocalOnly = "local_only",
        PrRecorded = "pr_recorded",
        /// The pull request needs no further review by remand.
        NothingPending = "nothing_pending",
        ChecksOpen = "checks_open",
        HeadApproved = "head_approved",
        NewRejection = "new_rejection",
        HeadMoved = "head_moved",
        NeedsPerson = "needs_person",
        Closed = "closed",
        Merged = "merged",
        MarkReady = "mark_ready",
        Approve = "approve",
        SkipToPr = "skip_to_pr",
        Retry = "retry",
        Reopened = "reopened",
    }
}

closed_enum! {
    /// Result of the loop for a change, once it has one.
    "final_verdict" FinalVerdict {
        Approved = "APPROVED",
        ChangesRequested = "CHANGES_REQUESTED",
        MaxCyclesReached = "MAX_CYCLES_REACHED",
        NeedsDiscussion = "NEEDS_DISCUSSION",
    }
}

closed_enum! {
    /// Action for a change that has used up its fixes.
    "on_max_cycles" OnMaxCycles {
        Escalate = "escalate",
        PrAnyway = "pr_anyway",
    }
}

closed_enum! {
    /// Stage at which remand's own reviewer first reads a change.
    "review" ReviewStage {
        /// Before the pull request is opened.
        BeforePr = "before_pr",
        /// On the pull request.
        OnPr = "on_pr",
        /// Never: only people and gates judge the change.
        Off = "off",
    }
}

closed_enum! {
    /// Extent of the work done for a change in shadow mode.
    "shadow mode" ShadowMode {
        /// Agents review, but nothing is done with the result.
        Review = "review",
        /// No agent runs.
        Dry = "dry",
    }
}

/// Shadow mode in the configuration; `None` if everything is done for real.
pub(crate) type Shadow = Option<ShadowMode>;

/// Returns the value of the `shadow` setting, as TOML.
pub(crate) fn shadow_setting(shadow: Shadow) -> String {
    shadow.map_or_else(|| "false".to_owned(), |mode| format!("\"{mode}\""))
}

closed_enum! {
    /// Origin of a watched pull request.
    "adopted_by" AdoptedBy {
        Watch = "watch",
        Discovery = "discovery",
    }
}

closed_enum! {
    /// Reason for holding a change, as far as remand can notice that it no longer applies before
    /// the hold expires.
    "hold_kind" HoldKind {
        /// Network, login, disk or an agent's usage limit: remand can only wait.
        Environment = "environment",
        /// The configuration has changed and is not in effect yet.
        Configuration = "configuration",
        /// The settings name no agent.
        NoAgent = "no_agent",
        /// A git command started by remand exceeded its time limit.
        GitLimit = "git_limit",
        /// Another git process is using the repository, or was killed and left its lock behind.
        GitLock = "git_lock",
        /// A gate was killed or disappeared.
        GateEnded = "gate_ended",
        /// The pull request could not be read. A successful read ends the hold.
        PrUnreadable = "pr_unreadable",
    }
}

impl HoldKind {
    /// True if one of remand's own steps failed on the contents of this change, so that waiting is
    /// unlikely to help. Not true for outages, limits and missing programs, which may last long.
    pub(crate) fn is_own_step(self) -> bool {
        match self {
            Self::GitLimit | Self::GitLock | Self::GateEnded => true,
            Self::Environment | Self::Configuration | Self::NoAgent | Self::PrUnreadable => false,
        }
    }
}

/// Change as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Change {
    pub(crate) change_id: ChangeId,
    pub(crate) project_id: ProjectId,
    pub(crate) title: String,
    pub(crate) branch: String,
    /// Branch that the work will be merged into.
    pub(crate) base: String,
    /// Commit expected at the tip of the branch.
    pub(crate) head: String,
    pub(crate) worktree: String,
    pub(crate) host: String,
    pub(crate) pr_number: Option<i64>,
    pub(crate) state: State,
    pub(crate) escalated_from: Option<State>,
    pub(crate) on_max_cycles: OnMaxCycles,
    pub(crate) budget: Budget,
    /// Set if paused by a person, by the project's rules, by a stop or by shadow mode, if a person
    /// has taken it over, or for several of these reasons.
    pub(crate) paused: bool,
    pub(crate) paused_by_person: bool,
    pub(crate) paused_by_rules: bool,
    /// Set if its project, or everything, is stopped.
    pub(crate) stopped: bool,
    /// Set if the change is only observed, and nothing is done for it.
    pub(crate) shadow: bool,
    /// A person's decision about shadow mode; `None` if the configuration applies.
    pub(crate) shadow_word: Option<bool>,
    /// Shadow mode that the decision applies to.
    pub(crate) shadow_mode: Shadow,
    pub(crate) held_until: Option<Time>,
    pub(crate) hold_reason: Option<String>,
    pub(crate) hold_kind: Option<HoldKind>,
    /// Kind of the last hold caused by one of remand's own steps. `hold_repeats` is its number of
    /// consecutive occurrences.
    pub(crate) last_hold: Option<HoldKind>,
    pub(crate) hold_repeats: i64,
    pub(crate) first_hold_at: Option<Time>,
    /// Number of consecutive holds, from which the back-off is computed.
    pub(crate) holds: i64,
    pub(crate) final_verdict: Option<FinalVerdict>,
    pub(crate) human_review_required: bool,
    /// The one thing that a person has to decide; set when escalated.
    pub(crate) decision: Option<String>,
    /// Commands in `decision`, most likely first.
    pub(crate) decision_commands: Vec<String>,
    pub(crate) implementation_item_id: Option<String>,
    /// Origin of its PR; `None` for a change that was submitted as a worktree.
    pub(crate) adopted_by: Option<AdoptedBy>,
    /// Set if remand created the worktree, and may create it again.
    pub(crate) own_worktree: bool,
    /// Set if HEAD of the worktree is detached. `refs/remand/change/ID` keeps its commits.
    pub(crate) detached: bool,
    /// Key of the last completed set-up of the worktree.
    pub(crate) setup_done: Option<String>,
    /// Cleared when a person reverts one of remand's fixes.
    pub(crate) auto_fix: bool,
    pub(crate) review: ReviewStage,
    /// Cleared for a change whose reviews and fixes are each started by a person.
    pub(crate) auto_review: bool,
    /// Set if remand opens its pull request.
    pub(crate) opens_pr: bool,
    /// Change that must be merged before work on this one starts.
    pub(crate) waits_for: Option<ChangeId>,
    /// Cleared if feedback on its pull request is fixed only when a person says so.
    pub(crate) auto_address: bool,
    /// Set if a person has to verify it after its review.
    pub(crate) skip_tests: bool,
    /// Set if its pull request reports when it is ready for a person.
    pub(crate) notify_ready: bool,
    /// Set while a person continues by hand in its worktree.
    pub(crate) taken_over: bool,
    pub(crate) created_at: Time,
    pub(crate) updated_at: Time,
    /// Time at which it was merged or closed.
    pub(crate) completed_at: Option<Time>,
}

/// Limits of a change and what it has used so far.
///
/// All values are absolute and none resets by itself, except `fix_cycle`, which restarts with every
/// round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Budget {
    pub(crate) fix_cycle: i64,
    pub(crate) max_fix_cycles: i64,
    /// Limit set by a person for this change; `None` if the project's limit applies.
    pub(crate) own_max_fix_cycles: Option<i64>,
    /// Number of cycles that a person added to either limit.
    pub(crate) added_fix_cycles: i64,
    pub(crate) total_fixes: i64,
    pub(crate) max_total_fixes: i64,
    pub(crate) run_ms: i64,
    pub(crate) max_run_ms: i64,
    pub(crate) tokens: i64,
    pub(crate) max_tokens: Option<i64>,
    pub(crate) cost_micros: i64,
    pub(crate) max_cost_micros: Option<i64>,
}

/// Limits of a new change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) on_max_cycles: OnMaxCycles,
    pub(crate) max_fix_cycles: i64,
    pub(crate) max_total_fixes: i64,
    pub(crate) max_run_ms: i64,
    /// `None` means unlimited, as for the cost.
    pub(crate) max_tokens: Option<i64>,
    pub(crate) max_cost_micros: Option<i64>,
}

/// Settings of a new change about its reviews.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReviewRules {
    pub(crate) stage: ReviewStage,
    pub(crate) auto_address: bool,
    pub(crate) skip_tests: bool,
    pub(crate) notify_ready: bool,
}

/// Maximum number of fixes per round, and the source of that limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FixBound {
    pub(crate) most: i64,
    pub(crate) from: String,
}

/// Kinds of limits on what agents may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spent {
    Time,
    Tokens,
    Money,
}

impl Budget {
    /// Returns the first limit that is reached.
    pub(crate) fn spent(&self) -> Option<Spent> {
        let is_over = |spent: i64, most: Option<i64>| most.is_some_and(|most| spent >= most);
        if self.run_ms >= self.max_run_ms {
            Some(Spent::Time)
        } else if is_over(self.tokens, self.max_tokens) {
            Some(Spent::Tokens)
        } else if is_over(self.cost_micros, self.max_cost_micros) {
            Some(Spent::Money)
        } else {
            None
        }
    }

    /// Describes how much of a limit was used.
    pub(crate) fn used(&self, spent: Spent) -> String {
        match spent {
            Spent::Time => {
                let most = u64::try_from(self.max_run_ms).unwrap_or(0);
                let most = human_time::span(Duration::from_millis(most));
                format!("reached its limit of {most} of agent time")
            }
            Spent::Tokens => format!("used {} tokens, its limit", self.tokens),
            Spent::Money => {
                let most = dollars(self.max_cost_micros.unwrap_or(0));
                format!("spent {} (limit: {most})", dollars(self.cost_micros))
            }
        }
    }
}

impl Change {
    /// Returns the command that raises a limit.
    pub(crate) fn more_command(&self, spent: Spent) -> Decision {
        let id = &self.change_id;
        Decision::command(match spent {
            Spent::Time => format!("remand budget {id} --time +1h"),
            Spent::Tokens => format!(
                "remand budget {id} --tokens +{}",
                self.budget.max_tokens.unwrap_or(100_000)
            ),
            Spent::Money => format!("remand budget {id} --money +5"),
        })
    }

    /// Formats the progress of a round for people: `fix 1/2`.
    pub(crate) fn cycle_text(&self) -> String {
        format!(
            "fix {}/{}",
            self.budget.fix_cycle, self.budget.max_fix_cycles
        )
    }

    /// Explains how a person gets their own commits into the loop.
    ///
    /// The worktree of a pull request is detached and belongs to remand: only commits on the remote
    /// count there.
    pub(crate) fn submit_advice(&self) -> Decision {
        match self.pr_number {
            Some(number) => format!(
                "push your commit to {}, the branch of PR #{number}",
                self.branch
            )
            .into(),
            None => decision!(
                "run {review}",
                review = Decision::command(format!("remand review --worktree {}", self.worktree)),
            ),
        }
    }

    /// Returns the column of the board.
    pub(crate) fn column(&self) -> &'static str {
        self.state.column(self.skip_tests)
    }

    pub(crate) fn has_pr(&self) -> bool {
        self.pr_number.is_some()
    }

    /// True if remand opens its pull request and has not done so.
    pub(crate) fn lacks_pr(&self) -> bool {
        self.opens_pr && !self.has_pr()
    }

    /// True if remand's reviewer reads the change at its present stage.
    pub(crate) fn is_reviewed(&self) -> bool {
        match self.review {
            ReviewStage::BeforePr => true,
            ReviewStage::OnPr => self.has_pr(),
            ReviewStage::Off => false,
        }
    }

    /// True if the change was made from a task by remand.
    pub(crate) fn is_task(&self) -> bool {
        self.implementation_item_id.is_some()
    }
}

impl State {
    /// True if an agent is working on the change, or was when the program died.
    pub(crate) fn is_running(self) -> bool {
        match self {
            Self::Implementing
            | Self::SelfReviewing
            | Self::Refining
            | Self::ReviewingPr
            | Self::AddressingFeedback => true,
            Self::Queued
            | Self::PendingSelfReview
            | Self::SelfReviewPassed
            | Self::SelfReviewFailed
            | Self::PrCreated
            | Self::AwaitingPrFeedback
            | Self::ReadyForHumanReview
            | Self::Approved
            | Self::Merged
            | Self::Closed
            | Self::Escalated => false,
        }
    }

    /// True if nothing more happens unless a person or the forge reopens the change.
    pub(crate) fn is_over(self) -> bool {
        matches!(self, Self::Merged | Self::Closed)
    }

    /// True for the successful end states, for `wait` and for the demo.
    pub(crate) fn is_approved(self) -> bool {
        matches!(
            self,
            Self::ReadyForHumanReview | Self::Approved | Self::Merged
        )
    }

    /// Returns the column of the board. Without `skip_tests`, gates and review have verified a change
    /// that is ready.
    pub(crate) fn column(self, skip_tests: bool) -> &'static str {
        match self {
            Self::Escalated => "Needs you",
            Self::Queued => "Backlog",
            Self::Implementing
            | Self::Refining
            | Self::AddressingFeedback
            | Self::SelfReviewFailed => "In progress",
            Self::PendingSelfReview
            | Self::SelfReviewing
            | Self::AwaitingPrFeedback
            | Self::ReviewingPr => "Code review",
            Self::ReadyForHumanReview if !skip_tests => "Verified",
            Self::SelfReviewPassed | Self::PrCreated | Self::ReadyForHumanReview => {
                "Waiting approval"
            }
            Self::Approved => "Verified",
            Self::Merged | Self::Closed => "Done",
        }
    }
}
