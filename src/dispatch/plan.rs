//! The spec, plan and tasks of a change, from `.specify/` in its worktree: what the work was meant to be.

use std::path::{Path, PathBuf};

use crate::files;

const NAMES: [&str; 3] = ["spec.md", "plan.md", "tasks.md"];
const DEPTH: usize = 4;
const FILE_CAP: u64 = 256 * 1024;

/// All of them as one text, each under its path. With several features side by side the one whose folder the branch
/// names counts; without such a one, only what stands at the top or alone.
pub(super) fn plan(worktree: &Path, branch: &str) -> Option<String> {
    let top = worktree.join(".specify");
    if !is_folder(&top) {
        return None;
    }
    let mut found = Vec::new();
    collect(&top, DEPTH, &mut found);
    found.sort();
    let folder_of = |path: &PathBuf| path.parent().map(Path::to_owned);
    let named = |path: &PathBuf| {
        let folder = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().to_lowercase());
        folder.is_some_and(|folder| branch.to_lowercase().contains(&folder))
    };
    let mut chosen: Vec<PathBuf> = found.iter().filter(|path| named(path)).cloned().collect();
    if chosen.is_empty() {
        let folders: std::collections::BTreeSet<_> = found.iter().filter_map(folder_of).collect();
        chosen = found.into_iter().filter(|path| folders.len() == 1 || path.parent() == Some(top.as_path())).collect();
    }
    chosen.sort_by_key(|path| NAMES.iter().position(|name| path.file_name().is_some_and(|file| file == *name)));
    let texts: Vec<String> = chosen.iter().filter_map(|path| read(worktree, path)).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

fn collect(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    // A folder that can't be read holds no plan for us; the agent sees the same.
    let Ok(names) = files::names(folder) else { return };
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

/// Not through a symlink, which may lead anywhere.
fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_dir())
}

fn read(worktree: &Path, path: &Path) -> Option<String> {
    let name = path.strip_prefix(worktree).unwrap_or(path);
    let text = String::from_utf8_lossy(&files::read_below(worktree, name, FILE_CAP).ok()?).into_owned();
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
        assert_eq!(plan(folder.path(), "x"), None);
        write(folder.path(), ".specify/specs/f-020-loop/tasks.md", "do it");
        write(folder.path(), ".specify/specs/f-020-loop/spec.md", "the loop");
        write(folder.path(), ".specify/specs/f-021-other/spec.md", "another");
        let text = plan(folder.path(), "feature/F-020-loop").unwrap();
        assert!(text.contains("the loop") && text.contains("do it") && !text.contains("another"), "{text}");
        assert!(text.find("the loop") < text.find("do it"), "the spec comes first");
        assert_eq!(plan(folder.path(), "main-work"), None, "which of the two is meant can't be known");
    }

    #[test]
    fn a_link_out_of_the_worktree_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("spec.md"), "secret").unwrap();
        fs::create_dir(folder.path().join(".specify")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("spec.md"), folder.path().join(".specify/spec.md")).unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join(".specify/more")).unwrap();
        assert_eq!(plan(folder.path(), "x"), None);
    }
}
