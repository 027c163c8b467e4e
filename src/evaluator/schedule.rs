//! The schedule of an evaluator. Wraps the `cron` crate, which reads some expressions in a way that cron users do not
//! expect: ambiguous expressions are refused. It must not read the clock.

use chrono::{
    DateTime, Datelike as _, Local, LocalResult, NaiveDateTime, Offset as _, TimeDelta, TimeZone,
    Utc,
};
use cron::TimeUnitSpec as _;

use crate::clock::{Time, Zone};

const SHORTHANDS: &str = "@hourly, @daily, @weekly, @monthly, @yearly";

/// Fixed times. A firing is an exact second computed from the expression, independent of when it is noticed: a caller
/// that stores the last firing and asks for the next one after it sees each firing once. With five fields that is at
/// most once per minute; with seconds, one minute may have several firings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schedule {
    text: String,
    cron: cron::Schedule,
    zone: Zone,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ScheduleError {
    #[error("`@every` is not supported")]
    Every,
    #[error("unknown shorthand `{text}`; allowed: {SHORTHANDS}")]
    Shorthand { text: String },
    #[error(
        "{count} fields instead of 5 (minute hour day month weekday), 6 (second first) or 7 (year last)"
    )]
    FieldCount { count: usize },
    #[error("`{text}` is not a valid field")]
    Field { text: String },
    #[error("weekday `{text}` is ambiguous: Sunday is 0 in cron but 1 in this parser")]
    WeekdayNumber { text: String },
    #[error(
        "day `{day}` together with weekday `{weekday}` is ambiguous: cron runs when either matches, but this parser would require both"
    )]
    DayAndWeekday { day: String, weekday: String },
    #[error("it would not run in the next five years")]
    Never,
    #[error("a number or name is out of range")]
    Cron {
        #[source]
        source: cron::error::Error,
    },
}

impl ScheduleError {
    /// Suggests a valid schedule.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Every => "`*/5 * * * *` is every five minutes, `0 */2 * * *` every two hours",
            Self::Shorthand { .. } | Self::FieldCount { .. } => {
                "for example `*/5 * * * *`, `0 9 * * Mon-Fri` or `@daily`"
            }
            Self::Field { .. } => {
                "a field is `*`, a value, a range `1-5` or a list `1,15`, each with an optional step such as `*/10`, without spaces"
            }
            Self::WeekdayNumber { .. } => {
                "use the name of the weekday: Sun, Mon, Tue, Wed, Thu, Fri, Sat"
            }
            Self::DayAndWeekday { .. } => "restrict one of them and leave the other as `*`",
            Self::Never => "check the day, the month and the year",
            Self::Cron { .. } => {
                "seconds and minutes 0-59, hours 0-23, days 1-31, months 1-12 or Jan-Dec, weekdays Sun-Sat, ranges in ascending order"
            }
        }
    }
}

impl Schedule {
    /// `now` decides if it will ever fire.
    pub(crate) fn parse(text: &str, zone: Zone, now: Time) -> Result<Self, ScheduleError> {
        let cron = unambiguous(text.trim())?
            .parse()
            .map_err(|source| ScheduleError::Cron { source })?;
        let schedule = Self {
            text: text.trim().to_string(),
            cron,
            zone,
        };
        match schedule.next_after(now) {
            Some(first) if first.utc() - now.utc() <= HORIZON => Ok(schedule),
            Some(_) | None => Err(ScheduleError::Never),
        }
    }

