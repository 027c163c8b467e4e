//! Reading from the forge, and adopting pull requests: through the program, with the fake GitHub.

mod discover;
mod reads;
mod slow;
pub(crate) mod stage;
mod troubles;
mod trust;
mod watch;
