//! Intake: reads the forge and stores its comments as rows. It decides only about trust: an author's right to cause work
//! is decided when a comment is read, and evaluators propose the consequences. They meet only on the blackboard.
//!
//! A read is stored completely or not at all: if a page cannot be read, the marks stay as they were, so that everything
//! is requested again and nothing is missed.

mod adopt;
mod checks;
mod discover;
mod error;
mod local_branches;
mod pull_request_text;
mod read;
mod read_failure;
mod remote_head;
mod task_issue;
#[cfg(test)]
mod tests;
mod trust;
mod worktree_choice;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::blackboard::{self as bb, Conn, Db};
use crate::change::ProjectId;
use crate::clock::{self, Time};
use crate::evaluator::schedule::Schedule;
use crate::git::Git;
use crate::github::{Github, GithubError};
use crate::project_settings::ProjectSettings;
use crate::remote::Remote;
use crate::secret::Secret;

pub(crate) use adopt::Ask;
pub(crate) use error::{IntakeError, Result};
pub(crate) use local_branches::Looks;

use read_failure::ReadFailure;

/// Interval of checks when nothing is due: clocks are set, machines sleep.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Pause after a failed pass; doubled after each further failure, up to [`LOOK_AGAIN`].
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Interval between reads of an open pull request that has no schedule.
const READ_EVERY: Duration = Duration::from_secs(60);

/// The settings of a project by its name.
pub(crate) type RulesOf = Box<dyn Fn(&ProjectId) -> ProjectSettings + Send + Sync>;

/// Function that returns remand's own repository of a project, through which its remote is reached.
pub(crate) type RepositoryOf = Box<dyn Fn(&bb::Project) -> Remote + Send + Sync>;

/// The loop that reads the forge.
pub(crate) struct Intake {
    pub(crate) db: Db,
    pub(crate) github: Github,
    pub(crate) git: Git,
    pub(crate) repository: RepositoryOf,
    pub(crate) settings: Settings,
    /// Times of the last checks of branches without a pull request.
    pub(crate) looks: Looks,
    /// Notified when something was stored that others may want to read.
    pub(crate) after: Arc<Notify>,
}

/// Settings of intake.
pub(crate) struct Settings {
    /// Part of the forge's hourly rate limit that is left to the user.
    pub(crate) reserve: i64,
    /// Time for which the answer to "may this account write?" is cached.
    pub(crate) permission_holds: Duration,
    /// Bots that may cause work, by the numbers of their accounts.
    pub(crate) bots: Vec<i64>,
    /// Schedule of reads; none: every minute.
    pub(crate) every: Option<Schedule>,
    /// Time limit for one fetch of everything on a pull request.
    pub(crate) fetch_limit: Duration,
    pub(crate) backoff_first: Duration,
    pub(crate) backoff_max: Duration,
    pub(crate) rules: RulesOf,
    /// This machine.
    pub(crate) host: String,
    /// Directory and environment of the command that prints the log of a check.
    pub(crate) log_dir: PathBuf,
    pub(crate) log_env: BTreeMap<String, String>,
    /// Secrets that are masked in logs.
    pub(crate) secrets: Vec<Secret>,
}

/// Result of one pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Pull requests that were read, or failed to be read.
    pub(crate) reads: usize,
    /// New comments, and verdicts that were withdrawn.
    pub(crate) stored: usize,
    /// Pull requests that were adopted.
    pub(crate) adopted: usize,
}

impl Passed {
    /// True if nothing new was found.
    pub(crate) fn is_quiet(self) -> bool {
        self.stored == 0 && self.adopted == 0
    }

    fn and(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            stored: self.stored + other.stored,
            adopted: self.adopted + other.adopted,
        }
    }
}

impl Settings {
    /// The latest times that can have been stored by now, if the clock was right.
    pub(crate) fn latest(&self, now: Time) -> bb::Latest {
        bb::Latest {
            read: self.next_read(now),
            closed_read: now.plus(read::CLOSED_EVERY),
            retry: now.plus(bb::longest_retry(self.backoff_max)),
            now,
        }
    }

    fn next_read(&self, now: Time) -> Time {
        let scheduled = self.every.as_ref().and_then(|every| every.next_after(now));
        scheduled.unwrap_or_else(|| now.plus(READ_EVERY))
    }

    /// The pause after a first failure, and the longest one.
    fn backoff(&self) -> (Duration, Duration) {
        (self.backoff_first, self.backoff_max)
    }
}

