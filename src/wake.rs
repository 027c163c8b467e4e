//! Wake-ups: signals that something was committed. A wake-up carries no data and may be spurious.
//! The loops use it to react quickly; their correctness never depends on it.

use std::io;
use std::os::unix::net::UnixDatagram as StdDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixDatagram;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::blackboard::Db;

/// Notifies the daemon of this blackboard, if there is one, that something was committed.
pub(crate) fn poke(blackboard: &Path) {
    let sent = StdDatagram::unbound().and_then(|socket| {
        socket.set_nonblocking(true)?;
        socket.send_to(&[], socket_path(blackboard))
    });
    if let Err(error) = sent {
        // There is no daemon, or it is waking up already.
        tracing::debug!(error = ?error, "no daemon to wake");
    }
}

/// True if a daemon of this blackboard listens for wake-ups. Does not wake it.
pub(crate) fn is_heard(blackboard: &Path) -> bool {
    StdDatagram::unbound().is_ok_and(|socket| socket.connect(socket_path(blackboard)).is_ok())
}

/// Returns the path of the socket on which the daemon of this blackboard listens.
pub(crate) fn socket_path(blackboard: &Path) -> PathBuf {
    beside(blackboard, "wake")
}

/// Returns the path of a file beside the blackboard: `blackboard.db` → `blackboard.db.NAME`.
pub(crate) fn beside(blackboard: &Path, name: &str) -> PathBuf {
    let mut path = blackboard.as_os_str().to_owned();
    path.push(".");
    path.push(name);
    PathBuf::from(path)
}

/// Wakes `loops` whenever any process commits: on a datagram, on a file system notification or, if
/// both fail, on a check every `every`.
pub(crate) async fn listen(
    db: Db,
    every: Duration,
    loops: Vec<Arc<Notify>>,
    stop: CancellationToken,
) {
    let socket = match bind(db.path()) {
        Ok(socket) => Some(socket),
        Err(error) => {
            tracing::warn!(error = ?error, "no wake socket, relying on file system notifications");
            None
        }
    };
    let mut watch = Watch::new(db.path(), every);
    let mut seen = None;
    while !stop.is_cancelled() {
        let is_poked = tokio::select! {
            () = poked(socket.as_ref()) => true,
            () = watch.next() => false,
            () = stop.cancelled() => break,
        };
        if moved(&db, &mut seen).await || is_poked {
            loops.iter().for_each(|wake| wake.notify_one());
        }
    }
    if socket.is_some() {
        // If this fails, the next daemon removes it.
        drop(std::fs::remove_file(socket_path(db.path())));
    }
}

/// Decides when to check a blackboard that others write: soon after a write, and at regular
/// intervals in case there was no notification.
pub(crate) struct Watch {
    hints: hints::Hints,
    pauses: Pauses,
    every: Duration,
}

impl Watch {
    pub(crate) fn new(blackboard: &Path, every: Duration) -> Self {
        Self {
            hints: hints::Hints::new(blackboard),
            pauses: Pauses::none(),
            every,
        }
    }

    /// Waits until it is time to check. Cancel-safe.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            // The write-ahead log was written, which happens before its commit becomes visible.
            () = self.hints.next() => self.pauses = Pauses::after_hint(),
            () = tokio::time::sleep(self.pauses.now(self.every)) => self.pauses.passed(),
        }
    }
}

/// True if something was committed since the last check.
async fn moved(db: &Db, seen: &mut Option<i64>) -> bool {
    match db.data_version().await {
        Ok(version) => seen.replace(version) != Some(version),
        Err(error) => {
            tracing::warn!(error = ?error, "cannot read the blackboard");
            true
        }
    }
}

/// Time until the next check.
///
/// After a notification the commit may still be on its way to the disk, and nothing reports when it
/// becomes visible. So checks are repeated at increasing intervals until a limit has passed. They
/// do not stop at the first visible commit: that may be an earlier one, for example our own.
struct Pauses {
    next: Option<Duration>,
    waited: Duration,
}

/// Time to repeat checks after a notification: longer than a slow disk takes to sync a commit. A
/// commit that becomes visible later is found only by the regular check.
const HINT_BOUND: Duration = Duration::from_secs(9);

