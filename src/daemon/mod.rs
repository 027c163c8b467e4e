//! Assembles the modules and keeps them running: for the daemon, for one tick, or for the queued
//! items. Makes no decisions itself.

mod assemble;
mod config_watch;
mod daemon_record;
mod deadline;
mod in_force;
mod lock;
mod loops;
mod program;
mod reload;
mod sd_notify;
mod shadow;
mod stop_signals;
mod watchdog_report;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::SignalKind;
use tokio::sync::{Notify, watch as watch_channel};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::blackboard::{self as bb, Db};
use crate::change::{ChangeId, FixBound, HoldKind, ProjectId, Shadow};
use crate::clock;
use crate::config::{self, Loaded};
use crate::dispatch::{self, Dispatch, Upkeep};
use crate::evaluator::Definition;
use crate::git::{Git, GitError};
use crate::heartbeat::command::Kit;
use crate::heartbeat::{self, Beat, command};
use crate::intake::Intake;

use assemble::{Host, WRITE_REMEDY};
use config_watch::{FileState, Watch};
use daemon_record::Recorded;
use deadline::Bounds;
use loops::Running;
use reload::{Applied, Call, Calls, Cause, Order, Reload};
use sd_notify::{News, Pulse, Supervisor};
use stop_signals::StopSignals;

pub(crate) use assemble::{
    agent, dispatch_settings, git, host, intake, kit, latest, program_for_agents, sandbox, upkeep,
};
pub(crate) use daemon_record::Record;
pub(crate) use in_force::InForce;
pub(crate) use lock::{AlreadyRunning, holder};
pub(crate) use shadow::UnreadShadow;

/// Maximum number of times that command evaluators run in one tick: those that react to each other
/// endlessly wait for the next tick.
const MOST_ROUNDS: usize = 10;

/// Loops of one blackboard, assembled and not yet running.
pub(crate) struct Daemon {
    lasting: Lasting,
    definitions: Arc<[Definition]>,
    /// Parameters for running command evaluators.
    kit: Arc<Kit>,
    intake: Arc<Intake>,
    dispatch: Arc<Dispatch>,
    look_every: Duration,
    /// Shadow mode that the configuration sets for a project.
    shadow: Box<dyn Fn(&ProjectId) -> Shadow + Send + Sync>,
    /// Maximum number of fixes per round in a project.
    most_fixes: Box<dyn Fn(&ProjectId) -> FixBound + Send + Sync>,
    /// Checked before anything runs, so that a git that is too old or missing is reported
    /// immediately.
    git: Git,
}

/// State that stays the same across reloads.
#[derive(Clone)]
struct Lasting {
    db: Db,
    wake_intake: Arc<Notify>,
    wake_heartbeat: Arc<Notify>,
    wake_dispatch: Arc<Notify>,
    wake_commands: Arc<Notify>,
    wake_upkeep: Arc<Notify>,
    wake_configuration: Arc<Notify>,
    /// Dispatch settings in effect, for items that were claimed under earlier ones.
    latest: Arc<watch_channel::Sender<Arc<dispatch::Settings>>>,
    /// Number of heartbeat passes that succeeded.
    beats: Arc<watch_channel::Sender<u64>>,
}

impl Daemon {
    /// Fails if git is missing or too old, before anything runs. A git that could not report its
    /// version (it was killed, the machine is busy) proves nothing: whatever needs it waits until
    /// it works.
    async fn look_at_git(&self) -> anyhow::Result<()> {
        match self.git.version().await {
            Ok(_) => Ok(()),
            Err(error @ (GitError::NoGit | GitError::TooOld { .. })) => Err(error.into()),
            Err(error) => {
                tracing::warn!("cannot determine the version of git: {error}");
                Ok(())
            }
        }
    }

    pub(crate) fn db(&self) -> &Db {
        &self.lasting.db
    }

    /// Runs until `stop` is cancelled, then shuts down cleanly.
    pub(crate) async fn run(&self, stop: CancellationToken) {
        let running = Running::begin(self, stop.clone());
        stop.cancelled().await;
        running.end().await;
    }

