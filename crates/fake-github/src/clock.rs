//! The only place in this crate that reads the time.

use std::time::Duration;

use chrono::{DateTime, Utc};

#[expect(
    clippy::disallowed_methods,
    reason = "the only place in this crate that reads the time"
)]
pub(crate) fn now() -> DateTime<Utc> {
    Utc::now()
}

/// Formats a time as GitHub does: `2026-11-16T08:00:00Z`.
pub(crate) fn timestamp(time: DateTime<Utc>) -> String {
    time.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns the timestamp one second after `timestamp`.
pub(crate) fn one_second_later(timestamp: &str) -> Result<String, chrono::ParseError> {
    let time: DateTime<Utc> = timestamp.parse()?;
    Ok(self::timestamp(time + Duration::from_secs(1)))
}
