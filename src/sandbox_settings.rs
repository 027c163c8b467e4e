//! The settings of the sandbox: how commands are confined, and what they see. The sandbox itself is `sandbox`.

use std::path::PathBuf;

use crate::closed_enum::closed_enum;

closed_enum! {
    /// How commands are confined.
    "kind of sandbox" SandboxKind {
        /// Bubblewrap where it works, nothing elsewhere.
        Auto = "auto",
        Bubblewrap = "bubblewrap",
        /// A command of the user's own, put before the one that it confines.
        Wrapper = "wrapper",
        Off = "off",
    }
}

/// Everything that a sandbox is made from, with absolute paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SandboxSettings {
    pub(crate) kind: SandboxKind,
    /// The command of the kind `wrapper`; empty for all others.
    pub(crate) wrapper: Vec<String>,
    pub(crate) mounts: Mounts,
}

/// The visible part of the home, and the folders that are hidden.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mounts {
    pub(crate) home: Option<PathBuf>,
    pub(crate) read: Vec<PathBuf>,
    pub(crate) write: Vec<PathBuf>,
    /// Hidden besides the homes: remand's own state.
    pub(crate) hidden: Vec<PathBuf>,
}
