//! Agents: what to start, with which environment, and what they tell beside their output. It starts nothing itself
//! (`process` does) and knows nothing of the blackboard.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::clock::Time;
use crate::process::{Job, Limits};
use crate::words::words;

words! {
    /// What an agent is started for.
    "phase" Phase {
        Review = "review",
        Fix = "fix",
    }
}

/// A command that reads its prompt from stdin and answers on stdout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) command: Vec<String>,
    pub(crate) model: Option<String>,
    /// The complete environment: the allow-list and what its configuration names.
    pub(crate) env: BTreeMap<String, String>,
}

/// What one run of an agent is about; each goes into its environment, for scripts.
#[derive(Debug, Clone)]
pub(crate) struct Errand<'a> {
    pub(crate) run_id: &'a str,
    pub(crate) phase: Phase,
    pub(crate) change_id: &'a str,
    pub(crate) item_id: &'a str,
    pub(crate) cycle: i64,
    pub(crate) base: &'a str,
    pub(crate) head: &'a str,
    pub(crate) worktree: &'a Path,
    pub(crate) dir: &'a Path,
    pub(crate) limits: Limits,
    /// What the swapped configuration needs.
    pub(crate) extra_env: BTreeMap<String, String>,
}

/// The prompt's file in a run's folder.
pub(crate) fn prompt_file(dir: &Path) -> PathBuf {
    dir.join("prompt.md")
}

/// The file that `REMAND_RESULT` names, in a run's folder.
pub(crate) fn result_file(dir: &Path) -> PathBuf {
    dir.join("result.json")
}

impl Agent {
    pub(crate) fn job(&self, errand: &Errand<'_>) -> Job {
        let mut env = self.env.clone();
        env.extend(errand.extra_env.clone());
        for (name, value) in [
            ("REMAND_PHASE", errand.phase.as_str().to_owned()),
            ("REMAND_CHANGE", errand.change_id.to_owned()),
            ("REMAND_ITEM", errand.item_id.to_owned()),
            ("REMAND_CYCLE", errand.cycle.to_string()),
            ("REMAND_BASE", errand.base.to_owned()),
            ("REMAND_HEAD", errand.head.to_owned()),
            ("REMAND_RESULT", result_file(errand.dir).display().to_string()),
        ] {
            env.insert(name.to_owned(), value);
        }
        if let Some(model) = &self.model {
            env.insert("REMAND_MODEL".to_owned(), model.clone());
        }
        Job {
            run_id: errand.run_id.to_owned(),
            argv: self.command.clone(),
            cwd: errand.worktree.to_owned(),
            env,
            stdin: prompt_file(errand.dir),
            dir: errand.dir.to_owned(),
            limits: errand.limits,
        }
    }
}

/// What an agent may say beside its output, in the file that `REMAND_RESULT` names. All of it is optional.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct Told {
    pub(crate) session: Option<String>,
    pub(crate) tokens: Option<i64>,
    pub(crate) cost_usd: Option<f64>,
    /// It could not work now: a usage limit, no network, no login. Nobody's failure.
    pub(crate) hold: Option<ToldHold>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct ToldHold {
    pub(crate) reason: String,
    /// As remand writes times; without it the back-off decides.
    pub(crate) until: Option<String>,
}

/// The most that is read of a result file.
const TOLD_CAP: u64 = 64 * 1024;

impl Told {
    /// Reads the file, if there is one. An agent that writes nonsense has said nothing, and the second value says so.
    pub(crate) fn read(dir: &Path) -> (Self, Option<String>) {
        let path = result_file(dir);
        let text = match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_file() && meta.len() <= TOLD_CAP => fs::read_to_string(&path),
            Ok(_) => return (Self::default(), Some("result.json is not a small file".into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return (Self::default(), None),
            Err(error) => Err(error),
        };
        match text
            .map_err(|error| error.to_string())
            .and_then(|text| serde_json::from_str::<Self>(&text).map_err(|e| e.to_string()))
        {
            Ok(told) => (Self { tokens: sensible(told.tokens), ..told }, None),
            Err(error) => (Self::default(), Some(format!("result.json can't be read: {error}"))),
        }
    }

    pub(crate) fn cost_micros(&self) -> Option<i64> {
        let dollars = self.cost_usd.filter(|dollars| dollars.is_finite() && (0.0..1e6).contains(dollars))?;
        #[expect(clippy::cast_possible_truncation, reason = "under a million dollars, as was just looked at")]
        Some((dollars * 1e6).ceil() as i64)
    }
}

/// More than any run uses.
const MOST_TOKENS: i64 = 1_000_000_000_000;

fn sensible(tokens: Option<i64>) -> Option<i64> {
    tokens.filter(|tokens| *tokens >= 0).map(|tokens| tokens.min(MOST_TOKENS))
}

impl ToldHold {
    pub(crate) fn until(&self) -> Option<Time> {
        self.until.as_deref().and_then(|text| Time::parse(text).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_file_is_read_and_nonsense_is_said() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Told::read(folder.path()), (Told::default(), None));
        fs::write(result_file(folder.path()), r#"{"tokens": 12, "cost_usd": 0.5, "hold": {"reason": "usage limit"}}"#)
            .unwrap();
        let (told, odd) = Told::read(folder.path());
        assert_eq!((told.tokens, told.cost_micros(), odd), (Some(12), Some(500_000), None));
        assert_eq!(told.hold.unwrap().reason, "usage limit");
        fs::write(result_file(folder.path()), "tokens: many").unwrap();
        let (told, odd) = Told::read(folder.path());
        assert_eq!(told, Told::default());
        assert!(odd.unwrap().starts_with("result.json can't be read"));
    }

    #[test]
    fn tokens_beyond_any_run_are_cut_and_less_than_none_are_no_tokens() {
        let folder = tempfile::tempdir().unwrap();
        for (text, tokens) in [("9223372036854775807", Some(MOST_TOKENS)), ("-1", None), ("0", Some(0))] {
            fs::write(result_file(folder.path()), format!(r#"{{"tokens": {text}}}"#)).unwrap();
            assert_eq!(Told::read(folder.path()), (Told { tokens, ..Told::default() }, None), "{text}");
        }
    }

    #[test]
    fn a_hold_until_no_moment_that_can_be_written_names_none() {
        let until = |text: &str| ToldHold { reason: "later".into(), until: Some(text.into()) }.until();
        assert!(until("9999-12-31T00:00:00Z").is_some());
        for text in ["+20000-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00", "soon", ""] {
            assert_eq!(until(text), None, "{text}");
        }
    }

    #[test]
    fn a_cost_that_makes_no_sense_is_no_cost() {
        for cost_usd in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            assert_eq!(Told { cost_usd: Some(cost_usd), ..Told::default() }.cost_micros(), None);
        }
    }
}