    /// Text of the schedule in the file.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn zone(&self) -> Zone {
        self.zone
    }

    /// The first firing after `after`.
    pub(crate) fn next_after(&self, after: Time) -> Option<Time> {
        if after.utc().year() > LAST_YEAR {
            return None;
        }
        let next = match self.zone {
            Zone::Utc => self.cron.after(&after.utc()).next(),
            Zone::Local => self.next_in(&Local, after.utc()),
        };
        next.map(|next| Time::from_millis(next.timestamp_millis()))
    }

    /// The first `count` firings after `after`.
    pub(crate) fn next(&self, after: Time, count: usize) -> Vec<Time> {
        std::iter::successors(self.next_after(after), |&last| self.next_after(last))
            .take(count)
            .collect()
    }

    /// The crate steps by wall clock, so that around a change of the offset it goes backwards or skips an hour. Here it
    /// only lists wall-clock times; they are converted to instants below.
    fn next_in<Z: TimeZone>(&self, zone: &Z, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let offset = |at: DateTime<Utc>| zone.offset_from_utc_datetime(&at.naive_utc()).fix();
        let here = offset(after);
        let simple = self
            .cron
            .after(&after.with_timezone(&here))
            .next()?
            .with_timezone(&Utc);
        let is_steady = [after - LONGEST_CHANGE, simple, simple + LONGEST_CHANGE]
            .iter()
            .all(|&at| offset(at) == here);
        if is_steady {
            return Some(simple);
        }
        let from = (after - LONGEST_CHANGE).with_timezone(&here).naive_local();
        let mut best: Option<DateTime<Utc>> = None;
        for wall in self
            .cron
            .after(&from.and_utc())
            .map(|wall| wall.naive_utc())
        {
            for moment in self
                .moments(zone, wall)
                .into_iter()
                .flatten()
                .filter(|&moment| moment > after)
            {
                best = Some(best.map_or(moment, |best| best.min(moment)));
            }
            // Once the clock has advanced by more than any change of the offset, later wall-clock times cannot be
            // earlier instants.
            if best.is_some_and(|best| {
                wall > best.with_timezone(&offset(best)).naive_local() + LONGEST_CHANGE
            }) {
                break;
            }
        }
        best
    }

    /// The instants at which a wall clock shows `wall` and this schedule fires.
    fn moments<Z: TimeZone>(&self, zone: &Z, wall: NaiveDateTime) -> [Option<DateTime<Utc>>; 2] {
        let names_hours = !self.cron.hours().is_all();
        match zone.from_local_datetime(&wall) {
            LocalResult::Single(moment) => [Some(moment.with_timezone(&Utc)), None],
            LocalResult::Ambiguous(first, _) if names_hours => {
                [Some(first.with_timezone(&Utc)), None]
            }
            LocalResult::Ambiguous(first, second) => [
                Some(first.with_timezone(&Utc)),
                Some(second.with_timezone(&Utc)),
            ],
            // Uses the offset from before the gap: 02:30 becomes 03:30.
            LocalResult::None if names_hours => {
                let before = zone.from_local_datetime(&(wall - LONGEST_CHANGE)).latest();
                [
                    before.map(|before| before.with_timezone(&Utc) + LONGEST_CHANGE),
                    None,
                ]
            }
            LocalResult::None => [None, None],
        }
    }
}

const HORIZON: TimeDelta = TimeDelta::days(5 * 366);

/// The crate supports no later year, and its arithmetic panics at the end of its range.
const LAST_YEAR: i32 = 2100;

/// No current time zone shifts its clock by more.
const LONGEST_CHANGE: TimeDelta = TimeDelta::hours(3);

/// The expression in the crate's own syntax, if it is unambiguous.
fn unambiguous(text: &str) -> Result<String, ScheduleError> {
    if text.starts_with('@') {
        return match text {
            "@hourly" | "@daily" | "@weekly" | "@monthly" | "@yearly" => Ok(text.into()),
            every if every.starts_with("@every") => Err(ScheduleError::Every),
            other => Err(ScheduleError::Shorthand { text: short(other) }),
        };
    }
    let mut fields: Vec<&str> = text.split_whitespace().collect();
    if !(5..=7).contains(&fields.len()) {
        return Err(ScheduleError::FieldCount {
            count: fields.len(),
        });
    }
    // The crate allows spaces within a field and needs none between two, so that `*1` would be two fields.
    if let Some(field) = fields.iter().find(|field| !field.split(',').all(is_item)) {
        return Err(ScheduleError::Field { text: short(field) });
    }
    if fields.len() == 5 {
        fields.insert(0, "0");
    }
    if let [_, _, _, day, _, weekday, ..] = fields.as_slice() {
        let is_number = |item: &str| {
            item.split('/')
                .next()
                .is_some_and(|item| item.contains(|c: char| c.is_ascii_digit()))
        };
        if weekday.split(',').any(is_number) {
            return Err(ScheduleError::WeekdayNumber {
                text: short(weekday),
            });
        }
        let is_restricted = |field: &str| field != "*" && field != "?";
        if is_restricted(day) && is_restricted(weekday) {
            return Err(ScheduleError::DayAndWeekday {
                day: short(day),
                weekday: short(weekday),
            });
        }
    }
    Ok(fields.join(" "))
}

/// `*`, `?`, `5`, `Mon`, `1-5`, `Mon-Fri`, each perhaps with a step `/2`.
fn is_item(item: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_value = |text: &str| {
        is_number(text) || !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphabetic())
    };
    let (range, step) = item
        .split_once('/')
        .map_or((item, None), |(range, step)| (range, Some(step)));
    step.is_none_or(is_number)
        && (range == "*" || range == "?" || range.splitn(2, '-').all(is_value))
}

fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
