//! remand sends rejected work back to an agent that can fix it, a bounded number of times, and to a
//! person when that is not enough. `docs/architecture.md` is the map of the rooms below.

mod blackboard;
mod change;
mod clock;
mod config;
mod crash;
mod event;
mod finding;
mod keypath;
mod proposal;
mod snippet;
mod state;
mod words;
mod work;
