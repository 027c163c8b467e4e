//! Consequences of a failed read: the time of the next attempt, and whether the change has to wait for it. Pure.

use std::time::Duration;

use super::IntakeError;
use crate::blackboard::{RATE_WINDOW, Rate, is_ahead};
use crate::clock::{self, Time};
use crate::github::GithubError;
use crate::pull_request::ReadTrouble;
use crate::sanitize;
use crate::text;

/// Number of fetches in a row that ran out of time after which a person is needed.
pub(super) const SLOW_READS: i64 = 3;

/// Number of equal refusals in a row after which a refusal is not considered temporary.
pub(super) const REFUSALS: i64 = 3;

/// Reason of a failed read, and the time of the next attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadFailure {
    pub(super) reason: String,
    pub(super) code: ReadTrouble,
    pub(super) next_read: Time,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing can be done for the change until the cause is gone.
    Holds,
    /// Matters only to a change that waits for the read.
    HoldsIfNeeded,
    /// Does not pass by itself.
    Refused,
    /// The fetch ran out of time; matters only to a change that waits for the read.
    TooSlow,
}

/// `failures` is the number of failures in a row before this one.
pub(super) fn trouble(
    error: &GithubError,
    failures: i64,
    backoff: (Duration, Duration),
    now: Time,
) -> ReadFailure {
    let later = now.plus(clock::backoff(failures, backoff));
    let (next_read, kind) = match error {
        GithubError::Limited { until } => {
            // Uses the forge's clock: ours may be behind.
            let until = until
                .filter(|until| *until > now)
                .map(|until| until.min(now.plus(RATE_WINDOW)));
            (until.unwrap_or(later), Kind::Holds)
        }
        GithubError::NoGh | GithubError::LoggedOut | GithubError::Auth { .. } => {
            (later, Kind::Holds)
        }
        GithubError::NotFound { .. } | GithubError::Refused { .. } => (later, Kind::Refused),
        GithubError::Transient { .. } | GithubError::Broken { .. } => (later, Kind::HoldsIfNeeded),
    };
    ReadFailure {
        reason: format!("{error}; {}", error.hint()),
        code: code(error),
        next_read,
        kind,
    }
}

/// The fetch ran out of time after this number of pages.
pub(super) fn too_slow(
    limit: Duration,
    pages: usize,
    failures: i64,
    backoff: (Duration, Duration),
    now: Time,
) -> ReadFailure {
    let reason = format!(
        "GitHub did not send everything within {} s; what was read so far ({}) is kept for the next attempt",
        limit.as_secs(),
        text::count(pages, "page")
    );
    ReadFailure {
        reason,
        code: ReadTrouble::TooSlow,
        next_read: now.plus(clock::backoff(failures, backoff)),
        kind: Kind::TooSlow,
    }
}

/// The read succeeded, but the blackboard refused it.
pub(super) fn not_kept(error: &IntakeError, next_read: Time) -> ReadFailure {
    let reason = format!("cannot store what was read: {}", sanitize::chain(error));
    ReadFailure {
        reason,
        code: ReadTrouble::NotStored,
        next_read,
        kind: Kind::HoldsIfNeeded,
    }
}

fn code(error: &GithubError) -> ReadTrouble {
    match error {
        GithubError::Limited { .. } => ReadTrouble::Limited,
        GithubError::NoGh => ReadTrouble::NoGh,
        GithubError::LoggedOut | GithubError::Auth { .. } => ReadTrouble::LoggedOut,
        GithubError::NotFound { .. } => ReadTrouble::NotFound,
        GithubError::Refused { .. } => ReadTrouble::Refused,
        GithubError::Transient { .. } => ReadTrouble::Transient,
        GithubError::Broken { .. } => ReadTrouble::Broken,
    }
}

/// True if any other request would fail in the same way.
pub(super) fn is_everywhere(error: &GithubError) -> bool {
    matches!(error, GithubError::NoGh | GithubError::Limited { .. })
}

/// Set when the rate limit is used up except for the reserve, and has not been reset yet.
pub(super) fn spent(rate: &Rate, reserve: i64, now: Time) -> Option<ReadFailure> {
    if rate.remaining >= reserve
        || clock::is_due(rate.resets_at, now, RATE_WINDOW)
        || is_ahead(rate.seen_at, now)
    {
        return None;
    }
    let Rate {
        remaining,
        allowed,
        resets_at,
        ..
    } = rate;
    Some(ReadFailure {
        reason: format!(
            "GitHub's rate limit is used up except for the reserve: {remaining} of {allowed} left until {resets_at}"
        ),
        code: ReadTrouble::Limited,
        next_read: *resets_at,
        kind: Kind::HoldsIfNeeded,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));

    fn at(seconds: u64) -> Time {
        Time::from_millis(0).plus(Duration::from_secs(seconds))
    }

    #[test]
    fn each_trouble_has_its_time_and_what_it_stops() {
        let text = || "x".to_owned();
        for (error, failures, next_read, kind) in [
            (GithubError::NoGh, 0, at(160), Kind::Holds),
            (GithubError::LoggedOut, 1, at(220), Kind::Holds),
            (
                GithubError::Auth {
                    message: text(),
                    url: None,
                },
                1,
                at(220),
                Kind::Holds,
            ),
            (
                GithubError::Limited {
                    until: Some(at(900)),
                },
                3,
                at(900),
                Kind::Holds,
            ),
            (
                GithubError::Limited {
                    until: Some(at(50)),
                },
                0,
                at(160),
                Kind::Holds,
            ),
            (
                GithubError::Limited { until: None },
                2,
                at(340),
                Kind::Holds,
            ),
            (
                GithubError::NotFound { path: text() },
                0,
                at(160),
                Kind::Refused,
            ),
            (
                GithubError::Refused {
                    status: 451,
                    message: text(),
                    details: Vec::new(),
                },
                0,
                at(160),
                Kind::Refused,
            ),
            (
                GithubError::Transient {
                    path: text(),
                    what: text(),
                },
                60,
                at(3700),
                Kind::HoldsIfNeeded,
            ),
            (
                GithubError::Broken {
                    path: text(),
                    what: text(),
                },
                0,
                at(160),
                Kind::HoldsIfNeeded,
            ),
        ] {
            let told = trouble(&error, failures, BACKOFF, at(100));
            assert_eq!((told.next_read, told.kind), (next_read, kind), "{error}");
            assert!(told.reason.contains(error.hint()), "{}", told.reason);
        }
    }

    #[test]
    fn the_reserve_is_the_users() {
        let rate = |remaining| Rate {
            allowed: 5000,
            remaining,
            resets_at: at(900),
            seen_at: at(0),
        };
        assert_eq!(spent(&rate(500), 500, at(100)), None);
        assert_eq!(spent(&rate(480), 500, at(900)), None, "it is renewed");
        let told = spent(&rate(480), 500, at(100)).unwrap();
        assert_eq!(told.next_read, at(900));
        insta::assert_snapshot!(told.reason, @"GitHub's rate limit is used up except for the reserve: 480 of 5000 left until 1970-01-01T00:15:00.000Z");
    }
}
