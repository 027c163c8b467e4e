//! The heartbeat: one pass of the evaluators over what is new. It moves events into rows, asks the evaluators, and
//! commits proposals, events and cursor together. It never runs an item: dispatch does, and they meet only on the
//! blackboard.

pub(crate) mod command;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::blackboard::{self as bb, Conn, Db, Result};
use crate::change::{Change, ChangeId};
use crate::clock::{self, Time};
use crate::evaluator::definition::Need;
use crate::evaluator::{Case, Config, Definition, OurPush, PullCase, pr_feedback, review_feedback};
use crate::review_text::Cycle;
use crate::work::{Rejection, RejectionState, Source, Status};

/// What one pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Beat {
    /// Events that were moved into rows or told why not.
    pub(crate) taken_in: usize,
    /// Proposals that were carried out.
    pub(crate) applied: usize,
}

/// The pull requests that a pass left unjudged, each as it was seen: they wait for a later read, or for the end of our
/// own work.
pub(crate) type LeftUnjudged = Vec<(ChangeId, String)>;

/// Whether a pass would find anything to do: a few probes of indexes, nothing written, no lock taken. What the last pass
/// left unjudged is looked at again when something of it has changed.
pub(crate) fn is_quiet(
    conn: &Conn,
    definitions: &[Definition],
    left: &LeftUnjudged,
    now: Time,
) -> Result<bool> {
    for definition in definitions
        .iter()
        .filter(|definition| !is_command(definition))
    {
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
        let change = bb::change(conn, &change_id)?;
        if review_feedback::takes_fixes(change.state)
            && !waits_for_read(conn, definitions, &change, now)?
        {
            return Ok(false);
        }
    }
    let unjudged = unjudged(conn, definitions)?;
    Ok(unjudged.iter().all(|pull| left.contains(pull)))
}

