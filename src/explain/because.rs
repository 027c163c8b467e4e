//! The words that programs tell explanations apart by. They are part of the documented JSON (docs/json.md).

use crate::closed_enum::closed_enum;

closed_enum! {
    /// Why something is where it is.
    "because" Because {
        // A change.
        NeedsYou = "needs_you",
        Paused = "paused",
        Stopped = "stopped",
        Shadow = "shadow",
        Held = "held",
        Running = "running",
        HolderDied = "holder_died",
        Queued = "queued",
        Delayed = "delayed",
        WaitsForSlot = "waits_for_slot",
        /// An item of a source that this version does not run.
        NotRun = "not_run",
        Waits = "waits",
        /// Also an event that is not taken in yet.
        WaitsForHeartbeat = "waits_for_heartbeat",
        WaitsForApproval = "waits_for_approval",
        WaitsForFeedback = "waits_for_feedback",
        NextStage = "next_stage",
        Approved = "approved",
        Merged = "merged",
        Closed = "closed",
        NothingOpen = "nothing_open",
        // A pull request that is not watched.
        PassedOver = "passed_over",
        NotSeen = "not_seen",
        NotLookedFor = "not_looked_for",
        // An item.
        Available = "available",
        Claimed = "claimed",
        /// Also a change with a blocked item that nothing explains.
        Blocked = "blocked",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
        // A rejection.
        Pending = "pending",
        InFix = "in_fix",
        Fixed = "fixed",
        Superseded = "superseded",
        Escalated = "escalated",
        /// Also an event that nothing was done for.
        Skipped = "skipped",
        // What waits for nothing.
        Run = "run",
        Review = "review",
        Finding = "finding",
        Event = "event",
        Project = "project",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words are an interface: each that the documentation names exists.
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
        assert_eq!(words.len(), 24, "{words:?}");
        for word in words {
            assert!(word.parse::<Because>().is_ok(), "{word}");
        }
    }
}