impl Pauses {
    fn none() -> Self {
        Self {
            next: None,
            waited: Duration::ZERO,
        }
    }

    fn after_hint() -> Self {
        Self {
            next: Some(Duration::from_millis(1)),
            waited: Duration::ZERO,
        }
    }

    fn now(&self, every: Duration) -> Duration {
        self.next.unwrap_or(every).min(every)
    }

    fn passed(&mut self) {
        let Some(pause) = self.next else { return };
        self.waited += pause;
        self.next =
            (self.waited < HINT_BOUND).then(|| pause.saturating_mul(2).min(Duration::from_secs(1)));
    }
}

fn bind(blackboard: &Path) -> io::Result<UnixDatagram> {
    let path = socket_path(blackboard);
    // Left by a daemon that died: holding the lock on the blackboard proves that nobody else
    // listens.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    UnixDatagram::bind(path)
}

/// Waits for a datagram, and drains all that arrived meanwhile.
async fn poked(socket: Option<&UnixDatagram>) {
    let Some(socket) = socket else {
        return std::future::pending().await;
    };
    let mut byte = [0_u8; 1];
    if socket.recv(&mut byte).await.is_err() {
        // A broken socket must not cause a busy loop.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    while socket.try_recv(&mut byte).is_ok() {}
}

#[cfg(target_os = "linux")]
mod hints {
    use std::io;
    use std::path::Path;

    use rustix::fs::inotify;
    use tokio::net::unix::pipe::Receiver;

    use super::beside_wal;

    /// Notifications from the kernel about writes to the write-ahead log.
    ///
    /// The descriptor is read like a pipe, which is the safe way to wait for one. The contents do
    /// not matter, only their arrival.
    pub(super) struct Hints(Option<Receiver>);

    impl Hints {
        pub(super) fn new(blackboard: &Path) -> Self {
            match watch(blackboard) {
                Ok(receiver) => Self(Some(receiver)),
                Err(error) => {
                    tracing::warn!(error = ?error, "no file system notifications, polling for writes by other programs");
                    Self(None)
                }
            }
        }

        pub(super) async fn next(&mut self) {
            let Some(receiver) = &self.0 else {
                return std::future::pending().await;
            };
            if receiver.readable().await.is_err() {
                self.0 = None;
                return;
            }
            let mut buffer = [0_u8; 4096];
            while receiver.try_read(&mut buffer).is_ok_and(|read| read > 0) {}
        }
    }

    fn watch(blackboard: &Path) -> io::Result<Receiver> {
        let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        let flags = inotify::WatchFlags::MODIFY | inotify::WatchFlags::CLOSE_WRITE;
        inotify::add_watch(&fd, beside_wal(blackboard), flags)?;
        Receiver::from_owned_fd_unchecked(fd)
    }
}

#[cfg(not(target_os = "linux"))]
mod hints {
    use std::path::Path;
    use std::time::Duration;

    /// Fallback without inotify: checks often enough to be timely, rarely enough to cost nothing.
    pub(super) struct Hints;

    impl Hints {
        pub(super) fn new(_blackboard: &Path) -> Self {
            Self
        }

        pub(super) async fn next(&mut self) {
            tokio::time::sleep(Duration::from_millis(80)).await;
        }
    }
}

#[cfg(target_os = "linux")]
fn beside_wal(blackboard: &Path) -> PathBuf {
    let mut path = blackboard.as_os_str().to_owned();
    path.push("-wal");
    PathBuf::from(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_hint_it_is_looked_again_until_the_bound_whatever_showed_meanwhile() {
        let every = Duration::from_secs(30);
        let mut pauses = Pauses::after_hint();
        let mut looks = Vec::new();
        while pauses.next.is_some() {
            looks.push(pauses.now(every));
            pauses.passed();
        }
        assert_eq!(looks.first(), Some(&Duration::from_millis(1)));
        assert!(looks.iter().sum::<Duration>() >= HINT_BOUND, "{looks:?}");
        assert!(looks.len() < 20, "a hint costs {} looks", looks.len());
        assert_eq!(pauses.now(every), every);
        assert_eq!(
            Pauses::after_hint().now(Duration::ZERO),
            Duration::ZERO,
            "never longer than the look by itself"
        );
    }
}
