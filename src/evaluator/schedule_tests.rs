use chrono::{FixedOffset, NaiveDate};
use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Time {
    Time::parse(text).unwrap()
}

fn now() -> Time {
    at("2026-11-16T02:29:53.123Z") // a Monday
}

fn parse(text: &str) -> Result<Schedule, ScheduleError> {
    Schedule::parse(text, Zone::Utc, now())
}

#[test]
fn when_it_fires() {
    for (text, firings) in [
        (
            "*/5 * * * *",
            [
                "2026-11-16T02:30:00",
                "2026-11-16T02:35:00",
                "2026-11-16T02:40:00",
            ],
        ),
        (
            "  */5   * * * * ",
            [
                "2026-11-16T02:30:00",
                "2026-11-16T02:35:00",
                "2026-11-16T02:40:00",
            ],
        ),
        (
            "0 */5 * * * *",
            [
                "2026-11-16T02:30:00",
                "2026-11-16T02:35:00",
                "2026-11-16T02:40:00",
            ],
        ),
        (
            "*/20 * * * * *",
            [
                "2026-11-16T02:30:00",
                "2026-11-16T02:30:20",
                "2026-11-16T02:30:40",
            ],
        ),
        (
            "0 9 * * Mon",
            [
                "2026-11-16T09:00:00",
                "2026-11-23T09:00:00",
                "2026-11-30T09:00:00",
            ],
        ),
        (
            "0 9 * * mon-fri",
            [
                "2026-11-16T09:00:00",
                "2026-11-17T09:00:00",
                "2026-11-18T09:00:00",
            ],
        ),
        (
            "0 9 * * Sun,Wed",
            [
                "2026-11-18T09:00:00",
                "2026-11-22T09:00:00",
                "2026-11-25T09:00:00",
            ],
        ),
        (
            "0 9 ? * Sun",
            [
                "2026-11-22T09:00:00",
                "2026-11-29T09:00:00",
                "2026-12-06T09:00:00",
            ],
        ),
        (
            "0 9 13 * *",
            [
                "2026-12-13T09:00:00",
                "2027-01-13T09:00:00",
                "2027-02-13T09:00:00",
            ],
        ),
        (
            "0 9 13 * ?",
            [
                "2026-12-13T09:00:00",
                "2027-01-13T09:00:00",
                "2027-02-13T09:00:00",
            ],
        ),
        (
            "0 0 1,15 Jan *",
            [
                "2027-01-01T00:00:00",
                "2027-01-15T00:00:00",
                "2028-01-01T00:00:00",
            ],
        ),
        (
            "0 0 29 2 *",
            [
                "2028-02-29T00:00:00",
                "2032-02-29T00:00:00",
                "2036-02-29T00:00:00",
            ],
        ),
        (
            "0 0 0 1 1 * 2027-2029",
            [
                "2027-01-01T00:00:00",
                "2028-01-01T00:00:00",
                "2029-01-01T00:00:00",
            ],
        ),
        (
            "@hourly",
            [
                "2026-11-16T03:00:00",
                "2026-11-16T04:00:00",
                "2026-11-16T05:00:00",
            ],
        ),
        (
            "@daily",
            [
                "2026-11-17T00:00:00",
                "2026-11-18T00:00:00",
                "2026-11-19T00:00:00",
            ],
        ),
        (
            "@weekly",
            [
                "2026-11-22T00:00:00",
                "2026-11-29T00:00:00",
                "2026-12-06T00:00:00",
            ],
        ),
        (
            "@monthly",
            [
                "2026-12-01T00:00:00",
                "2027-01-01T00:00:00",
                "2027-02-01T00:00:00",
            ],
        ),
        (
            "@yearly",
            [
                "2027-01-01T00:00:00",
                "2028-01-01T00:00:00",
                "2029-01-01T00:00:00",
            ],
        ),
    ] {
        let expected = firings.map(|text| at(&format!("{text}.000Z")));
        assert_eq!(parse(text).unwrap().next(now(), 3), expected, "{text}");
    }
}

