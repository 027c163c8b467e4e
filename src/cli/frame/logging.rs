//! Log of the loops, on stderr.

use std::fmt;
use std::io;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::journal::{self, Prioritized};
use crate::clock;
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
    if let (Talk::Narrated, 0, LogFormat::Text) = (talk, verbose, settings.format) {
        // A second logger in one process would be a bug, but not a reason to fail.
        drop(builder.with_ansi(false).event_format(Narration).try_init());
        return;
    }
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

/// Format of warnings between the lines of the narration: the time of day, and what is wrong.
struct Narration;

impl<S, N> FormatEvent<S, N> for Narration
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO | Level::DEBUG | Level::TRACE => "note",
        };
        write!(writer, "{}  {level}: ", clock::now().local_time())?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
