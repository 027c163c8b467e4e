//! Access to the blackboard for the loops: one thread owns the writing connection, another one
//! reads alongside it.
//!
//! Async code sends closures and awaits their results; no transaction is ever open across an await.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::ErrorCode;
use tokio::sync::{mpsc, oneshot};

use super::identity::{Identity, Vanished};
use super::open;
use crate::blackboard::escalate::{Handed, handed_over_since};
use crate::blackboard::events::newest_event;
use crate::blackboard::sql::{Begin, Connection};
use crate::blackboard::{BoardError, Result};
use crate::clock::Time;
use crate::failpoint::crash_point;

/// Maximum number of concurrent writes that share one commit.
const BATCH: usize = 64;

/// Capacity of the queue. Further writers wait to enter it.
const QUEUE: usize = 256;

/// Maximum time of consecutive transactions before other processes get a chance. `BREATH` is the
/// length of that pause: longer than the interval at which one of our processes retries.
const STREAK: Duration = Duration::from_millis(6);
pub(crate) const BREATH: Duration = Duration::from_micros(1_500);

/// Reports the result of a step to its caller, once the surrounding transaction is committed or
/// lost.
type ReplySender = Box<dyn FnOnce(Option<&Lost>) + Send>;

/// Receives the open transaction, or the reason why there is none. Returns whether to keep its
/// writes, and the reply.
type Run = Box<dyn FnOnce(Result<&Connection, &Lost>) -> (Result<(), Lost>, ReplySender) + Send>;

struct Step {
    name: &'static str,
    run: Run,
}

type ReadJob = Box<dyn FnOnce(&mut Connection) + Send>;

/// Handle to the two threads. They end when the last handle is dropped.
#[derive(Clone)]
pub(crate) struct Db {
    path: PathBuf,
    identity: Arc<Identity>,
    steps: mpsc::Sender<Step>,
    looks: mpsc::Sender<ReadJob>,
}

impl Db {
    pub(crate) fn open(path: &Path, now: Time) -> Result<Self> {
        let writer = open::writer(path, now)?;
        let reader = open::reader(path)?;
        let unknown =
            |error| open::unusable(path, format!("cannot read its metadata: {error}"), None);
        let identity = Arc::new(Identity::of(path).map_err(unknown)?);
        let known = Arc::clone(&identity);
        let (steps, step_queue) = mpsc::channel(QUEUE);
        let (looks, look_queue) = mpsc::channel(QUEUE);
        spawn("blackboard-writer", path, move || {
            write_all(writer, step_queue, &known);
        })?;
        spawn("blackboard-reader", path, move || {
            read_all(reader, look_queue);
        })?;
        Ok(Self {
            path: path.to_owned(),
            identity,
            steps,
            looks,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Fails if the opened files have been removed or replaced. Every write checks this too;
    /// callers about to do something irreversible check it once more.
    pub(crate) fn check(&self) -> Result<()> {
        self.identity.check()
    }

    /// Runs one step of a transaction: everything that it writes is committed, or nothing. `name`
    /// is for crash points.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        name: &'static str,
        step: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let run: Run = Box::new(move |conn: Result<&Connection, &Lost>| {
            let result = conn
                .map_err(Lost::to_error)
                .and_then(|conn| guarded(|| step(conn)));
            let keep = result.as_ref().map(drop).map_err(Lost::by);
            let tell: ReplySender = Box::new(move |lost| {
                let result = match (result, lost) {
                    (Ok(_), Some(lost)) => Err(lost.to_error()),
                    (result, _) => result,
                };
                // The caller may have gone away, which leaves nobody to notify.
                drop(answer.send(result));
            });
            (keep, tell)
        });
        if self.steps.send(Step { name, run }).await.is_err() {
            return Err(BoardError::Closed);
        }
        answered.await.unwrap_or(Err(BoardError::Closed))
    }

    /// Reads what belongs to one object, by its id. Like [`Self::read`], one consistent view beside
    /// the writer.
    pub(crate) async fn read_of<K: Clone + Send + 'static, T: Send + 'static>(
        &self,
        key: &K,
        query: impl FnOnce(&Connection, &K) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let key = key.clone();
        self.read(move |conn| query(conn, &key)).await
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.look(|conn| {
            let tx = conn.begin(Begin::Read)?;
            look(&tx)
        })
        .await
    }

    /// Returns a number that changes whenever any connection other than the reader's commits. Cheap
    /// enough to poll.
    pub(crate) async fn data_version(&self) -> Result<i64> {
        self.look(|conn| conn.value("PRAGMA data_version", &[]))
            .await
    }

    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let look: ReadJob = Box::new(move |conn| drop(answer.send(guarded(|| look(conn)))));
        if self.looks.send(look).await.is_err() {
            return Err(BoardError::Closed);
        }
        answered.await.unwrap_or(Err(BoardError::Closed))
    }
}

/// Reason why a transaction was lost, for every step in it.
#[derive(Debug, Clone)]
struct Lost {
    code: Option<rusqlite::ffi::Error>,
    /// Set if the file itself is gone.
    vanished: Option<(PathBuf, Vanished)>,
    why: String,
}

impl Lost {
    /// Creates the reason from the error of a step.
    fn by(error: &BoardError) -> Self {
        let mut lost = Self {
            code: None,
            vanished: None,
            why: error.to_string(),
        };
        if let BoardError::Vanished { path, how } = error {
            lost.vanished = Some((path.clone(), *how));
        } else if let BoardError::Full(source)
        | BoardError::Busy(source)
        | BoardError::Sqlite(source) = error
        {
            lost.code = source.sqlite_code();
            lost.why = source.to_string();
        }
        lost
    }

