//! Stops: a person's decision to stop everything, or one project. Each affected change is marked,
//! and waits like a paused one; other reasons for waiting are not affected.

use serde::Serialize;

use super::pause;
use crate::blackboard::Result;
use crate::blackboard::sql::{Connection, columns, impl_from_row, params};
use crate::blackboard::work::hold;
use crate::change::{ChangeId, ProjectId};
use crate::clock::Time;
use crate::event::{NewEvent, TargetType, body};
use crate::text::prefixed;

/// Stop that is in effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Stopped {
    /// `None` if everything is stopped.
    pub(crate) project_id: Option<ProjectId>,
    pub(crate) stopped_by: String,
    pub(crate) stopped_at: Time,
    pub(crate) reason: Option<String>,
    /// Set if running agents are ended; otherwise they may finish.
    pub(crate) at_once: bool,
}

/// Options that a person gives with a stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order<'a> {
    pub(crate) reason: Option<&'a str>,
    pub(crate) at_once: bool,
}

/// Work that started before the stop, and the process that is doing it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct UnderWay {
    pub(crate) what: String,
    pub(crate) change_id: ChangeId,
    pub(crate) holder: String,
}

/// Stops a project, or everything. Returns `false` if that stop is already in effect.
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
                params! { reason: order.reason, project },
            )?;
        }
        None => {
            conn.execute(
                "INSERT INTO stops (project_id, stopped_by, stopped_at, reason, at_once)
                 VALUES (:project, :actor, :now, :reason, :at_once)",
                params! { project, actor, now, reason: order.reason, at_once: order.at_once },
            )?;
        }
    }
    mark(conn)?;
    let how = if order.at_once {
        "an immediate stop"
    } else {
        "a stop"
    };
    let stop = body::Instructed {
        at_once: Some(order.at_once),
        ..body::Instructed::new(body::Action::Stop, order.reason.unwrap_or(""), actor)
    };
    let event = instruction_event(project, stop, how, order.reason);
    crate::blackboard::append(conn, &event, now)?;
    Ok(true)
}

/// Ends the stop of a project, or that of everything. Returns `false` if there is none. Other stops
/// remain.
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
        params! { project },
    )?;
    if ended == 0 {
        return Ok(false);
    }
    mark(conn)?;
    let start = body::Instructed::new(body::Action::Start, "", actor);
    let event = instruction_event(project, start, "a start", None);
    crate::blackboard::append(conn, &event, now)?;
    Ok(true)
}

/// Returns all stops, that of everything first.
pub(crate) fn stops(conn: &Connection) -> Result<Vec<Stopped>> {
    conn.list("SELECT * FROM stops ORDER BY project_id", &[])
}

/// True if everything is stopped.
pub(crate) fn is_all_stopped(conn: &Connection) -> Result<bool> {
    Ok(own_stop(conn, None)?.is_some())
}

/// Returns the stops that affect a project, that of everything first.
pub(crate) fn stops_for(conn: &Connection, project: &ProjectId) -> Result<Vec<Stopped>> {
    let mut found = stops(conn)?;
    found.retain(|stop| stop.project_id.as_ref().is_none_or(|id| id == project));
    Ok(found)
}

/// True if running agents of a project have to be ended.
pub(crate) fn is_halted(conn: &Connection, project: &ProjectId) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM stops WHERE at_once AND (project_id IS NULL OR project_id = :project)",
        params! { project },
    )
}

/// Returns work in progress: items, agents without a recorded end, posts. The caller has to find
/// out whether the holders are alive.
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
         SELECT 'pending ' || i.kind, c.change_id, i.claimed_by
         FROM intents i INDEXED BY intents_open JOIN changes c USING (change_id)
         WHERE i.done_at IS NULL AND i.kind <> 'push' AND i.claimed_by IS NOT NULL
             AND (:project IS NULL OR c.project_id = :project)",
        params! { project },
        |row| Ok(columns! { row => UnderWay { what, change_id, holder } }),
    )
}

fn own_stop(conn: &Connection, project: Option<&ProjectId>) -> Result<Option<Stopped>> {
    conn.find(
        "SELECT * FROM stops WHERE project_id IS :project",
        params! { project },
    )
}

/// Marks exactly the changes that are stopped now, and updates their queued items.
fn mark(conn: &Connection) -> Result<()> {
    let updated: Vec<(ChangeId, bool)> = conn.all(
        "UPDATE changes SET stopped = NOT stopped
         WHERE stopped <> EXISTS (SELECT 1 FROM stops
             WHERE stops.project_id IS NULL OR stops.project_id = changes.project_id)
         RETURNING change_id, stopped",
        &[],
        |row| Ok((row.get("change_id")?, row.get("stopped")?)),
    )?;
    for (id, stopped) in updated {
        if stopped {
            hold::block(conn, &id)?;
        } else {
            pause::unblock_if_free(conn, &id)?;
        }
    }
    Ok(())
}

fn instruction_event(
    project: Option<&ProjectId>,
    order: body::Instructed,
    how: &str,
    reason: Option<&str>,
) -> NewEvent {
    let actor = order.by.clone();
    let what = project.map_or("everything".to_owned(), ToString::to_string);
    let reason = prefixed(": ", reason);
    let event =
        NewEvent::new(order, format!("{actor} requested {how} of {what}{reason}")).by(actor);
    match project {
        Some(id) => event.on(TargetType::Project, id),
        None => event.on(TargetType::Blackboard, "everything"),
    }
}

impl_from_row! { row => Stopped { project_id, stopped_by, stopped_at, reason, at_once } }
