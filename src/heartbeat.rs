//! The heartbeat: one pass of the evaluators over new events and pull requests. It stores events as rows, calls the
//! evaluators, and commits proposals, events and cursor together. It never runs an item: dispatch does, and they meet
//! only on the blackboard.

pub(crate) mod command;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::blackboard::{self as bb, Conn, Db, LeftUnjudged, Result};
use crate::change::{Change, ChangeId, State, Trigger};
use crate::clock::{self, Time};
use crate::evaluator::checks::{self, ChecksCase};
use crate::evaluator::definition::Need;
use crate::evaluator::{Config, Definition, OurPush, PullCase, pr_feedback, review_feedback};
use crate::event::EventType;
use crate::event::body::{Cause, StateChanged};
use crate::pull_request::PullState;
use crate::review_text::Cycle;
use crate::work::{LoopStep, RejectionState, Status};

/// Result of one pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Beat {
    /// Events that became rows, or were skipped with a reason.
    pub(crate) taken_in: usize,
    /// Proposals that were applied.
    pub(crate) applied: usize,
}

/// True if a pass would find nothing to do: a few probes of indexes, nothing written, no lock taken. Pull requests that
/// the last pass left unjudged count only after something about them has changed.
pub(crate) fn is_quiet(
    conn: &Conn,
    definitions: &[Definition],
    left: &LeftUnjudged,
    now: Time,
) -> Result<bool> {
    for definition in definitions {
        let has_work = match &definition.config {
            Config::Command(_) => continue,
            Config::PrFeedback => bb::any_unjudged(conn, left)?,
            Config::ReviewFeedback(_) => {
                let needs_read = definition.needs.contains(&Need::PrFeedback);
                bb::any_pending(conn, review_feedback::TAKES_FIXES, needs_read, now)?
            }
        };
        if has_work
            || bb::any_event(conn, &definition.name, &definition.on)?
            || is_due(conn, definition, now)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// One pass, inside the caller's transaction. Each change is handled in its own savepoint: one that fails is set aside,
/// and only an error of the blackboard itself ends the pass.
pub(crate) fn beat(conn: &Conn, definitions: &[Definition], now: Time) -> Result<Beat> {
    let mut done = Beat::default();
    // Ordered by name: feedback of pull requests becomes rejections before rejections are handled.
    for definition in definitions {
        let one = match definition.config {
            Config::ReviewFeedback(_) => review_feedback_pass(conn, definition, now)?,
            Config::PrFeedback => pr_feedback_pass(conn, definition, now)?,
            // Command evaluators do not run inside a transaction.
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
        // The pending rejections become a fix or an escalation, or wait for a read of the pull request.
        let fix_or_wait = || {
            let change = bb::change(conn, &change_id)?;
            let pending = bb::rejections_of(conn, &change_id, Some(RejectionState::Pending))?;
            if definition.needs.contains(&Need::PrFeedback) && bb::needs_read(conn, &change_id)? {
                let is_wanted = review_feedback::takes_fixes(change.state)
                    && bb::want_read(conn, &change_id, now)?;
                return Ok(usize::from(is_wanted));
            }
            let reviews = bb::history(conn, &change_id)?.into_iter();
            let history: Vec<Cycle> = reviews
                .map(|review| Cycle {
                    tree: review.tree,
                    blocking: review.blocking,
                })
                .collect();
            let Some(proposal) = review_feedback::propose(&change, &pending, &history) else {
                return Ok(0);
            };
            let is_new = bb::apply_proposal(conn, &definition.name, &change_id, &proposal, now)?;
            Ok(usize::from(is_new))
        };
        applied += bb::apart(conn, fix_or_wait, |error| {
            bb::set_aside(conn, &change_id, &error, now)
        })?;
    }
    let due = is_due(conn, definition, now)?;
    if newest > cursor || applied > 0 || due {
        let next_run = next_run(definition, now);
        bb::set_cursor(conn, &definition.name, newest, next_run, now)?;
    }
    Ok(Beat {
        taken_in: taken.len(),
        applied,
    })
}

fn pr_feedback_pass(conn: &Conn, definition: &Definition, now: Time) -> Result<Beat> {
    let mut applied = 0;
    for change_id in bb::unjudged_pulls(conn)? {
        let judge = || {
            let Some(case) = pull_case(conn, &change_id)? else {
                return Ok(0);
            };
            let judged = pr_feedback::judge(&case);
            // First, since a rejection that ends an escalation requests that the pull request is judged again.
            if judged.is_settled {
                bb::set_judged(conn, &change_id)?;
            }
            let mut applied = usize::from(judged.is_settled);
            for proposal in &judged.proposals {
                let is_new = bb::apply_proposal(conn, &definition.name, &change_id, proposal, now)?;
                applied += usize::from(is_new);
            }
            // Afterwards: a request for changes or a new head may just have come.
            let checks = checks_case(conn, &change_id, now)?;
            for proposal in checks.iter().flat_map(checks::judge) {
                let is_new =
                    bb::apply_proposal(conn, &definition.name, &change_id, &proposal, now)?;
                applied += usize::from(is_new);
            }
            Ok(applied)
        };
        applied += bb::apart(conn, judge, |error| {
            bb::set_aside(conn, &change_id, &error, now)
        })?;
    }
    // It reads pull requests, not events; the events that woke it are done.
    if bb::any_event(conn, &definition.name, &definition.on)? {
        let newest = bb::newest_event(conn)?;
        bb::set_cursor(conn, &definition.name, newest, None, now)?;
    }
    Ok(Beat {
        taken_in: 0,
        applied,
    })
}

fn pull_case(conn: &Conn, id: &ChangeId) -> Result<Option<PullCase>> {
    let Some(pull) = bb::pull_of_change(conn, id)? else {
        return Ok(None);
    };
    let change = bb::change(conn, id)?;
    let is_busy = bb::items_of(conn, id)?
        .iter()
        .any(|item| match item.step() {
            Some(LoopStep::Fix) => item.status.is_open(),
            Some(LoopStep::Review) => item.status == Status::Claimed,
            Some(LoopStep::Implement | LoopStep::OpenPull) | None => false,
        });
    let mut standing = bb::rejections_of(conn, id, Some(RejectionState::Pending))?;
    standing.extend(bb::rejections_of(conn, id, Some(RejectionState::InFix))?);
    let standing = standing
        .iter()
        .filter(|rejection| rejection.by_person)
        .map(|rejection| rejection.login().unwrap_or(&rejection.by).to_owned())
        .collect();
    let pushes = bb::intents_of(conn, id, bb::IntentKind::Push)?;
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
        pushes: pushes.iter().map(our_push).collect(),
        is_busy,
        taken_by,
        standing,
    }))
}

