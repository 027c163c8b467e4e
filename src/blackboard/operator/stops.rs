//! Stops: a person's word for everything, or for one project. Each change that one is for is marked, and waits as a paused
//! one does; what keeps it back besides is not touched.

use serde::Serialize;

use super::pause;
use crate::blackboard::Result;
use crate::blackboard::sql::{self, Connection, Row, params};
use crate::blackboard::work::hold;
use crate::change::{ChangeId, ProjectId};
use crate::clock::Time;
use crate::event::body;
use crate::event::{NewEvent, TargetType};

/// A stop that is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Stopped {
    /// None: everything.
    pub(crate) project_id: Option<ProjectId>,
    pub(crate) stopped_by: String,
    pub(crate) stopped_at: Time,
    pub(crate) reason: Option<String>,
    /// Agents at work are ended; else they may finish.
    pub(crate) at_once: bool,
}

/// What a person orders with a stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order<'a> {
    pub(crate) reason: Option<&'a str>,
    pub(crate) at_once: bool,
}

/// Something that was begun before the stop, and the process that has it in hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct UnderWay {
    pub(crate) what: String,
    pub(crate) change_id: ChangeId,
    pub(crate) holder: String,
}

/// Stops a project, or everything; `false` when it is stopped as ordered already.
pub(crate) fn stop(
    conn: &Connection,
    project: Option<&ProjectId>,
    order: Order<'_>,
    actor: &str,
    now: Time,
) -> Result<bool> {
    project
        .map(|id| crate::blackboard::project(conn, id))
        .transpose()?;
    match own_stop(conn, project)? {
        Some(known) if known.at_once || !order.at_once => return Ok(false),
        Some(_) => {
            conn.execute(
                "UPDATE stops SET at_once = 1, reason = coalesce(:reason, reason) WHERE project_id IS :project",
                params! { ":reason": order.reason, ":project": project },
            )?;
        }
        None => {
            conn.execute(
                "INSERT INTO stops (project_id, stopped_by, stopped_at, reason, at_once)
                 VALUES (:project, :actor, :now, :reason, :at_once)",
                params! {
                    ":project": project,
                    ":actor": actor,
                    ":now": now,
                    ":reason": order.reason,
                    ":at_once": order.at_once,
                },
            )?;
        }
    }
    mark(conn)?;
    let how = if order.at_once { "stop now" } else { "stop" };
    let stop = body::Instructed {
        at_once: Some(order.at_once),
        ..body::Instructed::new(body::Action::Stop, order.reason.unwrap_or(""), actor)
    };
    let event = told(project, stop, how, order.reason);
    crate::blackboard::append(conn, &event, now)?;
    Ok(true)
}

/// Ends the stop of a project, or that of everything; `false` when there is none. Nobody's other stop is ended with it.
pub(crate) fn start(
    conn: &Connection,
    project: Option<&ProjectId>,
    actor: &str,
    now: Time,
) -> Result<bool> {
    project
        .map(|id| crate::blackboard::project(conn, id))
        .transpose()?;
    let ended = conn.execute(
        "DELETE FROM stops WHERE project_id IS :project",
        params! { ":project": project },
    )?;
    if ended == 0 {
        return Ok(false);
    }
    mark(conn)?;
    let start = body::Instructed::new(body::Action::Start, "", actor);
    let event = told(project, start, "start", None);
    crate::blackboard::append(conn, &event, now)?;
    Ok(true)
}

/// All that is stopped, that of everything first.
pub(crate) fn stops(conn: &Connection) -> Result<Vec<Stopped>> {
    conn.all("SELECT * FROM stops ORDER BY project_id", &[], from_row)
}

/// Whether everything is stopped.
pub(crate) fn is_all_stopped(conn: &Connection) -> Result<bool> {
    Ok(own_stop(conn, None)?.is_some())
}

