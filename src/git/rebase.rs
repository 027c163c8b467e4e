//! Replays the commits of a branch onto where the remote is now.

use std::collections::BTreeSet;

use super::command::GitCommand;
use super::history::check_sha;
use super::wip::wip_ref;
use super::{Git, GitError, HeadAt, Place, RestorePoint};

/// Which commits (`first..head`) go onto which, and the run whose work they are.
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
    /// Nothing was changed; these files could not be joined.
    Conflict(Vec<String>),
}

/// A planted or a user's own setting must not open an editor, move other branches, or hide a conflict.
const CONFIG: &[&str] = &[
    "rebase.rebaseMerges=false",
    "rebase.updateRefs=false",
    "rebase.missingCommitsCheck=ignore",
    "rerere.enabled=false",
    "merge.verifySignatures=false",
];

const REBASE: [&str; 13] = [
    "rebase",
    "--quiet",
    "--merge",
    "--no-autostash",
    "--no-autosquash",
    "--no-gpg-sign",
    "--no-verify",
    "--no-stat",
    "--no-fork-point",
    "--no-rerere-autoupdate",
    "--empty=drop",
    "--no-signoff",
    "--onto",
];

impl Git {
    /// Replays `first..head` onto `onto` in a clean worktree at `head`. What was there stays on
    /// `refs/remand/wip/RUN`; what came out is on `refs/remand/rebased/RUN/HEAD-ONTO`, so that said again, also after
    /// a crash, it ends at the same commit. The caller has proven that nobody is at work there.
    pub(crate) async fn rebase_onto(
        &self,
        place: &Place,
        rebase: Rebase<'_>,
    ) -> Result<Rebased, GitError> {
        let Rebase {
            head_at,
            first,
            head,
            onto,
            run,
        } = rebase;
        head_at.ref_name()?;
        for sha in [first, head, onto] {
            check_sha(sha)?;
        }
        if !self.is_ancestor(place, first, head).await? {
            return Err(GitError::NotForward {
                from: first.to_owned(),
                to: head.to_owned(),
            });
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
                self.put_back(
                    place,
                    RestorePoint {
                        head_at,
                        head_before: to,
                        run,
                    },
                )
                .await?;
                Some(to.to_owned())
            }
        };
        if let Some(done) = done.filter(|done| found.as_ref() == Some(done)) {
            self.set_head(place, head_at, &done).await?;
            self.end_moving(place).await?;
            return Ok(Rebased::Clean(done));
        }
        let found = match found {
            Some(other) if other != head && self.is_result(place, rebase, &other).await? => {
                // It was replayed onto an earlier head of the remote, and cut before that was written down.
                self.put_back(
                    place,
                    RestorePoint {
                        head_at,
                        head_before: head,
                        run,
                    },
                )
                .await?;
                Some(head.to_owned())
            }
            found => found,
        };
        if found.as_deref() != Some(head) {
            return Err(GitError::Elsewhere {
                branch: head_at.expected(),
                expected: head.to_owned(),
                found,
            });
        }
        let blocked = self.in_the_way(place, head, onto).await?;
        if !blocked.is_empty() {
            return Err(GitError::InTheWay { paths: blocked });
        }
        self.save_wip(place, head_at, first, run).await?;
        self.begin_moving(place, head).await?;
        let rebased = self.replay(place, rebase, &result).await?;
        self.end_moving(place).await?;
        Ok(rebased)
    }

    /// Whether a detached HEAD, where nothing is under way, was left by a replay that was cut before its result was kept.
    async fn is_cut_replay(
        &self,
        place: &Place,
        rebase: Rebase<'_>,
        found: Option<&str>,
    ) -> Result<bool, GitError> {
        if let HeadAt::Branch(_) = rebase.head_at {
            return Ok(false);
        }
        let is_moving = self.moving(place).await?.as_deref() == Some(rebase.head);
        Ok(is_moving && found != Some(rebase.head))
    }

    /// Whether this is what came of replaying the same commits, wherever onto.
    async fn is_result(
        &self,
        place: &Place,
        rebase: Rebase<'_>,
        found: &str,
    ) -> Result<bool, GitError> {
        let result = result_ref(rebase)?;
        let (folder, _) = result.rsplit_once('/').unwrap_or((result.as_str(), ""));
        for name in self.refs_below(place, &format!("{folder}/")).await? {
            let is_of_head = name
                .rsplit('/')
                .next()
                .is_some_and(|name| name.starts_with(rebase.head));
            if is_of_head && self.resolve(place, &name).await?.as_deref() == Some(found) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// With HEAD detached: the branch moves in one step when all is done, or not at all.
    async fn replay(
        &self,
        place: &Place,
        rebase: Rebase<'_>,
        result: &str,
    ) -> Result<Rebased, GitError> {
        let Rebase {
            head_at,
            first,
            head,
            onto,
            ..
        } = rebase;
        let [_, _, name, address] = self.identity(place).await?;
        let call = GitCommand::at(place, REBASE)
            .config(CONFIG)
            .env(&[name, address])
            .arg(onto)
            .arg(first)
            .arg(head);
        if let Err(error) = self.bytes(call).await {
            let conflicts = self.unmerged(place).await?;
            self.quit_operations(place).await?;
            self.bytes(GitCommand::at(
                place,
                ["reset", "--quiet", "--hard", head, "--"],
            ))
            .await?;
            self.set_head(place, head_at, head).await?;
            self.clean_head(place, head_at).await?;
            return if conflicts.is_empty() {
                Err(error)
            } else {
                Ok(Rebased::Conflict(conflicts))
            };
        }
        let new = self
            .resolve(place, "HEAD")
            .await?
            .ok_or_else(|| GitError::NotARef {
                text: "HEAD".to_owned(),
            })?;
        if !self.is_ancestor(place, onto, &new).await? {
            return Err(GitError::NotForward {
                from: onto.to_owned(),
                to: new,
            });
        }
        self.bytes(GitCommand::at(
            place,
            ["update-ref", "--no-deref", result, &new],
        ))
        .await?;
        if let HeadAt::Branch(_) = head_at {
            // Only from where it was: somebody may have moved it.
            self.bytes(GitCommand::at(
                place,
                ["update-ref", "--no-deref", &head_at.ref_name()?, &new, head],
            ))
            .await?;
        }
        self.set_head(place, head_at, &new).await?;
        Ok(Rebased::Clean(new))
    }

    async fn unmerged(&self, place: &Place) -> Result<Vec<String>, GitError> {
        let bytes = self
            .bytes(GitCommand::at(place, ["ls-files", "-u", "-z"]))
            .await?;
        let path = |record: &[u8]| {
            let tab = record.iter().position(|b| *b == b'\t')?;
            Some(String::from_utf8_lossy(record.get(tab + 1..)?).into_owned())
        };
        let paths: BTreeSet<String> = bytes.split(|b| *b == 0).filter_map(path).collect();
        Ok(paths.into_iter().collect())
    }
}

fn result_ref(rebase: Rebase<'_>) -> Result<String, GitError> {
    // Checks the run's name, too.
    let wip = wip_ref(rebase.run)?;
    let run = wip.rsplit('/').next().unwrap_or(rebase.run);
    Ok(format!(
        "refs/remand/rebased/{run}/{}-{}",
        rebase.head, rebase.onto
    ))
}