#[test]
fn what_is_refused() {
    let weekday = |text: &str| ScheduleError::WeekdayNumber { text: text.into() };
    let field = |text: &str| ScheduleError::Field { text: text.into() };
    let both = |day: &str, weekday: &str| ScheduleError::DayAndWeekday {
        day: day.into(),
        weekday: weekday.into(),
    };
    for (text, error) in [
        // Sundays here, Mondays in every crontab.
        ("0 0 9 * * 1", weekday("1")),
        ("0 9 * * 1", weekday("1")),
        ("0 9 * * 0", weekday("0")),
        ("0 9 * * 7", weekday("7")),
        ("0 9 * * 1-5", weekday("1-5")),
        ("0 9 * * Mon,3", weekday("Mon,3")),
        ("0 0 9 * * 1 2030", weekday("1")),
        ("0 0 9 13 * Fri", both("13", "Fri")),
        ("0 9 13 * Fri", both("13", "Fri")),
        ("0 9 */2 * Mon", both("*/2", "Mon")),
        ("0 0 0 31 2 *", ScheduleError::Never),
        ("0 0 30 Feb *", ScheduleError::Never),
        ("0 0 0 1 1 * 2020", ScheduleError::Never),
        ("0 0 0 1 1 * 2050", ScheduleError::Never),
        ("@every 5m", ScheduleError::Every),
        ("@every", ScheduleError::Every),
        (
            "@midnight",
            ScheduleError::Shorthand {
                text: "@midnight".into(),
            },
        ),
        (
            "@reboot",
            ScheduleError::Shorthand {
                text: "@reboot".into(),
            },
        ),
        (
            "@daily please",
            ScheduleError::Shorthand {
                text: "@daily please".into(),
            },
        ),
        ("", ScheduleError::FieldCount { count: 0 }),
        ("* * * *", ScheduleError::FieldCount { count: 4 }),
        ("0 0 0 * * * * *", ScheduleError::FieldCount { count: 8 }),
        // The crate would read these differently from how they look.
        ("0 0 9 * * Mon, 2", field("Mon,")),
        ("0 0 9 *1 * *", field("*1")),
        ("0 0 9 ** *", field("**")),
        ("0 9 * * Mon#2", field("Mon#2")),
    ] {
        assert_eq!(
            parse(text).unwrap_err().to_string(),
            error.to_string(),
            "{text}"
        );
    }
    for text in [
        "0 9 L * *",
        "60 * * * *",
        "* 24 * * *",
        "*/0 * * * *",
        "0 9 * * Fri-Mon",
        "0 9 * * Montag",
    ] {
        assert!(
            matches!(parse(text), Err(ScheduleError::Cron { .. })),
            "{text}"
        );
    }
}

#[test]
fn a_step_of_weekdays_is_no_weekday() {
    assert!(parse("0 9 * * Mon-Fri/2").is_ok());
    assert!(parse("0 9 * * */2").is_ok());
}

#[test]
fn a_moment_fires_once() {
    let schedule = parse("*/5 * * * *").unwrap();
    let fired = at("2026-11-16T02:30:00.000Z");
    for noticed in [
        "2026-11-16T02:30:00.000Z",
        "2026-11-16T02:30:00.999Z",
        "2026-11-16T02:30:59.999Z",
    ] {
        assert_eq!(
            schedule.next_after(at(noticed)),
            Some(at("2026-11-16T02:35:00.000Z")),
            "{noticed}"
        );
    }
    assert_eq!(
        schedule.next_after(at("2026-11-16T02:29:59.999Z")),
        Some(fired)
    );
}

#[test]
fn the_end_of_time_is_no_panic() {
    assert_eq!(
        parse("@daily")
            .unwrap()
            .next_after(now().plus(std::time::Duration::MAX)),
        None
    );
}

/// Berlin in 2026: +1, from 29 March 01:00 UTC to 25 October 01:00 UTC +2.
#[derive(Debug, Clone, Copy)]
struct Berlin;

impl Berlin {
    fn change(month: u32, day: u32) -> NaiveDateTime {
        NaiveDate::from_ymd_opt(2026, month, day)
            .unwrap()
            .and_hms_opt(1, 0, 0)
            .unwrap()
    }

    fn offset(hours: i32) -> FixedOffset {
        FixedOffset::east_opt(hours * 3600).unwrap()
    }
}

impl TimeZone for Berlin {
    type Offset = FixedOffset;

    fn from_offset(_: &FixedOffset) -> Self {
        Self
    }

    fn offset_from_local_date(&self, _: &NaiveDate) -> LocalResult<FixedOffset> {
        LocalResult::None
    }

