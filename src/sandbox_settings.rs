//! Settings of the sandbox: how commands are confined, and what they can see. The implementation is
//! in `sandbox`.

use std::path::PathBuf;

use crate::closed_enum::closed_enum;

closed_enum! {
    /// Method of confining commands.
    "sandbox kind" SandboxKind {
        /// Bubblewrap if it works on this machine, otherwise nothing.
        Auto = "auto",
        Bubblewrap = "bubblewrap",
        /// A command configured by the user, which is put before the one that it confines.
        Wrapper = "wrapper",
        Off = "off",
    }
}

/// Complete description of a sandbox, with absolute paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SandboxSettings {
    pub(crate) kind: SandboxKind,
    /// Command of the kind `wrapper`; empty for all others.
    pub(crate) wrapper: Vec<String>,
    pub(crate) mounts: Mounts,
}

/// Visible part of the home directory, and the hidden directories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mounts {
    pub(crate) home: Option<PathBuf>,
    pub(crate) read: Vec<PathBuf>,
    pub(crate) write: Vec<PathBuf>,
    /// Directories hidden in addition to home directories: remand's own state.
    pub(crate) hidden: Vec<PathBuf>,
}
