//! Ends the program: cleanly if possible, in time in any case, and immediately if the blackboard
//! that it works on is gone.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::sd_notify::{News, Supervisor};
use crate::blackboard::{BoardError, Db};
use crate::process;

/// Time after `stop_grace_s` for agents that ignore the stop, and for git in their worktrees.
const AFTER_GRACE: Duration = Duration::from_millis(3_000);
/// Time after `stop_grace_s` at which the program is ended even if the runtime does not respond.
const AT_LAST: Duration = Duration::from_millis(4_300);
/// Time for tasks that still wait for a disk when all others have been dropped.
const TASKS_END: Duration = Duration::from_millis(500);
/// Interval between two checks of the blackboard's files.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Interval between two checks for orphans that have ended.
const REAP_EVERY: Duration = Duration::from_secs(10);

/// Limits on the work of one program. Each part is set once it is known.
pub(super) struct Bounds {
    /// `stop_grace_s`; a reload may change it.
    grace_s: Arc<AtomicU64>,
    stop: watch::Sender<Option<CancellationToken>>,
    db: watch::Sender<Option<Db>>,
    supervisor: watch::Sender<Option<Arc<Supervisor>>>,
}

impl Bounds {
    pub(super) fn new(stop_grace_s: u64) -> Self {
        let grace_s = Arc::new(AtomicU64::new(stop_grace_s));
        Self {
            grace_s,
            stop: watch::Sender::default(),
            db: watch::Sender::default(),
            supervisor: watch::Sender::default(),
        }
    }

    pub(super) fn grace_s(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.grace_s)
    }

    pub(super) fn set_grace(&self, stop_grace_s: u64) {
        self.grace_s.store(stop_grace_s, Ordering::Relaxed);
    }

    pub(super) fn set_stop(&self, stop: &CancellationToken) {
        self.stop.send_replace(Some(stop.clone()));
    }

    pub(super) fn set_door(&self, db: &Db) {
        self.db.send_replace(Some(db.clone()));
    }

    pub(super) fn set_supervisor(&self, supervisor: &Arc<Supervisor>) {
        self.supervisor.send_replace(Some(Arc::clone(supervisor)));
    }

    /// Runs the work on its own runtime. Returns `None` if it did not stop in time. The rest of the
    /// work is dropped, and its children are ended.
    pub(super) fn block_on<T>(
        &self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<Option<T>> {
        process::adopt_orphans()?;
        let runtime = super::runtime()?;
        let done = runtime.block_on(async {
            tokio::select! {
                done = work => done.map(Some),
                never = reap() => match never {},
                error = self.vanished() => {
                    tracing::error!("{error}");
                    if let Some(supervisor) = &*self.supervisor.borrow() {
                        supervisor.tell(News::Stopping, &error.to_string());
                    }
                    Err(error.into())
                }
                () = self.overdue() => {
                    tracing::warn!("stopped before all work was finished; it continues at the next start");
                    Ok(None)
                }
            }
        });
        runtime.shutdown_timeout(TASKS_END);
        process::end_children();
        done
    }

    async fn overdue(&self) {
        set(&self.stop).await.cancelled().await;
        tokio::time::sleep(grace(&self.grace_s) + AFTER_GRACE).await;
    }

    /// Returns once the files of the blackboard are no longer those that were opened.
    async fn vanished(&self) -> BoardError {
        let db = set(&self.db).await;
        loop {
            if let Err(error) = db.check() {
                // The writer saves what can be saved, and reports the same error.
                drop(db.write("vanished", |_| Ok(())).await);
                return error;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Ends the program some time after the first signal, whatever its runtime is waiting for. Runs
    /// on a separate thread.
    pub(super) fn watch_from_outside(&self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the stop thread's async runtime")?;
        let grace_s = Arc::clone(&self.grace_s);
        let watch = move || {
            runtime.block_on(async {
                let (Ok(mut terminate), Ok(mut interrupt)) = (
                    signal(SignalKind::terminate()),
                    signal(SignalKind::interrupt()),
                ) else {
                    return tracing::warn!("cannot listen for signals outside the runtime");
                };
                tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
                tokio::time::sleep(grace(&grace_s) + AT_LAST).await;
                tracing::error!("not stopped in time, exiting");
                process::end_children();
                super::end_at_once();
            });
        };
        std::thread::Builder::new()
            .name("stop".into())
            .spawn(watch)
            .map(drop)
            .context("cannot start the stop thread")
    }
}

/// Reaps adopted orphans that have ended.
async fn reap() -> Infallible {
    loop {
        tokio::time::sleep(REAP_EVERY).await;
        process::reap_adopted();
    }
}

fn grace(seconds: &AtomicU64) -> Duration {
    Duration::from_secs(seconds.load(Ordering::Relaxed))
}

/// Waits until a part is known.
async fn set<T: Clone>(part: &watch::Sender<Option<T>>) -> T {
    let mut known = part.subscribe();
    let found = known
        .wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|found| found.clone());
    match found {
        Some(found) => found,
        // Unreachable: the sender is borrowed, so it is not dropped during the wait.
        None => std::future::pending().await,
    }
}
