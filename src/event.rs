//! Facts on the blackboard: appended, never changed. The keys of each type's metadata are documented in `schema.sql`.

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
    }
}

closed_enum! {
    /// What an event is about.
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

/// An event that is about to be appended.
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

/// An event as it is stored.
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

/// The most entries of a list that [`NewEvent::cut`] leaves.
const MOST_LISTED: usize = 200;

impl NewEvent {
    /// An event about a change, by remand itself, without metadata.
    pub(crate) fn about(
        change_id: &ChangeId,
        event_type: EventType,
        summary: impl Into<String>,
    ) -> Self {
        Self {
            event_type,
            actor: "remand".into(),
            target_type: TargetType::Change,
            target_id: change_id.to_string(),
            change_id: Some(change_id.clone()),
            summary: summary.into(),
            metadata: Value::Object(serde_json::Map::new()),
        }
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

    pub(crate) fn with(mut self, metadata: Value) -> Self {
        self.metadata = metadata;
        self
    }

    /// Cuts a list in the metadata that somebody else decides the length of; `more` says how many are left out.
    pub(crate) fn cut(mut self, list: &str) -> Self {
        let Some(metadata) = self.metadata.as_object_mut() else {
            return self;
        };
        let Some(Value::Array(entries)) = metadata.get_mut(list) else {
            return self;
        };
        if entries.len() > MOST_LISTED {
            let more = entries.len() - MOST_LISTED;
            entries.truncate(MOST_LISTED);
            metadata.insert("more".into(), more.into());
        }
        self
    }
}
