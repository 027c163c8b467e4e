//! Puts the rooms together and keeps them running: the daemon, one tick, or what is queued. It decides nothing itself.

mod assemble;
mod lock;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::blackboard::{self as bb, Door};
use crate::config::Loaded;
use crate::dispatch::Dispatch;
use crate::evaluator::Definition;
use crate::git::Git;
use crate::heartbeat::{self, Beat};
use crate::intake::Intake;
use crate::wake;

pub(crate) use assemble::{agent, intake, sandbox};
pub(crate) use lock::{AlreadyRunning, holder};

/// The loops of one blackboard, put together and not yet running.
pub(crate) struct Daemon {
    door: Door,
    definitions: Arc<[Definition]>,
    intake: Arc<Intake>,
    wake_intake: Arc<Notify>,
    dispatch: Arc<Dispatch>,
    wake_heartbeat: Arc<Notify>,
    wake_dispatch: Arc<Notify>,
    look_every: Duration,
    /// Looked at before anything runs: one that is too old or missing is said at once.
    git: Git,
}

impl Daemon {
    pub(crate) fn door(&self) -> &Door {
        &self.door
    }

    /// Runs until `stop`, then stops in order: nothing more is read, no more events are taken in, then dispatch gives
    /// back what runs.
    pub(crate) async fn run(&self, stop: CancellationToken) {
        let tracker = TaskTracker::new();
        let heartbeat_stop = CancellationToken::new();
        let wake_posts = Arc::new(Notify::new());
        let wakes =
            [&self.wake_intake, &self.wake_heartbeat, &self.wake_dispatch, &wake_posts].map(Arc::clone).to_vec();
        let reading = TaskTracker::new();
        reading.spawn(Arc::clone(&self.intake).run(Arc::clone(&self.wake_intake), stop.clone()));
        reading.close();
        tracker.spawn(wake::listen(self.door.clone(), self.look_every, wakes, heartbeat_stop.clone()));
        let heartbeat = heartbeat::run(
            self.door.clone(),
            Arc::clone(&self.definitions),
            Arc::clone(&self.wake_heartbeat),
            Arc::clone(&self.wake_dispatch),
            heartbeat_stop.clone(),
        );
        tracker.spawn(heartbeat);
        let dispatch = Arc::clone(&self.dispatch);
        tracker.spawn(Arc::clone(&dispatch).run_posts(wake_posts, stop.clone()));
        tracker.spawn(dispatch.run(Arc::clone(&self.wake_dispatch), stop.clone()));
        tracker.close();
        stop.cancelled().await;
        reading.wait().await;
        heartbeat_stop.cancel();
        tracker.wait().await;
    }

    /// What is due is read, one heartbeat, then dispatch until nothing is left that is due, and again while any of them
    /// found something.
    pub(crate) async fn tick(&self, stop: &CancellationToken) -> anyhow::Result<Done> {
        let mut done = Done::default();
        self.dispatch.settle_pushes().await.context("pushes that were cut could not be looked for")?;
        while !stop.is_cancelled() {
            let read = self.intake.pass(stop).await.context("intake failed")?;
            let beat = heartbeat::pass(&self.door, &self.definitions).await.context("the heartbeat failed")?;
            let mut ran = self.dispatch.drain(stop).await;
            ran += self.dispatch.post_due(stop).await.context("posting failed")?;
            done.applied += beat.applied;
            done.ran += ran;
            if read.is_quiet() && beat == Beat::default() && ran == 0 {
                break;
            }
        }
        Ok(done)
    }

    /// Runs what is queued, without any heartbeat.
    pub(crate) async fn work(&self, stop: &CancellationToken) -> Done {
        Done { applied: 0, ran: self.dispatch.drain(stop).await }
    }
}

/// What a tick did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Done {
    pub(crate) applied: usize,
    pub(crate) ran: usize,
}

/// `remand run`: the daemon, until a signal. `ready` is told once it works.
pub(crate) fn serve(loaded: &Loaded, ready: impl FnOnce()) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        // First of all: a signal that comes while it starts ends it in good order too.
        let stop = stop_on_signal()?;
        let _lock = lock::take(&loaded.blackboard).await?;
        let daemon = Daemon::assemble(loaded)?;
        daemon.git.version().await?;
        if let Err(why) = daemon.dispatch.settings.sandbox.way().await {
            tracing::warn!("nothing will run without its sandbox: {why}");
        }
        for stop in daemon.door.read(bb::stops).await? {
            let project = stop.project_id.map_or("everything".to_owned(), |id| id.to_string());
            tracing::warn!(%project, by = ?stop.stopped_by, reason = ?stop.reason, "stopped until `remand start`");
        }
        ready();
        daemon.run(stop).await;
        Ok(())
    })
}

/// `remand tick`.
pub(crate) fn tick(loaded: &Loaded) -> anyhow::Result<Done> {
    runtime()?.block_on(async {
        let daemon = Daemon::assemble(loaded)?;
        daemon.git.version().await?;
        daemon.tick(&stop_on_signal()?).await
    })
}

/// `remand work`.
pub(crate) fn work(loaded: &Loaded) -> anyhow::Result<Done> {
    runtime()?.block_on(async {
        let daemon = Daemon::assemble(loaded)?;
        daemon.git.version().await?;
        Ok(daemon.work(&stop_on_signal()?).await)
    })
}

pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    // The work is in children and in SQLite's own threads: two workers are plenty.
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("the runtime can't be started")
}

/// Cancelled by the first SIGTERM, SIGINT or SIGHUP. A second one ends the program at once: the shims end the agents.
fn stop_on_signal() -> anyhow::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let token = stop.clone();
    let mut signals = [
        signal(SignalKind::terminate()).context("SIGTERM can't be listened for")?,
        signal(SignalKind::interrupt()).context("SIGINT can't be listened for")?,
        signal(SignalKind::hangup()).context("SIGHUP can't be listened for")?,
    ];
    let wait = async move {
        for round in 0..2 {
            let [term, int, hup] = &mut signals;
            tokio::select! { _ = term.recv() => {}, _ = int.recv() => {}, _ = hup.recv() => {} }
            if round == 0 {
                tracing::info!("stopping");
                token.cancel();
            }
        }
        tracing::warn!("stopped at once by a second signal");
        end_at_once();
    };
    drop(tokio::runtime::Handle::current().spawn(wait));
    Ok(stop)
}

#[expect(clippy::exit, reason = "a person said it twice; every step of ours survives being cut")]
fn end_at_once() {
    std::process::exit(1);
}
