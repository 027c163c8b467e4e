//! What is read from the forge, and what is taken over from there: through the program, with the stand-in for GitHub.

mod discover;
mod reads;
mod slow;
pub(crate) mod stage;
mod troubles;
mod trust;
mod watch;
