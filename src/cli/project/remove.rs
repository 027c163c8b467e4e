//! `remand project remove`: hides a project. The rows are updated first, in one transaction; then
//! its files on disk are deleted. If the first call was killed, a second one finishes the work.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::blackboard::{self as bb, LiveChanges};
use crate::change::{ChangeId, ProjectId};
use crate::cli::frame::{CommandContext, ExitCode, Line, refuse_agents};
use crate::cli::prune::is_file_name;
use crate::cli::stop;
use crate::config::Loaded;
use crate::failpoint::crash_point;
use crate::text::list;
use crate::wake;

/// Remove a project, keeping its repository and its history
#[derive(Debug, Args)]
#[command(
    after_help = "The repository, its branches and its worktrees are not touched. remand's own clone and the checkouts for \
gates are deleted, unless they may still be in use. The changes and events of the project can still be read, and \
`remand project add` restores it under the same name. Its settings stay in the config file.\n\n\
Example:\n  remand project remove website --close"
)]
pub(crate) struct RemoveArgs {
    /// Name of the project
    #[arg(value_name = "NAME")]
    name: String,

    /// Cancel its open changes, as with `remand cancel`
    #[arg(long)]
    close: bool,
}

#[derive(Serialize)]
struct Removal {
    project_id: ProjectId,
    /// Changes that were cancelled because of the removal.
    cancelled: Vec<ChangeId>,
    /// Directories that were deleted.
    deleted: Vec<PathBuf>,
    left: Vec<Left>,
}

/// A directory of remand that still exists.
#[derive(Serialize)]
struct Left {
    path: PathBuf,
    reason: String,
}

pub(super) fn remove(args: &RemoveArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    refuse_agents()?;
    let id = super::known(ctx, &args.name)?.project_id;
    let live = match args.close {
        true => LiveChanges::Cancel,
        false => LiveChanges::Refuse,
    };
    let cancelled = ctx.write("project_remove", |conn, step| {
        // If a first call was killed after it wrote the rows, only the files are left.
        if bb::removed_at(conn, &id)?.is_some() {
            return Ok(Vec::new());
        }
        bb::remove_project(conn, &id, live, &step.actor, step.now)
    })?;
    crash_point!("project_remove.disk");
    let mut removal = Removal {
        project_id: id,
        cancelled,
        deleted: Vec::new(),
        left: Vec::new(),
    };
    let settings = ctx.settings()?;
    removal.delete_own(ctx, &settings)?;
    ctx.show(&removal, |ctx, removal| print(ctx, removal, &settings))
}

impl Removal {
    fn delete_own(&mut self, ctx: &CommandContext, settings: &Loaded) -> Result<()> {
        let (state, name) = (settings.state_folder(), self.project_id.as_str());
        if !is_file_name(name) {
            return Ok(());
        }
        let own = [
            state.join("repos").join(format!("{name}.git")),
            state.join("gates").join(name),
        ];
        let in_use = self.in_use(ctx, settings)?;
        let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
        for path in own.into_iter().filter(is_there) {
            let reason = match &in_use {
                Some(reason) => Some(reason.clone()),
                None if path.join("worktrees").exists() => Some("it has worktrees".to_owned()),
                None => delete(&path),
            };
            match reason {
                Some(reason) => self.left.push(Left { path, reason }),
                None => self.deleted.push(path),
            }
        }
        Ok(())
    }

    /// Returns the reason why the project's directories may still be in use.
    fn in_use(&self, ctx: &CommandContext, settings: &Loaded) -> Result<Option<String>> {
        if wake::is_heard(&settings.blackboard) {
            return Ok(Some("a running daemon may be using it".to_owned()));
        }
        let under_way = stop::running(&mut ctx.board()?, Some(&self.project_id))?;
        let first = under_way.first();
        Ok(first.map(|one| format!("{} is still running", one.what)))
    }
}

/// Deletes a directory; returns the error if it fails.
fn delete(path: &Path) -> Option<String> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Some(error.to_string()),
        Ok(()) | Err(_) => None,
    }
}

fn print(ctx: &mut CommandContext, removal: &Removal, settings: &Loaded) -> Result<()> {
    let name = removal.project_id.as_str();
    ctx.out
        .line(Line::new().strong(name).plain(" was removed"))?;
    if !removal.cancelled.is_empty() {
        ctx.out
            .line(format!("cancelled: {}", list(&removal.cancelled)))?;
    }
    for path in &removal.deleted {
        ctx.out.line(format!("deleted {}", path.display()))?;
    }
    for left in &removal.left {
        let path = left.path.display();
        ctx.out
            .note(format!("note: {path} was kept: {}", left.reason))?;
    }
    if !removal.left.is_empty() {
        let hint = format!("hint: run `remand project remove {name}` again later to delete it");
        ctx.out.note(hint)?;
    }
    if let Some(file) = settings.file.as_ref()
        && settings.config.projects.contains_key(name)
    {
        let file = file.display();
        ctx.out.note(format!(
            "note: [projects.{name}] in {file} no longer has any effect"
        ))?;
    }
    Ok(())
}
