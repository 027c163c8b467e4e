//! Tools around the loop: the shell, the manual, backups, retention, following.

mod backup;
mod follow;
pub(crate) mod prune;
mod remnants;
mod shell;