    /// Reads what is due, runs one heartbeat, then dispatch until nothing due is left, and repeats
    /// this while any of them found something.
    ///
    /// After `enough`, running items finish, and nothing else is started.
    pub(crate) async fn tick(
        &self,
        stop: &CancellationToken,
        enough: &CancellationToken,
    ) -> anyhow::Result<Done> {
        let mut done = Done::default();
        let detached = self.dispatch.detach_worktrees().await;
        detached.context("cannot detach worktrees from their branches")?;
        let settled = self.dispatch.settle_pushes().await;
        settled.context("cannot look up interrupted pushes")?;
        let (mut rounds, mut left) = (0, bb::LeftUnjudged::new());
        while !stop.is_cancelled() && !enough.is_cancelled() {
            let read = self.intake.pass(stop).await.context("intake failed")?;
            let beat = heartbeat::pass(self.db(), &self.definitions, &mut left).await;
            let beat = beat.context("heartbeat failed")?;
            let mut asked = Beat::default();
            if rounds < MOST_ROUNDS {
                let all = command::all_once(self.db(), &self.definitions, &self.kit, stop);
                asked = all.await.context("command evaluators failed")?;
            }
            rounds += 1;
            let items = self.dispatch.drain(stop, enough).await;
            let posted = self.dispatch.post_due(stop).await;
            let ran = items.len() + posted.context("posting failed")?;
            done.applied += beat.applied + asked.applied;
            done.ran += ran;
            done.changes.extend(items);
            if read.is_quiet() && beat == Beat::default() && asked == Beat::default() && ran == 0 {
                break;
            }
        }
        if !stop.is_cancelled() {
            self.upkeep().once().await.context("upkeep failed")?;
        }
        Ok(done)
    }

    fn upkeep(&self) -> Upkeep {
        Upkeep {
            db: self.db().clone(),
            settings: Arc::clone(&self.dispatch.settings),
        }
    }

    /// Runs the queued items, without a heartbeat.
    pub(crate) async fn work(&self, stop: &CancellationToken) -> anyhow::Result<Done> {
        let voided = self.intake.void_implausible().await;
        voided.context("cannot check the stored times")?;
        let items = self.dispatch.drain(stop, &CancellationToken::new()).await;
        Ok(Done {
            applied: 0,
            ran: items.len(),
            changes: items.into_iter().collect(),
        })
    }
}

/// What a tick or `remand work` did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Done {
    pub(crate) applied: usize,
    pub(crate) ran: usize,
    /// Changes that its items worked on.
    pub(crate) changes: BTreeSet<ChangeId>,
}

/// Parts of the daemon that the caller provides.
pub(crate) struct Front<'a> {
    /// Called once the daemon is ready.
    pub(crate) ready: Box<dyn FnOnce() + 'a>,
    /// Follows the daemon's work while it runs.
    pub(crate) follow: Follow,
    /// Advice for a project that the service does not let the daemon write to.
    pub(crate) write_remedy: Option<String>,
    pub(crate) files: Files<'a>,
}

/// Function that starts to follow the daemon.
pub(crate) type Follow = fn(Followed) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// View of the daemon for its follower.
pub(crate) struct Followed {
    pub(crate) db: Db,
    /// Cancelled when the daemon starts to stop.
    pub(crate) stop: CancellationToken,
    /// Cancelled when nothing more will happen.
    pub(crate) ended: CancellationToken,
    grace_s: Arc<AtomicU64>,
}

impl Followed {
    /// Returns the number of seconds that agents get to finish when the daemon stops.
    pub(crate) fn grace_s(&self) -> u64 {
        self.grace_s.load(Ordering::Relaxed)
    }
}

/// Access to the settings for a reload.
pub(crate) struct Files<'a> {
    /// Loads the settings as they are now.
    pub(crate) load: Box<dyn Fn() -> anyhow::Result<Loaded> + 'a>,
    /// Formats an error in the settings, with everything that a person needs to know.
    pub(crate) words: fn(&anyhow::Error) -> String,
}

