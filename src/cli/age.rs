//! Moments as people say them.

use std::time::Duration;

use crate::clock::Time;

/// `3 min ago`
pub(crate) fn ago(then: Time, now: Time) -> String {
    let gone = now.since(then);
    if gone < Duration::from_secs(5) { "just now".into() } else { format!("{} ago", span(gone)) }
}

/// `in 4 min`; a moment that has come is `now`.
pub(crate) fn ahead(then: Time, now: Time) -> String {
    let left = then.since(now);
    if left.is_zero() { "now".into() } else { format!("in {}", span(left)) }
}

/// In the largest unit that leaves a number worth saying.
pub(crate) fn span(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        s @ 1..=119 => format!("{s} s"),
        s @ 120..=7_199 => format!("{} min", s / 60),
        s @ 7_200..=172_799 => format!("{} h", s / 3_600),
        s => format!("{} days", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_people_say_it() {
        let now = Time::from_millis(1_800_000_000_000);
        let before = |s: i64| ago(Time::from_millis(now.millis() - s * 1000), now);
        let after = |s: i64| ahead(Time::from_millis(now.millis() + s * 1000), now);
        let said: Vec<String> = [0, 4, 5, 119, 120, 7_199, 7_200, 172_800].into_iter().map(before).collect();
        assert_eq!(
            said.join(", "),
            "just now, just now, 5 s ago, 119 s ago, 2 min ago, 119 min ago, 2 h ago, 2 days ago"
        );
        assert_eq!([after(-5), after(0), after(90), after(240)].join(", "), "now, now, in 90 s, in 4 min");
    }
}
