//! Watches the files of the settings while the daemon runs: every check does a `stat` of each file,
//! and reads them only if a `stat` differs.

use std::time::{Duration, Instant};

use super::reload::LOOK;
use crate::config::{Loaded, Stats, Watched};

/// Time after a change was applied during which a fix that noticed it just before may still be put
/// on hold for it.
const LATE: Duration = Duration::from_secs(30);

pub(super) struct Watch {
    watched: Watched,
    /// Fingerprint of the settings in effect.
    in_force: String,
    stats: Option<Stats>,
    seen: Option<Seen>,
    in_force_since: Instant,
}

/// Content that differs from the settings in effect.
struct Seen {
    fingerprint: String,
    since: Instant,
    is_judged: bool,
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileState {
    Nothing,
    /// The files match the settings in effect again.
    Back,
    /// The content differs from the settings in effect and has been stable for long enough.
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
        // Directories may be on a network: never block the threads that everything else runs on.
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
                tracing::error!(error = ?error, "cannot check the configuration files");
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

    /// Records that this content was refused: it is not judged again before it changes.
    pub(super) fn refused(&mut self, fingerprint: String) {
        self.seen = Some(Seen {
            fingerprint,
            since: Instant::now(),
            is_judged: true,
        });
    }

    /// True if no differing content is known and the settings came into force recently.
    pub(super) fn is_fresh(&self) -> bool {
        self.seen.is_none() && self.in_force_since.elapsed() < LATE
    }

    /// Records that the files match the settings in effect from now on.
    pub(super) fn begins_anew(&mut self) {
        self.in_force_since = Instant::now();
    }
}
