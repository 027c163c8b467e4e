//! Specification of a task: a file, or all text files of a directory, as they are now.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use super::TEXT_BYTES;
use crate::cli::frame::CommandError;
use crate::task::TaskSpec;

/// Maximum depth of directories.
const DEPTH: usize = 4;

/// Maximum number of files.
const FILES: usize = 200;

/// Files of a feature that come first, in this order.
const FIRST: [&str; 3] = ["spec.md", "plan.md", "tasks.md"];

/// Reads a specification. Symbolic links must not lead out of the repository, or out of a directory
/// elsewhere.
pub(crate) fn read(path: &Path, repository: &Path) -> Result<TaskSpec> {
    let shown = path.display().to_string();
    let absolute = without_dots(&std::path::absolute(path)?);
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return CommandError::not_found(format!("--spec: no such file: {shown}")).fail();
        }
        Err(error) => {
            return CommandError::new(format!("--spec: cannot read {shown}: {error}")).fail();
        }
    };
    let real_repository = repository
        .canonicalize()
        .unwrap_or_else(|_| repository.to_owned());
    let is_inside = absolute.starts_with(repository) || absolute.starts_with(&real_repository);
    let tree = if is_inside {
        real_repository.clone()
    } else if real.is_dir() {
        real.clone()
    } else {
        real.parent().unwrap_or(&real).to_owned()
    };
    if !real.starts_with(&tree) || !is_inside && is_link(path) {
        return CommandError::new(format!(
            "--spec: {shown} is a symbolic link that leads out of its directory"
        ))
        .fail_with_hint(format!("use the file itself: {}", real.display()));
    }
    let mut files = Vec::new();
    if real.is_dir() {
        collect(&real, &tree, DEPTH, &mut files)?;
        files.sort_by_key(|path| (rank(path), path.clone()));
    } else {
        files.push(real.clone());
    }
    let mut text = String::new();
    for file in &files {
        let part = one(file, &shown)?;
        let name = file.strip_prefix(&real).unwrap_or(file);
        if real.is_dir() {
            text.push_str(&format!("## {}\n\n", name.display()));
        }
        text.push_str(part.trim_end());
        text.push_str("\n\n");
        if text.len() > TEXT_BYTES {
            return CommandError::usage(format!(
                "--spec: {shown} has more than {TEXT_BYTES} bytes"
            ))
            .fail_with_hint("name the file or directory that describes this task only");
        }
    }
    if text.trim().is_empty() {
        return CommandError::usage(format!("--spec: {shown} contains no text")).fail();
    }
    let path = real.strip_prefix(&real_repository).unwrap_or(&real);
    Ok(TaskSpec {
        path: path.display().to_string(),
        text: text.trim_end().to_owned(),
    })
}

/// Removes `..` from a path, as a shell does with its working directory.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

fn is_link(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_symlink())
}

fn rank(path: &Path) -> usize {
    let name = path.file_name().unwrap_or_default();
    let at = FIRST.iter().position(|first| name == *first);
    at.unwrap_or(FIRST.len())
}

/// Collects the files of a directory.
fn collect(dir: &Path, tree: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |error: std::io::Error| {
        CommandError::new(format!("--spec: cannot read {}: {error}", dir.display()))
    };
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        entries.push(entry.map_err(failed)?.path());
    }
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') {
            continue;
        }
        let shown = path.display();
        let real = path
            .canonicalize()
            .map_err(|error| CommandError::new(format!("--spec: cannot read {shown}: {error}")))?;
        if !real.starts_with(tree) {
            return CommandError::new(format!(
                "--spec: {shown} is a symbolic link that leads out of {}",
                tree.display()
            ))
            .fail_with_hint("remove it, or name the files that are needed");
        }
        if real.is_dir() {
            if depth == 1 {
                return CommandError::usage(format!(
                    "--spec: {shown} is nested more than {DEPTH} directories deep"
                ))
                .fail_with_hint("name the directory that describes this task only");
            }
            if !is_link(&path) {
                collect(&path, tree, depth - 1, files)?;
            }
        } else {
            // Anything but a regular file is refused when it is read.
            files.push(path);
        }
        if files.len() > FILES {
            return CommandError::usage(format!(
                "--spec: {} has more than {FILES} files",
                tree.display()
            ))
            .fail_with_hint("name the directory that describes this task only");
        }
    }
    Ok(())
}

fn one(file: &Path, shown: &str) -> Result<String> {
    let name = file.display();
    let failed =
        |error: std::io::Error| CommandError::new(format!("--spec: cannot read {name}: {error}"));
    let meta = fs::metadata(file).map_err(failed)?;
    if !meta.is_file() {
        return CommandError::usage(format!("--spec: {name} is not a regular file")).fail();
    }
    if meta.len() > TEXT_BYTES as u64 {
        return CommandError::usage(format!(
            "--spec: {name} has {} bytes; the maximum is {TEXT_BYTES}",
            meta.len()
        ))
        .fail_with_hint("name the part that describes this task");
    }
    let bytes = fs::read(file).map_err(failed)?;
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        Ok(_) | Err(_) => CommandError::usage(format!("--spec: {name} is not text"))
            .fail_with_hint(format!("{shown} must contain only UTF-8 text files")),
    }
}
