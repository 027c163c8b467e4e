//! Agents: how to start them, with which environment, how to read their progress, and what their
//! end means.
//!
//! This module starts nothing itself (`process` does) and does not know the blackboard. Dispatch
//! and the command line do not distinguish kinds of agents: they use this module. A new kind is a
//! variant of [`AgentKind`] and a file next to `command` and `claude`.

mod activity;
mod claude;
mod command;
mod login;
mod outcome;
mod result_file;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::agent_kind::AgentKind;
use crate::closed_enum::closed_enum;
use crate::files::{self, SMALL};
use crate::process::{self, Job, Limits, ProcessError, Stream};

pub(crate) use activity::{Doing, Reader, doing};
pub(crate) use claude::Claude;
pub(crate) use login::Login;
pub(crate) use outcome::{End, Outcome, outcome};

closed_enum! {
    /// Purpose for which an agent is started.
    "phase" Phase {
        Implement = "implement",
        Review = "review",
        Fix = "fix",
    }
}

/// Program that reads its prompt from stdin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) command: Vec<String>,
    pub(crate) model: Option<String>,
    /// The complete environment: the allow-list, the variables of its kind and those that its
    /// configuration names.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) manner: Protocol,
}

/// Settings of an agent by kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Its answer is its stdout.
    Command,
    Claude(Claude),
}

/// Context of one run of an agent; most of it is passed in the environment, for scripts.
#[derive(Debug, Clone)]
pub(crate) struct RunSpec<'a> {
    pub(crate) run_id: &'a str,
    pub(crate) phase: Phase,
    pub(crate) change_id: &'a str,
    pub(crate) item_id: &'a str,
    pub(crate) cycle: i64,
    pub(crate) base: &'a str,
    pub(crate) head: &'a str,
    pub(crate) branch: &'a str,
    pub(crate) worktree: &'a Path,
    pub(crate) dir: &'a Path,
    pub(crate) limits: Limits,
    pub(crate) session: &'a Session,
    /// Remaining money of the change, in millionths of a dollar.
    pub(crate) money_left: Option<i64>,
    /// Variables that the swapped configuration needs.
    pub(crate) extra_env: BTreeMap<String, String>,
}

/// Conversation that a run belongs to, if its agent supports that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Session {
    None,
    /// A new one, with an id chosen by remand.
    New(String),
    /// One that an earlier run started.
    Resumed(String),
}

/// Returns the only directory of a run that the agent itself may write to.
pub(crate) fn answers(dir: &Path) -> PathBuf {
    dir.join("answers")
}

/// Information about a run's agent, stored in the run's directory for later readers of its output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    kind: AgentKind,
    resumed: bool,
}

impl AgentKind {
    /// Returns the variables of remand's environment that an agent of this kind gets, besides those
    /// of every agent.
    pub(crate) fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Command => &[],
            Self::Claude => claude::VARIABLES,
        }
    }
}

impl Agent {
    fn kind(&self) -> AgentKind {
        match self.manner {
            Protocol::Command => AgentKind::Command,
            Protocol::Claude(_) => AgentKind::Claude,
        }
    }

    /// Returns a session for a new run: that of an earlier run if requested and possible.
    pub(crate) fn session(&self, earlier: Option<String>) -> Session {
        match (self.kind(), earlier) {
            (AgentKind::Command, _) => Session::None,
            (AgentKind::Claude, Some(id)) => Session::Resumed(id),
            (AgentKind::Claude, None) => Session::New(uuid::Uuid::new_v4().to_string()),
        }
    }

    /// Returns true if an earlier conversation can be resumed.
    pub(crate) fn can_resume(&self) -> bool {
        self.kind() == AgentKind::Claude
    }

    /// Returns the directory with its sessions and its login, if its environment sets another than
    /// the default.
    pub(crate) fn own_folder(&self) -> Option<PathBuf> {
        let name = match self.kind() {
            AgentKind::Command => return None,
            AgentKind::Claude => claude::OWN_FOLDER,
        };
        let folder = self.env.get(name).map(PathBuf::from);
        folder.filter(|folder| folder.is_absolute())
    }

    /// Returns the path and content of a file that must be in the run's directory before it starts.
    pub(crate) fn note(&self, dir: &Path, session: &Session) -> (PathBuf, Vec<u8>) {
        let note = Note {
            kind: self.kind(),
            resumed: matches!(session, Session::Resumed(_)),
        };
        let bytes = serde_json::to_vec(&note).unwrap_or_default();
        (note_file(dir), bytes)
    }

