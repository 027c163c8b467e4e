//! Results that an agent may report besides its output, in the file that `REMAND_RESULT` names.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::sensible_tokens;
use crate::clock::Time;
use crate::files::{self, Refused};

/// Content of the file. All fields are optional.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct ReportedResult {
    pub(super) session: Option<String>,
    pub(super) tokens: Option<i64>,
    pub(super) cost_usd: Option<f64>,
    /// Set if it could not work now: a usage limit, no network, no login. Not counted as a failure.
    pub(super) hold: Option<ReportedHold>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct ReportedHold {
    pub(super) reason: String,
    /// Time in remand's format; without it the back-off decides.
    pub(super) until: Option<String>,
}

/// Maximum number of bytes read from a result file.
const TOLD_CAP: u64 = 64 * 1024;

/// Returns the path that `REMAND_RESULT` names, in a run's directory.
pub(super) fn result_file(dir: &Path) -> PathBuf {
    super::answers(dir).join("result.json")
}

impl ReportedResult {
    /// Reads the file, if it exists. Invalid content counts as none, and the second value reports
    /// it.
    pub(super) fn read(dir: &Path) -> (Self, Option<String>) {
        let path = result_file(dir);
        let name = path.strip_prefix(dir).unwrap_or(&path);
        let unreadable = |error: &dyn Display| format!("cannot read result.json: {error}");
        let odd = match files::read_below(dir, name, TOLD_CAP) {
            Ok(text) => match serde_json::from_slice::<Self>(&text) {
                Ok(mut result) => {
                    result.tokens = sensible_tokens(result.tokens);
                    return (result, None);
                }
                Err(error) => Some(unreadable(&error)),
            },
            Err(error) if Refused::of(&error).is_some() => {
                Some("result.json is too large or not a regular file".to_owned())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(unreadable(&error)),
        };
        (Self::default(), odd)
    }
}

impl ReportedHold {
    pub(super) fn until(&self) -> Option<Time> {
        Time::parse(self.until.as_deref()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::agent::{MOST_TOKENS, micros};

    #[test]
    fn a_result_file_is_read_and_nonsense_is_said() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(crate::agent::answers(folder.path())).unwrap();
        assert_eq!(
            ReportedResult::read(folder.path()),
            (ReportedResult::default(), None)
        );
        fs::write(
            result_file(folder.path()),
            r#"{"tokens": 12, "cost_usd": 0.5, "hold": {"reason": "usage limit"}}"#,
        )
        .unwrap();
        let (result, odd) = ReportedResult::read(folder.path());
        assert_eq!(
            (result.tokens, result.cost_usd.and_then(micros), odd),
            (Some(12), Some(500_000), None)
        );
        assert_eq!(result.hold.unwrap().reason, "usage limit");
        fs::write(result_file(folder.path()), "tokens: many").unwrap();
        let (result, odd) = ReportedResult::read(folder.path());
        assert_eq!(result, ReportedResult::default());
        assert!(odd.unwrap().starts_with("cannot read result.json"));
    }

    #[test]
    fn tokens_beyond_any_run_are_cut_and_less_than_none_are_no_tokens() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(crate::agent::answers(folder.path())).unwrap();
        for (text, tokens) in [
            ("9223372036854775807", Some(MOST_TOKENS)),
            ("-1", None),
            ("0", Some(0)),
        ] {
            fs::write(
                result_file(folder.path()),
                format!(r#"{{"tokens": {text}}}"#),
            )
            .unwrap();
            assert_eq!(
                ReportedResult::read(folder.path()),
                (
                    ReportedResult {
                        tokens,
                        ..ReportedResult::default()
                    },
                    None
                ),
                "{text}"
            );
        }
    }

    #[test]
    fn a_hold_until_no_moment_that_can_be_written_names_none() {
        let until = |text: &str| {
            ReportedHold {
                reason: "later".into(),
                until: Some(text.into()),
            }
            .until()
        };
        assert!(until("9999-12-31T00:00:00Z").is_some());
        for text in [
            "+20000-01-01T00:00:00Z",
            "9999-12-31T23:59:59-12:00",
            "soon",
            "",
        ] {
            assert_eq!(until(text), None, "{text}");
        }
    }
}
