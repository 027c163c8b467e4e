//! One part of a step on its own: what goes wrong with one change is undone and told for that change alone, and the step
//! goes on with the others. Only trouble of the database itself ends it all.

use super::db_thread::guarded;
use crate::blackboard::BoardError;
use crate::blackboard::Result;
use crate::blackboard::escalate;
use crate::blackboard::forge::pulls;
use crate::blackboard::sql::{Connection, params};
use crate::change::ChangeId;
use crate::clock::Time;
use crate::event::{NewEvent, body};
use crate::proposal::{Decision, Escalation, decision};
use crate::sanitize;

/// All that the part writes, or nothing of it. The outer error is everybody's, the inner one its own.
pub(crate) fn apart<T>(conn: &Connection, part: impl FnOnce() -> Result<T>) -> Result<Result<T>> {
    let savepoint = conn.savepoint()?;
    let result = guarded(part);
    match &result {
        Ok(_) => savepoint.commit()?,
        // Some errors make SQLite roll back everything, and the savepoint with it.
        Err(error) if error.is_everywhere() || !conn.is_in_transaction() => return result.map(Ok),
        Err(_) => savepoint.roll_back()?,
    }
    Ok(result)
}

/// A change that can't go on by itself is a person's. One that can't be handed to a person (it is over, or was handed
/// over before, or can't even be read) is only told. Nothing of it is looked at again until there is something new or
/// a person goes on with it: it would fail in the same way with every heartbeat.
pub(crate) fn set_aside(
    conn: &Connection,
    id: &ChangeId,
    error: &BoardError,
    now: Time,
) -> Result<()> {
    let reason = format!("remand could not go on with it: {}", sanitize::chain(error));
    let escalation = Escalation::new(
        reason.clone(),
        decision!(
            "mend what is in the way and go on ({refine}), accept it ({approve}), or close it ({cancel})",
            refine = Decision::refine(id),
            approve = Decision::approve(id),
            cancel = Decision::cancel(id),
        ),
    );
    if apart(conn, || escalate(conn, id, &escalation, now))?.is_err() {
        let skipped = body::Skipped::because(body::SkipCode::SetAside, &reason);
        let event = NewEvent::about(id, skipped, &reason);
        crate::blackboard::append(conn, &event, now)?;
        conn.execute(
            "UPDATE rejections SET state = 'escalated', ended_by = 'needs_person', reason = :reason WHERE change_id = :id AND state = 'pending'",
            params! { ":reason": reason, ":id": id },
        )?;
    }
    pulls::set_judged(conn, id)
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;
    use serde_json::json;

    use super::*;
    use crate::blackboard::conformance::story::Story;
    use crate::event::EventType;

    #[test]
    fn only_trouble_of_the_database_itself_is_everybodys() {
        let sqlite =
            |code| BoardError::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        for code in [
            ffi::SQLITE_FULL,
            ffi::SQLITE_BUSY,
            ffi::SQLITE_LOCKED,
            ffi::SQLITE_IOERR,
            ffi::SQLITE_CORRUPT,
            ffi::SQLITE_NOTADB,
            ffi::SQLITE_READONLY,
            ffi::SQLITE_CANTOPEN,
            ffi::SQLITE_NOMEM,
            ffi::SQLITE_INTERRUPT,
        ] {
            assert!(sqlite(code).is_everywhere(), "{:?}", sqlite(code));
        }
        for code in [
            ffi::SQLITE_CONSTRAINT_UNIQUE,
            ffi::SQLITE_TOOBIG,
            ffi::SQLITE_MISMATCH,
            ffi::SQLITE_ERROR,
        ] {
            assert!(!sqlite(code).is_everywhere(), "{:?}", sqlite(code));
        }
        let refused = BoardError::Refused {
            what: "no".into(),
            hint: None,
        };
        assert!(!refused.is_everywhere() && !BoardError::Panicked.is_everywhere());
        assert!(BoardError::Closed.is_everywhere());
        let unreadable = Story::begin()
            .step(|conn, _| {
                conn.one("SELECT 'x' AS state", &[], |row| {
                    row.get::<crate::change::State>("state")
                })
            })
            .unwrap_err();
        let told = sanitize::chain(&unreadable);
        assert!(
            told.contains("column state: unknown state `x`; allowed: queued, "),
            "{told}"
        );
        assert!(!unreadable.is_everywhere());
    }

    #[test]
    fn what_fails_or_panics_apart_is_undone_and_the_rest_is_kept() {
        let mut story = Story::begin();
        let change = story.change();
        let note = |text: &str| NewEvent::about(&change.change_id, EventType::Skipped, text);
        let kept = story.step(|conn, now| {
            bb_append(conn, &note("before"), now)?;
            let failed = apart(conn, || {
                bb_append(conn, &note("undone"), now)?;
                Err::<(), _>(BoardError::Refused {
                    what: "no".into(),
                    hint: None,
                })
            })?;
            assert!(failed.is_err());
            let panicked = apart(conn, || -> Result<()> {
                bb_append(conn, &note("undone too"), now)?;
                panic!("a part may panic")
            })?;
            assert!(matches!(panicked, Err(BoardError::Panicked)));
            apart(conn, || bb_append(conn, &note("after"), now))?
        });
        kept.unwrap();
        let told: Vec<String> = story
            .events(&change.change_id, EventType::Skipped)
            .into_iter()
            .map(|event| event.summary)
            .collect();
        assert_eq!(told, ["before", "after"]);
        let whole = story.step(|conn, now| {
            bb_append(conn, &note("lost with all"), now)?;
            apart(conn, || Err::<(), _>(BoardError::Closed))?
        });
        assert!(matches!(whole, Err(BoardError::Closed)));
        assert_eq!(story.events(&change.change_id, EventType::Skipped).len(), 2);
    }

    #[test]
    fn what_is_set_aside_waits_for_a_person_and_is_not_pending_any_more() {
        let mut story = Story::begin();
        let (open, over) = (story.change().change_id, story.change().change_id);
        let refused = || BoardError::Refused {
            what: "no luck".into(),
            hint: None,
        };
        story.reject(&open, &json!({}));
        story
            .step(|conn, now| crate::blackboard::take_in(conn, &[EventType::WorkRejected], 0, now))
            .unwrap();
        story
            .step(|conn, now| set_aside(conn, &open, &refused(), now))
            .unwrap();
        assert_eq!(story.at(&open).state, crate::change::State::Escalated);
        assert_eq!(
            story.rejection_states(&open),
            [crate::work::RejectionState::Escalated]
        );
        assert!(
            story
                .events(&open, EventType::Escalated)
                .remove(0)
                .summary
                .contains("no luck")
        );
        story
            .step(|conn, now| crate::blackboard::cancel_change(conn, &over, None, "ann", now))
            .unwrap();
        story
            .step(|conn, now| set_aside(conn, &over, &refused(), now))
            .unwrap();
        assert_eq!(story.at(&over).state, crate::change::State::Closed);
        assert!(
            story
                .events(&over, EventType::Skipped)
                .remove(0)
                .summary
                .contains("no luck")
        );
        story.check();
    }

    fn bb_append(conn: &Connection, event: &NewEvent, now: Time) -> Result<()> {
        crate::blackboard::append(conn, event, now).map(drop)
    }
}