    fn offset_from_local_datetime(&self, local: &NaiveDateTime) -> LocalResult<FixedOffset> {
        let fits = |hours: i32| {
            let offset = Self::offset(hours);
            let utc = *local - TimeDelta::hours(hours.into());
            (self.offset_from_utc_datetime(&utc) == offset).then_some(offset)
        };
        match (fits(2), fits(1)) {
            (Some(summer), Some(winter)) => LocalResult::Ambiguous(summer, winter),
            (Some(only), None) | (None, Some(only)) => LocalResult::Single(only),
            (None, None) => LocalResult::None,
        }
    }

    fn offset_from_utc_date(&self, _: &NaiveDate) -> FixedOffset {
        Self::offset(1)
    }

    fn offset_from_utc_datetime(&self, utc: &NaiveDateTime) -> FixedOffset {
        let is_summer = (Self::change(3, 29)..Self::change(10, 25)).contains(utc);
        Self::offset(if is_summer { 2 } else { 1 })
    }
}

fn in_berlin(text: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = Schedule::parse(text, Zone::Utc, at("2026-01-01T00:00:00.000Z")).unwrap();
    std::iter::successors(schedule.next_in(&Berlin, at(after).utc()), |&last| {
        schedule.next_in(&Berlin, last)
    })
    .take(count)
    .map(|moment| moment.format("%m-%d %H:%M").to_string())
    .collect()
}

#[test]
fn a_time_that_spring_leaves_out_is_shifted() {
    assert_eq!(
        in_berlin("30 2 * * *", "2026-03-27T12:00:00Z", 3),
        ["03-28 01:30", "03-29 01:30", "03-30 00:30"]
    );
    assert_eq!(
        in_berlin("30 2,3 * * *", "2026-03-28T12:00:00Z", 3),
        ["03-29 01:30", "03-30 00:30", "03-30 01:30"]
    );
    let every_half_hour = [
        "03-29 00:00",
        "03-29 00:30",
        "03-29 01:00",
        "03-29 01:30",
        "03-29 02:00",
    ];
    assert_eq!(
        in_berlin("*/30 * * * *", "2026-03-28T23:59:00Z", 5),
        every_half_hour
    );
}

#[test]
fn a_time_that_autumn_brings_twice_fires_once() {
    assert_eq!(
        in_berlin("30 2 * * *", "2026-10-24T12:00:00Z", 3),
        ["10-25 00:30", "10-26 01:30", "10-27 01:30"]
    );
    // Asked in the second of the two hours, for example after a restart.
    assert_eq!(
        in_berlin("30 2 * * *", "2026-10-25T01:10:00Z", 1),
        ["10-26 01:30"]
    );
}

#[test]
fn every_five_minutes_goes_on_through_autumn() {
    let firings = in_berlin("*/30 * * * *", "2026-10-24T23:59:00Z", 7);
    let expected = [
        "10-25 00:00",
        "10-25 00:30",
        "10-25 01:00",
        "10-25 01:30",
        "10-25 02:00",
        "10-25 02:30",
        "10-25 03:00",
    ];
    assert_eq!(firings, expected);
}

#[test]
fn far_from_a_change_and_over_it() {
    assert_eq!(
        in_berlin("0 9 * * *", "2026-07-01T12:00:00Z", 2),
        ["07-02 07:00", "07-03 07:00"]
    );
    assert_eq!(
        in_berlin("0 9 1 12 *", "2026-07-01T12:00:00Z", 1),
        ["12-01 08:00"]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in "[-*/,?@0-9A-Za-z ]{0,30}") {
        if let Ok(schedule) = parse(&text) {
            prop_assert!(schedule.next_after(now()).is_some());
        }
    }

    /// Also around the changes of the clock, where the crate by itself goes backwards.
    #[test]
    fn time_only_goes_on(minutes in 0i64..525_600, text in prop::sample::select(vec![
        "*/5 * * * *", "30 2 * * *", "0 2,3 * * *", "15 1-3 * * Sun", "@hourly", "@daily", "0 0 25 10 *",
    ])) {
        let schedule = parse(text).unwrap();
        let after = at("2026-01-01T00:00:00Z").utc() + TimeDelta::minutes(minutes);
        let next = schedule.next_in(&Berlin, after).unwrap();
        prop_assert!(next > after);
        let nearer = schedule.next_in(&Berlin, after + (next - after) / 2).unwrap();
        prop_assert_eq!(nearer, next);
    }
}
