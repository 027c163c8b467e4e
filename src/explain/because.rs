//! Codes by which programs distinguish explanations. They are part of the documented JSON
//! (docs/json.md).

use crate::closed_enum::closed_enum;

closed_enum! {
    /// Code for the reason why something is where it is.
    "because" Because {
        // Changes.
        NeedsYou = "needs_you",
        /// A person continues by hand.
        TakenOver = "taken_over",
        Paused = "paused",
        Stopped = "stopped",
        Shadow = "shadow",
        Held = "held",
        Running = "running",
        HolderDied = "holder_died",
        Queued = "queued",
        Delayed = "delayed",
        WaitsForSlot = "waits_for_slot",
        /// Task that starts after another change.
        WaitsForChange = "waits_for_change",
        /// Change whose reviews and fixes are started by a person.
        WaitsForStart = "waits_for_start",
        /// Item with a source that this version does not run.
        NotRun = "not_run",
        Waits = "waits",
        /// Also used for an event that is not taken in yet.
        WaitsForHeartbeat = "waits_for_heartbeat",
        WaitsForApproval = "waits_for_approval",
        WaitsForFeedback = "waits_for_feedback",
        WaitsForChecks = "waits_for_checks",
        NextStage = "next_stage",
        Approved = "approved",
        Merged = "merged",
        Closed = "closed",
        NothingOpen = "nothing_open",
        // Pull requests that are not watched.
        PassedOver = "passed_over",
        NotSeen = "not_seen",
        NotLookedFor = "not_looked_for",
        // Items.
        Available = "available",
        Claimed = "claimed",
        /// Also used for a change with a blocked item that nothing else explains.
        Blocked = "blocked",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
        // Rejections.
        Pending = "pending",
        InFix = "in_fix",
        Fixed = "fixed",
        Superseded = "superseded",
        Escalated = "escalated",
        /// Also used for an event that led to nothing.
        Skipped = "skipped",
        // Records that wait for nothing.
        Run = "run",
        Review = "review",
        Finding = "finding",
        Feedback = "feedback",
        Event = "event",
        Project = "project",
    }
}

impl Because {
    /// True if a change is held or needs a decision by a person: exit code 5.
    pub(crate) fn needs_person(self) -> bool {
        matches!(self, Self::NeedsYou | Self::Held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The codes are an interface: every code in the documentation exists.
    #[test]
    fn the_documented_words_are_these() {
        let docs = include_str!("../../docs/json.md");
        let row = docs
            .lines()
            .find(|line| line.starts_with("| `because` |"))
            .unwrap();
        let words: Vec<&str> = row
            .split('`')
            .skip(3)
            .step_by(2)
            .flat_map(str::split_whitespace)
            .collect();
        assert_eq!(words.len(), 28, "{words:?}");
        for word in words {
            assert!(word.parse::<Because>().is_ok(), "{word}");
        }
    }
}
