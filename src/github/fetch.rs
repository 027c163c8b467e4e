//! Fetches all feedback on a pull request. Its lists share a deadline, and pages survive a fetch
//! that timed out, so that the next one continues where it stopped.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::Github;

/// Maximum number of bytes of pages kept for the next attempt. Pages beyond that are requested
/// again.
const KEPT_BYTES: usize = 64 * 1024 * 1024;

/// Pages that were read, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptPages(BTreeMap<String, KeptPage>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptPage {
    pub(super) etag: String,
    pub(super) leads_on: bool,
    /// `None` if unchanged since it was read before.
    pub(super) body: Option<String>,
}

/// Deadline that several requests share, and the pages that need not be requested.
pub(crate) struct Fetch {
    deadline: Instant,
    kept: KeptPages,
}

impl Github {
    /// Starts a fetch that must end within `limit`. `kept` has the pages of one that timed out.
    pub(crate) fn begin_fetch(limit: Duration, kept: KeptPages) -> Fetch {
        Fetch {
            deadline: Instant::now() + limit,
            kept,
        }
    }

    /// Creates a fetch for a single request.
    pub(super) fn single_fetch(&self) -> Fetch {
        Fetch {
            deadline: self.deadline(),
            kept: KeptPages::default(),
        }
    }
}

impl Fetch {
    /// True if the deadline has passed. A failure then means that the forge is slow.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Returns the pages that were read, for the next attempt.
    pub(crate) fn into_kept(self) -> KeptPages {
        self.kept
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(super) fn page(&self, path: &str) -> Option<&KeptPage> {
        self.kept.0.get(path)
    }

    pub(super) fn keep(&mut self, path: &str, page: KeptPage) {
        let size = |page: &KeptPage| page.body.as_ref().map_or(0, String::len);
        let total: usize = self.kept.0.values().map(size).sum();
        if total + size(&page) <= KEPT_BYTES {
            self.kept.0.insert(path.to_owned(), page);
        }
    }
}

impl KeptPages {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
