//! Log lines in the format of systemd's journal: each with its priority and without a time.

use std::fmt;
#[cfg(target_os = "linux")]
use std::io;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

#[cfg(target_os = "linux")]
use crate::config;

/// Priority of an error, sd-daemon(3).
pub(crate) const ERROR: u8 = 3;

/// True if stderr goes to the journal.
#[cfg(target_os = "linux")]
pub(crate) fn is_journal() -> bool {
    let Some(journal) = config::journal() else {
        return false;
    };
    rustix::fs::fstat(io::stderr()).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == journal)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_journal() -> bool {
    false
}

/// Adds the priority to every line of the text; a line without one has priority "info".
pub(crate) fn with_priority(text: &str, priority: u8) -> String {
    text.lines()
        .map(|line| format!("<{priority}>{line}\n"))
        .collect()
}

/// Prefixes the output of another format with the priority.
pub(crate) struct Prioritized<F>(pub(crate) F);

impl<S, N, F> FormatEvent<S, N> for Prioritized<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut text = String::new();
        self.0
            .format_event(context, Writer::new(&mut text), event)?;
        let priority = match *event.metadata().level() {
            Level::ERROR => ERROR,
            Level::WARN => 4,
            Level::INFO => 6,
            Level::DEBUG | Level::TRACE => 7,
        };
        writer.write_str(&with_priority(&text, priority))
    }
}
