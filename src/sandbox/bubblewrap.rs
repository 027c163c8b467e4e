//! Arguments for bubblewrap.
//!
//! Later arguments override earlier ones: the whole file system read-only, then hidden directories,
//! then their visible parts, then writable paths.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Network, WritablePaths};
use crate::process::{self, Job};
use crate::sandbox_settings::Mounts;

/// Directories with sockets of other programs (an ssh agent, a keyring, docker) and with files of
/// other people.
const HIDDEN: [&str; 6] = ["/home", "/root", "/run", "/tmp", "/var/tmp", "/dev/shm"];
/// Directories needed for name resolution; /etc/resolv.conf leads there.
const NAMES: [&str; 3] = ["/run/systemd/resolve", "/run/resolvconf", "/run/nscd"];
/// Secrets of other programs in visible directories, relative to the home directory.
const MASKED: [&str; 5] = [
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/git/credentials",
    ".npm/_auth",
    ".local/share/keyrings",
];

/// Returns arguments that test if bubblewrap works at all: the same namespaces, and nothing else.
pub(super) fn trial(network: Network) -> Vec<String> {
    let mut words = walls();
    words.extend(cut(network));
    words.extend(["--tmpfs", "/tmp", "--", "/bin/sh", "-c", "exit 0"].map(str::to_owned));
    words
}

/// Returns the arguments for isolation.
///
/// Its end is not tied to that of its parent: bubblewrap itself exits immediately on SIGTERM, and
/// the process inside must have its grace period. The shim terminates what is left.
pub(super) fn walls() -> Vec<String> {
    [
        "--unshare-pid",
        "--unshare-ipc",
        "--cap-drop",
        "ALL",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Returns the argument that disables the network.
pub(super) fn cut(network: Network) -> Option<String> {
    (network == Network::Cut).then(|| "--unshare-net".to_owned())
}

pub(super) fn confine(
    program: &Path,
    sight: &Mounts,
    mut job: Job,
    reach: WritablePaths<'_>,
) -> Job {
    let path = job.env.get("PATH").map(std::ffi::OsString::from);
    let Some(first) = job.argv.first() else {
        return job;
    };
    let Some(found) = process::find(first.as_ref(), path.as_deref(), &job.cwd) else {
        // Starting it gives a better error for the missing program than bubblewrap does.
        return job;
    };
    let mut words = Arguments::new(program, None);
    words.hide_and_show(sight, &programs(&found, path.as_deref()));
    if let Some(path) = reach.own {
        words.show("--bind-try", path);
    }
    let write = [Some(reach.repository), Some(reach.worktree), reach.answers];
    for path in write.into_iter().flatten() {
        words.show("--bind", path);
    }
    if let Some(path) = reach.read {
        words.show("--ro-bind", path);
    }
    job.argv = words.before(&job.cwd, job.argv);
    job.is_wrapped = true;
    job
}

/// Arguments of bubblewrap.
pub(super) struct Arguments(Vec<String>);

impl Arguments {
    /// Starts with the program and the arguments for isolation.
    pub(super) fn new(program: &Path, further: Option<String>) -> Self {
        let mut words = vec![program.display().to_string()];
        words.extend(walls().into_iter().chain(further));
        Self(words)
    }

    /// Returns the complete command line.
    pub(super) fn before(mut self, cwd: &Path, command: Vec<String>) -> Vec<String> {
        self.0
            .extend(["--setenv", "TMPDIR", "/tmp", "--chdir"].map(str::to_owned));
        self.0.extend([cwd.display().to_string(), "--".to_owned()]);
        self.0.extend(command);
        self.0
    }

    /// Hides directories, then makes their visible parts visible again.
    pub(super) fn hide_and_show(&mut self, sight: &Mounts, programs: &[PathBuf]) {
        let hidden = hidden(sight);
        for path in &hidden {
            self.add("--tmpfs", path);
        }
        for path in NAMES {
            self.show("--ro-bind-try", Path::new(path));
        }
        let is_hidden = |path: &&PathBuf| hidden.iter().any(|hidden| path.starts_with(hidden));
        for path in programs.iter().filter(is_hidden).chain(&sight.read) {
            self.show("--ro-bind-try", path);
        }
        for path in &sight.write {
            self.show("--bind-try", path);
        }
        let visible = sight.read.iter().chain(&sight.write);
        let homes = sight.home.iter();
        for path in homes.flat_map(|home| MASKED.map(|name| home.join(name))) {
            if path.is_dir() {
                self.add("--tmpfs", &path);
            } else if path.exists() && visible.clone().any(|visible| path.starts_with(visible)) {
                self.show_as("--ro-bind", Path::new("/dev/null"), &path);
            }
        }
    }

    fn add(&mut self, word: &str, path: &Path) {
        self.0.extend([word.to_owned(), path.display().to_string()]);
    }

    pub(super) fn show(&mut self, word: &str, path: &Path) {
        self.show_as(word, path, path);
    }

    fn show_as(&mut self, word: &str, from: &Path, to: &Path) {
        self.0.extend([
            word.to_owned(),
            from.display().to_string(),
            to.display().to_string(),
        ]);
    }
}

/// Returns the directories to hide, without duplicates or nested ones. A missing directory cannot
/// be covered, and a symlink is covered at its target.
fn hidden(sight: &Mounts) -> Vec<PathBuf> {
    let all = HIDDEN
        .iter()
        .map(PathBuf::from)
        .chain(sight.home.clone())
        .chain(sight.hidden.iter().cloned());
    let all: BTreeSet<PathBuf> = all
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| path.is_dir())
        .collect();
    let mut hidden: Vec<PathBuf> = Vec::new();
    // In this order a directory comes before its contents.
    for path in all {
        // A home of "/" is not a home directory: everything would be hidden.
        if path != Path::new("/") && !hidden.iter().any(|outer| path.starts_with(outer)) {
            hidden.push(path);
        }
    }
    hidden
}

/// Returns the directories of PATH, and the actual directory of this program.
pub(super) fn programs(found: &Path, path: Option<&std::ffi::OsStr>) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = path.into_iter().flat_map(std::env::split_paths).collect();
    for program in [Some(found.to_owned()), found.canonicalize().ok()] {
        folders.extend(program.as_deref().and_then(Path::parent).map(PathBuf::from));
    }
    folders.retain(|folder| folder.is_absolute() && folder.is_dir());
    folders.dedup();
    folders
}
