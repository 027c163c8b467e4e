//! The spec, plan and tasks of a change, from `.specify/` in its worktree: the intended result of the work.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::spec_folder::choose;
use crate::files;
use crate::work::{PlanReason, PlanSource};

const NAMES: [&str; 3] = ["spec.md", "plan.md", "tasks.md"];
const DEPTH: usize = 4;
const FILE_CAP: u64 = 256 * 1024;
/// Maximum number of directories listed when none could be chosen.
const FOLDERS: usize = 20;

/// The text of a plan, and its source.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) text: Option<String>,
    /// None: there is no `.specify/` with a plan in it.
    pub(crate) source: Option<PlanSource>,
}

/// All files of the branch's feature as one text, each under its path. Files in `.specify/` itself count if no
/// directory does.
pub(crate) fn plan(worktree: &Path, branch: &str) -> Plan {
    let top = worktree.join(".specify");
    let mut found = Vec::new();
    if is_folder(&top) {
        collect(&top, DEPTH, &mut found);
    }
    found.sort();
    if found.is_empty() {
        return Plan::default();
    }
    let folders: BTreeSet<&Path> = found
        .iter()
        .filter_map(|path| path.parent())
        .filter(|path| *path != top)
        .collect();
    let names: Vec<String> = folders
        .iter()
        .filter_map(|path| path.file_name())
        .map(lossy)
        .collect();
    let choice = choose(
        branch,
        &names.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let chosen = choice
        .folder
        .and_then(|name| names.iter().position(|other| other == name));
    let chosen = chosen.and_then(|at| folders.iter().nth(at)).copied();
    let has_top_level = found.iter().any(|path| path.parent() == Some(&top));
    let (folder, reason) = match chosen {
        Some(folder) => (Some(folder), choice.reason),
        None if has_top_level => (Some(top.as_path()), PlanReason::TopLevel),
        None => (None, choice.reason),
    };
    let mut files: Vec<&PathBuf> = found
        .iter()
        .filter(|path| path.parent() == folder)
        .collect();
    files.sort_by_key(|path| {
        NAMES
            .iter()
            .position(|name| path.file_name().is_some_and(|file| file == *name))
    });
    let shown = |path: &Path| {
        path.strip_prefix(worktree)
            .unwrap_or(path)
            .display()
            .to_string()
    };
    let (mut texts, mut unread) = (Vec::new(), Vec::new());
    for path in files {
        match read(worktree, path) {
            Some(text) => texts.push(text),
            None => unread.push(shown(path)),
        }
    }
    let source = PlanSource {
        folder: folder.filter(|_| !texts.is_empty()).map(shown),
        reason: if folder.is_some() && texts.is_empty() {
            PlanReason::Unreadable
        } else {
            reason
        },
        folders: folders
            .iter()
            .take(FOLDERS)
            .map(|path| shown(path))
            .collect(),
        unread,
    };
    Plan {
        text: (!texts.is_empty()).then(|| texts.join("\n\n")),
        source: Some(source),
    }
}

fn lossy(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

fn collect(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    // An unreadable directory holds no plan; the agent cannot read it either.
    let Ok(names) = files::names(folder) else {
        return;
    };
    for name in names {
        let path = folder.join(&name);
        if is_folder(&path) {
            if depth > 0 {
                collect(&path, depth - 1, found);
            }
        } else if NAMES.iter().any(|known| name == *known) {
            found.push(path);
        }
    }
}

/// Symlinks are not followed: they may lead anywhere.
fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_dir())
}

fn read(worktree: &Path, path: &Path) -> Option<String> {
    let name = path.strip_prefix(worktree).unwrap_or(path);
    let text =
        String::from_utf8_lossy(&files::read_below(worktree, name, FILE_CAP).ok()?).into_owned();
    Some(format!("## {}\n\n{text}", name.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(top: &Path, path: &str, text: &str) {
        let path = top.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_feature_that_the_branch_names_counts() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(plan(folder.path(), "x").text, None);
        write(folder.path(), ".specify/specs/f-020-loop/tasks.md", "do it");
        write(
            folder.path(),
            ".specify/specs/f-020-loop/spec.md",
            "the loop",
        );
        write(
            folder.path(),
            ".specify/specs/f-021-other/spec.md",
            "another",
        );
        let text = plan(folder.path(), "feature/F-020-loop").text.unwrap();
        assert!(
            text.contains("the loop") && text.contains("do it") && !text.contains("another"),
            "{text}"
        );
        assert!(
            text.find("the loop") < text.find("do it"),
            "the spec comes first"
        );
        assert_eq!(
            plan(folder.path(), "main-work").text,
            None,
            "which of the two is meant can't be known"
        );
    }

    #[test]
    fn a_link_out_of_the_worktree_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("spec.md"), "secret").unwrap();
        fs::create_dir(folder.path().join(".specify")).unwrap();
        std::os::unix::fs::symlink(
            outside.path().join("spec.md"),
            folder.path().join(".specify/spec.md"),
        )
        .unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join(".specify/more")).unwrap();
        assert_eq!(plan(folder.path(), "x").text, None);
    }
}
