//! Local branches that moved during a run: reported, and restored if the run itself moved them.

use std::path::{Path, PathBuf};

use super::launch::write;
use crate::dispatch::interrupt::Result;
use crate::failpoint::crash_point;
use crate::files::{self, RECORD};
use crate::git::{FreeBranches, Git, MovedBranch, Place, check_branch_name};
use crate::text::short_sha;

/// Records the heads of branches before a run.
pub(crate) async fn note_branches(git: &Git, place: &Place, head: &str, dir: &Path) -> Result<()> {
    let branches = git.free_branches(place, head).await?;
    write(
        &before_file(dir),
        &serde_json::to_vec(&branches).unwrap_or_default(),
    )
}

/// Restores the branches that a run moved, and returns a sentence about each that moved or vanished. A branch that the
/// run's worktree is still on is restored by the next call, once HEAD is back where it belongs. The findings are
/// recorded before anything is restored, so that a call after a crash reports them too.
pub(crate) async fn restore_branches(git: &Git, place: &Place, dir: &Path) -> Result<Vec<String>> {
    let Some(before) = read::<FreeBranches>(&before_file(dir)) else {
        return Ok(Vec::new());
    };
    let mut all: Vec<MovedBranch> = read(&moved_file(dir)).unwrap_or_default();
    let found = git.moved_branches(place, &before).await?;
    // Others who work in the repository create branches too.
    let found = found
        .into_iter()
        .filter(|moved| moved.before.is_some() || moved.by_run);
    let new: Vec<MovedBranch> = found.filter(|moved| !all.contains(moved)).collect();
    if !new.is_empty() {
        all.extend(new);
        write(
            &moved_file(dir),
            &serde_json::to_vec(&all).unwrap_or_default(),
        )?;
    }
    crash_point!("git.branches.before");
    let mut sentences = Vec::new();
    for moved in &all {
        let is_back = match git.put_branch_back(place, moved).await {
            Ok(is_back) => is_back,
            // A branch behind a lock that the agent left must not keep the run from ending.
            Err(error) => {
                tracing::warn!(branch = moved.name, error = ?error, "cannot restore a branch");
                false
            }
        };
        sentences.push(sentence(moved, is_back));
    }
    Ok(sentences)
}

/// One sentence about a branch that moved during a run.
fn sentence(moved: &MovedBranch, is_back: bool) -> String {
    let MovedBranch {
        name,
        before,
        after,
        by_run,
    } = moved;
    match (before, after) {
        (Some(before), Some(after)) if *by_run => {
            let (from, to) = (short_sha(before), short_sha(after));
            let back = if is_back {
                format!(" and restored ({to} is kept on refs/remand/wip/branch-{after})")
            } else {
                String::new()
            };
            format!("the branch {name} was moved from {from} to {to} by the agent{back}")
        }
        (Some(before), Some(after)) => format!(
            "the branch {name} moved from {} to {}",
            short_sha(before),
            short_sha(after)
        ),
        // A command is only suggested for a name that a shell reads as one word.
        (Some(before), None) if check_branch_name(name).is_ok() => {
            format!("the branch {name} was deleted (`git branch {name} {before}` restores it)")
        }
        (Some(before), None) => format!("the branch {name} was deleted; it was at {before}"),
        (None, Some(after)) => format!("the branch {name} was created at {}", short_sha(after)),
        (None, None) => String::new(),
    }
}

fn read<T: serde::de::DeserializeOwned>(file: &Path) -> Option<T> {
    files::read(file, RECORD)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
}

fn before_file(dir: &Path) -> PathBuf {
    dir.join("branches.json")
}

fn moved_file(dir: &Path) -> PathBuf {
    dir.join("moved-branches.json")
}