/// Runs the daemon until a signal (`remand run`). SIGHUP makes it reload its settings.
pub(crate) fn serve(mut loaded: Loaded, front: Front<'_>) -> anyhow::Result<()> {
    let bounds = Bounds::new(loaded.config.dispatch.stop_grace_s);
    bounds.watch_from_outside()?;
    let served = bounds.block_on(async {
        // Before anything else: a signal during the start must also shut the daemon down cleanly.
        let signals = StopSignals::listen([SignalKind::terminate(), SignalKind::interrupt()])?;
        let stop = signals.stop();
        bounds.set_stop(&stop);
        let mut calls = Calls::listen()?;
        let supervisor = Arc::new(Supervisor::new(&config::supervision()));
        bounds.set_supervisor(&supervisor);
        let _lock = lock::take(&loaded.blackboard).await?;
        let host = Host {
            program: program::kept(&loaded.blackboard)?,
            write_remedy: front.write_remedy.unwrap_or(WRITE_REMEDY.to_owned()),
        };
        let mut daemon = Daemon::assemble_with(&loaded, host)?;
        bounds.set_door(daemon.db());
        watchdog_report::report(daemon.db(), Record::left_over(&loaded.blackboard)).await?;
        let recorded = Arc::new(Record::own(supervisor.is_there())?.publish(&loaded.blackboard)?);
        daemon.look_at_git().await?;
        daemon.set_shadows().await?;
        daemon.warn_of_what_is_in_the_way().await?;
        daemon.put_in_force(&loaded).await?;
        let mut watch = Watch::of(&loaded);
        let mut running = Running::begin(&daemon, stop.clone());
        let status = daemon.db().read(sd_notify::status).await?;
        (front.ready)();
        supervisor.tell(News::Ready, &status);
        let watched = daemon.watched(Arc::clone(&supervisor), Arc::clone(&recorded), stop.clone());
        watched.reopen();
        let (shower, db, beats) = (
            Arc::clone(&supervisor),
            daemon.db().clone(),
            daemon.lasting.beats.subscribe(),
        );
        let until = stop.clone();
        watched.spawn(async move { shower.show_work(db, beats, status, until).await });
        watched.close();
        let ended = CancellationToken::new();
        let followed = Followed {
            db: daemon.db().clone(),
            stop: stop.clone(),
            ended: ended.clone(),
            grace_s: bounds.grace_s(),
        };
        let followers = TaskTracker::new();
        followers.spawn((front.follow)(followed));
        followers.close();
        loop {
            let wake = Arc::clone(&daemon.lasting.wake_configuration);
            let call = calls.next(&wake, &stop).await;
            match call {
                Call::Stop => break,
                Call::Terminal => stop.cancel(),
                Call::Hangup => supervisor.tell(News::Reloading, "reloading the configuration"),
                Call::Wake | Call::Look => {}
            }
            let Some(order) = daemon.order(call, &mut watch).await else {
                continue;
            };
            let said = match reload::reload(&daemon, &loaded, &front.files, order).await {
                Ok(Reload::Applied(applied)) => {
                    let Applied {
                        daemon: next,
                        loaded: settings,
                        event,
                        request,
                    } = *applied;
                    (daemon, loaded) = (next, settings);
                    watch = Watch::of(&loaded);
                    bounds.set_grace(loaded.config.dispatch.stop_grace_s);
                    daemon.set_shadows().await?;
                    running.go_on_as(&daemon, &loaded, event, request).await;
                    "configuration reloaded"
                }
                Ok(Reload::Refused(fingerprint)) => {
                    watch.refused(fingerprint);
                    "configuration rejected, the previous one remains in effect: see the log"
                }
                Ok(Reload::Unstable) => continue,
                Err(error) => {
                    tracing::error!(error = ?error, "cannot apply the configuration");
                    "configuration not applied: see the log"
                }
            };
            if call == Call::Hangup {
                supervisor.tell(News::Ready, said);
            }
        }
        supervisor.tell(News::Stopping, "stopping: waiting for running agents");
        running.end().await;
        watched.wait().await;
        ended.cancel();
        followers.wait().await;
        drop(recorded);
        Ok(())
    });
    served.map(Option::unwrap_or_default)
}

impl Daemon {
    /// Warns at the start about everything that prevents work: otherwise nothing would run and
    /// nobody would know why.
    async fn warn_of_what_is_in_the_way(&self) -> anyhow::Result<()> {
        if let Err(why) = self.dispatch.settings.sandbox.way().await {
            tracing::warn!("nothing will run without a sandbox: {why}");
        }
        for stop in self.db().read(bb::stops).await? {
            let project = stop
                .project_id
                .map_or("everything".to_owned(), |id| id.to_string());
            tracing::warn!(%project, by = ?stop.stopped_by, reason = ?stop.reason, "stopped until `remand start`");
        }
        Ok(())
    }

