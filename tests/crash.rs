//! The program is killed, stopped and paused, at every line and at any moment, and started again:
//! the result must be that of an undisturbed run. See `src/failpoint.rs` for the named lines.

mod kills;
mod pull_kills;
mod pull_pair;
mod pull_scene;
mod pull_stage;
#[cfg(feature = "failpoints")]
mod pull_sweep;
mod real_gh;
mod stage;
mod stops;
#[cfg(feature = "failpoints")]
mod sweep;