    /// Converts the reason to an error. A full disk and a persistent lock keep their kind, so that
    /// callers can wait for them to pass.
    fn to_error(&self) -> BoardError {
        if let Some((path, how)) = &self.vanished {
            return BoardError::Vanished {
                path: path.clone(),
                how: *how,
            };
        }
        let passes = [
            ErrorCode::DiskFull,
            ErrorCode::DatabaseBusy,
            ErrorCode::DatabaseLocked,
        ];
        match self.code.filter(|code| passes.contains(&code.code)) {
            Some(code) => rusqlite::Error::SqliteFailure(code, Some(self.why.clone())).into(),
            None => BoardError::Batch(self.why.clone()),
        }
    }
}

impl From<BoardError> for Lost {
    fn from(error: BoardError) -> Self {
        Self::by(&error)
    }
}

/// Runs a step and catches a panic, which must not end the thread and with it every other change.
pub(crate) fn guarded<T>(step: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(step)).unwrap_or(Err(BoardError::Panicked))
}

fn spawn(name: &str, path: &Path, body: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::Builder::new()
        .name(name.into())
        .spawn(body)
        .map(drop)
        .map_err(|error| {
            open::unusable(
                path,
                format!("cannot start the database thread: {error}"),
                None,
            )
        })
}

fn read_all(mut conn: Connection, mut queue: mpsc::Receiver<ReadJob>) {
    while let Some(look) = queue.blocking_recv() {
        look(&mut conn);
    }
}

fn write_all(mut conn: Connection, mut queue: mpsc::Receiver<Step>, identity: &Identity) {
    let mut streak = Instant::now();
    loop {
        let waited = Instant::now();
        let Some(first) = queue.blocking_recv() else {
            return;
        };
        if waited.elapsed() >= BREATH {
            streak = Instant::now();
        } else if streak.elapsed() >= STREAK {
            breathe(BREATH);
            streak = Instant::now();
        }
        let mut batch = vec![first];
        while batch.len() < BATCH
            && let Ok(next) = queue.try_recv()
        {
            batch.push(next);
        }
        write_batch(&mut conn, batch, identity);
    }
}

/// Pauses after a transaction. A daemon that takes the lock again as soon as it has released it
/// would starve every command alongside it.
#[expect(
    clippy::disallowed_methods,
    reason = "on its own thread, or in a command with nothing else to do; there is no event to wait for"
)]
pub(crate) fn breathe(pause: Duration) {
    thread::sleep(pause);
}

/// Runs the steps, each in its own savepoint, commits once, and only then notifies the callers.
fn write_batch(conn: &mut Connection, batch: Vec<Step>, identity: &Identity) {
    let names: Vec<&'static str> = batch.iter().map(|step| step.name).collect();
    let mut answers: Vec<ReplySender> = Vec::with_capacity(batch.len());
    let mut waiting = batch.into_iter();
    let lost = commit_batch(conn, &mut waiting, (&names, identity), &mut answers).err();
    if let Some(lost) = &lost {
        // Steps that did not run because the transaction failed before.
        answers.extend(waiting.map(|step| (step.run)(Err(lost)).1));
    }
    for answer in answers {
        answer(lost.as_ref());
    }
}

/// Checks the files before a transaction. If only the WAL was removed, its contents are moved into
/// the database first: what was committed is not lost, and will not be done a second time.
fn is_there(conn: &Connection, identity: &Identity) -> Result<(), Lost> {
    let Err(vanished) = identity.check() else {
        return Ok(());
    };
    if identity.is_only_wal_removed() {
        let saved = conn.value::<i64>("PRAGMA wal_checkpoint", &[]);
        if !matches!(saved, Ok(0)) {
            tracing::error!(?saved, "cannot save the contents of the removed WAL");
        }
    }
    Err(Lost::by(&vanished))
}

fn commit_batch(
    conn: &mut Connection,
    batch: &mut impl Iterator<Item = Step>,
    (names, identity): (&[&'static str], &Identity),
    answers: &mut Vec<ReplySender>,
) -> Result<(), Lost> {
    is_there(conn, identity)?;
    let tx = conn.begin(Begin::Write)?;
    let newest = newest_event(&tx)?;
    for step in batch {
        let savepoint = tx.savepoint()?;
        let (kept, answer) = (step.run)(Ok(&tx));
        answers.push(answer);
        match kept {
            Ok(()) => savepoint.commit()?,
            // Some errors (a full disk, for example) make SQLite roll back everything, not only the
            // statement.
            Err(lost) if !tx.is_in_transaction() => return Err(lost),
            Err(_) => savepoint.roll_back()?,
        }
    }
    let handed_over = handed_over_since(&tx, newest)?;
    for name in names {
        crash_point!("commit.{name}.before");
    }
    identity.check()?;
    tx.commit()?;
    // Logged only here: every escalation by a loop passes here once, and only when it is committed.
    for Handed {
        change,
        reason,
        decide,
    } in handed_over
    {
        tracing::error!(target: "remand::narrated", %change, reason = ?reason, decide = ?decide, "needs a person");
    }
    for name in names {
        crash_point!("commit.{name}.after");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
