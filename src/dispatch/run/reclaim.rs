//! Steps before a claim: expired holds, items of dead holders, sources that cannot be run here.

use crate::blackboard::{self as bb, Result};
use crate::clock;
use crate::dispatch::Dispatch;
use crate::process::ProcessId;

impl Dispatch {
    /// Reads first, and writes only if there is something to write.
    pub(crate) async fn sweep(&self) -> Result<()> {
        let holder = self.holder.clone();
        let db = &self.db;
        let read = db.read(move |conn| {
            let due = bb::anything_held_is_due(conn, clock::now())?;
            let unknown = bb::any_unknown_source(conn)?;
            Ok((bb::foreign_claims(conn, &holder)?, due, unknown))
        });
        let (foreign, due, unknown) = read.await?;
        if due {
            let resumed = db.write("resume", |conn| bb::resume_due(conn, clock::now()));
            for change in resumed.await? {
                tracing::info!(change = %change.change_id, "hold expired");
            }
        }
        if unknown {
            db.write("skip_sources", |conn| {
                bb::skip_unknown_sources(conn, clock::now())
            })
            .await?;
        }
        for (claim, holder) in foreign {
            if is_dead(&holder) {
                tracing::warn!(item = %claim.item_id, holder = ?holder, "item reclaimed from a dead process");
                db.write("take_from_dead", move |conn| {
                    bb::take_from_dead(conn, &claim, clock::now())
                })
                .await?;
            }
        }
        self.recover_orphans().await
    }
}

/// True only with proof: another boot, no such process, or another process with its pid. An expired lease of a living
/// holder is no proof, since clocks jump.
pub(crate) fn is_dead(holder: &str) -> bool {
    match holder.parse::<ProcessId>() {
        Ok(id) => matches!(id.is_alive(), Ok(false)),
        Err(error) => {
            tracing::error!(holder = ?holder, error = ?error, "invalid claim holder; the item stays claimed");
            false
        }
    }
}
