//! Purpose of a pull request: its description and the issue that it closes, as they were last read.
//! Each text that is withheld from agents has an event with the reason.

use super::pulls;
use crate::blackboard::Result;
use crate::blackboard::sql::{Connection, Json, params};
use crate::change::ChangeId;
use crate::clock::Time;
use crate::event::{NewEvent, body};
use crate::pull_request::{Description, LinkedIssue, Purpose, Trust};

/// Stores the purpose. Appends an event for each withheld text that was given to agents before, or
/// is new.
pub(crate) fn set_purpose(
    conn: &Connection,
    change_id: &ChangeId,
    purpose: &Purpose,
    now: Time,
) -> Result<()> {
    let before = pulls::pull_of_change(conn, change_id)?
        .map(|row| row.purpose)
        .unwrap_or_default();
    if before == *purpose {
        return Ok(());
    }
    conn.execute(
        "UPDATE pulls SET description = :description, issue = :issue WHERE change_id = :id",
        params! {
            description: purpose.description.as_ref().map(Json),
            issue: purpose.issue.as_ref().map(Json),
            id: change_id,
        },
    )?;
    if let Some(reason) = withheld_description(purpose)
        && withheld_description(&before).is_none()
    {
        let summary = format!("the PR's description is not given to agents: {reason}");
        let skipped = body::Skipped::because(body::SkipCode::DescriptionWithheld, reason);
        let event = NewEvent::about(change_id, skipped, summary);
        crate::blackboard::append(conn, &event, now)?;
    }
    if let Some(withheld) = withheld_issue(purpose)
        && withheld_issue(&before).is_none_or(|before| before.kind() != withheld.kind())
    {
        let (verb, number, reason) = withheld.describe();
        let event = NewEvent::about(
            change_id,
            body::Skipped {
                issue: Some(number),
                ..body::Skipped::because(body::SkipCode::IssueWithheld, reason)
            },
            format!("the linked issue #{number} {verb}: {reason}"),
        );
        crate::blackboard::append(conn, &event, now)?;
    }
    Ok(())
}

/// Reason for withholding an issue from agents.
enum Withheld<'a> {
    Untrusted(i64, &'a str),
    Unread(i64, &'a str),
}

impl Withheld<'_> {
    /// Key for comparing reasons. The text of a failed read differs from one attempt to the next.
    fn kind(&self) -> (bool, i64) {
        match self {
            Self::Untrusted(number, _) => (true, *number),
            Self::Unread(number, _) => (false, *number),
        }
    }

    fn describe(&self) -> (&'static str, i64, &str) {
        match self {
            Self::Untrusted(number, reason) => ("is not given to agents", *number, reason),
            Self::Unread(number, reason) => ("could not be read", *number, reason),
        }
    }
}

fn withheld_description(purpose: &Purpose) -> Option<&str> {
    let Description { trust, reason, .. } = purpose.description.as_ref()?;
    (*trust != Trust::MayMakeWork).then_some(reason)
}

fn withheld_issue(purpose: &Purpose) -> Option<Withheld<'_>> {
    match purpose.issue.as_ref()? {
        LinkedIssue::Read {
            trust: Trust::MayMakeWork,
            ..
        } => None,
        LinkedIssue::Read {
            number,
            reason,
            trust: Trust::ShownOnly | Trust::Ours,
            ..
        } => Some(Withheld::Untrusted(*number, reason)),
        LinkedIssue::Unread { number, reason, .. } => Some(Withheld::Unread(*number, reason)),
    }
}
