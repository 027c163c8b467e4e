//! Guidance: information that a person gives to the next fix.

use serde::Serialize;

use crate::blackboard::sql::{Connection, params};
use crate::blackboard::{Result, from_row};
use crate::change::ChangeId;
use crate::clock::Time;
use crate::event::{NewEvent, body};
use crate::text::prefixed;
use crate::work::ItemId;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Guidance {
    pub(crate) author: String,
    pub(crate) body: String,
}

pub(crate) fn add_guidance(
    conn: &Connection,
    change_id: &ChangeId,
    guidance: &Guidance,
    now: Time,
) -> Result<()> {
    let feedback_id = from_row::next_id(conn, "g")?;
    conn.execute(
        "INSERT INTO feedback (feedback_id, change_id, forge_id, author, trust, kind, body, updated_at, taken_in)
         VALUES (:feedback_id, :change_id, 'person:' || :feedback_id, :author, 'may_make_work', 'person', :body, :now, :now)",
        params! { feedback_id, change_id, author: guidance.author, body: guidance.body, now },
    )?;
    let event = NewEvent::about(
        change_id,
        body::FeedbackReceived {
            feedback_id,
            author: guidance.author.clone(),
            kind: Some(body::FeedbackKind::Person),
            ..Default::default()
        },
        format!("guidance for the next fix: {}", guidance.body),
    )
    .by(&guidance.author);
    crate::blackboard::append(conn, &event, now).map(drop)
}

/// Returns the guidance that no finished fix has been given, each with its id, oldest first.
pub(crate) fn open_guidance(
    conn: &Connection,
    change_id: &ChangeId,
) -> Result<Vec<(String, Guidance)>> {
    conn.all(
        "SELECT feedback_id, author, kind, path, line, body FROM feedback
         WHERE change_id = :id AND used_in IS NULL
             AND (kind = 'person' OR (trust = 'may_make_work' AND outcome = 'context'))
         ORDER BY length(feedback_id), feedback_id",
        params! { id: change_id },
        |row| {
            let (author, body): (String, String) = (row.get("author")?, row.get("body")?);
            let body = match row.get::<String>("kind")?.as_str() {
                "person" => body,
                _ => on_the_pull_request(&author, row.get("path")?, row.get("line")?, &body),
            };
            Ok((row.get("feedback_id")?, Guidance { author, body }))
        },
    )
}

fn on_the_pull_request(
    author: &str,
    path: Option<String>,
    line: Option<i64>,
    body: &str,
) -> String {
    let line = prefixed(":", line);
    let place = prefixed(", at ", path.map(|path| path + &line));
    format!("{author} wrote on the pull request{place}:\n{body}")
}

/// Marks guidance as given when a fix is finished, if it was in the prompts of its runs.
///
/// Guidance that arrived during the last run, or was only in the prompt of a run whose work is not
/// used, waits for the next fix.
pub(crate) fn settle_guidance(conn: &Connection, item_id: &ItemId) -> Result<()> {
    conn.run(
        "UPDATE feedback SET used_in = :item
         WHERE used_in IS NULL AND feedback_id IN (
             SELECT piece FROM runs JOIN run_feedback USING (run_id)
             WHERE item_id = :item AND discarded = 0 AND rejection_id IS NULL AND finding_id IS NULL
             GROUP BY piece HAVING max(end_byte) >= max(total_bytes))",
        params! { item: item_id },
    )
}
