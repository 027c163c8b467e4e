//! Notifies the supervisor that started the daemon (systemd): when the daemon is ready, what it is
//! doing, and that it is alive. Works without a supervisor, and never blocks the work.

use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::daemon_record::Recorded;
use crate::blackboard::{self as bb, Conn, Db};
use crate::clock::{self, Time};
use crate::config::Supervision;

/// Notification, as defined in sd_notify(3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    Ready,
    Reloading,
    Stopping,
    Alive,
    /// Only the line for `systemctl status`.
    Status,
}

pub(super) struct Supervisor {
    way: Option<(UnixDatagram, SocketAddr)>,
    /// Maximum time between two notifications of the watchdog.
    watchdog: Option<Duration>,
}

/// Evidence that the daemon works.
pub(super) struct Pulse {
    pub(super) db: Db,
    pub(super) wake_heartbeat: Arc<Notify>,
    /// Number of heartbeat passes that succeeded.
    pub(super) beats: watch::Receiver<u64>,
}

impl Supervisor {
    pub(super) fn new(asked: &Supervision) -> Self {
        let way = asked.socket.as_ref().and_then(|socket| match way(socket) {
            Ok(way) => Some(way),
            Err(error) => {
                tracing::warn!(socket = ?socket, error = ?error, "cannot use NOTIFY_SOCKET: the supervisor gets no notifications");
                None
            }
        });
        Self {
            way,
            watchdog: asked.watchdog,
        }
    }

    pub(super) fn is_there(&self) -> bool {
        self.way.is_some()
    }

    pub(super) fn tell(&self, news: News, status: &str) {
        let Some((socket, address)) = &self.way else {
            return;
        };
        let what = match news {
            News::Ready => "READY=1".to_owned(),
            // systemd uses the time to match the READY=1 that follows to its reload.
            News::Reloading => format!("RELOADING=1\nMONOTONIC_USEC={}", clock::monotonic_usec()),
            News::Stopping => "STOPPING=1".to_owned(),
            News::Alive => "WATCHDOG=1".to_owned(),
            News::Status => String::new(),
        };
        // Always a single line.
        let status: String = status
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .take(500)
            .collect();
        let message = format!("{what}\nSTATUS={status}\n");
        let message = message.trim_start();
        if let Err(error) = socket.send_to_addr(message.as_bytes(), address) {
            tracing::warn!(news = ?news, error = ?error, "cannot notify the supervisor");
        }
    }

    /// Keeps the status line up to date. Each pass of the heartbeat follows a commit.
    pub(super) async fn show_work(
        &self,
        db: Db,
        mut beats: watch::Receiver<u64>,
        mut shown: String,
        stop: CancellationToken,
    ) {
        let work = async {
            while beats.changed().await.is_ok() {
                // If the read fails, it is repeated after the next pass.
                if let Ok(now) = db.read(status).await
                    && now != shown
                {
                    self.tell(News::Status, &now);
                    shown = now;
                }
            }
        };
        if self.is_there() {
            tokio::select! { () = work => {}, () = stop.cancelled() => {} }
        }
    }

    /// Notifies the watchdog as often as required, but only while the daemon works: before each
    /// notification, the heartbeat must make a new pass and the blackboard must accept a write.
    pub(super) async fn keep_alive(
        &self,
        mut pulse: Pulse,
        recorded: Arc<Recorded>,
        stop: CancellationToken,
    ) {
        // Three times per limit, so that a late one does no harm.
        let Some(every) = self.watchdog.map(|limit| limit / 3) else {
            return;
        };
        let work = async {
            let mut silence = Silence {
                recorded: &recorded,
                heard_at: clock::now(),
                is_silent: false,
            };
            loop {
                tokio::time::sleep(every).await;
                let status = {
                    let felt = pulse.felt();
                    tokio::pin!(felt);
                    tokio::select! {
                        status = &mut felt => status,
                        // Keep waiting: queueing the write again would only take longer.
                        () = silence.note_after(every * 2) => felt.await,
                    }
                };
                let Some(status) = status else { continue };
                silence.is_over();
                self.tell(News::Alive, &status);
            }
        };
        tokio::select! { () = work => {}, () = stop.cancelled() => {} }
    }
}

/// Records that the watchdog is no longer notified, before it ends this process without a message.
struct Silence<'a> {
    recorded: &'a Recorded,
    heard_at: Time,
    is_silent: bool,
}

impl Silence<'_> {
    /// Waits, records the missing notification, then returns.
    async fn note_after(&mut self, wait: Duration) {
        tokio::time::sleep(wait).await;
        if !self.is_silent {
            self.is_silent = true;
            self.recorded.set_silent(Some(self.heard_at));
            tracing::error!(since = %self.heard_at, "the daemon is not responding: the watchdog will terminate it soon");
        }
    }

    fn is_over(&mut self) {
        self.heard_at = clock::now();
        if std::mem::take(&mut self.is_silent) {
            self.recorded.set_silent(None);
        }
    }
}

impl Pulse {
    /// Returns the status line if the daemon works.
    async fn felt(&mut self) -> Option<String> {
        self.beats.mark_unchanged();
        self.wake_heartbeat.notify_one();
        self.beats.changed().await.ok()?;
        // A write that changes nothing: reads succeed even under a lock that blocks all writers.
        let felt = self.db.write("pulse", status).await;
        felt.map_err(
            |error| tracing::error!(error = ?error, "cannot write to the blackboard: not notifying the watchdog"),
        )
        .ok()
    }
}

/// Returns one line for `systemctl status`.
pub(super) fn status(conn: &Conn) -> bb::Result<String> {
    let at_work = match bb::claimed_items(conn)? {
        0 => "idle".to_owned(),
        1 => "1 item running".to_owned(),
        n => format!("{n} items running"),
    };
    let stops = bb::stops(conn)?.into_iter().map(|stop| {
        stop.project_id
            .map_or("; everything is stopped".to_owned(), |id| {
                format!("; {id} is stopped")
            })
    });
    Ok(at_work + &stops.collect::<String>())
}

fn way(socket: &str) -> io::Result<(UnixDatagram, SocketAddr)> {
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    Ok((sender, address(socket)?))
}

fn address(socket: &str) -> io::Result<SocketAddr> {
    match socket.strip_prefix('@') {
        Some(name) => in_no_folder(name),
        None if socket.starts_with('/') => SocketAddr::from_pathname(socket),
        None => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "neither an absolute path nor an abstract name",
        )),
    }
}

#[cfg(target_os = "linux")]
fn in_no_folder(name: &str) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt as _;
    SocketAddr::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn in_no_folder(_name: &str) -> io::Result<SocketAddr> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "abstract names are supported on Linux only",
    ))
}