    /// Returns the order to reload the configuration, with its cause, if the call leads to one.
    async fn order(&self, call: Call, watch: &mut Watch) -> Option<Order> {
        let because = |cause| Order {
            cause,
            request: None,
            stable: None,
        };
        match call {
            Call::Stop | Call::Terminal => None,
            Call::Hangup => Some(because(Cause::Signal)),
            Call::Wake => {
                let open = self.db().read(bb::open_request).await;
                let request = open.unwrap_or_else(|error| {
                    tracing::error!(error = ?error, "cannot read reload requests");
                    None
                })?;
                Some(Order {
                    request: Some(request),
                    ..because(Cause::Request)
                })
            }
            Call::Look => match watch.look().await {
                FileState::Stable(fingerprint) => Some(Order {
                    stable: Some(fingerprint),
                    ..because(Cause::Noticed)
                }),
                FileState::Back => {
                    watch.begins_anew();
                    self.is_back().await;
                    None
                }
                FileState::Nothing => {
                    if watch.is_fresh() {
                        self.resume_held().await;
                    }
                    None
                }
            },
        }
    }

    /// Puts the configuration that this daemon starts with in effect.
    async fn put_in_force(&self, loaded: &Loaded) -> anyhow::Result<()> {
        let in_force = self.in_force(loaded);
        let step = move |conn: &bb::Conn| {
            let now = clock::now();
            bb::put_in_force(conn, &in_force, now)?;
            resume_held(conn, "the configuration was reloaded", now)
        };
        Ok(self.db().write("put_in_force", step).await?)
    }

    fn in_force(&self, loaded: &Loaded) -> bb::InForce {
        bb::InForce {
            holder: self.dispatch.holder.clone(),
            file: loaded.file_text(),
            hash: loaded.sources.fingerprint(),
            settings: loaded.values(),
        }
    }

    /// Handles an edit that was undone: the files match the settings in effect again.
    async fn is_back(&self) {
        tracing::info!("the configuration files match the configuration in effect again");
        let back = self.db().write("settings_back", |conn| {
            bb::note_changed(conn, None)?;
            let why = "the change to the configuration was undone";
            resume_held(conn, why, clock::now())
        });
        if let Err(error) = back.await {
            tracing::error!(error = ?error, "cannot resume changes that are held because of the configuration");
        }
    }

    /// Resumes changes that are held for the configuration. A fix that saw a changed file just
    /// before it came into force may be put on hold just after.
    async fn resume_held(&self) {
        let is_held = |conn: &bb::Conn| bb::any_held_for(conn, HoldKind::Configuration);
        if !self.db().read(is_held).await.unwrap_or(false) {
            return;
        }
        let why = "the configuration is in effect";
        let resume = |conn: &bb::Conn| {
            bb::resume_held_for(conn, HoldKind::Configuration, why, clock::now()).map(drop)
        };
        if let Err(error) = self.db().write("resume", resume).await {
            tracing::error!(error = ?error, "cannot resume changes that are held because of the configuration");
        }
        self.lasting.wake_dispatch.notify_one();
    }

    fn watched(
        &self,
        supervisor: Arc<Supervisor>,
        recorded: Arc<Recorded>,
        stop: CancellationToken,
    ) -> TaskTracker {
        let pulse = Pulse {
            db: self.db().clone(),
            wake_heartbeat: Arc::clone(&self.lasting.wake_heartbeat),
            beats: self.lasting.beats.subscribe(),
        };
        let tracker = TaskTracker::new();
        tracker.spawn(async move { supervisor.keep_alive(pulse, recorded, stop).await });
        tracker.close();
        tracker
    }
}

/// Ends the holds that other settings may resolve.
fn resume_held(conn: &bb::Conn, why: &str, now: clock::Time) -> bb::Result<()> {
    bb::resume_held_for(conn, HoldKind::NoAgent, why, now)?;
    bb::resume_held_for(conn, HoldKind::Configuration, why, now).map(drop)
}

/// Pause between two ticks of a command that waits for a change.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Runs `remand tick`.
pub(crate) fn tick(loaded: &Loaded) -> anyhow::Result<Done> {
    until_done(loaded, async |daemon, stop| {
        daemon.tick(&stop, &CancellationToken::new()).await
    })
}

/// Runs `remand work`.
pub(crate) fn work(loaded: &Loaded) -> anyhow::Result<Done> {
    until_done(loaded, async |daemon, stop| daemon.work(&stop).await)
}

