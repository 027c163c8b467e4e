//! The daemon running on a blackboard, as shown by `status`, `doctor` and `service status`.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::context::CommandContext;
use super::ui::{Line, TextStyle};
use crate::blackboard as bb;
use crate::cli::service::{Elsewhere, FoundUnit, Owner};
use crate::clock::Time;
use crate::daemon::{self, Record};
use crate::explain::Daemon;
use crate::text::prefixed;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RunningDaemon {
    /// Null if the lock does not contain it.
    pub(crate) pid: Option<u32>,
    /// Null, like the next three fields, for a daemon of a version that does not record it.
    pub(crate) version: Option<String>,
    pub(crate) started_at: Option<Time>,
    pub(crate) program: Option<String>,
    /// True if the file at `program` was replaced or removed.
    pub(crate) replaced: Option<bool>,
    #[serde(skip)]
    pub(crate) supervised: bool,
}

impl RunningDaemon {
    pub(crate) fn of(blackboard: &Path) -> Option<Self> {
        let pid = daemon::holder(blackboard)?.parse().ok();
        let record = Record::of_running(blackboard);
        Some(Self {
            pid,
            replaced: record.as_ref().map(Record::is_replaced),
            supervised: record.as_ref().is_some_and(|record| record.supervised),
            started_at: record.as_ref().map(|record| record.started_at),
            program: record
                .as_ref()
                .map(|record| record.program.display().to_string()),
            version: record.map(|record| record.version),
        })
    }

    pub(crate) fn sentence(&self) -> String {
        let version = prefixed(", version ", self.version.as_ref());
        let replaced = self
            .replaced_sentence()
            .map(|(what, what_to_do)| format!("; {what}: {what_to_do}"));
        format!(
            "running with pid {}{version}{}",
            self.pid_text(),
            replaced.unwrap_or_default()
        )
    }

    /// Message that the program was replaced, and the command to run.
    pub(crate) fn replaced_sentence(&self) -> Option<(String, String)> {
        let program = self
            .program
            .as_ref()
            .filter(|_| self.replaced == Some(true))?;
        let what = format!("its program {program} was replaced after it started");
        Some((
            what,
            format!(
                "restart it to run the new version: {}",
                self.how_to_restart()
            ),
        ))
    }

    fn how_to_restart(&self) -> String {
        let owners = [Owner::User, Owner::Machine]
            .into_iter()
            .filter(|_| self.supervised);
        match owners.filter_map(FoundUnit::of).next() {
            Some(unit) => format!("`{}`", unit.restart_command()),
            None => format!("`kill {}`, then `remand run`", self.pid_text()),
        }
    }

    fn pid_text(&self) -> String {
        self.pid.map_or("unknown".to_owned(), |pid| pid.to_string())
    }
}

/// Command in the line that `absence` prints.
pub(crate) const START: &str = "remand run";

/// Prints, as the first line, that no daemon is running while there are changes that it would
/// watch. True if printed.
pub(crate) fn absence(ctx: &mut CommandContext) -> Result<bool> {
    let is_running = ctx.around()?.daemon == Daemon::Runs;
    if is_running || !ctx.read(bb::any_live_change)? {
        return Ok(false);
    }
    let text = format!("no daemon is running: start it with `{START}` or `remand service install`");
    ctx.out.hanging(Line::new(), 2, TextStyle::Notice, &text)?;
    Ok(true)
}

/// Prints that no daemon is running here while the system service uses another blackboard.
pub(crate) fn elsewhere_note(ctx: &mut CommandContext) -> Result<()> {
    if let Some(elsewhere) = Elsewhere::than(&ctx.settings()?.blackboard) {
        let what = format!(
            "no daemon is running on this blackboard; {}",
            elsewhere.sentence()
        );
        ctx.out.note(
            Line::new()
                .piece(TextStyle::Notice, what)
                .plain(format!(": {}", elsewhere.remedy())),
        )?;
    }
    Ok(())
}