/// Returns the checks of an open pull request, after its feedback was judged.
fn checks_case(conn: &Conn, id: &ChangeId, now: Time) -> Result<Option<ChecksCase>> {
    let Some(pull) = bb::pull_of_change(conn, id)?.filter(|pull| pull.state == PullState::Open)
    else {
        return Ok(None);
    };
    let change = bb::change(conn, id)?;
    let is_fixing = matches!(change.state, State::AddressingFeedback | State::Refining);
    let moved = bb::events_of_type(conn, id, EventType::StateChanged, 1)?;
    let is_marked_ready = moved
        .iter()
        .filter_map(|event| event.body::<StateChanged>())
        .any(|moved| moved.on == Some(Cause::Trigger(Trigger::MarkReady)));
    Ok(Some(ChecksCase {
        is_past_review: bb::is_past_review(conn, &change)?,
        checks: bb::checks_of(conn, id)?,
        summary: pull.checks,
        pull_head: pull.head_sha,
        state: change.state,
        head: change.head,
        is_fixing,
        is_marked_ready,
        now,
    }))
}

fn taken_by(conn: &Conn, over: &Change) -> Result<Option<String>> {
    let explain = |what: String, by: &Change| {
        let id = &by.change_id;
        format!(
            "its {what} belongs to {id}; `remand cancel {id}` closes {id}, after which the PR can be watched again"
        )
    };
    if let Some(by) = bb::live_change_on(conn, &over.project_id, &over.branch)? {
        return Ok(Some(explain(format!("branch {}", over.branch), &by)));
    }
    Ok(bb::live_change_at(conn, &over.worktree)?
        .map(|by| explain(format!("worktree {}", over.worktree), &by)))
}

