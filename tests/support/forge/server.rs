//! The fake GitHub as a server, for the real `gh`.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::support::wait_for;

/// The forge as a server: terminated on drop.
pub(crate) struct Server {
    child: Child,
    folder: PathBuf,
}

impl Server {
    /// Starts the server, with a directory that then directs `gh` to it.
    pub(super) fn start(argv: &[String], folder: PathBuf) -> Self {
        fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("sock");
        fs::write(
            folder.join("config.yml"),
            format!("http_unix_socket: {}\n", socket.display()),
        )
        .unwrap();
        let mut command = Command::new(&argv[0]);
        command
            .args(&argv[1..])
            .arg("serve")
            .arg(&socket)
            .stdin(Stdio::null());
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let child = command.spawn().unwrap();
        wait_for("the forge serves", || UnixStream::connect(&socket).is_ok());
        Self { child, folder }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("sock")
    }

    /// Environment that directs the real `gh` to it.
    pub(crate) fn real_gh_env(&self) -> Vec<(&'static str, String)> {
        let folder = self.folder.to_str().unwrap().to_owned();
        vec![
            ("GH_CONFIG_DIR", folder),
            ("GH_TOKEN", "x".into()),
            ("GH_NO_UPDATE_NOTIFIER", "1".into()),
        ]
    }

    /// Sends SIGTERM, and waits for the end.
    pub(crate) fn stop(mut self) -> std::process::ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail if it has already ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
