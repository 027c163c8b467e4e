//! A poke for the daemon, so that it looks at once and not with its next look. It carries no data: whoever is woken
//! finds what is new on the blackboard, and whoever is not finds it a second later.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Where the daemon of a blackboard listens.
pub(crate) fn socket_of(db: &Path) -> PathBuf {
    let mut name = db.as_os_str().to_owned();
    name.push(".wake");
    name.into()
}

/// Tells the daemon, if there is one, that something was written.
pub(crate) fn poke(db: &Path) {
    // No daemon, a full queue, a path too long for a socket: each only means that nobody is woken early.
    if let Ok(socket) = UnixDatagram::unbound()
        && socket.set_nonblocking(true).is_ok()
    {
        drop(socket.send_to(&[], socket_of(db)));
    }
}
