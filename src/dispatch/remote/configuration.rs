//! Gates and pushes use the configuration in effect, and only while its files are unchanged.

use std::sync::Arc;

use crate::blackboard as bb;
use crate::change::HoldKind;
use crate::dispatch::interrupt::{Interrupt, Result};
use crate::dispatch::task::Task;
use crate::process::ProcessId;
use crate::work::Run;

/// The files that the settings were loaded from.
pub(crate) struct Configuration {
    /// The config file.
    pub(crate) file: Option<String>,
    pub(crate) fingerprint: String,
    /// Reads the files again and returns the names of those that changed. Blocks.
    pub(crate) changed: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
}

impl Task {
    /// Checks before gates and pushes. If the settings were replaced since the claim, the item is returned and claimed
    /// again with the new ones; if files changed and are not in effect, the change is held.
    pub(crate) async fn configuration_in_force(&self) -> Result<()> {
        let settings = Arc::clone(&self.dispatch.settings);
        if !Arc::ptr_eq(&settings, &self.dispatch.latest.borrow()) {
            return Err(Interrupt::Reloaded);
        }
        let changed = Arc::clone(&settings.configuration.changed);
        let changed = tokio::task::spawn_blocking(move || changed())
            .await
            .map_err(|error| Interrupt::hold(format!("cannot read the configuration: {error}")))?;
        if !changed.is_empty() {
            return Err(not_in_force(&format!(
                "changes to {} are not in effect",
                changed.join(", ")
            )));
        }
        let Some(row) = self.read(bb::configuration).await? else {
            return Ok(());
        };
        let is_same_file = row.file == settings.configuration.file;
        if is_same_file
            && row.hash != settings.configuration.fingerprint
            && self.is_another_daemon(&row.holder)
        {
            return Err(not_in_force(
                "the running daemon's configuration differs from its files",
            ));
        }
        Ok(())
    }

    fn is_another_daemon(&self, holder: &str) -> bool {
        let is_alive = |id: &str| {
            id.parse::<ProcessId>()
                .and_then(|process| process.is_alive())
                .unwrap_or(false)
        };
        holder != self.dispatch.holder && is_alive(holder)
    }

    /// The gates in effect, as stored with the result of a run.
    fn gate_rules(&self) -> String {
        serde_json::json!({ "gates": self.rules.gates, "gate_in": self.rules.gate_in }).to_string()
    }

    /// Records the gates that are about to run.
    pub(crate) async fn begin_gates(&self, run: &Run) -> Result<()> {
        let (id, rules) = (run.run_id.clone(), self.gate_rules());
        self.record("begin_gates", move |conn, claim| {
            bb::begin_gates(conn, claim, &id, &rules)
        })
        .await
    }

    /// True if the gates that passed are still the configured ones. If not, their result is dropped and they run again.
    pub(crate) async fn gates_hold(&self, run: &Run) -> Result<bool> {
        if run.gate_rules.as_ref() == Some(&self.gate_rules()) {
            return Ok(true);
        }
        let id = run.run_id.clone();
        self.record("forget_gates", move |conn, claim| {
            bb::forget_gates(conn, claim, &id)
        })
        .await?;
        Ok(false)
    }
}

fn not_in_force(what: &str) -> Interrupt {
    let reason = format!(
        "{what}: nothing is pushed until this is resolved (`remand config check`, `remand reload`)"
    );
    Interrupt::hold_by(HoldKind::Configuration, reason)
}
