//! A change: one branch in one worktree, perhaps with one PR. It carries the state, the cycle and the budget.

use serde::Serialize;

use crate::clock::Time;
use crate::closed_enum::{closed_enum, id};
use crate::proposal::{Decision, decision};

id!(
    /// `c3`
    ChangeId
);
id!(
    /// The short name of a repository known to remand.
    ProjectId
);

closed_enum! {
    /// Where a change is in the loop. The moves between them are in `state`.
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
    /// An occurrence that moves a change from state to state.
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
    /// How the loop ended for a change, as far as it has.
    "final_verdict" FinalVerdict {
        Approved = "APPROVED",
        ChangesRequested = "CHANGES_REQUESTED",
        MaxCyclesReached = "MAX_CYCLES_REACHED",
        NeedsDiscussion = "NEEDS_DISCUSSION",
    }
}

closed_enum! {
    /// What happens to a change whose fixes are used up.
    "on_max_cycles" OnMaxCycles {
        Escalate = "escalate",
        PrAnyway = "pr_anyway",
    }
}

closed_enum! {
    /// What is done for a change in shadow.
    "kind of shadow" ShadowMode {
        /// Agents review; nothing follows from that.
        Review = "review",
        /// No agent runs.
        Dry = "dry",
    }
}

/// What the configuration says of shadow; none: everything is done for real.
pub(crate) type Shadow = Option<ShadowMode>;

/// The value of the setting `shadow`, in TOML.
pub(crate) fn shadow_setting(shadow: Shadow) -> String {
    shadow.map_or_else(|| "false".to_owned(), |mode| format!("\"{mode}\""))
}

closed_enum! {
    /// How a pull request came to be watched.
    "adopted_by" AdoptedBy {
        Watch = "watch",
        Discovery = "discovery",
    }
}

closed_enum! {
    /// What a held change waits for, as far as the program can notice its end before the time is up.
    "hold_kind" HoldKind {
        /// Network, login, disk, an agent's usage limit: only time tells.
        Environment = "environment",
        /// A changed configuration that is not in force.
        Configuration = "configuration",
        /// The settings name no agent.
        NoAgent = "no_agent",
        /// A git of remand's own ran into its time limit.
        GitLimit = "git_limit",
        /// Another git is at work in the repository, or one was killed and left its lock.
        GitLock = "git_lock",
        /// A gate was killed, or vanished.
        GateEnded = "gate_ended",
        /// Its pull request could not be read: a good read ends it.
        PrUnreadable = "pr_unreadable",
    }
}

impl HoldKind {
    /// Whether a step of remand's own failed on what this change has: waiting alone is unlikely to help. Outages, limits
    /// and missing programs are not such: they may take long.
    pub(crate) fn is_own_step(self) -> bool {
        match self {
            Self::GitLimit | Self::GitLock | Self::GateEnded => true,
            Self::Environment | Self::Configuration | Self::NoAgent | Self::PrUnreadable => false,
        }
    }
}

/// A change as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Change {
    pub(crate) change_id: ChangeId,
    pub(crate) project_id: ProjectId,
    pub(crate) title: String,
    pub(crate) branch: String,
    /// The branch that the work goes into.
    pub(crate) base: String,
    /// The commit that we expect at the tip of the branch.
    pub(crate) head: String,
    pub(crate) worktree: String,
    pub(crate) host: String,
    pub(crate) pr_number: Option<i64>,
    pub(crate) state: State,
    pub(crate) escalated_from: Option<State>,
    pub(crate) on_max_cycles: OnMaxCycles,
    pub(crate) budget: Budget,
    /// By a person, by the project's rules, by a stop, by being in shadow, or by several of them.
    pub(crate) paused: bool,
    pub(crate) paused_by_person: bool,
    pub(crate) paused_by_rules: bool,
    /// Its project, or everything, is stopped.
    pub(crate) stopped: bool,
    /// It is only looked at, and nothing is done for it.
    pub(crate) shadow: bool,
    /// A person's word on that; none: the configuration's counts.
    pub(crate) shadow_word: Option<bool>,
    /// Which shadow that word is for.
    pub(crate) shadow_mode: Shadow,
    pub(crate) held_until: Option<Time>,
    pub(crate) hold_reason: Option<String>,
    pub(crate) hold_kind: Option<HoldKind>,
    /// The last hold by a step of remand's own, and how often it held the change in a row.
    pub(crate) last_hold: Option<HoldKind>,
    pub(crate) hold_repeats: i64,
    pub(crate) first_hold_at: Option<Time>,
    /// Holds in a row: the back-off grows with it.
    pub(crate) holds: i64,
    pub(crate) final_verdict: Option<FinalVerdict>,
    pub(crate) human_review_required: bool,
    /// The one thing that a person has to decide, when escalated.
    pub(crate) decision: Option<String>,
    /// The commands in it, likeliest first.
    pub(crate) decision_commands: Vec<String>,
    pub(crate) implementation_item_id: Option<String>,
    /// How its PR came here; none for a change that came as a worktree.
    pub(crate) adopted_by: Option<AdoptedBy>,
    /// remand made the worktree, and may make it again.
    pub(crate) own_worktree: bool,
    /// HEAD of the worktree is on no branch: `refs/remand/change/ID` keeps its commits.
    pub(crate) detached: bool,
    /// What the worktree's set-up was last run for.
    pub(crate) setup_done: Option<String>,
    /// Off since a person took a fix of ours back.
    pub(crate) auto_fix: bool,
    pub(crate) created_at: Time,
    pub(crate) updated_at: Time,
}

