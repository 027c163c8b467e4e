//! The only module that reads the time. Decisions get `now` as an argument, so that tests can move
//! it.

use std::fmt;
use std::time::Duration;

use chrono::{
    DateTime, Days, Local, NaiveDate, NaiveDateTime, NaiveTime, SecondsFormat, TimeDelta, TimeZone,
    Utc,
};

use crate::closed_enum::closed_enum;

closed_enum! {
    /// Time zone of a schedule or a day.
    "timezone" Zone {
        Utc = "utc",
        /// Time zone of the machine.
        ///
        /// If an hour is skipped in spring, its firings move to the following hour. In the hour
        /// that is repeated in autumn, a schedule that names hours fires only the first time.
        Local = "local",
    }
}

/// Calendar day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Day {
    /// Date, such as `2026-11-17`.
    pub(crate) name: String,
    pub(crate) start: Time,
    /// Start of the next day.
    pub(crate) end: Time,
}

/// Point in time with millisecond precision, written `2026-11-16T02:29:53.123Z`. The text sorts by
/// time, so the year always has four digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Time(DateTime<Utc>);

/// Error for a text that is not a time in remand's format.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a time in the form 2026-11-16T02:29:53.123Z")]
pub(crate) struct BadTime {
    text: String,
    #[source]
    source: Option<chrono::ParseError>,
}

/// Returns the current time, truncated to milliseconds as stored.
#[expect(
    clippy::disallowed_methods,
    reason = "the only place that reads the clock"
)]
pub(crate) fn now() -> Time {
    Time::from_millis(
        Utc::now()
            .timestamp_millis()
            .saturating_add(crate::failpoint::clock_offset_ms()),
    )
}

/// True if a stored time has been reached.
///
/// A time further ahead than `longest`, the longest interval that is ever stored there, was written
/// while the clock was ahead. Waiting for it would take as long as that clock was wrong, so it
/// counts as reached.
pub(crate) fn is_due(stored: Time, now: Time, longest: Duration) -> bool {
    stored <= now || stored > now.plus(longest)
}

/// Returns the pause after several failures in a row: the first one, doubled with each further failure, up to the
/// longest.
pub(crate) fn backoff(failures: i64, (first, longest): (Duration, Duration)) -> Duration {
    let doublings = u32::try_from(failures.clamp(0, 20)).unwrap_or(20);
    first.saturating_mul(1 << doublings).min(longest)
}

/// Returns the day that contains a point in time.
pub(crate) fn day(moment: Time, zone: Zone) -> Day {
    match zone {
        Zone::Utc => day_in(&Utc, moment),
        Zone::Local => day_in(&Local, moment),
    }
}

fn day_in<Z: TimeZone>(zone: &Z, moment: Time) -> Day {
    let date = moment.utc().with_timezone(zone).date_naive();
    let next = date.checked_add_days(Days::new(1)).unwrap_or(date);
    Day {
        name: date.to_string(),
        start: start_of(zone, date),
        end: start_of(zone, next),
    }
}

/// Returns the first moment of a date. In some zones a clock change skips midnight.
fn start_of<Z: TimeZone>(zone: &Z, date: NaiveDate) -> Time {
    let midnight = date.and_time(NaiveTime::MIN);
    let moments = (0..=24).filter_map(|hours| {
        zone.from_local_datetime(&(midnight + TimeDelta::hours(hours)))
            .earliest()
    });
    let first = moments
        .map(|moment| moment.with_timezone(&Utc).timestamp_millis())
        .next();
    Time::from_millis(first.unwrap_or_else(|| midnight.and_utc().timestamp_millis()))
}

/// Parses a time as people type it: `2026-11-18`, `2026-11-18 14:30`, both local, or in remand's own format.
pub(crate) fn read_moment(text: &str) -> Option<Time> {
    if let Ok(date) = text.parse::<NaiveDate>() {
        return Some(start_of(&Local, date));
    }
    let local = ["%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M"]
        .iter()
        .find_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
    match local {
        Some(moment) => {
            let moment = Local.from_local_datetime(&moment).earliest()?;
            Some(Time::from_millis(moment.timestamp_millis()))
        }
        None => Time::parse(text).ok(),
    }
}

/// Reads the system's monotonic clock, in microseconds as systemd uses it.
pub(crate) fn monotonic_usec() -> i64 {
    let since = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    since
        .tv_sec
        .saturating_mul(1_000_000)
        .saturating_add(since.tv_nsec / 1_000)
}

