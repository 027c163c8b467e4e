//! The blackboard for the loops: one thread owns the writing connection, another one reads beside it. Async code
//! sends closures and awaits their result; no transaction is ever open across an await.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;

use super::{BoardError, Result, open};
use crate::clock::Time;
use crate::crash::crash_point;

/// Writers that ask at the same time share one commit, up to this many.
const BATCH: usize = 64;

/// How a step ended, told to its caller once the transaction around it is committed or lost.
type Answer = Box<dyn FnOnce(Option<String>) + Send>;

struct Step {
    name: &'static str,
    /// Gets the open transaction, or why there is none; returns whether its writes are to be kept, and the answer.
    run: Box<dyn FnOnce(std::result::Result<&Connection, String>) -> (bool, Answer) + Send>,
}

type Look = Box<dyn FnOnce(&mut Connection) + Send>;

/// A handle on the two threads. They end when the last handle is gone.
#[derive(Clone)]
pub(crate) struct Door {
    path: PathBuf,
    steps: SyncSender<Step>,
    looks: SyncSender<Look>,
}

impl Door {
    pub(crate) fn open(path: &Path, now: Time) -> Result<Self> {
        let writer = open::writer(path, now)?;
        let reader = open::reader(path)?;
        let (steps, step_queue) = sync_channel(256);
        let (looks, look_queue) = sync_channel(256);
        spawn("blackboard-writer", path, move || write_all(writer, &step_queue))?;
        spawn("blackboard-reader", path, move || read_all(reader, &look_queue))?;
        Ok(Self { path: path.to_owned(), steps, looks })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// One step of one transaction: all that it writes is committed, or nothing. `name` is for crash points.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        name: &'static str,
        step: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let run = Box::new(move |conn: std::result::Result<&Connection, String>| {
            let result = conn.map_err(BoardError::Batch).and_then(|conn| guarded(|| step(conn)));
            let keep = result.is_ok();
            let tell: Answer = Box::new(move |lost| {
                let result = match (result, lost) {
                    (Ok(_), Some(why)) => Err(BoardError::Batch(why)),
                    (result, _) => result,
                };
                // Whoever asked may have gone away; then nobody is there to be told.
                drop(answer.send(result));
            });
            (keep, tell)
        });
        let step = Step { name, run };
        match self.steps.try_send(step) {
            Ok(()) => {}
            Err(TrySendError::Disconnected(_)) => return Err(BoardError::Closed),
            // The queue is bounded: a full one makes the caller wait, not the runtime.
            Err(TrySendError::Full(step)) => {
                let steps = self.steps.clone();
                let sent = tokio::task::spawn_blocking(move || steps.send(step).is_ok()).await;
                if !matches!(sent, Ok(true)) {
                    return Err(BoardError::Closed);
                }
            }
        }
        answered.await.map_err(|_| BoardError::Closed)?
    }

    /// One consistent look, beside the writer.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let look: Look = Box::new(move |conn| {
            let result = guarded(|| {
                let tx = conn.transaction_with_behavior(TransactionBehavior::Deferred)?;
                look(&tx)
            });
            drop(answer.send(result));
        });
        self.looks.try_send(look).map_err(|_| BoardError::Closed)?;
        answered.await.map_err(|_| BoardError::Closed)?
    }

    /// Changes whenever any connection but the reader's commits: cheap enough to ask often.
    pub(crate) async fn data_version(&self) -> Result<i64> {
        let (answer, answered) = oneshot::channel();
        let look: Look = Box::new(move |conn| {
            let version = conn.pragma_query_value(None, "data_version", |row| row.get(0));
            drop(answer.send(version.map_err(BoardError::from)));
        });
        self.looks.try_send(look).map_err(|_| BoardError::Closed)?;
        answered.await.map_err(|_| BoardError::Closed)?
    }
}

/// A panic in one step must not take the thread, and with it every other change, down.
fn guarded<T>(step: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_| {
        Err(BoardError::Batch("a step on the blackboard panicked; nothing of it was written".into()))
    })
}

fn spawn(name: &str, path: &Path, body: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::Builder::new()
        .name(name.into())
        .spawn(body)
        .map(drop)
        .map_err(|error| open::unusable(path, format!("its thread can't be started: {error}"), None))
}

fn read_all(mut conn: Connection, queue: &Receiver<Look>) {
    for look in queue {
        look(&mut conn);
    }
}

fn write_all(mut conn: Connection, queue: &Receiver<Step>) {
    while let Ok(first) = queue.recv() {
        let mut batch = vec![first];
        batch.extend(queue.try_iter().take(BATCH - 1));
        write_batch(&mut conn, batch);
    }
}

/// Runs the steps, each in its own savepoint, commits once, and only then tells anybody.
fn write_batch(conn: &mut Connection, batch: Vec<Step>) {
    let names: Vec<&'static str> = batch.iter().map(|step| step.name).collect();
    let mut answers: Vec<Answer> = Vec::with_capacity(batch.len());
    let mut waiting = batch.into_iter();
    let lost = commit_batch(conn, &mut waiting, &names, &mut answers).err().map(|error| error.to_string());
    // Those whose turn did not come, because the transaction broke before.
    let why = lost.clone().unwrap_or_default();
    answers.extend(waiting.map(|step| (step.run)(Err(why.clone())).1));
    for answer in answers {
        answer(lost.clone());
    }
}

fn commit_batch(
    conn: &mut Connection,
    batch: &mut impl Iterator<Item = Step>,
    names: &[&'static str],
    answers: &mut Vec<Answer>,
) -> Result<(), rusqlite::Error> {
    let mut tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for step in batch {
        let savepoint = tx.savepoint()?;
        let (keep, answer) = (step.run)(Ok(&savepoint));
        answers.push(answer);
        if keep {
            savepoint.commit()?;
        } else {
            savepoint.finish()?;
        }
    }
    for name in names {
        crash_point!("commit.{name}.before");
    }
    tx.commit()?;
    for name in names {
        crash_point!("commit.{name}.after");
    }
    Ok(())
}
