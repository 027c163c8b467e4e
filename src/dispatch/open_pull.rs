//! The pull request of a change.

use super::interrupt::{Interrupt, Result};
use super::task::Task;

impl Task {
    pub(super) async fn open_pull(&self) -> Result<()> {
        Err(Interrupt::hold("not built yet"))
    }
}
