//! Formats times and durations for people.

use std::time::Duration;

use crate::clock::Time;

/// Formats a time in the past: `3 min ago`.
pub(crate) fn ago(then: Time, now: Time) -> String {
    let gone = now.since(then);
    if gone < Duration::from_secs(10) {
        "just now".into()
    } else {
        format!("{} ago", span(gone))
    }
}

/// Formats a time in the future: `in 4 min`, or `now` if it has been reached.
pub(crate) fn ahead(then: Time, now: Time) -> String {
    let left = then.since(now);
    if left.is_zero() {
        "now".into()
    } else {
        format!("in {}", span(left))
    }
}

/// Formats a duration in the largest suitable unit.
pub(crate) fn span(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        s @ 1..=119 => format!("{s} s"),
        s @ 120..=7_199 => format!("{} min", s / 60),
        s @ 7_200..=172_799 => format!("{} h", s / 3_600),
        s => format!("{} days", s / 86_400),
    }
}

/// Parses a duration as people type it: `36h`, `90d`, `12w`.
pub(crate) fn read_span(text: &str) -> Result<Duration, String> {
    let bad = || {
        format!(
            "`{text}` is not a duration: use a whole number of at least 1 followed by h (hours), d (days) or w (weeks), as in 36h, 90d, 12w"
        )
    };
    let at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
    let (number, unit) = text.split_at_checked(at).ok_or_else(bad)?;
    let hours: u64 = match unit {
        "h" => 1,
        "d" => 24,
        "w" => 7 * 24,
        _ => return Err(bad()),
    };
    let number: u64 = number
        .parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(bad)?;
    // More than a thousand years is a typo.
    let all = number
        .checked_mul(hours)
        .filter(|all| *all <= 1_000 * 366 * 24)
        .ok_or_else(bad)?;
    Ok(Duration::from_secs(all * 3_600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_people_type_it() {
        let hours = |text: &str| read_span(text).map(|time| time.as_secs() / 3_600);
        assert_eq!(
            [hours("36h"), hours("90d"), hours("12w")],
            [Ok(36), Ok(2_160), Ok(2_016)]
        );
        for text in [
            "",
            "90",
            "d",
            "0d",
            "-1d",
            "1.5d",
            "90 d",
            "90D",
            "3m",
            "90days",
            "99999999999999999999d",
            "9999999w",
            "٣d",
        ] {
            assert!(
                read_span(text).is_err_and(|said| said.contains("36h, 90d, 12w")),
                "{text}"
            );
        }
    }

    #[test]
    fn as_people_say_it() {
        let now = Time::from_millis(1_800_000_000_000);
        let before = |s: i64| ago(Time::from_millis(now.millis() - s * 1000), now);
        let after = |s: i64| ahead(Time::from_millis(now.millis() + s * 1000), now);
        let said: Vec<String> = [0, 9, 10, 119, 120, 7_199, 7_200, 172_800]
            .into_iter()
            .map(before)
            .collect();
        assert_eq!(
            said.join(", "),
            "just now, just now, 10 s ago, 119 s ago, 2 min ago, 119 min ago, 2 h ago, 2 days ago"
        );
        assert_eq!(
            [after(-5), after(0), after(90), after(240)].join(", "),
            "now, now, in 90 s, in 4 min"
        );
    }
}