fn our_push(intent: &bb::Intent) -> OurPush {
    let push = intent.payload.push().cloned().unwrap_or_default();
    OurPush {
        from: push.from,
        to: push.to,
        done_at: intent.done_at,
    }
}

/// The next firing of the schedule of an evaluator.
fn next_run(definition: &Definition, now: Time) -> Option<Time> {
    let schedule = definition.schedule.as_ref()?;
    schedule.next_after(now)
}

fn is_command(definition: &Definition) -> bool {
    matches!(definition.config, Config::Command(_))
}

/// True if the time of a schedule has come or was never set. The schedule of pull requests belongs to intake.
fn is_due(conn: &Conn, definition: &Definition, now: Time) -> Result<bool> {
    let schedule = definition.schedule.as_ref();
    let Some(schedule) = schedule.filter(|_| definition.config != Config::PrFeedback) else {
        return Ok(false);
    };
    let next_run = bb::next_run(conn, &definition.name)?;
    // A time after the next firing was stored by a clock that was ahead.
    let firing = schedule.next_after(now);
    let longest = firing.map_or(Duration::MAX, |next| next.since(now));
    Ok(next_run.is_none_or(|next| clock::is_due(next, now, longest)))
}

/// The loop before it is started.
pub(crate) struct Heartbeat {
    pub(crate) db: Db,
    pub(crate) definitions: Arc<[Definition]>,
    pub(crate) wake: Arc<Notify>,
    /// Wakes the loop that runs items.
    pub(crate) after: Arc<Notify>,
    /// Number of passes that succeeded.
    pub(crate) beats: Arc<watch::Sender<u64>>,
}

