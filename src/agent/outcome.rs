//! Outcome of a run. The cause of its end counts first, whatever the agent reports; then its kind
//! decides.

use std::path::Path;

use super::{Note, claude, command, last_line, output};
use crate::agent_kind::AgentKind;
use crate::clock::Time;
use crate::process::{Exit, Stream};
use crate::text::prefixed;
use crate::work::Ended;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum End {
    Good,
    /// Not the agent's fault: retried a limited number of times.
    Lost,
    Stopped,
    /// The session to resume does not exist: retried in a new one. Never for a run in a new
    /// session.
    NoSession,
    /// The environment prevents the run.
    Hold {
        reason: String,
        until: Option<Time>,
    },
    Failed(String),
}

/// Everything that a run's directory contains about a run that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) end: End,
    pub(crate) session: Option<String>,
    pub(crate) tokens: Option<i64>,
    pub(crate) cost_micros: Option<i64>,
    /// Set if the cost is that of the whole session, including earlier runs.
    pub(crate) is_sum_of_session: bool,
    /// Actions that were requested and not allowed.
    pub(crate) denied: Vec<String>,
    /// Reported data that cannot be parsed.
    pub(crate) odd: Option<String>,
}

/// Reads the directory of a run that has ended; `exit` is what its shim wrote, if it could.
pub(crate) fn outcome(dir: &Path, exit: Option<&Exit>) -> Outcome {
    let (note, stderr) = (Note::read(dir), output(dir, Stream::Stderr));
    let reported = match note.kind {
        AgentKind::Command => command::outcome(dir, exit, &stderr),
        AgentKind::Claude => {
            let stdout = output(dir, Stream::Stdout);
            claude::outcome(&stdout, exit, &stderr, note.resumed)
        }
    };
    Outcome {
        end: ended_by(exit).unwrap_or(reported.end),
        ..reported
    }
}

/// Returns the outcome that the shim determined; `None` if the agent ended by itself, which is the
/// only case in which its own report counts.
fn ended_by(exit: Option<&Exit>) -> Option<End> {
    let Some(exit) = exit else {
        return Some(End::Lost);
    };
    let (survivors, seconds) = (exit.survivors, exit.elapsed_ms / 1000);
    Some(match exit.ended {
        _ if survivors > 0 => {
            End::Failed(format!("{survivors} of its processes could not be killed"))
        }
        Ended::Agent => return None,
        Ended::IdleLimit => {
            End::Failed(format!("no output for too long, stopped after {seconds} s"))
        }
        Ended::TotalLimit => End::Failed(format!("took too long, stopped after {seconds} s")),
        Ended::DaemonGone | Ended::Lost => End::Lost,
        Ended::Stopped => End::Stopped,
        Ended::NotStarted => {
            let why = exit.detail.as_deref();
            let why = why.unwrap_or("not found or not executable");
            End::Hold {
                reason: format!("the agent cannot be started: {why}"),
                until: None,
            }
        }
    })
}

/// Returns the last line that an agent wrote to stderr, if any.
pub(super) fn last_words(stderr: &str) -> String {
    prefixed(": ", last_line(stderr, 300))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::result_file::result_file;

    fn exit(ended: Ended, status: Option<i32>) -> Exit {
        Exit {
            ended,
            status,
            signal: None,
            stdout_bytes: 0,
            stderr_bytes: 0,
            leftovers: 0,
            survivors: 0,
            elapsed_ms: 1500,
            detail: None,
        }
    }

    fn end(dir: &Path, ended: Ended, status: Option<i32>) -> End {
        outcome(dir, Some(&exit(ended, status))).end
    }

    #[test]
    fn only_an_agent_that_ended_by_itself_with_status_0_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        for &ended in Ended::ALL {
            for status in [None, Some(0), Some(1)] {
                let good = end(folder.path(), ended, status) == End::Good;
                assert_eq!(
                    good,
                    ended == Ended::Agent && status == Some(0),
                    "{ended} {status:?}"
                );
            }
        }
        assert_eq!(outcome(folder.path(), None).end, End::Lost);
    }

    #[test]
    fn a_time_out_is_a_failure_and_a_vanished_run_is_not() {
        let folder = tempfile::tempdir().unwrap();
        for ended in [Ended::IdleLimit, Ended::TotalLimit] {
            assert!(matches!(end(folder.path(), ended, None), End::Failed(_)));
        }
        for ended in [Ended::DaemonGone, Ended::Lost] {
            assert_eq!(end(folder.path(), ended, None), End::Lost);
        }
        let left = Exit {
            survivors: 2,
            ..exit(Ended::Agent, Some(0))
        };
        assert!(matches!(
            outcome(folder.path(), Some(&left)).end,
            End::Failed(_)
        ));
    }

    #[test]
    fn a_usage_limit_is_a_hold_whatever_the_status() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{"hold": {"reason": "usage limit", "until": "2026-11-16T03:00:00.000Z"}}"#;
        std::fs::create_dir(crate::agent::answers(folder.path())).unwrap();
        std::fs::write(result_file(folder.path()), text).unwrap();
        for status in [0, 1] {
            let End::Hold { reason, until } = end(folder.path(), Ended::Agent, Some(status)) else {
                panic!("not held")
            };
            assert_eq!((reason.as_str(), until.is_some()), ("usage limit", true));
        }
    }

    #[test]
    fn an_agent_that_fails_is_quoted() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("stderr.0"), "a\nno such model\n\n").unwrap();
        let end = end(folder.path(), Ended::Agent, Some(3));
        assert_eq!(
            end,
            End::Failed("exited with status 3: no such model".into())
        );
    }
}