/// Ticks until `follow` returns, which watches the blackboard meanwhile. Running items are allowed to finish. While a
/// daemon is running, it does the work. Returns `None` after a signal.
pub(crate) fn tick_until<T>(
    loaded: &Loaded,
    follow: impl AsyncFnOnce(&Db) -> anyhow::Result<T>,
) -> anyhow::Result<Option<T>> {
    until_done(loaded, async |daemon, stop| {
        let ended = CancellationToken::new();
        let work = async {
            while !ended.is_cancelled() && !stop.is_cancelled() {
                if holder(&loaded.blackboard).is_none() {
                    daemon.tick(&stop, &ended).await?;
                }
                tokio::select! {
                    () = tokio::time::sleep(LOOK_AGAIN) => {}
                    () = ended.cancelled() => {}
                    () = stop.cancelled() => {}
                }
            }
            Ok(())
        };
        let watch = async {
            let followed = unless_stopped(follow(daemon.db()), &stop).await;
            ended.cancel();
            followed
        };
        let ((), followed) = tokio::try_join!(work, watch)?;
        Ok(followed)
    })
}

/// Interval between two checks for work in a worktree.
const LOOK_IN: Duration = Duration::from_millis(100);

/// Waits until nothing is working in the worktree of a change that a person took over, and ends what a dead process
/// left there. Returns false if that takes too long.
pub(crate) fn settle_takeover(
    loaded: &Loaded,
    id: &ChangeId,
    patience: Duration,
) -> anyhow::Result<bool> {
    runtime()?.block_on(async {
        let daemon = Daemon::assemble(loaded)?;
        let begun = tokio::time::Instant::now();
        loop {
            if daemon.dispatch.settle_takeover(id).await? {
                return Ok(true);
            }
            if begun.elapsed() >= patience {
                return Ok(false);
            }
            tokio::time::sleep(LOOK_IN).await;
        }
    })
}

/// Returns the head of a branch on the remote; `None` if the remote has no such branch, or if git settings that nobody
/// has accepted would decide where credentials go.
pub(crate) fn remote_head(
    loaded: &Loaded,
    project: &bb::Project,
    branch: &str,
) -> anyhow::Result<Option<String>> {
    runtime()?.block_on(async {
        let daemon = Daemon::assemble(loaded)?;
        let Some(remote) = daemon.dispatch.settings.forge.remote(project) else {
            return Ok(None);
        };
        remote.ready().await?;
        let settings = remote.push_settings().await?;
        let known = daemon
            .db()
            .read(move |conn| bb::may_use_git_settings(conn, &settings.fingerprint));
        if !known.await? {
            return Ok(None);
        }
        Ok(remote.head_of(branch).await?)
    })
}

/// Follows the blackboard without doing any work. Returns `None` after a signal.
pub(crate) fn follow_until<T>(
    loaded: &Loaded,
    follow: impl AsyncFnOnce(&Db) -> anyhow::Result<T>,
) -> anyhow::Result<Option<T>> {
    let db = Db::open(&loaded.blackboard, clock::now())?;
    runtime()?.block_on(async {
        let signals = StopSignals::listen([SignalKind::terminate(), SignalKind::interrupt()])?;
        unless_stopped(follow(&db), &signals.stop()).await
    })
}

async fn unless_stopped<T>(
    work: impl Future<Output = anyhow::Result<T>>,
    stop: &CancellationToken,
) -> anyhow::Result<Option<T>> {
    tokio::select! {
        done = work => done.map(Some),
        () = stop.cancelled() => Ok(None),
    }
}

/// Runs work that ends by itself, with the limits of the daemon.
fn until_done<T>(
    loaded: &Loaded,
    work: impl AsyncFnOnce(&Daemon, CancellationToken) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let bounds = Bounds::new(loaded.config.dispatch.stop_grace_s);
    let done = bounds.block_on(async {
        let signals = StopSignals::listen([
            SignalKind::terminate(),
            SignalKind::interrupt(),
            // The loss of the terminal of a short-lived command.
            SignalKind::hangup(),
        ])?;
        let stop = signals.stop();
        bounds.set_stop(&stop);
        let daemon = Daemon::assemble(loaded)?;
        bounds.set_door(daemon.db());
        daemon.look_at_git().await?;
        daemon.set_shadows_if_alone(loaded).await?;
        daemon.resume_if_alone(loaded).await?;
        let done = work(&daemon, stop).await;
        // The work may have ended because nothing could be written any more.
        daemon.db().check()?;
        done
    })?;
    done.context("stopped before all work was finished")
}

pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    // The work is done by child processes and SQLite's own threads: two workers are enough.
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")
}

#[expect(
    clippy::exit,
    reason = "requested twice by a person; every step can be interrupted safely"
)]
fn end_at_once() {
    std::process::exit(1);
}
