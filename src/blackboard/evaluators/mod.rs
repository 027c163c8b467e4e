//! Carrying out what evaluators propose, and the snapshot that command evaluators get.

pub(super) mod apply_proposal;
pub(super) mod evaluator_requests;
pub(super) mod evaluator_snapshot;
pub(super) mod pull_moves;
