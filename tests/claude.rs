//! The real Claude Code as agent, with a model of the test's own on loopback: what it is given, how its end is read, and
//! what is seen of it while it works. `tests/run` installs it.

mod confined;
mod live;
mod stage;
mod trouble;
mod whole;
