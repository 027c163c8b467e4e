//! A person's decisions about changes and projects.

pub(super) mod budget;
pub(super) mod decisions;
pub(super) mod fix_bound;
pub(super) mod guidance;
pub(super) mod operator_actions;
pub(super) mod pause;
pub(super) mod stops;
pub(super) mod takeover;
