//! Explains a change that is ready for a person, and whether remand's review passed.

use super::because::Because;
use super::explanation::Explanation;
use super::facts::Facts;
use crate::change::{FinalVerdict, Trigger};
use crate::event::body::{self, Action, Cause};
use crate::event::{Event, EventType};
use crate::human_time::ago;

pub(super) fn ready(facts: &Facts) -> Explanation {
    let change = &facts.row.change;
    let id = &change.change_id;
    // That of a person on the PR may have been withdrawn since.
    let passed = facts
        .newest(|event| event.event_type == EventType::WorkApproved && event.actor_id == "remand");
    let skipped = facts.newest_action(Action::Skip);
    let skipped = skipped.filter(|skip| passed.is_none_or(|passed| passed.id < skip.id));
    let waits = "waiting for your approval";
    let explain =
        |lead: &str, clause: String| Explanation::new(Because::WaitsForApproval, lead, clause);
    let explanation = if let Some(by) = marked_ready_by(facts) {
        explain(
            &format!("{by} marked it as ready, and it is "),
            waits.to_owned(),
        )
    } else if change.final_verdict == Some(FinalVerdict::MaxCyclesReached) {
        explain(
            "",
            "its fixes are used up, and it waits for your review".to_owned(),
        )
    } else if let Some(skip) = skipped {
        explain(
            "it is ",
            format!("{waits}; {} skipped its review", skip.actor_id),
        )
    } else if let Some(passed) = passed {
        let when = ago(passed.timestamp, facts.now);
        explain("its review passed and it is ", waits.to_owned())
            .and(&format!(" ({}, {when})", passed.summary))
    } else {
        explain("it is ", format!("{waits}, without a review by remand"))
    };
    explanation.commands([
        format!("remand diff {id}"),
        format!("remand approve {id}"),
        format!("remand reject {id} --text …"),
    ])
}

/// Returns the person who marked the change as ready, if that was not remand.
fn marked_ready_by(facts: &Facts) -> Option<&str> {
    let moved: &Event = facts.newest_of(EventType::StateChanged)?;
    let on = moved.body::<body::StateChanged>()?.on;
    let is_person = !matches!(moved.actor_id.as_str(), "remand" | "github");
    let is_marked = on == Some(Cause::Trigger(Trigger::MarkReady));
    (is_marked && is_person).then_some(moved.actor_id.as_str())
}
