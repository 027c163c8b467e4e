//! Limit on the fixes per round: a person's number for the change, or else the configured one of
//! its project, plus the fixes that a person added.

use crate::blackboard::Result;
use crate::blackboard::sql::{Connection, params};
use crate::change::{Change, ChangeId, FixBound, ProjectId};
use crate::clock::Time;
use crate::event::{NewEvent, body};

/// Sets the configured number of a project. It applies immediately to its changes without their own
/// number; fixes that were already made do not exceed it.
pub(crate) fn set_project_max_fix_cycles(
    conn: &Connection,
    project: &ProjectId,
    bound: &FixBound,
    now: Time,
) -> Result<()> {
    let changed = conn.execute(
        "UPDATE projects SET max_fix_cycles = :most, max_fix_cycles_from = :from
         WHERE project_id = :id AND (max_fix_cycles IS NOT :most OR max_fix_cycles_from IS NOT :from)",
        params! { most: bound.most, from: bound.from, id: project },
    )?;
    if changed == 0 {
        return Ok(());
    }
    let moved: Vec<(ChangeId, i64)> = conn.list(
        "UPDATE changes SET max_fix_cycles = max(fix_cycle, :most + added_fix_cycles),
             max_total_fixes = max(max_total_fixes, :most + added_fix_cycles), updated_at = :now
         WHERE project_id = :id AND own_max_fix_cycles IS NULL AND state NOT IN ('merged', 'closed')
             AND max_fix_cycles <> max(fix_cycle, :most + added_fix_cycles)
         RETURNING change_id, max_fix_cycles",
        params! { most: bound.most, now, id: project },
    )?;
    for (id, most) in moved {
        let summary = format!("fixes per round: at most {most}, from {}", bound.from);
        let instructed = body::Instructed::new(
            body::Action::MaxFixCycles,
            most.to_string(),
            "configuration",
        );
        let event = NewEvent::about(&id, instructed, summary);
        crate::blackboard::append(conn, &event, now)?;
    }
    Ok(())
}

/// Returns the configured number; `None` if the configuration has not been read since the project
/// was added.
pub(crate) fn project_max_fix_cycles(
    conn: &Connection,
    project: &ProjectId,
) -> Result<Option<FixBound>> {
    conn.optional(
        "SELECT max_fix_cycles, max_fix_cycles_from FROM projects
         WHERE project_id = :id AND max_fix_cycles IS NOT NULL",
        params! { id: project },
        |row| {
            Ok(FixBound {
                most: row.get(0)?,
                from: row.get::<Option<String>>(1)?.unwrap_or_default(),
            })
        },
    )
}

/// Returns the limit that applies to a change, and its source.
pub(crate) fn fix_bound(conn: &Connection, change: &Change) -> Result<FixBound> {
    let budget = &change.budget;
    let from = match budget.own_max_fix_cycles {
        Some(own) => format!("{own} set by a person for {}", change.change_id),
        None => match project_max_fix_cycles(conn, &change.project_id)? {
            Some(bound) => format!("{} from {}", bound.most, bound.from),
            None => "from the settings when the change was added".to_owned(),
        },
    };
    let added = match budget.added_fix_cycles {
        0 => String::new(),
        added => format!(", {added} added by a person"),
    };
    Ok(FixBound {
        most: budget.max_fix_cycles,
        from: format!("{from}{added}"),
    })
}
