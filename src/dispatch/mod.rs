//! Dispatch: claims items, one per slot, and runs them. It proposes nothing and judges no rejection; it meets the
//! heartbeat only on the blackboard.

mod commit;
mod commit_message;
mod fix;
mod fix_size;
mod gates;
mod implement;
mod interrupt;
mod open_pull;
mod prompts;
mod pull_refusals;
mod remote;
mod review;
mod run;
mod settings;
mod shadow;
mod task;
mod upkeep;
mod worktree;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::blackboard::{self as bb, Claimed, Db, Holding};
use crate::change::ChangeId;
use crate::clock;

pub(crate) use gates::init_trial::{Trial, try_out};
pub(crate) use remote::configuration::Configuration;
pub(crate) use remote::post::forge_mark;
pub(crate) use remote::remote_sync::ForgeSettings;
pub(crate) use settings::{DayBound, Limits, Settings};
pub(crate) use upkeep::{
    OwnWorktree, Removal, Upkeep, WorktreeUse, existing_review_file, is_review_of, review_folder,
    review_markdown,
};

use run::slots::Slots;
use task::Task;

/// Interval of checks without a wake-up: a holder may die silently.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The loop that runs items.
pub(crate) struct Dispatch {
    pub(crate) db: Db,
    pub(crate) settings: Arc<Settings>,
    /// The settings in effect, which differ from `settings` once the configuration was reloaded.
    pub(crate) latest: watch::Receiver<Arc<Settings>>,
    /// Identity of this process in claims: boot id, pid, start time.
    pub(crate) holder: String,
    /// Notified after a commit that others may want to read.
    pub(crate) after: Arc<Notify>,
}

impl Dispatch {
    /// Runs until `stop`; then claims nothing new, gives running agents the grace period, ends them and returns their
    /// items. `current` may be replaced by one with other settings, which apply to later claims.
    pub(crate) async fn run(
        current: watch::Receiver<Arc<Self>>,
        wake: Arc<Notify>,
        stop: CancellationToken,
    ) {
        let mut slots = Slots::default();
        loop {
            let dispatch = Arc::clone(&current.borrow());
            // Read once per turn: a stop that comes after this must end the wait below.
            let stopping = stop.is_cancelled();
            dispatch.give_back_unwritten(&mut slots).await;
            if !stopping {
                dispatch.fill(&mut slots, &stop).await;
            }
            if stopping && slots.in_use() == 0 {
                return;
            }
            let pause = dispatch.pause().await;
            tokio::select! {
                () = wake.notified() => {}
                Some(()) = slots.ended() => dispatch.after.notify_one(),
                () = tokio::time::sleep(pause), if !stopping => {}
                () = stop.cancelled(), if !stopping => {}
            }
        }
    }

    /// Runs due items until none are left, or `stop`; after `enough`, those that are running finish. Returns the change of
    /// each item that ran.
    pub(crate) async fn drain(
        self: &Arc<Self>,
        stop: &CancellationToken,
        enough: &CancellationToken,
    ) -> Vec<ChangeId> {
        let mut slots = Slots::default();
        let mut ran = Vec::new();
        loop {
            self.give_back_unwritten(&mut slots).await;
            if !stop.is_cancelled() && !enough.is_cancelled() {
                ran.extend(self.fill(&mut slots, stop).await);
            }
            if slots.ended().await.is_none() {
                return ran;
            }
            self.after.notify_one();
        }
    }

    /// Claims until the slots are full or nothing is due. Returns the change of each claimed item.
    async fn fill(self: &Arc<Self>, slots: &mut Slots, stop: &CancellationToken) -> Vec<ChangeId> {
        let mut claimed = Vec::new();
        if let Err(error) = self.sweep().await {
            tracing::error!(error = ?error, "cannot reclaim items");
        }
        while slots.in_use() < self.settings.slots {
            match self.claim().await {
                Ok(Some(one)) => {
                    claimed.push(one.change.change_id.clone());
                    slots.start(one.claim(), Task::run(Arc::clone(self), one, stop.clone()));
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::error!(error = ?error, "cannot claim items");
                    break;
                }
            }
        }
        if let Err(error) = self.shadow_due(stop).await {
            tracing::error!(error = ?error, "cannot process items of changes in shadow mode");
        }
        claimed
    }

    async fn claim(&self) -> bb::Result<Option<Claimed>> {
        let holding = Holding {
            holder: self.holder.clone(),
            lease: self.settings.lease,
        };
        let db = &self.db;
        let is_ready = db.read(|conn| bb::anything_ready(conn, clock::now()));
        if is_ready.await? {
            let real = holding.clone();
            let claimed = db.write("claim", move |conn| bb::claim(conn, &real, clock::now()));
            if let Some(claimed) = claimed.await? {
                return Ok(Some(claimed));
            }
        }
        let is_due = db.read(|conn| bb::any_shadow_review_due(conn, clock::now()));
        if !is_due.await? {
            return Ok(None);
        }
        db.write("claim_shadow", move |conn| {
            bb::claim_shadow_review(conn, &holding, clock::now())
        })
        .await
    }

    /// Returns the time until something can become due by itself.
    async fn pause(&self) -> Duration {
        let next = self.db.read(bb::next_moment).await.ok().flatten();
        let until = next.map_or(LOOK_AGAIN, |moment| moment.since(clock::now()));
        // A time that has passed without an effect (after a failed write, for example) must not become a busy loop.
        until.clamp(Duration::from_millis(20), LOOK_AGAIN)
    }
}
