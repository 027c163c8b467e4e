//! Compares local branches before and after a run: an agent in one worktree can move every branch
//! of the repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::command::GitCommand;
use super::wip::wip_ref;
use super::{Git, Place, Result};
use crate::files;

/// Maximum number of bytes read from the reflog of HEAD.
const HEAD_LOG: u64 = 4 * 1024 * 1024;

/// Local branches that no worktree had checked out before a run, and the commit at which the run
/// started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FreeBranches {
    tips: BTreeMap<String, String>,
    head: String,
    /// Length of the reflog of HEAD: anything after it was written during the run.
    head_log: usize,
}

/// Branch that is not where it was before a run. `None` means that it did not or does not exist.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct MovedBranch {
    pub(crate) name: String,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
    /// Set if the run's HEAD was at the new commit, so that the run moved the branch. A person may
    /// have moved any other.
    pub(crate) by_run: bool,
}

impl Git {
    /// Returns the commits of all local branches that no worktree has checked out. A checked-out
    /// branch moves with the work there.
    pub(crate) async fn free_branches(&self, place: &Place, head: &str) -> Result<FreeBranches> {
        let tips = self.branches_and_worktrees(place).await?;
        let free = tips.into_iter().filter(|(_, tip)| tip.worktree.is_empty());
        let tips = free.map(|(name, tip)| (name, tip.sha)).collect();
        Ok(FreeBranches {
            tips,
            head: head.to_owned(),
            head_log: head_log(place).len(),
        })
    }

    /// Returns branches that moved, appeared or vanished since [`Git::free_branches`], except those
    /// that another worktree has checked out by now.
    pub(crate) async fn moved_branches(
        &self,
        place: &Place,
        before: &FreeBranches,
    ) -> Result<Vec<MovedBranch>> {
        let mut now = self.branches_and_worktrees(place).await?;
        let elsewhere =
            |tip: &Tip| !tip.worktree.is_empty() && Path::new(&tip.worktree) != place.path;
        let log = head_log(place);
        let log = String::from_utf8_lossy(log.get(before.head_log..).unwrap_or_default());
        let own: BTreeSet<&str> = log
            .lines()
            .filter_map(|line| line.split(' ').nth(1))
            .filter(|sha| *sha != before.head)
            .collect();
        let mut moved = Vec::new();
        for (name, old) in &before.tips {
            let tip = now.remove(name);
            if tip
                .as_ref()
                .is_some_and(|tip| tip.sha == *old || elsewhere(tip))
            {
                continue;
            }
            let after = tip.map(|tip| tip.sha);
            let by_run = after.as_ref().is_some_and(|sha| own.contains(sha.as_str()));
            moved.push(MovedBranch {
                name: name.clone(),
                before: Some(old.clone()),
                after,
                by_run,
            });
        }
        let created = now.into_iter().filter(|(_, tip)| tip.worktree.is_empty());
        moved.extend(created.map(|(name, tip)| {
            let by_run = own.contains(tip.sha.as_str());
            MovedBranch {
                name,
                before: None,
                after: Some(tip.sha),
                by_run,
            }
        }));
        Ok(moved)
    }

    /// Moves a branch that a run moved back to its old commit, and returns whether it is there.
    ///
    /// The commit of the run is kept on `refs/remand/wip/branch-SHA`. The branch is left alone if
    /// it moved again, if a worktree has it checked out, or if the run created or deleted it.
    pub(crate) async fn put_branch_back(&self, place: &Place, moved: &MovedBranch) -> Result<bool> {
        let (Some(before), Some(after), true) = (&moved.before, &moved.after, moved.by_run) else {
            return Ok(false);
        };
        let tips = self.branches_and_worktrees(place).await?;
        if tips.get(&moved.name).is_some_and(|tip| tip.sha == *before) {
            return Ok(true);
        }
        if tips
            .get(&moved.name)
            .is_none_or(|tip| tip.sha != *after || !tip.worktree.is_empty())
        {
            return Ok(false);
        }
        let kept = wip_ref(&format!("branch-{after}"))?;
        self.set_ref(place, &kept, after).await?;
        let name = format!("refs/heads/{}", moved.name);
        self.move_ref(place, &name, before, after).await?;
        Ok(true)
    }

    async fn branches_and_worktrees(&self, place: &Place) -> Result<BTreeMap<String, Tip>> {
        let format = "--format=%(objectname)%00%(refname)%00%(worktreepath)";
        let listed = self
            .text(GitCommand::at(place, "for-each-ref").args([format, "refs/heads/"]))
            .await?;
        let mut tips = BTreeMap::new();
        for line in listed.lines() {
            let mut fields = line.split('\0');
            let (Some(sha), Some(name), Some(worktree)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if let Some(name) = name.strip_prefix("refs/heads/") {
                tips.insert(
                    name.to_owned(),
                    Tip {
                        sha: sha.to_owned(),
                        worktree: worktree.to_owned(),
                    },
                );
            }
        }
        Ok(tips)
    }
}

struct Tip {
    sha: String,
    worktree: String,
}

fn head_log(place: &Place) -> Vec<u8> {
    files::read_below(&place.git_dir, Path::new("logs/HEAD"), HEAD_LOG).unwrap_or_default()
}
