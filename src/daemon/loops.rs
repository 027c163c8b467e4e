//! Runs the loops. On new settings, the loops that hold nothing are restarted; dispatch keeps its
//! running items and uses the new settings from the next item on.

use std::sync::Arc;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Daemon, resume_held};
use crate::blackboard as bb;
use crate::clock;
use crate::config::Loaded;
use crate::dispatch::Dispatch;
use crate::event::NewEvent;
use crate::heartbeat::Heartbeat;
use crate::heartbeat::command::Commands;
use crate::wake;

pub(super) struct Running {
    stop: CancellationToken,
    /// Ends the wake-ups; cancelled once nothing more is read.
    wakes_stop: CancellationToken,
    wake_posts: Arc<Notify>,
    /// Tasks that live as long as the daemon.
    lasting: TaskTracker,
    dispatch: watch::Sender<Arc<Dispatch>>,
    round: Round,
}

/// Loops that are restarted when the settings change.
struct Round {
    stop: CancellationToken,
    heartbeat_stop: CancellationToken,
    /// Intake and posts, which may wait a long time for the forge; and upkeep.
    forge: TaskTracker,
    heartbeat: TaskTracker,
}

impl Running {
    pub(super) fn begin(daemon: &Daemon, stop: CancellationToken) -> Self {
        let (dispatch, next) = watch::channel(Arc::clone(&daemon.dispatch));
        let (wakes_stop, lasting) = (CancellationToken::new(), TaskTracker::new());
        let (wake_posts, known) = (Arc::new(Notify::new()), &daemon.lasting);
        let wakes = [
            &known.wake_intake,
            &known.wake_heartbeat,
            &known.wake_dispatch,
            &known.wake_commands,
            &known.wake_configuration,
            &known.wake_upkeep,
            &wake_posts,
        ];
        let (wakes, db) = (wakes.map(Arc::clone).to_vec(), known.db.clone());
        lasting.spawn(wake::listen(
            db,
            daemon.look_every,
            wakes,
            wakes_stop.clone(),
        ));
        let wake = Arc::clone(&known.wake_dispatch);
        lasting.spawn(Dispatch::run(next, wake, stop.clone()));
        let round = Round::begin(daemon, &wake_posts, &stop);
        Self {
            stop,
            wakes_stop,
            wake_posts,
            lasting,
            dispatch,
            round,
        }
    }

    /// Continues with the settings of `daemon`, which has the same blackboard. Running agents are
    /// not interrupted.
    pub(super) async fn go_on_as(
        &mut self,
        daemon: &Daemon,
        loaded: &Loaded,
        event: NewEvent,
        request: Option<i64>,
    ) {
        let latest = Arc::clone(&daemon.dispatch.settings);
        daemon.lasting.latest.send_replace(latest);
        self.dispatch.send_replace(Arc::clone(&daemon.dispatch));
        let in_force = daemon.in_force(loaded);
        // Only now: before, waiting items would have been claimed under the old settings.
        let written = daemon.lasting.db.write("reloaded", move |conn| {
            let now = clock::now();
            let event = bb::append(conn, &event, now)?;
            bb::put_in_force(conn, &in_force, now)?;
            resume_held(conn, "the configuration was reloaded", now)?;
            request.map_or(Ok(()), |request| bb::answer_reload(conn, request, event))
        });
        if let Err(error) = written.await {
            tracing::error!(error = ?error, "cannot record the configuration in effect");
        }
        daemon.lasting.wake_dispatch.notify_one();
        self.round.end().await;
        self.round = Round::begin(daemon, &self.wake_posts, &self.stop);
    }

    /// Stops in order, once `stop` is cancelled: first reading and posting, then taking in events,
    /// then dispatch, which releases its running items.
    pub(super) async fn end(self) {
        self.round.end().await;
        self.wakes_stop.cancel();
        self.lasting.close();
        self.lasting.wait().await;
    }
}

impl Round {
    fn begin(daemon: &Daemon, wake_posts: &Arc<Notify>, stop: &CancellationToken) -> Self {
        let (stop, heartbeat_stop) = (stop.child_token(), CancellationToken::new());
        let (forge, beating) = (TaskTracker::new(), TaskTracker::new());
        forge.spawn(
            Arc::clone(&daemon.intake).run(Arc::clone(&daemon.lasting.wake_intake), stop.clone()),
        );
        let heartbeat = Heartbeat {
            db: daemon.lasting.db.clone(),
            definitions: Arc::clone(&daemon.definitions),
            wake: Arc::clone(&daemon.lasting.wake_heartbeat),
            after: Arc::clone(&daemon.lasting.wake_dispatch),
            beats: Arc::clone(&daemon.lasting.beats),
        };
        beating.spawn(heartbeat.run(heartbeat_stop.clone()));
        let commands = Commands {
            db: daemon.lasting.db.clone(),
            definitions: Arc::clone(&daemon.definitions),
            kit: Arc::clone(&daemon.kit),
            wake: Arc::clone(&daemon.lasting.wake_commands),
            after: Arc::clone(&daemon.lasting.wake_heartbeat),
        };
        beating.spawn(commands.run(heartbeat_stop.clone()));
        forge.spawn(Arc::clone(&daemon.dispatch).run_posts(Arc::clone(wake_posts), stop.clone()));
        let wake = Arc::clone(&daemon.lasting.wake_upkeep);
        forge.spawn(daemon.upkeep().run(wake, stop.clone()));
        forge.close();
        beating.close();
        Self {
            stop,
            heartbeat_stop,
            forge,
            heartbeat: beating,
        }
    }

    /// Ends the loops, the heartbeat last: the watchdog depends on it, and waiting for the forge
    /// can take longer than the watchdog allows.
    async fn end(&self) {
        self.stop.cancel();
        self.forge.wait().await;
        self.heartbeat_stop.cancel();
        self.heartbeat.wait().await;
    }
}
