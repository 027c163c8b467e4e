//! Events: facts on the blackboard, appended and never changed. `body` has the metadata of each
//! type.

pub(crate) mod body;

use serde::Serialize;
use serde_json::Value;

use crate::change::ChangeId;
use crate::clock::Time;
use crate::closed_enum::closed_enum;

closed_enum! {
    "event_type" EventType {
        WorkCreated = "work_created",
        WorkClaimed = "work_claimed",
        WorkCompleted = "work_completed",
        WorkFailed = "work_failed",
        WorkCancelled = "work_cancelled",
        WorkRejected = "work_rejected",
        WorkApproved = "work_approved",
        FixCreated = "fix_created",
        FixCommitted = "fix_committed",
        FixPushed = "fix_pushed",
        ReviewRequeued = "review_requeued",
        ReviewPosted = "review_posted",
        ReviewUnclear = "review_unclear",
        EditsUndone = "edits_undone",
        PermissionDenied = "permission_denied",
        CheckoutChanged = "checkout_changed",
        HeadMoved = "head_moved",
        Escalated = "escalated",
        Instructed = "instructed",
        Shadowed = "shadowed",
        StateChanged = "state_changed",
        RunStarted = "run_started",
        RunFinished = "run_finished",
        RunLost = "run_lost",
        WorktreeMade = "worktree_made",
        SetupRun = "setup_run",
        GateFailed = "gate_failed",
        Held = "held",
        Resumed = "resumed",
        FeedbackReceived = "feedback_received",
        PrAdopted = "pr_adopted",
        PrChanged = "pr_changed",
        Posted = "posted",
        MessageSent = "message_sent",
        Notified = "notified",
        Skipped = "skipped",
        Pruned = "pruned",
        Reloaded = "reloaded",
        DaemonEnded = "daemon_ended",
        Implemented = "implemented",
        PrCreated = "pr_created",
        WorktreeRemoved = "worktree_removed",
    }
}

closed_enum! {
    /// Kind of object that an event is about.
    "target_type" TargetType {
        Change = "change",
        WorkItem = "work_item",
        Run = "run",
        Project = "project",
        Event = "event",
        Evaluator = "evaluator",
        Blackboard = "blackboard",
    }
}

/// Event to append.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewEvent {
    pub(crate) event_type: EventType,
    pub(crate) actor: String,
    pub(crate) target_type: TargetType,
    pub(crate) target_id: String,
    pub(crate) change_id: Option<ChangeId>,
    pub(crate) summary: String,
    pub(crate) metadata: Value,
}

/// Event as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Event {
    pub(crate) id: i64,
    pub(crate) timestamp: Time,
    pub(crate) event_type: EventType,
    pub(crate) actor_id: String,
    pub(crate) target_type: TargetType,
    pub(crate) target_id: String,
    pub(crate) change_id: Option<ChangeId>,
    pub(crate) summary: String,
    pub(crate) metadata: Value,
}

impl NewEvent {
    /// Creates an event about a change, by remand itself. `body` is the metadata, or only the type
    /// of an event that has none.
    pub(crate) fn about(
        change_id: &ChangeId,
        body: impl Into<(EventType, Value)>,
        summary: impl Into<String>,
    ) -> Self {
        Self {
            change_id: Some(change_id.clone()),
            ..Self::new(body, summary).on(TargetType::Change, change_id)
        }
    }

    /// Creates an event that belongs to no change. It is about the blackboard unless [`Self::on`]
    /// sets another target.
    pub(crate) fn new(body: impl Into<(EventType, Value)>, summary: impl Into<String>) -> Self {
        let (event_type, metadata) = body.into();
        Self {
            event_type,
            actor: "remand".into(),
            target_type: TargetType::Blackboard,
            target_id: String::new(),
            change_id: None,
            summary: summary.into(),
            metadata,
        }
    }

    /// Assigns the event to a change, if there is one, in addition to its target.
    pub(crate) fn of(mut self, change_id: Option<&ChangeId>) -> Self {
        self.change_id = change_id.cloned();
        self
    }

    pub(crate) fn by(mut self, actor: impl Into<String>) -> Self {
        self.actor = actor.into();
        self
    }

    pub(crate) fn on(mut self, target_type: TargetType, target_id: impl std::fmt::Display) -> Self {
        self.target_type = target_type;
        self.target_id = target_id.to_string();
        self
    }
}

impl From<EventType> for (EventType, Value) {
    fn from(event_type: EventType) -> Self {
        (event_type, Value::Object(serde_json::Map::new()))
    }
}

impl Event {
    /// Returns the metadata if the event is of this type.
    pub(crate) fn body<B: body::Body>(&self) -> Option<B> {
        (self.event_type == B::TYPE).then(|| B::deserialize(&self.metadata).unwrap_or_default())
    }

    /// Returns the summary for people: the end of a hold is in local time.
    pub(crate) fn local_summary(&self) -> String {
        let held = self.body::<body::Held>();
        match held.and_then(|held| held.until) {
            Some(until) => self.summary.replacen(&until.to_string(), &until.local(), 1),
            None => self.summary.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