    pub(crate) fn job(&self, errand: &RunSpec<'_>) -> Job {
        let mut env = self.env.clone();
        env.extend(errand.extra_env.clone());
        for (name, value) in [
            ("REMAND_PHASE", errand.phase.as_str().to_owned()),
            ("REMAND_CHANGE", errand.change_id.to_owned()),
            ("REMAND_ITEM", errand.item_id.to_owned()),
            ("REMAND_CYCLE", errand.cycle.to_string()),
            ("REMAND_BASE", errand.base.to_owned()),
            ("REMAND_HEAD", errand.head.to_owned()),
            ("REMAND_BRANCH", errand.branch.to_owned()),
        ] {
            env.insert(name.to_owned(), value);
        }
        let argv = match &self.manner {
            Protocol::Command => command::dress(self, errand, &mut env),
            Protocol::Claude(claude) => claude.dress(self, errand, &mut env),
        };
        Job {
            run_id: errand.run_id.to_owned(),
            argv,
            cwd: errand.worktree.to_owned(),
            env,
            stdin: prompt_file(errand.dir),
            dir: errand.dir.to_owned(),
            limits: errand.limits,
            is_wrapped: false,
        }
    }
}

impl Phase {
    /// True if the agent may write in the worktree.
    pub(crate) fn writes(self) -> bool {
        match self {
            Self::Implement | Self::Fix => true,
            Self::Review => false,
        }
    }
}

impl Session {
    pub(crate) fn id(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::New(id) | Self::Resumed(id) => Some(id),
        }
    }
}

/// Returns the path of the prompt in a run's directory.
pub(crate) fn prompt_file(dir: &Path) -> PathBuf {
    dir.join("prompt.md")
}

/// Returns the answer of a run's agent, after it has ended.
pub(crate) fn answer(dir: &Path) -> Result<String, ProcessError> {
    let text = process::read_output(dir, Stream::Stdout)?.text;
    Ok(match Note::read(dir).kind {
        AgentKind::Command => text,
        AgentKind::Claude => claude::answer(&text),
    })
}

/// Returns actions that the agent of a run requested and that were not allowed, in its own terms.
pub(crate) fn denied(dir: &Path) -> Vec<String> {
    match Note::read(dir).kind {
        AgentKind::Command => Vec::new(),
        // Unreadable output lists nothing.
        AgentKind::Claude => claude::denied(&output(dir, Stream::Stdout)),
    }
}

/// Returns the output of a run; empty if it cannot be read.
fn output(dir: &Path, stream: Stream) -> String {
    process::read_output(dir, stream).map_or_else(|_| String::new(), |kept| kept.text)
}

/// Returns the last line with text, cut to a number of characters.
fn last_line(text: &str, most: usize) -> Option<String> {
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.chars().take(most).collect())
}

impl Note {
    /// Reads the information. A run without it is an old one, of the only kind that existed then.
    fn read(dir: &Path) -> Self {
        let bytes = files::read(&note_file(dir), SMALL).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or(Self {
            kind: AgentKind::Command,
            resumed: false,
        })
    }
}

fn note_file(dir: &Path) -> PathBuf {
    dir.join("agent.json")
}

/// Maximum number of tokens, more than any run uses.
const MOST_TOKENS: i64 = 1_000_000_000_000;

fn sensible_tokens(tokens: Option<i64>) -> Option<i64> {
    let tokens = tokens.filter(|tokens| *tokens >= 0);
    tokens.map(|tokens| tokens.min(MOST_TOKENS))
}

/// Converts dollars to millionths; `None` for an invalid amount.
fn micros(dollars: f64) -> Option<i64> {
    if !dollars.is_finite() || !(0.0..1e6).contains(&dollars) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "at most a million dollars, as checked above"
    )]
    // Rounded up, except for floating-point noise in the last bits.
    Some((dollars * 1e6 - 1e-3).ceil() as i64)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_cost_that_makes_no_sense_is_no_cost() {
        for dollars in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            assert_eq!(micros(dollars), None);
        }
        assert_eq!(
            [0.0, 0.0045179999999999994, 0.1 + 0.2, 1e-6].map(micros),
            [0, 4518, 300_000, 1].map(Some)
        );
        assert_eq!(micros(0.000_000_4), Some(1), "something is not nothing");
    }

    #[test]
    fn a_folder_without_a_note_is_a_command_s() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            Note::read(folder.path()),
            Note {
                kind: AgentKind::Command,
                resumed: false
            }
        );
        fs::write(note_file(folder.path()), "{\"kind\": \"oracle\"").unwrap();
        assert_eq!(Note::read(folder.path()).kind, AgentKind::Command);
    }
}
