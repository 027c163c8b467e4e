//! The files of the settings, looked at while the daemon runs: a `stat` of each at every look, and a read only after one
//! that is different.

use std::time::{Duration, Instant};

use super::reload::LOOK;
use crate::config::{Loaded, Stats, Watched};

/// After a change was applied, a fix that noticed it just before may still be put on hold for it.
const LATE: Duration = Duration::from_secs(30);

pub(super) struct Watch {
    watched: Watched,
    /// The fingerprint of what is in force.
    in_force: String,
    stats: Option<Stats>,
    seen: Option<Seen>,
    in_force_since: Instant,
}

/// Content that is not in force.
struct Seen {
    fingerprint: String,
    since: Instant,
    is_judged: bool,
}

/// What a look finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileState {
    Nothing,
    /// The files are again what is in force.
    Back,
    /// Other content than is in force, the same for as long as it has to be.
    Stable(String),
}

impl Watch {
    pub(super) fn of(loaded: &Loaded) -> Self {
        Self {
            watched: loaded.watched.clone(),
            in_force: loaded.sources.fingerprint(),
            stats: None,
            seen: None,
            in_force_since: Instant::now(),
        }
    }

    pub(super) async fn look(&mut self) -> FileState {
        let (watched, known) = (self.watched.clone(), self.stats.clone());
        let is_settled = self.seen.as_ref().is_none_or(|seen| seen.is_judged);
        // Folders may be on a network: never on the threads that everything else runs on.
        let looked = tokio::task::spawn_blocking(move || {
            let stats = watched.stats();
            let is_known = is_settled && known.as_ref() == Some(&stats);
            (!is_known).then(|| (stats, watched.read().fingerprint()))
        });
        match looked.await {
            Ok(Some((stats, fingerprint))) => {
                self.stats = Some(stats);
                self.judge(fingerprint)
            }
            Ok(None) => FileState::Nothing,
            Err(error) => {
                tracing::error!(error = ?error, "the settings could not be looked at");
                FileState::Nothing
            }
        }
    }

    fn judge(&mut self, fingerprint: String) -> FileState {
        if fingerprint == self.in_force {
            return if self.seen.take().is_some() {
                FileState::Back
            } else {
                FileState::Nothing
            };
        }
        match &self.seen {
            Some(seen) if seen.fingerprint == fingerprint => {
                // Timers are not exact to the millisecond.
                let is_stable = seen.since.elapsed() + Duration::from_millis(50) >= LOOK;
                if is_stable && !seen.is_judged {
                    FileState::Stable(fingerprint)
                } else {
                    FileState::Nothing
                }
            }
            Some(_) | None => {
                self.seen = Some(Seen {
                    fingerprint,
                    since: Instant::now(),
                    is_judged: false,
                });
                FileState::Nothing
            }
        }
    }

    /// This content was refused: it is not judged again before it changes.
    pub(super) fn refused(&mut self, fingerprint: String) {
        self.seen = Some(Seen {
            fingerprint,
            since: Instant::now(),
            is_judged: true,
        });
    }

    /// Whether nothing is known to be out of force, and that has not been so for long.
    pub(super) fn is_fresh(&self) -> bool {
        self.seen.is_none() && self.in_force_since.elapsed() < LATE
    }

    /// The files are what is in force, from now on.
    pub(super) fn begins_anew(&mut self) {
        self.in_force_since = Instant::now();
    }
}
