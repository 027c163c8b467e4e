//! All integration tests, in one binary: linking is the slow part.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "the lints that let tests off do not reach the helpers of integration tests"
)]

mod cli;
mod process;
mod support;
