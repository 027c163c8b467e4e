//! Repositories known to remand.

use serde::Serialize;

use super::{BoardError, Result};
use crate::blackboard::sql::{Connection, impl_from_row, params};
use crate::change::{Change, ChangeId, ProjectId, State};
use crate::clock::Time;
use crate::event::{NewEvent, TargetType, body};
use crate::text;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Project {
    pub(crate) project_id: ProjectId,
    /// Path of the main checkout.
    pub(crate) path: String,
    pub(crate) common_dir: String,
    pub(crate) repo: Option<String>,
    /// URL that is pushed to, whatever the configuration of the repository says later.
    pub(crate) remote_url: Option<String>,
    pub(crate) default_branch: String,
    pub(crate) created_at: Time,
}

/// Adds a project and returns it as it is stored, or refuses if its name or repository is taken.
///
/// A repository that was removed is revived under the name that its history has.
pub(crate) fn insert_project(conn: &Connection, project: &Project) -> Result<Project> {
    if let Some(known) = project_by_common_dir(conn, &project.common_dir)? {
        return Err(BoardError::refused(format!(
            "{} is already known as project `{}`",
            project.path, known.project_id
        )));
    }
    if let Some(removed) = removed_project_at(conn, project)? {
        return revive(conn, &removed, project);
    }
    if let Ok(known) = self::project(conn, &project.project_id) {
        let (name, path) = (&known.project_id, &known.path);
        let what = match removed_at(conn, name)? {
            None => format!("project `{name}` already exists, at {path}"),
            Some(_) => format!("`{name}` is the name of a removed project, at {path}"),
        };
        return Err(BoardError::refused_with_hint(
            what,
            "choose another name with --name",
        ));
    }
    conn.run(
        "INSERT INTO projects (project_id, path, common_dir, repo, remote_url, default_branch, created_at)
         VALUES (:project_id, :path, :common_dir, :repo, :remote_url, :default_branch, :created_at)",
        params! {
            project.{ project_id, path, common_dir, repo, remote_url, default_branch, created_at }
        },
    )?;
    Ok(project.clone())
}

fn removed_project_at(conn: &Connection, project: &Project) -> Result<Option<Project>> {
    conn.find(
        "SELECT * FROM projects WHERE removed_at IS NOT NULL AND (common_dir = :common_dir OR path = :path)",
        params! { project.{ common_dir, path } })
}

fn revive(conn: &Connection, removed: &Project, project: &Project) -> Result<Project> {
    conn.run(
        "UPDATE projects SET path = :path, common_dir = :common_dir, repo = :repo, remote_url = :remote_url,
             default_branch = :default_branch, removed_at = NULL
         WHERE project_id = :id",
        params! { id: removed.project_id; project.{ path, common_dir, repo, remote_url, default_branch } },
    )?;
    self::project(conn, &removed.project_id)
}

/// Returns the time at which a person removed a project; `None` if it was not removed.
pub(crate) fn removed_at(conn: &Connection, id: &ProjectId) -> Result<Option<Time>> {
    conn.find(
        "SELECT removed_at FROM projects WHERE project_id = :id",
        params! { id },
    )?
    .ok_or_else(|| BoardError::not_found("project", id))
}

/// Returns the changes of a project that are not merged or closed, oldest first.
pub(crate) fn live_changes_of(conn: &Connection, id: &ProjectId) -> Result<Vec<Change>> {
    conn.list(
        "SELECT * FROM changes WHERE project_id = :id AND state NOT IN ('merged', 'closed')
         ORDER BY length(change_id), change_id",
        params! { id },
    )
}

/// Returns the number of changes of a project in each state.
pub(crate) fn count_changes(conn: &Connection, id: &ProjectId) -> Result<Vec<(State, i64)>> {
    conn.all(
        "SELECT state, count(*) AS number FROM changes WHERE project_id = :id GROUP BY state ORDER BY state",
        params! { id },
        |row| Ok((row.get("state")?, row.get("number")?)),
    )
}

