//! The end of a command that ran under the shim.

use std::path::{Path, PathBuf};

use super::output::{Stream, read_output};
use super::reap::{SETTLE, settle};
use super::run_dir::read_exit;
use super::{Exit, ProcessError};
use crate::work::Ended;

/// A command that ran to its end, or could not start.
pub(crate) struct FinishedCommand {
    pub(crate) end: CommandEnd,
    pub(crate) status: Option<i32>,
    pub(crate) elapsed_ms: u64,
    dir: PathBuf,
}

/// The end of a command that was not stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandEnd {
    Passed,
    /// Exited with a status other than 0.
    Failed,
    TimedOut,
    /// Ended by a signal that it caused itself: its code's fault, not the machine's.
    Crashed(i32),
    /// Ended by somebody else: a person, or the kernel when memory ran out.
    Killed,
    /// Could not start, with the reason.
    NotStarted(String),
    /// Its shim was killed before it could write the end.
    Vanished,
}

impl FinishedCommand {
    /// Reads the end of a command whose shim is gone; none of its processes is alive then. `None` if it was stopped from
    /// outside.
    pub(crate) async fn of(dir: &Path) -> Result<Option<Self>, ProcessError> {
        let mut exit = read_exit(dir)?;
        if exit.is_none() {
            // Its shim was killed: its processes must not continue in a place that others will use.
            settle(dir, SETTLE).await?;
            exit = read_exit(dir)?;
        }
        Ok(command_end(exit.as_ref()).map(|end| Self {
            end,
            status: exit.as_ref().and_then(|exit| exit.status),
            elapsed_ms: exit.map_or(0, |exit| exit.elapsed_ms),
            dir: dir.to_owned(),
        }))
    }

    /// The kept output.
    pub(crate) fn output(&self) -> String {
        let text = |stream| {
            read_output(&self.dir, stream).map_or_else(|_| String::new(), |kept| kept.text)
        };
        format!("{}{}", text(Stream::Stdout), text(Stream::Stderr))
    }
}

/// Describes the end of a command; none if it was stopped from outside.
fn command_end(exit: Option<&Exit>) -> Option<CommandEnd> {
    let Some(exit) = exit else {
        return Some(CommandEnd::Vanished);
    };
    Some(match (exit.ended, exit.status, exit.signal) {
        (Ended::Stopped, _, _) => return None,
        (Ended::Agent, Some(0), _) => CommandEnd::Passed,
        (Ended::Agent, _, _) => CommandEnd::Failed,
        (Ended::IdleLimit | Ended::TotalLimit, _, _) => CommandEnd::TimedOut,
        (Ended::Lost, _, Some(signal)) if is_own_doing(signal) => CommandEnd::Crashed(signal),
        (Ended::DaemonGone | Ended::Lost, _, _) => CommandEnd::Killed,
        (Ended::NotStarted, _, _) => {
            let why = exit.detail.clone();
            CommandEnd::NotStarted(why.unwrap_or_else(|| "command not found".into()))
        }
    })
}

/// Signals that a program causes itself: its code's fault, not the machine's.
fn is_own_doing(signal: i32) -> bool {
    use rustix::process::Signal;
    [
        Signal::ABORT,
        Signal::BUS,
        Signal::FPE,
        Signal::ILL,
        Signal::SEGV,
        Signal::SYS,
        Signal::TRAP,
    ]
    .iter()
    .any(|own| own.as_raw() == signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_command_tells_whose_fault_it_is() {
        let exit = |ended, status, signal| Exit {
            ended,
            status,
            signal,
            stdout_bytes: 0,
            stderr_bytes: 0,
            leftovers: 0,
            survivors: 0,
            elapsed_ms: 1,
            detail: Some("no such file".into()),
        };
        let not_started = CommandEnd::NotStarted("no such file".into());
        for (ended, status, signal, end) in [
            (Ended::Agent, Some(0), None, Some(CommandEnd::Passed)),
            (Ended::Agent, Some(3), None, Some(CommandEnd::Failed)),
            (Ended::IdleLimit, None, Some(15), Some(CommandEnd::TimedOut)),
            (Ended::TotalLimit, Some(0), None, Some(CommandEnd::TimedOut)),
            (Ended::Lost, None, Some(11), Some(CommandEnd::Crashed(11))),
            (Ended::Lost, None, Some(9), Some(CommandEnd::Killed)),
            (Ended::Lost, None, None, Some(CommandEnd::Killed)),
            (Ended::DaemonGone, None, Some(11), Some(CommandEnd::Killed)),
            (Ended::NotStarted, None, None, Some(not_started)),
            (Ended::Stopped, None, Some(15), None),
        ] {
            let told = command_end(Some(&exit(ended, status, signal)));
            assert_eq!(told, end, "{ended} {status:?} {signal:?}");
        }
        assert_eq!(command_end(None), Some(CommandEnd::Vanished));
    }
}
