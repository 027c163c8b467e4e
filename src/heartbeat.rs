//! The heartbeat: one pass of the evaluators over what is new. It moves events into rows, asks the evaluators, and
//! commits proposals, events and cursor together. It never runs an item: dispatch does, and they meet only on the
//! blackboard.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::blackboard::{self as bb, Conn, Door, Result};
use crate::clock::{self, Time};
use crate::evaluator::{Case, Config, Definition, review_feedback};
use crate::review::Cycle;

/// What one pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Beat {
    /// Events that were moved into rows or told why not.
    pub(crate) taken_in: usize,
    /// Proposals that were carried out.
    pub(crate) applied: usize,
}

/// Whether a pass would find anything to do: a few probes of indexes, nothing written, no lock taken.
pub(crate) fn is_quiet(conn: &Conn, definitions: &[Definition], now: Time) -> Result<bool> {
    for definition in definitions {
        let cursor = bb::cursor(conn, &definition.name)?;
        for event_type in &definition.on {
            if bb::any_since(conn, *event_type, cursor)? {
                return Ok(false);
            }
        }
        if is_due(conn, definition, now)? {
            return Ok(false);
        }
    }
    for change_id in bb::pending_changes(conn)? {
        if review_feedback::takes_fixes(bb::change(conn, &change_id)?.state) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// One pass, inside the caller's transaction.
pub(crate) fn beat(conn: &Conn, definitions: &[Definition], now: Time) -> Result<Beat> {
    let mut done = Beat::default();
    for definition in definitions {
        let one = match definition.config {
            Config::ReviewFeedback(_) => review_feedback_pass(conn, definition, now)?,
        };
        done.taken_in += one.taken_in;
        done.applied += one.applied;
    }
    Ok(done)
}

fn review_feedback_pass(conn: &Conn, definition: &Definition, now: Time) -> Result<Beat> {
    let cursor = bb::cursor(conn, &definition.name)?;
    let (newest, taken) = bb::take_in(conn, &definition.on, cursor, now)?;
    let mut applied = 0;
    for change_id in bb::pending_changes(conn)? {
        let Some(proposal) = review_feedback::propose(&case(conn, &change_id)?) else { continue };
        applied += usize::from(bb::apply(conn, &definition.name, &proposal, now)?);
    }
    let due = is_due(conn, definition, now)?;
    if newest > cursor || applied > 0 || due {
        let next_run = definition.schedule.as_ref().and_then(|schedule| schedule.next_after(now));
        bb::set_cursor(conn, &definition.name, newest, next_run, now)?;
    }
    Ok(Beat { taken_in: taken.len(), applied })
}

fn case(conn: &Conn, change_id: &crate::change::ChangeId) -> Result<Case> {
    let change = bb::change(conn, change_id)?;
    let repo = bb::project(conn, &change.project_id)?.repo;
    let pending = bb::rejections_of(conn, change_id, Some(crate::work::RejectionState::Pending))?;
    let history = bb::history(conn, change_id)?
        .into_iter()
        .map(|review| Cycle { tree: review.tree, blocking: review.blocking })
        .collect();
    Ok(Case { change, repo, pending, history })
}

/// A schedule is due when its moment has come, or when it was never given one.
fn is_due(conn: &Conn, definition: &Definition, now: Time) -> Result<bool> {
    if definition.schedule.is_none() {
        return Ok(false);
    }
    let row = bb::evaluator_rows(conn)?.into_iter().find(|row| row.name == definition.name);
    Ok(row.and_then(|row| row.next_run).is_none_or(|next| next <= now))
}

/// The loop: wakes, looks, and acts only if there is something. `after` wakes whoever runs items.
pub(crate) async fn run(
    door: Door,
    definitions: Arc<[Definition]>,
    wake: Arc<Notify>,
    after: Arc<Notify>,
    stop: CancellationToken,
) {
    let mut again = None;
    loop {
        match pass(&door, &definitions).await {
            Ok(done) => {
                again = None;
                if done != Beat::default() {
                    tracing::info!(taken_in = done.taken_in, applied = done.applied, "heartbeat");
                }
                after.notify_one();
            }
            // What is pending stays pending, and nobody needs to commit anything for it to be tried again.
            Err(error) => {
                tracing::error!(error = ?error, "heartbeat failed");
                again = Some(again.map_or(TRY_AGAIN, |pause: Duration| (pause * 2).min(LOOK_AGAIN)));
            }
        }
        tokio::select! {
            () = wake.notified() => {}
            () = schedule(&door, &definitions) => {}
            () = sleep(again) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn sleep(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}

/// Waits for the next moment of a schedule, or for as long as a clock that was set may be off; for ever without one.
async fn schedule(door: &Door, definitions: &Arc<[Definition]>) {
    if definitions.iter().all(|definition| definition.schedule.is_none()) {
        return std::future::pending().await;
    }
    let looked = Arc::clone(definitions);
    let next = door.read(move |conn| next_firing(conn, &looked)).await.unwrap_or_else(|error| {
        tracing::warn!(error = ?error, "the schedules could not be looked at");
        None
    });
    let pause = next.map_or(LOOK_AGAIN, |moment| moment.since(clock::now()));
    // A moment that has come and was not acted on (a failing write, say) must not become a busy loop.
    tokio::time::sleep(pause.clamp(Duration::from_millis(20), LOOK_AGAIN)).await;
}

/// Looked at again after this long although no schedule fires: clocks are set, machines sleep.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// A pass that failed is tried again after this long, and each next time after twice as long, up to [`LOOK_AGAIN`].
const TRY_AGAIN: Duration = Duration::from_secs(1);

fn next_firing(conn: &Conn, definitions: &[Definition]) -> Result<Option<Time>> {
    let rows = bb::evaluator_rows(conn)?;
    let scheduled = definitions.iter().filter(|definition| definition.schedule.is_some());
    Ok(scheduled.filter_map(|definition| rows.iter().find(|row| row.name == definition.name)?.next_run).min())
}

/// One look and, if it is not quiet, one pass.
pub(crate) async fn pass(door: &Door, definitions: &Arc<[Definition]>) -> Result<Beat> {
    let looked = Arc::clone(definitions);
    if door.read(move |conn| is_quiet(conn, &looked, clock::now())).await? {
        return Ok(Beat::default());
    }
    let definitions = Arc::clone(definitions);
    door.write("heartbeat", move |conn| beat(conn, &definitions, clock::now())).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventType, NewEvent};

    /// A lock that another program held for too long delays what is pending, and no more.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_pass_that_failed_is_tried_again_though_nobody_commits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blackboard.db");
        let (door, other) = (Door::open(&path, clock::now()).unwrap(), Door::open(&path, clock::now()).unwrap());
        let definitions: Arc<[Definition]> = crate::evaluator::definition::load(None, clock::now()).unwrap().into();
        let mut event = NewEvent::about(&crate::change::ChangeId::new("c1"), EventType::WorkRejected, "no");
        event.change_id = None;
        let newest = door.write("append", move |conn| bb::append(conn, &event, clock::now())).await.unwrap();
        door.write("patience", |conn| Ok(conn.busy_timeout(Duration::from_millis(20))?)).await.unwrap();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let lock = other.write("lock", move |_| {
            begun.send(()).unwrap();
            // Ends with an error when the sender is dropped, which is what it waits for.
            released.recv().unwrap_or_default();
            Ok(())
        });
        let (wake, after, stop) = (Arc::new(Notify::new()), Arc::new(Notify::new()), CancellationToken::new());
        let script = async {
            has_begun.await.unwrap();
            let loops = run(door.clone(), Arc::clone(&definitions), wake, Arc::clone(&after), stop.clone());
            let watch = async {
                let early = tokio::time::timeout(Duration::from_millis(500), after.notified()).await;
                assert!(early.is_err(), "nothing is written beside the other's transaction");
                drop(release);
                tokio::time::timeout(Duration::from_secs(20), after.notified()).await.expect("it is tried again");
                stop.cancel();
            };
            tokio::join!(loops, watch);
        };
        let (locked, ()) = tokio::join!(lock, script);
        locked.unwrap();
        let name = definitions.first().unwrap().name.clone();
        assert!(door.read(move |conn| bb::cursor(conn, &name)).await.unwrap() >= newest);
    }
}
