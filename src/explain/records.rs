//! Explains records that have an id and are not changes: items, runs, reviews, findings, feedback,
//! rejections, events and projects.

use super::because::Because;
use super::explanation::Explanation;
use crate::blackboard::{self as bb, Conn, OpenFinding, PastReview, Project};
use crate::change::ChangeId;
use crate::event::{Event, EventType, TargetType};
use crate::pull_request::Feedback;
use crate::text::prefixed;
use crate::work::{Item, Rejection, RejectionState, Run, Status};

/// Text for a missing reason.
const NO_REASON: &str = "no reason recorded";

pub(crate) fn item(item: &Item) -> Explanation {
    let why = item.failure_reason.as_deref().unwrap_or(NO_REASON);
    match item.status {
        Status::Completed => {
            Explanation::new(Because::Completed, "it is ", "done").since(item.completed_at)
        }
        Status::Failed => Explanation::new(Because::Failed, "it ", format!("failed: {why}"))
            .since(item.completed_at),
        Status::Cancelled => {
            Explanation::new(Because::Cancelled, "it was ", format!("cancelled: {why}"))
                .since(item.completed_at)
        }
        Status::Available => {
            Explanation::new(Because::Available, "it is ", "queued").since(Some(item.created_at))
        }
        Status::Claimed => Explanation::new(Because::Claimed, "", "it is running"),
        Status::Blocked => Explanation::new(
            Because::Blocked,
            "it is ",
            "blocked because its change is paused, stopped, held, in shadow, or waits for another change",
        ),
    }
}

pub(crate) fn run(run: &Run) -> Explanation {
    let ended = run.ended.map_or_else(
        || "is still running".to_owned(),
        |ended| format!("ended: {ended}"),
    );
    let status = prefixed(", status ", run.exit_status);
    Explanation::new(Because::Run, "it ", format!("{ended}{status}"))
        .since(run.ended_at.or(Some(run.started_at)))
        .commands([format!("remand log {}", run.run_id)])
}

pub(crate) fn review(review: &PastReview) -> Explanation {
    let clause = format!("parsed as {}: {}", review.verdict, review.reason);
    Explanation::new(Because::Review, "it was ", clause).since(Some(review.created_at))
}

pub(crate) fn finding(finding: &OpenFinding) -> Explanation {
    let note = prefixed(": ", finding.note.as_deref());
    let clause = format!("{}{note}", finding.outcome);
    Explanation::new(Because::Finding, "it is ", clause)
}

/// Explains the outcome of a piece of feedback.
pub(crate) fn feedback(feedback: &Feedback) -> Explanation {
    let reason = prefixed(": ", feedback.outcome_reason.as_deref());
    let clause = match feedback.outcome {
        Some(outcome) => format!("its outcome is {outcome}{reason}"),
        None => "it is waiting for the next heartbeat".to_owned(),
    };
    Explanation::new(Because::Feedback, "", clause)
}

pub(crate) fn rejection(rejection: &Rejection) -> Explanation {
    let fix = prefixed(" ", rejection.item_id.as_ref());
    let why = rejection.reason.as_deref().unwrap_or(NO_REASON);
    match rejection.state {
        RejectionState::Pending => {
            Explanation::new(Because::Pending, "it is ", "waiting for its fix")
        }
        RejectionState::InFix => {
            Explanation::new(Because::InFix, "", format!("the fix{fix} will address it"))
        }
        RejectionState::Fixed => {
            Explanation::new(Because::Fixed, "", format!("the fix{fix} addressed it"))
        }
        RejectionState::Superseded => {
            let clause = format!("it was superseded by a newer one: {why}");
            Explanation::new(Because::Superseded, "", clause)
        }
        RejectionState::Escalated => {
            let clause = format!("was escalated to a person: {why}");
            Explanation::new(Because::Escalated, "it ", clause)
        }
        RejectionState::Skipped => {
            let clause = format!("it was skipped: {why}");
            Explanation::new(Because::Skipped, "", clause)
        }
    }
}

pub(crate) fn project(project: &Project) -> Explanation {
    let clause = format!("a project at {}", project.path);
    Explanation::new(Because::Project, "it is ", clause).and("; a project has no state to explain")
}

/// Explains the outcome of an event, and returns the change that it led to.
pub(crate) fn event(conn: &Conn, event: &Event) -> bb::Result<(Explanation, Option<ChangeId>)> {
    if let Some(found) = bb::rejection_of_event(conn, event.id)? {
        let own = rejection(&found);
        let clause = format!("became {}: {}", found.rejection_id, own.answer());
        let explanation = Explanation::new(own.because, "it ", clause).since(Some(event.timestamp));
        return Ok((explanation, Some(found.change_id)));
    }
    let about = bb::events_about(conn, TargetType::Event, &event.id.to_string(), 20)?;
    let skipped = about
        .iter()
        .find(|about| about.event_type == EventType::Skipped);
    let explanation = if let Some(skipped) = skipped {
        let clause = format!("nothing was done: {}", skipped.summary);
        Explanation::new(Because::Skipped, "", clause)
            .since(Some(skipped.timestamp))
            .commands(["remand list --all".into()])
    } else if event.event_type == EventType::WorkRejected {
        let clause = "the next heartbeat will read it";
        Explanation::new(Because::WaitsForHeartbeat, "", clause)
            .since(Some(event.timestamp))
            .commands(["remand run".into(), "remand tick".into()])
    } else {
        let (what, by) = (event.event_type, &event.actor_id);
        let clause = format!("{what} by {by}: {}", event.summary);
        Explanation::new(Because::Event, "", clause).since(Some(event.timestamp))
    };
    Ok((explanation, event.change_id.clone()))
}
