//! Isolates one part of a step: an error with one change is undone and reported for that change
//! alone, and the step continues with the others.
//!
//! Only an error of the database itself ends the whole step.

use super::db_thread::guarded;
use crate::blackboard::forge::pulls;
use crate::blackboard::sql::{Connection, params};
use crate::blackboard::{BoardError, Result, escalate};
use crate::change::ChangeId;
use crate::clock::Time;
use crate::event::{NewEvent, body};
use crate::proposal::{Decision, Escalation, decision};
use crate::sanitize;

/// Runs `part` in a savepoint. If it fails for a reason of its own, its writes are undone and `otherwise` decides the
/// result; an error of the database itself is returned as it is.
pub(crate) fn apart<T>(
    conn: &Connection,
    part: impl FnOnce() -> Result<T>,
    otherwise: impl FnOnce(BoardError) -> Result<T>,
) -> Result<T> {
    let savepoint = conn.savepoint()?;
    match guarded(part) {
        Ok(done) => {
            savepoint.commit()?;
            Ok(done)
        }
        // Some errors make SQLite roll back everything, and the savepoint with it.
        Err(error) if error.is_everywhere() || !conn.is_in_transaction() => Err(error),
        Err(error) => {
            savepoint.roll_back()?;
            otherwise(error)
        }
    }
}

/// Hands a change that cannot continue by itself to a person.
///
/// If that is not possible (the change has ended, was already handed over, or cannot even be read),
/// this only records an event. The change is not examined again until something is new or a person
/// continues with it: it would fail the same way on every heartbeat.
pub(crate) fn set_aside(
    conn: &Connection,
    id: &ChangeId,
    error: &BoardError,
    now: Time,
) -> Result<usize> {
    tracing::error!(change = id.as_str(), ?error, "change set aside");
    let reason = format!(
        "remand cannot continue with this change: {}",
        sanitize::chain(error)
    );
    let escalation = Escalation::new(
        reason.clone(),
        decision!(
            "fix the cause and continue ({refine}), accept it ({approve}), or close it ({cancel})",
            refine = Decision::refine(id),
            approve = Decision::approve(id),
            cancel = Decision::cancel(id),
        ),
    );
    let hand_over = || escalate(conn, id, &escalation, now).map(drop);
    apart(conn, hand_over, |_| {
        let skipped = body::Skipped::because(body::SkipCode::SetAside, &reason);
        let event = NewEvent::about(id, skipped, &reason);
        crate::blackboard::append(conn, &event, now)?;
        conn.run(
            "UPDATE rejections SET state = 'escalated', ended_by = 'needs_person', reason = :reason WHERE change_id = :id AND state = 'pending'",
            params! { reason, id },
        )
    })?;
    pulls::set_judged(conn, id)?;
    Ok(1)
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
        let message = sanitize::chain(&unreadable);
        assert!(
            message.contains("column state: unknown state `x`; allowed: queued, "),
            "{message}"
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
            let refused = || {
                bb_append(conn, &note("undone"), now)?;
                Err(BoardError::Refused {
                    what: "no".into(),
                    hint: None,
                })
            };
            apart(conn, refused, |error| {
                assert!(matches!(error, BoardError::Refused { .. }));
                Ok(())
            })?;
            let panics = || {
                bb_append(conn, &note("undone too"), now)?;
                panic!("a part may panic")
            };
            apart(conn, panics, |error| {
                assert!(matches!(error, BoardError::Panicked));
                Ok(())
            })?;
            apart(conn, || bb_append(conn, &note("after"), now), Err)
        });
        kept.unwrap();
        let messages: Vec<String> = story
            .events(&change.change_id, EventType::Skipped)
            .into_iter()
            .map(|event| event.summary)
            .collect();
        assert_eq!(messages, ["before", "after"]);
        let whole = story.step(|conn, now| {
            bb_append(conn, &note("lost with all"), now)?;
            apart(conn, || Err(BoardError::Closed), |_| Ok(()))
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
