//! Change with its explanation, as shown by `list`, `status` and each command on a change.

use serde::Serialize;

use super::change::explain;
use super::explanation::Explanation;
use super::facts::{Around, Daemon, Facts};
use crate::blackboard::{self as bb, BoardRow, Conn};
use crate::change::{Change, ChangeId};
use crate::check::Check;
use crate::pull_request::PullRow;

/// Change with what it waits for.
#[derive(Debug, Serialize)]
pub(crate) struct ChangeView {
    #[serde(flatten)]
    pub(crate) row: BoardRow,
    /// Number of fixes, as `fix 1/2`.
    pub(crate) cycle: String,
    pub(crate) why: Explanation,
    /// Name of its pull request, as `owner/repo#42`.
    pub(crate) pr: Option<String>,
    /// Its pull request, as last read.
    pub(crate) pull: Option<PullRow>,
    /// Checks of its pull request's head, required ones first.
    pub(crate) checks: Vec<Check>,
    pub(crate) daemon_running: bool,
}

impl ChangeView {
    pub(crate) fn of(conn: &Conn, id: &ChangeId, around: Around) -> bb::Result<Self> {
        Self::gather(conn, bb::board_row(conn, bb::change(conn, id)?)?, around)
    }

    pub(crate) fn gather(conn: &Conn, row: BoardRow, around: Around) -> bb::Result<Self> {
        let facts = Facts::gather(conn, row, around)?;
        Ok(Self {
            cycle: facts.row.change.cycle_text(),
            why: explain(&facts),
            pr: facts.pr,
            daemon_running: facts.daemon == Daemon::Runs,
            pull: facts.pull,
            checks: facts.checks,
            row: facts.row,
        })
    }

    pub(crate) fn change(&self) -> &Change {
        &self.row.change
    }
}
