//! `[sandbox]`: paths that agents, gates and set-ups may see and write.

use serde::{Deserialize, Serialize};

use super::Loaded;
use super::check::Complaint;
use crate::sandbox_settings::{Mounts, SandboxKind, SandboxSettings};
use crate::toml_path::KeyPath;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct SandboxTable {
    pub(super) kind: SandboxKind,
    pub(super) wrapper: Vec<String>,
    pub(super) read: Vec<String>,
    pub(super) write: Vec<String>,
}

impl SandboxTable {
    pub(super) fn complaints(&self, at: &KeyPath) -> Vec<Complaint> {
        let has_words = self.wrapper.first().is_some_and(|word| !word.is_empty());
        let complaint = |title: &str, help: &str| Complaint {
            keys: vec![at.key("wrapper"), at.key("kind")],
            title: title.to_owned(),
            help: help.to_owned(),
        };
        let mut complaints = Vec::new();
        if self.kind == SandboxKind::Wrapper && !has_words {
            complaints.push(complaint(
                "`kind = \"wrapper\"` without a wrapper",
                "set `wrapper` to the words to put before each command, such as [\"my-jail\", \"--\"]",
            ));
        }
        if self.kind != SandboxKind::Wrapper && !self.wrapper.is_empty() {
            complaints.push(complaint(
                "`wrapper` is set but not used",
                "it is used only with kind = \"wrapper\"",
            ));
        }
        complaints
    }
}

impl Loaded {
    /// Returns the settings of the sandbox with absolute paths; remand's state is hidden.
    pub(crate) fn sandbox(&self) -> SandboxSettings {
        let set = &self.config.sandbox;
        let whole = |paths: &[String]| paths.iter().map(|text| self.resolve(text)).collect();
        SandboxSettings {
            kind: set.kind,
            wrapper: set.wrapper.clone(),
            mounts: Mounts {
                home: self.home.clone(),
                read: whole(&set.read),
                write: whole(&set.write),
                hidden: vec![self.state_folder()],
            },
        }
    }
}
