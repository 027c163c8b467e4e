//! Log of the loops, on stderr.

use std::io;

use tracing_subscriber::EnvFilter;

use super::journal::{self, Prioritized};
use crate::config::settings::{Log, LogFormat};

/// Default verbosity of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Talk {
    /// A daemon: one line per step.
    Log,
    /// A daemon whose steps are printed for a person: only warnings that are not part of them.
    Narrated,
    /// A command that exits by itself: only warnings.
    Warnings,
}

/// Starts logging. `-v` adds steps if only warnings would be logged, and details otherwise.
pub(crate) fn begin(settings: &Log, verbose: u8, talk: Talk) {
    let level = match (talk, verbose) {
        (Talk::Warnings | Talk::Narrated, 0) => "warn",
        (Talk::Warnings, 1) => "info",
        (Talk::Log, 0) | (Talk::Narrated, 1) => settings.level.as_str(),
        (Talk::Log | Talk::Narrated | Talk::Warnings, _) => "debug",
    };
    // Lines with this target describe events, which the narration prints.
    let narrated = match (talk, verbose) {
        (Talk::Narrated, 0) => ",remand::narrated=off",
        (Talk::Log | Talk::Narrated | Talk::Warnings, _) => "",
    };
    let filter = EnvFilter::builder().parse_lossy(format!("remand={level}{narrated}"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_target(false);
    let begun = match (settings.format, journal::is_journal()) {
        // The journal adds a time; a second one would be redundant.
        (LogFormat::Text, true) => builder
            .with_ansi(false)
            .without_time()
            .map_event_format(Prioritized)
            .try_init(),
        (LogFormat::Json, true) => builder.json().map_event_format(Prioritized).try_init(),
        (LogFormat::Json, false) => builder.json().try_init(),
        (LogFormat::Text, false) => {
            // As for all other output: not in a pipe, with NO_COLOR or on a dumb terminal.
            let choice = anstream::AutoStream::choice(&io::stderr());
            let is_coloured = choice != anstream::ColorChoice::Never;
            builder.with_ansi(is_coloured).try_init()
        }
    };
    // A second logger in one process would be a bug, but not a reason to fail.
    drop(begun);
}
