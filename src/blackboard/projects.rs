//! Repositories known to remand.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde::Serialize;

use super::{BoardError, Result, from_row};
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
    conn.execute(
        "INSERT INTO projects (project_id, path, common_dir, repo, remote_url, default_branch, created_at)
         VALUES (:project_id, :path, :common_dir, :repo, :remote_url, :default_branch, :created_at)",
        named_params! {
            ":project_id": project.project_id.as_str(),
            ":path": project.path,
            ":common_dir": project.common_dir,
            ":repo": project.repo,
            ":remote_url": project.remote_url,
            ":default_branch": project.default_branch,
            ":created_at": project.created_at.to_string(),
        },
    )?;
    Ok(())
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
        named_params! { ":url": url, ":repo": repo, ":id": id.as_str() },
    )?;
    if pinned == 0 {
        return Err(BoardError::NotFound {
            kind: "project",
            id: id.to_string(),
        });
    }
    project(conn, id)
}

pub(crate) fn project(conn: &Connection, id: &ProjectId) -> Result<Project> {
    conn.prepare_cached("SELECT * FROM projects WHERE project_id = :id")?
        .query_row(named_params! { ":id": id.as_str() }, from_row)
        .optional()?
        .ok_or_else(|| BoardError::NotFound {
            kind: "project",
            id: id.to_string(),
        })
}

pub(crate) fn project_by_common_dir(
    conn: &Connection,
    common_dir: &str,
) -> Result<Option<Project>> {
    Ok(conn
        .prepare_cached("SELECT * FROM projects WHERE common_dir = :common_dir")?
        .query_row(named_params! { ":common_dir": common_dir }, from_row)
        .optional()?)
}

pub(crate) fn list_projects(conn: &Connection) -> Result<Vec<Project>> {
    let mut statement = conn.prepare_cached("SELECT * FROM projects ORDER BY project_id")?;
    let projects = statement
        .query_map([], from_row)?
        .collect::<std::result::Result<_, _>>()?;
    Ok(projects)
}

fn from_row(row: &Row<'_>) -> std::result::Result<Project, rusqlite::Error> {
    Ok(Project {
        project_id: ProjectId::new(row.get::<_, String>("project_id")?),
        path: row.get("path")?,
        common_dir: row.get("common_dir")?,
        repo: row.get("repo")?,
        remote_url: row.get("remote_url")?,
        default_branch: row.get("default_branch")?,
        created_at: from_row::time(row, "created_at")?,
    })
}
