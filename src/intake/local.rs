//! Branches without a pull request: a commit on one that was judged takes the verdict back, as a push to a pull request
//! does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Intake;
use crate::blackboard as bb;
use crate::change::Change;
use crate::clock;
use crate::git::GitError;

/// How often is looked, as that starts a git for each project.
const LOOK_EVERY: Duration = Duration::from_secs(20);

impl Intake {
    /// Tells how many verdicts were taken back.
    pub(super) async fn look_at_branches(&self) -> bb::Result<usize> {
        let is_due = {
            let mut last = self.looked_at_branches.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let is_due = last.is_none_or(|last: Instant| last.elapsed() >= LOOK_EVERY);
            if is_due {
                *last = Some(Instant::now());
            }
            is_due
        };
        if !is_due {
            return Ok(0);
        }
        let mut repositories: BTreeMap<PathBuf, Vec<Change>> = BTreeMap::new();
        for (path, change) in self.door.read(bb::judged_without_pull).await? {
            repositories.entry(path.into()).or_default().push(change);
        }
        let mut taken_back = 0;
        for (repository, changes) in repositories {
            match self.moved(&repository, &changes).await {
                Ok(moved) => taken_back += self.take_back(moved).await?,
                Err(error) => {
                    tracing::warn!(repository = %repository.display(), %error, "its branches can't be looked at");
                }
            }
        }
        Ok(taken_back)
    }

    /// The changes whose branch is elsewhere, and where.
    async fn moved(&self, repository: &Path, changes: &[Change]) -> Result<Vec<(Change, String)>, GitError> {
        let names: Vec<&str> = changes.iter().map(|change| change.branch.as_str()).collect();
        let tips = self.git.branch_tips(repository, &names).await?;
        let mut moved = Vec::new();
        for change in changes {
            if let Some(tip) = tips.get(&change.branch).filter(|tip| **tip != change.head)
                // One that went into its base holds nothing that could be reviewed.
                && !self.git.is_in_branch(repository, tip, &change.base).await?
            {
                moved.push((change.clone(), tip.clone()));
            }
        }
        Ok(moved)
    }

    async fn take_back(&self, moved: Vec<(Change, String)>) -> bb::Result<usize> {
        let mut taken_back = 0;
        for (change, tip) in moved {
            let step = move |conn: &bb::Conn| bb::take_back_verdict(conn, &change, &tip, clock::now());
            taken_back += usize::from(self.door.write("take_back", step).await?);
        }
        Ok(taken_back)
    }
}
