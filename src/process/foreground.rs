//! Programs of the user that take over the terminal for a while: an editor, a pager.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Stdio;

use super::command;

/// Runs a shell command line with `args` appended and waits for its end. It gets remand's terminal and the environment
/// `env`, as from the shell that started remand.
///
/// Returns its exit status; `None` if a signal ended it. With `stdin`, it reads that text; a program that stops reading
/// before the end is not an error.
pub(crate) fn foreground(
    line: &str,
    args: &[OsString],
    env: Vec<(OsString, OsString)>,
    stdin: Option<&str>,
) -> io::Result<Option<i32>> {
    let mut command = command::command(Path::new("/bin/sh"));
    command
        .arg("-c")
        .arg(format!("{line} \"$@\""))
        .arg("sh")
        .args(args)
        .envs(env);
    if stdin.is_some() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn()?;
    if let (Some(text), Some(mut pipe)) = (stdin, child.stdin.take()) {
        match pipe.write_all(text.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(child.wait()?.code())
}