/// Handling of the open changes of a project that is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LiveChanges {
    Refuse,
    Cancel,
}

/// Hides a project, and returns the changes that were cancelled with it. Its row and its history stay.
pub(crate) fn remove_project(
    conn: &Connection,
    id: &ProjectId,
    live: LiveChanges,
    actor: &str,
    now: Time,
) -> Result<Vec<ChangeId>> {
    let changes: Vec<ChangeId> = live_changes_of(conn, id)?
        .into_iter()
        .map(|change| change.change_id)
        .collect();
    if live == LiveChanges::Refuse && !changes.is_empty() {
        return Err(BoardError::refused_with_hint(
            format!("{id} has open changes: {}", text::list(&changes)),
            format!(
                "`remand project remove {id} --close` cancels them; branches and worktrees are kept"
            ),
        ));
    }
    let why = format!("project {id} was removed");
    for change in &changes {
        super::cancel_change(conn, change, Some(&why), actor, now)?;
    }
    // A reopened pull request must not reopen a change of it, and no stop must wait for its return.
    conn.run(
        "UPDATE pulls SET acted_on = NULL, next_read = NULL WHERE project_id = :id",
        params! { id },
    )?;
    super::start(conn, Some(id), actor, now)?;
    conn.run(
        "UPDATE projects SET removed_at = :now WHERE project_id = :id AND removed_at IS NULL",
        params! { now, id },
    )?;
    let text = format!("project {id}");
    let event = NewEvent::new(
        body::Instructed::new(body::Action::RemoveProject, text, actor),
        format!("{actor} removed the project {id}"),
    )
    .by(actor)
    .on(TargetType::Project, id);
    super::append(conn, &event, now)?;
    Ok(changes)
}

/// Refuses a new change of a project that was removed in the meantime.
pub(crate) fn refuse_removed(conn: &Connection, id: &ProjectId) -> Result<()> {
    match removed_at(conn, id)? {
        Some(at) => Err(BoardError::refused_with_hint(
            format!("project {id} was removed at {}", at.local()),
            "`remand project add PATH` adds it again",
        )),
        None => Ok(()),
    }
}

/// Sets the URL for pushes of the project to `url`, and the repository of its pull requests to
/// `repo`; `None` keeps the current value.
pub(crate) fn move_project(
    conn: &Connection,
    id: &ProjectId,
    url: Option<&str>,
    repo: Option<&str>,
) -> Result<Project> {
    let pinned = conn.execute(
        "UPDATE projects SET remote_url = coalesce(:url, remote_url), repo = coalesce(:repo, repo) WHERE project_id = :id",
        params! { url, repo, id },
    )?;
    if pinned == 0 {
        return Err(BoardError::not_found("project", id));
    }
    project(conn, id)
}

/// Returns the project of this name, even if it was removed.
pub(crate) fn project(conn: &Connection, id: &ProjectId) -> Result<Project> {
    conn.find(
        "SELECT * FROM projects WHERE project_id = :id",
        params! { id },
    )?
    .ok_or_else(|| BoardError::not_found("project", id))
}

pub(crate) fn change_and_project(conn: &Connection, id: &ChangeId) -> Result<(Change, Project)> {
    let change = super::change(conn, id)?;
    let project = project(conn, &change.project_id)?;
    Ok((change, project))
}

pub(crate) fn project_by_common_dir(
    conn: &Connection,
    common_dir: &str,
) -> Result<Option<Project>> {
    conn.find(
        "SELECT * FROM projects WHERE common_dir = :common_dir AND removed_at IS NULL",
        params! { common_dir },
    )
}

pub(crate) fn list_projects(conn: &Connection) -> Result<Vec<Project>> {
    conn.list(
        "SELECT * FROM projects WHERE removed_at IS NULL ORDER BY project_id",
        &[],
    )
}

impl_from_row! { row => Project {
    project_id, path, common_dir, repo, remote_url, default_branch, created_at,
} }