/// The stops that keep a project back, that of everything first.
pub(crate) fn stops_for(conn: &Connection, project: &ProjectId) -> Result<Vec<Stopped>> {
    let mut found = stops(conn)?;
    found.retain(|stop| stop.project_id.as_ref().is_none_or(|id| id == project));
    Ok(found)
}

/// Whether agents at work on a project are to be ended.
pub(crate) fn is_halted(conn: &Connection, project: &ProjectId) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM stops WHERE at_once AND (project_id IS NULL OR project_id = :project)",
        params! { ":project": project },
    )
}

/// What somebody has in hand: items, agents whose end nobody wrote down, posts. Whether the holders live is for the
/// caller to find out.
pub(crate) fn under_way(conn: &Connection, project: Option<&ProjectId>) -> Result<Vec<UnderWay>> {
    conn.all(
        "SELECT w.source || ' ' || w.item_id || coalesce(' by ' || r.agent || ' (' || r.run_id || ')', '') AS what,
             c.change_id, w.claimed_by AS holder
         FROM work_items w INDEXED BY items_claimed JOIN changes c USING (change_id)
             LEFT JOIN runs r ON r.item_id = w.item_id AND r.ended_at IS NULL
         WHERE w.status = 'claimed' AND (:project IS NULL OR c.project_id = :project)
         UNION ALL
         SELECT r.agent || ' (' || r.run_id || ')', c.change_id, r.boot_id || ':' || r.pid || ':' || r.start_time
         FROM runs r JOIN changes c USING (change_id) JOIN work_items w ON w.item_id = r.item_id
         WHERE r.ended_at IS NULL AND r.pid IS NOT NULL AND w.status <> 'claimed'
             AND (:project IS NULL OR c.project_id = :project)
         UNION ALL
         SELECT i.kind || ' to be posted', c.change_id, i.claimed_by
         FROM intents i INDEXED BY intents_open JOIN changes c USING (change_id)
         WHERE i.done_at IS NULL AND i.kind <> 'push' AND i.claimed_by IS NOT NULL
             AND (:project IS NULL OR c.project_id = :project)",
        params! { ":project": project },
        |row| {
            Ok(UnderWay {
                what: row.get("what")?,
                change_id: row.get("change_id")?,
                holder: row.get("holder")?,
            })
        },
    )
}

fn own_stop(conn: &Connection, project: Option<&ProjectId>) -> Result<Option<Stopped>> {
    conn.optional(
        "SELECT * FROM stops WHERE project_id IS :project",
        params! { ":project": project },
        from_row,
    )
}

/// Marks the changes that are stopped now, and no others; what is queued for them follows.
fn mark(conn: &Connection) -> Result<()> {
    let turned: Vec<(ChangeId, bool)> = conn.all(
        "UPDATE changes SET stopped = NOT stopped
         WHERE stopped <> EXISTS (SELECT 1 FROM stops
             WHERE stops.project_id IS NULL OR stops.project_id = changes.project_id)
         RETURNING change_id, stopped",
        &[],
        |row| Ok((row.get("change_id")?, row.get("stopped")?)),
    )?;
    for (id, stopped) in turned {
        if stopped {
            hold::block(conn, &id)?;
        } else {
            pause::go_on(conn, &id)?;
        }
    }
    Ok(())
}

fn told(
    project: Option<&ProjectId>,
    order: body::Instructed,
    how: &str,
    reason: Option<&str>,
) -> NewEvent {
    let actor = order.by.clone();
    let what = project.map_or("everything".to_owned(), ToString::to_string);
    let reason = reason
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    let event = NewEvent::new(order, format!("{actor} says {how} {what}{reason}")).by(actor);
    match project {
        Some(id) => event.on(TargetType::Project, id),
        None => event.on(TargetType::Blackboard, "everything"),
    }
}

fn from_row(row: &Row<'_>) -> sql::Result<Stopped> {
    Ok(Stopped {
        project_id: row.get("project_id")?,
        stopped_by: row.get("stopped_by")?,
        stopped_at: row.get("stopped_at")?,
        reason: row.get("reason")?,
        at_once: row.get("at_once")?,
    })
}
