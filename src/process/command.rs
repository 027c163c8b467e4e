//! The only place that creates child processes, so that none inherits remand's environment or
//! descriptors.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Creates a command with an empty environment that gets stdin, stdout and stderr but no other
/// descriptor that the caller of remand left open.
#[expect(
    clippy::disallowed_methods,
    reason = "the only place that starts processes"
)]
pub(super) fn command(program: &Path) -> Command {
    close_fds::set_fds_cloexec_threadsafe(3, &[]);
    let mut command = Command::new(program);
    command.env_clear();
    command
}

/// Looks up a program in the PATH that it will have.
///
/// Leaving this to the system would copy remand's memory first: a bare name with its own
/// environment is started with fork, not with `posix_spawn`.
pub(crate) fn find(program: &OsStr, path: Option<&OsStr>, cwd: &Path) -> Option<PathBuf> {
    if Path::new(program).components().count() > 1 {
        return Some(PathBuf::from(program));
    }
    which::which_in(program, Some(path.unwrap_or_default()), cwd).ok()
}
