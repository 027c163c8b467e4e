//! Branches without a pull request: a commit on a judged branch withdraws the verdict, as a push to a pull request
//! does.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{Intake, until};
use crate::blackboard as bb;
use crate::change::Change;
use crate::clock;
use crate::git::{GitError, Place};

/// Interval between checks, each of which starts one git process per project.
const LOOK_EVERY: Duration = Duration::from_secs(20);
/// Time limit per repository, and pause after a failure, so that the others do not wait for it.
const LIMIT: Duration = Duration::from_secs(5);
const LEFT_ALONE: Duration = Duration::from_secs(600);

/// Times of the next checks of branches.
#[derive(Debug, Default)]
pub(crate) struct Looks(Mutex<Times>);

#[derive(Debug, Default)]
struct Times {
    last: Option<Instant>,
    failed: BTreeMap<PathBuf, Instant>,
}

impl Looks {
    fn is_due(&self) -> bool {
        let mut times = self.times();
        let is_due = times.last.is_none_or(|last| last.elapsed() >= LOOK_EVERY);
        if is_due {
            times.last = Some(Instant::now());
        }
        is_due
    }

    fn is_left_alone(&self, repository: &Place) -> bool {
        let times = self.times();
        let failed = times.failed.get(&repository.common_dir);
        failed.is_some_and(|failed| failed.elapsed() < LEFT_ALONE)
    }

    fn leave_alone(&self, repository: &Place) {
        let failed = repository.common_dir.clone();
        self.times().failed.insert(failed, Instant::now());
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Intake {
    /// Returns the number of verdicts that were withdrawn.
    pub(super) async fn look_at_branches(&self, stop: &CancellationToken) -> bb::Result<usize> {
        if !self.looks.is_due() {
            return Ok(0);
        }
        let mut repositories: BTreeMap<PathBuf, (Place, Vec<Change>)> = BTreeMap::new();
        for (path, common_dir, change) in self.db.read(bb::judged_without_pull).await? {
            let common_dir = PathBuf::from(common_dir);
            let place = Place {
                path: path.into(),
                git_dir: common_dir.clone(),
                common_dir: common_dir.clone(),
            };
            repositories
                .entry(common_dir)
                .or_insert_with(|| (place, Vec::new()))
                .1
                .push(change);
        }
        let mut taken_back = 0;
        for (repository, changes) in repositories.into_values() {
            if self.looks.is_left_alone(&repository) {
                continue;
            }
            let look = async {
                tokio::select! {
                    moved = self.moved(&repository, &changes) => moved.map_err(|error| error.to_string()),
                    () = tokio::time::sleep(LIMIT) => Err(format!("git took more than {} s", LIMIT.as_secs())),
                }
            };
            match until(stop, look).await {
                None => break,
                Some(Ok(moved)) => taken_back += self.take_back(moved).await?,
                Some(Err(error)) => {
                    let path = repository.path.display();
                    tracing::warn!(repository = %path, %error, "cannot read the branches of a repository, retrying in ten minutes");
                    self.looks.leave_alone(&repository);
                }
            }
        }
        Ok(taken_back)
    }

    /// Changes whose branch has moved, with its new head.
    async fn moved(
        &self,
        repository: &Place,
        changes: &[Change],
    ) -> Result<Vec<(Change, String)>, GitError> {
        let names = changes.iter().map(|change| change.branch.as_str());
        let names: Vec<&str> = names.collect();
        let tips = self.git.branch_tips(repository, &names).await?;
        let mut moved = Vec::new();
        for change in changes {
            if let Some(tip) = tips.get(&change.branch).filter(|tip| **tip != change.head)
                // A branch that was merged into its base has nothing to review.
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
            let step =
                move |conn: &bb::Conn| bb::take_back_verdict(conn, &change, &tip, clock::now());
            taken_back += usize::from(self.db.write("take_back", step).await?);
        }
        Ok(taken_back)
    }
}
