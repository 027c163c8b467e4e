//! All integration tests, in one binary: linking is the slow part.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "the lints that let tests off do not reach the helpers of integration tests"
)]

mod add;
mod agents;
mod artifacts;
mod budget;
mod checks;
mod claude;
mod cli;
mod clock;
mod crash;
mod decisions;
mod demo;
mod doctor;
mod endless;
mod evaluators;
mod evaluators_apart;
mod feedback_loop;
mod first_hour;
mod forge;
mod git_processes;
mod hidden;
mod init;
mod intake;
mod looks;
mod lost;
mod migration;
mod open_pull;
mod overtaken;
mod people;
mod process;
mod prose;
mod pulls;
mod red_head;
mod refusals;
mod remotes;
mod self_review;
mod service;
mod shadow;
mod smoke;
mod special_files;
mod support;
mod tasks;
mod tidy;
mod tools;
mod transitions;
mod vanished;
mod wait;
mod wakes;
mod worktree_life;
mod worktrees;
