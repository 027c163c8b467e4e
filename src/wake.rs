//! Wakes: something was committed, look. A wake carries no data and may come once too often; it is never what the
//! loops rely on to be right, only to be quick.

use std::io;
use std::os::unix::net::UnixDatagram as StdDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixDatagram;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::blackboard::Db;

/// Tells a daemon on this blackboard, if there is one, that something was committed.
pub(crate) fn poke(blackboard: &Path) {
    let sent = StdDatagram::unbound().and_then(|socket| {
        socket.set_nonblocking(true)?;
        socket.send_to(&[], socket_path(blackboard))
    });
    if let Err(error) = sent {
        // No daemon, or one that is waking already.
        tracing::debug!(error = ?error, "nobody was poked");
    }
}

/// Whether a daemon on this blackboard listens for pokes. Asking does not wake it.
pub(crate) fn is_heard(blackboard: &Path) -> bool {
    StdDatagram::unbound().is_ok_and(|socket| socket.connect(socket_path(blackboard)).is_ok())
}

/// The socket that a daemon on this blackboard listens at.
pub(crate) fn socket_path(blackboard: &Path) -> PathBuf {
    beside(blackboard, "wake")
}

/// A file beside the blackboard: `blackboard.db` → `blackboard.db.NAME`.
pub(crate) fn beside(blackboard: &Path, name: &str) -> PathBuf {
    let mut path = blackboard.as_os_str().to_owned();
    path.push(".");
    path.push(name);
    PathBuf::from(path)
}

/// Wakes `loops` whenever anybody commits: by a poke, by a hint from the file system, or, should both fail, by the
/// look that is taken every `every`.
pub(crate) async fn listen(
    db: Db,
    every: Duration,
    loops: Vec<Arc<Notify>>,
    stop: CancellationToken,
) {
    let socket = match bind(db.path()) {
        Ok(socket) => Some(socket),
        Err(error) => {
            tracing::warn!(error = ?error, "no wake socket: commands beside the daemon are noticed by the file system only");
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
        // The next daemon removes it too.
        drop(std::fs::remove_file(socket_path(db.path())));
    }
}

/// When to look at a blackboard that others write: soon after they have, and every so often in case nobody told.
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

    /// Until it is time to look. Nothing is lost when this is given up and asked again.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            // The write-ahead log was written to: before its commit can be seen.
            () = self.hints.next() => self.pauses = Pauses::after_hint(),
            () = tokio::time::sleep(self.pauses.now(self.every)) => self.pauses.passed(),
        }
    }
}

/// Whether something was committed since the last look.
async fn moved(db: &Db, seen: &mut Option<i64>) -> bool {
    match db.data_version().await {
        Ok(version) => seen.replace(version) != Some(version),
        Err(error) => {
            tracing::warn!(error = ?error, "the blackboard could not be looked at");
            true
        }
    }
}

/// How long until the next look. After a hint the commit may still be on its way to the disk, and nothing tells when
/// it shows: looked at again, ever more slowly, until a bound passes. Not only until something shows: that may be
/// another commit, our own for one, that was sooner.
struct Pauses {
    next: Option<Duration>,
    waited: Duration,
}

/// Longer than a slow disk takes to sync a commit: one that shows later is found only by the look that is taken anyway.
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
    // Left by one that died: the lock on the blackboard says that nobody else listens.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    UnixDatagram::bind(path)
}

/// Waits for a poke, and takes all that came meanwhile.
async fn poked(socket: Option<&UnixDatagram>) {
    let Some(socket) = socket else {
        return std::future::pending().await;
    };
    let mut byte = [0_u8; 1];
    if socket.recv(&mut byte).await.is_err() {
        // A broken socket must not become a busy loop.
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

    /// Writes to the write-ahead log, as the kernel tells them. The descriptor is read like a pipe, which is the safe
    /// way to wait for one; what it says does not matter, only that it says something.
    pub(super) struct Hints(Option<Receiver>);

    impl Hints {
        pub(super) fn new(blackboard: &Path) -> Self {
            match watch(blackboard) {
                Ok(receiver) => Self(Some(receiver)),
                Err(error) => {
                    tracing::warn!(error = ?error, "writes by other programs are noticed by looking only");
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

    /// Without inotify: a look often enough to be in time, seldom enough to cost nothing.
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
