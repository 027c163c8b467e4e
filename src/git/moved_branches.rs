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
        let own = log.lines().filter_map(|line| line.split(' ').nth(1));
        let own: BTreeSet<&str> = own.filter(|sha| *sha != before.head).collect();
        let moved = |name: &str, old: Option<&String>, tip: Option<Tip>| {
            let after = tip.map(|tip| tip.sha);
            MovedBranch {
                name: name.to_owned(),
                before: old.cloned(),
                by_run: after.as_ref().is_some_and(|sha| own.contains(sha.as_str())),
                after,
            }
        };
        let mut all = Vec::new();
        for (name, old) in &before.tips {
            let tip = now.remove(name);
            let is_fine = |tip: &Tip| tip.sha == *old || elsewhere(tip);
            if !tip.as_ref().is_some_and(is_fine) {
                all.push(moved(name, Some(old), tip));
            }
        }
        let created = now.into_iter().filter(|(_, tip)| tip.worktree.is_empty());
        all.extend(created.map(|(name, tip)| moved(&name, None, Some(tip))));
        Ok(all)
    }

    /// Moves a branch that a run moved back to its old commit, and returns whether it is there.
    ///
    /// The commit of the run is kept on `refs/remand/wip/branch-SHA`. The branch is left alone if
    /// it moved again, if a worktree has it checked out, or if the run created or deleted it.
    pub(crate) async fn put_branch_back(&self, place: &Place, moved: &MovedBranch) -> Result<bool> {
        let (Some(before), Some(after), true) = (&moved.before, &moved.after, moved.by_run) else {
            return Ok(false);
        };
        let mut tips = self.branches_and_worktrees(place).await?;
        match tips.remove(&moved.name) {
            Some(tip) if tip.sha == *before => return Ok(true),
            Some(tip) if tip.sha == *after && tip.worktree.is_empty() => {}
            Some(_) | None => return Ok(false),
        }
        let kept = wip_ref(&format!("branch-{after}"))?;
        self.set_ref(place, &kept, after).await?;
        let name = format!("refs/heads/{}", moved.name);
        self.move_ref(place, &name, before, after).await?;
        Ok(true)
    }

    async fn branches_and_worktrees(&self, place: &Place) -> Result<BTreeMap<String, Tip>> {
        let format = "--format=%(objectname)%00%(refname)%00%(worktreepath)";
        let call = GitCommand::at(place, "for-each-ref");
        let listed = self.text(call.args([format, "refs/heads/"])).await?;
        let tip = |line: &str| {
            let mut fields = line.split('\0').map(str::to_owned);
            let (sha, name, worktree) = (fields.next()?, fields.next()?, fields.next()?);
            let name = name.strip_prefix("refs/heads/")?.to_owned();
            Some((name, Tip { sha, worktree }))
        };
        Ok(listed.lines().filter_map(tip).collect())
    }
}

struct Tip {
    sha: String,
    worktree: String,
}

/// Reads the reflog of HEAD; empty if it cannot be read.
pub(super) fn head_log(place: &Place) -> Vec<u8> {
    files::read_below(&place.git_dir, Path::new("logs/HEAD"), HEAD_LOG).unwrap_or_default()
}
