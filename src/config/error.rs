//! Errors in the settings, reported so that a person can fix them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::diagnostic::{Colour, Problem};
use crate::text::joined;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("error: config file {} not found (set by {named_by})", path.display())]
    NotFound {
        path: PathBuf,
        named_by: &'static str,
    },
    /// The cause is in the text, so it is not a `#[source]`, which would be reported a second time.
    #[error("error: cannot read the config file {}: {cause}", path.display())]
    Unreadable { path: PathBuf, cause: io::Error },
    /// The file is not TOML.
    #[error("{0}")]
    Syntax(Report),
    /// The file is TOML, but has unknown or unusable settings.
    #[error("{0}")]
    Invalid(Report),
    #[error(
        "error: cannot determine the database path: neither HOME nor XDG_STATE_HOME is set to an absolute path\n  = help: set one of them, REMAND_DB, or `blackboard` in the config file, or use --db FILE"
    )]
    NoHome,
}

/// All errors in one file. Its `Display` is the complete text, without colour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) file: PathBuf,
    pub(crate) source: String,
    pub(crate) problems: Vec<Problem>,
}

impl Report {
    pub(crate) fn render(&self, colour: Colour) -> String {
        let file = self.file.display().to_string();
        let problems = self.problems.iter();
        joined(
            problems.map(|one| one.render(&file, &self.source, colour)),
            "\n\n",
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Colour::Plain))
    }
}

pub(super) fn read_file(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|cause| ConfigError::Unreadable {
        path: path.into(),
        cause,
    })
}
