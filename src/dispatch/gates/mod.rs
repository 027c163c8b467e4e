//! The project's own commands, set-up and gates, and the checkouts that they run in.

pub(super) mod base_gates;
pub(super) mod gate_checkout;
pub(super) mod gate_results;
pub(super) mod gate_run;
pub(super) mod gate_summary;
pub(super) mod init_trial;
pub(super) mod project_commands;
pub(super) mod setup;
