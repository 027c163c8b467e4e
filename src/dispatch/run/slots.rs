//! Items that are running here. When the work on one has ended, its claim is checked once more: work that panicked, or
//! whose end could not be written, would otherwise keep its item claimed by a living process forever.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use tokio::task::{Id, JoinSet};

use crate::blackboard::{self as bb, BoardError};
use crate::clock;
use crate::dispatch::Dispatch;
use crate::work::Claim;

#[derive(Default)]
pub(crate) struct Slots {
    running: JoinSet<()>,
    claims: HashMap<Id, Claim>,
    /// Their work has ended; the blackboard may not have recorded that yet.
    over: Vec<Claim>,
}

impl Slots {
    pub(crate) fn in_use(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn start(&mut self, claim: Claim, work: impl Future<Output = ()> + Send + 'static) {
        let id = self.running.spawn(work).id();
        self.claims.insert(id, claim);
    }

    /// Waits until the work on an item has ended; returns none if none is running. Cancel-safe.
    pub(crate) async fn ended(&mut self) -> Option<()> {
        let id = match self.running.join_next_with_id().await? {
            Ok((id, ())) => id,
            Err(error) => {
                tracing::error!(error = ?error, "work on an item panicked");
                error.id()
            }
        };
        self.over.extend(self.claims.remove(&id));
        Some(())
    }
}

impl Dispatch {
    /// Returns the items whose work has ended and which are still claimed; not immediately, since the cause may still
    /// be there.
    pub(crate) async fn give_back_unwritten(self: &Arc<Self>, slots: &mut Slots) {
        for claim in std::mem::take(&mut slots.over) {
            if !self.still_ours(&claim).await {
                continue;
            }
            let (ours, now) = (claim.clone(), clock::now());
            let again = self.settings.backoff(0, now);
            let given = self.db.write("give_back_unwritten", move |conn| {
                bb::give_back(conn, &ours, Some(again), now)
            });
            match given.await {
                Ok(()) => {
                    tracing::warn!(item = %claim.item_id, again_at = %again, "cannot write an item's result, retrying later");
                }
                Err(BoardError::Stale { .. }) => {}
                Err(error) => {
                    tracing::error!(item = %claim.item_id, error = ?error, "cannot return an item");
                    slots.over.push(claim);
                }
            }
        }
    }
}
