//! The log of the loops, on stderr.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;

use super::journal::{self, Prioritized};
use crate::config::settings::{Log, LogFormat};

/// How much is said without being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Talk {
    /// A daemon: one line a step.
    Log,
    /// A command that ends by itself: only what a person should know.
    Warnings,
}

/// Begins to log. `-v` asks for steps where only warnings would be said, and for details otherwise.
pub(crate) fn begin(settings: &Log, verbose: u8, talk: Talk) {
    let level = match (talk, verbose) {
        (Talk::Warnings, 0) => "warn",
        (Talk::Warnings, 1) => "info",
        (Talk::Log, 0) => settings.level.as_str(),
        (Talk::Log | Talk::Warnings, _) => "debug",
    };
    let filter = EnvFilter::builder().parse_lossy(format!("remand={level}"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_target(false);
    let begun = match (settings.format, journal::is_journal()) {
        // The journal has a time of its own, people would see two.
        (LogFormat::Text, true) => builder
            .with_ansi(false)
            .without_time()
            .map_event_format(Prioritized)
            .try_init(),
        (LogFormat::Json, true) => builder.json().map_event_format(Prioritized).try_init(),
        (LogFormat::Json, false) => builder.json().try_init(),
        (LogFormat::Text, false) => builder.with_ansi(io::stderr().is_terminal()).try_init(),
    };
    // A second log in one process would be an error of ours, and no reason not to work.
    drop(begun);
}
