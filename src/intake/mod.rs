//! Intake: reads the forge and stores what is said there as rows. It judges nothing but trust: who may make work is
//! decided when something is taken in, what comes of it is an evaluator's to propose. They meet only on the blackboard.
//!
//! A read is stored as a whole or not at all: a page that could not be had leaves the marks as they were, so that
//! everything is asked for again and nothing is passed over.

mod adopt;
mod discover;
mod error;
mod local_branches;
mod pull_request_text;
mod read;
mod read_failure;
mod remote_head;
#[cfg(test)]
mod tests;
mod trust;
mod worktree_choice;

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
use crate::pull_request::PullRow;
use crate::remote::Remote;

pub(crate) use adopt::Ask;
pub(crate) use error::IntakeError;
pub(crate) use local_branches::Looks;

use read_failure::ReadFailure;

/// Looked at again after this long although nothing is due: clocks are set, machines sleep.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// A pass that failed is tried again after this long, and each next time after twice as long, up to [`LOOK_AGAIN`].
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// How often an open pull request is read where no schedule says so.
const READ_EVERY: Duration = Duration::from_secs(60);

/// The settings of a project by its name.
pub(crate) type RulesOf = Box<dyn Fn(&ProjectId) -> ProjectSettings + Send + Sync>;

/// remand's own repository of a project, through which its remote is reached.
pub(crate) type RepositoryOf = Box<dyn Fn(&bb::Project) -> Remote + Send + Sync>;

/// The loop that reads the forge.
pub(crate) struct Intake {
    pub(crate) db: Db,
    pub(crate) github: Github,
    pub(crate) git: Git,
    pub(crate) repository: RepositoryOf,
    pub(crate) settings: Settings,
    /// When branches without a pull request were last looked at.
    pub(crate) looks: Looks,
    /// Something was stored that others may want to look at.
    pub(crate) after: Arc<Notify>,
}

/// What intake is run with.
pub(crate) struct Settings {
    /// How much of the forge's hourly budget is left to the user.
    pub(crate) reserve: i64,
    /// How long an answer to "may this account write?" holds.
    pub(crate) permission_holds: Duration,
    /// Bots that may make work, by the numbers of their accounts.
    pub(crate) bots: Vec<i64>,
    /// When a pull request is read next; none: every minute.
    pub(crate) every: Option<Schedule>,
    /// Time for one fetch of all that is said on a pull request.
    pub(crate) fetch_limit: Duration,
    pub(crate) backoff_first: Duration,
    pub(crate) backoff_max: Duration,
    pub(crate) rules: RulesOf,
    /// This machine.
    pub(crate) host: String,
}

/// What one pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Pull requests that were read, or tried to be.
    pub(crate) reads: usize,
    /// Things that were said and are new, and verdicts that were taken back.
    pub(crate) stored: usize,
    /// Pull requests that were taken over.
    pub(crate) adopted: usize,
}

impl Passed {
    /// Nothing new was found.
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
    /// The latest moments that can have been stored by now, if the clock was right.
    pub(crate) fn latest(&self, now: Time) -> bb::Latest {
        bb::Latest {
            read: self.next_read(now),
            closed_read: now.plus(read::CLOSED_EVERY),
            retry: now.plus(bb::longest_retry(self.backoff_max)),
            now,
        }
    }

    fn next_read(&self, now: Time) -> Time {
        self.every
            .as_ref()
            .and_then(|every| every.next_after(now))
            .unwrap_or_else(|| now.plus(READ_EVERY))
    }
}

