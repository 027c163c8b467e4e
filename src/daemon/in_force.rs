//! Compares settings that were just read with those in effect in the running daemon.

use super::lock;
use crate::blackboard::{Changed, ChangedKind, Configuration};
use crate::clock::Time;
use crate::config::Loaded;
use crate::config::explain::{Difference, differences};
use crate::diagnostic::title;

/// Relation of settings to those of the running daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InForce {
    /// No daemon is running; the next one reads them.
    NoDaemon,
    Yes {
        pid: String,
        since: Time,
    },
    /// The daemon was started with another config file.
    OtherFile {
        pid: String,
        file: Option<String>,
    },
    No {
        pid: String,
        since: Time,
        changed: Option<Changed>,
        differences: Vec<Difference>,
    },
}

impl InForce {
    /// Compares the settings with `row`, which the daemon recorded.
    pub(crate) fn of(loaded: &Loaded, row: Option<&Configuration>) -> Self {
        let (Some(pid), Some(row)) = (lock::holder(&loaded.blackboard), row) else {
            return Self::NoDaemon;
        };
        if row.file != loaded.file_text() {
            let file = row.file.clone();
            return Self::OtherFile { pid, file };
        }
        let since = row.in_force_since;
        let hash = loaded.sources.fingerprint();
        if row.hash == hash {
            return Self::Yes { pid, since };
        }
        let changed = row.changed.clone().filter(|changed| changed.hash == hash);
        let differences = differences(&row.settings, &loaded.values());
        Self::No {
            pid,
            since,
            changed,
            differences,
        }
    }

    /// Value for JSON; `None` if no daemon is running.
    pub(crate) fn is_in_force(&self) -> Option<bool> {
        match self {
            Self::NoDaemon => None,
            Self::Yes { .. } => Some(true),
            Self::OtherFile { .. } | Self::No { .. } => Some(false),
        }
    }

    pub(crate) fn sentence(&self) -> String {
        match self {
            Self::NoDaemon => "no daemon is running".to_owned(),
            Self::Yes { pid, since } => {
                format!("in effect in the daemon (pid {pid}) since {since}")
            }
            Self::OtherFile { pid, file } => {
                let file = file.as_deref().unwrap_or("no config file");
                format!("not in effect: the daemon (pid {pid}) was started with {file}")
            }
            Self::No {
                pid,
                since,
                changed,
                ..
            } => {
                let why = changed.as_ref().map_or_else(
                    || "the daemon loads a changed file once it has been stable for 2 s".to_owned(),
                    |changed| title(&changed.reason).to_owned(),
                );
                format!(
                    "not in effect: the daemon (pid {pid}) uses the settings it loaded at {since}; {why}"
                )
            }
        }
    }

    /// Returns the command that helps, if there is one.
    pub(crate) fn command(&self) -> Option<&'static str> {
        match self {
            Self::NoDaemon | Self::Yes { .. } | Self::OtherFile { .. } => None,
            Self::No { changed, .. } => {
                let kind = changed.as_ref().map(|changed| changed.kind);
                let is_invalid = kind == Some(ChangedKind::Invalid);
                Some(if is_invalid {
                    "remand config check"
                } else {
                    "remand reload"
                })
            }
        }
    }
}
