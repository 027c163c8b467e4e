//! The blackboard for the loops: one thread owns the writing connection, another one reads beside it. Async code
//! sends closures and awaits their result; no transaction is ever open across an await.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::ErrorCode;
use tokio::sync::{mpsc, oneshot};

use super::identity::{Identity, Vanished};
use super::open;
use crate::blackboard::BoardError;
use crate::blackboard::Result;
use crate::blackboard::escalate::{Handed, handed_over_since};
use crate::blackboard::events::newest_event;
use crate::blackboard::sql::{self, Begin, Connection};
use crate::clock::Time;
use crate::failpoint::crash_point;

/// Writers that ask at the same time share one commit, up to this many.
const BATCH: usize = 64;

/// How many may wait; who comes after them waits to be let in.
const QUEUE: usize = 256;

/// How long transaction may follow transaction before other processes get a chance, and how long that is: longer
/// than the pause between two looks of one of ours that waits.
const STREAK: Duration = Duration::from_millis(6);
pub(crate) const BREATH: Duration = Duration::from_micros(1_500);

/// How a step ended, told to its caller once the transaction around it is committed or lost.
type ReplySender = Box<dyn FnOnce(Option<&Lost>) + Send>;

/// Gets the open transaction, or why there is none; returns whether its writes are to be kept, and the answer.
type Run = Box<dyn FnOnce(Result<&Connection, &Lost>) -> (Result<(), Lost>, ReplySender) + Send>;

struct Step {
    name: &'static str,
    run: Run,
}

type ReadJob = Box<dyn FnOnce(&mut Connection) + Send>;

/// A handle on the two threads. They end when the last handle is gone.
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
        let unknown = |error| open::unusable(path, format!("it can't be looked at: {error}"), None);
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

    /// Fails when the files that were opened are not there any more, or others are in their place. Every write asks it
    /// too; whoever is about to do something that can't be undone asks once more.
    pub(crate) fn check(&self) -> Result<()> {
        self.identity.check()
    }

    /// One step of one transaction: all that it writes is committed, or nothing. `name` is for crash points.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        name: &'static str,
        step: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let run: Run = Box::new(move |conn: Result<&Connection, &Lost>| {
            let result = conn
                .map_err(Lost::told)
                .and_then(|conn| guarded(|| step(conn)));
            let keep = result.as_ref().map(drop).map_err(Lost::by);
            let tell: ReplySender = Box::new(move |lost| {
                let result = match (result, lost) {
                    (Ok(_), Some(lost)) => Err(lost.told()),
                    (result, _) => result,
                };
                // Whoever asked may have gone away; then nobody is there to be told.
                drop(answer.send(result));
            });
            (keep, tell)
        });
        if self.steps.send(Step { name, run }).await.is_err() {
            return Err(BoardError::Closed);
        }
        answered.await.unwrap_or(Err(BoardError::Closed))
    }

    /// One consistent look, beside the writer.
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

    /// Changes whenever any connection but the reader's commits: cheap enough to ask often.
    pub(crate) async fn data_version(&self) -> Result<i64> {
        self.look(|conn| conn.one("PRAGMA data_version", &[], |row| row.get(0)))
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

/// Why a transaction came to nothing, for everybody who was in it.
#[derive(Debug, Clone)]
struct Lost {
    code: Option<rusqlite::ffi::Error>,
    /// The file itself is gone.
    vanished: Option<(PathBuf, Vanished)>,
    why: String,
}

impl Lost {
    /// By a step that failed.
    fn by(error: &BoardError) -> Self {
        if let BoardError::Vanished { path, how } = error {
            return Self {
                code: None,
                vanished: Some((path.clone(), *how)),
                why: error.to_string(),
            };
        }
        let (BoardError::Full(source) | BoardError::Busy(source) | BoardError::Sqlite(source)) =
            error
        else {
            return Self {
                code: None,
                vanished: None,
                why: error.to_string(),
            };
        };
        Self {
            code: source.sqlite_code(),
            vanished: None,
            why: source.to_string(),
        }
    }

    /// A full disk and a lock that lasts are told as what they are: those who wait for them to pass must know.
    fn told(&self) -> BoardError {
        if let Some((path, how)) = &self.vanished {
            return BoardError::Vanished {
                path: path.clone(),
                how: *how,
            };
        }
        match self.code {
            Some(code)
                if matches!(
                    code.code,
                    ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked
                ) =>
            {
                sql::Error::from(rusqlite::Error::SqliteFailure(code, Some(self.why.clone())))
                    .into()
            }
            _ => BoardError::Batch(self.why.clone()),
        }
    }
}

impl From<BoardError> for Lost {
    fn from(error: BoardError) -> Self {
        Self::by(&error)
    }
}

/// A panic in one step must not take the thread, and with it every other change, down.
pub(crate) fn guarded<T>(step: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(step)).unwrap_or(Err(BoardError::Panicked))
}

fn spawn(name: &str, path: &Path, body: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::Builder::new()
        .name(name.into())
        .spawn(body)
        .map(drop)
        .map_err(|error| {
            open::unusable(path, format!("its thread can't be started: {error}"), None)
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

/// A daemon that takes the lock again the moment it let go of it starves every command beside it.
#[expect(
    clippy::disallowed_methods,
    reason = "a thread of its own, or a command that has nothing else to do; nothing can tell that others had their turn"
)]
pub(crate) fn breathe(pause: Duration) {
    thread::sleep(pause);
}

/// Runs the steps, each in its own savepoint, commits once, and only then tells anybody.
fn write_batch(conn: &mut Connection, batch: Vec<Step>, identity: &Identity) {
    let names: Vec<&'static str> = batch.iter().map(|step| step.name).collect();
    let mut answers: Vec<ReplySender> = Vec::with_capacity(batch.len());
    let mut waiting = batch.into_iter();
    let lost = commit_batch(conn, &mut waiting, (&names, identity), &mut answers).err();
    if let Some(lost) = &lost {
        // Those whose turn did not come, because the transaction broke before.
        answers.extend(waiting.map(|step| (step.run)(Err(lost)).1));
    }
    for answer in answers {
        answer(lost.as_ref());
    }
}

/// Before a transaction. A WAL that was only removed is brought into the database first: what was committed is not lost, and
/// nobody will do it a second time.
fn is_there(conn: &Connection, identity: &Identity) -> Result<(), Lost> {
    let Err(vanished) = identity.check() else {
        return Ok(());
    };
    if identity.is_only_wal_removed() {
        let saved = conn.one("PRAGMA wal_checkpoint", &[], |row| row.get::<i64>(0));
        if !matches!(saved, Ok(0)) {
            tracing::error!(?saved, "what was in the removed WAL could not be saved");
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
            // Some errors (a full disk is one) make SQLite roll back everything, not only the statement.
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
    // Here and nowhere else: every escalation by a loop passes here once, and only when it is committed.
    for Handed {
        change,
        reason,
        decide,
    } in handed_over
    {
        tracing::error!(%change, reason = ?reason, decide = ?decide, "needs a person");
    }
    for name in names {
        crash_point!("commit.{name}.after");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
