//! What an agent says while it works, for people: read from what its shim keeps, so that nothing has to be written for
//! it anywhere else.

use std::path::Path;

use serde::Serialize;

use super::{Note, claude};
use crate::agent_kind::AgentKind;
use crate::clock::Time;
use crate::process::{self, ProcessError, Stream};

/// How much of a line is told.
const SAID: usize = 200;

/// What an agent is doing now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Doing {
    /// `Edit src/a.rs`; of an agent that tells nothing in particular, what it wrote last.
    pub(crate) what: String,
    pub(crate) since: Time,
}

/// What the agent of this run is doing, as far as it said anything yet.
pub(crate) fn doing(dir: &Path) -> Result<Option<Doing>, ProcessError> {
    // Looked at first: what is written meanwhile must not look older than it is.
    let Some(written) = process::written_at(dir, Stream::Stdout)? else {
        return Ok(None);
    };
    let text = process::read_output(dir, Stream::Stdout)?.text;
    let told = match Note::read(dir).kind {
        AgentKind::Claude => claude::doing(&text),
        AgentKind::Command => {
            let line = text.lines().rev().find(|line| !line.trim().is_empty());
            line.map(|line| (line.trim().chars().take(SAID).collect(), None))
        }
    };
    Ok(told.map(|(what, since)| Doing {
        what,
        since: since.unwrap_or(written),
    }))
}

/// Turns an agent's output into what people read, part by part.
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
            Some(shown) => shown.more(text),
            None => text.to_owned(),
        }
    }

    /// What is left when nothing more comes.
    pub(crate) fn end(&mut self) -> String {
        self.0.as_mut().map(claude::Shown::end).unwrap_or_default()
    }
}
