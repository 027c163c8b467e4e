//! The one place where a child is made, so that none is made with our environment or our descriptors.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A command with an empty environment, that will get stdin, stdout and stderr and nothing that whoever started us
/// left open.
#[expect(clippy::disallowed_methods, reason = "the one place")]
pub(super) fn command(program: &Path) -> Command {
    close_fds::set_fds_cloexec_threadsafe(3, &[]);
    let mut command = Command::new(program);
    command.env_clear();
    command
}

/// Looks a program up in the PATH that it will have. Left to the system this would copy our memory first: a bare name
/// with an environment of its own goes by fork, not by `posix_spawn`.
pub(crate) fn find(program: &OsStr, path: Option<&OsStr>, cwd: &Path) -> Option<PathBuf> {
    if Path::new(program).components().count() > 1 {
        return Some(PathBuf::from(program));
    }
    which::which_in(program, Some(path.unwrap_or_default()), cwd).ok()
}
