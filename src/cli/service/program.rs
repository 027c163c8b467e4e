//! Program that a unit starts.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Usual paths of an installed program.
const USUAL: [&str; 2] = ["usr/bin/remand", "usr/local/bin/remand"];

/// Path of the program in the unit.
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// Set if the file does not exist in the other file system.
    pub(super) is_missing: bool,
}

impl Program {
    /// Finds this program or, with a root, the one installed there: this path may not exist in it.
    pub(super) fn find(root: Option<&Path>) -> Result<Self> {
        let own = std::env::current_exe().context("cannot determine the path of this program")?;
        let Some(root) = root else {
            return Ok(Self {
                path: own,
                is_missing: false,
            });
        };
        let is_there = |path: &PathBuf| path.is_file();
        let same = if own.starts_with(root) {
            own.clone()
        } else {
            root.join(own.strip_prefix("/").unwrap_or(&own))
        };
        let usual = USUAL.iter().map(|path| root.join(path));
        let found = std::iter::once(same).chain(usual).find(is_there);
        Ok(Self {
            is_missing: found.is_none(),
            path: found.unwrap_or(own),
        })
    }
}