/// One pass, inside the caller's transaction. Each change is looked at apart: one that fails is set aside, and only trouble
/// of the blackboard itself ends the pass.
pub(crate) fn beat(conn: &Conn, definitions: &[Definition], now: Time) -> Result<Beat> {
    let mut done = Beat::default();
    // By name: what pull requests say is a rejection by the time that rejections are looked at.
    for definition in definitions {
        let one = match definition.config {
            Config::ReviewFeedback(_) => review_feedback_pass(conn, definition, now)?,
            Config::PrFeedback => pr_feedback_pass(conn, definition, now)?,
            // Not inside a transaction.
            Config::Command(_) => Beat::default(),
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
        applied += or_set_aside(conn, &change_id, now, || {
            fix_or_wait(conn, definition, &change_id, now)
        })?;
    }
    let due = is_due(conn, definition, now)?;
    if newest > cursor || applied > 0 || due {
        let next_run = definition
            .schedule
            .as_ref()
            .and_then(|schedule| schedule.next_after(now));
        bb::set_cursor(conn, &definition.name, newest, next_run, now)?;
    }
    Ok(Beat {
        taken_in: taken.len(),
        applied,
    })
}

/// What is pending for one change becomes a fix or an escalation, or waits for what has to be read first.
fn fix_or_wait(
    conn: &Conn,
    definition: &Definition,
    change_id: &ChangeId,
    now: Time,
) -> Result<usize> {
    let case = case(conn, change_id)?;
    if definition.needs.contains(&Need::PrFeedback) && !is_fresh(conn, &case.change, &case.pending)?
    {
        let is_wanted =
            review_feedback::takes_fixes(case.change.state) && bb::want_read(conn, change_id, now)?;
        return Ok(usize::from(is_wanted));
    }
    let Some(proposal) = review_feedback::propose(&case) else {
        return Ok(0);
    };
    Ok(usize::from(bb::apply_proposal(
        conn,
        &definition.name,
        &proposal,
        now,
    )?))
}

fn pr_feedback_pass(conn: &Conn, definition: &Definition, now: Time) -> Result<Beat> {
    let mut applied = 0;
    for change_id in bb::unjudged_pulls(conn)? {
        applied += or_set_aside(conn, &change_id, now, || judge_pull(conn, &change_id, now))?;
    }
    // It reads pull requests, not events; those that it is woken by are done with.
    let cursor = bb::cursor(conn, &definition.name)?;
    let mut is_woken = false;
    for event_type in &definition.on {
        is_woken = is_woken || bb::any_since(conn, *event_type, cursor)?;
    }
    if is_woken {
        let newest = bb::newest_event(conn)?;
        bb::set_cursor(conn, &definition.name, newest, None, now)?;
    }
    Ok(Beat {
        taken_in: 0,
        applied,
    })
}

fn judge_pull(conn: &Conn, change_id: &ChangeId, now: Time) -> Result<usize> {
    let Some(case) = pull_case(conn, change_id)? else {
        return Ok(0);
    };
    let judged = pr_feedback::judge(&case);
    let mut applied = 0;
    // Before the steps: a rejection that ends an escalation has the pull request judged again.
    if judged.is_settled {
        bb::set_judged(conn, change_id)?;
        applied += 1;
    }
    for step in &judged.steps {
        applied += usize::from(bb::apply_pull_step(conn, change_id, step, now)?);
    }
    Ok(applied)
}

/// Returns how much `part` did for one change, which is set aside when that fails.
fn or_set_aside(
    conn: &Conn,
    change_id: &ChangeId,
    now: Time,
    part: impl FnOnce() -> Result<usize>,
) -> Result<usize> {
    match bb::apart(conn, part)? {
        Ok(applied) => Ok(applied),
        Err(error) => {
            tracing::error!(change = change_id.as_str(), error = ?error, "a change was set aside");
            bb::set_aside(conn, change_id, &error, now)?;
            Ok(1)
        }
    }
}

fn case(conn: &Conn, change_id: &ChangeId) -> Result<Case> {
    let change = bb::change(conn, change_id)?;
    let repo = bb::project(conn, &change.project_id)?.repo;
    let pending = bb::rejections_of(conn, change_id, Some(RejectionState::Pending))?;
    let history = bb::history(conn, change_id)?
        .into_iter()
        .map(|review| Cycle {
            tree: review.tree,
            blocking: review.blocking,
        })
        .collect();
    Ok(Case {
        change,
        repo,
        pending,
        history,
    })
}

fn unjudged(conn: &Conn, definitions: &[Definition]) -> Result<LeftUnjudged> {
    let is_judged = definitions
        .iter()
        .any(|definition| definition.config == Config::PrFeedback);
    if is_judged {
        bb::unjudged_as_seen(conn)
    } else {
        Ok(Vec::new())
    }
}

fn pull_case(conn: &Conn, id: &ChangeId) -> Result<Option<PullCase>> {
    let Some(pull) = bb::pull_of_change(conn, id)? else {
        return Ok(None);
    };
    let change = bb::change(conn, id)?;
    let is_busy = bb::items_of(conn, id)?
        .iter()
        .any(|item| match item.source {
            Source::ReviewFix => item.status.is_open(),
            Source::CodeReview => item.status == Status::Claimed,
            Source::Github
            | Source::Specflow
            | Source::Manual
            | Source::PullRequest
            | Source::FeedbackAnalysis => false,
        });
    let mut standing = Vec::new();
    for state in [RejectionState::Pending, RejectionState::InFix] {
        let open = bb::rejections_of(conn, id, Some(state))?;
        standing.extend(
            open.iter()
                .filter(|rejection| rejection.by_person)
                .map(|rejection| by(conn, rejection)),
        );
    }
    let standing = standing.into_iter().collect::<Result<_>>()?;
    let pushes = bb::intents_of(conn, id, bb::IntentKind::Push)?
        .iter()
        .map(our_push)
        .collect();
    let (unjudged, alone) = (bb::unjudged_said(conn, id)?, bb::judged_alone(conn, id)?);
    let taken_by = if change.state.is_over() {
        taken_by(conn, &change)?
    } else {
        None
    };
    Ok(Some(PullCase {
        change,
        pull,
        unjudged,
        alone,
        pushes,
        is_busy,
        taken_by,
        standing,
    }))
}

fn taken_by(conn: &Conn, over: &Change) -> Result<Option<String>> {
    let told = |what: String, by: &Change| {
        let id = &by.change_id;
        format!(
            "its {what} is that of {id}; `remand cancel {id}` closes that one, then the PR can be watched again"
        )
    };
    if let Some(by) = bb::live_change_on(conn, &over.project_id, &over.branch)? {
        return Ok(Some(told(format!("branch {}", over.branch), &by)));
    }
    Ok(bb::live_change_at(conn, &over.worktree)?
        .map(|by| told(format!("worktree {}", over.worktree), &by)))
}

/// Who said it, without where.
fn by(conn: &Conn, rejection: &Rejection) -> Result<String> {
    let actor = bb::event(conn, rejection.event_id)?.actor_id;
    Ok(actor
        .strip_prefix("github:")
        .map(str::to_owned)
        .unwrap_or(actor))
}

fn our_push(intent: &bb::Intent) -> OurPush {
    let push = intent.payload.push().cloned().unwrap_or_default();
    OurPush {
        from: push.from,
        to: push.to,
        done_at: intent.done_at,
    }
}

/// What is said on the pull request was read after the newest of these was said; what came from there was read with it. By
/// the order of the events, not by their times: one that is dated ahead would be read for again and again.
fn is_fresh(conn: &Conn, change: &Change, pending: &[Rejection]) -> Result<bool> {
    let Some(pull) = bb::pull_of_change(conn, &change.change_id)?.filter(|_| change.has_pr())
    else {
        return Ok(true);
    };
    let Some(newest) = pending.last() else {
        return Ok(true);
    };
    let event = bb::event(conn, newest.event_id)?;
    Ok(event.actor_id.starts_with("github:") || pull.read_after >= event.id)
}

/// The read that it needs is asked for already.
fn waits_for_read(
    conn: &Conn,
    definitions: &[Definition],
    change: &Change,
    now: Time,
) -> Result<bool> {
    let needs = definitions.iter().any(|definition| {
        matches!(definition.config, Config::ReviewFeedback(_))
            && definition.needs.contains(&Need::PrFeedback)
    });
    if !needs {
        return Ok(false);
    }
    let pending = bb::rejections_of(conn, &change.change_id, Some(RejectionState::Pending))?;
    if is_fresh(conn, change, &pending)? {
        return Ok(false);
    }
    let pull = bb::pull_of_change(conn, &change.change_id)?;
    Ok(
        pull.is_some_and(|pull| {
            pull.failures > 0 || pull.next_read.is_some_and(|next| next <= now)
        }),
    )
}

fn is_command(definition: &Definition) -> bool {
    matches!(definition.config, Config::Command(_))
}

/// A schedule is due when its moment has come, or when it was never given one. That of pull requests is the intake's.
fn is_due(conn: &Conn, definition: &Definition, now: Time) -> Result<bool> {
    let Some(schedule) = definition
        .schedule
        .as_ref()
        .filter(|_| definition.config != Config::PrFeedback)
    else {
        return Ok(false);
    };
    let row = bb::evaluator_rows(conn)?
        .into_iter()
        .find(|row| row.name == definition.name);
    // A moment behind the next firing was stored by a clock that was ahead.
    let longest = schedule
        .next_after(now)
        .map_or(Duration::MAX, |next| next.since(now));
    Ok(row
        .and_then(|row| row.next_run)
        .is_none_or(|next| clock::is_due(next, now, longest)))
}

/// The loop, put together and not yet running.
pub(crate) struct Heartbeat {
    pub(crate) db: Db,
    pub(crate) definitions: Arc<[Definition]>,
    pub(crate) wake: Arc<Notify>,
    /// Wakes whoever runs items.
    pub(crate) after: Arc<Notify>,
    /// How many passes ended well.
    pub(crate) beats: Arc<watch::Sender<u64>>,
}

impl Heartbeat {
    /// Wakes, looks, and acts only if there is something.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut again = None;
        let mut left = LeftUnjudged::new();
        loop {
            match pass(&self.db, &self.definitions, &mut left).await {
                Ok(done) => {
                    again = None;
                    if done != Beat::default() {
                        tracing::info!(
                            taken_in = done.taken_in,
                            applied = done.applied,
                            "heartbeat"
                        );
                    }
                    self.beats.send_modify(|beats| *beats += 1);
                    self.after.notify_one();
                }
                // What is pending stays pending, and nobody needs to commit anything for it to be tried again.
                Err(error) => {
                    tracing::error!(error = ?error, "heartbeat failed");
                    again = Some(
                        again.map_or(TRY_AGAIN, |pause: Duration| (pause * 2).min(LOOK_AGAIN)),
                    );
                }
            }
            // What failed fails again at once, whoever commits something and whatever is due: then only the pause counts.
            tokio::select! {
                () = self.wake.notified(), if again.is_none() => {}
                () = schedule(&self.db, &self.definitions), if again.is_none() => {}
                () = sleep(again) => {}
                () = stop.cancelled() => return,
            }
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
async fn schedule(db: &Db, definitions: &Arc<[Definition]>) {
    if definitions
        .iter()
        .all(|definition| definition.schedule.is_none() || is_command(definition))
    {
        return std::future::pending().await;
    }
    let looked = Arc::clone(definitions);
    let next = db.read(move |conn| {
        let ours: Vec<Definition> = looked
            .iter()
            .filter(|definition| !is_command(definition))
            .cloned()
            .collect();
        next_firing(conn, &ours)
    });
    let next = next.await.unwrap_or_else(|error| {
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
    let scheduled = definitions.iter().filter(|definition| {
        definition.schedule.is_some() && definition.config != Config::PrFeedback
    });
    Ok(scheduled
        .filter_map(|definition| {
            rows.iter()
                .find(|row| row.name == definition.name)?
                .next_run
        })
        .min())
}

/// One look and, if it is not quiet, one pass.
pub(crate) async fn pass(
    db: &Db,
    definitions: &Arc<[Definition]>,
    left: &mut LeftUnjudged,
) -> Result<Beat> {
    let (looked, known) = (Arc::clone(definitions), left.clone());
    match db
        .read(move |conn| is_quiet(conn, &looked, &known, clock::now()))
        .await
    {
        Ok(true) => return Ok(Beat::default()),
        Ok(false) => {}
        // Something of one change can't be looked at: the pass sets it aside.
        Err(error) if !error.is_everywhere() => {}
        Err(error) => return Err(error),
    }
    let definitions = Arc::clone(definitions);
    let (done, unjudged) = db
        .write("heartbeat", move |conn| {
            // As they are before the steps: what a step changes is looked at again.
            let mut seen = unjudged(conn, &definitions)?;
            let done = beat(conn, &definitions, clock::now())?;
            let unjudged = bb::unjudged_pulls(conn)?;
            seen.retain(|(change_id, _)| unjudged.contains(change_id));
            Ok((done, seen))
        })
        .await?;
    *left = unjudged;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventType, NewEvent};

    #[tokio::test]
    async fn a_pr_feedback_with_event_types_kept_the_heartbeat_busy() {
        let folder = tempfile::tempdir().unwrap();
        let mine = "kind = 'pr_feedback'\nschedule = '* * * * *'\non = ['instructed']\n";
        std::fs::write(folder.path().join("pr_feedback.toml"), mine).unwrap();
        let definitions: Arc<[Definition]> =
            crate::evaluator::definition::load(Some(folder.path()), clock::now())
                .unwrap()
                .into();
        let db = Db::open(&folder.path().join("blackboard.db"), clock::now()).unwrap();
        db.write("append", |conn| {
            let event = NewEvent::new(EventType::Instructed, "go on");
            bb::append(conn, &event, clock::now())
        })
        .await
        .unwrap();
        let mut left = LeftUnjudged::new();
        pass(&db, &definitions, &mut left).await.unwrap();
        let is_quiet = db.read(move |conn| is_quiet(conn, &definitions, &left, clock::now()));
        assert!(is_quiet.await.unwrap());
    }

    /// A lock that another program held for too long delays what is pending, and no more.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_pass_that_failed_is_tried_again_though_nobody_commits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blackboard.db");
        let (db, other) = (
            Db::open(&path, clock::now()).unwrap(),
            Db::open(&path, clock::now()).unwrap(),
        );
        let definitions: Arc<[Definition]> = crate::evaluator::definition::load(None, clock::now())
            .unwrap()
            .into();
        let mut event = NewEvent::about(&ChangeId::new("c1"), EventType::WorkRejected, "no");
        event.change_id = None;
        let newest = db
            .write("append", move |conn| bb::append(conn, &event, clock::now()))
            .await
            .unwrap();
        db.write("patience", |conn| {
            conn.execute_batch("PRAGMA busy_timeout = 20")
        })
        .await
        .unwrap();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let lock = other.write("lock", move |_| {
            begun.send(()).unwrap();
            // Ends with an error when the sender is dropped, which is what it waits for.
            released.recv().unwrap_or_default();
            Ok(())
        });
        let (wake, after, stop) = (
            Arc::new(Notify::new()),
            Arc::new(Notify::new()),
            CancellationToken::new(),
        );
        let script = async {
            has_begun.await.unwrap();
            let heartbeat = Heartbeat {
                db: db.clone(),
                definitions: Arc::clone(&definitions),
                wake: Arc::clone(&wake),
                after: Arc::clone(&after),
                beats: Arc::new(watch::channel(0).0),
            };
            let loops = heartbeat.run(stop.clone());
            let watch = async {
                wake.notify_one();
                let early =
                    tokio::time::timeout(Duration::from_millis(500), after.notified()).await;
                assert!(
                    early.is_err(),
                    "nothing is written beside the other's transaction"
                );
                let woken = tokio::time::timeout(Duration::ZERO, wake.notified()).await;
                assert!(
                    woken.is_ok(),
                    "a wake does not make it try again before its time"
                );
                drop(release);
                tokio::time::timeout(Duration::from_secs(20), after.notified())
                    .await
                    .expect("it is tried again");
                stop.cancel();
            };
            tokio::join!(loops, watch);
        };
        let (locked, ()) = tokio::join!(lock, script);
        locked.unwrap();
        let name = definitions.last().unwrap().name.clone();
        assert!(db.read(move |conn| bb::cursor(conn, &name)).await.unwrap() >= newest);
    }
}
