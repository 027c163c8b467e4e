//! Fake systemd: the socket to which a daemon sends its notifications.

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::play::{Daemon, PATIENCE, Play};

pub(crate) struct Supervisor {
    socket: UnixDatagram,
    name: String,
}

impl Supervisor {
    pub(crate) fn of(play: &Play) -> Self {
        let path = play.world.root().join("notify");
        Self {
            socket: UnixDatagram::bind(&path).unwrap(),
            name: path.to_str().unwrap().to_owned(),
        }
    }

    /// Creates an abstract socket, which is in no directory.
    #[cfg(target_os = "linux")]
    pub(crate) fn in_no_folder(play: &Play) -> Self {
        use std::os::linux::net::SocketAddrExt as _;
        let name = format!("remand-test{}", play.world.root().display());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        Self {
            socket: UnixDatagram::bind_addr(&address).unwrap(),
            name: format!("@{name}"),
        }
    }

    /// The value of NOTIFY_SOCKET.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Creates a command for `remand run`, supervised.
    pub(crate) fn command(&self, play: &Play, watchdog: Duration) -> Command {
        let mut command = play.world.remand_command(&["run"]);
        command
            .env("NOTIFY_SOCKET", &self.name)
            .env("WATCHDOG_USEC", watchdog.as_micros().to_string());
        command
    }

    /// Returns the next notification.
    #[track_caller]
    pub(crate) fn next(&self, play: &Play) -> String {
        self.socket.set_nonblocking(false).unwrap();
        self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut buffer = [0; 4096];
        let read = self
            .socket
            .recv(&mut buffer)
            .unwrap_or_else(|error| panic!("{error}: nothing is told; {}", play.log()));
        String::from_utf8(buffer[..read].to_vec()).unwrap()
    }

    /// Waits for a notification with this prefix; others are skipped.
    #[track_caller]
    pub(crate) fn wait_for(&self, play: &Play, begins: &str) -> String {
        let begun = Instant::now();
        loop {
            let told = self.next(play);
            if told.starts_with(begins) {
                return told;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{begins} was not told; {}",
                play.log()
            );
        }
    }

    /// Returns all notifications so far.
    pub(crate) fn so_far(&self) -> Vec<String> {
        self.socket.set_nonblocking(true).unwrap();
        let mut buffer = [0; 4096];
        let mut told = Vec::new();
        while let Ok(read) = self.socket.recv(&mut buffer) {
            told.push(String::from_utf8(buffer[..read].to_vec()).unwrap());
        }
        told
    }
}

/// Does what `systemctl reload` does.
pub(crate) fn hang_up(daemon: &Daemon) {
    kill_process(Pid::from_child(&daemon.child), Signal::HUP).unwrap();
}