/// What a change may spend and has spent. Absolute: nothing here resets by itself, but `fix_cycle`
/// begins again with every round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Budget {
    pub(crate) fix_cycle: i64,
    pub(crate) max_fix_cycles: i64,
    /// A person's number for this change; none: the project's counts.
    pub(crate) own_max_fix_cycles: Option<i64>,
    /// What a person added to either.
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

/// The bounds of a new change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) on_max_cycles: OnMaxCycles,
    pub(crate) max_fix_cycles: i64,
    pub(crate) max_total_fixes: i64,
    pub(crate) max_run_ms: i64,
    /// None: unlimited. The same holds for the cost.
    pub(crate) max_tokens: Option<i64>,
    pub(crate) max_cost_micros: Option<i64>,
}

/// How many fixes a round may take, and what says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FixBound {
    pub(crate) most: i64,
    pub(crate) from: String,
}

/// A bound on what agents may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spent {
    Time,
    Tokens,
    Money,
}

impl Budget {
    /// The first bound that is reached.
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

    /// How much of a bound was used, in words.
    pub(crate) fn used(&self, spent: Spent) -> String {
        match spent {
            Spent::Time => format!(
                "used all {} seconds of its agents' time",
                self.max_run_ms / 1000
            ),
            Spent::Tokens => format!("used {} tokens, all it may", self.tokens),
            Spent::Money => {
                let most = dollars(self.max_cost_micros.unwrap_or(0));
                format!(
                    "spent {} of {most}, all that it may",
                    dollars(self.cost_micros)
                )
            }
        }
    }
}

impl Change {
    /// The command that allows more than a bound.
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

    /// How a person reads "how far": `fix 1/2`.
    pub(crate) fn cycle_text(&self) -> String {
        format!(
            "fix {}/{}",
            self.budget.fix_cycle, self.budget.max_fix_cycles
        )
    }

    /// Tells a person how commits of their own get into the loop.
    ///
    /// The worktree of a pull request is detached and remand's own: only what is on the remote counts there.
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

    pub(crate) fn has_pr(&self) -> bool {
        self.pr_number.is_some()
    }
}

/// An amount of money for people: `$5.00`.
pub(crate) fn dollars(micros: i64) -> String {
    format!(
        "${}.{:02}",
        micros.div_euclid(1_000_000),
        micros.rem_euclid(1_000_000) / 10_000
    )
}

impl State {
    /// An agent is, or was when the program died, at work on the change.
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

    /// Nothing happens any more unless a person or the forge says so.
    pub(crate) fn is_over(self) -> bool {
        matches!(self, Self::Merged | Self::Closed)
    }

    /// Good ends, for `wait` and for the demo.
    pub(crate) fn is_approved(self) -> bool {
        matches!(
            self,
            Self::ReadyForHumanReview | Self::Approved | Self::Merged
        )
    }

    /// The column of the board.
    pub(crate) fn column(self) -> &'static str {
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
            Self::SelfReviewPassed | Self::PrCreated | Self::ReadyForHumanReview => {
                "Waiting approval"
            }
            Self::Approved => "Verified",
            Self::Merged | Self::Closed => "Done",
        }
    }
}