impl Heartbeat {
    /// Waits for a wake-up, checks, and acts only if there is something to do.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut again: Option<Duration> = None;
        let mut left = LeftUnjudged::new();
        loop {
            match pass(&self.db, &self.definitions, &mut left).await {
                Ok(done) => {
                    again = None;
                    if done != Beat::default() {
                        tracing::debug!(
                            taken_in = done.taken_in,
                            applied = done.applied,
                            "heartbeat"
                        );
                    }
                    self.beats.send_modify(|beats| *beats += 1);
                    self.after.notify_one();
                }
                // Pending rejections stay pending, and the retry needs no further commit.
                Err(error) => {
                    tracing::error!(error = ?error, "heartbeat failed");
                    again = Some(again.map_or(TRY_AGAIN, |pause| LOOK_AGAIN.min(pause * 2)));
                }
            }
            // A failed pass would fail again immediately, so commits and schedules do not shorten the pause.
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

/// Waits for the next firing of a schedule, at most for the time by which a clock may be off; forever without a
/// schedule.
async fn schedule(db: &Db, definitions: &Arc<[Definition]>) {
    let ours = definitions.iter().filter(|one| !is_command(one)).cloned();
    let ours: Vec<Definition> = ours.collect();
    if ours.iter().all(|definition| definition.schedule.is_none()) {
        return std::future::pending().await;
    }
    let next = db.read(move |conn| next_firing(conn, &ours));
    let next = next.await.unwrap_or_else(|error| {
        tracing::warn!(error = ?error, "cannot read the schedules");
        None
    });
    let pause = next.map_or(LOOK_AGAIN, |moment| moment.since(clock::now()));
    // A time that has passed without an effect (after a failed write, for example) must not become a busy loop.
    tokio::time::sleep(pause.clamp(Duration::from_millis(20), LOOK_AGAIN)).await;
}

/// Interval of checks when no schedule fires: clocks are set, machines sleep.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Pause after a failed pass; doubled after each further failure, up to [`LOOK_AGAIN`].
const TRY_AGAIN: Duration = Duration::from_secs(1);

fn next_firing(conn: &Conn, definitions: &[Definition]) -> Result<Option<Time>> {
    let rows = bb::evaluator_rows(conn)?;
    let scheduled = definitions
        .iter()
        .filter(|one| one.schedule.is_some() && one.config != Config::PrFeedback);
    let next = |one: &Definition| rows.iter().find(|row| row.name == one.name)?.next_run;
    Ok(scheduled.filter_map(next).min())
}

/// One check and, if there is something to do, one pass.
pub(crate) async fn pass(
    db: &Db,
    definitions: &Arc<[Definition]>,
    left: &mut LeftUnjudged,
) -> Result<Beat> {
    let (looked, known) = (Arc::clone(definitions), left.clone());
    let look = db.read(move |conn| is_quiet(conn, &looked, &known, clock::now()));
    match look.await {
        Ok(true) => return Ok(Beat::default()),
        Ok(false) => {}
        // A change that cannot be read is set aside by the pass.
        Err(error) if !error.is_everywhere() => {}
        Err(error) => return Err(error),
    }
    let definitions = Arc::clone(definitions);
    let (done, unjudged) = db
        .write("heartbeat", move |conn| {
            // Their state before the pass: a pull request that the pass changes is judged again.
            let mut seen = bb::unjudged_as_seen(conn)?;
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
    use std::path::Path;

    use super::*;
    use crate::change::{Bounds, OnMaxCycles, ProjectId, State};
    use crate::event::body::WorkRejected;
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

    /// Stores a change with a pending rejection that may be fixed.
    async fn reject(db: &Db) {
        db.write("reject", |conn| {
            let now = clock::now();
            let project = bb::Project {
                project_id: ProjectId::new("shop"),
                path: "/home/ann/shop".into(),
                common_dir: "/home/ann/shop/.git".into(),
                repo: None,
                remote_url: None,
                default_branch: "main".into(),
                created_at: now,
            };
            bb::insert_project(conn, &project)?;
            let new = bb::NewChange {
                project_id: project.project_id,
                title: "Retry payments".into(),
                branch: "retry".into(),
                base: "main".into(),
                head: "a".repeat(40),
                worktree: "/home/ann/shop".into(),
                host: "laptop".into(),
                state: State::SelfReviewFailed,
                bounds: Bounds {
                    on_max_cycles: OnMaxCycles::Escalate,
                    max_fix_cycles: 2,
                    max_total_fixes: 8,
                    max_run_ms: 3_600_000,
                    max_tokens: None,
                    max_cost_micros: None,
                },
                review: crate::change::ReviewRules {
                    stage: crate::change::ReviewStage::BeforePr,
                    auto_address: true,
                    skip_tests: true,
                    notify_ready: true,
                },
                own_max_fix_cycles: None,
                shadow: None,
                actor: "ann".into(),
            };
            let id = bb::insert_change(conn, &new, now)?.change_id;
            bb::reject_change(conn, &id, "ann", "no", &WorkRejected::default(), now)
        })
        .await
        .unwrap();
    }

    #[tokio::test]
    async fn pending_rejections_kept_the_heartbeat_busy_without_their_evaluator() {
        let folder = tempfile::tempdir().unwrap();
        let disabled = "kind = 'review_feedback'\nenabled = false\n";
        let evaluators = folder.path().join("evaluators");
        std::fs::create_dir(&evaluators).unwrap();
        std::fs::write(evaluators.join("review_feedback.toml"), disabled).unwrap();
        let db = Db::open(&folder.path().join("blackboard.db"), clock::now()).unwrap();
        reject(&db).await;
        let load = |folder: Option<&Path>| {
            crate::evaluator::definition::load(folder, clock::now()).unwrap()
        };
        let without: Arc<[Definition]> = load(Some(&evaluators)).into();
        let mut left = LeftUnjudged::new();
        assert_eq!(
            pass(&db, &without, &mut left).await.unwrap(),
            Beat::default()
        );
        let quiet = |definitions: Vec<Definition>| {
            db.read(move |conn| is_quiet(conn, &definitions, &LeftUnjudged::new(), clock::now()))
        };
        assert!(quiet(without.to_vec()).await.unwrap());
        // The event is not new; its rejection is pending.
        let with = load(None);
        let mut events = with.clone();
        for definition in &mut events {
            definition.on.clear();
        }
        assert!(!quiet(events).await.unwrap());
        pass(&db, &with.clone().into(), &mut left).await.unwrap();
        assert!(quiet(with).await.unwrap(), "it is in a fix");
    }

    /// A lock that another program held for too long only delays pending rejections.
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
            // Returns an error when the sender is dropped, which ends the wait.
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
