//! Applies the proposals of evaluators, and creates the snapshot for command evaluators.

pub(super) mod apply_proposal;
pub(super) mod evaluator_requests;
pub(super) mod evaluator_snapshot;
pub(super) mod probes;
pub(super) mod pull_moves;
