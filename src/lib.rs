//! remand sends rejected work back to an agent that can fix it, a bounded number of times, and to a
//! person when that is not enough. `docs/architecture.md` is the map of the rooms below.

mod change;
mod clock;
mod event;
mod finding;
mod git;
mod process;
mod words;
mod work;
