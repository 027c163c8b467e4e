//! Repositories known to remand.

use serde::Serialize;

use super::{BoardError, Result};
use crate::blackboard::sql::{self, Connection, Row, params};
use crate::change::ProjectId;
use crate::clock::Time;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Project {
    pub(crate) project_id: ProjectId,
    /// The main checkout.
    pub(crate) path: String,
    pub(crate) common_dir: String,
    pub(crate) repo: Option<String>,
    /// What is pushed to, whatever the repository's own configuration says by then.
    pub(crate) remote_url: Option<String>,
    pub(crate) default_branch: String,
    pub(crate) created_at: Time,
}

/// Adds a project, or says that its name or repository is taken.
pub(crate) fn insert_project(conn: &Connection, project: &Project) -> Result<()> {
    if let Some(known) = project_by_common_dir(conn, &project.common_dir)? {
        return Err(BoardError::Refused {
            what: format!(
                "{} is known already, as project `{}`",
                project.path, known.project_id
            ),
            hint: None,
        });
    }
    if let Ok(known) = self::project(conn, &project.project_id) {
        return Err(BoardError::Refused {
            what: format!(
                "there is a project `{}` already, at {}",
                known.project_id, known.path
            ),
            hint: Some("give this one another name with --name".into()),
        });
    }
    conn.run(
        "INSERT INTO projects (project_id, path, common_dir, repo, remote_url, default_branch, created_at)
         VALUES (:project_id, :path, :common_dir, :repo, :remote_url, :default_branch, :created_at)",
        params! {
            ":project_id": project.project_id,
            ":path": project.path,
            ":common_dir": project.common_dir,
            ":repo": project.repo,
            ":remote_url": project.remote_url,
            ":default_branch": project.default_branch,
            ":created_at": project.created_at,
        },
    )
}

/// From now on pushes of the project go to `url`, and its pull requests are those of `repo`; none: as before.
pub(crate) fn move_project(
    conn: &Connection,
    id: &ProjectId,
    url: Option<&str>,
    repo: Option<&str>,
) -> Result<Project> {
    let pinned = conn.execute(
        "UPDATE projects SET remote_url = coalesce(:url, remote_url), repo = coalesce(:repo, repo) WHERE project_id = :id",
        params! { ":url": url, ":repo": repo, ":id": id },
    )?;
    if pinned == 0 {
        return Err(BoardError::not_found("project", id));
    }
    project(conn, id)
}

pub(crate) fn project(conn: &Connection, id: &ProjectId) -> Result<Project> {
    conn.optional(
        "SELECT * FROM projects WHERE project_id = :id",
        params! { ":id": id },
        from_row,
    )?
    .ok_or_else(|| BoardError::not_found("project", id))
}

pub(crate) fn project_by_common_dir(
    conn: &Connection,
    common_dir: &str,
) -> Result<Option<Project>> {
    conn.optional(
        "SELECT * FROM projects WHERE common_dir = :common_dir",
        params! { ":common_dir": common_dir },
        from_row,
    )
}

pub(crate) fn list_projects(conn: &Connection) -> Result<Vec<Project>> {
    conn.all("SELECT * FROM projects ORDER BY project_id", &[], from_row)
}

fn from_row(row: &Row<'_>) -> sql::Result<Project> {
    Ok(Project {
        project_id: row.get("project_id")?,
        path: row.get("path")?,
        common_dir: row.get("common_dir")?,
        repo: row.get("repo")?,
        remote_url: row.get("remote_url")?,
        default_branch: row.get("default_branch")?,
        created_at: row.get("created_at")?,
    })
}
