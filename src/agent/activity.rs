//! Progress of a running agent, for people: read from the output that its shim stores, so that
//! nothing else has to be written for it.

use std::path::Path;

use serde::Serialize;

use super::{Note, claude, last_line};
use crate::agent_kind::AgentKind;
use crate::clock::Time;
use crate::process::{self, ProcessError, Stream};

/// Maximum length of a line that is shown.
const SAID: usize = 200;

/// Current activity of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Doing {
    /// Description, such as `Edit src/a.rs`; for an agent that reports nothing specific, its last
    /// output.
    pub(crate) what: String,
    pub(crate) since: Time,
}

/// Returns the current activity of a run's agent, if it has produced any output yet.
pub(crate) fn doing(dir: &Path) -> Result<Option<Doing>, ProcessError> {
    // Read first: output written in the meantime must not look older than it is.
    let Some(written) = process::written_at(dir, Stream::Stdout)? else {
        return Ok(None);
    };
    let text = process::read_output(dir, Stream::Stdout)?.text;
    let activity = match Note::read(dir).kind {
        AgentKind::Claude => claude::doing(&text),
        AgentKind::Command => last_line(&text, SAID).map(|line| (line, None)),
    };
    Ok(activity.map(|(what, since)| Doing {
        what,
        since: since.unwrap_or(written),
    }))
}

/// Turns an agent's output into text for people, part by part.
pub(crate) struct Reader(Option<claude::Shown>);

impl Reader {
    pub(crate) fn of(dir: &Path) -> Self {
        Self(match Note::read(dir).kind {
            AgentKind::Command => None,
            AgentKind::Claude => Some(claude::Shown::default()),
        })
    }

    pub(crate) fn more(&mut self, text: &str) -> String {
        match &mut self.0 {
            Some(renderer) => renderer.more(text),
            None => text.to_owned(),
        }
    }

    /// Returns the rest after the last part.
    pub(crate) fn end(&mut self) -> String {
        self.0.as_mut().map(claude::Shown::end).unwrap_or_default()
    }
}
