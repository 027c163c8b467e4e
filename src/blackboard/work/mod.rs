//! Work items from claim to end: runs, reviews, holds, rejections by gates.

pub(super) mod claim;
pub(super) mod coverage;
pub(super) mod deadlines;
pub(super) mod finish;
pub(super) mod gate_rejection;
pub(super) mod hold;
pub(super) mod items;
pub(super) mod runs;
pub(super) mod task_edit;
pub(super) mod tasks;
pub(super) mod waiting;
