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

mod agents;
mod cli;
mod crash;
mod endless;
mod feedback_loop;
mod lost;
mod overtaken;
mod people;
mod process;
mod refusals;
mod smoke;
mod support;
mod tidy;
mod wakes;
mod worktrees;