impl Intake {
    /// Runs until `stop`. A request in progress is then dropped, and nothing of it is stored.
    pub(crate) async fn run(self: Arc<Self>, wake: Arc<Notify>, stop: CancellationToken) {
        let mut again: Option<Duration> = None;
        loop {
            match self.pass(&stop).await {
                Ok(passed) => {
                    again = None;
                    if !passed.is_quiet() {
                        tracing::info!(
                            reads = passed.reads,
                            stored = passed.stored,
                            adopted = passed.adopted,
                            "intake"
                        );
                    }
                }
                Err(error) => {
                    tracing::error!(error = ?error, "intake failed");
                    again = Some(again.map_or(TRY_AGAIN, |pause| LOOK_AGAIN.min(pause * 2)));
                }
            }
            let pause = match again {
                Some(pause) => pause,
                None => self.pause().await,
            };
            tokio::select! {
                () = wake.notified(), if again.is_none() => {}
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Makes everything due whose time was stored by a clock that was ahead.
    pub(crate) async fn void_implausible(&self) -> bb::Result<()> {
        let latest = self.settings.latest(clock::now());
        let found = self.db.read(move |conn| bb::implausible(conn, &latest));
        if found.await?.is_empty() {
            return Ok(());
        }
        let voided = self.db.write("void_implausible", move |conn| {
            bb::void_implausible(conn, &latest)
        });
        let voided = voided.await?;
        tracing::warn!(voided, "the clock was ahead; postponed work is due now");
        Ok(())
    }

    /// Reads everything that is due: watched pull requests, the longest waiting first, then projects with discovery
    /// rules.
    pub(crate) async fn pass(&self, stop: &CancellationToken) -> bb::Result<Passed> {
        self.void_implausible().await?;
        // An error that affects every request is not hit again by each of them.
        let mut in_the_way = None;
        let mut passed = self.read_due(stop, &mut in_the_way).await?;
        for project in self.looking().await? {
            let discover = self.discover_or_put_off(&project, &mut in_the_way);
            let Some(one) = until(stop, discover).await else {
                return Ok(passed);
            };
            passed = passed.and(one?);
        }
        if passed.adopted > 0 {
            // Comments from before the adoption come before our own review.
            passed = passed.and(self.read_due(stop, &mut in_the_way).await?);
        }
        let taken_back = self.look_at_branches(stop).await?;
        if taken_back > 0 {
            passed.stored += taken_back;
            self.after.notify_one();
        }
        if passed.reads > 0 {
            self.remember_rate().await?;
            self.after.notify_one();
        }
        Ok(passed)
    }

    /// Reads each pull request that is due, or postpones it with the reason.
    async fn read_due(
        &self,
        stop: &CancellationToken,
        in_the_way: &mut Option<GithubError>,
    ) -> bb::Result<Passed> {
        let mut passed = Passed::default();
        let due = self.db.read(|conn| bb::due_pulls(conn, clock::now()));
        for row in due.await? {
            if stop.is_cancelled() {
                return Ok(passed);
            }
            if let Some(spent) = self.spent().await? {
                self.put_off(&row, spent).await?;
                passed.reads += 1;
                continue;
            }
            let read = match in_the_way {
                Some(error) => Err(error.clone().into()),
                None => match until(stop, Box::pin(self.read_pull(&row))).await {
                    Some(read) => read,
                    None => return Ok(passed),
                },
            };
            passed.reads += 1;
            match read {
                Ok(stored) => passed.stored += stored,
                Err(IntakeError::Github(error)) => {
                    self.fail_read(&row, &error).await?;
                    *in_the_way = Some(error).filter(read_failure::is_everywhere);
                }
                Err(IntakeError::Board(error)) if error.is_everywhere() => return Err(error),
                // An error that concerns one pull request must not leave the others unread.
                Err(error) => {
                    tracing::error!(number = row.number, ?error, "cannot store a pull request");
                    let next = self.settings.next_read(clock::now());
                    let failure = read_failure::not_kept(&error, next);
                    self.put_off(&row, failure).await?;
                }
            }
        }
        Ok(passed)
    }

    /// Set when the rate limit is used up except for the user's part.
    async fn spent(&self) -> bb::Result<Option<ReadFailure>> {
        let now = clock::now();
        let known = match self.rate(now) {
            Some(rate) => Some(rate),
            None => self.db.read(bb::rate).await?,
        };
        Ok(known.and_then(|rate| read_failure::spent(&rate, self.settings.reserve, now)))
    }

    fn rate(&self, now: Time) -> Option<bb::Rate> {
        let rate = self.github.rate()?;
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        Some(bb::Rate {
            allowed: number(rate.limit),
            remaining: number(rate.remaining),
            resets_at: rate.reset,
            seen_at: now,
        })
    }

    async fn remember_rate(&self) -> bb::Result<()> {
        let Some(rate) = self.rate(clock::now()) else {
            return Ok(());
        };
        self.db
            .write("rate", move |conn| bb::set_rate(conn, &rate))
            .await
    }

    /// Returns the time until something can become due by itself.
    async fn pause(&self) -> Duration {
        let next = self.db.read(bb::next_read).await.ok().flatten();
        let until = next.map_or(LOOK_AGAIN, |moment| moment.since(clock::now()));
        // A time that has passed without an effect must not become a busy loop.
        until.clamp(Duration::from_millis(20), LOOK_AGAIN)
    }
}

/// Runs the work, unless `stop` comes first.
async fn until<T>(stop: &CancellationToken, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = stop.cancelled() => None,
        done = work => Some(done),
    }
}

/// True if the change cannot continue without a read.
fn waits(conn: &Conn, change: &crate::change::Change) -> bb::Result<bool> {
    let row = bb::board_row(conn, change.clone())?;
    Ok(row.open_item.is_some() || row.pending_rejections > 0)
}
