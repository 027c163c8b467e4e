//! One fetch of all that is said on a pull request: its lists share a deadline, and pages survive a fetch that ran out of
//! time, so that the next one goes on where it ended.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::Github;

/// Bytes of the pages that are kept for the next try. What is more is asked for again.
const KEPT_BYTES: usize = 64 * 1024 * 1024;

/// Pages that were read, by their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptPages(BTreeMap<String, KeptPage>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptPage {
    pub(super) etag: String,
    pub(super) leads_on: bool,
    /// None: as it was when it was read before.
    pub(super) body: Option<String>,
}

/// The deadline that several questions share, and the pages that need not be asked for.
pub(crate) struct Fetch {
    deadline: Instant,
    kept: KeptPages,
}

impl Github {
    /// Begins a fetch that must be over after `limit`. `kept` are the pages of one that ran out of time.
    pub(crate) fn begin_fetch(limit: Duration, kept: KeptPages) -> Fetch {
        Fetch {
            deadline: Instant::now() + limit,
            kept,
        }
    }

    /// A fetch of one question.
    pub(super) fn single_fetch(&self) -> Fetch {
        Fetch {
            deadline: self.deadline(),
            kept: KeptPages::default(),
        }
    }
}

impl Fetch {
    /// Whether the time is over: then a failure is that of a slow forge.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// The pages that were read, for the next try.
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
