//! Replays the commits of a branch onto the current head of the remote.

use std::collections::BTreeSet;

use super::bytes::{lossy, records, split_once};
use super::command::GitCommand;
use super::history::check_shas;
use super::wip::wip_ref;
use super::{Git, GitError, HeadAt, Place, RestorePoint, Result};

/// Commits to replay (`first..head`), their new base, and the run that made them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rebase<'a> {
    pub(crate) head_at: HeadAt<'a>,
    pub(crate) first: &'a str,
    pub(crate) head: &'a str,
    pub(crate) onto: &'a str,
    pub(crate) run: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rebased {
    /// The branch and its worktree are at this commit.
    Clean(String),
    /// Nothing was changed; these files could not be merged.
    Conflict(Vec<String>),
}

/// Settings that keep planted or user settings from opening an editor, moving other branches or
/// hiding a conflict.
const CONFIG: &[&str] = &[
    "rebase.rebaseMerges=false",
    "rebase.updateRefs=false",
    "rebase.missingCommitsCheck=ignore",
    "rerere.enabled=false",
    "merge.verifySignatures=false",
];

const REBASE: &str = "rebase --quiet --merge --no-autostash --no-autosquash --no-gpg-sign --no-verify \
    --no-stat --no-fork-point --no-rerere-autoupdate --empty=drop --no-signoff --onto";

impl Git {
    /// Replays `first..head` onto `onto` in a clean worktree at `head`.
    ///
    /// The old commits stay on `refs/remand/wip/RUN`; the result is on
    /// `refs/remand/rebased/RUN/HEAD-ONTO`, so that a repeated call, also after a crash, ends at
    /// the same commit. The caller has verified that nobody is at work there.
    pub(crate) async fn rebase_onto(&self, place: &Place, rebase: Rebase<'_>) -> Result<Rebased> {
        let Rebase {
            head_at,
            first,
            head,
            onto,
            run,
        } = rebase;
        head_at.ref_name()?;
        check_shas([first, head, onto])?;
        if !self.is_ancestor(place, first, head).await? {
            return Err(GitError::not_forward(first, head));
        }
        let result = result_ref(rebase)?;
        let done = self.resolve(place, &result).await?;
        let found = match self.clean_head(place, head_at).await {
            Ok(found) if !self.is_cut_replay(place, rebase, found.as_deref()).await? => found,
            found => {
                let aim = self.moving(place).await.ok().flatten();
                if aim.as_deref() != Some(head) {
                    found?;
                }
                let to = done.as_deref().unwrap_or(head);
                Some(self.put_back_at(place, rebase, to).await?)
            }
        };
        if let Some(done) = done.filter(|done| found.as_ref() == Some(done)) {
            self.set_head(place, head_at, &done).await?;
            self.end_moving(place).await?;
            return Ok(Rebased::Clean(done));
        }
        let found = match found {
            Some(other) if other != head && self.is_result(place, rebase, &other).await? => {
                // It was replayed onto an earlier head of the remote, and interrupted before that
                // was recorded.
                Some(self.put_back_at(place, rebase, head).await?)
            }
            found => found,
        };
        if found.as_deref() != Some(head) {
            return Err(GitError::elsewhere(head_at.expected(), head, found));
        }
        self.refuse_overwriting(place, head, onto).await?;
        let saved = RestorePoint::new(head_at, first, run);
        self.save_wip(place, saved).await?;
        self.begin_moving(place, head).await?;
        let rebased = self.replay(place, rebase, &result).await?;
        self.end_moving(place).await?;
        Ok(rebased)
    }

    async fn put_back_at(&self, place: &Place, rebase: Rebase<'_>, to: &str) -> Result<String> {
        let back = RestorePoint::new(rebase.head_at, to, rebase.run);
        self.put_back(place, back).await?;
        Ok(to.to_owned())
    }

    /// Returns true if a detached HEAD with no operation in progress was left by a replay that was
    /// interrupted before its result was saved.
    async fn is_cut_replay(
        &self,
        place: &Place,
        rebase: Rebase<'_>,
        found: Option<&str>,
    ) -> Result<bool> {
        if let HeadAt::Branch(_) = rebase.head_at {
            return Ok(false);
        }
        let is_moving = self.moving(place).await?.as_deref() == Some(rebase.head);
        Ok(is_moving && found != Some(rebase.head))
    }

    /// Returns true if a commit is the result of replaying the same commits, whatever the target.
    async fn is_result(&self, place: &Place, rebase: Rebase<'_>, found: &str) -> Result<bool> {
        let result = result_ref(rebase)?;
        let folder = result.trim_end_matches(|c| c != '/');
        for name in self.refs_below(place, folder).await? {
            let is_of_head = name.rsplit('/').next();
            let is_of_head = is_of_head.is_some_and(|name| name.starts_with(rebase.head));
            if is_of_head && self.resolve(place, &name).await?.as_deref() == Some(found) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Replays with a detached HEAD: the branch moves in one step when everything is done, or not
    /// at all.
    async fn replay(&self, place: &Place, rebase: Rebase<'_>, result: &str) -> Result<Rebased> {
        let Rebase {
            head_at,
            first,
            head,
            onto,
            ..
        } = rebase;
        let [_, _, name, address] = self.identity(place).await?;
        let call = GitCommand::at(place, REBASE).args([onto, first, head]);
        let call = call.config(CONFIG).env(&[name, address]);
        if let Err(error) = self.run(call).await {
            let conflicts = self.unmerged(place).await?;
            self.quit_operations(place).await?;
            self.reset_hard(place, head).await?;
            self.set_head(place, head_at, head).await?;
            self.clean_head(place, head_at).await?;
            return if conflicts.is_empty() {
                Err(error)
            } else {
                Ok(Rebased::Conflict(conflicts))
            };
        }
        let new = self.head_commit(place).await?;
        if !self.is_ancestor(place, onto, &new).await? {
            return Err(GitError::not_forward(onto, &new));
        }
        self.set_ref(place, result, &new).await?;
        if let HeadAt::Branch(_) = head_at {
            // Only from its old commit: someone may have moved it.
            self.move_ref(place, &head_at.ref_name()?, &new, head)
                .await?;
        }
        self.set_head(place, head_at, &new).await?;
        Ok(Rebased::Clean(new))
    }

    async fn unmerged(&self, place: &Place) -> Result<Vec<String>> {
        let bytes = self.bytes(GitCommand::at(place, "ls-files -u -z")).await?;
        let paths = records(&bytes).filter_map(|record| split_once(record, b'\t'));
        let paths: BTreeSet<String> = paths.map(|(_, path)| lossy(path)).collect();
        Ok(paths.into_iter().collect())
    }
}

fn result_ref(rebase: Rebase<'_>) -> Result<String> {
    // This also validates the run's name.
    let wip = wip_ref(rebase.run)?;
    let run = wip.rsplit('/').next().unwrap_or(rebase.run);
    Ok(format!(
        "refs/remand/rebased/{run}/{}-{}",
        rebase.head, rebase.onto
    ))
}
