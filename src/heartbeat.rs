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
    loop {
        match pass(&door, &definitions).await {
            Ok(done) => {
                if done != Beat::default() {
                    tracing::info!(taken_in = done.taken_in, applied = done.applied, "heartbeat");
                }
                after.notify_one();
            }
            // What is pending stays pending: the next wake tries again.
            Err(error) => tracing::error!(error = ?error, "heartbeat failed"),
        }
        tokio::select! {
            () = wake.notified() => {}
            () = schedule(&door, &definitions) => {}
            () = stop.cancelled() => return,
        }
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
