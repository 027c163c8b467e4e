//! The only place that reads the time. Decisions get `now` as an argument, so that a test can move it.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

/// A moment, to the millisecond, written `2026-11-16T02:29:53.123Z`: it sorts as text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Time(DateTime<Utc>);

/// A text that is not a moment as remand writes it.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a time like 2026-11-16T02:29:53.123Z")]
pub(crate) struct BadTime {
    text: String,
    #[source]
    source: chrono::ParseError,
}

/// Now, cut to the millisecond that is stored.
#[expect(clippy::disallowed_methods, reason = "the one place")]
pub(crate) fn now() -> Time {
    Time::from_millis(Utc::now().timestamp_millis())
}

impl Time {
    pub(crate) fn from_millis(ms: i64) -> Self {
        Self(DateTime::from_timestamp_millis(ms).unwrap_or_default())
    }

    pub(crate) fn parse(text: &str) -> Result<Self, BadTime> {
        DateTime::parse_from_rfc3339(text)
            .map(|t| Self::from_millis(t.with_timezone(&Utc).timestamp_millis()))
            .map_err(|source| BadTime { text: text.chars().take(80).collect(), source })
    }

    #[cfg(test)]
    pub(crate) fn millis(self) -> i64 {
        self.0.timestamp_millis()
    }

    pub(crate) fn plus(self, duration: Duration) -> Self {
        let delta = TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX);
        Self(self.0.checked_add_signed(delta).unwrap_or(DateTime::<Utc>::MAX_UTC))
    }

    /// How long from `earlier` to here; nothing when the clock was set back in between.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        (self.0 - earlier.0).to_std().unwrap_or_default()
    }

    pub(crate) fn utc(self) -> DateTime<Utc> {
        self.0
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl serde::Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let t = Time::parse("2026-11-16T02:29:53.123Z").unwrap();
        assert_eq!(t.to_string(), "2026-11-16T02:29:53.123Z");
        assert_eq!(Time::parse("2026-11-16T03:29:53.123+01:00").unwrap(), t);
        assert!(Time::parse("yesterday").is_err());
    }

    #[test]
    fn a_clock_set_back_gives_no_negative_duration() {
        let t = Time::from_millis(1_000);
        assert_eq!(t.since(Time::from_millis(5_000)), Duration::ZERO);
        assert_eq!(t.plus(Duration::MAX).millis(), DateTime::<Utc>::MAX_UTC.timestamp_millis());
    }
}
