//! Upkeep: keeps what is beside the blackboard in line with it. It writes the files of reviews, and
//! removes worktrees of remand whose change ended some time ago. It runs no agent and moves no
//! change.

mod review_files;
mod review_markdown;
mod worktree_removal;
mod worktree_survey;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Settings;
use crate::blackboard::{self as bb, Db};
use crate::clock::{self, Time};

pub(crate) use review_files::{existing_review_file, folder_of as review_folder, is_review_of};
pub(crate) use review_markdown::review_markdown;
pub(crate) use worktree_removal::Removal;
pub(crate) use worktree_survey::{OwnWorktree, WorktreeUse};

/// Interval at which worktrees are examined.
const SWEEP: Duration = Duration::from_hours(1);

/// Interval at which the clock is read when nothing wakes the loop.
const LOOK: Duration = Duration::from_mins(5);

pub(crate) struct Upkeep {
    pub(crate) db: Db,
    pub(crate) settings: Arc<Settings>,
}

impl Upkeep {
    /// Runs until `stop`. Every step can be cut off at any point; the next start continues it.
    pub(crate) async fn run(self, wake: Arc<Notify>, stop: CancellationToken) {
        let work = async {
            let mut written = logged(self.write_missing_reviews().await);
            logged(self.keep_all_heads().await);
            let mut swept = None;
            loop {
                let now = clock::now();
                if is_due(swept, now) {
                    logged(self.remove_ended_worktrees().await);
                    swept = Some(now);
                }
                tokio::select! {
                    () = wake.notified() => {}
                    () = tokio::time::sleep(LOOK) => {}
                }
                written = match written {
                    Some(event) => logged(self.write_reviews_since(event).await).or(written),
                    None => logged(self.write_missing_reviews().await),
                };
            }
        };
        tokio::select! {
            () = work => {}
            () = stop.cancelled() => {}
        }
    }

    /// Does everything that is due, once. A single file that somebody deleted is written again only
    /// when the daemon starts: looking for it takes the longer, the more reviews there are.
    pub(crate) async fn once(&self) -> bb::Result<()> {
        let written = self.db.read(bb::reviews_written).await?;
        match written.filter(|_| self.settings.reviews_dir.exists()) {
            Some(event) => self.write_reviews_since(event).await?,
            None => self.write_missing_reviews().await?,
        };
        self.remove_ended_worktrees().await
    }
}

/// True if the last sweep was an interval ago, or if the clock was set back since.
fn is_due(swept: Option<Time>, now: Time) -> bool {
    swept.is_none_or(|swept| swept > now || now.since(swept) >= SWEEP)
}

/// Logs an error of the blackboard; the step is repeated later.
fn logged<T>(result: bb::Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::warn!(error = ?error, "upkeep failed, and will be tried again");
            None
        }
    }
}
