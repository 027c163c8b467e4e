//! Keeps the lease of an item alive during its work, and notices the end of the claim.

use std::time::Duration;

use crate::blackboard::{self as bb, BoardError};
use crate::clock;
use crate::dispatch::Dispatch;
use crate::dispatch::task::Signs;
use crate::work::Claim;

impl Dispatch {
    /// Renews until it is dropped. An ended claim cancels `fenced`; so does a blackboard that could not be written
    /// until the lease had nearly expired, since somebody else may have the item by then. `stop --now` cancels
    /// `halted`.
    pub(in crate::dispatch) async fn keep_lease(&self, claim: Claim, signs: Signs) {
        let Signs { fenced, halted, .. } = signs;
        let lease = self.settings.lease;
        let mut look = tokio::time::interval(LOOK.min(lease / 3));
        let mut renewed = tokio::time::Instant::now();
        loop {
            look.tick().await;
            if renewed.elapsed() < lease / 3 {
                match self.standing(&claim).await {
                    Standing::Ours => {}
                    Standing::Halted => halted.cancel(),
                    Standing::Over => return fenced.cancel(),
                }
                continue;
            }
            let ours = claim.clone();
            match self
                .db
                .write("renew", move |conn| {
                    bb::renew(conn, &ours, lease, clock::now())
                })
                .await
            {
                Ok(()) => renewed = tokio::time::Instant::now(),
                Err(BoardError::Stale { .. }) => return fenced.cancel(),
                Err(error) => {
                    tracing::warn!(item = %claim.item_id, error = ?error, "cannot renew a lease");
                    if renewed.elapsed() > lease * 4 / 5 {
                        return fenced.cancel();
                    }
                }
            }
        }
    }

    pub(crate) async fn still_ours(&self, claim: &Claim) -> bool {
        self.standing(claim).await != Standing::Over
    }

    async fn standing(&self, claim: &Claim) -> Standing {
        let ours = claim.clone();
        let looked = self.db.read(move |conn| {
            let item = bb::item(conn, &ours.item_id)?;
            if item.epoch != ours.epoch || item.claimed_by.is_none() {
                return Ok(Standing::Over);
            }
            Ok(if bb::is_halted(conn, &item.project_id)? {
                Standing::Halted
            } else {
                Standing::Ours
            })
        });
        // A failed check does not prove that the claim has ended; the next renewal decides.
        looked.await.unwrap_or(Standing::Ours)
    }
}

/// State of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Ours,
    /// Still ours, but its agent has to be ended.
    Halted,
    Over,
}

/// Interval at which a cancelled item is noticed.
const LOOK: Duration = Duration::from_millis(500);