impl Intake {
    /// Runs until `stop`. A question that is under way then is given up: nothing of it was stored.
    pub(crate) async fn run(self: Arc<Self>, wake: Arc<Notify>, stop: CancellationToken) {
        let mut again = None;
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
                    again = Some(
                        again.map_or(TRY_AGAIN, |pause: Duration| (pause * 2).min(LOOK_AGAIN)),
                    );
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

    /// Makes due what waits for a moment that a clock which was ahead has stored.
    pub(crate) async fn void_implausible(&self) -> bb::Result<()> {
        let latest = self.settings.latest(clock::now());
        if self
            .db
            .read(move |conn| bb::implausible(conn, &latest))
            .await?
            .is_empty()
        {
            return Ok(());
        }
        let voided = self
            .db
            .write("void_implausible", move |conn| {
                bb::void_implausible(conn, &latest)
            })
            .await?;
        tracing::warn!(voided, "the clock was ahead: what it put off is due now");
        Ok(())
    }

    /// Reads all that is due: watched pull requests, the longest waiting first, then projects that look for more.
    pub(crate) async fn pass(&self, stop: &CancellationToken) -> bb::Result<Passed> {
        self.void_implausible().await?;
        let mut passed = Passed::default();
        // What is in the way of every question is not run into by each of them.
        let mut in_the_way = None;
        passed = passed.and(self.read_due(stop, &mut in_the_way).await?);
        for project in self.looking().await? {
            let Some(one) = until(stop, self.discover_or_put_off(&project, &mut in_the_way)).await
            else {
                return Ok(passed);
            };
            passed = passed.and(one?);
        }
        if passed.adopted > 0 {
            // What was said on them before they were taken over comes before our own review of them.
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

    async fn read_due(
        &self,
        stop: &CancellationToken,
        in_the_way: &mut Option<GithubError>,
    ) -> bb::Result<Passed> {
        let mut passed = Passed::default();
        for row in self
            .db
            .read(|conn| bb::due_pulls(conn, clock::now()))
            .await?
        {
            let Some(one) = until(stop, self.read_or_put_off(&row, in_the_way)).await else {
                return Ok(passed);
            };
            passed = passed.and(one?);
        }
        Ok(passed)
    }

    async fn read_or_put_off(
        &self,
        row: &PullRow,
        in_the_way: &mut Option<GithubError>,
    ) -> bb::Result<Passed> {
        let reads = Passed {
            reads: 1,
            ..Passed::default()
        };
        if let Some(spent) = self.spent().await? {
            self.put_off(row, spent).await?;
            return Ok(reads);
        }
        let read = match in_the_way {
            Some(error) => Err(error.clone().into()),
            None => Box::pin(self.read_pull(row)).await,
        };
        match read {
            Ok(stored) => Ok(Passed { stored, ..reads }),
            Err(IntakeError::Github(error)) => {
                self.fail_read(row, &error).await?;
                *in_the_way = Some(error).filter(read_failure::is_everywhere);
                Ok(reads)
            }
            Err(IntakeError::Board(error)) if error.is_everywhere() => Err(error),
            // What can't be written of one is no reason to leave the others unread.
            Err(error) => {
                tracing::error!(
                    number = row.number,
                    ?error,
                    "what was read could not be written down"
                );
                self.put_off(
                    row,
                    read_failure::not_kept(&error, self.settings.next_read(clock::now())),
                )
                .await?;
                Ok(reads)
            }
        }
    }

    /// The budget is used up but for what is left to the user.
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

    /// How long nothing can become due by itself.
    async fn pause(&self) -> Duration {
        let next = self.db.read(bb::next_read).await.ok().flatten();
        let until = next.map_or(LOOK_AGAIN, |moment| moment.since(clock::now()));
        // A moment that has come and was not acted on must not become a busy loop.
        until.clamp(Duration::from_millis(20), LOOK_AGAIN)
    }
}

/// The work, unless `stop` comes first.
async fn until<T>(stop: &CancellationToken, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = stop.cancelled() => None,
        done = work => Some(done),
    }
}

/// Whether something of a change can't go on without a read.
fn waits(conn: &Conn, change: &crate::change::Change) -> bb::Result<bool> {
    let row = bb::board_row(conn, change.clone())?;
    Ok(row.open_item.is_some() || row.pending_rejections > 0)
}
