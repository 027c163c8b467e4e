//! The program is killed, stopped and held up, at every line and at any moment, and started again: what comes of it
//! must be what comes of a run that nobody disturbed. See `src/crash.rs` for the named lines.

mod kills;
mod stage;
mod stops;
#[cfg(feature = "failpoints")]
mod sweep;