impl Time {
    /// First and last time that can be written: the years 0000 and 9999.
    const BOUNDS: (i64, i64) = (-62_167_219_200_000, 253_402_300_799_999);

    /// Converts milliseconds to the nearest time that can be written.
    pub(crate) fn from_millis(ms: i64) -> Self {
        Self(
            DateTime::from_timestamp_millis(ms.clamp(Self::BOUNDS.0, Self::BOUNDS.1))
                .unwrap_or_default(),
        )
    }

    pub(crate) fn parse(text: &str) -> Result<Self, BadTime> {
        let bad = |source| BadTime {
            text: text.chars().take(80).collect(),
            source,
        };
        let ms = DateTime::parse_from_rfc3339(text)
            .map_err(|source| bad(Some(source)))?
            .timestamp_millis();
        if (Self::BOUNDS.0..=Self::BOUNDS.1).contains(&ms) {
            Ok(Self::from_millis(ms))
        } else {
            Err(bad(None))
        }
    }

    pub(crate) fn millis(self) -> i64 {
        self.0.timestamp_millis()
    }

    pub(crate) fn plus(self, duration: Duration) -> Self {
        Self::from_millis(self.millis().saturating_add(millis(duration)))
    }

    pub(crate) fn minus(self, duration: Duration) -> Self {
        Self::from_millis(self.millis().saturating_sub(millis(duration)))
    }

    /// Returns the time elapsed since `earlier`; zero if the clock was set back in between.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        (self.0 - earlier.0).to_std().unwrap_or_default()
    }

    /// Formats a time as `2026-11-18 14:30:05` in the time zone of this machine.
    pub(crate) fn local(self) -> String {
        let local = self.0.with_timezone(&Local);
        local.format("%Y-%m-%d %H:%M:%S").to_string()
    }

    /// Formats a time in remand's own format for UTC, otherwise like `local`.
    pub(crate) fn text(self, zone: Zone) -> String {
        match zone {
            Zone::Utc => self.to_string(),
            Zone::Local => self.local(),
        }
    }

    pub(crate) fn utc(self) -> DateTime<Utc> {
        self.0
    }

    /// Formats the time of day on this machine: `14:03:27`.
    pub(crate) fn local_time(self) -> String {
        self.0.with_timezone(&Local).format("%H:%M:%S").to_string()
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
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

impl<'de> serde::Deserialize<'de> for Time {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <String as serde::Deserialize>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
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
    }

    #[test]
    fn a_day_ends_where_the_next_begins() {
        let east = chrono::FixedOffset::east_opt(5 * 3_600).unwrap();
        let moment = Time::parse("2026-11-16T20:00:00.000Z").unwrap();
        let here = day_in(&east, moment);
        assert_eq!(
            (here.name.as_str(), here.start.to_string().as_str()),
            ("2026-11-17", "2026-11-16T19:00:00.000Z")
        );
        assert_eq!(here.end.to_string(), "2026-11-17T19:00:00.000Z");
        let utc = day(moment, Zone::Utc);
        assert_eq!(
            (utc.name.as_str(), utc.end.to_string().as_str()),
            ("2026-11-16", "2026-11-17T00:00:00.000Z")
        );
    }

    #[test]
    fn a_moment_that_is_too_far_ahead_has_come() {
        let (now, longest) = (Time::from_millis(1_000_000), Duration::from_secs(60));
        for (stored, expected) in [
            (0, true),
            (1_000_000, true),
            (1_000_001, false),
            (1_060_000, false),
            (1_060_001, true),
            (i64::MAX, true),
        ] {
            assert_eq!(
                is_due(Time::from_millis(stored), now, longest),
                expected,
                "{stored}"
            );
        }
    }

    #[test]
    fn a_year_never_has_five_digits() {
        let last = Time::from_millis(1_000).plus(Duration::MAX);
        assert_eq!(last.to_string(), "9999-12-31T23:59:59.999Z");
        assert_eq!(Time::parse(&last.to_string()).unwrap(), last);
        assert_eq!(last.plus(Duration::from_millis(1)), last);
        assert_eq!(Time::from_millis(i64::MAX), last);
        assert_eq!(
            Time::from_millis(i64::MIN).to_string(),
            "0000-01-01T00:00:00.000Z"
        );
        for text in [
            "+12000-01-01T00:00:00.000Z",
            "9999-12-31T23:59:59.999-01:00",
            "0000-01-01T00:00:00.000+01:00",
        ] {
            assert!(Time::parse(text).is_err(), "{text}");
        }
    }
}
