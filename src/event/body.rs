//! Metadata of events: one struct per event type.
//!
//! Stored events are never changed, people append events by hand, and other programs append events
//! with additional keys. Reading therefore accepts every object: a key that is absent or has
//! another type gets the field's default, and an unknown key is ignored. Keys may be added to a
//! struct; none is renamed or removed.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::EventType;
use crate::change::{AdoptedBy, ChangeId, HoldKind, ProjectId, State, Trigger};
use crate::clock::Time;
use crate::closed_enum::closed_enum;
use crate::finding::{Finding, FindingId, Outcome, ReviewId, Severity, Verdict};
use crate::intent::{IntentKind, IntentResult};
use crate::proposal::{Bound, Refusal};
use crate::pull_request::{CommentKind, Trust};
use crate::task::EditedField;
use crate::work::{Ended, ItemId, LeftOut, PlanSource, PromptCut, RejectionId, RunId, Source};

/// Metadata of one event type.
pub(crate) trait Body: Serialize + DeserializeOwned + Default {
    const TYPE: EventType;
}

/// Declares the metadata of event types. Keys before the semicolon are always written, those after
/// it only if they differ from the default.
macro_rules! bodies {
    ($(
        $(#[$meta:meta])*
        $name:ident { $($(#[$always_meta:meta])* $always:ident: $always_type:ty),* $(,)?
            $(; $($(#[$some_meta:meta])* $some:ident: $some_type:ty),+ $(,)?)? }
    )+) => {
        $(
            $(#[$meta])*
            #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
            #[serde(default)]
            pub(crate) struct $name {
                $(
                    $(#[$always_meta])*
                    #[serde(deserialize_with = "lenient")]
                    pub(crate) $always: $always_type,
                )*
                $($(
                    $(#[$some_meta])*
                    #[serde(deserialize_with = "lenient", skip_serializing_if = "is_default")]
                    pub(crate) $some: $some_type,
                )+)?
            }

            impl Body for $name {
                const TYPE: EventType = EventType::$name;
            }

            impl From<$name> for (EventType, Value) {
                fn from(body: $name) -> Self {
                    // Null is not an object, and the table refuses it. Serializing these structs
                    // cannot fail.
                    (EventType::$name, serde_json::to_value(body).unwrap_or_default())
                }
            }
        )+

        /// Keys of each event type, in order of declaration.
        #[cfg(test)]
        pub(crate) const KEYS: &[(EventType, &[&str])] = &[
            $((EventType::$name, &[$(stringify!($always),)* $($(stringify!($some),)+)?])),+
        ];
    };
}

/// Reads a value of an unexpected type as the default.
fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(T::deserialize(Value::deserialize(deserializer)?).unwrap_or_default())
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

bodies! {
    WorkCreated { source: Option<Source>, item_id: Option<ItemId>;
        idempotency_key: Option<String>,
        /// Set if the change had ended and was reopened.
        again: bool,
    }
    WorkClaimed { item_id: Option<ItemId>, source: Option<Source>, epoch: i64, attempt: i64, holder: String }
    WorkCompleted { item_id: Option<ItemId>, source: Option<Source> }
    WorkFailed { item_id: Option<ItemId>, source: Option<Source>, reason: String, wip: Option<String> }
    WorkCancelled { item_id: Option<ItemId>, reason: String }

    /// A request for changes. An event without metadata has only its summary, which then is the
    /// feedback.
    WorkRejected {
        verdict: Option<Verdict>,
        head: Option<String>,
        body: String;
        /// Verdict as the reviewer gave it.
        raw_verdict: Option<Verdict>,
        review_id: Option<ReviewId>,
        /// Item of the review that rejected the change.
        item_id: Option<ItemId>,
        findings: Vec<Finding>,
        /// Comments on the pull request that it contains; `None` if it does not come from a pull
        /// request.
        feedback: Option<Vec<String>>,
        /// Number of comments that did not fit.
        left_out: usize,
        left_out_feedback: Vec<String>,
        /// Part of `body` that its author wrote, if the body repeats older feedback.
        said: Option<String>,
        /// Set if it replaces all older rejections of the change, up to the event `supersedes_to`.
        supersedes: bool,
        supersedes_to: Option<i64>,
        /// Gate that fails on the head and not on the base.
        gate: Option<RedGate>,
        base: Option<String>,
        /// Set for a person's feedback; `None` if it depends on the actor.
        begins_round: Option<bool>,
    }
    WorkApproved { verdict: Option<Verdict>, head: Option<String>, base: Option<String>;
        raw_verdict: Option<Verdict>,
        review_id: Option<ReviewId>,
        item_id: Option<ItemId>,
        feedback_id: Option<String>,
        /// Findings that the review closes.
        not_raised_again: Vec<FindingId>,
    }
    FixCreated {
        item_id: Option<ItemId>,
        rejections: Vec<RejectionId>,
        fix_cycle: i64,
        max_fix_cycles: i64,
        context: Vec<RejectionContext>,
    }
    FixCommitted {
        item_id: Option<ItemId>,
        head_before: String,
        head_after: String,
        commits: usize,
        files: Vec<String>,
        fix_cycle: i64,
        answers: Vec<Answer>;
        /// Number of files that are not listed.
        more: usize,
    }
    FixPushed {
        item_id: Option<ItemId>,
        head_before: String,
        head_after: String,
        commits: usize,
        files: Vec<String>,
        fix_cycle: i64,
        answers: Vec<Answer>,
        remote: String,
        branch: String;
        more: usize,
    }
    ReviewRequeued { item_id: Option<ItemId>, fix_cycle: i64, head: String }
    ReviewPosted { review_id: Option<ReviewId>, url: Option<String>, r#as: Option<IntentResult> }
    ReviewUnclear { item_id: Option<ItemId>, run_id: Option<RunId>, reason: String, missing: Vec<String> }
    EditsUndone { wip: Option<String>;
        run_id: Option<RunId>,
        moved_aside: Vec<PathBuf>,
        paths: Vec<String>,
        more: usize,
        /// New commit of the worktree.
        to: Option<String>,
    }
    PermissionDenied { run_id: Option<RunId>, denied: Vec<String>; more: usize }
    CheckoutChanged { run_id: Option<RunId>, what: Vec<String>; more: usize }
    HeadMoved { from: Option<String>, to: String; wip: Option<String> }
    Escalated {
        reason: String,
        /// The one thing to decide.
        decide: String,
        commands: Vec<String>,
        from: Option<State>,
        bound: Option<Bound>,
        /// Item that failed.
        item_id: Option<ItemId>;
        /// Reason why a pull request was not opened.
        refusal: Option<Refusal>,
    }
    /// An instruction by a person.
    Instructed { action: Option<Action>, text: String, by: String;
        added: Option<Addition>,
        at_once: Option<bool>,
        findings: Option<Vec<FindingId>>,
        /// Command that resumes the session of the interrupted agent.
        command: Option<String>,
        changed: Vec<EditedField>,
    }
    /// Work that would have run outside of shadow mode, or a review made in shadow mode.
    Shadowed {
        item_id: Option<ItemId>,
        source: Option<Source>,
        change_id: Option<ChangeId>,
        agent: Option<String>,
        model: Option<String>,
        trouble: Option<String>;
        worktree: Option<String>,
        prompt: Option<String>,
        prompt_bytes: Option<i64>,
        tokens: Option<i64>,
        cost_micros: Option<i64>,
        run_ms: Option<i64>,
        basis: Option<String>,
        run_id: Option<RunId>,
        head: Option<String>,
        base: Option<String>,
        verdict: Option<Verdict>,
        summary: Option<String>,
        findings: Option<Vec<Finding>>,
    }
    StateChanged { from: Option<State>, to: Option<State>, on: Option<Cause> }
    RunStarted {
        run_id: Option<RunId>,
        item_id: Option<ItemId>,
        epoch: i64,
        agent: String,
        session: Option<String>,
        head_before: String,
        /// Comments in its prompt.
        guidance: Vec<String>,
        /// Number of the run within its item.
        part: usize,
        feedback: PromptFeedback,
        /// Directory of the plan, or the reason why there is none.
        plan: Option<PlanSource>,
    }
    RunFinished {
        run_id: Option<RunId>,
        ended: Option<Ended>,
        status: Option<i64>,
        signal: Option<i64>,
        elapsed_ms: i64,
        wip: Option<String>,
    }
    RunLost { run_id: Option<RunId>, wip: Option<String>; item_id: Option<ItemId>, lost_in_a_row: i64 }
    WorktreeMade { path: String, branch: String, head: Option<String>, restored: bool }
    SetupRun {
        place: Option<SetUpPlace>,
        path: String,
        command: Vec<String>,
        result: Option<SetUpResult>,
        status: Option<i32>,
        elapsed_ms: u64,
    }
    GateFailed { run_id: Option<RunId>, command: String, status: Option<i32>, round: i64, output: String }
    Held { reason: String, until: Option<Time>; kind: Option<HoldKind> }
    Resumed { reason: String; held_for: Option<String> }
    FeedbackReceived { feedback_id: String, author: String, kind: Option<FeedbackKind>;
        trust: Option<Trust>,
        /// Reason for the trust decision.
        why: Option<String>,
        url: Option<String>,
    }
    PrAdopted { repo: Option<String>, number: i64, by: Option<AdoptedBy>, head: String, url: String }
    PrChanged { what: Option<PullChange>; feedback_id: Option<String>, event_id: Option<i64> }
    Posted { key: String, kind: Option<IntentKind>, url: Option<String> }
    MessageSent { message_id: String, from: String, to: String, kind: String }
    Notified { channel: String, notification_id: String }
    /// An action that was not taken.
    Skipped { reason: String;
        code: Option<SkipCode>,
        event_id: Option<i64>,
        item_id: Option<ItemId>,
        run_id: Option<RunId>,
        feedback_id: Option<String>,
        /// Key of a post or of an evaluator's proposal.
        key: Option<String>,
        result: Option<IntentResult>,
        /// Number of an evaluator's line that could not be parsed. `text` is its text.
        line: Option<usize>,
        text: Option<String>,
        /// Name of a pull request that is not adopted.
        pull: Option<String>,
        issue: Option<i64>,
        url: Option<String>,
        bound: Option<Bound>,
        wip: Option<String>,
        plan: Option<PlanSource>,
        left_out: Vec<LeftOutPart>,
        more: usize,
        until: Option<Time>,
        deadline: Option<String>,
        stored: Option<Time>,
        kind: Option<String>,
        cause: Option<String>,
        request: Option<i64>,
    }
    Pruned {
        changes: Vec<ChangeId>,
        title: String,
        branch: String,
        project_id: Option<ProjectId>,
        pr_number: Option<i64>,
        state: Option<State>,
        head: String,
        ended_at: Option<Time>,
        events: usize,
        items: i64,
        rejections: i64,
        reviews: i64,
        findings: i64,
        feedback: i64,
        intents: i64,
        messages: i64,
        notifications: i64,
        runs: Vec<String>;
        more: usize,
    }
    Reloaded {
        config: Option<String>,
        /// Settings that take effect only after a restart.
        kept: Vec<String>,
        cause: String,
        request: Option<i64>,
        changed: Vec<ChangedSetting>,
        files: Vec<String>,
        /// Safeguards that the new settings remove.
        weaker: Vec<String>;
        more: usize,
    }
    DaemonEnded { cause: String, pid: u32, silent_since: Option<Time>, runs: Vec<RunId> }
    Implemented {
        item_id: Option<ItemId>,
        head_before: String,
        head_after: String,
        commits: usize,
        files: Vec<String>;
        more: usize,
    }
    PrCreated { repo: Option<String>, number: i64, url: String, head: String, draft: bool, found: bool }
    WorktreeRemoved {
        path: String,
        branch: Option<String>,
        head: Option<String>,
        why: Option<RemovalCause>,
    }
}

/// Keys whose values are sentences for people; `context.summary` is a key of the objects in a list.
/// Tests replace them by random words, so no decision may depend on them.
#[cfg(feature = "failpoints")]
pub(crate) const PROSE: &[(EventType, &[&str])] = &[
    (EventType::WorkFailed, &["reason"]),
    (EventType::WorkCancelled, &["reason"]),
    (EventType::FixCreated, &["context.summary"]),
    (EventType::FixCommitted, &["answers.reason"]),
    (EventType::FixPushed, &["answers.reason"]),
    (EventType::ReviewUnclear, &["reason", "missing"]),
    (EventType::CheckoutChanged, &["what"]),
    (EventType::Escalated, &["reason", "decide"]),
    (EventType::Instructed, &["text"]),
    (EventType::Shadowed, &["trouble", "basis", "summary"]),
    (EventType::Held, &["reason"]),
    (EventType::Resumed, &["reason", "held_for"]),
    (EventType::FeedbackReceived, &["why"]),
    (EventType::Skipped, &["reason"]),
];

/// Gate that failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RedGate {
    #[serde(deserialize_with = "lenient")]
    pub(crate) command: String,
    #[serde(deserialize_with = "lenient")]
    pub(crate) status: Option<i32>,
}

/// Summary of one rejection that a fix addresses: author, size and location.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RejectionContext {
    pub(crate) rejection_id: RejectionId,
    pub(crate) by: String,
    pub(crate) summary: String,
    pub(crate) findings: usize,
    /// Severity of the worst finding.
    pub(crate) severity: Option<Severity>,
    /// Files of its findings, up to a limit.
    pub(crate) paths: Vec<String>,
}

/// Answer of an agent to a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) id: String,
    pub(crate) outcome: Outcome,
    pub(crate) reason: String,
}

/// Number of pieces of feedback in a prompt, and of those left for a later one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PromptFeedback {
    pub(crate) in_prompt: usize,
    pub(crate) later: usize,
}

/// Content that did not fit into a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum LeftOutPart {
    Feedback(LeftOut),
    Section(PromptCut),
}

/// Amounts that a person adds to the limits of a change; 0 adds nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Addition {
    pub(crate) fixes: i64,
    pub(crate) run_ms: i64,
    pub(crate) tokens: i64,
    pub(crate) cost_micros: i64,
}

/// Setting with a new value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangedSetting {
    pub(crate) key: String,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
}

/// Reason why a change is in its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The change was first recorded in this state.
    Entered,
    Trigger(Trigger),
}

const ENTERED: &str = "entered";

impl Serialize for Cause {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Entered => serializer.serialize_str(ENTERED),
            Self::Trigger(trigger) => trigger.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Cause {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == ENTERED {
            return Ok(Self::Entered);
        }
        text.parse()
            .map(Self::Trigger)
            .map_err(serde::de::Error::custom)
    }
}

closed_enum! {
    /// Instruction by a person or by the configuration.
    "action" Action {
        Retry = "retry",
        Refine = "refine",
        Approve = "approve",
        Verdict = "verdict",
        Cancel = "cancel",
        Pause = "pause",
        Resume = "resume",
        Post = "post",
        Comment = "comment",
        Budget = "budget",
        MaxFixCycles = "max_fix_cycles",
        Shadow = "shadow",
        AcceptGitSettings = "accept_git_settings",
        Reload = "reload",
        Stop = "stop",
        Start = "start",
        RemoveProject = "remove_project",
        Skip = "skip",
        Ready = "ready",
        Waive = "waive",
        Takeover = "takeover",
        Handback = "handback",
        Reopen = "reopen",
        Edit = "edit",
    }
}

closed_enum! {
    /// Location of a set-up.
    "place" SetUpPlace {
        Worktree = "worktree",
        Checkout = "checkout",
    }
}

closed_enum! {
    /// Result of a set-up.
    "result" SetUpResult {
        Done = "done",
        Failed = "failed",
        TimedOut = "timed_out",
        NotStarted = "not_started",
    }
}

closed_enum! {
    /// Reason for removing a worktree.
    "why" RemovalCause {
        /// Its change ended some time ago.
        Ended = "ended",
        /// A person requested it.
        Requested = "requested",
    }
}

closed_enum! {
    /// Place where feedback was given.
    "kind" FeedbackKind {
        Review = "review",
        ReviewComment = "review_comment",
        IssueComment = "issue_comment",
        /// Guidance by the operator.
        Person = "person",
    }
}

impl From<CommentKind> for FeedbackKind {
    fn from(kind: CommentKind) -> Self {
        match kind {
            CommentKind::Review => Self::Review,
            CommentKind::ReviewComment => Self::ReviewComment,
            CommentKind::IssueComment => Self::IssueComment,
            CommentKind::Person => Self::Person,
        }
    }
}

closed_enum! {
    /// Change to a pull request.
    "what" PullChange {
        Merged = "merged",
        Closed = "closed",
        Reopened = "reopened",
        Retargeted = "retargeted",
        Unwanted = "unwanted",
        Wanted = "wanted",
        Dismissed = "dismissed",
    }
}

closed_enum! {
    /// Reason why an action was not taken.
    "skip code" SkipCode {
        /// An event names a change that does not exist.
        UnknownTarget = "unknown_target",
        /// The change has been merged or closed.
        ChangeOver = "change_over",
        /// Its pull request is closed. The change waits for it to be reopened.
        PrClosed = "pr_closed",
        /// The change is waiting for a person.
        WaitsForPerson = "waits_for_person",
        /// An approval was given for another commit.
        OtherHead = "other_head",
        /// An event could not be processed.
        EventFailed = "event_failed",
        /// A comment was edited after it had been read.
        CommentEdited = "comment_edited",
        ReviewDismissed = "review_dismissed",
        /// Feedback that creates no work.
        FeedbackPassedOver = "feedback_passed_over",
        DescriptionWithheld = "description_withheld",
        IssueWithheld = "issue_withheld",
        NotPosted = "not_posted",
        /// A push whose item had ended before its result was known.
        PushSettled = "push_settled",
        /// A pull request that the project's rules do not select.
        NotTakenOver = "not_taken_over",
        /// A reopened pull request whose change cannot be reopened.
        StaysClosed = "stays_closed",
        /// A limit was reached, and `on_max_cycles` is "pr_anyway".
        BoundPassed = "bound_passed",
        /// Sections that were too long for a prompt.
        PromptCut = "prompt_cut",
        PlanUnused = "plan_unused",
        /// Feedback that did not fit into any prompt.
        FeedbackLeftOut = "feedback_left_out",
        WorkUnused = "work_unused",
        /// Commits that are no longer on the branch.
        CommitsReplaced = "commits_replaced",
        SettingsRefused = "settings_refused",
        /// A deadline that was stored by a wrong clock.
        DeadlineVoided = "deadline_voided",
        /// No loop runs items of this source.
        SourceNotRun = "source_not_run",
        ProposalRefused = "proposal_refused",
        LineRefused = "line_refused",
        LineLimit = "line_limit",
        EvaluatorFailed = "evaluator_failed",
        /// A change that remand cannot continue with.
        SetAside = "set_aside",
        /// Checks that fail on the merge base as well.
        ChecksNotOurs = "checks_not_ours",
        /// A required check that nothing has reported.
        CheckMissing = "check_missing",
        /// Checks that ended without a result, and do not run again.
        ChecksStopped = "checks_stopped",
        ReadFailed = "read_failed",
    }
}

/// Maximum number of entries of a list whose length is controlled by others.
const MOST_LISTED: usize = 200;

/// Shortens such a list. Returns it with the number of omitted entries.
pub(crate) fn listed<T>(mut list: Vec<T>) -> (Vec<T>, usize) {
    let more = list.len().saturating_sub(MOST_LISTED);
    list.truncate(MOST_LISTED);
    (list, more)
}

impl Skipped {
    /// Creates the metadata with only code and reason. Other keys are added with `..`.
    pub(crate) fn because(code: SkipCode, reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            code: Some(code),
            ..Self::default()
        }
    }
}

impl Instructed {
    pub(crate) fn new(action: Action, text: impl Into<String>, by: impl Into<String>) -> Self {
        Self {
            action: Some(action),
            text: text.into(),
            by: by.into(),
            ..Self::default()
        }
    }
}
