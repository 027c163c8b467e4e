//! The real Claude Code as agent, with the test's model on loopback: its input, the interpretation
//! of its end, and its progress while it works. `tests/run` installs it.

mod confined;
mod live;
mod stage;
mod task;
mod trouble;
mod whole;
